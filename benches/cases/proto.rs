//! Opening a connection, reading a client frame, writing an envelope, reading a provider's stream.

use terret_ws::proto::command::Command;
use terret_ws::proto::event::{Envelope, write_envelope};
use terret_ws::proto::http::{HeadParser, write_chunk, write_last_chunk};
use terret_ws::proto::http_client::{Progress, ResponseParser};
use terret_ws::proto::ident::EventId;
use terret_ws::proto::json::{check, write_string};
use terret_ws::proto::sse::{Decoder, Event};
use terret_ws::proto::upgrade::{Route, accept, bearer, route, write_switching_protocols};

use super::session::{self, AT};
use super::{Meter, PACKET_BYTES, READ_BYTES, Work};

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

/// The accept value is the one of RFC 6455, section 1.3.
const ANSWER: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\n\
    Upgrade: websocket\r\n\
    Connection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// Reads a handshake in pieces and answers it.
fn open(handshake: &[u8], piece_len: usize, out: &mut Vec<u8>) {
    let mut parser = HeadParser::new();
    let mut pieces = handshake.chunks(piece_len);
    let (head, used) = loop {
        let piece = pieces.next().expect("the head ends");
        if let Some(complete) = parser.push(piece).expect("a valid head") {
            break complete;
        }
    };
    assert_eq!(used, handshake.len().min(piece_len));
    assert_eq!(route(&head), Ok(Route::Socket { agent_id: "session-0123456789" }));
    assert_eq!(bearer(&head), Some("3f0c9f3c1a5b4d0f8a7e6b5c4d3e2f1a"));
    out.clear();
    write_switching_protocols(out, &accept(&head).expect("a valid handshake"));
}

pub(crate) fn handshake(meter: &mut impl Meter) {
    for (how, piece_len) in [("whole", HANDSHAKE.len()), ("byte by byte", 1)] {
        meter.again(
            &format!("proto/head and upgrade/{how}"),
            Work::Bytes(HANDSHAKE.len()),
            (HANDSHAKE, Vec::new()),
            |(handshake, out)| open(handshake, piece_len, out),
            |(_, out), ()| assert_eq!(out, ANSWER),
        );
    }
}

pub(crate) fn client_frame(meter: &mut impl Meter) {
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
        meter.again(
            &format!("proto/client frame/{what}"),
            Work::Bytes(frame.len()),
            frame,
            |frame| Command::parse(frame),
            |_, parsed| assert_eq!(parsed.as_ref(), Ok(&command)),
        );
    }
}

pub(crate) fn json(meter: &mut impl Meter) {
    let nested = format!("[{}0]", r#"{"key":[1,-2.5e3,true,"text"]},"#.repeat(2000));
    meter.again(
        "proto/json/check nested",
        Work::Bytes(nested.len()),
        nested.into_bytes(),
        |nested| check(nested),
        |_, result| assert_eq!(result, &Ok(())),
    );
    let text = "A line of words, some in \"quotes\".\n".repeat(2000);
    meter.again(
        "proto/json/write string",
        Work::Bytes(text.len()),
        (text, Vec::new()),
        |(text, out)| {
            out.clear();
            write_string(out, text);
        },
        |(text, out), ()| assert_eq!(*out, format!("{text:?}").into_bytes()),
    );
}

pub(crate) fn envelope(meter: &mut impl Meter) {
    let id = session::id();
    let written = |text: &str| {
        format!(
            "{{\"id\":\"{:016x}\",\"session_id\":\"session-0123456789\",\"seq\":1234,\
             \"at\":\"2026-08-18T04:10:11.123456Z\",\"type\":\"assistant/chunk\",\
             \"payload\":{{\"text\":\"{text}\"}}}}",
            7
        )
    };
    for (what, text) in
        [("a delta", session::DELTA.to_owned()), ("4 KiB of text", "words ".repeat(683))]
    {
        let envelope = written(&text);
        meter.again(
            &format!("proto/envelope/write, {what}"),
            Work::Bytes(envelope.len()),
            (session::chunk(&text), Vec::new()),
            |(body, out)| {
                out.clear();
                write_envelope(out, EventId(7), &id, 1234, AT, body);
            },
            |(_, out), ()| assert_eq!(String::from_utf8_lossy(out), envelope),
        );
    }
    let envelope = written(session::DELTA);
    meter.again(
        "proto/envelope/take apart, a delta",
        Work::Bytes(envelope.len()),
        envelope.into_bytes(),
        |line| Envelope::parse(line).map(|envelope| (envelope.seq, envelope.payload.len())),
        |line, _| {
            let payload = &b"{\"text\":\" the weather in Par\"}"[..];
            let (id, kind) = (EventId(7), "assistant/chunk");
            let session_id = "session-0123456789";
            let envelope = Envelope { id, session_id, seq: 1234, at: AT, kind, payload };
            assert_eq!(Envelope::parse(line), Some(envelope));
        },
    );
}

/// One delta of a chat completion, as it is streamed.
const COMPLETION: &str = concat!(
    r#"{"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1787026211,"#,
    r#""model":"some/model","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}"#,
);

fn hear(stream: &str, piece_len: usize, mut emit: impl FnMut(Event<'_>)) {
    let mut decoder = Decoder::new();
    for piece in stream.as_bytes().chunks(piece_len) {
        decoder.push(piece, &mut emit).expect("short lines");
    }
}

pub(crate) fn sse(meter: &mut impl Meter) {
    let event = format!("data: {COMPLETION}\n\n");
    let count = READ_BYTES / event.len();
    let stream = event.repeat(count);
    for piece_len in [stream.len(), PACKET_BYTES, 7] {
        let how = if piece_len == stream.len() {
            "whole".to_owned()
        } else {
            format!("pieces of {piece_len}")
        };
        meter.again(
            &format!("proto/server-sent events/{how}"),
            Work::Events(count),
            stream.as_str(),
            |stream| {
                let mut bytes = 0;
                hear(stream, piece_len, |event| {
                    if let Event::Message { data, .. } = event {
                        bytes += data.len();
                    }
                });
                bytes
            },
            |stream, bytes| {
                assert_eq!(*bytes, count * COMPLETION.len());
                let expected = Event::Message { name: "message", data: COMPLETION };
                let mut heard = 0;
                hear(stream, piece_len, |event| {
                    assert_eq!(event, expected);
                    heard += 1;
                });
                assert_eq!(heard, count);
            },
        );
    }
}

pub(crate) fn chunked(meter: &mut impl Meter) {
    let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let count = READ_BYTES / COMPLETION.len();
    for _ in 0..count {
        write_chunk(&mut answer, COMPLETION.as_bytes());
    }
    write_last_chunk(&mut answer);
    meter.again(
        "proto/chunked answer/a delta a chunk",
        Work::Bytes(answer.len()),
        (answer, Vec::new()),
        |(answer, body)| {
            body.clear();
            ResponseParser::new().push(answer, body)
        },
        |(_, body), progress| {
            assert_eq!(progress, &Ok(Progress::Complete));
            assert_eq!(*body, COMPLETION.repeat(count).into_bytes());
        },
    );
}
