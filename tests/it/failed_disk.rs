//! A disk that fails under a real server: it stores nothing more, says so, and ends; and what it had shown
//! is there.
//!
//! It is strace that lets calls fail; where there is none, or it may not trace, nothing is tested.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;

use crate::harness::client::assert_gapless;
use crate::harness::wire::{CLOSE, TEXT, Wire};
use crate::harness::{Event, Server, server, token};

/// What a server is run by so that a call fails, from the n-th of each thread on.
fn failing(call: &str, error: &str, from: u32) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qqq", "-o", "/dev/null"]).stdin(Stdio::null());
    command.arg(format!("--trace={call}"));
    command.arg(format!("--inject={call}:error={error}:when={from}+"));
    command
}

fn can_fail() -> bool {
    let tried = failing("fsync", "EIO", 1).arg("true").output();
    let can = tried.as_ref().is_ok_and(|output| output.status.success());
    if !can {
        eprintln!("skipped, no call can be made to fail here: {tried:?}");
    }
    can
}

#[test]
fn a_disk_that_fails_ends_the_server_with_74_and_nothing_that_was_seen_is_missing() {
    // The first calls of these kinds make the session.
    let table = [
        ("fdatasync", "EIO", 3),
        ("fdatasync", "EIO", 8),
        ("pwrite64", "EIO", 8),
        ("pwrite64", "EROFS", 6),
    ];
    if !can_fail() {
        return;
    }
    for (call, error, from) in table {
        let folder = Arc::new(TempDir::new().unwrap());
        let config = server::config(&["s1"], &json!({"workers": 2})).to_string();
        fs::write(folder.path().join("config.json"), config).unwrap();
        let mut command = failing(call, error, from);
        command.arg(env!("CARGO_BIN_EXE_terret-ws")).args(["serve", "--config", "config.json"]);
        let mut server = Server::launch(command, folder);
        let mut wire = Wire::open(server.addr(), "s1", &token("s1"));
        wire.send_text(r#"{"type":"subscribe","from_seq":0}"#);
        let mut seen: Vec<Event> = Vec::new();
        let (mut told, mut closed) = (None, None);
        while let Some(frame) = wire.frame() {
            match frame.opcode {
                TEXT => match Event::parse(std::str::from_utf8(&frame.payload).unwrap()) {
                    Some(event) => {
                        let idle = matches!(&*event.kind, "session/created" | "turn/end");
                        seen.push(event);
                        if idle {
                            wire.send_text(r#"{"type":"inject","text":"a b c","wake":true}"#);
                        }
                    }
                    None => told = Some(frame.json()["code"].clone()),
                },
                CLOSE => closed = frame.close_code(),
                _ => {}
            }
        }
        assert_eq!((told, closed), (Some(json!("internal")), Some(1011)), "{call} {error}");
        drop(wire);
        assert_eq!(server.exit().code(), Some(74), "{call} {error}: {}", server.stderr());
        assert!(server.stderr().contains("disk failed"), "{}", server.stderr());
        assert!(!seen.is_empty());

        let server = Server::start_in(server.folder(), &["s1"], &json!({}));
        let mut client = server.connect("s1");
        client.subscribe(0);
        let log = client.events_to(client.last_seq());
        assert_gapless(&log, 0, client.last_seq());
        assert_eq!(log[..seen.len()], seen, "{call} {error}");
        let turn = client.turn("again");
        assert_eq!(turn.last().unwrap().payload["status"], "completed");
    }
}
