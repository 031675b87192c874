//! The server's own log: what an operator may read in it, and what must never stand in it.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::harness::wire::Wire;
use crate::harness::{Client, Server};

/// A little of everything a server logs: comings, goings, turns, refusals, the end.
fn lived(more: &Value) -> Server {
    let mut server = Server::start(&["s1"], more);
    let mut client = server.subscribed("s1");
    client.turn("canary-in-a-message");
    client.send_text(r#"{"type":"canary-in-a-bad-frame"}"#);
    client.expect_error("bad_frame");
    client.cancel("canary-in-a-reason");
    client.expect_error("not_running");
    let mut stranger = Client::knock(server.addr(), "s1", Some("canary-in-a-token"));
    stranger.expect_error("unauthorized");
    stranger.expect_close(4401);
    let mut wire = Wire::connect(server.addr());
    wire.send(
        b"GET /canary-in-a-path HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer canary-in-a-token\r\n\r\n",
    );
    wire.rest();
    client.cut();
    server.signal("TERM");
    server.exit();
    server
}

#[test]
fn no_token_and_no_text_reaches_it() {
    for format in ["text", "json"] {
        let server = lived(&json!({"log_format": format}));
        let log = server.stderr();
        let canaries = [
            "canary-in-a-message",
            "canary-in-a-bad-frame",
            "canary-in-a-reason",
            "canary-in-a-token",
            "token-of",
        ];
        for canary in canaries {
            assert!(!log.contains(canary), "{canary} in\n{log}");
            assert!(!server.stdout().contains(canary), "{canary}");
        }
        assert!(log.contains("s1"), "but it names the session:\n{log}");
    }
}

#[test]
fn as_json_every_line_is_one_object() {
    let server = lived(&json!({"log_format": "json"}));
    for line in server.stderr().lines() {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| {
            panic!("{error}: {line}");
        });
        assert!(value.is_object(), "{line}");
    }
}

#[test]
fn a_line_of_text_is_one_occurrence_whatever_a_provider_says() {
    let reason = "two\nlines\r\nand \u{1b}[31mcolour";
    let steps = json!([{"error": {"status": 500, "message": reason}}]);
    let server = Server::start(&["s1"], &crate::harness::scripted(&steps));
    let mut client = server.subscribed("s1");
    let turn = client.turn("go");
    assert_eq!(turn.last().unwrap().payload["status"], "failed");
    crate::harness::eventually("the end of the turn in the log", || {
        server.stderr().contains("failed").then_some(())
    });
    let log = server.stderr();
    assert!(log.lines().all(|line| line.starts_with("20")), "each line has its time:\n{log}");
    assert!(!log.contains('\u{1b}'), "no control character reaches a terminal:\n{log}");
}

#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    // Standard error is a pipe whose reader takes nothing, and later is gone.
    let folder = std::sync::Arc::new(tempfile::TempDir::new().unwrap());
    let config = crate::harness::server::config(&["s1"], &json!({}));
    std::fs::File::create(folder.path().join("config.json"))
        .unwrap()
        .write_all(config.to_string().as_bytes())
        .unwrap();
    let mut command = crate::harness::server::binary();
    command.args(["serve", "--config", "config.json"]);
    let (server, pipe) = Server::launch_unread(command, folder);
    for _ in 0..400 {
        // Each comes and goes with a line or two: far more than a pipe holds.
        server.connect("s1").cut();
    }
    let mut client = server.subscribed("s1");
    assert_eq!(client.turn("unhindered").last().unwrap().payload["status"], "completed");
    drop(pipe);
    for _ in 0..20 {
        server.connect("s1").cut();
    }
    let mut client = server.connect("s1");
    client.subscribe(client.last_seq() + 1);
    assert_eq!(client.turn("still").last().unwrap().payload["status"], "completed");
}
