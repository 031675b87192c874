//! Replays of a log from its files.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use terret_ws::disk::real::RealDisk;
use terret_ws::disk::{LogOptions, Store, SyncMode};
use terret_ws::log::line::bodies;
use terret_ws::proto::event::NewEvent;
use terret_ws::proto::ident::{EventId, SessionId};
use terret_ws::proto::payload::Body;
use terret_ws::proto::time::Wall;

use crate::baseline;
use crate::compare::{Row, Scale, Who};
use crate::peers::{Peer, Peers};
use crate::server::{Process, Server, agent};

pub(crate) const AT: Wall = Wall(1_787_026_211_123_456);
/// Makes an event's envelope one of 200 bytes, and a few more where its seq is long.
pub(crate) const TEXT: &str = "Sixty-three characters of some answer, as a provider gives them";
/// Small logs are replayed until so many events have come.
const EVENTS_MIN: usize = 200_000;
const BATCH: usize = 256;
/// Replays at once.
const CROWD: usize = 64;

/// Sessions with so many events each, and the same as wire envelopes in a file for who keeps no more.
struct Logs {
    folder: TempDir,
    sessions: usize,
    events: usize,
}

pub(crate) fn rows(scale: &Scale) -> Vec<Row> {
    let sizes: &[usize] = if scale.short { &[10, 1000] } else { &[10, 1000, 100_000, 1_000_000] };
    let mut rows = Vec::new();
    for &events in sizes {
        let logs = Logs::make(1, events);
        let times = if scale.short { 2 } else { (EVENTS_MIN / events).max(1) };
        let work = ("replay, from files", format!("{events} events"));
        rows.push(Row::measure(scale, work, "ns/event", Some(1.5), |who| {
            Some(logs.replay(scale, who, times))
        }));
    }
    let events = if scale.short { 1000 } else { 20_000 };
    let logs = Logs::make(CROWD, events);
    let work = ("replay, 64 at once", format!("64 x {events} events"));
    rows.push(Row::measure(scale, work, "ns/event", Some(1.5), |who| {
        Some(logs.replay(scale, who, 1))
    }));
    let work = ("replay, a write for each frame", format!("{events} events"));
    rows.push(Row::measure(scale, work, "ns/event", None, |who| {
        let process = (who == Who::Tokio)
            .then(|| baseline::start(who, &["replay", &events.to_string(), "each"]));
        process.map(|process| replay_all(&process, 1, events, 1, false, false))
    }));
    rows
}

impl Logs {
    fn make(sessions: usize, events: usize) -> Self {
        // In memory, where there is such a place: what is counted is work, not how fast a disk is.
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        let folder = made.unwrap();
        let options = LogOptions { sync: SyncMode::Os, segment_bytes: 4 << 20 };
        let data = folder.path().join("terret-data");
        let store = Store::open(Arc::new(RealDisk), data, options).unwrap();
        let mut file = BufWriter::new(File::create(folder.path().join("envelopes")).unwrap());
        for number in 0..sessions {
            let session = SessionId::parse(&agent(number)).unwrap();
            let mut log = store.open_session(&session, Some((EventId(0), AT))).unwrap().log;
            // What a new log begins with is one of them.
            let first = store.read(&session, 0, None, log.tip(), 1, 1).unwrap();
            let mut lines = first.lines;
            let mut left = events - 1;
            while left > 0 {
                let batch: Vec<NewEvent> = (0..left.min(BATCH)).map(chunk).collect();
                lines.extend(log.append(&store, &batch, AT).unwrap());
                left -= batch.len();
                if number == 0 {
                    write_envelopes(&mut file, &lines);
                }
                lines.clear();
            }
            assert_eq!(log.tip().seq, events as u64 - 1);
        }
        file.flush().unwrap();
        Self { folder, sessions, events }
    }

    /// Server CPU for one event, in nanoseconds.
    fn replay(&self, scale: &Scale, who: Who, times: usize) -> f64 {
        let run = |process: &Process| {
            // A few pieces each, or the first has all of its own before the last has any.
            let fair = who == Who::Ours && self.events > 10_000;
            replay_all(process, self.sessions, self.events, times, who != Who::Tokio, fair)
        };
        match who {
            Who::Ours => {
                let more = json!({"replay_limit": self.events});
                let folder = self.folder.path();
                run(&Server::start_in(folder, &scale.binary, self.sessions, &[], &more))
            }
            Who::Bare => {
                let file = self.folder.path().join("envelopes");
                run(&baseline::start(who, &["replay", file.to_str().unwrap()]))
            }
            Who::Tokio => run(&baseline::start(who, &["replay", &self.events.to_string()])),
        }
    }
}

/// Replays every session, so many times one after the other; nanoseconds of server CPU for one event.
fn replay_all(
    process: &Process,
    sessions: usize,
    events: usize,
    times: usize,
    checks: bool,
    fair: bool,
) -> f64 {
    let mut peers = Peers::new();
    for number in 0..sessions {
        peers.connect(process.addr, number);
    }
    peers.run("every hello", |peers| peers.iter().all(|peer| peer.hello.is_some()));
    if !checks {
        peers.list.iter_mut().for_each(Peer::only_counts);
    }
    let before = process.cpu_us();
    for time in 1..=times {
        peers.list.iter_mut().for_each(|peer| peer.subscribe(0));
        let all = (time * events) as u64;
        let mut least_when_one_ended = None;
        peers.run("every replay", |peers| {
            let least = peers.iter().map(|peer| peer.events).min().unwrap();
            if peers.iter().any(|peer| peer.events == all) {
                least_when_one_ended.get_or_insert(least);
            }
            least == all
        });
        // With ours nobody waits for another's end; others promise nothing.
        let least = least_when_one_ended.unwrap();
        assert!(
            !fair || least * 2 >= events as u64,
            "one stream has ended when another had {least} of {events} events"
        );
    }
    (process.cpu_us() - before) * 1e3 / (times * sessions * events) as f64
}

fn chunk(id: usize) -> NewEvent {
    NewEvent { id: EventId(id as u64), body: Body::AssistantChunk { text: TEXT.to_owned() } }
}

fn write_envelopes(file: &mut impl Write, lines: &[u8]) {
    for body in bodies(lines) {
        file.write_all(body).unwrap();
        file.write_all(b"}\n").unwrap();
    }
}
