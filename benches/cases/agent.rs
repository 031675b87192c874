//! The turn machine: a plain turn, a turn whose step calls tools side by side, what a log says of its
//! agent, a history, an allow list.

use terret_ws::agent::fnmatch::fnmatch;
use terret_ws::agent::history::project;
use terret_ws::agent::{
    Concurrency, Context, Effect, Finish, Input, Machine, Message, ModelEvent, NoHooks, Output,
    RawCall, Rules, Snapshot, Status, ToolTraits,
};
use terret_ws::log::State;
use terret_ws::proto::command::Command;
use terret_ws::proto::event::NewEvent;
use terret_ws::proto::ident::{EventId, ModelSpec};
use terret_ws::proto::payload::{Body, Call, Content, Part};

use super::session;
use super::{Meter, Work};

/// Pieces of a step's text.
const CHUNKS: usize = 100;
const CHUNK: &str = "a piece ";
/// Calls of a step.
const CALLS: usize = 16;

fn rules() -> Rules {
    let parallel = ToolTraits { concurrency: Concurrency::Parallel, ..ToolTraits::default() };
    Rules {
        floor: vec!["get_*".into()],
        tools: [("get_weather".to_owned(), parallel)].into(),
        ..Rules::default()
    }
}

fn new_machine() -> Machine {
    Machine::load(&session::id(), &State::default(), [], Vec::new())
}

/// Wakes the machine and answers everything it asks for; the events it emits.
fn turn(machine: &mut Machine, rules: &Rules, calls: usize) -> Vec<NewEvent> {
    let model = ModelSpec::parse("echo/echo").expect("a model");
    let mut next = 0;
    let mut ids = || {
        next += 1;
        EventId(next)
    };
    let hooks = &NoHooks;
    let mut ctx = Context {
        rules,
        hooks,
        model: &model,
        ids: &mut ids,
        stopping: false,
        answer_begun: false,
    };
    let mut out = Output::default();
    let command = Command::Inject { text: "go".into(), wake: true };
    machine.input(Input::Command { from: None, command }, &mut ctx, &mut out);
    let mut calls: Vec<RawCall> = (0..calls)
        .map(|n| RawCall {
            id: format!("call_{n}"),
            name: "get_weather".into(),
            args: Ok("{\"city\":\"Rome\"}".into()),
        })
        .collect();
    while let Some(effect) = out.effects.pop() {
        match effect {
            Effect::Ask { ask, .. } => {
                for _ in 0..CHUNKS {
                    let event = ModelEvent::Text(CHUNK.into());
                    machine.input(Input::Model { ask, event }, &mut ctx, &mut out);
                }
                let finish = Finish { calls: std::mem::take(&mut calls), usage: None };
                let event = ModelEvent::Finished(finish);
                machine.input(Input::Model { ask, event }, &mut ctx, &mut out);
            }
            Effect::Run(runs) => {
                for run in runs {
                    let outcome = Ok(Content::text("22C"));
                    machine.input(Input::Tool { tag: run.tag, outcome }, &mut ctx, &mut out);
                }
            }
            Effect::StopAsking { .. } => unreachable!("nobody cancels"),
        }
    }
    out.events
}

/// The types of the events of such a turn, in their order.
fn kinds(calls: usize) -> Vec<&'static str> {
    let step = |kinds: &mut Vec<&'static str>| {
        kinds.extend(["assistant/chunk"; CHUNKS]);
        kinds.push("assistant/message");
    };
    let mut kinds = vec!["turn/start", "step/start", "user/message"];
    step(&mut kinds);
    if calls > 0 {
        kinds.extend(vec!["tool/call"; calls]);
        kinds.extend(vec!["tool/result"; calls]);
        kinds.extend(["step/end", "step/start"]);
        step(&mut kinds);
    }
    kinds.extend(["step/end", "turn/end"]);
    kinds
}

pub(crate) fn turns(meter: &mut impl Meter) {
    let rules = rules();
    for (what, calls) in [("plain", 0), ("16 parallel calls", CALLS)] {
        let kinds = kinds(calls);
        meter.again(
            &format!("agent/turn/{what}"),
            Work::Events(kinds.len()),
            new_machine(),
            |machine| turn(machine, &rules, calls),
            |machine, events| {
                assert!(events.iter().map(|event| event.body.kind()).eq(kinds.iter().copied()));
                let whole = [Part::Text(CHUNK.repeat(CHUNKS))];
                let is_whole =
                    |body: &Body| matches!(body, Body::AssistantMessage { parts } if *parts == whole);
                assert!(events.iter().any(|event| is_whole(&event.body)));
                assert_eq!(machine.status(), Status::Idle);
            },
        );
    }
}

pub(crate) fn projection(meter: &mut impl Meter) {
    let mut events = turn(&mut new_machine(), &rules(), CALLS);
    // The process died before the last step ended.
    events.truncate(events.len() - 2);
    let bodies: Vec<Body> = events.into_iter().map(|event| event.body).collect();
    let session = session::id();
    let state = State { turn: Some(1), steps: 2, ..State::default() };
    meter.fresh(
        "agent/projection/an open turn with 16 calls",
        Work::Events(bodies.len()),
        || bodies.clone(),
        |bodies| Machine::load(&session, &state, bodies.drain(..), Vec::new()),
        |_, machine| {
            let expected = Snapshot {
                status: Status::Interrupted,
                step: 2,
                pending: Vec::new(),
                policy: vec!["get_*".to_owned()],
                last_error: None,
                inbox_len: 0,
            };
            assert_eq!(machine.snapshot(&rules()), expected);
        },
    );
}

/// About a mebibyte of conversation, as `history_bytes` allows, and the messages it amounts to.
fn conversation() -> (Vec<(u64, Body)>, Vec<Message>) {
    let text = "All work and no play makes Jack a dull boy. ".repeat(20);
    let (mut bodies, mut messages) = (Vec::new(), Vec::new());
    for n in 0..400 {
        let id = format!("call_{n}");
        let call = Call { id: id.clone(), name: "get_weather".into(), args: "{\"n\":1}".into() };
        bodies.extend([
            Body::UserMessage { text: text.clone() },
            Body::AssistantMessage { parts: vec![Part::ToolCall(call.clone())] },
            Body::ToolResult { id: id.clone(), outcome: Ok(Content::text(&text)) },
            Body::AssistantMessage { parts: vec![Part::Text(text.clone())] },
        ]);
        messages.extend([
            Message::User(text.clone()),
            Message::Assistant { text: String::new(), calls: vec![call] },
            Message::Tool { call_id: id, content: text.clone() },
            Message::Assistant { text: text.clone(), calls: Vec::new() },
        ]);
    }
    ((0..).zip(bodies).collect(), messages)
}

pub(crate) fn history(meter: &mut impl Meter) {
    let (events, messages) = conversation();
    meter.fresh(
        "agent/history/1 MiB",
        Work::Events(events.len()),
        || events.clone(),
        |events| project(events.drain(..)),
        |_, projected| assert!(*projected == messages),
    );
}

pub(crate) fn patterns(meter: &mut impl Meter) {
    let name = "a".repeat(1024);
    let stars = format!("{}b", "*a".repeat(127));
    for (what, pattern, name, expected) in [
        ("a literal", "get_weather", "get_weather", true),
        ("a prefix", "get_*", "get_weather", true),
        ("a set", "[a-fg]et_[!x]*", "get_weather", true),
        ("as bad as it gets", stars.as_str(), name.as_str(), false),
    ] {
        meter.again(
            &format!("agent/fnmatch/{what}"),
            Work::Bytes(name.len()),
            (pattern, name),
            |(pattern, name)| fnmatch(pattern, name),
            |_, matches| assert_eq!(*matches, expected),
        );
    }
}
