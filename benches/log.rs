//! What the log costs: checksums, sealing a line, appending without a sync, finding an event, reading
//! a piece of a replay. Every row asserts its result.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use terret_ws::disk::real::RealDisk;
use terret_ws::disk::{LogOptions, SessionLog, Store, SyncMode, Tip};
use terret_ws::log::crc::crc32c;
use terret_ws::log::line;
use terret_ws::proto::event::{NewEvent, write_envelope};
use terret_ws::proto::ident::{EventId, SessionId};
use terret_ws::proto::payload::Body;
use terret_ws::proto::time::Wall;

const AT: Wall = Wall(1_787_026_211_123_456);
/// What a provider streams at a time.
const DELTA: &str = " the weather in Par";
/// How many appends go into one directory, so that the bench does not fill the disk.
const APPENDS_PER_DIRECTORY: u64 = 1000;

fn session() -> SessionId {
    SessionId::parse("session-0123456789").expect("a valid id")
}

fn chunk(id: u64, text: &str) -> NewEvent {
    NewEvent { id: EventId(id), body: Body::AssistantChunk { text: text.to_owned() } }
}

fn open(dir: &Path) -> (Store, SessionLog) {
    let options = LogOptions { sync: SyncMode::Os, segment_bytes: 4 << 20 };
    let store = Store::open(Arc::new(RealDisk), dir, options).expect("a fresh directory");
    let opened = store.open_session(&session(), Some((EventId(0), AT))).expect("a fresh session");
    (store, opened.log)
}

fn checksum(c: &mut Criterion) {
    let mut group = c.benchmark_group("log/crc32c");
    for (len, expected) in [(200, 0xd90b_e573), (64 * 1024, 0x0daa_fcde)] {
        let bytes: Vec<u8> = (0..=250).cycle().take(len).collect();
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(format!("{len} bytes"), |b| {
            b.iter(|| assert_eq!(crc32c(black_box(&bytes)), expected));
        });
    }
    group.finish();
}

fn encode(c: &mut Criterion) {
    let mut group = c.benchmark_group("log/encode and seal");
    let session = session();
    for (what, text) in [("a delta", DELTA.to_owned()), ("4 KiB of text", "words ".repeat(683))] {
        let event = chunk(7, &text);
        let mut out = Vec::new();
        let mut encode = |event: &NewEvent| {
            out.clear();
            write_envelope(&mut out, event.id, &session, 1234, AT, &event.body);
            line::seal(&mut out, 0, 1230);
            out.len()
        };
        let len = encode(&event);
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(what, |b| b.iter(|| assert_eq!(encode(black_box(&event)), len)));
    }
    group.finish();
}

fn append(c: &mut Criterion) {
    let mut group = c.benchmark_group("log/append, not synced");
    for count in [1_u64, 16, 256] {
        let events: Vec<NewEvent> = (0..count).map(|id| chunk(id, DELTA)).collect();
        group.throughput(Throughput::Elements(count));
        group.bench_function(format!("{count} events"), |b| {
            b.iter_custom(|iterations| {
                let mut spent = Duration::ZERO;
                let mut left = iterations;
                while left > 0 {
                    let dir = tempfile::tempdir().expect("a temporary directory");
                    let (store, mut log) = open(dir.path());
                    let now = left.min(APPENDS_PER_DIRECTORY);
                    let start = Instant::now();
                    for _ in 0..now {
                        let lines = log.append(&store, black_box(&events), AT).expect("space");
                        assert!(lines.len() > 150 * events.len());
                    }
                    spent += start.elapsed();
                    assert_eq!(log.tip().seq, now * count);
                    left -= now;
                }
                spent
            });
        });
    }
    group.finish();
}

/// A log of one full segment and its tip.
fn filled(dir: &Path) -> (Store, Tip) {
    let (store, mut log) = open(dir);
    let events: Vec<NewEvent> = (0..256).map(|id| chunk(id, DELTA)).collect();
    while log.tip().bytes < 4_000_000 {
        log.append(&store, &events, AT).expect("space");
    }
    (store, log.tip())
}

fn read(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (store, tip) = filled(dir.path());
    let session = session();
    let mut group = c.benchmark_group("log/read");
    group.throughput(Throughput::Elements(1));
    group.bench_function("one event, sought in 4 MB", |b| {
        let mut from = 0;
        b.iter(|| {
            from = (from + 7919) % tip.seq;
            let piece = store.read(&session, from, None, tip, 1, 1).expect("it is there");
            assert_eq!((piece.first, piece.count), (from, 1));
        });
    });
    let start = store.read(&session, 0, None, tip, 1, 1).expect("it is there").next;
    let piece =
        |from| store.read(&session, 1, from, tip, 100_000, 256 * 1024).expect("it is there");
    let bytes = piece(Some(start)).lines.len();
    group.throughput(Throughput::Bytes(bytes as u64));
    group.bench_function("a piece of 256 KiB", |b| {
        b.iter(|| assert_eq!(piece(black_box(Some(start))).lines.len(), bytes));
    });
    group.finish();
}

criterion_group!(benches, checksum, encode, append, read);
criterion_main!(benches);
