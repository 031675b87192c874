//! What comes while somebody listens: many agents at the pace of a model, one as fast as it can, and how
//! long the first event of an answer takes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use terret_ws::client::{Client, Endpoint, Received};
use terret_ws::disk::real::RealDisk;
use terret_ws::disk::{LogOptions, Store, SyncMode};
use terret_ws::proto::command::Command;
use terret_ws::proto::event::NewEvent;
use terret_ws::proto::ident::{EventId, SessionId};
use terret_ws::proto::payload::Body;

use crate::baseline::{self, live::BATCH};
use crate::compare::{Row, Scale, Who, median};
use crate::peers::Peers;
use crate::replay::{AT, TEXT};
use crate::server::{Process, Server, agent};

/// Between two events of one agent: 50 a second.
const PERIOD_MS: u64 = 20;
/// Chunks of one step; its text may have 4 MiB.
const STEP_CHUNKS: usize = 60_000;
/// Between two wakes, so that agents keep no step with one another.
const WAKE_EACH: Duration = Duration::from_micros(20);
/// Between two injects of which each is timed.
const PAUSE: Duration = Duration::from_millis(1);

/// Many agents at the pace of a model.
pub(crate) fn paced_rows(scale: &Scale) -> Vec<Row> {
    let chunks = if scale.short { 10 } else { 100 };
    let row = |agents| {
        let work = ("live, 50 events/s an agent", format!("{agents} agents"));
        Row::measure(scale, work, "us/event", Some(1.3), |who| {
            Some(paced(scale, who, agents, chunks))
        })
    };
    let sizes = if scale.short { [2, 20] } else { [100, 1000] };
    sizes.into_iter().map(row).collect()
}

/// One agent as fast as it can.
pub(crate) fn fast_rows(scale: &Scale) -> Vec<Row> {
    let mut rows = Vec::new();
    for chunks in if scale.short { [200, 2000] } else { [STEP_CHUNKS, 10 * STEP_CHUNKS] } {
        let times = RefCell::new(VecDeque::new());
        let work = ("live, one agent at full speed", format!("{chunks} events"));
        rows.push(Row::measure(scale, work, "CPU ns/event", None, |who| {
            let (cpu, took) = fast(scale, who, chunks, "os");
            times.borrow_mut().push_back(took);
            Some(cpu)
        }));
        // What was just measured, in the same order, seen from the other side. 300,000 a second are
        // 3,333 ns.
        let work = ("  the same, time", format!("{chunks} events"));
        let times = &mut *times.borrow_mut();
        rows.push(Row::measure(scale, work, "ns/event", None, |_| times.pop_front()));
    }
    for chunks in if scale.short { [200, 2000] } else { [STEP_CHUNKS / 10, STEP_CHUNKS] } {
        let work = ("  the same, synced, time", format!("{chunks} events"));
        rows.push(Row::measure(scale, work, "ns/event", Some(1.25), |who| match who {
            Who::Ours => Some(fast(scale, who, chunks, "always").1),
            Who::Bare => Some(write_and_sync(chunks as u64)),
            Who::Tokio => None,
        }));
    }
    rows
}

/// How long the first event of an answer takes.
pub(crate) fn hop_rows(scale: &Scale) -> Vec<Row> {
    let mut rows = Vec::new();
    let times = if scale.short { 20 } else { 500 };
    for (sync, work) in [("os", "inject to first event"), ("always", "  the same, synced")] {
        for events in if scale.short { [1, 1000] } else { [1, 1_000_000] } {
            let folder = folder();
            make_log(folder.path(), events);
            let work = (work, format!("log of {events}"));
            rows.push(Row::measure(scale, work, "us", Some(1.5), |who| {
                (who != Who::Tokio).then(|| first_event(scale, who, folder.path(), sync, times))
            }));
        }
    }
    rows
}

/// A scripted answer of so many chunks.
fn step(chunks: usize, delay_ms: u64) -> Value {
    json!({"chunks": vec![TEXT; chunks], "chunk_delay_ms": delay_ms})
}

/// A folder where logs are files on a disk, and not in memory.
pub(crate) fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn live_baseline(who: Who, folder: &Path, events: usize, period_ms: u64) -> Process {
    let (events, period_ms) = (events.to_string(), period_ms.to_string());
    baseline::start(who, &["live", folder.to_str().unwrap(), &events, &period_ms])
}

/// Server CPU for one event that its client has, in microseconds.
fn paced(scale: &Scale, who: Who, agents: usize, chunks: usize) -> f64 {
    let run = |process: &Process| {
        let mut peers = Peers::following(process.addr, agents);
        let before = process.cpu_us();
        for index in 0..agents {
            peers.list[index].wake("go");
            let next = Instant::now() + WAKE_EACH;
            peers.run("a moment", |_| Instant::now() >= next);
        }
        peers.run("every turn", |peers| peers.iter().all(|peer| peer.turns_ended == 1));
        let events: u64 = peers.list.iter().map(|peer| peer.events).sum();
        (process.cpu_us() - before) / events as f64
    };
    let folder = folder();
    if who == Who::Ours {
        let steps = [step(chunks, PERIOD_MS)];
        run(&Server::start_in(folder.path(), &scale.binary, agents, &steps, &json!({})))
    } else {
        run(&live_baseline(who, folder.path(), chunks, PERIOD_MS))
    }
}

/// One agent and its client: server CPU and time for one event, in nanoseconds.
fn fast(scale: &Scale, who: Who, chunks: usize, sync: &str) -> (f64, f64) {
    let step_chunks = chunks.min(STEP_CHUNKS);
    let run = |process: &Process| {
        let mut peers = Peers::following(process.addr, 1);
        let (before, start) = (process.cpu_us(), Instant::now());
        for turn in 1..=(chunks / step_chunks) as u64 {
            peers.list[0].wake("go");
            peers.run("the turn", |peers| peers[0].turns_ended == turn);
        }
        let (took, events) = (start.elapsed(), peers.list[0].events as f64);
        assert_eq!(peers.list[0].error, None);
        ((process.cpu_us() - before) * 1e3 / events, took.as_secs_f64() * 1e9 / events)
    };
    let folder = folder();
    if who == Who::Ours {
        // The client shares its core with whatever else runs: it may rest longer than 256 events take.
        let more = json!({"log": {"sync": sync}, "queue_limit": 1_000_000, "queue_bytes": 1 << 28});
        let steps = [step(step_chunks, 0)];
        run(&Server::start_in(folder.path(), &scale.binary, 1, &steps, &more))
    } else {
        run(&live_baseline(who, folder.path(), step_chunks, 0))
    }
}

/// Writes and syncs as many events in the same batches; nanoseconds for one.
fn write_and_sync(events: u64) -> f64 {
    let folder = folder();
    let batches = (events / BATCH).max(1);
    let words = ["sync", folder.path().to_str().unwrap(), &batches.to_string()];
    let process = baseline::start(Who::Bare, &words);
    let mut peers = Peers::following(process.addr, 1);
    let start = Instant::now();
    peers.list[0].wake("go");
    peers.run("the loop", |peers| peers[0].turns_ended == 1);
    start.elapsed().as_secs_f64() * 1e9 / (batches * BATCH) as f64
}

/// From the inject of an idle agent to its first event, the median of so many, in microseconds.
fn first_event(scale: &Scale, who: Who, folder: &Path, sync: &str, times: usize) -> f64 {
    let run = |process: &Process| {
        let id = SessionId::parse(&agent(0)).unwrap();
        let endpoint = Endpoint::of_agent(process.addr, &id);
        let mut client = Client::connect(&endpoint, &format!("token-of-{id}")).unwrap();
        let hello: Value = serde_json::from_str(&frame(&mut client)).unwrap();
        let from_seq = hello["last_seq"].as_u64().unwrap() + 1;
        client.send(&Command::Subscribe { from_seq }).unwrap();
        let mut measured: Vec<f64> = (0..times)
            .map(|_| {
                // What the answer before has left to do is no part of this one.
                thread::sleep(PAUSE);
                let start = Instant::now();
                client.send(&Command::Inject { text: "go".to_owned(), wake: true }).unwrap();
                let mut event = frame(&mut client);
                let took = start.elapsed();
                while !event.contains("turn/end") {
                    event = frame(&mut client);
                }
                took.as_secs_f64() * 1e6
            })
            .collect();
        median(&mut measured).unwrap()
    };
    match who {
        Who::Ours => {
            let more = json!({"log": {"sync": sync}});
            run(&Server::start_in(folder, &scale.binary, 1, &[step(1, 0)], &more))
        }
        _ => {
            let folder = TempDir::new_in(folder).unwrap();
            run(&baseline::start(who, &["hop", folder.path().to_str().unwrap(), sync]))
        }
    }
}

fn frame(client: &mut Client) -> String {
    match client.receive(Some(Duration::from_secs(60))).unwrap() {
        Received::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

/// Makes a log of so many events.
fn make_log(folder: &Path, events: usize) {
    let options = LogOptions { sync: SyncMode::Os, segment_bytes: 4 << 20 };
    let store = Store::open(Arc::new(RealDisk), folder.join("terret-data"), options).unwrap();
    let session = SessionId::parse(&agent(0)).unwrap();
    let mut log = store.open_session(&session, Some((EventId(0), AT))).unwrap().log;
    let chunk = Body::AssistantChunk { text: TEXT.to_owned() };
    let batch = vec![NewEvent { id: EventId(0), body: chunk }; BATCH as usize];
    for begin in (1..events).step_by(batch.len()) {
        log.append(&store, &batch[..(events - begin).min(batch.len())], AT).unwrap();
    }
    assert_eq!(log.tip().seq, events as u64 - 1);
}
