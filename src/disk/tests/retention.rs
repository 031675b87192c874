//! Old segments go, and nothing that anybody needs goes with them.

use super::super::real::RealDisk;
use super::*;
use crate::log::place::Fault;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The seq of the first event that can be read.
fn first(store: &Store, tip: Tip) -> u64 {
    match read_all(store, 0, tip) {
        Ok(_) => 0,
        Err(ReadError::Removed { first }) => first,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn whole_segments_go_and_what_is_left_is_as_it_was() {
    let (disk, store, mut log) = session_of(20);
    let (tip, state) = (log.tip(), log.state().clone());
    let lines = split(&read_all(&store, 0, tip).unwrap());
    assert_eq!(trim(&store, &mut log, 5, 0), Some(Trimmed { files: 6, first: 12 }));
    assert_eq!(trim(&store, &mut log, 5, 0), None, "once is enough");
    assert_eq!((log.tip(), log.state()), (tip, &state));
    assert_eq!(split(&read_all(&store, 12, tip).unwrap()), lines[12..]);
    for seq in 0..12 {
        let error = store.read(&session(), seq, None, tip, 10, 1 << 20).unwrap_err();
        assert!(matches!(error, ReadError::Removed { first: 12 }), "{seq}: {error}");
    }
    assert_eq!(findings(&disk), []);
    let summary = inspect::summary(&disk, Path::new("data"), &session()).unwrap();
    assert_eq!(summary.events, 8);
    let mut dumped = 0;
    let mut count = |_: &[u8]| {
        dumped += 1;
        Ok(())
    };
    assert_eq!(inspect::dump(&disk, "data", &session(), 3, &[], &mut count).unwrap(), 12);
    assert_eq!(inspect::dump(&disk, "data", &session(), 15, &[], &mut count).unwrap(), 15);
    assert_eq!(dumped, 8 + 5);
    drop((store, log));
    let store = store_on(&disk.crash(), SMALL);
    let opened = store.open_session(&session(), CREATE).unwrap();
    assert_eq!((opened.log.tip(), &opened.state), (tip, &state));
    assert_eq!(split(&read_all(&store, 12, tip).unwrap()), lines[12..]);
}

#[test]
fn the_beginning_moves_on_with_the_end() {
    let (disk, store, mut log) = session_of(20);
    for id in 20..200 {
        log.append(&store, &[chunk(id, "text")], AT).unwrap();
        if log.has_rolled() {
            trim(&store, &mut log, 5, 0);
        }
    }
    let names = disk.list(Path::new(DIR)).unwrap();
    assert!(names.len() <= 6, "{names:?}");
    assert_eq!(first(&store, log.tip()), 192);
    assert_eq!(findings(&disk), []);
}

#[test]
fn nothing_goes_that_anything_needs() {
    type Grow = fn(&Store, &mut SessionLog);
    let filled: Grow = |store, log| {
        for id in 50..60 {
            log.append(store, &[chunk(id, "text")], AT).unwrap();
        }
    };
    let open_turn: Grow = |store, log| {
        log.append(store, &[turn_start(40)], AT).unwrap();
    };
    let turns: Grow = |store, log| {
        for id in (40..46).step_by(2) {
            log.append(store, &[turn_start(id), turn_end(id + 1)], AT).unwrap();
        }
    };
    let waiting: Grow = |store, log| {
        let after = log.tip().seq + 1;
        let spent = InboxEntry { id: EventId(40), at: AT, wake: true, text: "s".into(), after };
        let waits = InboxEntry { id: EventId(41), after: after + 1, ..spent.clone() };
        log.inbox_append(store, &[spent]).unwrap();
        log.append(store, &[chunk(40, "s")], AT).unwrap();
        // The file is cut before this one, for what was in it is spent.
        log.inbox_append(store, &[waits]).unwrap();
    };
    let half_spent: Grow = |store, log| {
        let after = log.tip().seq + 1;
        let spent = InboxEntry { id: EventId(40), at: AT, wake: true, text: "s".into(), after };
        let waits = InboxEntry { id: EventId(41), ..spent.clone() };
        log.inbox_append(store, &[spent, waits]).unwrap();
        log.append(store, &[chunk(40, "s"), chunk(42, "x"), chunk(43, "x")], AT).unwrap();
    };
    let all_spent: Grow = |store, log| {
        let after = log.tip().seq + 1;
        let entry = InboxEntry { id: EventId(41), at: AT, wake: true, text: "s".into(), after };
        log.inbox_append(store, &[entry]).unwrap();
        log.append(store, &[chunk(41, "s")], AT).unwrap();
    };
    let compacted: Grow = |store, log| {
        let body = Body::SessionCompacted { upto_seq: 3, summary: "s".into() };
        log.append(store, &[event(40, body), turn_start(41), turn_end(42)], AT).unwrap();
    };
    // What happens from seq 6 on, how much of it a model is told, and what is kept for it.
    for (what, grow, history_bytes, kept) in [
        ("nothing", filled, 0, 14),
        ("an open turn", open_turn, 0, 6),
        ("turns that are told, and all before them", turns, 10_000, 0),
        ("turns of which some are told", turns, 700, 8),
        ("turns that are not told", turns, 0, 20),
        ("a text that waits", waiting, 0, 6),
        ("a text that waits, behind one that is spent", half_spent, 0, 6),
        ("a text that is spent", all_spent, 0, 16),
        ("a compaction", compacted, 0, 6),
    ] {
        let (disk, store, mut log) = session_of(6);
        grow(&store, &mut log);
        if what != "nothing" {
            filled(&store, &mut log);
        }
        let (tip, state) = (log.tip(), log.state().clone());
        let turns = store.turns(&session(), &state, tip, history_bytes).unwrap();
        trim(&store, &mut log, 1, history_bytes);
        let first = first(&store, tip);
        assert!(first <= kept && kept <= first + 3, "{what}: {first} for {kept}");
        assert_eq!(store.turns(&session(), &state, tip, history_bytes).unwrap(), turns, "{what}");
        let opened = store.open_session(&session(), None).unwrap();
        assert_eq!((opened.log.tip(), opened.state), (tip, state), "{what}");
        let waits = what.starts_with("a text that waits");
        let ids: Vec<u64> = opened.inbox.iter().map(|entry| entry.id.0).collect();
        assert_eq!(ids, if waits { vec![41] } else { vec![] }, "{what}");
        assert_eq!(findings(&disk), [], "{what}");
    }
}

#[test]
fn what_either_of_the_two_keeps_stays() {
    const DAY: i64 = 24 * 3600 * 1_000_000;
    let (now, days) = (Wall(AT.0 + 9 * DAY), |day: i64| Wall(AT.0 + day * DAY));
    for (keep_events, keep_days, kept) in [
        (None, None, 0),
        (Some(5), None, 12),
        (Some(1000), None, 0),
        (None, Some(1), 14),
        (None, Some(4), 8),
        (None, Some(400), 0),
        (None, Some(u64::MAX), 0),
        (Some(u64::MAX), Some(1), 0),
        (Some(5), Some(400), 0),
        (Some(5), Some(1), 12),
        (Some(5), Some(4), 8),
    ] {
        let disk = SimDisk::new(1);
        let store = store_on(&disk, SMALL);
        let mut log = store.open_session(&session(), CREATE).unwrap().log;
        // Two events a day.
        for id in 1..20 {
            log.append(&store, &[chunk(id, "text")], days(i64::try_from(id / 2).unwrap())).unwrap();
        }
        let retention = Retention { keep_events, keep_days };
        assert_eq!(retention.is_off(), keep_events.or(keep_days).is_none());
        log.trim(&store, &retention, 0, now).unwrap();
        assert_eq!(first(&store, log.tip()), kept, "{keep_events:?} {keep_days:?}");
    }
}

#[test]
fn a_reader_is_told_and_one_at_the_end_of_what_went_reads_on() {
    let (_disk, store, mut log) = session_of(20);
    let tip = log.tip();
    let read = |from, cursor, count| store.read(&session(), from, cursor, tip, count, 1 << 20);
    let middle = read(10, None, 1).unwrap().next;
    let end = read(11, Some(middle), 1).unwrap().next;
    assert_eq!((middle.base, end.base, end.seq), (10, 10, 12));
    trim(&store, &mut log, 5, 0);
    let error = read(11, Some(middle), 10).unwrap_err();
    assert!(matches!(error, ReadError::Removed { first: 12 }), "{error}");
    assert_eq!(read(12, Some(end), 10).unwrap().count, 8);
}

#[test]
fn a_beginning_that_was_lost_is_damage_before_and_behind_the_mark() {
    let (disk, store, mut log) = session_of(20);
    let segment = |base: u64| format!("{DIR}/{base:020}.jsonl");
    trim(&store, &mut log, 9, 0);
    assert_eq!(first(&store, log.tip()), 8);
    disk.remove_file(Path::new(&segment(8))).unwrap();
    let error = store.read(&session(), 8, None, log.tip(), 10, 1 << 20).unwrap_err();
    let ReadError::Damaged(place) = error else { panic!("{error}") };
    assert_eq!(place.fault, Fault::NoSegment { base: 8 });
    let named: Vec<Fault> =
        findings(&disk).iter().map(|finding| finding.place().unwrap().fault.clone()).collect();
    assert_eq!(named, [Fault::NoSegment { base: 8 }]);
    assert_eq!(trim(&store, &mut log, 1, 0), None, "a damaged session is left as it is");
    for base in (10..20).step_by(2) {
        disk.remove_file(Path::new(&segment(base))).unwrap();
    }
    let error = store.open_session(&session(), CREATE).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { tip: None, .. }), "{error}");
    assert_eq!(findings(&disk).len(), 1);
}

#[test]
fn what_does_not_hold_does_not_become_the_beginning() {
    let (disk, store, mut log) = session_of(20);
    let path = format!("{DIR}/{:020}.jsonl", 12);
    let whole = disk.contents(&path).unwrap();
    for (what, bytes) in [("header", 30), ("first event", whole.len() / 2)] {
        let mut rotten = whole.clone();
        rotten[bytes] ^= 1;
        disk.plant(&path, &rotten);
        trim(&store, &mut log, 5, 0);
        assert_eq!(first(&store, log.tip()), 10, "{what}");
    }
}

#[test]
fn the_last_segment_stays_and_so_does_the_last_event() {
    let (disk, store, mut log) = session_of(19);
    assert_eq!(log.tip().base, 18);
    // Room for the header of a new segment, and for no event behind it.
    log.append(&store, &[chunk(19, "text")], AT).unwrap();
    disk.faults(|faults| faults.space = Some(250));
    log.append(&store, &[chunk(20, &"x".repeat(100))], AT).unwrap_err();
    trim(&store, &mut log, 1, 0);
    assert_eq!((first(&store, log.tip()), log.tip().seq), (18, 19));
    let opened = store.open_session(&session(), None).unwrap();
    assert_eq!(opened.log.tip(), log.tip());
}

#[test]
fn a_full_disk_can_be_trimmed_once_there_is_a_mark() {
    let (disk, store, mut log) = session_of(20);
    trim(&store, &mut log, 13, 0);
    disk.faults(|faults| (faults.space, faults.inodes) = (Some(0), Some(0)));
    assert_eq!(trim(&store, &mut log, 5, 0).unwrap().first, 12);
    assert_eq!(findings(&disk), []);
}

/// Power cuts and kills at each call of a removal, of the one behind it, and of the next opening.
#[test]
fn a_crash_at_any_call_leaves_the_log_before_or_the_log_behind() {
    for (seed, cut) in (0..30).flat_map(|seed| [(seed, true), (seed, false)]) {
        for last in 1.. {
            let (disk, store, mut log) = session_of(20 + seed);
            if seed % 2 == 1 {
                trim(&store, &mut log, 15, 0);
            }
            let entry = InboxEntry {
                id: EventId(5),
                at: AT,
                wake: true,
                text: "t".into(),
                after: log.tip().seq + 1,
            };
            log.inbox_append(&store, &[entry]).unwrap();
            log.append(&store, &[chunk(5, "t")], AT).unwrap();
            let (tip, before) = (log.tip(), first(&store, log.tip()));
            let lines = read_all(&store, before, tip).unwrap();
            let lines = split(&lines);
            let at = disk.calls() + last;
            disk.faults(|faults| faults.power_fails_at = Some(at));
            let retention = Retention { keep_events: Some(5), keep_days: None };
            let done = log.trim(&store, &retention, 0, AT).is_ok() && disk.calls() < at;
            let what = format!("seed {seed}, call {last}, power cut: {cut}");
            let disk = if cut { disk.crash() } else { disk.kill() };
            disk.faults(|faults| *faults = super::super::sim::Faults::default());
            assert!(findings(&disk).iter().all(|finding| !finding.is_damage()), "{what}");
            let store = store_on(&disk, SMALL);
            let mut opened = store.open_session(&session(), CREATE).unwrap();
            assert_eq!((opened.log.tip(), opened.inbox.len()), (tip, 0), "{what}");
            let kept = first(&store, tip);
            let behind = (tip.base - 5) / 2 * 2;
            assert!([before, behind].contains(&kept), "{what}: {kept}");
            let skipped = (kept - before) as usize;
            assert_eq!(split(&read_all(&store, kept, tip).unwrap()), lines[skipped..], "{what}");
            trim(&store, &mut opened.log, 5, 0);
            assert_eq!(first(&store, tip), behind, "{what}");
            assert_eq!(findings(&disk), [], "{what}");
            let mut left = disk.list(Path::new(DIR)).unwrap();
            left.retain(|name| !name.contains("inbox"));
            let bases = (tip.base - behind) / 2 + 1;
            assert_eq!(left.len() as u64, bases + 1, "{what}: {left:?}");
            if done {
                break;
            }
        }
    }
}

#[test]
fn what_is_not_synced_is_no_reason_to_remove_anything() {
    let options = LogOptions { sync: SyncMode::Os, ..SMALL };
    for seed in 0..60 {
        let disk = SimDisk::new(seed);
        let store = store_on(&disk, options);
        let mut log = store.open_session(&session(), CREATE).unwrap().log;
        log.append(&store, &[turn_start(1)], AT).unwrap();
        for id in 2..9 {
            log.append(&store, &[chunk(id, "text")], AT).unwrap();
        }
        log.append(&store, &[chunk(9, "text")], AT).unwrap();
        log.append(&store, &[turn_end(10)], AT).unwrap();
        trim(&store, &mut log, 1, 0);
        assert!(first(&store, log.tip()) > 1);
        drop((log, store));
        let store = store_on(&disk.crash(), options);
        let opened = store.open_session(&session(), None).unwrap();
        assert_eq!(opened.state.turn, None, "seed {seed}: the turn is gone, and so is its end");
    }
}

#[test]
fn a_sweep_goes_through_all_sessions_some_at_a_time() {
    let (disk, store, log) = session_of(20);
    let retention = Retention { keep_events: Some(5), keep_days: None };
    for number in 0..150 {
        let id = SessionId::parse(&format!("t{number:03}")).unwrap();
        let mut log = store.open_session(&id, CREATE).unwrap().log;
        if number % 50 == 3 {
            for id in 1..10 {
                log.append(&store, &[chunk(id, "text")], AT).unwrap();
            }
        }
    }
    disk.plant("data/sessions/t001/00000000000000000000.jsonl", b"rot");
    let (mut due, mut after, mut jobs) = (Vec::new(), None, 0);
    loop {
        let swept = store.sweep(after.as_ref(), &retention, AT).unwrap();
        due.extend(swept.due);
        jobs += 1;
        after = swept.more_after;
        if after.is_none() {
            break;
        }
    }
    let due: Vec<&str> = due.iter().map(SessionId::as_str).collect();
    assert_eq!((due, jobs), (vec!["s1", "t003", "t053", "t103"], 3));
    assert_eq!(store.sweep(None, &Retention::default(), AT).unwrap().due, []);
    drop(log);
}

/// Ends the others, also when whoever holds it fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// On files of the machine, whose directories are not read in an instant.
#[test]
fn readers_beside_a_removal_get_what_was_written_or_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let options = LogOptions { sync: SyncMode::Os, ..SMALL };
    let store = Store::open(Arc::new(RealDisk), dir.path(), options).unwrap();
    let mut log = store.open_session(&session(), CREATE).unwrap().log;
    let lines = split(&read_all(&store, 0, log.tip()).unwrap());
    let published = Mutex::new((lines, log.tip()));
    let over = AtomicBool::new(false);
    let told = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let readers = [(); 2].map(|()| {
            scope.spawn(|| {
                let (mut from, mut cursor) = (0, None);
                while !over.load(Ordering::Relaxed) {
                    let tip = published.lock().unwrap().1;
                    match store.read(&session(), from, cursor, tip, 3, 1 << 20) {
                        Ok(piece) if piece.count == 0 => (from, cursor) = (0, None),
                        Ok(piece) => {
                            let lines = &published.lock().unwrap().0;
                            let expected = &lines[from as usize..][..piece.count as usize];
                            assert_eq!(split(&piece.lines), expected, "from {from}");
                            (from, cursor) = (piece.next.seq, Some(piece.next));
                        }
                        Err(ReadError::Removed { first }) => {
                            let tip = published.lock().unwrap().1;
                            assert!(from < first && first <= tip.seq, "{first} for {from}");
                            told.fetch_add(1, Ordering::Relaxed);
                            (from, cursor) = (first, None);
                        }
                        Err(error) => panic!("from {from}: {error}"),
                    }
                }
            })
        });
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let named = |finding: Finding| assert!(!finding.is_damage(), "{finding}");
                verify::verify(&RealDisk, dir.path(), &session(), named).unwrap();
            }
        });
        let _over = Over(&over);
        for id in 1..600 {
            let lines = log.append(&store, &[chunk(id, "text")], AT).unwrap();
            {
                let (all, tip) = &mut *published.lock().unwrap();
                all.extend(split(&lines));
                *tip = log.tip();
            }
            if id % 50 == 0 {
                trim(&store, &mut log, 20, 0);
            }
        }
        // Whoever reads slowly is told at the latest now.
        while told.load(Ordering::Relaxed) == 0
            && !readers.iter().any(std::thread::ScopedJoinHandle::is_finished)
        {
            std::thread::yield_now();
        }
    });
}
