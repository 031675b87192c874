//! How "OpenAI-compatible" really behaves: a test for every line of cases-providers.md, on canned
//! bytes. Each answer is fed event by event, one byte at a time, and in one piece with its head and
//! its neighbours; what comes out must be the same.

mod bytes;
mod calls;
mod ends;
mod seen;
mod sent;
mod times;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::agent::{Message, RawCall};
use crate::config::{OpenAiConfig, Secret};
use crate::model::{Action, Call, Net, Note, OpenAi, Provider, Request, Target, ToolSpec};
use crate::proto::http_client::BaseUrl;
use crate::proto::payload::Usage;
use crate::proto::time::Mono;

const KEY: &str = "sk-canary-0123456789";
const HEADER: &str = "header-canary-0123456789";

/// What became of one call.
#[derive(Debug, Clone, PartialEq)]
struct Outcome {
    text: String,
    /// The last action.
    end: Action,
    requests: Vec<String>,
    notes: Vec<Note>,
    /// Milliseconds between the attempts.
    waits_ms: Vec<u64>,
    /// When it ended, counted from its start.
    took: Mono,
}

impl Outcome {
    fn calls(&self) -> &[RawCall] {
        match &self.end {
            Action::Finished(finish) => &finish.calls,
            end => panic!("not finished: {end:?}"),
        }
    }

    /// Name and arguments of every call.
    fn shown_calls(&self) -> Vec<String> {
        let show = |call: &RawCall| match &call.args {
            Ok(args) => format!("{} {args}", call.name),
            Err(sent) => format!("{} !{sent}", call.name),
        };
        self.calls().iter().map(show).collect()
    }

    fn usage(&self) -> Option<Usage> {
        match &self.end {
            Action::Finished(finish) => finish.usage,
            end => panic!("not finished: {end:?}"),
        }
    }

    fn reason(&self) -> &str {
        match &self.end {
            Action::Failed { reason, .. } => reason,
            end => panic!("not failed: {end:?}"),
        }
    }

    fn body(&self, request: usize) -> serde_json::Value {
        let (_, body) = self.requests[request].split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }
}

/// What the server does on one connection.
#[derive(Debug, Clone)]
enum Server {
    /// Answers and closes.
    Answers(Vec<u8>),
    /// Answers and keeps the connection.
    Holds(Vec<u8>),
    /// Breaks the connection after these bytes.
    Breaks(Vec<u8>),
    /// Does not let us connect.
    Refuses,
    /// Does not prove who it is.
    Deceives,
    /// Says nothing to our attempt to connect.
    Ignores,
}

/// What a connection brings.
#[derive(Debug)]
enum Event {
    Connected,
    Bytes(Vec<u8>),
    Eof,
    Failed,
    Untrusted,
}

#[derive(Debug, Clone, Copy)]
enum Feed {
    /// Split after every LF.
    Lines,
    Bytes,
    AtOnce,
}

fn config() -> OpenAiConfig {
    let base_url = BaseUrl::parse("http://127.0.0.1:11434/v1").unwrap();
    let headers = vec![("X-Api-Key".to_owned(), Secret::new(HEADER))];
    let api_key = Some(Secret::new(KEY));
    OpenAiConfig { api_key, headers, ..OpenAiConfig::new(base_url) }
}

fn tool(name: &str) -> ToolSpec {
    let params = r#"{"type":"object"}"#.into();
    ToolSpec { name: name.into(), description: format!("does {name}"), params }
}

/// A step that says hello, with tools `get_weather` and `f`.
fn hello() -> (Vec<Message>, Vec<ToolSpec>) {
    (vec![Message::User("hello".into())], vec![tool("get_weather"), tool("f")])
}

/// A call to servers that do what is listed, in order; fed in each way, with one outcome.
fn ask(servers: &[Server]) -> Outcome {
    ask_as(&config(), servers)
}

fn ask_as(config: &OpenAiConfig, servers: &[Server]) -> Outcome {
    let (messages, tools) = hello();
    let request = Request { system: None, messages: &messages, tools: &tools, fresh: &[] };
    let outcomes = [Feed::Lines, Feed::Bytes, Feed::AtOnce].map(|feed| {
        let server = Arc::new(OpenAi::new(config.clone()).unwrap());
        drive(&server, &request, servers, feed)
    });
    let [lines, bytes, at_once] = outcomes;
    assert_eq!(lines, bytes);
    assert_eq!(lines, at_once);
    lines
}

/// One call, with what every call must keep to checked on the way.
fn drive(provider: &Arc<OpenAi>, request: &Request<'_>, servers: &[Server], feed: Feed) -> Outcome {
    let provider = Provider::OpenAi(Arc::clone(provider));
    let mut call = Call::start(&provider, request, "m1", 0, Mono(0), 7);
    let mut now = Mono(0);
    let mut servers = servers.iter();
    // What the standing connection will bring, if one stands.
    let mut connection: Option<VecDeque<Event>> = None;
    let mut left = None;
    let (mut text, mut requests) = (String::new(), Vec::new());
    let (mut notes, mut waits_ms) = (Vec::new(), Vec::new());
    loop {
        match call.poll(now) {
            Action::Text(piece) => {
                assert!(!piece.is_empty());
                text.push_str(&piece);
            }
            Action::Connect { target, request } => {
                assert!(connection.is_none(), "a connection still stands");
                assert_eq!((&*target.host, target.port, target.tls), ("127.0.0.1", 11434, false));
                waits_ms.extend(left.map(|left| now.since(left)));
                requests.push(String::from_utf8(request.to_vec()).unwrap());
                let server = servers.next().expect("one connection too many");
                connection = Some(server.events(feed));
            }
            Action::Note(note) => notes.push(note),
            Action::Disconnect => {
                assert!(connection.take().is_some(), "no connection to leave");
                left = Some(now);
            }
            end @ (Action::Finished(_) | Action::Failed { .. }) => {
                assert!(connection.is_none(), "a connection still stands");
                assert!(servers.next().is_none(), "a connection too few");
                call.feed(now, Net::Bytes(b"late"));
                assert_eq!(call.poll(now), Action::Wait(None));
                return Outcome { text, end, requests, notes, waits_ms, took: now };
            }
            Action::Wait(deadline) => match connection.as_mut().and_then(VecDeque::pop_front) {
                Some(event) => {
                    let net = match &event {
                        Event::Connected => Net::Connected,
                        Event::Bytes(bytes) => Net::Bytes(bytes),
                        Event::Eof => Net::Eof,
                        Event::Failed => Net::Failed("connection reset"),
                        Event::Untrusted => Net::Untrusted("its certificate has expired"),
                    };
                    call.feed(now, net);
                    if matches!(event, Event::Eof | Event::Failed | Event::Untrusted) {
                        connection = None;
                        left = Some(now);
                    }
                }
                None => {
                    let deadline = deadline.expect("something to wait for");
                    assert!(deadline > now, "a deadline that has come was not acted on");
                    now = deadline;
                }
            },
        }
    }
}

impl Server {
    fn events(&self, feed: Feed) -> VecDeque<Event> {
        let (bytes, end) = match self {
            Server::Refuses => return VecDeque::from([Event::Failed]),
            Server::Deceives => return VecDeque::from([Event::Untrusted]),
            Server::Ignores => return VecDeque::new(),
            Server::Answers(bytes) => (bytes, Some(Event::Eof)),
            Server::Holds(bytes) => (bytes, None),
            Server::Breaks(bytes) => (bytes, Some(Event::Failed)),
        };
        let pieces: Vec<&[u8]> = match feed {
            Feed::Lines => bytes.split_inclusive(|byte| *byte == b'\n').collect(),
            Feed::Bytes => bytes.chunks(1).collect(),
            Feed::AtOnce => vec![bytes],
        };
        let pieces = pieces.into_iter().map(|piece| Event::Bytes(piece.to_vec()));
        std::iter::once(Event::Connected).chain(pieces).chain(end).collect()
    }
}

/// A successful answer that goes to the close.
fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{body}").into_bytes()
}

/// A stream of these events.
fn stream(events: &[&str]) -> Server {
    let events: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    Server::Answers(ok(&events.concat()))
}

/// An error with these headers, each with its line end.
fn refusal(status: u16, headers: &str, body: &str) -> Server {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\n\r\n");
    Server::Answers((head + body).into_bytes())
}

/// An event that brings this text.
fn text(text: &str) -> String {
    let content = serde_json::Value::from(text);
    format!(r#"{{"choices":[{{"index":0,"delta":{{"content":{content}}}}}]}}"#)
}

/// An event that brings these elements of `tool_calls`.
fn calls(elements: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{elements}]}}}}]}}"#)
}

const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const DONE: &str = "[DONE]";
