//! What the protocol layer costs beside the frames: opening a connection, reading a client frame,
//! reading a provider's stream. Every row asserts its result.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use terret_ws::proto::command::Command;
use terret_ws::proto::http::HeadParser;
use terret_ws::proto::http_client::{Progress, ResponseParser};
use terret_ws::proto::json::{check, write_string};
use terret_ws::proto::sse::{Decoder, Event};
use terret_ws::proto::upgrade::{Route, accept, bearer, route, write_switching_protocols};

/// How much a read of the reactor returns.
const READ_BYTES: usize = 64 * 1024;

/// What a browser sends, in size and in kind.
const HANDSHAKE: &[u8] = b"GET /agents/session-0123456789/ws HTTP/1.1\r\n\
    Host: agents.example.com:7700\r\n\
    Connection: Upgrade\r\n\
    Pragma: no-cache\r\n\
    Cache-Control: no-cache\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Upgrade: websocket\r\n\
    Origin: https://agents.example.com\r\n\
    Sec-WebSocket-Version: 13\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Accept-Language: en-GB,en;q=0.9\r\n\
    Authorization: Bearer 3f0c9f3c1a5b4d0f8a7e6b5c4d3e2f1a\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n";

/// Reads a handshake in pieces and answers it; the length of the answer.
fn open(piece_len: usize, out: &mut Vec<u8>) -> usize {
    let mut parser = HeadParser::new();
    let mut pieces = HANDSHAKE.chunks(piece_len);
    let (head, _) = loop {
        let piece = pieces.next().expect("the head ends");
        if let Some(complete) = parser.push(black_box(piece)).expect("a valid head") {
            break complete;
        }
    };
    assert_eq!(route(&head), Ok(Route::Socket { agent_id: "session-0123456789" }));
    assert_eq!(bearer(&head).map(str::len), Some(32));
    out.clear();
    write_switching_protocols(out, &accept(&head).expect("a valid handshake"));
    out.len()
}

fn handshake(c: &mut Criterion) {
    let mut group = c.benchmark_group("proto/handshake");
    let mut out = Vec::new();
    for (how, piece_len) in [("whole", HANDSHAKE.len()), ("byte by byte", 1)] {
        group.throughput(Throughput::Elements(1));
        group.bench_function(how, |b| {
            b.iter(|| assert_eq!(open(piece_len, &mut out), 129));
        });
    }
    group.finish();
}

fn client_frame(c: &mut Criterion) {
    let mut group = c.benchmark_group("proto/client frame");
    let inject = |text: String| Command::Inject { text, wake: true };
    for (what, command) in [
        ("subscribe", Command::Subscribe { from_seq: 123_456 }),
        ("inject of 200 bytes", inject("words and ".repeat(20))),
        ("inject of 1 MiB", inject("words and ".repeat(100_000))),
        ("inject of 1 MiB, escaped", inject("line\n".repeat(170_000))),
        ("policy of 128 patterns", Command::SetPolicy { patterns: vec!["tool_*".to_owned(); 128] }),
    ] {
        let mut frame = Vec::new();
        command.write(&mut frame);
        group.throughput(Throughput::Bytes(frame.len() as u64));
        group.bench_function(what, |b| {
            b.iter(|| assert_eq!(Command::parse(black_box(&frame)).as_ref(), Ok(&command)));
        });
    }
    group.finish();
}

fn json(c: &mut Criterion) {
    let mut group = c.benchmark_group("proto/json");
    let nested = format!("[{}0]", r#"{"key":[1,-2.5e3,true,"text"]},"#.repeat(2000));
    group.throughput(Throughput::Bytes(nested.len() as u64));
    group.bench_function("check nested", |b| {
        b.iter(|| assert_eq!(check(black_box(nested.as_bytes())), Ok(())));
    });
    let text = "A line of words, some in \"quotes\".\n".repeat(2000);
    let mut out = Vec::new();
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("write string", |b| {
        b.iter(|| {
            out.clear();
            write_string(&mut out, black_box(&text));
            assert_eq!(out.len(), text.len() + 3 * 2000 + 2);
        });
    });
    group.finish();
}

/// One delta of a chat completion, as it is streamed.
const DELTA: &str = concat!(
    r#"data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1787026211,"#,
    r#""model":"some/model","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}"#,
    "\n\n"
);

fn sse(c: &mut Criterion) {
    let mut group = c.benchmark_group("proto/sse");
    let count = READ_BYTES / DELTA.len();
    let stream = DELTA.repeat(count);
    for (how, piece_len) in [("whole", stream.len()), ("pieces of 1448", 1448), ("pieces of 7", 7)]
    {
        group.throughput(Throughput::Bytes(stream.len() as u64));
        group.bench_function(how, |b| {
            b.iter(|| {
                let mut decoder = Decoder::new();
                let mut events = 0;
                for piece in stream.as_bytes().chunks(piece_len) {
                    let emit = |event: Event<'_>| {
                        events += usize::from(matches!(event, Event::Message { .. }));
                    };
                    decoder.push(black_box(piece), emit).expect("short lines");
                }
                assert_eq!(events, count);
            });
        });
    }
    group.finish();
}

fn chunked(c: &mut Criterion) {
    let mut group = c.benchmark_group("proto/chunked answer");
    let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let count = READ_BYTES / DELTA.len();
    for _ in 0..count {
        terret_ws::proto::http::write_chunk(&mut answer, DELTA.as_bytes());
    }
    terret_ws::proto::http::write_last_chunk(&mut answer);
    let mut body = Vec::new();
    group.throughput(Throughput::Bytes(answer.len() as u64));
    group.bench_function("one delta a chunk", |b| {
        b.iter(|| {
            body.clear();
            let progress = ResponseParser::new().push(black_box(&answer), &mut body);
            assert_eq!(progress, Ok(Progress::Complete));
            assert_eq!(body.len(), count * DELTA.len());
        });
    });
    group.finish();
}

criterion_group!(benches, handshake, client_frame, json, sse, chunked);
criterion_main!(benches);
