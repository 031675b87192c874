//! What the turn machine costs: a plain turn, a turn whose step calls tools side by side, a load
//! from the log, a history, an allow list. Every row asserts its result.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use terret_ws::agent::fnmatch::fnmatch;
use terret_ws::agent::history::project;
use terret_ws::agent::{
    Concurrency, Context, Effect, Finish, Input, Machine, Message, ModelEvent, NoHooks, Output,
    RawCall, Rules, ToolTraits,
};
use terret_ws::log::State;
use terret_ws::proto::command::Command;
use terret_ws::proto::event::NewEvent;
use terret_ws::proto::ident::{EventId, ModelSpec, SessionId};
use terret_ws::proto::payload::{Body, Call, Content, Part};

/// Pieces of a step's text.
const CHUNKS: usize = 100;
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
    let session = SessionId::parse("bench").expect("a session id");
    Machine::load(&session, &State::default(), [], Vec::new())
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
                    let event = ModelEvent::Text("a piece ".into());
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

fn turns(c: &mut Criterion) {
    let rules = rules();
    let mut group = c.benchmark_group("agent/turn");
    for (name, calls, events) in [
        ("plain", 0, 3 + CHUNKS + 3),
        ("16 parallel calls", CALLS, 3 + 2 * (CHUNKS + 2) + 2 * CALLS + 2),
    ] {
        group.throughput(Throughput::Elements(events as u64));
        group.bench_function(name, |b| {
            let mut machine = new_machine();
            b.iter(|| {
                let emitted = turn(&mut machine, &rules, calls);
                assert_eq!(emitted.len(), events);
                emitted
            });
        });
    }
    group.finish();
}

fn load(c: &mut Criterion) {
    let mut events = turn(&mut new_machine(), &rules(), CALLS);
    // The process died before the last step ended.
    events.truncate(events.len() - 2);
    let bodies: Vec<Body> = events.into_iter().map(|event| event.body).collect();
    let session = SessionId::parse("bench").expect("a session id");
    let state = State { turn: Some(1), steps: 2, ..State::default() };
    let mut group = c.benchmark_group("agent/load");
    group.throughput(Throughput::Elements(bodies.len() as u64));
    group.bench_function("an open turn", |b| {
        b.iter_batched(
            || bodies.clone(),
            |bodies| {
                let machine = Machine::load(&session, &state, bodies, Vec::new());
                assert!(machine.has_open_turn());
                machine
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// About a mebibyte of conversation, as `history_bytes` allows.
fn conversation() -> Vec<(u64, Body)> {
    let text = "All work and no play makes Jack a dull boy. ".repeat(20);
    let call = |id: String| Call { id, name: "get_weather".into(), args: "{\"n\":1}".into() };
    let turn = |n: u64| {
        let id = format!("call_{n}");
        [
            Body::UserMessage { text: text.clone() },
            Body::AssistantMessage { parts: vec![Part::ToolCall(call(id.clone()))] },
            Body::ToolResult { id, outcome: Ok(Content::text(&text)) },
            Body::AssistantMessage { parts: vec![Part::Text(text.clone())] },
        ]
    };
    (0..).zip((0..400).flat_map(turn)).collect()
}

fn history(c: &mut Criterion) {
    let events = conversation();
    let bytes: usize = events
        .iter()
        .map(|(_, body)| {
            let mut payload = Vec::new();
            body.write_payload(&mut payload);
            payload.len()
        })
        .sum();
    let mut group = c.benchmark_group("agent/history");
    group.throughput(Throughput::Bytes(bytes as u64));
    group.bench_function("1 MiB", |b| {
        b.iter_batched(
            || events.clone(),
            |events| {
                let messages = project(events);
                assert_eq!(messages.len(), 1600);
                assert!(matches!(messages[0], Message::User(_)));
                messages
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

fn patterns(c: &mut Criterion) {
    let name = "a".repeat(1024);
    let stars = format!("{}b", "*a".repeat(127));
    let mut group = c.benchmark_group("agent/fnmatch");
    for (what, pattern, name, expected) in [
        ("a literal", "get_weather", "get_weather", true),
        ("a prefix", "get_*", "get_weather", true),
        ("a set", "[a-fg]et_[!x]*", "get_weather", true),
        ("as bad as it gets", stars.as_str(), name.as_str(), false),
    ] {
        group.bench_function(what, |b| {
            b.iter(|| assert_eq!(fnmatch(black_box(pattern), black_box(name)), expected));
        });
    }
    group.finish();
}

criterion_group!(benches, turns, load, history, patterns);
criterion_main!(benches);
