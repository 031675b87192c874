//! After a deploy everybody comes back at once, and everybody is served.

use serde_json::{Value, json};

use crate::harness::wire::{Wire, handshake};
use crate::harness::{Event, Server, scripted, token};

const CLIENTS: usize = 100;

#[test]
fn a_storm_of_replays_serves_everyone_in_full() {
    let chunks: Vec<String> = (0..1500).map(|n| format!("chunk {n} ")).collect();
    let mut config: Value = scripted(&json!([{"chunks": chunks}]));
    config["max_concurrent_replays"] = json!(1);
    config["workers"] = json!(2);
    let names: Vec<String> = (0..CLIENTS).map(|n| format!("s{n}")).collect();
    let sessions: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = Server::start(&sessions, &config);
    let mut logs: Vec<Vec<Event>> = Vec::new();
    for id in &sessions[..5] {
        let mut client = server.connect(id);
        client.subscribe(0);
        logs.push(client.turn("go"));
    }

    // Everybody shakes hands and subscribes in one breath, before anybody reads a word.
    let mut wires: Vec<Wire> = sessions
        .iter()
        .map(|id| {
            let mut wire = Wire::connect(server.addr());
            wire.send(handshake(id, &token(id)).as_bytes());
            wire.send_text(r#"{"type":"subscribe","from_seq":0}"#);
            wire
        })
        .collect();
    // The last to come is read first; the first five, with long logs, are slow readers all the
    // while: a slot is held for the read alone.
    for (n, wire) in wires.iter_mut().enumerate().rev() {
        assert!(wire.head().starts_with("HTTP/1.1 101 "));
        assert_eq!(wire.next_data().json()["type"], "hello");
        assert_eq!(wire.next_data().json()["seq"], 0);
        if let Some(log) = logs.get(n) {
            for event in &log[1..] {
                assert_eq!(wire.next_data().payload, event.raw.as_bytes());
            }
        }
    }
}

#[test]
fn a_storm_of_connects_to_one_agent_leaves_the_last_one_standing() {
    let server = Server::start(&["s1"], &json!({}));
    let mut wires: Vec<Wire> = (0..50)
        .map(|_| {
            let mut wire = Wire::connect(server.addr());
            wire.send(handshake("s1", &token("s1")).as_bytes());
            wire
        })
        .collect();
    let mut standing = 0;
    for wire in &mut wires {
        assert!(wire.head().starts_with("HTTP/1.1 101 "));
        wire.send_text(r#"{"type":"subscribe","from_seq":0}"#);
        let mut frame = wire.next_data().json();
        // Whoever was superseded at once may have missed the greeting.
        if frame["type"] == "hello" {
            frame = wire.next_data().json();
        }
        if frame["code"] == "superseded" {
            assert_eq!(wire.next_data().close_code(), Some(4409));
        } else {
            assert_eq!(frame["seq"], 0);
            standing += 1;
        }
    }
    assert_eq!(standing, 1);
}
