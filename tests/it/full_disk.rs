//! No room for the log: nothing is lost, nothing is pretended, and the turn goes on by itself.
//!
//! The kernel's limit on a file's size stands in for a full disk: a process can set it for itself.

use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;

use crate::harness::client::assert_gapless;
use crate::harness::{Server, eventually, files, http, server};

/// A server whose files may grow to 64 KiB, with a script that says more than that.
fn cramped() -> Server {
    let folder = Arc::new(TempDir::new().unwrap());
    let chunks = vec!["x".repeat(1000); 100];
    let config = crate::harness::scripted(&json!([{"chunks": chunks, "chunk_delay_ms": 1}]));
    let text = server::config(&["s1"], &config).to_string();
    std::fs::write(folder.path().join("config.json"), text).unwrap();
    // The unit of `ulimit -f` is 512 bytes.
    let mut command = server::limited("ulimit -f 128");
    command.args(["serve", "--config", "config.json"]);
    Server::launch(command, folder)
}

fn expect_full(server: &Server) {
    eventually("healthz to say that the storage is full", || {
        let answer = http::get(server.addr(), "/healthz", None);
        (answer.status == 503 && answer.body.contains("storage full")).then_some(())
    });
}

#[test]
fn a_full_disk_is_said_and_survived() {
    let mut server = cramped();
    let mut client = server.subscribed("s1");
    client.wake("go");
    expect_full(&server);
    assert!(server.stderr().contains("storage full"), "an operator is told:\n{}", server.stderr());
    client.wake("more");
    assert!(client.error_after_events("internal").contains("storage full"));

    // Hello and replay work, and show nothing that is not on disk.
    let mut client = server.connect("s1");
    client.subscribe(0);
    let seen = client.events_to(client.last_seq());
    assert_gapless(&seen, 0, client.last_seq());
    let raw: Vec<&str> = seen.iter().map(|event| event.raw.as_str()).collect();
    assert_eq!(files::envelopes(&server.data_dir(), "s1"), raw);
    server.signal("TERM");
    assert_eq!(server.exit().code(), Some(0));

    // With room again: every event it was sent is there, and the turn goes on.
    let server = Server::start_in(server.folder(), &["s1"], &json!({}));
    let mut client = server.connect("s1");
    client.subscribe(0);
    let log = client.events_to(client.last_seq());
    assert_eq!(log[..seen.len()], seen);
    client.wake("again");
    let rest = client.events_until("turn/end");
    assert_gapless(&rest, log.len() as u64, log.len() as u64 + rest.len() as u64 - 1);
    assert_eq!(rest.last().unwrap().payload["status"], "completed");
}

#[test]
fn a_cancel_is_taken_even_then() {
    let server = cramped();
    let mut client = server.subscribed("s1");
    client.wake("go");
    expect_full(&server);
    client.cancel("no room");
    // It is logged later, when there is room; it must not be refused for want of it.
    client.send(&json!({"type": "no such frame"}));
    client.error_after_events("bad_frame");
}
