//! What the black-box tests stand on: the real server process, and peers that share no code with it.
//!
//! Nothing here measures time. Every wait ends when the awaited thing happens; [`PATIENCE`] only
//! turns a hang into a failure.

pub(crate) mod client;
pub(crate) mod files;
pub(crate) mod http;
pub(crate) mod made;
pub(crate) mod provider;
pub(crate) mod server;
pub(crate) mod small_disk;
pub(crate) mod tools;
pub(crate) mod wire;

pub(crate) use client::{Client, Event, Received};
pub(crate) use server::{Server, token};

use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long a test waits for what must happen before it calls it a hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again and again until there is an answer: for what no descriptor can announce, such as
/// another process's exit or a line in its log.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "still waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One read that a signal does not end: with a time-out set, the system does not begin it again.
pub(crate) fn read_some(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// A config whose role `main` gives the answers of `steps`, one after the other, over and over.
pub(crate) fn scripted(steps: &Value) -> Value {
    json!({
        "providers": {"script": {"kind": "scripted", "steps": steps, "repeat": true}},
        "roles": {"main": "script/m"}
    })
}
