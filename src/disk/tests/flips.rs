//! Every single bit of a session, flipped: of one that was stopped cleanly, and of one that was not.

use super::*;
use std::path::Path;

/// Whatever stands in the file now, each event is served as it was or is told to be damaged.
fn nothing_false_is_served(store: &Store, tip: Tip, lines: &[Vec<u8>], name: &str, what: &str) {
    for (seq, line) in (0..).zip(lines) {
        match store.read(&session(), seq, None, tip, 1, 1) {
            Ok(piece) => assert_eq!(piece.lines, *line, "{what}: served"),
            Err(ReadError::Damaged(place)) => {
                assert_eq!(format!("{:020}.jsonl", place.segment), *name, "{what}");
            }
            Err(error) => panic!("{what}: {error}"),
        }
    }
}

/// The flip of a bit in this byte is named: this segment, and no line behind it.
fn it_is_named(disk: &SimDisk, byte: usize, name: &str, what: &str) {
    let findings = findings(disk);
    assert!(!findings.is_empty(), "{what}: not named");
    for finding in &findings {
        let place = finding.place().expect("it is in a segment");
        assert_eq!(format!("{:020}.jsonl", place.segment), *name, "{what}: {findings:?}");
        assert!(place.byte <= byte as u64, "{what}: {findings:?}");
    }
}

#[test]
fn every_flipped_bit_is_named_and_nothing_false_is_served() {
    let options = LogOptions { segment_bytes: 600, ..ALWAYS };
    let disk = SimDisk::new(1);
    let store = store_on(&disk, options);
    let mut log = store.open_session(&session(), CREATE).unwrap().log;
    for id in 1..5 {
        log.append(&store, &[chunk(id, "tick tock")], AT).unwrap();
    }
    log.attest(&store);
    let tip = log.tip();
    let lines = split(&read_all(&store, 0, tip).unwrap());
    drop((log, store));
    let disk = disk.kill();
    let dir = Path::new(DIR);
    let names = disk.list(dir).unwrap();
    assert!(names.len() >= 3, "{names:?}");
    let store = store_on(&disk, options);
    for name in &names {
        let path = dir.join(name);
        let whole = disk.contents(&path).unwrap();
        let is_last = Some(name) == names.iter().max();
        let attest_begins = whole.len() - if is_last { 40 } else { 0 };
        for byte in 0..whole.len() {
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped[byte] ^= 1 << bit;
                disk.plant(&path, &flipped);
                let what = format!("{name}, byte {byte}, bit {bit}");
                it_is_named(&disk, byte, name, &what);
                nothing_false_is_served(&store, tip, &lines, name, &what);
                if byte < attest_begins {
                    let calls = disk.calls();
                    match store.open_session(&session(), CREATE) {
                        Err(OpenError::Damaged { .. }) => {}
                        Err(error) => panic!("{what}: {error}"),
                        // What is finished is looked at when it is read.
                        Ok(opened) => assert!(!is_last && opened.log.tip() == tip, "{what}"),
                    }
                    assert_eq!(
                        disk.calls(),
                        calls + 1,
                        "{what}: more than the sync before reading"
                    );
                    assert_eq!(disk.contents(&path).unwrap(), flipped, "{what}: touched");
                }
            }
        }
        disk.plant(&path, &whole);
    }
    let opened = store.open_session(&session(), None).unwrap();
    assert_eq!((opened.log.tip(), opened.torn), (tip, None));
}

#[test]
fn after_an_unclean_death_only_what_is_wrong_with_the_last_batch_looks_torn() {
    for batch in [1, 3_u64] {
        let disk = SimDisk::new(batch);
        let store = store_on(&disk, ALWAYS);
        let mut log = store.open_session(&session(), CREATE).unwrap().log;
        log.append(&store, &[chunk(1, "tick"), chunk(2, "tock")], AT).unwrap();
        let before = log.tip();
        let last: Vec<NewEvent> = (3..3 + batch).map(|id| chunk(id, "tack")).collect();
        log.append(&store, &last, AT).unwrap();
        let tip = log.tip();
        let lines = split(&read_all(&store, 0, tip).unwrap());
        drop((log, store));
        let disk = disk.kill();
        let store = store_on(&disk, ALWAYS);
        let whole = disk.contents(FIRST).unwrap();
        let name = FIRST.rsplit('/').next().unwrap();
        for (byte, bit) in (0..whole.len()).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
            let mut flipped = whole.clone();
            flipped[byte] ^= 1 << bit;
            disk.plant(FIRST, &flipped);
            let what = format!("a batch of {batch}, byte {byte}, bit {bit}");
            it_is_named(&disk, byte, name, &what);
            nothing_false_is_served(&store, tip, &lines, name, &what);
            let opened = store.open_session(&session(), CREATE);
            if byte < before.bytes as usize {
                let error = opened.expect_err(&what);
                assert!(matches!(error, OpenError::Damaged { .. }), "{what}: {error}");
                assert_eq!(disk.contents(FIRST).unwrap(), flipped, "{what}: touched");
                continue;
            }
            let opened = opened.expect(&what);
            let (left, torn) = (opened.log.tip(), opened.torn.expect(&what));
            assert!(before.seq <= left.seq && left.seq < tip.seq, "{what}");
            assert!(torn.byte <= byte as u64, "{what}");
            let kept = split(&read_all(&store, 0, left).unwrap());
            assert_eq!(kept, lines[..=left.seq as usize], "{what}");
            let aside = format!("{FIRST}.torn");
            assert_eq!(disk.contents(&aside).unwrap(), flipped[torn.byte as usize..], "{what}");
            disk.remove_file(Path::new(&aside)).unwrap();
        }
    }
}

#[test]
fn a_flipped_bit_of_the_inbox_is_named_and_no_other_text_is_made_of_it() {
    let (disk, store, mut log) = session_of(1);
    let entry = |id| InboxEntry { id: EventId(id), at: AT, wake: true, text: "t".into(), after: 1 };
    let entries = [entry(7), entry(8)];
    log.inbox_append(&store, &entries).unwrap();
    let path = Path::new(DIR).join("inbox.jsonl");
    let whole = disk.contents(&path).unwrap();
    for (byte, bit) in (0..whole.len()).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
        let mut flipped = whole.clone();
        flipped[byte] ^= 1 << bit;
        disk.plant(&path, &flipped);
        let what = format!("byte {byte}, bit {bit}");
        assert!(!findings(&disk).is_empty(), "{what}: not named");
        let waits = store.open_session(&session(), None).expect(&what).inbox;
        assert!(waits.len() < 2 && waits.iter().all(|entry| entries.contains(entry)), "{what}");
    }
}

#[test]
fn a_flipped_bit_of_the_last_attest_line_costs_no_event() {
    let disk = SimDisk::new(1);
    let store = store_on(&disk, ALWAYS);
    let mut log = store.open_session(&session(), CREATE).unwrap().log;
    log.append(&store, &[chunk(1, "a")], AT).unwrap();
    log.attest(&store);
    let tip = log.tip();
    drop((log, store));
    let whole = disk.contents(FIRST).unwrap();
    for byte in whole.len() - 40..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[byte] ^= 1 << bit;
            disk.plant(FIRST, &flipped);
            let store = store_on(&disk, ALWAYS);
            let opened = store.open_session(&session(), None).unwrap();
            assert_eq!(opened.log.tip(), tip, "byte {byte}, bit {bit}");
            assert!(opened.torn.is_some(), "byte {byte}, bit {bit}");
        }
    }
}
