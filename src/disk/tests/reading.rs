//! Reading: pieces, cursors, seeking, turns.

use super::*;
use crate::log::line::Shape;
use crate::proto::payload::TurnStatus;

/// A session of `count` small events and its lines, in segments of `segment_bytes`.
fn filled(count: u64, segment_bytes: u64) -> (Store, SessionLog, Vec<Vec<u8>>) {
    let disk = SimDisk::new(9);
    let store = store_on(&disk, LogOptions { segment_bytes, ..ALWAYS });
    let mut log = store.open_session(&session(), CREATE).unwrap().log;
    for id in 1..count {
        log.append(&store, &[chunk(id, &"x".repeat(id as usize % 50))], AT).unwrap();
        if id % 7 == 0 {
            log.attest(&store);
        }
    }
    let lines = split(&read_all(&store, 0, log.tip()).unwrap());
    assert_eq!(lines.len() as u64, count);
    (store, log, lines)
}

#[test]
fn any_piece_from_anywhere_is_the_lines_that_stand_there() {
    for segment_bytes in [700, 5000, 4 << 20] {
        let (store, log, lines) = filled(60, segment_bytes);
        for from in 0..=60_usize {
            for (events_max, bytes_max) in
                [(1, 1 << 20), (3, 1 << 20), (1000, 1), (1000, 700), (1000, 1 << 20)]
            {
                let tip = log.tip();
                let piece =
                    store.read(&session(), from as u64, None, tip, events_max, bytes_max).unwrap();
                let count = piece.count as usize;
                assert_eq!(piece.lines, lines[from..from + count].concat());
                assert_eq!((piece.first, piece.next.seq), (from as u64, (from + count) as u64));
                assert!(count <= events_max as usize);
                assert!(count > 0 || from == 60);
                assert!(count <= 1 || piece.lines.len() <= bytes_max);
                let whole = count == events_max as usize
                    || from + count == 60
                    || piece.lines.len() + lines[from + count].len() > bytes_max;
                assert!(whole, "{count} of {events_max} from {from}");
                let rest =
                    store.read(&session(), piece.next.seq, Some(piece.next), tip, 1000, 1 << 20);
                assert_eq!(rest.unwrap().lines, lines[from + count..].concat());
            }
        }
    }
}

#[test]
fn nothing_beyond_the_tip_is_read() {
    let (store, log, lines) = filled(40, 1500);
    let mut tips = Vec::new();
    for count in 1..40_u32 {
        let piece = store.read(&session(), 0, None, log.tip(), count, 1 << 20).unwrap();
        // A piece that ends at the end of a segment does not know the next one's name yet.
        tips.push(Tip {
            seq: u64::from(count) - 1,
            base: piece.next.base,
            bytes: piece.next.offset,
        });
    }
    for tip in tips {
        let seen = read_all(&store, 0, tip).unwrap();
        assert_eq!(seen, lines[..=tip.seq as usize].concat());
        for from in [tip.seq + 1, tip.seq + 2, u64::MAX] {
            let piece = store.read(&session(), from, None, tip, 10, 1 << 20).unwrap();
            assert_eq!((piece.count, piece.next.seq), (0, from));
        }
    }
}

#[test]
fn the_cursor_behind_the_tip_is_where_the_next_event_comes() {
    let (store, mut log, _) = filled(5, 1000);
    for id in 5..30 {
        let tip = log.tip();
        let end = store.read(&session(), tip.seq + 1, None, tip, 10, 1000).unwrap().next;
        let lines = log.append(&store, &[chunk(id, "new")], AT).unwrap();
        let piece = store.read(&session(), tip.seq + 1, Some(end), log.tip(), 10, 1000).unwrap();
        assert_eq!(piece.lines, lines);
    }
}

#[test]
fn a_large_event_passes_alone_whatever_the_bound() {
    let (store, mut log, _) = filled(5, 4 << 20);
    let large = log.append(&store, &[chunk(5, &"y".repeat(3 << 20))], AT).unwrap();
    let small = log.append(&store, &[chunk(6, "z")], AT).unwrap();
    for cursor in [None, Some(store.read(&session(), 4, None, log.tip(), 1, 1).unwrap().next)] {
        let piece = store.read(&session(), 5, cursor, log.tip(), 10, 1000).unwrap();
        assert_eq!((piece.count, piece.lines == large), (1, true));
        let piece = store.read(&session(), 6, Some(piece.next), log.tip(), 10, 1000).unwrap();
        assert_eq!(piece.lines, small);
    }
}

/// The events that `turns` gives, as (seq, type).
fn history(store: &Store, log: &SessionLog, bytes_max: usize) -> Vec<(u64, String)> {
    let lines = store.turns(&session(), log.state(), log.tip(), bytes_max).unwrap();
    let shape = Shape::new(session());
    split(&lines)
        .iter()
        .map(|line| {
            let event = shape.event(&line[..line.len() - 40]).unwrap();
            (event.seq, event.kind.to_owned())
        })
        .collect()
}

fn turn(id: u64, text: &str) -> Vec<NewEvent> {
    let bodies = [
        Body::TurnStart { agent: "agent-s1".into() },
        Body::UserMessage { text: text.into() },
        Body::AssistantChunk { text: "answer".into() },
        Body::TurnEnd { status: TurnStatus::Completed, reason: None },
    ];
    (id..).zip(bodies).map(|(id, body)| NewEvent { id: EventId(id), body }).collect()
}

#[test]
fn history_is_whole_turns_newest_first_within_its_bytes_without_chunks() {
    for segment_bytes in [600, 1500, 4 << 20] {
        let disk = SimDisk::new(9);
        let store = store_on(&disk, LogOptions { segment_bytes, ..ALWAYS });
        let mut log = store.open_session(&session(), CREATE).unwrap().log;
        let mut kept = Vec::new();
        for number in 0..10 {
            let lines = split(&log.append(&store, &turn(10 * number, "hello"), AT).unwrap());
            kept.push(lines[0].len() + lines[1].len() + lines[3].len());
        }
        let created = read_all(&store, 0, log.tip()).unwrap();
        let created = split(&created)[0].len();
        for turns in 0..=10_usize {
            let exact: usize = kept[10 - turns..].iter().sum();
            let expected: Vec<u64> = (10 - turns as u64..10)
                .flat_map(|turn| [1, 2, 4].map(|event| 4 * turn + event))
                .collect();
            for bytes_max in [exact, exact + 1, exact + created - 1] {
                let seqs: Vec<u64> =
                    history(&store, &log, bytes_max).iter().map(|(seq, _)| *seq).collect();
                assert_eq!(seqs, expected, "{bytes_max} bytes in segments of {segment_bytes}");
            }
        }
        let all = history(&store, &log, 1 << 20);
        assert_eq!(all[0], (0, "session/created".to_owned()));
        assert_eq!(all.len(), 31);
    }
}

#[test]
fn an_open_turn_is_read_as_a_whole_whatever_the_bound() {
    let disk = SimDisk::new(9);
    let store = store_on(&disk, LogOptions { segment_bytes: 600, ..ALWAYS });
    let mut log = store.open_session(&session(), CREATE).unwrap().log;
    log.append(&store, &turn(10, "closed"), AT).unwrap();
    let mut open = turn(20, "open");
    open.pop();
    log.append(&store, &open, AT).unwrap();
    for id in 30..40 {
        let body = Body::ContextInjected { text: "steer".into() };
        log.append(&store, &[NewEvent { id: EventId(id), body }], AT).unwrap();
    }
    let seqs: Vec<u64> = history(&store, &log, 0).iter().map(|(seq, _)| *seq).collect();
    assert_eq!(seqs, [&[5, 6][..], &(8..18).collect::<Vec<_>>()].concat());
}

#[test]
fn nothing_below_a_compaction_is_read_and_its_line_comes_first() {
    let disk = SimDisk::new(9);
    let store = store_on(&disk, LogOptions { segment_bytes: 600, ..ALWAYS });
    let mut log = store.open_session(&session(), CREATE).unwrap().log;
    log.append(&store, &turn(10, "old"), AT).unwrap();
    log.append(&store, &turn(20, "kept"), AT).unwrap();
    let body = Body::SessionCompacted { upto_seq: 4, summary: "it was so".into() };
    log.append(&store, &[NewEvent { id: EventId(30), body }], AT).unwrap();
    log.append(&store, &turn(40, "new"), AT).unwrap();
    let seqs: Vec<u64> = history(&store, &log, 1 << 20).iter().map(|(seq, _)| *seq).collect();
    assert_eq!(seqs, [9, 5, 6, 8, 10, 11, 13]);
}

#[test]
fn a_reader_beside_the_appender_sees_the_published_log_and_nothing_else() {
    const EVENTS: u64 = 400;
    let dir = tempfile::tempdir().unwrap();
    let options = LogOptions { sync: SyncMode::Os, segment_bytes: 3000 };
    let store = Store::open(Arc::new(real::RealDisk), dir.path(), options).unwrap();
    let mut log = store.open_session(&session(), CREATE).unwrap().log;
    let published = std::sync::Mutex::new(log.tip());
    let (read, written) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut lines, mut next, mut cursor) = (Vec::new(), 1, None);
            while next <= EVENTS {
                let tip = *published.lock().unwrap();
                let piece = store.read(&session(), next, cursor, tip, 7, 2000).unwrap();
                assert_eq!(piece.count == 0, next > tip.seq);
                (next, cursor) = (piece.next.seq, Some(piece.next));
                lines.extend(piece.lines);
            }
            lines
        });
        let mut written = Vec::new();
        for id in 1..=EVENTS {
            written.extend(log.append(&store, &[chunk(id, "beside")], AT).unwrap());
            *published.lock().unwrap() = log.tip();
        }
        (reader.join().unwrap(), written)
    });
    assert!(read == written);
}
