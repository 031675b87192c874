//! Texts that wait: steers, wakes in a burst, what they do when a turn ends
//! (contract, "inject"; cases.md, 19).

use super::*;
use crate::limits::{INBOX_BYTES_MAX, INBOX_TEXTS_MAX};

#[test]
fn a_steer_rides_the_next_step() {
    let mut world = World::new(rules());
    world.wake("go");
    assert_eq!(world.steer("one"), NOTHING);
    world.finish(&[("a", "serial", "{}")]);
    world.steer("two");
    let shown = world.tool(0, "done");
    assert_eq!(
        shown,
        [
            "tool/result a done",
            "step/end 1",
            "step/start 2",
            "context/injected one",
            "context/injected two"
        ]
    );
    assert_eq!(world.asked.as_ref().unwrap().fresh, ["one", "two"]);
}

#[test]
fn a_text_without_wake_starts_nothing_and_prolongs_nothing() {
    let mut world = World::new(rules());
    assert_eq!(world.steer("early"), NOTHING);
    assert_eq!(world.status(), Status::Idle);
    assert_eq!(
        world.wake("go"),
        ["turn/start", "step/start 1", "user/message go", "context/injected early"]
    );
    assert_eq!(world.asked.as_ref().unwrap().fresh, ["go", "early"]);
    world.steer("late");
    assert_eq!(world.finish(&[]), ["assistant/message", "step/end 1", "turn/end completed"]);
    assert_eq!(
        world.wake("on"),
        ["turn/start", "step/start 1", "user/message on", "context/injected late"]
    );
}

#[test]
fn a_waking_text_left_at_the_end_of_a_turn_starts_the_next_at_once() {
    let mut world = World::new(rules());
    world.wake("go");
    world.steer("a steer");
    world.wake("first");
    world.wake("second");
    let shown = world.finish(&[]);
    assert_eq!(
        shown[2..],
        [
            "turn/end completed",
            "turn/start",
            "step/start 1",
            "user/message first",
            "context/injected a steer",
            "context/injected second"
        ]
    );
}

#[test]
fn forty_wakes_in_one_burst_are_forty_texts_each_once() {
    let mut world = World::new(rules());
    for n in 0..40 {
        world.wake(&format!("text {n}."));
        assert_eq!(world.refusal(), None);
    }
    while world.asked.is_some() {
        world.finish(&[]);
    }
    let history = format!("{:?}", world.history());
    for n in 0..40 {
        assert_eq!(history.matches(&format!("text {n}.")).count(), 1);
    }
}

#[test]
fn an_inject_at_every_append_of_a_final_step_appears_exactly_once() {
    type Act = fn(&mut World) -> Vec<String>;
    let acts: [Act; 5] = [
        |w| w.wake("go"),
        |w| w.text("some "),
        |w| w.text("answer"),
        |w| w.finish(&[]),
        |w| w.wake("next"),
    ];
    for (place, wake) in (0..=acts.len()).flat_map(|place| [(place, false), (place, true)]) {
        let mut world = World::new(rules());
        for (number, act) in acts.iter().enumerate() {
            if number == place {
                world.command(Command::Inject { text: "the text".into(), wake });
            }
            if number < 3 || world.asked.is_some() || number == 4 {
                act(&mut world);
            }
        }
        if place == acts.len() {
            world.command(Command::Inject { text: "the text".into(), wake });
        }
        while world.asked.is_some() {
            world.finish(&[]);
        }
        world.wake("last");
        let history = format!("{:?}", world.history());
        assert_eq!(history.matches("the text").count(), 1, "at {place}, wake {wake}");
    }
}

#[test]
fn after_a_cancel_or_a_failure_texts_wait_for_the_next_stimulus() {
    for fails in [false, true] {
        let mut world = World::new(rules());
        world.wake("go");
        world.wake("waits");
        world.steer("waits too");
        if fails {
            world.fail("no answer")
        } else {
            world.cancel(None)
        };
        assert_eq!(world.status(), Status::Idle);
        assert_eq!(world.machine.snapshot(&world.rules).inbox_len, 2);
        assert_eq!(
            world.wake("now"),
            [
                "turn/start",
                "step/start 1",
                "user/message now",
                "context/injected waits",
                "context/injected waits too"
            ]
        );
    }
}

#[test]
fn after_a_restart_texts_wait_and_are_neither_lost_nor_doubled() {
    let mut world = World::new(rules());
    world.wake("go");
    world.wake("waits");
    world.restart();
    assert_eq!(world.status(), Status::Interrupted);
    let shown = world.tell(Input::Resume);
    assert_eq!(shown, ["step/end 1", "step/start 2", "context/injected waits"]);
    world.restart();
    let shown = world.tell(Input::Resume);
    assert_eq!(shown, ["step/end 2", "step/start 3"]);
}

#[test]
fn a_text_has_the_same_id_in_the_inbox_and_in_the_log() {
    let mut world = World::new(rules());
    world.wake("go");
    world.steer("a steer");
    world.wake("a wake");
    let waiting = world.unspent();
    world.finish(&[]);
    for text in waiting {
        let event = world.log.iter().find(|event| event.id == text.id).unwrap();
        match &event.body {
            Body::UserMessage { text: logged } => assert!(text.wake && *logged == text.text),
            Body::ContextInjected { text: logged } => assert!(!text.wake && *logged == text.text),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(world.unspent(), []);
}

#[test]
fn a_text_that_enters_the_log_at_once_never_touches_the_inbox_file() {
    let mut world = World::new(rules());
    world.wake("go");
    assert_eq!(world.inbox_file, []);
    world.restart();
    world.wake("resume");
    assert_eq!(world.inbox_file, []);
}

#[test]
fn a_full_inbox_refuses_and_says_so() {
    let mut world = World::new(rules());
    world.wake("go");
    for n in 0..INBOX_TEXTS_MAX {
        world.command(Command::Inject { text: String::new(), wake: n % 2 == 0 });
        assert_eq!(world.refusal(), None);
    }
    for wake in [false, true] {
        assert_eq!(world.command(Command::Inject { text: "more".into(), wake }), NOTHING);
        assert_eq!(world.replies, [(ErrorCode::BadFrame, "inbox full".to_owned())]);
    }
    assert_eq!(world.machine.snapshot(&world.rules).inbox_len, INBOX_TEXTS_MAX);
    world.finish(&[]);
    world.wake("there is room again");
    assert_eq!(world.refusal(), None);
    world.finish(&[]);
    world.finish(&[]);
    world.wake("go");
    world.steer(&"x".repeat(INBOX_BYTES_MAX));
    assert_eq!(world.refusal(), None);
    world.steer("x");
    assert_eq!(world.refusal(), Some(ErrorCode::BadFrame));
}

#[test]
fn a_full_inbox_does_not_keep_an_interrupted_turn_from_being_woken() {
    let mut world = World::new(rules());
    world.wake("go");
    for _ in 0..INBOX_TEXTS_MAX {
        world.steer("");
    }
    world.restart();
    let shown = world.wake("wake up");
    assert_eq!(world.refusal(), None);
    assert_eq!(shown[..2], ["step/end 1", "step/start 2"]);
    assert_eq!(shown.len(), 2 + INBOX_TEXTS_MAX);
    assert_eq!(world.machine.snapshot(&world.rules).inbox_len, 1);
}

#[test]
fn a_text_that_could_not_be_saved_is_forgotten() {
    let mut world = World::new(rules());
    world.wake("go");
    world.steer("saved");
    let mut out = super::super::Output::default();
    let mut ids = || crate::proto::ident::EventId(5);
    let mut ctx = super::super::Context {
        rules: &world.rules,
        hooks: &super::super::NoHooks,
        model: &world.model,
        ids: &mut ids,
        stopping: false,
        answer_begun: false,
    };
    let command = Command::Inject { text: "lost".into(), wake: true };
    world.machine.input(Input::Command { from: None, command }, &mut ctx, &mut out);
    assert_eq!(world.machine.unsaved_inbox().count(), 1);
    assert!(!world.machine.evictable());
    world.machine.drop_unsaved();
    assert_eq!(world.machine.unsaved_inbox().count(), 0);
    assert_eq!(world.finish(&[]), ["assistant/message", "step/end 1", "turn/end completed"]);
}
