//! What a connection costs from its accept to `hello`, and what its close does.
//!
//! For a session that the process knows nothing is asked of the disk, and the others do all that the
//! protocol of sockets needs. For a new session and for one that is only on disk, what ours is held
//! against is no server: it is the operations on files alone that a session needs then, in a loop.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use serde_json::json;

use crate::baseline;
use crate::compare::{Row, Scale, Who};
use crate::live::folder;
use crate::memory::{connect, make_sessions};
use crate::peers::Peers;
use crate::server::{Process, Server, agent};

/// So many connections are opened and closed in all, or a round is too short to be measured.
const CONNECTIONS_MIN: usize = 4000;
/// What a new log begins with: its header, and its first event.
const HEADER_BYTES: usize = 169;
const FIRST_BYTES: usize = 184;

pub(crate) fn rows(scale: &Scale) -> Vec<Row> {
    let sizes = if scale.short { [2, 20] } else { [100, 1000] };
    let mut rows = Vec::new();
    for count in sizes {
        let times = if scale.short { 1 } else { CONNECTIONS_MIN / count };
        let closes = RefCell::new(VecDeque::new());
        let work = ("handshake, session known", format!("{count} connections"));
        rows.push(Row::measure(scale, work, "us", Some(1.3), |who| {
            let (hello, close) = known(scale, who, count, times);
            closes.borrow_mut().push_back(close);
            Some(hello)
        }));
        // What was just measured, in the same order: how the same connections ended.
        let closes = &mut *closes.borrow_mut();
        let work = ("  its close", format!("{count} connections"));
        rows.push(Row::measure(scale, work, "us", None, |_| closes.pop_front()));
    }
    for count in sizes {
        let work = ("handshake, session new", format!("{count} sessions"));
        rows.push(Row::measure(scale, work, "us", None, |who| {
            let folder = folder();
            match who {
                Who::Ours => Some(first(scale, folder.path(), count)),
                Who::Bare => Some(for_each_session(folder.path(), count, create)),
                Who::Tokio => None,
            }
        }));
    }
    for count in sizes {
        let work = ("handshake, session on disk", format!("{count} sessions"));
        let folder = folder();
        make_sessions(folder.path(), count);
        let sessions = folder.path().join("terret-data/sessions");
        rows.push(Row::measure(scale, work, "us", None, |who| match who {
            Who::Ours => Some(first(scale, folder.path(), count)),
            Who::Bare => Some(for_each_session(&sessions, count, look)),
            Who::Tokio => None,
        }));
    }
    rows
}

/// Server CPU for one connection up to its `hello`, and for its close, in microseconds.
fn known(scale: &Scale, who: Who, count: usize, times: usize) -> (f64, f64) {
    let run = |process: &Process| {
        let (mut hello, mut close) = (0.0, 0.0);
        // The first time makes the sessions known.
        for time in 0..=times {
            let mut peers = Peers::new();
            let begin = process.cpu_us();
            connect(&mut peers, process.addr, 0..count);
            let open = process.cpu_us();
            peers.part();
            let closed = process.cpu_us();
            if time > 0 {
                hello += open - begin;
                close += closed - open;
            }
        }
        let all = (times * count) as f64;
        (hello / all, close / all)
    };
    let folder = folder();
    match who {
        Who::Ours => run(&serve(scale, folder.path(), count)),
        // Nobody says anything, so nothing is replayed.
        Who::Bare => run(&baseline::start(who, &["replay", "/dev/null"])),
        Who::Tokio => run(&baseline::start(who, &["replay", "0"])),
    }
}

/// Server CPU for the first connection of each session, in microseconds.
fn first(scale: &Scale, folder: &Path, count: usize) -> f64 {
    let server = serve(scale, folder, count);
    let begin = server.cpu_us();
    let mut peers = Peers::new();
    connect(&mut peers, server.addr, 0..count);
    (server.cpu_us() - begin) / count as f64
}

fn serve(scale: &Scale, folder: &Path, count: usize) -> Server {
    Server::start_in(folder, &scale.binary, count, &[], &json!({"max_connections": count}))
}

/// CPU of this thread for what is done to the folder of one session, in microseconds.
fn for_each_session(sessions: &Path, count: usize, work: fn(&Path)) -> f64 {
    let begin = thread_cpu_us();
    for number in 0..count {
        work(&sessions.join(agent(number)));
    }
    (thread_cpu_us() - begin) / count as f64
}

/// A folder and a log in it, so that a power cut leaves both or neither.
fn create(session: &Path) {
    DirBuilder::new().mode(0o700).create(session).unwrap();
    File::open(session.parent().unwrap()).unwrap().sync_all().unwrap();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let log = options.open(session.join("log")).unwrap();
    log.write_all_at(&[b'x'; HEADER_BYTES], 0).unwrap();
    log.sync_all().unwrap();
    File::open(session).unwrap().sync_all().unwrap();
    log.write_all_at(&[b'x'; FIRST_BYTES], HEADER_BYTES as u64).unwrap();
}

/// Finds the log of a session and reads it; what is read is on the disk.
fn look(session: &Path) {
    let entry = fs::read_dir(session).unwrap().next().unwrap().unwrap();
    let log = OpenOptions::new().read(true).write(true).open(entry.path()).unwrap();
    log.sync_all().unwrap();
    let mut bytes = vec![0; log.metadata().unwrap().len() as usize];
    log.read_exact_at(&mut bytes, 0).unwrap();
}

fn thread_cpu_us() -> f64 {
    // The time of a thread is brought up to date when it gives up its core.
    std::thread::yield_now();
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e3
}
