//! Calls that wait for a human (contract, "approve / deny"; cases.md, 15 to 17).

use super::*;
use crate::agent::{Approval, Rules};

#[test]
fn an_approved_call_runs() {
    let (mut world, shown) = calling(&[("a", "guarded", "{}")]);
    assert_eq!(shown[1..], ["tool/call a:guarded", "approval/requested a:guarded"]);
    assert_eq!(world.status(), Status::Parked);
    assert_eq!(world.approve("a"), ["approval/resolved a approved"]);
    assert_eq!(world.running_tools(), ["a:guarded"]);
    let shown = world.tool(0, "done");
    assert_eq!(shown, ["tool/result a done", "step/end 1", "step/start 2"]);
}

#[test]
fn a_denied_call_is_an_error_for_the_model() {
    for (reason, event, error) in [
        (Some("too risky"), "approval/resolved a denied (too risky)", "too risky"),
        (None, "approval/resolved a denied", "no reason given"),
    ] {
        let (mut world, _) = calling(&[("a", "guarded", "{}")]);
        let shown = world.deny("a", reason);
        let result = format!("tool/result a !guarded denied: {error}");
        assert_eq!(shown, [event, &result, "step/end 1", "step/start 2"]);
        assert!(world.tools.is_empty());
    }
}

#[test]
fn a_decision_is_asked_for_as_the_tool_and_the_deployment_want_it() {
    for (tool, approvals, parks) in [
        ("serial", true, false),
        ("changing", true, true),
        ("guarded", true, true),
        ("changing", false, false),
        ("guarded", false, false),
    ] {
        let mut world = World::new(Rules { approvals, ..rules() });
        world.wake("go");
        world.finish(&[("a", tool, "{}")]);
        assert_eq!(world.status() == Status::Parked, parks, "{tool}, {approvals}");
        assert_eq!(world.tools.is_empty(), parks, "{tool}, {approvals}");
    }
}

#[test]
fn nobody_is_asked_about_a_call_that_may_not_run_anyway() {
    let mut world = World::new(Rules { floor: vec!["p*".into()], ..rules() });
    world.wake("go");
    let shown = world.finish(&[("a", "guarded", "{}")]);
    assert_eq!(shown[2], "tool/result a !guarded is not on the allow list");
}

#[test]
fn a_verdict_without_a_standing_request_is_stale_and_appends_nothing() {
    let mut world = World::new(rules());
    let stale = |world: &mut World, call_id: &str| {
        for approve in [true, false] {
            let shown = if approve { world.approve(call_id) } else { world.deny(call_id, None) };
            assert_eq!(shown, NOTHING);
            assert_eq!(world.refusal(), Some(ErrorCode::StaleCall));
        }
    };
    stale(&mut world, "a");
    world.wake("go");
    stale(&mut world, "a");
    world.finish(&[("a", "guarded", "{}"), ("b", "serial", "{}"), ("c", "guarded", "{}")]);
    stale(&mut world, "b");
    stale(&mut world, "");
    world.approve("a");
    stale(&mut world, "a");
    world.tool(0, "");
    stale(&mut world, "a");
    world.tool(0, "");
    assert_eq!(world.status(), Status::Parked);
    world.cancel(None);
    stale(&mut world, "c");
}

#[test]
fn without_the_row_both_verdicts_are_unsupported() {
    let mut world = World::new(Rules { approvals: false, ..rules() });
    world.wake("go");
    world.finish(&[("a", "guarded", "{}")]);
    for shown in [world.approve("a"), world.deny("a", None)] {
        assert_eq!(shown, NOTHING);
        assert_eq!(world.refusal(), Some(ErrorCode::Unsupported));
    }
}

#[test]
fn parked_calls_of_a_parallel_run_wait_side_by_side() {
    let calls = [("a", "parguarded", "{}"), ("b", "par", "{}"), ("c", "parguarded", "{}")];
    let (mut world, shown) = calling(&calls);
    assert_eq!(
        shown[1..],
        [
            "tool/call a:parguarded",
            "tool/call b:par",
            "tool/call c:parguarded",
            "approval/requested a:parguarded",
            "approval/requested c:parguarded"
        ]
    );
    assert_eq!(world.running_tools(), ["b:par"]);
    assert_eq!(world.deny("c", None), ["approval/resolved c denied"]);
    assert_eq!(world.approve("a"), ["approval/resolved a approved"]);
    assert_eq!(world.running_tools(), ["b:par", "a:parguarded"]);
    world.tool(0, "b");
    let shown = world.tool(0, "a");
    assert_eq!(
        shown[..3],
        ["tool/result a a", "tool/result b b", "tool/result c !parguarded denied: no reason given"]
    );
}

#[test]
fn of_two_parked_calls_with_one_id_a_verdict_frees_the_older() {
    let calls = [("0", "parguarded", "{\"n\":1}"), ("0", "parguarded", "{\"n\":2}")];
    let (mut world, _) = calling(&calls);
    assert_eq!(world.deny("0", Some("first")), ["approval/resolved 0 denied (first)"]);
    assert_eq!(world.approve("0"), ["approval/resolved 0 approved"]);
    assert_eq!(&*world.tools[0].call.args, "{\"n\":2}");
    world.approve("0");
    assert_eq!(world.refusal(), Some(ErrorCode::StaleCall));
    let shown = world.tool(0, "two");
    assert_eq!(shown[..2], ["tool/result 0 !parguarded denied: first", "tool/result 0 two"]);
}

#[test]
fn two_calls_alike_in_everything_are_decided_one_by_one() {
    let (mut world, _) = calling(&[("0", "parguarded", "{}"), ("0", "parguarded", "{}")]);
    world.approve("0");
    assert_eq!(world.running_tools(), ["0:parguarded"]);
    world.tool(0, "one");
    assert_eq!(world.status(), Status::Parked);
    let shown = world.deny("0", None);
    assert_eq!(
        shown[..3],
        [
            "approval/resolved 0 denied",
            "tool/result 0 one",
            "tool/result 0 !parguarded denied: no reason given"
        ]
    );
}

#[test]
fn a_verdict_is_spent_by_its_result_and_a_reused_id_asks_again() {
    let (mut world, _) = calling(&[("0", "guarded", "{}"), ("0", "guarded", "{}")]);
    world.approve("0");
    let shown = world.tool(0, "one");
    assert_eq!(shown, ["tool/result 0 one", "tool/call 0:guarded", "approval/requested 0:guarded"]);
    world.approve("0");
    world.tool(0, "two");
    let shown = world.finish(&[("0", "guarded", "{}")]);
    assert_eq!(shown[1..], ["tool/call 0:guarded", "approval/requested 0:guarded"]);
    assert!(world.tools.is_empty());
}

#[test]
fn a_verdict_never_crosses_the_end_of_a_turn() {
    let (mut world, _) = calling(&[("0", "guarded", "{}")]);
    world.cancel(None);
    world.wake("again");
    world.approve("0");
    assert_eq!(world.refusal(), Some(ErrorCode::StaleCall));
    let shown = world.finish(&[("0", "guarded", "{}")]);
    assert_eq!(shown.last().unwrap(), "approval/requested 0:guarded");
}

#[test]
fn an_approval_does_not_overrule_a_policy_that_changed_meanwhile() {
    let (mut world, _) = calling(&[("a", "guarded", "{}")]);
    world.set_policy(&["serial"]);
    let shown = world.approve("a");
    assert_eq!(
        shown[..2],
        ["approval/resolved a approved", "tool/result a !guarded is not on the allow list"]
    );
    assert!(world.tools.is_empty());
}

/// What becomes of a parked call when approvals are turned off.
const DENIED: [&str; 2] = [
    "approval/resolved a denied (approvals were turned off before a verdict came)",
    "tool/result a !guarded denied: approvals were turned off before a verdict came",
];

#[test]
fn a_parked_call_is_denied_when_the_row_goes_away() {
    let (mut world, _) = calling(&[("a", "guarded", "{}"), ("b", "guarded", "{}")]);
    world.rules.approvals = false;
    world.approve("a");
    assert_eq!(world.refusal(), Some(ErrorCode::Unsupported), "before the machine has been told");
    let shown = world.tell(Input::Reloaded);
    assert_eq!(shown, [DENIED[0], DENIED[1], "tool/call b:guarded"]);
    // The next one asks nobody: that is what the operator chose.
    assert_eq!(world.running_tools(), ["b:guarded"]);
    assert_eq!(world.tell(Input::Reloaded), NOTHING);
}

#[test]
fn of_two_equal_calls_the_one_nobody_was_asked_about_is_no_refused_one() {
    let (mut world, _) = calling(&[("a", "guarded", "{}"), ("a", "guarded", "{}")]);
    world.rules.approvals = false;
    let shown = world.tell(Input::Reloaded);
    assert_eq!(shown, [DENIED[0], DENIED[1], "tool/call a:guarded"]);
    assert_eq!(world.running_tools(), ["a:guarded"]);
}

#[test]
fn of_a_parallel_run_only_what_is_parked_is_denied_then() {
    let calls = [("a", "parguarded", "{}"), ("b", "par", "{}"), ("c", "parguarded", "{}")];
    let (mut world, _) = calling(&calls);
    world.approve("c");
    world.rules.approvals = false;
    let shown = world.tell(Input::Reloaded);
    assert_eq!(
        shown,
        ["approval/resolved a denied (approvals were turned off before a verdict came)"]
    );
    assert_eq!(world.running_tools(), ["b:par", "c:parguarded"]);
    world.tool(0, "b");
    assert_eq!(world.tool(0, "c")[1..3], ["tool/result b b", "tool/result c c"]);
}

#[test]
fn rules_that_change_are_no_stimulus() {
    let mut world = World::new(rules());
    world.rules.approvals = false;
    world.steer("waits");
    assert_eq!(world.tell(Input::Reloaded), NOTHING);
    world.wake("go");
    assert_eq!(world.tell(Input::Reloaded), NOTHING);
    world.rules.approvals = true;
    let (mut world, _) = calling(&[("a", "guarded", "{}")]);
    assert_eq!(world.tell(Input::Reloaded), NOTHING, "the row is still there");
    world.restart();
    world.rules.approvals = false;
    assert_eq!(world.tell(Input::Reloaded), NOTHING);
    assert_eq!(world.status(), Status::Interrupted);
}

#[test]
fn a_call_that_was_asked_about_never_runs_without_a_yes() {
    // After a restart without the row.
    let (mut world, _) = calling(&[("a", "guarded", "{}")]);
    world.restart();
    world.rules.approvals = false;
    world.approve("a");
    assert_eq!(world.refusal(), Some(ErrorCode::Unsupported));
    assert_eq!(world.status(), Status::Interrupted, "a refused frame resumes nothing");
    let shown = world.wake("on");
    assert_eq!(shown, [DENIED[0], DENIED[1], "step/end 1", "step/start 2", "context/injected on"]);
    // With a tool that nobody would be asked about any more.
    let (mut world, _) = calling(&[("a", "guarded", "{}")]);
    world.restart();
    world.rules.tools.get_mut("guarded").unwrap().approval = Approval::Never;
    assert_eq!(world.wake("on"), NOTHING);
    assert_eq!((world.status(), world.running_tools()), (Status::Parked, vec![]));
    world.approve("a");
    assert_eq!(world.running_tools(), ["a:guarded"]);
}

#[test]
fn a_turn_parked_and_nothing_else_may_leave_memory() {
    let (mut world, _) = calling(&[("a", "parguarded", "{}"), ("b", "parguarded", "{}")]);
    assert!(world.machine.evictable());
    let events = world.log.len();
    world.restart();
    assert_eq!(world.tell(Input::Resume), NOTHING);
    assert_eq!((world.status(), world.log.len()), (Status::Parked, events));
    world.approve("b");
    assert!(!world.machine.evictable());
    world.tool(0, "b");
    // The outcome of `b` is in no log yet: evicted now, the tool would run a second time.
    assert_eq!(world.status(), Status::Parked);
    assert!(!world.machine.evictable());
    assert_eq!(
        world.deny("a", None)[1..3],
        ["tool/result a !parguarded denied: no reason given", "tool/result b b"]
    );
}

#[test]
fn broken_arguments_are_not_forgotten_by_an_eviction() {
    let mut world = World::new(rules());
    world.wake("go");
    let raw = |id: &str, name: &str, args: Result<Box<str>, String>| RawCall {
        id: id.into(),
        name: name.into(),
        args,
    };
    let calls = vec![raw("a", "guarded", Ok("{}".into())), raw("b", "serial", Err("[1".into()))];
    world.finish_with(Finish { calls, usage: None });
    assert_eq!(world.status(), Status::Parked);
    assert!(!world.machine.evictable());
    let shown = world.deny("a", None);
    assert_eq!(shown[3], "tool/result b !arguments are not a JSON object: [1");
}
