//! A damaged session is made whole, nothing that was there is thrown away, and a crash at any call does
//! no harm.

use super::super::repair::{Diagnosis, diagnose};
use super::sim::Faults;
use super::*;
use std::path::{Path, PathBuf};

fn segment(base: u64) -> PathBuf {
    Path::new(DIR).join(format!("{base:020}.jsonl"))
}

/// Flips a bit in a line of a segment: 0 is its header, 1 its first event.
fn flip(disk: &SimDisk, base: u64, line: usize) {
    let mut bytes = disk.contents(segment(base)).unwrap();
    let begins = split(&bytes)[..line].iter().map(Vec::len).sum::<usize>();
    bytes[begins + 30] ^= 1;
    disk.plant(segment(base), &bytes);
}

fn diagnosed(disk: &SimDisk) -> Diagnosis {
    diagnose(Arc::new(disk.clone()), Path::new("data"), &session(), |_| {}).unwrap()
}

/// Repairs the session, which can be.
fn repair(disk: &SimDisk) -> Told {
    let Diagnosis::Repairable(found) = diagnosed(disk) else { panic!("it can be repaired") };
    let told = (*found.kept.start(), *found.kept.end(), found.lost);
    found.repair().unwrap();
    told
}

/// The ids of all events in all files beside the log, and in it.
fn ids(disk: &SimDisk) -> Vec<String> {
    let mut ids = Vec::new();
    for name in disk.list(Path::new(DIR)).unwrap() {
        let bytes = disk.contents(Path::new(DIR).join(name)).unwrap();
        for line in String::from_utf8_lossy(&bytes).lines().filter(|line| line.contains("seq")) {
            ids.extend(line.get(7..23).map(str::to_owned));
        }
    }
    ids.sort();
    ids.dedup();
    ids
}

type Damage = fn(&SimDisk);
type Grow = fn(&Store, &mut SessionLog);
/// The first and the last event that are kept, and how many sound ones are not.
type Told = (u64, u64, u64);

const PLAIN: Grow = |_, _| {};
/// A turn begins with event 12, and is open still.
const OPEN_TURN: Grow = |store, log| {
    log.append(store, &[turn_start(40)], AT).unwrap();
    for id in 50..57 {
        log.append(store, &[chunk(id, "text")], AT).unwrap();
    }
};
const COMPACTED: Grow = |store, log| {
    let body = Body::SessionCompacted { upto_seq: 3, summary: "s".into() };
    log.append(store, &[event(40, body)], AT).unwrap();
    OPEN_TURN(store, log);
    log.append(store, &[turn_end(60)], AT).unwrap();
};
const TRIMMED: Grow = |store, log| {
    trim(store, log, 6, 0).unwrap();
};
/// One text was used in event 12, one waits.
const TEXTS: Grow = |store, log| {
    let entry =
        |id| InboxEntry { id: EventId(id), at: AT, wake: true, text: "t".into(), after: 12 };
    log.inbox_append(store, &[entry(40), entry(41)]).unwrap();
    log.append(store, &[chunk(40, "t")], AT).unwrap();
    for id in 50..55 {
        log.append(store, &[chunk(id, "text")], AT).unwrap();
    }
};

/// What is damaged in a session of 12 events in 6 segments, and those that followed.
const CASES: &[(&str, Grow, Damage, Told)] = &[
    ("an event in the middle", PLAIN, |disk| flip(disk, 4, 1), (6, 11, 5)),
    ("a header in the middle", PLAIN, |disk| flip(disk, 4, 0), (6, 11, 6)),
    ("the first header", PLAIN, |disk| flip(disk, 0, 0), (2, 11, 2)),
    (
        "two segments",
        PLAIN,
        |disk| [2, 6].map(|base| flip(disk, base, 2)).into_iter().collect(),
        (8, 11, 6),
    ),
    ("the first event of the last segment", PLAIN, |disk| flip(disk, 10, 1), (0, 9, 1)),
    ("the last event", PLAIN, |disk| flip(disk, 10, 2), (0, 10, 0)),
    ("the last header", PLAIN, |disk| flip(disk, 10, 0), (0, 9, 2)),
    (
        "the last two segments",
        PLAIN,
        |disk| [8, 10].map(|base| flip(disk, base, 0)).into_iter().collect(),
        (0, 7, 4),
    ),
    (
        "the last event, and one before",
        PLAIN,
        |disk| [4, 10].map(|base| flip(disk, base, 2)).into_iter().collect(),
        (6, 10, 5),
    ),
    ("a segment that is gone", PLAIN, |disk| disk.remove_file(&segment(4)).unwrap(), (6, 11, 4)),
    ("a beginning that is gone", PLAIN, |disk| disk.remove_file(&segment(0)).unwrap(), (2, 11, 0)),
    ("an empty segment", PLAIN, |disk| disk.plant(segment(4), b""), (6, 11, 4)),
    ("what an open turn goes on without", OPEN_TURN, |disk| flip(disk, 4, 1), (6, 19, 5)),
    ("what an open turn needs", OPEN_TURN, |disk| flip(disk, 14, 2), (0, 14, 4)),
    ("what an open turn needs, of one segment", OPEN_TURN, |disk| flip(disk, 14, 1), (0, 13, 5)),
    ("what a compaction is needed for", COMPACTED, |disk| flip(disk, 16, 2), (0, 16, 4)),
    ("what was removed, and then some", TRIMMED, |disk| flip(disk, 6, 2), (8, 11, 3)),
    ("what a text was used in", TEXTS, |disk| flip(disk, 12, 1), (14, 17, 13)),
    ("what came behind a text", TEXTS, |disk| flip(disk, 16, 2), (0, 16, 0)),
    (
        "a line of the inbox",
        TEXTS,
        |disk| {
            let path = Path::new(DIR).join("inbox.jsonl");
            let sound = disk.contents(&path).unwrap();
            disk.plant(&path, &[b"rot\n", &sound[..]].concat());
        },
        (0, 17, 0),
    ),
];

fn stopped(grow: Grow) -> SimDisk {
    let (disk, store, mut log) = session_of(12);
    grow(&store, &mut log);
    log.attest(&store);
    drop((store, log));
    disk.kill()
}

fn damaged(grow: Grow, damage: Damage) -> SimDisk {
    let disk = stopped(grow);
    damage(&disk);
    assert!(findings(&disk).iter().any(verify::Finding::is_damage));
    disk
}

fn events_of(disk: &SimDisk, from: u64) -> Vec<String> {
    let mut lines = Vec::new();
    let print = |line: &[u8]| {
        lines.push(String::from_utf8(line.to_vec()).unwrap());
        Ok(())
    };
    inspect::dump(disk, "data", &session(), from, &[], print).unwrap();
    lines
}

#[test]
fn what_is_kept_is_whole_goes_on_and_the_rest_lies_beside_it() {
    for &(what, grow, damage, expected) in CASES {
        let disk = damaged(grow, damage);
        let (first, last, _) = expected;
        let before = ids(&disk);
        let lines = events_of(&stopped(grow), first)[..(last - first + 1) as usize].to_vec();
        assert_eq!(repair(&disk), expected, "{what}");
        assert_eq!(findings(&disk), [], "{what}");
        assert_eq!(ids(&disk), before, "{what}");
        assert_eq!(events_of(&disk, 0), lines, "{what}");
        assert!(matches!(diagnosed(&disk), Diagnosis::Sound), "{what}");
        let store = store_on(&disk, SMALL);
        let mut opened = store.open_session(&session(), CREATE).unwrap();
        assert_eq!((opened.log.tip().seq, opened.torn), (last, None), "{what}");
        store.turns(&session(), &opened.state, opened.log.tip(), 1 << 20).unwrap();
        let texts: Vec<u64> = opened.inbox.iter().map(|entry| entry.id.0).collect();
        let expected: &[u64] = match what {
            "what a text was used in" => &[40, 41],
            "what came behind a text" | "a line of the inbox" => &[41],
            _ => &[],
        };
        assert_eq!(texts, expected, "{what}");
        let answers: Vec<NewEvent> = texts.iter().map(|&id| chunk(id, "t")).collect();
        opened.log.append(&store, &[&answers[..], &[chunk(90, "on")]].concat(), AT).unwrap();
        drop(opened);
        let again = store.open_session(&session(), None).unwrap();
        assert_eq!(again.inbox, [], "{what}");
        assert_eq!(again.log.tip().seq, last + texts.len() as u64 + 1, "{what}");
    }
}

#[test]
fn a_crash_at_any_call_leaves_it_damaged_or_whole_and_loses_nothing() {
    for (number, &(what, grow, damage, expected)) in CASES.iter().enumerate() {
        for last in 1.. {
            let disk = damaged(grow, damage);
            let before = ids(&disk);
            let Diagnosis::Repairable(found) = diagnosed(&disk) else { panic!("{what}") };
            let at = disk.calls() + last;
            disk.faults(|faults| faults.power_fails_at = Some(at));
            let done = found.repair().is_ok() && disk.calls() < at;
            let cut = (number as u64 + last).is_multiple_of(2);
            let disk = if cut { disk.crash() } else { disk.kill() };
            disk.faults(|faults| *faults = Faults::default());
            let what = format!("{what}, call {last}, power cut: {cut}");
            assert_eq!(ids(&disk), before, "{what}");
            match diagnosed(&disk) {
                Diagnosis::Sound => {}
                Diagnosis::Repairable(found) => {
                    assert!(!done, "{what}");
                    let kept = (*found.kept.start(), *found.kept.end());
                    assert_eq!(kept, (expected.0, expected.1), "{what}");
                    found.repair().unwrap();
                }
                Diagnosis::Missing | Diagnosis::Lost => panic!("{what}: nothing is left"),
            }
            let store = store_on(&disk, SMALL);
            let opened = store.open_session(&session(), None).unwrap();
            assert_eq!(opened.log.tip().seq, expected.1, "{what}");
            assert_eq!(ids(&disk), before, "{what}");
            if done {
                break;
            }
        }
    }
}

#[test]
fn what_was_kept_before_is_never_overwritten() {
    let disk = damaged(PLAIN, |disk| flip(disk, 4, 1));
    repair(&disk);
    let kept = |name: &str| disk.contents(Path::new(DIR).join(name)).unwrap();
    let first = kept("00000000000000000004.jsonl.damaged");
    let whole = disk.contents(segment(6)).unwrap();
    disk.plant(segment(4), &whole);
    let name = format!("{:020}.first", 6);
    disk.remove_file(&Path::new(DIR).join(name)).unwrap();
    repair(&disk);
    assert_eq!(kept("00000000000000000004.jsonl.damaged"), first);
    assert_eq!(kept("00000000000000000004.jsonl.damaged.2"), whole);
}

#[test]
fn a_repair_is_refused_where_there_is_none_to_make() {
    let (disk, store, mut log) = session_of(12);
    let error = diagnose(Arc::new(disk.clone()), Path::new("data"), &session(), |_| {});
    assert!(matches!(error, Err(StoreError::Locked { .. })), "it is being served");
    log.attest(&store);
    drop((log, store));
    assert!(matches!(diagnosed(&disk), Diagnosis::Sound));
    let torn = [&disk.contents(segment(10)).unwrap()[..], b"{\"id"].concat();
    disk.plant(segment(10), &torn);
    assert!(matches!(diagnosed(&disk), Diagnosis::Sound), "a tear heals by itself");
    for base in (0..12).step_by(2) {
        disk.plant(segment(base), b"");
    }
    assert!(matches!(diagnosed(&disk), Diagnosis::Lost));
    let nobody = SessionId::parse("nobody").unwrap();
    let missing = diagnose(Arc::new(disk), Path::new("data"), &nobody, |_| {}).unwrap();
    assert!(matches!(missing, Diagnosis::Missing));
}
