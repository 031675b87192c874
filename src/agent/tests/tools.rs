//! The barrier, the checks before a call runs, the allow list (clarifications, sections 3 and 4).

use super::*;
use crate::agent::Rules;
use crate::limits::TOOL_RESULT_BYTES_MAX;

#[test]
fn a_serial_call_is_taken_up_when_the_one_before_is_answered() {
    let (mut world, shown) = calling(&[("a", "serial", "{ \"n\": 1e400}"), ("b", "serial", "{}")]);
    assert_eq!(
        shown,
        ["assistant/message a:serial{ \"n\": 1e400} b:serial{}", "tool/call a:serial"]
    );
    assert_eq!(world.running_tools(), ["a:serial"]);
    assert_eq!(&*world.tools[0].call.args, "{ \"n\": 1e400}");
    assert_eq!(world.tool(0, "1"), ["tool/result a 1", "tool/call b:serial"]);
    let shown = world.tool_breaks(0, "broken");
    assert_eq!(shown, ["tool/result b !broken", "step/end 1", "step/start 2"]);
}

#[test]
fn parallel_calls_run_together_and_their_results_come_in_call_order() {
    let calls = [
        ("a", "par", "{}"),
        ("b", "par2", "{}"),
        ("c", "serial", "{}"),
        ("d", "par", "{}"),
        ("e", "par", "{}"),
        ("f", "par", "{}"),
    ];
    let (mut world, shown) = calling(&calls);
    assert_eq!(shown[1..], ["tool/call a:par", "tool/call b:par2"]);
    assert_eq!(world.running_tools(), ["a:par", "b:par2"]);
    assert_eq!(world.tool(1, "second"), NOTHING);
    assert_eq!(
        world.tool(0, "first"),
        ["tool/result a first", "tool/result b second", "tool/call c:serial"]
    );
    assert_eq!(
        world.tool(0, "alone"),
        ["tool/result c alone", "tool/call d:par", "tool/call e:par", "tool/call f:par"]
    );
    assert_eq!(world.tool_breaks(2, "x"), NOTHING);
    assert_eq!(world.tool(0, "d"), NOTHING);
    assert_eq!(
        world.tool(0, "e"),
        ["tool/result d d", "tool/result e e", "tool/result f !x", "step/end 1", "step/start 2"]
    );
}

#[test]
fn usage_waits_for_the_end_of_the_step() {
    let mut world = World::new(rules());
    world.wake("go");
    let call = RawCall { id: "a".into(), name: "serial".into(), args: Ok("{}".into()) };
    world.finish_with(Finish { calls: vec![call], usage: Some(usage(7, 1)) });
    assert_eq!(world.tool(0, "")[1], "step/end 1 7+1");
}

#[test]
fn the_checks_come_in_their_order_and_none_ends_the_turn() {
    let raw = |name: &str, args: Result<&str, &str>| RawCall {
        id: "a".into(),
        name: name.into(),
        args: args.map(Into::into).map_err(Into::into),
    };
    let cut = "{\"city\": \"Ro";
    let rows = [
        (raw("unlisted", Ok("{}")), "unlisted is not on the allow list"),
        (raw("unlisted", Err(cut)), "unlisted is not on the allow list"),
        (raw("listed_but_unknown", Err(cut)), "unknown tool listed_but_unknown"),
        (raw("guarded", Err(cut)), "arguments are not a JSON object: {\"city\": \"Ro"),
    ];
    for (call, error) in rows {
        let mut world = World::new(rules());
        world.set_policy(&["listed*", "guarded"]);
        world.wake("go");
        let name = call.name.clone();
        let args = call.args.clone().unwrap_or("{}".into());
        let shown = world.finish_with(Finish { calls: vec![call], usage: None });
        assert_eq!(
            shown,
            [
                format!("assistant/message a:{name}{args}"),
                format!("tool/call a:{name}"),
                format!("tool/result a !{error}"),
                "step/end 1".into(),
                "step/start 2".into()
            ]
        );
    }
}

#[test]
fn a_refused_call_keeps_its_place_in_a_parallel_run() {
    let (mut world, _) = calling(&[("a", "serial", "{}")]);
    world.set_policy(&["par"]);
    world.tool(0, "");
    let shown = world.finish(&[("a", "par", "{}"), ("b", "par2", "{}"), ("c", "par", "{}")]);
    assert_eq!(shown[1..], ["tool/call a:par", "tool/call b:par2", "tool/call c:par"]);
    assert_eq!(world.running_tools(), ["a:par", "c:par"]);
    world.tool(1, "c");
    let shown = world.tool(0, "a");
    assert_eq!(
        shown[..3],
        ["tool/result a a", "tool/result b !par2 is not on the allow list", "tool/result c c"]
    );
}

#[test]
fn an_empty_floor_denies_every_call() {
    let mut world = World::new(Rules { floor: vec![], ..rules() });
    world.wake("go");
    let shown = world.finish(&[("a", "serial", "{}")]);
    assert_eq!(shown[2], "tool/result a !serial is not on the allow list");
    assert!(world.tools.is_empty());
}

#[test]
fn a_policy_counts_from_the_very_next_call_and_survives_a_restart() {
    let (mut world, _) = calling(&[("a", "serial", "{}"), ("b", "serial", "{}")]);
    assert_eq!(world.set_policy(&[]), ["policy/updated "]);
    let shown = world.tool(0, "ran");
    assert_eq!(
        shown[..3],
        [
            "tool/result a ran",
            "tool/call b:serial",
            "tool/result b !serial is not on the allow list"
        ]
    );
    world.finish(&[]);
    world.restart();
    world.wake("go");
    let shown = world.finish(&[("c", "serial", "{}")]);
    assert_eq!(shown[2], "tool/result c !serial is not on the allow list");
    world.set_policy(&["other", "s[a-f]rial"]);
    world.finish(&[("d", "serial", "{}")]);
    assert_eq!(world.running_tools(), ["d:serial"]);
    // It replaces the floor, and the floor does not come back.
    let snapshot = world.machine.snapshot(&world.rules);
    assert_eq!(snapshot.policy, ["other", "s[a-f]rial"]);
}

#[test]
fn a_policy_may_change_while_nothing_runs() {
    let mut world = World::new(rules());
    assert_eq!(world.set_policy(&["a", "b*"]), ["policy/updated a b*"]);
    assert_eq!(world.status(), Status::Idle);
}

#[test]
fn a_provider_that_calls_everything_by_one_id_gets_every_result() {
    let calls = [
        ("0", "par", "{\"n\":1}"),
        ("0", "par", "{\"n\":2}"),
        ("0", "serial", "{}"),
        ("0", "serial", "{}"),
    ];
    let (mut world, _) = calling(&calls);
    world.tool(1, "two");
    world.tool(0, "one");
    world.tool(0, "three");
    world.tool(0, "four");
    let results: Vec<_> =
        world.shown().into_iter().filter(|shown| shown.starts_with("tool/result")).collect();
    let expected =
        ["tool/result 0 one", "tool/result 0 two", "tool/result 0 three", "tool/result 0 four"];
    assert_eq!(results, expected);
    // And in the next step of the turn again.
    world.finish(&[("0", "serial", "{}")]);
    assert_eq!(world.running_tools(), ["0:serial"]);
    assert_eq!(world.tool(0, "five")[0], "tool/result 0 five");
}

#[test]
fn a_result_too_large_for_its_line_becomes_an_error() {
    let text = |text: &str| Ok(Content::text(text));
    let at_most = TOOL_RESULT_BYTES_MAX - 2;
    for (outcome, fits) in [
        (text(&"x".repeat(at_most)), true),
        (text(&"x".repeat(at_most + 1)), false),
        (text(&"\u{1}".repeat(at_most / 6 + 1)), false),
        (Err("\u{1}".repeat(TOOL_RESULT_BYTES_MAX / 6 + 1)), false),
    ] {
        let (mut world, _) = calling(&[("a", "serial", "{}")]);
        let shown = world.tool_ends(0, outcome);
        let error = "tool/result a !the result is over 7340032 bytes";
        assert_eq!(shown[0] == error, !fits, "{}", &shown[0][..40]);
    }
}

#[test]
fn an_outcome_that_comes_twice_counts_once() {
    let (mut world, _) = calling(&[("a", "par", "{}"), ("b", "par", "{}")]);
    let tag = world.tools[0].tag;
    world.tool(0, "first");
    assert_eq!(world.tell(Input::Tool { tag, outcome: Ok(Content::text("again")) }), NOTHING);
    assert_eq!(world.tool(0, "b")[0], "tool/result a first");
}
