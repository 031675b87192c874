//! A turn that waits is a value, not a thread: hundreds of them go on together on two workers.

use serde_json::json;

use crate::harness::provider::Provider;
use crate::harness::{Client, Server};

const SESSIONS: usize = 300;
const PIECES: usize = 8;

fn names() -> Vec<String> {
    (0..SESSIONS).map(|n| format!("s{n}")).collect()
}

#[test]
fn three_hundred_streams_advance_together_on_two_workers() {
    let provider = Provider::start();
    let names = names();
    let sessions: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut config = provider.config(&json!({}));
    config["workers"] = json!(2);
    let server = Server::start(&sessions, &config);
    let mut clients: Vec<Client> = sessions.iter().map(|id| server.subscribed(id)).collect();
    for client in &mut clients {
        client.wake("go");
    }
    // Every request must stand open before one of them gets its first word.
    let mut asks: Vec<_> = clients.iter().map(|_| provider.ask()).collect();
    asks.iter_mut().for_each(crate::harness::provider::Ask::open);
    for client in &mut clients {
        client.events_until("user/message");
    }
    // No stream gets its next word before every session has shown the last one.
    for piece in 0..PIECES {
        for ask in &mut asks {
            ask.text(&format!("piece {piece}"));
        }
        for client in &mut clients {
            let event = client.event();
            assert_eq!(
                (&*event.kind, event.text()),
                ("assistant/chunk", &*format!("piece {piece}"))
            );
        }
    }
    asks.into_iter().for_each(crate::harness::provider::Ask::end);
    for client in &mut clients {
        let rest = client.events_until("turn/end");
        assert_eq!(rest.last().unwrap().payload["status"], "completed");
    }
}

#[test]
fn while_three_hundred_turns_wait_an_hour_another_is_served() {
    let names = names();
    let mut sessions: Vec<&str> = names.iter().map(String::as_str).collect();
    sessions.push("lively");
    let server = Server::start(
        &sessions,
        &json!({
            "workers": 2,
            "roles": {"main": "slow/m"},
            "roles_scope": "agent",
            "providers": {"slow": {"kind": "scripted", "steps": [
                {"chunks": ["one", "two"], "chunk_delay_ms": 3_600_000}
            ]}}
        }),
    );
    let mut clients: Vec<Client> = names.iter().map(|id| server.subscribed(id)).collect();
    for client in &mut clients {
        client.wake("go");
    }
    for client in &mut clients {
        assert_eq!(client.events_until("assistant/chunk").last().unwrap().text(), "one");
    }
    let mut lively = server.subscribed("lively");
    lively.send(&json!({"type": "set_model", "role": "main", "model": "echo/echo"}));
    for n in 0..10 {
        let turn = lively.turn(&format!("turn {n}"));
        assert_eq!(turn.last().unwrap().payload["status"], "completed");
    }
    for client in &mut clients {
        client.cancel("enough");
    }
    for client in &mut clients {
        let rest = client.events_until("turn/end");
        assert_eq!(rest.last().unwrap().payload["status"], "cancelled");
    }
}
