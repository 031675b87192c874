//! The door: which request is let in, and which status every other one gets.

use serde_json::json;

use crate::harness::http::{answer, exchange, get};
use crate::harness::wire::{SAMPLE_ACCEPT, Wire, handshake};
use crate::harness::{Server, token};

fn valid() -> String {
    handshake("s1", &token("s1"))
}

#[test]
fn a_valid_handshake_is_answered_101() {
    let server = Server::start(&["s1"], &json!({}));
    let table = [
        valid(),
        valid().replace("/ws HTTP", "/ws?token=ignored&x=%zz HTTP"),
        valid().replace("Upgrade: websocket", "upgrade: WebSocket"),
        valid().replace("Connection: Upgrade", "Connection: keep-alive, uPgRaDe"),
        valid().replace("Connection: Upgrade", "Connection: keep-alive\r\nConnection: Upgrade"),
        valid().replace("Host:", "Sec-WebSocket-Extensions: permessage-deflate\r\nHost:"),
        valid().replace("Host:", "Sec-WebSocket-Protocol: chat, superchat\r\nHost:"),
        valid().replace("Host: terret.test", "Host:terret.test\r\nX-Folded-Not: a\r\nEmpty:"),
    ];
    for request in table {
        let mut wire = Wire::connect(server.addr());
        wire.send(request.as_bytes());
        let head = wire.head();
        assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{request}\n{head}");
        let lower = head.to_ascii_lowercase();
        assert!(lower.contains("\r\nupgrade: websocket\r\n"), "{head}");
        assert!(lower.contains("\r\nconnection: upgrade\r\n"), "{head}");
        assert!(head.contains(&format!(": {SAMPLE_ACCEPT}\r\n")), "{head}");
        assert!(!lower.contains("sec-websocket-extensions"), "none is ever negotiated: {head}");
        assert!(!lower.contains("sec-websocket-protocol"), "none is ever negotiated: {head}");
        assert_eq!(wire.next_frame().json()["type"], "hello");
    }
}

#[test]
fn a_handshake_may_come_in_pieces_and_with_frames_behind_it() {
    let server = Server::start(&["s1"], &json!({}));
    let mut wire = Wire::connect(server.addr());
    let mut bytes = valid().into_bytes();
    let subscribe = br#"{"type":"subscribe","from_seq":0}"#;
    bytes.extend(crate::harness::wire::masked(true, crate::harness::wire::TEXT, subscribe));
    for byte in bytes {
        wire.send(&[byte]);
    }
    assert!(wire.head().starts_with("HTTP/1.1 101 "));
    assert_eq!(wire.next_frame().json()["type"], "hello");
    assert_eq!(wire.next_frame().json()["seq"], 0);
}

#[test]
fn every_other_request_gets_its_status() {
    let server = Server::start(&["s1"], &json!({"allowed_origins": ["https://app.example"]}));
    let with = |from: &str, to: &str| {
        let request = valid().replace(from, to);
        assert_ne!(request, valid(), "{from}");
        request
    };
    let without = |line: &str| with(&format!("{line}\r\n"), "");
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    let table = [
        // Path and method.
        (404, with("/agents/s1/ws", "/")),
        (404, with("/agents/s1/ws", "/agents/s1/ws/")),
        (404, with("/agents/s1/ws", "/agents/s1/wss")),
        (404, with("/agents/s1/ws", "/agents/s1/x/ws")),
        (404, with("/agents/s1/ws", "/agent/s1/ws")),
        (405, with("GET ", "POST ")),
        (405, with("GET ", "PUT ")),
        (405, with("GET ", "get ")),
        // The right path, but no upgrade.
        (426, without("Upgrade: websocket")),
        (426, with("Upgrade: websocket", "Upgrade: h2c")),
        (426, with("Version: 13", "Version: 8")),
        (426, with("Version: 13", "Version: 14")),
        // An upgrade, but malformed.
        (400, without("Connection: Upgrade")),
        (400, with("Connection: Upgrade", "Connection: close")),
        (400, without(key)),
        (400, with("dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ=")),
        (400, with("dGhlIHNhbXBsZSBub25jZQ==", "not base64 at all!")),
        (400, with(key, &format!("{key}\r\n{key}"))),
        // No HTTP at all.
        (400, "GET /agents/s1/ws\r\n\r\n".to_owned()),
        (400, "GET  /agents/s1/ws HTTP/1.1\r\n\r\n".to_owned()),
        (400, with("Host: terret.test", "Host : terret.test")),
        (400, with("Host: terret.test", "no colon")),
        (400, with("Host: terret.test", "X: a\r\n folded")),
        (400, with("Host: terret.test", "X: a\u{0}b")),
        // A browser from elsewhere.
        (403, with("Host:", "Origin: https://evil.example\r\nHost:")),
        (403, with("Host:", "Origin: null\r\nHost:")),
        (403, with("Host:", "Origin: https://app.example.evil\r\nHost:")),
        (101, with("Host:", "Origin: https://app.example\r\nHost:")),
        (101, valid()),
    ];
    for (status, request) in table {
        let mut wire = Wire::connect(server.addr());
        wire.send(request.as_bytes());
        if status == 101 {
            assert!(wire.head().starts_with("HTTP/1.1 101 "), "{request}");
            continue;
        }
        let answer = answer(&mut wire);
        assert_eq!(answer.status, status, "{request}\n{answer:?}");
        assert_eq!(answer.body.matches('\n').count(), 1, "one line: {answer:?}");
        assert!(answer.body.len() > 1 && answer.body.ends_with('\n'), "{answer:?}");
        let wants_version = request.contains("Version: 8") || request.contains("Version: 14");
        if wants_version {
            assert_eq!(answer.header("Sec-WebSocket-Version"), Some("13"), "{request}");
        }
    }
}

#[test]
fn a_head_of_8_kib_passes_and_one_byte_more_is_431() {
    let server = Server::start(&["s1"], &json!({}));
    for (size, passes) in [(8192, true), (8193, false), (100_000, false)] {
        let plain = valid();
        let line = "X-Padding: \r\n";
        let padding = "x".repeat(size - plain.len() - line.len());
        let request = plain.replace("Host:", &format!("X-Padding: {padding}\r\nHost:"));
        assert_eq!(request.len(), size);
        let mut wire = Wire::connect(server.addr());
        wire.send(request.as_bytes());
        if passes {
            assert!(wire.head().starts_with("HTTP/1.1 101 "), "{size}");
        } else {
            assert_eq!(answer(&mut wire).status, 431, "{size}");
        }
    }
}

#[test]
fn a_head_that_never_ends_is_closed() {
    let server = Server::start(&["s1"], &json!({}));
    let mut silent = Wire::connect(server.addr());
    let mut half = Wire::connect(server.addr());
    half.send(b"GET /agents/s1/ws HTTP/1.1\r\nHost: terret");
    // After 10 s by the contract; how long it took is not this test's to say.
    let (said, _) = half.rest();
    assert!(!said.starts_with(b"HTTP/1.1 101"));
    silent.rest();
    server.connect("s1");
}

#[test]
fn beyond_the_connection_limit_it_is_503() {
    let server = Server::start(&["s1", "s2"], &json!({"max_connections": 2}));
    let first = server.connect("s1");
    let _second = server.connect("s2");
    let answer = exchange(server.addr(), valid().as_bytes());
    assert_eq!(answer.status, 503, "{answer:?}");
    // A place that becomes free is given away again.
    first.cut();
    crate::harness::eventually("a free place", || {
        let mut wire = Wire::connect(server.addr());
        wire.send(valid().as_bytes());
        wire.head().starts_with("HTTP/1.1 101 ").then_some(())
    });
}

#[test]
fn reads_ask_for_a_token() {
    let server = Server::start(&["s1", "s2"], &json!({}));
    for path in ["/agents/s1", "/agents/s1/events?from_seq=0"] {
        for token in [None, Some("wrong"), Some("token-of-s2")] {
            assert_eq!(get(server.addr(), path, token).status, 401, "{path}");
        }
        let token = token("s1");
        server.connect("s1");
        assert_eq!(get(server.addr(), path, Some(&token)).status, 200, "{path}");
    }
    assert_eq!(get(server.addr(), "/agents/..", Some("x")).status, 401);
}

#[test]
fn healthz_says_ok() {
    let server = Server::start(&["s1"], &json!({}));
    let answer = get(server.addr(), "/healthz", None);
    assert_eq!((answer.status, answer.body.trim_end()), (200, "ok"));
    let posted = exchange(server.addr(), b"POST /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(posted.status, 405);
}
