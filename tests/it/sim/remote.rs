//! A model server on the other end of a provider connection: it answers in the dialect of chat
//! completions, cut at any byte, or refuses, falls silent, breaks off or talks nonsense.

use super::plan::Plan;
use super::provider::{Call, calls, texts};
use super::random::Random;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt::Write;
use terret_ws::conn::slab::Tag;
use terret_ws::work::advance::NetEvent;

/// A provider connection.
pub(super) struct Link {
    pub(super) agent: Tag,
    state: State,
}

enum State {
    /// It will stand, or not, or nobody ever says.
    Connecting(Option<bool>),
    /// Bytes still to come, and what comes then.
    Open { answer: VecDeque<u8>, then: Then },
}

/// What follows the last byte of an answer.
#[derive(Clone, Copy, Debug)]
enum Then {
    Close,
    Break,
    Silence,
}

impl Link {
    /// A connection is asked for.
    pub(super) fn new(agent: Tag, random: &mut Random) -> Self {
        let outcome = [Some(true), Some(true), Some(true), Some(true), Some(false), None];
        Self { agent, state: State::Connecting(random.pick(&outcome)) }
    }

    /// The next thing that happens, if anything does; the connection is over after some.
    pub(super) fn next(
        &mut self,
        plan: &Plan,
        random: &mut Random,
        calm: bool,
    ) -> Option<(NetEvent, bool)> {
        match &mut self.state {
            State::Connecting(None) if !calm => None,
            State::Connecting(Some(false)) if !calm => {
                Some((NetEvent::Failed("refused".to_owned()), true))
            }
            State::Connecting(_) => {
                let (answer, then) = if calm { plain_answer() } else { answer(plan, random) };
                self.state = State::Open { answer: answer.into(), then };
                Some((NetEvent::Connected, false))
            }
            State::Open { answer, then } if answer.is_empty() => match then {
                Then::Silence if !calm => None,
                Then::Break => Some((NetEvent::Failed("reset".to_owned()), true)),
                Then::Close | Then::Silence => Some((NetEvent::Eof, true)),
            },
            State::Open { answer, .. } => {
                let most = random.pick(&[1, 7, 100, 100_000]);
                let len = answer.len().min(most);
                Some((NetEvent::Bytes(answer.drain(..len).collect()), false))
            }
        }
    }
}

fn plain_answer() -> (Vec<u8>, Then) {
    (response(&events(&["at last".to_owned()], Vec::new()), true), Then::Close)
}

fn answer(plan: &Plan, random: &mut Random) -> (Vec<u8>, Then) {
    let (texts, calls) = (texts(random, plan.long), calls(random, plan.calls_percent));
    let chunked = random.chance(70);
    let mut whole = response(&events(&texts, calls), chunked);
    let then = random.pick(&[Then::Close, Then::Break, Then::Silence]);
    match random.below(10) {
        0 => (status(random, "429 Too Many Requests", "Retry-After: 2\r\n"), Then::Close),
        1 => (status(random, "503 Service Unavailable", ""), Then::Close),
        2 => (status(random, "400 Bad Request", ""), Then::Close),
        3 => {
            whole.truncate(random.below(whole.len()));
            (whole, then)
        }
        4 => (random.text(30).into_bytes(), then),
        _ => (whole, if chunked { then } else { Then::Close }),
    }
}

fn status(random: &mut Random, status: &str, header: &str) -> Vec<u8> {
    const SAID: [&str; 3] =
        ["overloaded", "maximum context length is 10 tokens", "stream_options is not supported"];
    let body = json!({"error": {"message": random.pick(&SAID)}}).to_string();
    let len = body.len();
    format!("HTTP/1.1 {status}\r\n{header}Content-Length: {len}\r\n\r\n{body}").into_bytes()
}

/// The events of an answer, one a string.
fn events(texts: &[String], calls: Vec<Call>) -> Vec<String> {
    let delta = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!("data: {}\n\n", json!({"choices": [choice]}))
    };
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}), Value::Null)];
    for text in texts {
        events.push(delta(json!({"content": text}), Value::Null));
    }
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    for (index, Call { id, name, args }) in calls.into_iter().enumerate() {
        let call = json!({"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": args}});
        events.push(delta(json!({"tool_calls": [call]}), Value::Null));
    }
    events.push(delta(json!({}), json!(finish)));
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 6});
    events.push(format!("data: {}\n\n", json!({"choices": [], "usage": usage})));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn response(events: &[String], chunked: bool) -> Vec<u8> {
    let coding = if chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
    let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{coding}\r\n");
    for event in events {
        if chunked {
            write!(bytes, "{:x}\r\n{event}\r\n", event.len()).unwrap();
        } else {
            bytes.push_str(event);
        }
    }
    if chunked {
        bytes.push_str("0\r\n\r\n");
    }
    bytes.into_bytes()
}
