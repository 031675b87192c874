//! A process that dies, at every event of a turn, and whatever comes afterwards
//! (contract, "inject" and "approve / deny"; cases.md, 4, 13 and 14).

use super::*;
use crate::agent::Rules;

/// A turn with everything in it: a steer, a serial call, a parallel run with a call approved, one
/// denied and one refused, reused ids, a failing tool, two more steps.
fn eventful() -> World {
    let mut world = World::new(rules());
    world.set_policy(&["*"]);
    world.steer("before");
    world.wake("go");
    world.text("let me ");
    world.text("see");
    world.finish(&[
        ("0", "serial", "{\"n\":1}"),
        ("0", "parguarded", "{\"n\":2}"),
        ("0", "par", "{\"n\":3}"),
        ("0", "parguarded", "{\"n\":4}"),
        ("1", "unknown", "{}"),
        ("1", "changing", "{}"),
    ]);
    world.steer("meanwhile");
    world.tool(0, "one");
    world.approve("0");
    world.tool_breaks(0, "three broke");
    world.deny("0", Some("no"));
    world.wake("and this");
    world.tool(0, "two");
    world.approve("1");
    world.tool(0, "six");
    world.text("nearly");
    world.finish(&[("0", "par", "{}")]);
    world.tool(0, "seven");
    world.text("done");
    world.finish(&[]);
    assert_eq!(world.status(), Status::Idle);
    world
}

/// What may come after a restart.
type Stimulus = fn(&mut World);

const STIMULI: &[(&str, Stimulus)] = &[
    ("a wake", |w| {
        w.wake("woken");
    }),
    ("a wake of a stopping server, and a resume later", |w| {
        w.stopping = true;
        w.wake("woken");
        w.stopping = false;
        w.tell(Input::Resume);
    }),
    ("a resume", |w| {
        w.tell(Input::Resume);
    }),
    ("a cancel", |w| {
        w.cancel(Some("stop"));
    }),
    ("an approval", |w| {
        w.approve("0");
    }),
    ("a denial", |w| {
        w.deny("0", None);
    }),
    ("a narrower policy, then a wake", |w| {
        w.set_policy(&["par*"]);
        w.wake("woken");
    }),
    ("a steer, then another death, then a wake", |w| {
        w.steer("steered");
        w.restart();
        w.wake("woken");
    }),
    ("a wake, then another death at once, then a wake", |w| {
        w.wake("woken");
        w.restart();
        w.wake("woken again");
    }),
    ("a wake, and another death that loses its last event", |w| {
        let before = w.log.len();
        w.wake("woken");
        let kept = before.max(w.log.len() - 1);
        w.restart_at(kept);
        w.wake("woken again");
    }),
    ("a wake, then a cancel", |w| {
        w.wake("woken");
        w.cancel(None);
    }),
];

/// Answers everything until nothing runs: approves the oldest, denies the next.
fn finish_all(world: &mut World) {
    for round in 0..1000 {
        if world.asked.is_some() {
            world.text("answer");
            world.finish(&[]);
        } else if !world.tools.is_empty() {
            world.tool(0, "late");
        } else if world.status() == Status::Parked {
            let call_id = world.machine.snapshot(&world.rules).pending[0].id.clone();
            if round % 2 == 0 {
                world.approve(&call_id)
            } else {
                world.deny(&call_id, None)
            };
        } else {
            return;
        }
    }
    panic!("the agent never comes to rest");
}

#[test]
fn a_turn_goes_on_from_every_event_under_every_stimulus() {
    let whole = eventful();
    for events in 1..=whole.log.len() {
        for (name, stimulus) in STIMULI {
            let mut world = whole.died_after(events);
            stimulus(&mut world);
            finish_all(&mut world);
            world.wake("last");
            finish_all(&mut world);
            // `World` has checked every append; here: it all came to an end.
            assert_eq!(world.status(), Status::Idle, "{name} after {events} events");
            assert_eq!(world.unspent(), [], "{name} after {events} events");
            let history = format!("{:?}", world.history());
            assert_eq!(history.matches("\"last").count() + history.matches("\\nlast").count(), 1);
        }
    }
}

#[test]
fn no_finished_call_runs_again_and_every_unfinished_one_does() {
    let whole = eventful();
    for events in 1..=whole.log.len() {
        let mut world = whole.died_after(events);
        let owed: Vec<String> = world
            .machine
            .log
            .turn
            .iter()
            .flat_map(|turn| &turn.owed)
            .map(|owed| owed.call.args.to_string())
            .collect();
        world.wake("on");
        let mut ran = Vec::new();
        while world.asked.is_none() && world.status() != Status::Idle {
            if world.status() == Status::Parked {
                let call_id = world.machine.snapshot(&world.rules).pending[0].id.clone();
                world.approve(&call_id);
            } else {
                ran.push(world.tools[0].call.args.to_string());
                world.tool(0, "late");
            }
        }
        // Only what was denied or refused is owed a result and does not run.
        ran.retain(|args| !owed.contains(args));
        assert_eq!(ran, [""; 0], "after {events} events");
        let results =
            |w: &World| w.shown().iter().filter(|shown| shown.starts_with("tool/result")).count();
        let calls: usize = world
            .log
            .iter()
            .map(|event| match &event.body {
                Body::AssistantMessage { parts } => {
                    parts.iter().filter(|part| matches!(part, Part::ToolCall(_))).count()
                }
                _ => 0,
            })
            .sum();
        assert_eq!(results(&world), calls, "after {events} events");
    }
}

#[test]
fn a_wake_resumes_an_open_turn_with_what_it_owes() {
    let (mut world, _) = calling(&[("a", "serial", "{ \"n\": 1e400}"), ("b", "par", "{}")]);
    world.restart();
    assert_eq!(world.status(), Status::Interrupted);
    // No second `turn/start`, no second `tool/call`; the text rides the next step.
    assert_eq!(world.wake("on"), NOTHING);
    assert_eq!(world.running_tools(), ["a:serial"]);
    assert_eq!(&*world.tools[0].call.args, "{ \"n\": 1e400}");
    assert_eq!(world.tool(0, "a"), ["tool/result a a", "tool/call b:par"]);
    assert_eq!(
        world.tool(0, "b"),
        ["tool/result b b", "step/end 1", "step/start 2", "context/injected on"]
    );
    // The interrupted step's usage is lost with the process, the next one's is not.
    let finish = Finish { calls: vec![], usage: Some(usage(2, 2)) };
    assert_eq!(world.finish_with(finish)[1..], ["step/end 2 2+2", "turn/end completed"]);
}

#[test]
fn a_step_interrupted_while_it_streamed_is_closed_and_asked_anew() {
    let mut world = World::new(rules());
    world.wake("go");
    world.text("half");
    world.restart();
    assert_eq!(world.wake("on"), ["step/end 1", "step/start 2", "context/injected on"]);
    let asked = format!("{:?}", world.asked.as_ref().unwrap().messages);
    assert_eq!(asked, r#"[User("go\n\non")]"#);
}

#[test]
fn a_steer_or_a_policy_is_no_stimulus() {
    let (mut world, _) = calling(&[("a", "serial", "{}")]);
    world.restart();
    assert_eq!(world.steer("later"), NOTHING);
    world.set_policy(&["*"]);
    assert_eq!(world.status(), Status::Interrupted);
    assert!(world.tools.is_empty());
}

#[test]
fn a_verdict_after_a_restart_resumes_the_turn_and_is_found_there() {
    for (approve, shown) in [
        (true, &["approval/resolved a approved"][..]),
        (
            false,
            &[
                "approval/resolved a denied",
                "tool/result a !guarded denied: no reason given",
                "step/end 1",
                "step/start 2",
            ],
        ),
    ] {
        let (mut world, _) = calling(&[("a", "guarded", "{}")]);
        world.restart();
        let pending = world.machine.snapshot(&world.rules).pending;
        assert_eq!(pending.len(), 1, "a pending approval survives");
        let appended = if approve { world.approve("a") } else { world.deny("a", None) };
        assert_eq!(appended, shown);
        assert_eq!(world.running_tools().len(), usize::from(approve));
    }
}

#[test]
fn a_verdict_that_was_logged_counts_after_a_death() {
    let (mut world, _) = calling(&[("a", "guarded", "{}")]);
    world.approve("a");
    world.restart();
    assert_eq!(world.tell(Input::Resume), NOTHING);
    assert_eq!(world.running_tools(), ["a:guarded"]);
    world.restart();
    world.approve("a");
    assert_eq!(world.refusal(), Some(ErrorCode::StaleCall));
    assert!(world.tools.is_empty(), "a refused frame resumes nothing");
}

#[test]
fn a_request_that_stands_is_parked_again_without_a_second_one() {
    let calls = [("0", "parguarded", "{}"), ("0", "parguarded", "{}"), ("b", "par", "{}")];
    let (mut world, _) = calling(&calls);
    world.deny("0", Some("first"));
    world.restart();
    assert_eq!(world.wake("on"), NOTHING);
    assert_eq!(world.running_tools(), ["b:par"]);
    world.tool(0, "b");
    assert_eq!(world.status(), Status::Parked);
    world.approve("0");
    let shown = world.tool(0, "second");
    assert_eq!(
        shown[..3],
        ["tool/result 0 !parguarded denied: first", "tool/result 0 second", "tool/result b b"]
    );
}

#[test]
fn the_allow_list_is_asked_again_before_the_verdict() {
    let (mut world, _) = calling(&[("a", "guarded", "{}")]);
    world.approve("a");
    world.set_policy(&["serial"]);
    world.restart();
    let shown = world.wake("on");
    assert_eq!(shown[0], "tool/result a !guarded is not on the allow list");
    assert!(world.tools.is_empty());
}

#[test]
fn a_denial_stands_where_the_row_is_no_longer_mounted() {
    let (mut world, _) = calling(&[("a", "guarded", "{}")]);
    world.deny("a", None);
    world.restart_at(world.log.len() - 3);
    world.rules = Rules { approvals: false, ..rules() };
    assert_eq!(world.wake("on")[0], "tool/result a !guarded denied: no reason given");
}

#[test]
fn a_failed_resume_leaves_the_turn_open_and_says_why() {
    let mut world = World::new(rules());
    world.wake("go");
    world.restart();
    world.wake("again");
    world.wake("and again");
    assert_eq!(world.fail("status 500"), NOTHING);
    assert_eq!(world.status(), Status::Interrupted);
    let failed = Note::ResumeFailed { reason: "status 500".into() };
    assert_eq!(world.notes, [failed]);
    let snapshot = world.machine.snapshot(&world.rules);
    assert_eq!(snapshot.last_error.as_deref(), Some("status 500"));
    assert!(world.machine.evictable(), "it must not stay in memory for ever");
    assert_eq!(world.machine.last_error(), Some("status 500"), "but that is not in the log");
    // The waking text waits, there is no hot loop; the next stimulus takes it along.
    assert_eq!(world.asked, None);
    assert_eq!(
        world.wake("once more"),
        ["step/end 2", "step/start 3", "context/injected and again", "context/injected once more"]
    );
    world.finish(&[]);
    assert_eq!(world.machine.snapshot(&world.rules).last_error, None);
    assert_eq!(world.shown().last().unwrap(), "turn/end completed");
}

#[test]
fn a_later_step_of_a_resumed_turn_leaves_it_open_too() {
    let (mut world, _) = calling(&[("a", "serial", "{}")]);
    world.restart();
    world.wake("on");
    world.tool(0, "");
    assert_eq!(world.fail("status 500"), NOTHING);
    assert_eq!(world.status(), Status::Interrupted);
    // A turn that was not resumed ends.
    world.cancel(None);
    world.wake("new");
    assert_eq!(world.fail("status 500"), ["turn/end failed (status 500)"]);
}

#[test]
fn the_step_cap_closes_a_resumed_turn() {
    let mut world = World::new(rules());
    world.wake("go");
    for _ in 1..25 {
        world.finish(&[("a", "serial", "{}")]);
        world.tool(0, "more");
    }
    world.restart();
    assert_eq!(world.wake("on"), ["step/end 25", "turn/end failed (more than 25 steps)"]);
    // The text that resumed it waits for the next stimulus.
    assert_eq!(world.wake("new")[3], "context/injected on");
}

#[test]
fn a_resume_with_nothing_to_say_closes_empty() {
    let mut world = World::new(rules());
    assert_eq!(world.tell(Input::Resume), ["turn/start", "turn/end empty"]);
    world.wake("go");
    world.restart_at(world.log.len() - 2);
    assert_eq!(world.tell(Input::Resume), ["turn/end empty"]);
}

#[test]
fn a_resume_of_an_idle_agent_takes_what_waits() {
    let mut world = World::new(rules());
    world.steer("a");
    assert_eq!(world.tell(Input::Resume), ["turn/start", "step/start 1", "context/injected a"]);
    world.wake("b");
    world.cancel(None);
    assert_eq!(world.tell(Input::Resume), ["turn/start", "step/start 1", "user/message b"]);
    assert_eq!(world.tell(Input::Resume), NOTHING, "it runs already");
}

#[test]
fn a_start_goes_on_with_what_is_owed_and_begins_nothing_else() {
    let mut world = World::new(rules());
    assert_eq!(world.tell(Input::Recover), NOTHING);
    world.steer("a");
    assert_eq!(world.tell(Input::Recover), NOTHING, "a steer is no stimulus");
    world.wake("b");
    world.cancel(None);
    world.wake("c");
    world.wake("d");
    world.cancel(None);
    world.restart();
    assert_eq!(world.tell(Input::Recover), ["turn/start", "step/start 1", "user/message d"]);
    world.restart();
    assert_eq!(world.tell(Input::Recover)[..2], ["step/end 1", "step/start 2"]);
    assert_eq!(world.tell(Input::Recover), NOTHING, "it runs already");
}

#[test]
fn a_turn_whose_answer_was_whole_ends_completed_without_another_step() {
    let mut world = World::new(rules());
    world.wake("go");
    world.finish(&[]);
    world.restart_at(world.log.len() - 1);
    assert_eq!(world.tell(Input::Resume), ["turn/end completed"]);
    world.restart_at(world.log.len() - 2);
    assert_eq!(world.tell(Input::Resume), ["step/end 1", "turn/end completed"]);
    world.restart_at(world.log.len() - 1);
    assert_eq!(world.wake("more"), ["step/start 2", "context/injected more"]);
}
