//! A turn from its start to its end: order, steps, bounds, failures, a server that stops.

use super::*;
use crate::limits::{CALL_NAME_BYTES_MAX, STEP_BYTES_MAX, STEP_CALLS_MAX};
use crate::proto::ident::ModelSpec;

#[test]
fn a_plain_turn_has_the_golden_order() {
    let mut world = World::new(rules());
    assert_eq!(world.wake("hi"), ["turn/start", "step/start 1", "user/message hi"]);
    assert_eq!(world.text("he"), ["assistant/chunk he"]);
    assert_eq!(world.text(""), NOTHING);
    assert_eq!(world.text("llo"), ["assistant/chunk llo"]);
    assert_eq!(world.status(), Status::Running);
    let finish = Finish { calls: vec![], usage: Some(usage(3, 2)) };
    assert_eq!(
        world.finish_with(finish),
        ["assistant/message hello", "step/end 1 3+2", "turn/end completed"]
    );
    assert_eq!(world.status(), Status::Idle);
    let (status, reason) = (TurnStatus::Completed, None);
    assert_eq!(
        world.notes,
        [Note::TurnEnded { status, reason, steps: 1, usage: Some(usage(3, 2)) }]
    );
}

#[test]
fn an_answer_without_text_is_a_message_without_parts() {
    let mut world = World::new(rules());
    world.wake("hi");
    assert_eq!(world.finish(&[]), ["assistant/message", "step/end 1", "turn/end completed"]);
}

#[test]
fn a_step_that_failed_logs_neither_its_message_nor_its_end() {
    let mut world = World::new(rules());
    world.wake("hi");
    world.text("half an ans");
    assert_eq!(world.fail("status 400"), ["turn/end failed (status 400)"]);
    assert_eq!(world.status(), Status::Idle);
    assert!(world.machine.evictable());
    let Note::TurnEnded { status, reason, steps, usage } = &world.notes[0] else { panic!() };
    assert_eq!((*status, reason.as_deref()), (TurnStatus::Failed, Some("status 400")));
    assert_eq!((*steps, *usage), (1, None));
    // What streamed is nothing the model ever hears of again.
    world.wake("again");
    assert!(!format!("{:?}", world.asked.unwrap().messages).contains("half"));
}

#[test]
fn steps_count_within_the_turn_for_the_log_and_within_the_session_for_the_script() {
    let mut world = World::new(rules());
    for turn in 0..2 {
        world.wake("go");
        assert_eq!(world.asked.as_ref().unwrap().step, 2 * turn);
        world.finish(&[("a", "serial", "{}")]);
        let shown = world.tool(0, "done");
        assert_eq!(shown, ["tool/result a done", "step/end 1", "step/start 2"]);
        assert_eq!(world.asked.as_ref().unwrap().step, 2 * turn + 1);
        world.finish(&[]);
    }
    world.restart();
    world.wake("go");
    assert_eq!(world.asked.unwrap().step, 4);
}

#[test]
fn a_26th_step_fails_the_turn() {
    let mut world = World::new(rules());
    world.wake("go");
    for n in 2..=25 {
        world.finish(&[("a", "serial", "{}")]);
        let started = world.tool(0, "more");
        assert_eq!(started.last().unwrap(), &format!("step/start {n}"));
    }
    world.finish(&[("a", "serial", "{}")]);
    let shown = world.tool(0, "more");
    assert_eq!(
        shown,
        ["tool/result a more", "step/end 25", "turn/end failed (more than 25 steps)"]
    );
    assert_eq!(world.status(), Status::Idle);
}

#[test]
fn a_model_set_in_between_is_asked_from_the_next_step_on() {
    let mut world = World::new(rules());
    world.wake("go");
    world.model = ModelSpec::parse("other/a/b").unwrap();
    world.finish(&[("a", "serial", "{}")]);
    world.tool(0, "done");
    assert_eq!(world.asked.as_ref().unwrap().model, world.model);
    let starts = world.log.iter().filter_map(|event| match &event.body {
        Body::StepStart { model, .. } => Some(model.as_str()),
        _ => None,
    });
    assert_eq!(starts.collect::<Vec<_>>(), ["echo/echo", "other/a/b"]);
}

#[test]
fn an_answer_to_a_request_that_no_longer_stands_is_ignored() {
    let mut world = World::new(rules());
    world.wake("one");
    let old = world.asked.as_ref().unwrap().ask;
    world.cancel(None);
    let late = |event| Input::Model { ask: old, event };
    assert_eq!(world.tell(late(ModelEvent::Text("late".into()))), NOTHING);
    world.wake("two");
    assert_eq!(world.tell(late(ModelEvent::Text("late".into()))), NOTHING);
    assert_eq!(world.tell(late(ModelEvent::Finished(Finish::default()))), NOTHING);
    assert_eq!(world.tell(late(ModelEvent::Failed { reason: "late".into() })), NOTHING);
    assert_eq!(world.tell(Input::Tool { tag: old, outcome: Err("late".into()) }), NOTHING);
    assert_eq!(world.text("now"), ["assistant/chunk now"]);
}

#[test]
fn text_over_the_bound_fails_the_turn_and_stops_the_request() {
    let mut world = World::new(rules());
    world.wake("go");
    assert_eq!(world.text(&"x".repeat(STEP_BYTES_MAX)).len(), 1);
    let failed = ["turn/end failed (the step's text and arguments are over 4194304 bytes)"];
    assert_eq!(world.text("x"), failed);
    assert_eq!(world.asked, None);
    // A text that is all escapes would burst its line long before.
    world.wake("go");
    assert_eq!(world.text(&"\u{1}".repeat(STEP_BYTES_MAX / 2)), failed);
}

#[test]
fn calls_over_a_bound_fail_the_turn_and_it_says_which() {
    let raw = |id: &str, name: &str, args: &str| RawCall {
        id: id.into(),
        name: name.into(),
        args: Ok(args.into()),
    };
    let long = "n".repeat(CALL_NAME_BYTES_MAX);
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(STEP_BYTES_MAX - 8 - "text".len()));
    let within = [
        vec![raw("a", "unknown", &large)],
        vec![raw("a", "unknown", "{}"); STEP_CALLS_MAX],
        vec![raw(&long, &long, "{}")],
    ];
    let beyond = [
        (vec![raw("a", "t", &format!("{large} "))], "text and arguments are over 4194304 bytes"),
        (vec![raw("a", "t", "{}"); STEP_CALLS_MAX + 1], "more than 128 tool calls"),
        (vec![raw(&format!("{long}n"), "t", "{}")], "id or name is over 1024 bytes"),
        (vec![raw("a", &format!("{long}n"), "{}")], "id or name is over 1024 bytes"),
    ];
    for calls in within {
        let mut world = World::new(rules());
        world.wake("go");
        world.text("text");
        let shown = world.finish_with(Finish { calls, usage: None });
        assert_eq!(shown.last().unwrap(), "step/start 2");
    }
    for (calls, reason) in beyond {
        let mut world = World::new(rules());
        world.wake("go");
        world.text("text");
        let shown = world.finish_with(Finish { calls, usage: None });
        assert!(shown.len() == 1 && shown[0].starts_with("turn/end failed"), "{shown:?}");
        assert!(shown[0].contains(reason), "{shown:?}");
    }
}

#[test]
fn the_sum_of_the_usage_is_noted_when_the_turn_ends() {
    let mut world = World::new(rules());
    world.wake("go");
    let call = RawCall { id: "a".into(), name: "unknown".into(), args: Ok("{}".into()) };
    let with_cost = |cost| Some(Usage { prompt_tokens: 10, completion_tokens: 1, cost });
    for cost in [Some(0.25), None, Some(0.5)] {
        world.finish_with(Finish { calls: vec![call.clone()], usage: with_cost(cost) });
    }
    world.finish(&[]);
    let sum = Usage { prompt_tokens: 30, completion_tokens: 3, cost: Some(0.75) };
    match world.notes.last() {
        Some(Note::TurnEnded { steps: 4, usage, .. }) => assert_eq!(*usage, Some(sum)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stopping_server_begins_no_turn_and_no_step() {
    let mut world = World::new(rules());
    world.stopping = true;
    assert_eq!(world.wake("waits"), NOTHING);
    assert_eq!(world.refusal(), None);
    assert_eq!(world.tell(Input::Resume), NOTHING);
    world.stopping = false;
    world.wake("go");
    world.stopping = true;
    // The step that runs may finish, all its calls too; then the turn stays open.
    world.finish(&[("a", "serial", "{}"), ("b", "serial", "{}")]);
    world.tool(0, "one");
    assert_eq!(world.tool(0, "two"), ["tool/result b two", "step/end 1"]);
    assert_eq!(world.status(), Status::Interrupted);
    assert_eq!(world.wake("also waits"), NOTHING);
    assert_eq!(world.tell(Input::Resume), NOTHING);
    world.restart();
    world.stopping = false;
    assert_eq!(world.tell(Input::Resume), ["step/start 2", "context/injected also waits"]);
}

#[test]
fn a_turn_may_end_while_the_server_stops_and_no_other_follows() {
    let mut world = World::new(rules());
    world.wake("go");
    world.wake("next");
    world.stopping = true;
    assert_eq!(world.finish(&[]), ["assistant/message", "step/end 1", "turn/end completed"]);
    assert_eq!(world.status(), Status::Idle);
    assert_eq!(world.machine.snapshot(&world.rules).inbox_len, 1);
}

#[test]
fn a_snapshot_tells_what_the_agent_is_doing() {
    let (mut world, _) = calling(&[("a", "guarded", "{}"), ("b", "serial", "{}")]);
    world.steer("later");
    world.set_policy(&["guarded"]);
    let snapshot = world.machine.snapshot(&world.rules);
    assert_eq!((snapshot.status, snapshot.status.as_str()), (Status::Parked, "parked"));
    assert_eq!((snapshot.step, snapshot.inbox_len), (1, 1));
    assert_eq!(snapshot.policy, ["guarded"]);
    let pending: Vec<_> = snapshot.pending.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(pending, ["guarded"]);
    assert!(!world.machine.busy());
    let fresh = World::new(rules()).machine.snapshot(&rules());
    assert_eq!((fresh.status, fresh.step, fresh.policy), (Status::Idle, 0, vec!["*".to_owned()]));
}
