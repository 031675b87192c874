//! What durability costs: bytes in the files for each byte of content, and appends a second against a
//! loop that does nothing but write as many bytes and call fdatasync, in the same directory, taking turns.
//!
//! Prints a table and the same as one line of JSON. It asserts what was written and how often it was
//! synced, not how fast that was. `TERRET_BENCH_DIR` names the directory; without it the files are made
//! where the build puts its own, and not in a temporary directory, which may be memory.

#![allow(clippy::print_stdout, reason = "figures are printed")]

use std::env;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use terret_ws::disk::real::RealDisk;
use terret_ws::disk::{LogOptions, Store, SyncMode};
use terret_ws::proto::event::NewEvent;
use terret_ws::proto::ident::{EventId, SessionId};
use terret_ws::proto::payload::{Body, Part};
use terret_ws::proto::time::Wall;

const AT: Wall = Wall(1_787_026_211_123_456);
/// What a provider streams at a time.
const DELTA: &str = " the weather in Par";
const ROUNDS: usize = 6;
/// How long each side appends in a round.
const ROUND: Duration = Duration::from_millis(500);

fn main() {
    let root = env::var_os("TERRET_BENCH_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let dir = tempfile::tempdir_in(&root).expect("a directory");
    let bytes = amplification(dir.path());
    let rates = rates(dir.path());
    println!("in {}", root.display());
    println!(
        "{:32} {:>9} {:>9} {:>9} {:>7} {:>7}",
        "bytes", "content", "wire", "file", "f/c", "f/w"
    );
    for Bytes { what, content, wire, file } in &bytes {
        let (by_content, by_wire) = (ratio(*file, *content), ratio(*file, *wire));
        println!("{what:32} {content:>9} {wire:>9} {file:>9} {by_content:>7.2} {by_wire:>7.3}");
    }
    println!("{:32} {:>9} {:>9} {:>7}", "synced batches a second", "bare", "log", "l/b");
    for Rate { what, bare, log } in &rates {
        println!("{what:32} {bare:>9.0} {log:>9.0} {:>7.3}", log / bare);
    }
    let bytes = bytes.iter().map(Bytes::json).collect::<Vec<_>>().join(",");
    let rates = rates.iter().map(Rate::json).collect::<Vec<_>>().join(",");
    println!("{{\"bytes\":[{bytes}],\"rates\":[{rates}]}}");
}

/// How much of a log is content.
struct Bytes {
    what: &'static str,
    /// Bytes of text.
    content: u64,
    /// Bytes of the frames' payloads.
    wire: u64,
    /// Bytes of the segments, headers too.
    file: u64,
}

/// Batches a second that are on stable storage.
struct Rate {
    what: String,
    bare: f64,
    log: f64,
}

impl Bytes {
    fn json(&self) -> String {
        let Self { what, content, wire, file } = self;
        format!("{{\"what\":\"{what}\",\"content\":{content},\"wire\":{wire},\"file\":{file}}}")
    }
}

impl Rate {
    fn json(&self) -> String {
        let Self { what, bare, log } = self;
        format!("{{\"what\":\"{what}\",\"bare\":{bare:.1},\"log\":{log:.1}}}")
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

fn open(dir: &Path, sync: SyncMode) -> Store {
    let options = LogOptions { sync, segment_bytes: 4 << 20 };
    Store::open(Arc::new(RealDisk), dir, options).expect("a fresh directory")
}

fn session(number: usize) -> SessionId {
    SessionId::parse(&format!("session-{number}")).expect("a valid id")
}

fn chunks(count: usize, text: &str) -> Vec<NewEvent> {
    let chunk = || Body::AssistantChunk { text: text.to_owned() };
    (0..count as u64).map(|id| NewEvent { id: EventId(id), body: chunk() }).collect()
}

fn amplification(dir: &Path) -> Vec<Bytes> {
    let message = |text: &str| {
        let body = Body::AssistantMessage { parts: vec![Part::Text(text.to_owned())] };
        [chunks(200, DELTA), vec![NewEvent { id: EventId(0), body }]].concat()
    };
    let table = [
        ("deltas of 19 bytes", chunks(1, DELTA), 20_000),
        ("pieces of 400 bytes", chunks(1, &"words and ".repeat(40)), 20_000),
        ("texts of 4 KiB", chunks(1, &"words ".repeat(683)), 5000),
        ("answers of 200 deltas", message(&DELTA.repeat(200)), 100),
    ];
    let row = |(number, (what, batch, batches)): (usize, (&'static str, Vec<NewEvent>, u64))| {
        let dir = dir.join(format!("bytes-{number}"));
        let store = open(&dir, SyncMode::Os);
        let opened = store.open_session(&session(0), Some((EventId(0), AT))).expect("space");
        let mut log = opened.log;
        let mut wire = 0;
        for _ in 0..batches {
            let lines = log.append(&store, &batch, AT).expect("space");
            // A frame ends with `}` where its line has the seal and an LF.
            wire += (lines.len() - batch.len() * (SEAL_BYTES - 1)) as u64;
        }
        assert_eq!(log.tip().seq, batches * batch.len() as u64);
        let folder = dir.join("sessions").join(session(0).as_str());
        let files = fs::read_dir(folder).expect("a session").map(|entry| entry.expect("a name"));
        let file = files.map(|entry| entry.metadata().expect("a file").len()).sum();
        let text: u64 = batch.iter().map(text_bytes).sum();
        // A step's text stands in its chunks and in its message, but is content once.
        let content = if what.starts_with("answers") { text / 2 } else { text } * batches;
        assert!(content < wire && wire < file);
        Bytes { what, content, wire, file }
    };
    table.into_iter().enumerate().map(row).collect()
}

/// `,"ack":"…12…","crc":"…8…"}` and an LF.
const SEAL_BYTES: usize = 40;

fn text_bytes(event: &NewEvent) -> u64 {
    let text = match &event.body {
        Body::AssistantChunk { text } => text,
        Body::AssistantMessage { parts } => match &parts[..] {
            [Part::Text(text)] => text,
            _ => unreachable!("the bench makes no other"),
        },
        _ => unreachable!("the bench makes no other"),
    };
    text.len() as u64
}

fn rates(dir: &Path) -> Vec<Rate> {
    let mut rates = Vec::new();
    for sessions in [1, 4] {
        for events in [1, 256] {
            let dir = dir.join(format!("rates-{sessions}-{events}"));
            rates.push(rate(&dir, sessions, events));
        }
    }
    rates
}

/// Both sides append batches of as many bytes, each session and each file on a thread of its own.
fn rate(dir: &Path, sessions: usize, events: usize) -> Rate {
    let store = open(dir, SyncMode::Always);
    let batch = chunks(events, DELTA);
    let mut logs: Vec<_> = (0..sessions)
        .map(|number| {
            let opened = store.open_session(&session(number), Some((EventId(0), AT)));
            opened.expect("space").log
        })
        .collect();
    let lines = logs[0].append(&store, &batch, AT).expect("space");
    let files: Vec<_> = (0..sessions)
        .map(|number| {
            let path = dir.join(format!("bare-{number}"));
            OpenOptions::new().write(true).create_new(true).open(path).expect("a fresh file")
        })
        .collect();
    let (mut bare, mut log) = (Side::default(), Side::default());
    let mut ends = vec![0; sessions];
    let syncs_before = store.stats().syncs.load(Ordering::Relaxed);
    let rolls_before = segments(dir, sessions);
    for _ in 0..ROUNDS {
        bare.round(files.iter().zip(&mut ends).map(|(file, end)| {
            let lines = &lines;
            move || {
                file.write_all_at(lines, *end).expect("space");
                file.sync_data().expect("a disk that works");
                *end += lines.len() as u64;
            }
        }));
        log.round(logs.iter_mut().map(|log| {
            let (store, batch) = (&store, &batch);
            move || assert!(!log.append(store, batch, AT).expect("space").is_empty())
        }));
    }
    let appended: u64 = logs.iter().map(|log| log.tip().seq).sum();
    assert_eq!(appended, (log.batches + 1) * events as u64, "every batch is there");
    // One sync a batch, and two where a segment ends: for it, and for the file that follows.
    let syncs = store.stats().syncs.load(Ordering::Relaxed) - syncs_before;
    let rolls = segments(dir, sessions) - rolls_before;
    assert!(syncs >= log.batches && syncs <= log.batches + 2 * rolls, "{syncs} syncs");
    let threads = if sessions == 1 { "1 session" } else { "4 sessions at once" };
    let what = format!("{threads}, {events} of 19 bytes");
    Rate { what, bare: bare.rate(), log: log.rate() }
}

fn segments(dir: &Path, sessions: usize) -> u64 {
    let folder = |number| dir.join("sessions").join(session(number).as_str());
    (0..sessions)
        .map(|number| fs::read_dir(folder(number)).expect("a session").count() as u64)
        .sum()
}

/// What one side has done.
#[derive(Default)]
struct Side {
    batches: u64,
    spent: Duration,
}

impl Side {
    /// Lets each append for as long as a round lasts.
    fn round<A: FnMut() + Send>(&mut self, appenders: impl Iterator<Item = A>) {
        let start = Instant::now();
        self.batches += thread::scope(|scope| {
            let appenders = appenders.map(|mut append| {
                scope.spawn(move || {
                    let mut batches = 0_u64;
                    while start.elapsed() < ROUND {
                        append();
                        batches += 1;
                    }
                    batches
                })
            });
            let appenders: Vec<_> = appenders.collect();
            appenders.into_iter().map(|thread| thread.join().expect("no panic")).sum::<u64>()
        });
        self.spent += start.elapsed();
    }

    fn rate(&self) -> f64 {
        self.batches as f64 / self.spent.as_secs_f64()
    }
}
