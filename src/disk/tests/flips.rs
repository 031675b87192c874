//! Every single bit of a session that was stopped cleanly, flipped.

use super::*;

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
    let dir = std::path::Path::new("data/sessions/s1");
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
                let mut findings = Vec::new();
                verify::verify(&disk, "data", &session(), |finding| findings.push(finding))
                    .unwrap();
                assert!(!findings.is_empty(), "{what}: not named");
                for finding in &findings {
                    let place = finding.place().expect("it is in a segment");
                    assert_eq!(
                        format!("{:020}.jsonl", place.segment),
                        *name,
                        "{what}: {findings:?}"
                    );
                    assert!(place.byte <= byte as u64, "{what}: {findings:?}");
                }
                for (seq, line) in (0..).zip(&lines) {
                    match store.read(&session(), seq, None, tip, 1, 1) {
                        Ok(piece) => assert_eq!(piece.lines, *line, "{what}: served"),
                        Err(ReadError::Damaged(place)) => {
                            assert_eq!(format!("{:020}.jsonl", place.segment), *name, "{what}");
                        }
                        Err(error) => panic!("{what}: {error}"),
                    }
                }
                if is_last && byte < attest_begins {
                    let error = store.open_session(&session(), CREATE).expect_err(&what);
                    assert!(matches!(error, OpenError::Damaged { .. }), "{what}: {error}");
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
