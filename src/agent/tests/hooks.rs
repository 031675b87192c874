//! What an embedding program's hooks can do to a turn, and what they cannot.

use super::{NOTHING, Status, World, calling, rules};
use crate::agent::{Hooks, StepAhead};
use crate::limits::{CLIENT_MESSAGE_BYTES_MAX, REASON_CHARS_MAX, TOOL_RESULT_BYTES_MAX};
use crate::proto::ident::SessionId;
use crate::proto::payload::{Call, Content, Outcome};

/// Goes by what it sees: texts that begin with `no` are refused, others put in capitals; the tool
/// `serial` and arguments with `bad` in them are vetoed; outcomes of `par` are rewritten.
struct Strict;

impl Hooks for Strict {
    fn before_step(&self, step: &StepAhead<'_>, texts: &mut [String]) -> Result<(), String> {
        if texts.iter().any(|text| text.starts_with("no")) {
            return Err(format!("refused step {} of {} to {}", step.n, step.session, step.model));
        }
        for text in texts {
            *text = text.to_uppercase();
        }
        Ok(())
    }

    fn before_call(&self, _: &SessionId, call: &Call) -> Result<(), String> {
        match &*call.name {
            "serial" => Err("not today".to_owned()),
            _ if call.args.contains("bad") => Err("bad arguments".to_owned()),
            _ => Ok(()),
        }
    }

    fn after_call(&self, session: &SessionId, call: &Call, outcome: Outcome) -> Outcome {
        if call.name != "par" {
            return outcome;
        }
        match outcome {
            Ok(content) => Ok(Content::text(&format!("{session}: {}", content.to_text()))),
            Err(error) => Ok(Content::text(&format!("it said {error}"))),
        }
    }
}

fn strict() -> World {
    let mut world = World::new(rules());
    world.hooks = Box::new(Strict);
    world
}

const REFUSED: &str = "turn/end rejected (refused step 1 of s1 to echo/echo)";

#[test]
fn what_a_step_takes_in_may_be_rewritten() {
    let mut world = strict();
    world.steer("before");
    let shown = world.wake("go");
    let taken_in = ["user/message GO", "context/injected BEFORE"];
    assert_eq!(shown, ["turn/start", "step/start 1", taken_in[0], taken_in[1]]);
    let asked = world.asked.as_ref().expect("a model is asked");
    assert_eq!(asked.fresh, ["GO", "BEFORE"]);
}

#[test]
fn a_refused_first_step_ends_its_turn_rejected_and_spends_the_text_that_started_it() {
    let mut world = strict();
    assert_eq!(world.wake("no way"), ["turn/start", REFUSED]);
    assert_eq!(world.status(), Status::Idle);
    assert!(world.asked.is_none());
    let shown = world.wake("go");
    assert_eq!(shown, ["turn/start", "step/start 1", "user/message GO"]);
}

#[test]
fn steers_of_a_refused_step_go_back_to_the_inbox_as_they_were() {
    let mut world = strict();
    world.steer("one");
    world.steer("two");
    assert_eq!(world.wake("no"), ["turn/start", REFUSED]);
    assert_eq!(world.machine.snapshot(&world.rules).inbox_len, 2);
    world.restart();
    assert_eq!(world.machine.snapshot(&world.rules).inbox_len, 2, "and in the file");
    assert_eq!(
        world.wake("go")[2..],
        ["user/message GO", "context/injected ONE", "context/injected TWO"]
    );
}

#[test]
fn a_waking_text_that_was_refused_is_spent_for_good_though_it_had_waited_in_the_inbox() {
    let mut world = strict();
    world.wake("go");
    world.wake("no, wait");
    // The turn's end takes the waking text up, and the hook refuses it.
    let shown = world.finish(&[]);
    assert_eq!(shown[2..], ["turn/end completed", "turn/start", REFUSED]);
    world.restart();
    assert_eq!(world.machine.snapshot(&world.rules).inbox_len, 0);
    assert_eq!(world.status(), Status::Idle);
}

#[test]
fn after_a_rejected_turn_the_next_waking_text_starts_its_own() {
    let mut world = strict();
    world.wake("go");
    for text in ["no", "no again", "yes"] {
        world.wake(text);
    }
    let shown = world.finish(&[]);
    // The first refusal is for all three, which the first of them was to take in.
    assert_eq!(shown[2..5], ["turn/end completed", "turn/start", REFUSED]);
    assert_eq!(shown[5..7], ["turn/start", REFUSED]);
    assert_eq!(shown[7..], ["turn/start", "step/start 1", "user/message YES"]);
}

#[test]
fn a_later_step_may_be_refused_as_well_and_ends_the_turn_with_all_its_calls_answered() {
    let mut world = strict();
    world.wake("go");
    world.finish(&[("1", "par", "{}")]);
    world.steer("no more");
    let shown = world.tool(0, "out");
    assert_eq!(
        shown,
        [
            "tool/result 1 s1: out",
            "step/end 1",
            "turn/end rejected (refused step 2 of s1 to echo/echo)"
        ]
    );
    assert_eq!(world.machine.snapshot(&world.rules).inbox_len, 1);
}

#[test]
fn a_call_may_be_vetoed_after_everything_else_let_it_through_and_before_anybody_is_asked() {
    let mut world = strict();
    world.wake("go");
    let shown = world.finish(&[
        ("1", "serial", "{}"),
        ("2", "guarded", r#"{"bad":1}"#),
        ("3", "none", "{}"),
        ("4", "guarded", "{}"),
    ]);
    let results: Vec<&String> =
        shown.iter().filter(|event| event.starts_with("tool/result")).collect();
    assert_eq!(
        results,
        [
            "tool/result 1 !serial vetoed: not today",
            "tool/result 2 !guarded vetoed: bad arguments",
            "tool/result 3 !unknown tool none",
        ]
    );
    assert_eq!(shown.last().map(String::as_str), Some("approval/requested 4:guarded"));
    assert_eq!(world.running_tools(), NOTHING);
}

#[test]
fn a_hook_cannot_widen_the_policy() {
    let mut world = strict();
    world.set_policy(&["par"]);
    world.wake("go");
    let shown = world.finish(&[("1", "par2", "{}")]);
    assert!(
        shown.contains(&"tool/result 1 !par2 is not on the allow list".to_owned()),
        "{shown:?}"
    );
    assert_eq!(world.running_tools(), NOTHING);
}

#[test]
fn a_veto_is_asked_for_again_when_the_verdict_has_come() {
    let mut world = World::new(rules());
    world.wake("go");
    world.finish(&[("1", "guarded", r#"{"bad":1}"#)]);
    assert_eq!(world.status(), Status::Parked);
    world.hooks = Box::new(Strict);
    let shown = world.approve("1");
    assert_eq!(shown[1], "tool/result 1 !guarded vetoed: bad arguments");
    assert_eq!(world.running_tools(), NOTHING);
}

#[test]
fn an_outcome_may_be_rewritten_whatever_it_was() {
    let mut world = strict();
    world.wake("go");
    world.finish(&[("1", "par", "{}"), ("2", "par", "{}"), ("3", "par2", "{}")]);
    world.tool(0, "out");
    world.tool_breaks(0, "it broke");
    let shown = world.tool(0, "as it was");
    assert_eq!(
        shown[..3],
        ["tool/result 1 s1: out", "tool/result 2 it said it broke", "tool/result 3 as it was"]
    );
}

/// Says more than fits.
struct Verbose;

impl Hooks for Verbose {
    fn before_step(&self, step: &StepAhead<'_>, texts: &mut [String]) -> Result<(), String> {
        if let Some(text) = texts.first_mut() {
            *text = "x".repeat(CLIENT_MESSAGE_BYTES_MAX + usize::from(text == "longer"));
        }
        if step.n == 1 { Ok(()) } else { Err("y".repeat(CLIENT_MESSAGE_BYTES_MAX)) }
    }

    fn after_call(&self, _: &SessionId, _: &Call, _: Outcome) -> Outcome {
        Err("z".repeat(TOOL_RESULT_BYTES_MAX + 1))
    }
}

#[test]
fn what_a_hook_says_is_bounded() {
    let mut world = World::new(rules());
    world.hooks = Box::new(Verbose);
    let refused =
        format!("turn/end rejected (a rewritten text is over {CLIENT_MESSAGE_BYTES_MAX} bytes)");
    assert_eq!(world.wake("longer"), ["turn/start", &*refused]);
    assert_eq!(world.wake("long").len(), 3);
    world.finish(&[("1", "serial", "{}")]);
    let shown = world.tool(0, "out");
    let over = format!("tool/result 1 !the result is over {TOOL_RESULT_BYTES_MAX} bytes");
    assert_eq!(shown[0], over);
    let reason = "y".repeat(REASON_CHARS_MAX);
    assert_eq!(shown[2], format!("turn/end rejected ({reason})"));
}

#[test]
fn hooks_that_say_nothing_change_nothing() {
    struct Silent;
    impl Hooks for Silent {}
    let (mut plain, _) = calling(&[("1", "par", "{}")]);
    let mut silent = World::new(rules());
    silent.hooks = Box::new(Silent);
    silent.wake("go");
    silent.finish(&[("1", "par", "{}")]);
    assert_eq!(plain.tool(0, "out"), silent.tool(0, "out"));
    assert_eq!(plain.log, silent.log);
}
