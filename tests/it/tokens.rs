//! Who gets in, who does not, and who is shown out when a token is taken away.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::wire::{End, TEXT, Wire, handshake, masked};
use crate::harness::{Client, Server, server, token};

/// The error frame, the close code, the end: what an unauthorized client sees after its 101.
fn expect_unauthorized(client: &mut Client) {
    client.expect_error("unauthorized");
    client.expect_close(4401);
}

#[test]
fn without_the_right_token_101_then_unauthorized_then_4401() {
    let server = Server::start(&["s1", "s2"], &json!({}));
    let long = "x".repeat(129);
    let table = [
        ("s1", None),
        ("s1", Some("")),
        ("s1", Some("wrong")),
        ("s1", Some("token-of-s1x")),
        ("s1", Some("token-of-s")),
        ("s1", Some("token-of-s2")),
        ("unknown", Some("token-of-unknown")),
        (".hidden", Some("x")),
        ("..", Some("x")),
        ("a%2Fb", Some("x")),
        ("a%00b", Some("x")),
        ("%2e%2e", Some("x")),
        ("caf%C3%A9", Some("x")),
        ("%FF", Some("x")),
        (long.as_str(), Some("x")),
    ];
    for (session, token) in table {
        expect_unauthorized(&mut Client::knock(server.addr(), session, token));
    }
    let sessions = server.data_dir().join("sessions");
    let created = fs::read_dir(sessions).map_or(0, Iterator::count);
    assert_eq!(created, 0, "nothing is created on disk for a client that was not let in");
}

#[test]
fn the_scheme_is_read_whatever_its_case_and_nothing_but_bearer_is_one() {
    let server = Server::start(&["s1"], &json!({}));
    for (scheme, welcome) in
        [("Bearer", true), ("bearer", true), ("BEARER", true), ("Basic", false), ("Token", false)]
    {
        let mut wire = Wire::connect(server.addr());
        wire.send(handshake("s1", &token("s1")).replace("Bearer", scheme).as_bytes());
        assert!(wire.head().starts_with("HTTP/1.1 101 "));
        let first = wire.next_frame().json();
        assert_eq!(first["type"], if welcome { "hello" } else { "error" }, "{scheme}: {first}");
    }
}

#[test]
fn an_id_may_have_several_tokens_and_be_percent_encoded() {
    let tokens = json!({"tokens": {"s.1_x-Y": ["old", "new"]}});
    let server = Server::start(&[], &tokens);
    for token in ["old", "new"] {
        Client::connect(server.addr(), "s.1_x-Y", token);
        let mut client = Client::knock(server.addr(), "s%2E1%5fx-%59", Some(token));
        assert_eq!(client.frame()["session_id"], "s.1_x-Y");
    }
}

fn write_tokens(folder: &Path, tokens: &Value) {
    // Renamed into place: the server never sees half a file.
    let fresh = folder.join("tokens.fresh");
    fs::write(&fresh, tokens.to_string()).unwrap();
    fs::rename(fresh, folder.join("tokens.json")).unwrap();
}

/// Starts with a tokens file beside the config.
fn with_tokens_file(tokens: &Value) -> Server {
    let folder = tempfile::TempDir::new().unwrap();
    write_tokens(folder.path(), tokens);
    Server::start_in(folder.into(), &[], &json!({"tokens_file": "tokens.json"}))
}

#[test]
fn a_rotated_tokens_file_drops_exactly_those_who_held_the_old_token() {
    let server = with_tokens_file(&json!({"s1": ["a", "b"], "s2": "c", "s3": ["d"]}));
    let mut holds_a = Client::connect(server.addr(), "s1", "a");
    let mut holds_c = Client::connect(server.addr(), "s2", "c");
    let mut holds_d = Client::connect(server.addr(), "s3", "d");
    write_tokens(server.folder().path(), &json!({"s1": ["b"], "s2": ["c", "new"], "s3": "e"}));
    expect_unauthorized(&mut holds_a);
    expect_unauthorized(&mut holds_d);
    holds_c.subscribe(0);
    assert_eq!(holds_c.event().seq, 0, "whoever holds a token that still stands stays");
    expect_unauthorized(&mut Client::knock(server.addr(), "s1", Some("a")));
    Client::connect(server.addr(), "s1", "b");
    Client::connect(server.addr(), "s3", "e");

    // A bad file and a missing file change nothing.
    server.expect_complaint("tokens.json", || {
        fs::write(server.folder().path().join("tokens.json"), "{\"s1\": 7").unwrap();
    });
    Client::connect(server.addr(), "s1", "b");
    fs::remove_file(server.folder().path().join("tokens.json")).unwrap();
    holds_c.subscribe(0);
    assert_eq!(holds_c.event().seq, 0);
}

#[test]
fn a_rotation_in_the_middle_of_a_turn_leaves_the_turn_alone() {
    let server = with_tokens_file(&json!({"s1": "old"}));
    let mut client = Client::connect(server.addr(), "s1", "old");
    client.subscribe(0);
    client.turn("hello");
    write_tokens(server.folder().path(), &json!({"s1": "new"}));
    expect_unauthorized(&mut client);
    let mut client = Client::connect(server.addr(), "s1", "new");
    client.subscribe(0);
    let log = client.events_until("turn/end");
    assert_eq!(log.last().unwrap().payload["status"], "completed");
}

#[test]
fn sighup_reloads_the_tokens_of_the_config() {
    let server = Server::start(&["s1", "s2"], &json!({}));
    let mut one = server.connect("s1");
    let mut two = server.connect("s2");
    let path = server.folder().path().join("config.json");

    // A bad file changes nothing.
    server.expect_complaint("config.json", || {
        fs::write(&path, "{").unwrap();
        server.signal("HUP");
    });
    one.subscribe(0);
    assert_eq!(one.event().seq, 0);

    let changed = json!({"tokens": {"s1": "rotated", "s2": token("s2")}, "workers": 9});
    server.expect_complaint("workers", || {
        fs::write(&path, server::config(&[], &changed).to_string()).unwrap();
        server.signal("HUP");
    });
    expect_unauthorized(&mut one);
    two.subscribe(0);
    assert_eq!(two.event().seq, 0);
    Client::connect(server.addr(), "s1", "rotated");
}

#[test]
fn the_unauthorized_frame_is_text_and_survives_what_the_client_sent_meanwhile() {
    let server = Server::start(&["s1"], &json!({}));
    // The client does not wait for its 101: its frames lie unread when it is shown out.
    let mut wire = Wire::connect(server.addr());
    let mut eager = handshake("s1", "wrong").into_bytes();
    for _ in 0..1000 {
        let subscribe = br#"{"type":"subscribe","from_seq":0}"#;
        eager.extend(masked(true, TEXT, subscribe));
    }
    wire.send(&eager);
    assert!(wire.head().starts_with("HTTP/1.1 101 "));
    assert_eq!(wire.next_frame().json()["code"], "unauthorized");
    assert_eq!(wire.next_frame().close_code(), Some(4401));
    assert_eq!(wire.rest(), (Vec::new(), End::Clean));
}
