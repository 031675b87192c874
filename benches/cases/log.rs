//! The log: checksums, sealing a line, reading what lines say, finding an event, appending without a
//! sync, reading a piece of a replay.

use std::convert::Infallible;
use std::sync::Arc;

use tempfile::TempDir;
use terret_ws::disk::real::RealDisk;
use terret_ws::disk::{LogOptions, SessionLog, Store, SyncMode, Tip};
use terret_ws::limits::{PIECE_BYTES_MAX, PIECE_EVENTS_MAX};
use terret_ws::log::crc::crc32c;
use terret_ws::log::header::Header;
use terret_ws::log::scan::Scan;
use terret_ws::log::{Shape, State, line, seek as search};
use terret_ws::proto::event::write_envelope;
use terret_ws::proto::ident::EventId;
use terret_ws::proto::payload::Body;

use super::session::{self, AT, DELTA};
use super::{Meter, Work};

pub(crate) fn checksum(meter: &mut impl Meter) {
    for (len, expected) in [(200, 0xd90b_e573), (64 * 1024, 0x0daa_fcde)] {
        let bytes: Vec<u8> = (0..=250).cycle().take(len).collect();
        meter.again(
            &format!("log/crc-32c/{len} bytes"),
            Work::Bytes(len),
            bytes,
            |bytes| crc32c(bytes),
            |_, crc| assert_eq!(*crc, expected),
        );
    }
}

pub(crate) fn seal(meter: &mut impl Meter) {
    for (what, text) in [("a delta", DELTA.to_owned()), ("4 KiB of text", "words ".repeat(683))] {
        let mut envelope = Vec::new();
        let body = session::chunk(&text);
        write_envelope(&mut envelope, EventId(7), &session::id(), 1234, AT, &body);
        meter.again(
            &format!("log/seal/{what}"),
            Work::Bytes(envelope.len()),
            (envelope, Vec::new()),
            |(envelope, out)| {
                out.clear();
                out.extend_from_slice(envelope);
                line::seal(out, 0, 1230);
            },
            |(envelope, out), ()| {
                let covered =
                    [&envelope[..envelope.len() - 1], b",\"ack\":\"0000000004ce\""].concat();
                let end = format!(",\"crc\":\"{:08x}\"}}\n", crc32c(&covered));
                assert_eq!(*out, [&covered, end.as_bytes()].concat());
            },
        );
    }
}

pub(crate) fn projection(meter: &mut impl Meter) {
    let bodies = session::turn(100);
    meter.again(
        "log/projection/a turn of 100 deltas",
        Work::Events(bodies.len()),
        (Shape::new(session::id()), session::lines(&bodies)),
        |(shape, lines)| {
            let mut state = State::default();
            for event in line::bodies(lines).filter_map(|body| shape.event(body)) {
                state.apply(event.seq, event.kind, event.payload);
            }
            state
        },
        |(shape, lines), state| {
            assert_eq!(*state, State { steps: 1, ..State::default() });
            let read = line::bodies(lines).filter_map(|body| shape.event(body));
            assert!(read.map(|event| event.kind).eq(bodies.iter().map(Body::kind)));
        },
    );
}

const HEADER: Header = Header {
    base: 0,
    prev: None,
    state: State { policy: None, steps: 0, turn: None, compacted: None, titled: None },
};

/// A segment of `count` deltas.
fn segment(count: usize) -> Vec<u8> {
    let mut segment = Vec::new();
    HEADER.write(&mut segment, &session::id(), 0);
    segment.extend(session::lines(&vec![session::chunk(DELTA); count]));
    segment
}

pub(crate) fn scan(meter: &mut impl Meter) {
    let count = 1000;
    meter.again(
        "log/scan/1000 deltas",
        Work::Events(count),
        (Shape::new(session::id()), segment(count)),
        |(shape, segment)| {
            let mut scan = Scan::new(shape.clone(), 0);
            scan.push(segment, &mut |_| {});
            scan.finish(&mut |_| {})
        },
        |(_, segment), found| {
            let prefix = &found.prefix;
            assert_eq!((prefix.next, prefix.bytes), (count as u64, segment.len() as u64));
            assert_eq!((prefix.lines, found.header.as_ref()), (count as u64 + 1, Some(&HEADER)));
        },
    );
}

pub(crate) fn seek(meter: &mut impl Meter) {
    let shape = Shape::new(session::id());
    for count in [200, 2_000, 20_000] {
        let segment = segment(count);
        let ends: Vec<u64> =
            (1..).zip(&segment).filter_map(|(end, &byte)| (byte == b'\n').then_some(end)).collect();
        // Every eighth part and a little, so that no search meets its event at a boundary.
        let wanted: Vec<u64> = (0..8).map(|part| (count * part / 8 + part) as u64).collect();
        meter.again(
            &format!("log/seek/8 events among {count}"),
            Work::Events(wanted.len()),
            segment,
            |segment| {
                let read = |offset: u64, into: &mut [u8]| {
                    let there = &segment[offset as usize..];
                    let len = there.len().min(into.len());
                    into[..len].copy_from_slice(&there[..len]);
                    Ok::<_, Infallible>(len)
                };
                let end = segment.len() as u64;
                let find = |&seq| search::seek(&shape, seq, end, read).unwrap_or_default();
                wanted.iter().map(find).collect::<Vec<_>>()
            },
            |_, places| {
                // Behind the header stands seq 0.
                let expected = wanted.iter().map(|&seq| Some(ends[seq as usize]));
                assert!(places.iter().copied().eq(expected), "{places:?}");
            },
        );
    }
}

/// A log in files of its own.
struct Files {
    store: Store,
    log: SessionLog,
    // Dropped last: it removes what the others have open.
    _dir: TempDir,
}

impl Files {
    /// More is never written, so that the disk does not fill.
    const BYTES_MAX: u64 = 64 << 20;

    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let options = LogOptions { sync: SyncMode::Os, segment_bytes: 2 * Self::BYTES_MAX };
        let store = Store::open(Arc::new(RealDisk), &dir, options).expect("a fresh directory");
        let created = Some((EventId(0), AT));
        let log = store.open_session(&session::id(), created).expect("a fresh session").log;
        Self { store, log, _dir: dir }
    }

    fn tip(&self) -> Tip {
        self.log.tip()
    }
}

pub(crate) fn append(meter: &mut impl Meter) {
    let count = 256;
    let events = session::deltas(count);
    for at_once in [1, 16, 256] {
        let first = Files::new().tip().seq + 1;
        meter.again(
            &format!("log/append, not synced/{count} deltas, {at_once} at a time"),
            Work::Events(events.len()),
            Files::new(),
            |files| {
                if files.tip().bytes > Files::BYTES_MAX {
                    *files = Files::new();
                }
                let Files { store, log, .. } = files;
                let mut len = 0;
                for part in events.chunks(at_once) {
                    len += log.append(store, part, AT).expect("there is space").len();
                }
                len
            },
            |Files { store, log, .. }, len| {
                let tip = log.tip();
                let from = tip.seq + 1 - count;
                assert_eq!((from - first) % count, 0);
                let piece = store
                    .read(&session::id(), from, None, tip, PIECE_EVENTS_MAX, PIECE_BYTES_MAX)
                    .expect("it was just appended");
                let shape = Shape::new(session::id());
                assert_eq!(piece.lines.len(), *len);
                assert!(
                    piece
                        .events(&shape)
                        .map(|event| (event.seq, event.id))
                        .eq((from..).zip(&events).map(|(seq, event)| (seq, event.id)))
                );
            },
        );
    }
}

pub(crate) fn read(meter: &mut impl Meter) {
    let mut files = Files::new();
    let events = session::deltas(20_000);
    let written = files.log.append(&files.store, &events, AT).expect("there is space");
    let (store, tip, session) = (&files.store, files.tip(), session::id());
    let begins: Vec<&[u8]> = written.split_inclusive(|&byte| byte == b'\n').collect();
    let line = |seq: u64| begins[(seq - 1) as usize];
    let one = |seq| store.read(&session, seq, None, tip, 1, 1).expect("it is there");
    meter.again(
        "log/read/one event, sought in 4 MB",
        Work::Events(1),
        0,
        |seq| {
            *seq = *seq % (tip.seq - 1) + 7919;
            *seq = *seq % tip.seq + 1;
            one(*seq)
        },
        |seq, piece| assert_eq!((&*piece.lines, piece.first, piece.count), (line(*seq), *seq, 1)),
    );
    let second = one(1).next;
    let piece = |cursor| {
        store
            .read(&session, 2, cursor, tip, PIECE_EVENTS_MAX, PIECE_BYTES_MAX)
            .expect("it is there")
    };
    let count = piece(Some(second)).count as usize;
    meter.again(
        "log/read/a replay piece",
        Work::Events(count),
        Some(second),
        |cursor| piece(*cursor),
        |_, piece| {
            assert_eq!((piece.first, piece.next.seq), (2, 2 + count as u64));
            assert_eq!(piece.lines, begins[1..=count].concat());
        },
    );
}
