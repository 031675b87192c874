//! A cancel at every point of a turn (contract, "cancel"; clarifications, section 4; cases.md, 16
//! and 18).

use super::*;
use crate::agent::{CancelStream, Rules};

/// What is done before the cancel, what the cancel appends, and whether the turn has ended then.
struct Point {
    name: &'static str,
    before: fn(&mut World),
    appends: &'static [&'static str],
    ends: bool,
}

const POINTS: &[Point] = &[
    Point {
        name: "the model is asked and silent",
        before: |_| {},
        appends: &["step/end 1", "turn/end cancelled (why)"],
        ends: true,
    },
    Point {
        name: "the answer streams",
        before: |w| {
            w.text("so ");
            w.text("far");
        },
        appends: &["assistant/message so far", "step/end 1", "turn/end cancelled (why)"],
        ends: true,
    },
    Point {
        name: "a serial tool runs",
        before: |w| {
            w.finish(&[("a", "serial", "{}"), ("b", "guarded", "{}")]);
        },
        appends: &[],
        ends: false,
    },
    Point {
        name: "a serial call is parked",
        before: |w| {
            w.finish(&[("a", "guarded", "{}"), ("b", "serial", "{}")]);
        },
        appends: &[
            "approval/resolved a denied (why)",
            "tool/result a !guarded denied: why",
            "tool/call b:serial",
            "tool/result b !cancelled before execution",
            "step/end 1",
            "turn/end cancelled (why)",
        ],
        ends: true,
    },
    Point {
        name: "a whole run is parked",
        before: |w| {
            w.finish(&[("a", "parguarded", "{}"), ("b", "parguarded", "{}")]);
        },
        appends: &[
            "approval/resolved a denied (why)",
            "approval/resolved b denied (why)",
            "tool/result a !parguarded denied: why",
            "tool/result b !parguarded denied: why",
            "step/end 1",
            "turn/end cancelled (why)",
        ],
        ends: true,
    },
    Point {
        name: "of a run, one is parked and one runs",
        before: |w| {
            w.finish(&[("a", "parguarded", "{}"), ("b", "par", "{}"), ("c", "serial", "{}")]);
        },
        appends: &["approval/resolved a denied (why)"],
        ends: false,
    },
    Point {
        name: "of a run, one is approved and runs",
        before: |w| {
            w.finish(&[("a", "parguarded", "{}"), ("b", "par", "{}")]);
            w.approve("a");
        },
        appends: &[],
        ends: false,
    },
    Point {
        name: "the second step is asked",
        before: |w| {
            w.finish(&[("a", "serial", "{}")]);
            w.tool(0, "done");
        },
        appends: &["step/end 2", "turn/end cancelled (why)"],
        ends: true,
    },
];

fn woken() -> World {
    let mut world = World::new(rules());
    world.wake("go");
    world
}

#[test]
fn a_cancel_is_honoured_at_the_next_boundary_wherever_it_comes() {
    for point in POINTS {
        let mut world = woken();
        (point.before)(&mut world);
        assert_eq!(world.cancel(Some("why")), point.appends, "{}", point.name);
        assert_eq!(world.refusal(), None);
        assert_eq!(world.status() == Status::Idle, point.ends, "{}", point.name);
        assert_eq!(world.asked, None, "{}", point.name);
        if point.ends {
            assert_eq!(world.cancel(None), NOTHING);
            assert_eq!(world.refusal(), Some(ErrorCode::NotRunning));
        } else {
            while !world.tools.is_empty() {
                world.tool(0, "ran to its end");
            }
            assert_eq!(world.shown().last().unwrap(), "turn/end cancelled (why)");
        }
        // Nothing keeps the agent from going on.
        assert_eq!(world.wake("on")[0], "turn/start", "{}", point.name);
        world.finish(&[]);
        assert_eq!(world.status(), Status::Idle);
    }
}

#[test]
fn without_a_reason_the_events_have_none_and_the_parked_call_says_cancelled() {
    let (mut world, _) = calling(&[("a", "guarded", "{}")]);
    assert_eq!(
        world.cancel(None),
        [
            "approval/resolved a denied",
            "tool/result a !guarded denied: cancelled",
            "step/end 1",
            "turn/end cancelled"
        ]
    );
}

#[test]
fn a_cancel_loses_the_race_to_the_log_and_wins_the_turn() {
    let (mut world, _) = calling(&[("a", "serial", "{}")]);
    assert_eq!(world.cancel(Some("stop")), NOTHING);
    assert_eq!(
        world.tool(0, "made it"),
        ["tool/result a made it", "step/end 1", "turn/end cancelled (stop)"]
    );
}

#[test]
fn a_batch_is_truncated_between_its_runs() {
    let calls =
        [("a", "par", "{}"), ("b", "par", "{}"), ("c", "par2", "{}"), ("d", "serial", "{}")];
    let (mut world, _) = calling(&calls);
    world.cancel(None);
    world.tool(2, "c");
    world.tool(0, "a");
    assert_eq!(
        world.tool(0, "b"),
        [
            "tool/result a a",
            "tool/result b b",
            "tool/result c c",
            "tool/call d:serial",
            "tool/result d !cancelled before execution",
            "step/end 1",
            "turn/end cancelled"
        ]
    );
}

#[test]
fn the_newer_of_two_cancels_has_the_reason() {
    for (first, second, end) in [
        (Some("one"), Some("two"), "turn/end cancelled (two)"),
        (Some("one"), None, "turn/end cancelled (one)"),
        (None, Some("two"), "turn/end cancelled (two)"),
    ] {
        let (mut world, _) = calling(&[("a", "serial", "{}")]);
        world.cancel(first);
        assert_eq!(world.cancel(second), NOTHING);
        assert_eq!(world.refusal(), None);
        assert_eq!(world.tool(0, "")[2], end);
    }
}

#[test]
fn usage_of_a_cancelled_batch_is_kept() {
    let mut world = woken();
    let call = RawCall { id: "a".into(), name: "guarded".into(), args: Ok("{}".into()) };
    world.finish_with(Finish { calls: vec![call], usage: Some(usage(5, 1)) });
    assert_eq!(world.cancel(None)[2], "step/end 1 5+1");
}

#[test]
fn a_stream_that_may_finish_is_heard_to_its_end_and_its_calls_are_truncated() {
    let finish = || World::new(Rules { cancel_stream: CancelStream::Finish, ..rules() });
    let mut world = finish();
    world.wake("go");
    world.text("so far");
    assert_eq!(world.cancel(Some("why")), NOTHING);
    assert_eq!(world.text(" and on"), ["assistant/chunk  and on"]);
    let calls = vec![
        RawCall { id: "a".into(), name: "par".into(), args: Ok("{}".into()) },
        RawCall { id: "b".into(), name: "par".into(), args: Ok("{}".into()) },
    ];
    assert_eq!(
        world.finish_with(Finish { calls, usage: Some(usage(1, 1)) }),
        [
            "assistant/message so far and on a:par{} b:par{}",
            "tool/call a:par",
            "tool/result a !cancelled before execution",
            "tool/call b:par",
            "tool/result b !cancelled before execution",
            "step/end 1 1+1",
            "turn/end cancelled (why)"
        ]
    );
    // One that has not begun is aborted all the same.
    let mut world = finish();
    world.wake("go");
    assert_eq!(world.cancel(None), ["step/end 1", "turn/end cancelled"]);
    // One that has begun with a call, of which there is nothing to see yet, is not.
    let mut world = finish();
    world.wake("go");
    world.answer_begun = true;
    assert_eq!(world.cancel(None), NOTHING);
    let shown = world.finish(&[("a", "par", "{}")]);
    assert_eq!(shown[2], "tool/result a !cancelled before execution");
    assert_eq!(shown[4], "turn/end cancelled");
    // And one that breaks has reached its end.
    let mut world = finish();
    world.wake("go");
    world.text("so far");
    world.cancel(Some("one"));
    world.cancel(Some("two"));
    assert_eq!(
        world.fail("reset by peer"),
        ["assistant/message so far", "step/end 1", "turn/end cancelled (two)"]
    );
    // A plain answer ends cancelled too.
    let mut world = finish();
    world.wake("go");
    world.text("all");
    world.cancel(None);
    assert_eq!(world.finish(&[]), ["assistant/message all", "step/end 1", "turn/end cancelled"]);
}

/// The same after the process died and another loaded the agent.
const POINTS_AFTER_A_RESTART: &[Point] = &[
    Point {
        name: "the model was asked",
        before: |_| {},
        appends: &["step/end 1", "turn/end cancelled (why)"],
        ends: true,
    },
    Point {
        name: "a call was parked, another waited behind it",
        before: |w| {
            w.finish(&[("a", "guarded", "{}"), ("b", "serial", "{}")]);
        },
        appends: &[
            "approval/resolved a denied (why)",
            "tool/result a !cancelled before execution",
            "tool/call b:serial",
            "tool/result b !cancelled before execution",
            "step/end 1",
            "turn/end cancelled (why)",
        ],
        ends: true,
    },
    Point {
        name: "a call was approved and ran, another was parked beside it",
        before: |w| {
            w.finish(&[("a", "parguarded", "{}"), ("b", "parguarded", "{}")]);
            w.approve("a");
        },
        appends: &[
            "approval/resolved b denied (why)",
            "tool/result a !cancelled before execution",
            "tool/result b !cancelled before execution",
            "step/end 1",
            "turn/end cancelled (why)",
        ],
        ends: true,
    },
    Point {
        name: "the turn stood between two steps",
        before: |w| {
            w.finish(&[("a", "serial", "{}")]);
            w.stopping = true;
            w.tool(0, "");
            w.stopping = false;
        },
        appends: &["turn/end cancelled (why)"],
        ends: true,
    },
];

#[test]
fn after_a_restart_a_cancel_closes_what_the_log_holds_open() {
    for Point { name, before, appends, ends } in POINTS_AFTER_A_RESTART {
        let mut world = woken();
        before(&mut world);
        world.restart();
        assert_eq!(world.cancel(Some("why")), *appends, "{name}");
        assert_eq!(world.status() == Status::Idle, *ends, "{name}");
        world.cancel(None);
        assert_eq!(world.refusal(), Some(ErrorCode::NotRunning), "{name}");
    }
}

#[test]
fn a_turn_cancelled_before_its_first_step_is_its_start_and_its_end() {
    let mut world = woken();
    world.restart_at(2);
    assert_eq!(world.cancel(None), ["turn/end cancelled"]);
}

#[test]
fn a_cancel_without_an_open_turn_is_not_running() {
    let mut world = World::new(rules());
    assert_eq!(world.cancel(None), NOTHING);
    assert_eq!(world.refusal(), Some(ErrorCode::NotRunning));
}
