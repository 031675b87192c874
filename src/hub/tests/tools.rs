//! Turns whose model calls tools of the embedding program, with jobs run in the order the test says.

use super::world::{WAKE, World, step, subscribe, tokens};
use crate::agent::Approval;
use crate::config::{Config, Script, ScriptCall, ScriptEnd, ScriptStep};
use crate::conn::slab::Tag;
use crate::model::custom::{Answer, Piece};
use crate::model::{Provider, Request};
use crate::proto::event::Envelope;
use crate::proto::payload::Content;
use crate::tool::{ClosureTool, ToolCall};
use crate::work::{Job, Reload};
use std::sync::Arc;

/// A model answer that calls each of these tools with its name as the call's id.
pub(super) fn calls(names: &[&str]) -> ScriptStep {
    let call = |name: &&str| ScriptCall {
        id: format!("id-{name}"),
        name: (*name).to_owned(),
        args: r#"{ "n": 1e400 }"#.into(),
    };
    let calls = names.iter().map(call).collect();
    ScriptStep {
        delay_ms: 0,
        chunk_delay_ms: 0,
        pieces: Vec::new(),
        end: ScriptEnd::Answer { calls, usage: None },
    }
}

fn world(steps: Vec<ScriptStep>, tools: Vec<ClosureTool>) -> World {
    let config = Config { policy: vec!["*".into()], approvals: true, ..Config::default() };
    let script = Provider::Scripted(Arc::new(Script { steps, repeat: true }));
    World::configured(&config, script, tools, |_| {})
}

/// A tool that answers with what it was called with.
pub(super) fn mirror(name: &str) -> ClosureTool {
    ClosureTool::new(name, |call: &ToolCall<'_>| {
        Ok(Content::text(&format!("{} {} {}", call.session, call.call_id, call.args)))
    })
}

/// The events a peer has received since it was last asked: type and payload.
fn events(world: &mut World, tag: Tag) -> Vec<String> {
    let shown = |frame: String| {
        let event = Envelope::parse(frame.as_bytes()).expect("an event");
        format!("{} {}", event.kind, String::from_utf8_lossy(event.payload))
    };
    std::mem::take(&mut world.peer(tag).frames).into_iter().map(shown).collect()
}

fn kinds(events: &[String]) -> Vec<&str> {
    events.iter().map(|event| event.split(' ').next().expect("a type")).collect()
}

/// A client that has woken session 0 and sees its log.
fn woken(world: &mut World) -> Tag {
    let tag = world.connect(0);
    world.send(tag, &subscribe(1));
    world.settle();
    world.send(tag, WAKE);
    tag
}

#[test]
fn a_closure_gets_its_call_as_the_model_wrote_it_and_its_result_goes_into_the_log() {
    let mut world = world(vec![calls(&["m"]), calls(&[])], vec![mirror("m")]);
    let tag = woken(&mut world);
    world.settle();
    let events = events(&mut world, tag);
    let result = r#"tool/result {"id":"id-m","content":"s0 id-m { \"n\": 1e400 }","error":null}"#;
    assert!(events.iter().any(|event| event == result), "{events:#?}");
    assert!(events.last().is_some_and(|end| end.contains("\"completed\"")), "{events:#?}");
}

#[test]
fn a_parallel_run_is_as_many_jobs_and_logs_its_results_in_call_order() {
    let tools = ["a", "b", "c"].map(|name| mirror(name).parallel());
    let mut world = world(vec![calls(&["a", "b", "c"]), calls(&[])], tools.into());
    let tag = woken(&mut world);
    while !matches!(world.jobs.front(), Some(Job::Tool(_))) {
        assert!(world.run_job(), "the tools are jobs in the end");
    }
    assert_eq!(world.jobs.len(), 3);
    world.jobs.make_contiguous().reverse();
    let before = events(&mut world, tag);
    assert!(kinds(&before).ends_with(&["tool/call"; 3]), "{before:#?}");
    world.settle();
    let after = events(&mut world, tag);
    let results = after.iter().filter(|event| event.starts_with("tool/result"));
    let ids: Vec<&str> = results.map(|event| &event[19..23]).collect();
    assert_eq!(ids, ["id-a", "id-b", "id-c"]);
}

#[test]
fn a_model_is_told_of_every_tool() {
    let model = |request: &crate::model::Request<'_>, _: &str| -> Answer {
        let told = request.tools.iter().map(|tool| format!("{}:{}", tool.name, tool.params));
        Box::new([Ok(Piece::Text(told.collect::<Vec<_>>().join(" ")))].into_iter())
    };
    let tools = vec![mirror("a").params(r#"{"type":"object"}"#), mirror("b").params("{}")];
    let config = Config::default();
    let mut world = World::configured(&config, Provider::Custom(Arc::new(model)), tools, |_| {});
    let tag = woken(&mut world);
    world.settle();
    let events = events(&mut world, tag);
    let chunk = r#"assistant/chunk {"text":"a:{\"type\":\"object\"} b:{}"}"#;
    assert!(events.iter().any(|event| event == chunk), "{events:#?}");
}

#[test]
fn a_parked_agent_leaves_memory_and_goes_on_with_the_verdict() {
    let tool = mirror("m").approval(Approval::Always);
    let mut world = world(vec![calls(&["m"]), calls(&[])], vec![tool]);
    let tag = woken(&mut world);
    world.settle();
    let before = events(&mut world, tag);
    assert_eq!(kinds(&before)[3..], ["assistant/message", "tool/call", "approval/requested"]);
    world.hub.evict_idle_for_test(tag);
    let get = "GET /agents/s0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t0\r\n\r\n";
    let reader = world.dial(get.as_bytes());
    world.settle();
    let answer = world.peer(reader).text();
    assert!(
        answer.contains(r#""status":"parked","pending_approvals":[{"call_id":"id-m""#),
        "{answer}"
    );
    assert_eq!(kinds(&events(&mut world, tag)), [""; 0], "asking changes nothing");
    world.hub.evict_idle_for_test(tag);
    world.send(tag, r#"{"type":"approve","call_id":"id-m"}"#);
    world.settle();
    let after = events(&mut world, tag);
    assert_eq!(kinds(&after)[..3], ["approval/resolved", "tool/result", "step/end"]);
    assert!(after.last().is_some_and(|end| end.contains("\"completed\"")), "{after:#?}");
}

#[test]
fn a_reload_that_turns_approvals_off_denies_what_is_parked_wherever_the_agent_is() {
    let off = || Config { policy: vec!["*".into()], ..Config::default() };
    for place in ["at home", "out of memory", "in a job"] {
        let tool = mirror("m").approval(Approval::Always);
        let mut world = world(vec![calls(&["m"]), calls(&[])], vec![tool]);
        let tag = woken(&mut world);
        match place {
            "in a job" => {}
            _ => world.settle(),
        }
        if place == "out of memory" {
            world.hub.evict_idle_for_test(tag);
        }
        let running = Arc::new(off());
        world.hub.reload(Reload { config: off(), running, tokens: tokens() });
        world.obey();
        world.settle();
        let seen = events(&mut world, tag);
        let kinds = kinds(&seen);
        let at = kinds.iter().position(|kind| *kind == "approval/requested").expect(place);
        let then = ["approval/resolved", "tool/result", "step/end", "step/start"];
        assert_eq!(kinds[at + 1..at + 5], then, "{place}");
        assert!(seen[at + 2].contains("m denied: approvals were turned off"), "{place}: {seen:#?}");
        assert!(seen.last().is_some_and(|end| end.contains("\"completed\"")), "{place}");
    }
}

#[test]
fn nobody_can_tell_that_a_parked_agent_had_left_memory() {
    // A cancel denies a parked call; only after a restart is it truncated instead.
    let ended = |evict: bool| {
        let mut world = world(vec![calls(&["a"])], vec![mirror("a").approval(Approval::Always)]);
        let tag = woken(&mut world);
        world.settle();
        if evict {
            world.hub.evict_idle_for_test(tag);
        }
        world.send(tag, r#"{"type":"cancel","reason":"no need"}"#);
        world.settle();
        events(&mut world, tag)
    };
    let stayed = ended(false);
    let denied = r#""error":"a denied: no need""#;
    assert!(stayed[stayed.len() - 3].contains(denied), "{stayed:#?}");
    assert_eq!(ended(true), stayed);
}

#[test]
fn a_result_that_comes_while_the_disk_is_full_is_kept_and_logged_once() {
    let tools = ["a", "b"].map(|name| mirror(name).parallel());
    let mut world = world(vec![calls(&["a", "b"]), calls(&[])], tools.into());
    let tag = woken(&mut world);
    while !matches!(world.jobs.front(), Some(Job::Tool(_))) {
        assert!(world.run_job(), "the tools are jobs in the end");
    }
    world.disk.faults(|faults| faults.space = Some(0));
    world.send(tag, r#"{"type":"set_policy","patterns":["*","x"]}"#);
    world.settle();
    assert!(events(&mut world, tag).iter().all(|event| !event.starts_with("tool/result")));
    world.disk.faults(|faults| faults.space = None);
    world.pass(1000);
    world.settle();
    let after = events(&mut world, tag);
    let results = kinds(&after).iter().filter(|kind| **kind == "tool/result").count();
    assert_eq!(results, 2, "{after:#?}");
    assert!(after.last().is_some_and(|end| end.contains("\"completed\"")), "{after:#?}");
}

#[test]
fn a_step_whose_history_cannot_be_read_fails_its_turn_in_the_log_too() {
    let model = |_: &Request<'_>, _: &str| -> Answer { unreachable!("it would ask of nothing") };
    let mut world = World::with(Provider::Custom(Arc::new(model)), |_| {});
    let tag = world.connect(0);
    world.send(tag, &subscribe(1));
    world.settle();
    world.send(tag, WAKE);
    world.disk.faults(|faults| faults.reads_fail = 1);
    world.settle();
    let seen = events(&mut world, tag);
    let last = seen.last().expect("the turn's end");
    assert!(last.starts_with(r#"turn/end {"status":"failed","reason":"the history"#), "{last}");
}

#[test]
fn a_model_is_not_asked_when_the_cancel_is_there_already() {
    let model = |_: &Request<'_>, _: &str| -> Answer { unreachable!("its turn is cancelled") };
    let mut world = World::with(Provider::Custom(Arc::new(model)), |_| {});
    let tag = world.connect(0);
    world.send(tag, &subscribe(1));
    world.send(tag, r#"{"type":"set_policy","patterns":[]}"#);
    // The agent is out: both of these go with its next job.
    world.send(tag, WAKE);
    world.send(tag, r#"{"type":"cancel"}"#);
    world.settle();
    let seen = events(&mut world, tag);
    assert_eq!(kinds(&seen).last(), Some(&"turn/end"), "{seen:?}");
}

#[test]
fn a_result_that_comes_while_the_disk_is_full_is_logged_when_it_has_space_again() {
    let mut world = world(vec![calls(&["a"]), step(&["done"])], vec![mirror("a")]);
    let tag = woken(&mut world);
    let is_tool = |job: &Job| matches!(job, Job::Tool(_));
    while !world.jobs.iter().any(is_tool) {
        world.run_job();
    }
    world.disk.faults(|faults| faults.space = Some(0));
    let tool = world.jobs.pop_back().expect("it runs");
    world.send(tag, r#"{"type":"set_policy","patterns":["*"]}"#);
    world.settle();
    world.jobs.push_back(tool);
    world.settle();
    events(&mut world, tag);
    world.disk.faults(|faults| faults.space = None);
    world.pass(1000);
    world.settle();
    let events = events(&mut world, tag);
    assert_eq!(kinds(&events)[..2], ["policy/updated", "tool/result"]);
    assert_eq!(kinds(&events).last(), Some(&"turn/end"));
}
