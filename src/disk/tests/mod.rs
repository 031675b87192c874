//! The store, tested on files of the machine and on the simulated disk.

mod faults;
mod flips;
mod inspection;
mod model;
mod reading;
mod repair;
mod recovery;
mod retention;
mod store;

use std::sync::Arc;

use super::sim::SimDisk;
use super::verify::Finding;
use super::*;
use crate::proto::event::NewEvent;
use crate::proto::ident::{EventId, SessionId};
use crate::proto::payload::{Body, TurnStatus};
use crate::proto::time::Wall;

fn session() -> SessionId {
    SessionId::parse("s1").unwrap()
}

const AT: Wall = Wall(1_787_026_211_123_456);

/// Where `session/created` comes from.
const CREATE: Option<(EventId, Wall)> = Some((EventId(0xc0), AT));

/// The file that most tests look at.
const FIRST: &str = "data/sessions/s1/00000000000000000000.jsonl";

const ALWAYS: LogOptions = LogOptions { sync: SyncMode::Always, segment_bytes: 4 << 20 };
const OS: LogOptions = LogOptions { sync: SyncMode::Os, segment_bytes: 4 << 20 };

/// An event that carries this text.
fn chunk(id: u64, text: &str) -> NewEvent {
    NewEvent { id: EventId(id), body: Body::AssistantChunk { text: text.to_owned() } }
}

fn store_on(disk: &SimDisk, options: LogOptions) -> Store {
    Store::open(Arc::new(disk.clone()), "data", options).unwrap()
}

/// Everything from `from` to the tip.
fn read_all(store: &Store, from: u64, tip: Tip) -> Result<Vec<u8>, ReadError> {
    let mut lines = Vec::new();
    let session = session();
    let mut events = store.events_from(&session, from, tip);
    while let Some(piece) = events.next_piece()? {
        lines.extend_from_slice(&piece.lines);
    }
    Ok(lines)
}

/// Deletes nothing but old segments: so few events are kept, and so many bytes for the model.
fn trim(
    store: &Store,
    log: &mut SessionLog,
    keep_events: u64,
    history_bytes: usize,
) -> Option<Trimmed> {
    let retention = Retention { keep_events: Some(keep_events), keep_days: None };
    log.trim(store, &retention, history_bytes, AT).unwrap()
}

/// The event lines of a log that is opened, and the log.
fn reopen(disk: &SimDisk, options: LogOptions) -> (Store, Opened, Vec<Vec<u8>>) {
    let store = store_on(disk, options);
    let opened = store.open_session(&session(), None).unwrap();
    let lines = read_all(&store, 0, opened.log.tip()).unwrap();
    (store, opened, split(&lines))
}

/// Two events fill a segment: its base is an even seq.
const SMALL: LogOptions = LogOptions { segment_bytes: 600, ..ALWAYS };
const DIR: &str = "data/sessions/s1";

/// A session with so many events.
fn session_of(events: u64) -> (SimDisk, Store, SessionLog) {
    let disk = SimDisk::new(events);
    let store = store_on(&disk, SMALL);
    let mut log = store.open_session(&session(), CREATE).unwrap().log;
    for id in 1..events {
        log.append(&store, &[chunk(id, "text")], AT).unwrap();
    }
    (disk, store, log)
}

fn event(id: u64, body: Body) -> NewEvent {
    NewEvent { id: EventId(id), body }
}

fn turn_start(id: u64) -> NewEvent {
    event(id, Body::TurnStart { agent: "agent".into() })
}

fn turn_end(id: u64) -> NewEvent {
    event(id, Body::TurnEnd { status: TurnStatus::Completed, reason: None })
}

fn findings(disk: &SimDisk) -> Vec<Finding> {
    let mut findings = Vec::new();
    verify::verify(disk, "data", &session(), |finding| findings.push(finding)).unwrap();
    findings
}

fn split(lines: &[u8]) -> Vec<Vec<u8>> {
    lines.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect()
}
