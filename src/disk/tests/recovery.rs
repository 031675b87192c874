//! Opening what an unclean death left, or what somebody damaged.

use super::*;
use crate::log::line;
use crate::log::place::Fault;

/// A session with these batches in one segment, whose process was killed; and its lines.
fn killed_after(options: LogOptions, batches: &[&[NewEvent]]) -> (SimDisk, Vec<Vec<u8>>) {
    let disk = SimDisk::new(7);
    let store = store_on(&disk, options);
    let mut log = store.open_session(&session(), CREATE).unwrap().log;
    for events in batches {
        log.append(&store, events, AT).unwrap();
    }
    let lines = split(&read_all(&store, 0, log.tip()).unwrap());
    (disk.kill(), lines)
}

#[test]
fn cut_at_every_byte_the_survivors_are_a_prefix_and_two_more_follow() {
    let batches: &[&[NewEvent]] =
        &[&[chunk(1, "a"), chunk(2, "b")], &[chunk(3, "c"), chunk(4, "dd")]];
    for options in [ALWAYS, OS] {
        let (disk, lines) = killed_after(options, batches);
        let whole = disk.contents(FIRST).unwrap();
        let header = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        for cut in header + lines[0].len()..=whole.len() {
            let (disk, _) = killed_after(options, batches);
            disk.plant(FIRST, &whole[..cut]);
            let (store, mut opened, survivors) = reopen(&disk, options);
            assert!(lines.starts_with(&survivors), "cut at {cut}");
            let kept: usize = header + survivors.iter().map(Vec::len).sum::<usize>();
            assert!(
                kept <= cut
                    && (survivors.len() == lines.len()
                        || cut < kept + lines[survivors.len()].len())
            );
            assert_eq!(opened.torn.is_some(), kept < cut, "cut at {cut}");
            opened.log.append(&store, &[chunk(5, "e")], AT).unwrap();
            opened.log.append(&store, &[chunk(6, "f")], AT).unwrap();
            drop((store, opened));
            let (_, opened, lines) = reopen(&disk.kill(), options);
            assert_eq!(lines.len(), survivors.len() + 2);
            assert!(lines.starts_with(&survivors));
            assert_eq!(opened.torn, None);
            assert_eq!(opened.log.tip().seq + 1, lines.len() as u64);
        }
    }
}

#[test]
fn cut_inside_its_first_event_or_header_a_session_is_as_if_never_made() {
    let (disk, lines) = killed_after(ALWAYS, &[]);
    let whole = disk.contents(FIRST).unwrap();
    for cut in 0..whole.len() {
        let (disk, _) = killed_after(ALWAYS, &[]);
        disk.plant(FIRST, &whole[..cut]);
        let store = store_on(&disk, ALWAYS);
        assert!(matches!(store.open_session(&session(), None), Err(OpenError::Missing)), "{cut}");
        let log = store.open_session(&session(), CREATE).unwrap().log;
        assert_eq!(split(&read_all(&store, 0, log.tip()).unwrap()), lines);
    }
}

#[test]
fn torn_ends_are_kept_aside_and_never_overwritten() {
    let (disk, _) = killed_after(ALWAYS, &[&[chunk(1, "a")]]);
    let whole = disk.contents(FIRST).unwrap();
    for (torn, aside) in [
        (&b"first"[..], "data/sessions/s1/00000000000000000000.jsonl.torn"),
        (b"second\n\0\n", "data/sessions/s1/00000000000000000000.jsonl.torn.2"),
        (b"third", "data/sessions/s1/00000000000000000000.jsonl.torn.3"),
    ] {
        disk.plant(FIRST, &[&whole, torn].concat());
        let (store, opened, _) = reopen(&disk, ALWAYS);
        let report = TornReport { segment: 0, byte: whole.len() as u64, bytes: torn.len() as u64 };
        assert_eq!(opened.torn, Some(report));
        assert_eq!(disk.contents(aside).unwrap(), torn);
        assert_eq!(disk.contents(FIRST).unwrap(), whole);
        drop((store, opened));
    }
}

#[test]
fn a_torn_end_is_gone_for_good_once_the_session_was_opened() {
    for seed in 0..60 {
        let disk = SimDisk::new(seed);
        let store = store_on(&disk, ALWAYS);
        let mut log = store.open_session(&session(), CREATE).unwrap().log;
        log.append(&store, &[chunk(1, "a")], AT).unwrap();
        log.attest(&store);
        drop((log, store));
        let whole = disk.contents(FIRST).unwrap();
        disk.plant(FIRST, &[&whole[..], b"torn"].concat());
        assert!(reopen(&disk.kill(), ALWAYS).1.torn.is_some());
        assert_eq!(disk.crash().contents(FIRST).unwrap(), whole, "seed {seed}");
    }
}

#[test]
fn a_planted_gap_or_duplicate_is_refused_by_name_and_place() {
    let (disk, lines) =
        killed_after(ALWAYS, &[&[chunk(1, "a")], &[chunk(2, "b")], &[chunk(3, "c")]]);
    let whole = disk.contents(FIRST).unwrap();
    let header = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for (kept, expected, found, line) in [
        (&[0_usize, 1, 3][..], 2, 3, 4),
        (&[0, 1, 1, 2, 3], 2, 1, 4),
        (&[0, 1, 2, 3, 2], 4, 2, 6),
        (&[1, 2, 3], 0, 1, 2),
    ] {
        let mut planted = whole[..header].to_vec();
        planted.extend(kept.iter().flat_map(|&seq| lines[seq].clone()));
        disk.plant(FIRST, &planted);
        let store = store_on(&disk, ALWAYS);
        let error = store.open_session(&session(), None).unwrap_err();
        let OpenError::Damaged { place, .. } = error else { panic!("{error}") };
        assert_eq!((place.segment, place.line), (0, line));
        assert_eq!(place.fault, Fault::Sequence { expected, found });
        assert_eq!(disk.contents(FIRST).unwrap(), planted, "something was touched");
    }
}

#[test]
fn damage_is_named_and_what_lies_before_and_behind_is_served() {
    let (disk, lines) = killed_after(
        ALWAYS,
        &[&[chunk(1, "a")], &[chunk(2, "b")], &[chunk(3, "c")], &[chunk(4, "d")]],
    );
    let mut whole = disk.contents(FIRST).unwrap();
    let hole = whole.windows(3).position(|bytes| bytes == b"\"b\"").unwrap() + 1;
    whole[hole] = b'x';
    disk.plant(FIRST, &whole);
    let store = store_on(&disk, ALWAYS);
    let error = store.open_session(&session(), CREATE).unwrap_err();
    let OpenError::Damaged { place, tip } = error else { panic!("{error}") };
    assert_eq!((place.line, place.fault.clone()), (4, Fault::Seal));
    let tip = tip.expect("events are left");
    assert_eq!(tip.seq, 4);
    let read = |from| store.read(&session(), from, None, tip, 10, 1 << 20);
    assert_eq!(read(0).unwrap().lines, lines[..2].concat());
    assert_eq!(read(3).unwrap().lines, lines[3..].concat());
    assert_eq!(read(4).unwrap().lines, lines[4]);
    for from in [0, 1, 2] {
        let cursor = if from == 2 { None } else { Some(read(from).unwrap().next) };
        let error = store.read(&session(), 2, cursor, tip, 10, 1 << 20).unwrap_err();
        assert!(matches!(error, ReadError::Damaged(found) if found == place));
    }
    assert_eq!(disk.contents(FIRST).unwrap(), whole, "something was touched");
}

#[test]
fn nothing_attested_and_a_valid_line_behind_a_hole_is_damage() {
    let (disk, _) = killed_after(OS, &[&[chunk(1, "a")], &[chunk(2, "b")], &[chunk(3, "c")]]);
    let mut whole = disk.contents(FIRST).unwrap();
    let hole = whole.windows(3).position(|bytes| bytes == b"\"b\"").unwrap() + 1;
    whole[hole] = b'x';
    disk.plant(FIRST, &whole);
    let store = store_on(&disk, OS);
    assert!(matches!(store.open_session(&session(), None), Err(OpenError::Damaged { .. })));
}

#[test]
fn an_unsynced_batch_with_a_hole_in_it_is_torn_though_a_valid_line_follows() {
    let (disk, lines) =
        killed_after(ALWAYS, &[&[chunk(1, "a")], &[chunk(2, "b"), chunk(3, "c"), chunk(4, "d")]]);
    let mut whole = disk.contents(FIRST).unwrap();
    let hole = whole.windows(3).position(|bytes| bytes == b"\"c\"").unwrap() + 1;
    whole[hole] = b'x';
    disk.plant(FIRST, &whole);
    let (_, opened, survivors) = reopen(&disk, ALWAYS);
    assert_eq!(survivors, lines[..3]);
    assert_eq!(opened.torn.unwrap().bytes as usize, lines[3..].concat().len());
}

#[test]
fn a_segment_that_never_held_anything_is_removed_and_its_predecessor_goes_on() {
    let options = LogOptions { segment_bytes: 600, ..ALWAYS };
    let (disk, lines) =
        killed_after(options, &[&[chunk(1, "a")], &[chunk(2, "b")], &[chunk(3, "c")]]);
    let second = "data/sessions/s1/00000000000000000002.jsonl";
    let whole = disk.contents(second).unwrap();
    let header = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for cut in 0..=header {
        let disk = disk.kill();
        disk.plant(second, &whole[..cut]);
        disk.faults(|faults| faults.space = Some(0));
        let (store, mut opened, survivors) = reopen(&disk, options);
        disk.faults(|faults| faults.space = None);
        assert_eq!(survivors, lines[..2], "cut at {cut}");
        let torn = TornReport { segment: 2, byte: 0, bytes: cut as u64 };
        assert_eq!(opened.torn, (0 < cut && cut < header).then_some(torn));
        opened.log.append(&store, &[chunk(2, "b")], AT).unwrap();
        assert_eq!(opened.log.tip().seq, 2);
        drop((store, opened));
        assert_eq!(reopen(&disk, options).2, lines[..3]);
    }
}

#[test]
fn a_segment_follows_the_one_its_header_describes_or_is_damaged() {
    let options = LogOptions { segment_bytes: 600, ..ALWAYS };
    let (disk, _) = killed_after(options, &[&[chunk(1, "a")], &[chunk(2, "b")], &[chunk(3, "c")]]);
    let whole = disk.contents(FIRST).unwrap();
    let longer = [&whole[..], b"\n"].concat();
    let shorter = &whole[..whole.len() - 1];
    let mut other = whole.clone();
    let crc = other.len() - 5;
    other[crc] ^= 1;
    for planted in [&longer, shorter, &other] {
        disk.plant(FIRST, planted);
        let store = store_on(&disk, options);
        let error = store.open_session(&session(), None).unwrap_err();
        let OpenError::Damaged { place, .. } = error else { panic!("{error}") };
        assert_eq!((place.segment, place.fault), (2, Fault::Predecessor));
    }
    disk.plant(FIRST, &whole);
    reopen(&disk, options);
}

#[test]
fn a_session_of_another_name_is_not_swept_away() {
    let (disk, _) = killed_after(ALWAYS, &[&[chunk(1, "a")]]);
    let whole = disk.contents(FIRST).unwrap();
    let other = SessionId::parse("s2").unwrap();
    let store = store_on(&disk, ALWAYS);
    drop(store.open_session(&other, CREATE).unwrap());
    let path = "data/sessions/s2/00000000000000000000.jsonl";
    disk.plant(path, &whole);
    let error = store.open_session(&other, CREATE).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert_eq!(disk.contents(path).unwrap(), whole);
}

#[test]
fn a_read_error_is_no_verdict() {
    let (disk, lines) = killed_after(ALWAYS, &[&[chunk(1, "a")]]);
    let whole = disk.contents(FIRST).unwrap();
    let store = store_on(&disk, ALWAYS);
    disk.faults(|faults| faults.reads_fail = 1);
    assert!(matches!(store.open_session(&session(), CREATE), Err(OpenError::Io(_))));
    assert_eq!(disk.contents(FIRST).unwrap(), whole);
    assert_eq!(store.latched(), None);
    drop(store);
    assert_eq!(reopen(&disk, ALWAYS).2, lines);
}

#[test]
fn what_a_failed_sync_marked_clean_is_written_again_before_it_is_shown() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let store = store_on(&disk, ALWAYS);
        let mut log = store.open_session(&session(), CREATE).unwrap().log;
        disk.faults(|faults| faults.syncs_fail = 1);
        let error = log.append(&store, &[chunk(1, "a")], AT).unwrap_err();
        assert!(matches!(error, AppendError::Latched(_)), "{error}");
        let disk = disk.kill();
        let shown = reopen(&disk, ALWAYS).2;
        assert_eq!(shown.len(), 2);
        assert_eq!(reopen(&disk.crash(), ALWAYS).2, shown, "seed {seed}");
    }
}

#[test]
fn a_header_that_a_failed_sync_marked_clean_is_written_again_too() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let store = store_on(&disk, ALWAYS);
        disk.faults(|faults| faults.syncs_fail = 1);
        assert!(matches!(store.open_session(&session(), CREATE), Err(OpenError::Io(_))));
        let disk = disk.kill();
        let store = store_on(&disk, ALWAYS);
        let mut log = store.open_session(&session(), CREATE).unwrap().log;
        log.append(&store, &[chunk(1, "a")], AT).unwrap();
        assert_eq!(reopen(&disk.crash(), ALWAYS).2.len(), 2, "seed {seed}");
    }
}

#[test]
fn an_attest_line_that_a_failed_sync_marked_clean_costs_nothing_that_stands_behind_it() {
    for (seed, at_open) in (0..50).flat_map(|seed| [(seed, true), (seed, false)]) {
        let disk = SimDisk::new(seed);
        let store = store_on(&disk, ALWAYS);
        let mut log = store.open_session(&session(), CREATE).unwrap().log;
        log.attest(&store);
        disk.faults(|faults| faults.syncs_fail = 1);
        if at_open {
            assert!(matches!(store.open_session(&session(), None), Err(OpenError::Io(_))));
        } else {
            log.append(&store, &[chunk(1, "a")], AT).unwrap_err();
        }
        let disk = disk.kill();
        let (store, mut opened, _) = reopen(&disk, ALWAYS);
        opened.log.append(&store, &[chunk(2, "b")], AT).unwrap();
        let shown = read_all(&store, 0, opened.log.tip()).unwrap();
        assert_eq!(reopen(&disk.crash(), ALWAYS).2.concat(), shown, "seed {seed}, {at_open}");
    }
}

#[test]
fn a_log_that_was_stopped_cleanly_is_opened_without_a_write() {
    let disk = SimDisk::new(1);
    let store = store_on(&disk, ALWAYS);
    let mut log = store.open_session(&session(), CREATE).unwrap().log;
    log.append(&store, &[chunk(1, "a")], AT).unwrap();
    log.attest(&store);
    log.attest(&store);
    drop((log, store));
    let whole = disk.contents(FIRST).unwrap();
    let last = split(&whole).pop().unwrap();
    assert_eq!(line::unseal(last.strip_suffix(b"\n").unwrap()).unwrap().ack, 2);
    let disk = disk.kill();
    let store = store_on(&disk, ALWAYS);
    let before = disk.calls();
    store.open_session(&session(), None).unwrap();
    assert_eq!(disk.calls() - before, 1, "only the sync before the reading");
    assert_eq!(disk.contents(FIRST).unwrap(), whole);
}

#[test]
fn a_session_is_opened_without_reading_more_than_its_last_segment() {
    let options = LogOptions { segment_bytes: 600, ..ALWAYS };
    let batches: Vec<[NewEvent; 1]> = (1..40).map(|id| [chunk(id, "text")]).collect();
    let batches: Vec<&[NewEvent]> = batches.iter().map(|batch| &batch[..]).collect();
    let (disk, lines) = killed_after(options, &batches);
    let mut whole = disk.contents(FIRST).unwrap();
    whole[400] ^= 1;
    disk.plant(FIRST, &whole);
    let store = store_on(&disk, options);
    let log = store.open_session(&session(), None).unwrap().log;
    let tip = log.tip();
    assert!(matches!(read_all(&store, 0, tip), Err(ReadError::Damaged(_))));
    assert_eq!(read_all(&store, 10, tip).unwrap(), lines[10..].concat());
}
