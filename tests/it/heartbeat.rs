//! Pings keep a quiet connection alive, and silence ends it.

use serde_json::json;

use crate::harness::wire::{PING, PONG, Wire, masked};
use crate::harness::{Server, eventually, token};

#[test]
fn a_quiet_client_that_answers_stays_connected() {
    let server = Server::start(&["s1"], &json!({"heartbeat_s": 1}));
    let mut client = server.connect("s1");
    // More of them than a silent peer may miss.
    client.take_pings(5);
    client.subscribe(0);
    assert_eq!(client.event().seq, 0);
}

#[test]
fn a_peer_that_answers_nothing_is_dropped() {
    let server = Server::start(&["s1"], &json!({"heartbeat_s": 1}));
    let mut wire = Wire::open(server.addr(), "s1", &token("s1"));
    let mut pings = 0;
    while let Some(frame) = wire.frame() {
        pings += usize::from(frame.opcode == PING);
        assert!(pings < 20, "still connected after {pings} pings without an answer");
    }
    assert!(pings >= 2, "dropped after {pings} pings");
    // As one whose other end is gone without a word: nothing comes, and nothing says so.
    eventually("the cause in the log", || {
        server.stderr().contains("disconnected session=s1 cause=\"timed out\"").then_some(())
    });
    let mut client = server.subscribed("s1");
    assert_eq!(client.turn("hello").last().unwrap().payload["status"], "completed");
}

#[test]
fn any_sign_of_life_counts() {
    let server = Server::start(&["s1"], &json!({"heartbeat_s": 1}));
    let mut wire = Wire::open(server.addr(), "s1", &token("s1"));
    for _ in 0..6 {
        let frame = wire.next_frame();
        assert_eq!(frame.opcode, PING);
        assert!(frame.payload.len() <= 125);
        // Not a pong, but bytes: this peer is alive.
        wire.send(&masked(true, PING, b"alive"));
        let answer = wire.next_frame();
        assert_eq!((answer.opcode, &answer.payload[..]), (PONG, &b"alive"[..]));
    }
}
