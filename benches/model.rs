//! What a model request costs us: putting an answer together from its stream, and writing a long
//! history. Every row asserts its result.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use terret_ws::agent::Message;
use terret_ws::config::OpenAiConfig;
use terret_ws::model::{Action, Call, Net, OpenAi, Provider, Request, ToolSpec};
use terret_ws::proto::http_client::BaseUrl;
use terret_ws::proto::payload;
use terret_ws::proto::time::Mono;

/// Deltas of one answer.
const DELTAS: usize = 1000;

/// What a read of the reactor returns at most, and what one packet holds.
const PIECES: [(&str, usize); 2] = [("reads of 64 KiB", 64 * 1024), ("pieces of 1448", 1448)];

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

/// Asks, hears the stream in pieces, and returns the bytes of text and of arguments.
fn hear(server: &Provider, stream: &[u8], piece_len: usize) -> (usize, usize) {
    let messages = [Message::User("hello".into())];
    let request = Request { system: None, messages: &messages, tools: &[], fresh: &[] };
    let mut call = Call::start(server, &request, "m", 0, Mono(0), 0);
    let mut pieces = stream.chunks(piece_len);
    let mut text_len = 0;
    loop {
        match call.poll(Mono(0)) {
            Action::Text(text) => text_len += text.len(),
            Action::Connect { .. } => call.feed(Mono(0), Net::Connected),
            Action::Wait(_) => {
                let piece = pieces.next().expect("the stream ends the answer");
                call.feed(Mono(0), Net::Bytes(piece));
            }
            Action::Disconnect | Action::Note(_) => {}
            Action::Finished(finish) => {
                let args =
                    finish.calls.iter().map(|call| call.args.as_ref().map_or(0, |a| a.len()));
                return (text_len, args.sum());
            }
            Action::Failed { reason, .. } => panic!("{reason}"),
        }
    }
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("model/decode");
    let server = server();
    let text = stream(r#"{"content":" token"}"#);
    // The brackets of an object around what a thousand deltas bring.
    let args = stream(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#);
    for (how, piece_len) in PIECES {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(format!("{DELTAS} deltas of text, {how}"), |b| {
            b.iter(|| {
                let heard = hear(&server, black_box(&text), piece_len);
                assert_eq!(heard, (DELTAS * " token".len(), 0));
            });
        });
        group.throughput(Throughput::Bytes(args.len() as u64));
        group.bench_function(format!("{DELTAS} deltas of arguments, {how}"), |b| {
            b.iter(|| assert_eq!(hear(&server, black_box(&args), piece_len), (0, "{}".len())));
        });
    }
    group.finish();
}

fn encode(c: &mut Criterion) {
    let mut group = c.benchmark_group("model/encode");
    let server = server();
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
    let tool = ToolSpec { name: "f".into(), description: "d".into(), params: "{}".into() };
    let tools = [tool];
    let ask = || {
        let request = Request { system: None, messages: &messages, tools: &tools, fresh: &[] };
        let mut call = Call::start(&server, &request, "m", 0, Mono(0), 0);
        match call.poll(Mono(0)) {
            Action::Connect { request, .. } => request.len(),
            action => panic!("{action:?}"),
        }
    };
    let len = ask();
    group.throughput(Throughput::Bytes(len as u64));
    group.bench_function(format!("a history of {} messages", messages.len()), |b| {
        b.iter(|| assert_eq!(black_box(ask()), len));
    });
    group.finish();
}

criterion_group!(benches, decode, encode);
criterion_main!(benches);
