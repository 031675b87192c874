//! A session's first connection, and reads of a session that is not there yet, all at once.

use crate::harness::wire::{Wire, handshake};
use crate::harness::{Server, http, token};
use serde_json::json;

#[test]
fn every_read_of_a_session_that_is_not_there_is_answered() {
    let server = Server::start(&["s1"], &json!({}));
    for n in 0..300 {
        let path = if n % 2 == 0 { "/agents/s1" } else { "/agents/s1/events?from_seq=0" };
        assert_eq!(http::get(server.addr(), path, Some(&token("s1"))).status, 404, "read {n}");
    }
    assert_eq!(server.connect("s1").last_seq(), 0);
}

#[test]
fn a_read_does_not_spoil_the_first_connection() {
    let names: Vec<String> = (0..100).map(|n| format!("s{n}")).collect();
    let sessions: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = Server::start(&sessions, &json!({}));
    for id in sessions {
        let mut read = Wire::connect(server.addr());
        let mut socket = Wire::connect(server.addr());
        read.send(
            format!(
                "GET /agents/{id} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
                token(id)
            )
            .as_bytes(),
        );
        socket.send(handshake(id, &token(id)).as_bytes());
        assert!(matches!(http::answer(&mut read).status, 200 | 404));
        assert!(socket.head().starts_with("HTTP/1.1 101 "));
        let first = socket.next_data().json();
        assert_eq!(first["type"], "hello", "{id}: {first}");
    }
}
