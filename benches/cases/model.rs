//! A model request: putting an answer together from its stream, and writing a long history.

use std::sync::Arc;

use terret_ws::agent::{Finish, Message};
use terret_ws::config::OpenAiConfig;
use terret_ws::model::{Action, Call, Net, OpenAi, Provider, Request, ToolSpec};
use terret_ws::proto::http_client::BaseUrl;
use terret_ws::proto::payload;
use terret_ws::proto::time::Mono;

use super::{Meter, PACKET_BYTES, READ_BYTES, Work};

/// Deltas of one answer.
const DELTAS: usize = 1000;

fn server() -> Provider {
    let base_url = BaseUrl::parse("http://127.0.0.1:8080/v1").expect("a URL");
    let config = OpenAiConfig::new(base_url);
    Provider::OpenAi(Arc::new(OpenAi::new(config).expect("no header but ours")))
}

/// An answer of such deltas, as hosted servers dress them.
fn stream(delta: &str) -> Vec<u8> {
    let mut stream = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n".to_vec();
    let mut event = |delta: &str, finish_reason: &str| {
        let chunk = format!(
            "data: {{\"id\":\"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG\",\"object\":\
             \"chat.completion.chunk\",\"created\":1741570283,\"model\":\"m-2026-01-01\",\
             \"system_fingerprint\":\"fp_44709d6fcb\",\"choices\":[{{\"index\":0,\"delta\":{delta},\
             \"logprobs\":null,\"finish_reason\":{finish_reason}}}],\"usage\":null}}\n\n"
        );
        stream.extend_from_slice(chunk.as_bytes());
    };
    for _ in 0..DELTAS {
        event(delta, "null");
    }
    event("{}", "\"stop\"");
    stream.extend_from_slice(b"data: [DONE]\n\n");
    stream
}

/// Asks, and hears the stream in pieces.
fn hear(server: &Provider, stream: &[u8], piece_len: usize, mut say: impl FnMut(String)) -> Finish {
    let messages = [Message::User("hello".into())];
    let request = Request { system: None, messages: &messages, tools: &[], fresh: &[] };
    let mut call = Call::start(server, &request, "m", 0, Mono(0), 0);
    let mut pieces = stream.chunks(piece_len);
    loop {
        match call.poll(Mono(0)) {
            Action::Text(text) => say(text),
            Action::Connect { .. } => call.feed(Mono(0), Net::Connected),
            Action::Wait(_) => {
                let piece = pieces.next().expect("the stream ends the answer");
                call.feed(Mono(0), Net::Bytes(piece));
            }
            Action::Disconnect | Action::Note(_) => {}
            Action::Finished(finish) => return finish,
            Action::Failed { reason, .. } => panic!("{reason}"),
        }
    }
}

pub(crate) fn decode(meter: &mut impl Meter) {
    let server = server();
    let text = stream(r#"{"content":" token"}"#);
    // A thousand deltas bring the braces of an object a thousand times: only the first pair counts.
    let args = stream(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#);
    for (how, piece_len) in [("whole", READ_BYTES), ("split", PACKET_BYTES)] {
        for (what, stream, said, called) in [
            ("text", &text, " token".repeat(DELTAS), None),
            ("arguments", &args, String::new(), Some("{}")),
        ] {
            meter.again(
                &format!("model/decode/{DELTAS} deltas of {what}, {how}"),
                Work::Events(DELTAS),
                stream,
                |stream| {
                    let mut len = 0;
                    let finish = hear(&server, stream, piece_len, |text| len += text.len());
                    (len, finish)
                },
                |stream, (len, finish)| {
                    let mut heard = String::new();
                    hear(&server, stream, piece_len, |text| heard.push_str(&text));
                    assert_eq!((&heard, *len), (&said, said.len()));
                    let args = finish.calls.iter().map(|call| call.args.as_deref().ok());
                    assert!(args.eq(called.map(Some)), "{finish:?}");
                },
            );
        }
    }
}

pub(crate) fn encode(meter: &mut impl Meter) {
    let call = payload::Call { id: "call_1".into(), name: "f".into(), args: "{\"x\":1}".into() };
    let mut messages = Vec::new();
    while messages.len() < 1000 {
        messages.extend([
            Message::User("a question of some words\n".repeat(20)),
            Message::Assistant { text: String::new(), calls: vec![call.clone()] },
            Message::Tool { call_id: "call_1".into(), content: "a result ".repeat(100) },
            Message::Assistant { text: "an answer ".repeat(50), calls: Vec::new() },
        ]);
    }
    let tools = [ToolSpec { name: "f".into(), description: "d".into(), params: "{}".into() }];
    let ask = |server: &Provider| {
        let request = Request { system: None, messages: &messages, tools: &tools, fresh: &[] };
        let mut call = Call::start(server, &request, "m", 0, Mono(0), 0);
        match call.poll(Mono(0)) {
            Action::Connect { request, .. } => request,
            action => panic!("{action:?}"),
        }
    };
    let server = server();
    let len = ask(&server).len();
    meter.again(
        &format!("model/encode/a history of {} messages", messages.len()),
        Work::Bytes(len),
        server,
        |server| ask(server),
        |_, request| {
            let head_end = request.windows(4).position(|four| four == b"\r\n\r\n");
            let body = &request[head_end.expect("a head") + 4..];
            let body: serde_json::Value = serde_json::from_slice(body).expect("JSON");
            let sent = body["messages"].as_array().expect("messages");
            assert_eq!(sent.len(), messages.len());
            for (sent, message) in sent.iter().zip(&messages) {
                let (role, content) = match message {
                    Message::User(text) => ("user", text),
                    Message::Assistant { text, .. } => ("assistant", text),
                    Message::Tool { content, .. } => ("tool", content),
                };
                assert_eq!(sent["role"], role);
                assert_eq!(sent["content"].as_str().unwrap_or_default(), content);
            }
        },
    );
}
