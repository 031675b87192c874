//! What ours is compared with, each a process of its own: this very program, started with a hidden
//! argument.

mod bare;
pub(crate) mod live;
mod tokio;
mod tokio_live;

use std::env;

use terret_ws::proto::upgrade::{AcceptKey, write_switching_protocols};
use terret_ws::proto::ws::write_text;

use crate::compare::Who;
use crate::server::{Process, on_server_core};

/// The argument that makes this program one of them.
pub(crate) const ARGUMENT: &str = "--baseline";

/// What a baseline sends right after its 101, as small as ours.
const HELLO: &str = r#"{"type":"hello","agent_id":"agent-0","last_seq":0,"status":"idle"}"#;

const KEY: &str = "Sec-WebSocket-Key: ";

/// Answers a request head with the 101 and [`HELLO`], once it is whole; says whether it was.
fn greet(head: &[u8], out: &mut Vec<u8>) -> bool {
    if !head.ends_with(b"\r\n\r\n") {
        return false;
    }
    let text = std::str::from_utf8(head).unwrap();
    let key = text.lines().find_map(|line| line.strip_prefix(KEY)).unwrap();
    write_switching_protocols(out, &AcceptKey::of(key));
    write_text(out, HELLO.as_bytes());
    true
}

/// Starts one of them; the words say what it does.
pub(crate) fn start(who: Who, words: &[&str]) -> Process {
    let who = match who {
        Who::Bare => "bare",
        Who::Tokio => "tokio",
        Who::Ours => panic!("ours is no baseline"),
    };
    let program = env::current_exe().unwrap();
    Process::start(on_server_core(&program).args([ARGUMENT, who]).args(words))
}

/// Is the baseline that the words name, until it is killed.
pub(crate) fn run(words: &[String]) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match &words[..] {
        // 101 and a small frame; what the client says then is answered with the lines of a file.
        ["bare", "replay", file] => bare::replay(file),
        // The same with so many frames from memory, flushed together or one by one.
        ["tokio", "replay", frames] => tokio::replay(frames.parse().unwrap(), false),
        ["tokio", "replay", frames, "each"] => tokio::replay(frames.parse().unwrap(), true),
        // Whoever injects gets so many events, each of them in a file before, one each so many ms.
        ["bare", "live", folder, events, ms] => {
            live::live(folder.as_ref(), events.parse().unwrap(), ms.parse().unwrap());
        }
        ["tokio", "live", folder, events, ms] => {
            tokio_live::live(folder.as_ref(), events.parse().unwrap(), ms.parse().unwrap());
        }
        // One event, when so many batches were written and synced.
        ["bare", "sync", folder, batches] => live::sync(folder.as_ref(), batches.parse().unwrap()),
        // One event, which a thread has put into a file, and perhaps synced, before.
        ["bare", "hop", folder, syncs] => live::hop(folder.as_ref(), *syncs == "always"),
        other => panic!("{other:?} is no baseline"),
    }
}
