//! Looking at a data directory from outside, and deleting from it.

use super::inspect::SessionSummary;
use super::verify::Finding;
use super::*;
use crate::log::place::{Fault, Place};

fn start() -> Body {
    Body::TurnStart { agent: "agent".into() }
}

/// A directory that is being served, with a session in several segments.
fn served() -> (SimDisk, Store, SessionLog) {
    let disk = SimDisk::new(3);
    let store = store_on(&disk, LogOptions { segment_bytes: 600, ..ALWAYS });
    let mut log = store.open_session(&session(), CREATE).unwrap().log;
    for id in 1..10 {
        log.append(&store, &[chunk(id, "text")], AT).unwrap();
    }
    (disk, store, log)
}

fn summaries(disk: &SimDisk) -> Vec<SessionSummary> {
    let data_dir = std::path::Path::new("data");
    let ids = inspect::session_ids(disk, data_dir).unwrap();
    ids.iter().map(|id| inspect::summary(disk, data_dir, id).unwrap()).collect()
}

/// Deletes the session, if there is one.
fn delete(disk: &SimDisk, data_dir: &str) -> Result<bool, StoreError> {
    match inspect::deletable(disk, std::path::Path::new(data_dir), &session())? {
        Some(deletable) => deletable.delete().map(|()| true).map_err(StoreError::Io),
        None => Ok(false),
    }
}

#[test]
fn sessions_are_listed_by_id_with_what_their_files_say() {
    let (disk, store, mut log) = served();
    let end = Body::TurnEnd { status: TurnStatus::Completed, reason: None };
    log.append(&store, &[event(20, start()), event(21, end)], AT).unwrap();
    let other = SessionId::parse("a").unwrap();
    let mut open = store.open_session(&other, CREATE).unwrap().log;
    let later = Wall(AT.0 + 1);
    open.append(&store, &[event(1, start())], later).unwrap();
    let listed = summaries(&disk);
    assert_eq!(listed.iter().map(|summary| summary.id.as_str()).collect::<Vec<_>>(), ["a", "s1"]);
    let [a, s1] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((a.events, a.last_at, a.open_turn), (2, Some(later), true));
    assert_eq!((s1.events, s1.last_at, s1.open_turn), (12, Some(AT), false));
    let dir = std::path::Path::new("data/sessions/s1");
    let bytes: usize = disk
        .list(dir)
        .unwrap()
        .iter()
        .map(|name| disk.contents(dir.join(name)).unwrap().len())
        .sum();
    assert_eq!(s1.bytes, bytes as u64);
}

#[test]
fn a_waking_text_is_seen_in_the_inbox_file_and_a_steer_is_none() {
    let (disk, store, mut log) = served();
    let waits = || inspect::may_hold_wake(&disk, std::path::Path::new("data"), &session()).unwrap();
    for (id, wake) in [(7, false), (8, true)] {
        let entry = InboxEntry { id: EventId(id), at: AT, wake, text: "t".into(), after: 10 };
        log.inbox_append(&store, &[entry]).unwrap();
        assert_eq!(waits(), wake);
    }
}

#[test]
fn a_turn_that_was_open_when_an_empty_segment_began_is_still_open() {
    let disk = SimDisk::new(3);
    let store = store_on(&disk, LogOptions { segment_bytes: 600, ..ALWAYS });
    let mut log = store.open_session(&session(), CREATE).unwrap().log;
    log.append(&store, &[event(1, start())], AT).unwrap();
    // Room for the header of a new segment, and for no event behind it.
    disk.faults(|faults| faults.space = Some(250));
    log.append(&store, &[chunk(2, &"x".repeat(100))], AT).unwrap_err();
    assert_eq!(disk.list(std::path::Path::new("data/sessions/s1")).unwrap().len(), 2);
    let listed = summaries(&disk);
    assert_eq!((listed[0].events, listed[0].open_turn), (2, true));
    assert_eq!(findings(&disk), []);
}

#[test]
fn a_directory_without_sessions_lists_none_and_one_that_is_not_there_is_an_error() {
    let disk = SimDisk::new(3);
    assert!(inspect::session_ids(&disk, std::path::Path::new("data")).is_err());
    store_on(&disk, ALWAYS);
    assert_eq!(summaries(&disk), []);
    assert!(verify::verify(&disk, "data", &session(), |_| {}).is_err());
}

#[test]
fn a_dump_is_the_wire_envelopes_of_the_types_asked_for() {
    let (disk, store, mut log) = served();
    log.append(&store, &[event(20, start())], AT).unwrap();
    let dump = |from, types: &[&str]| {
        let types: Vec<String> = types.iter().map(|&kind| kind.to_owned()).collect();
        let mut out = String::new();
        inspect::dump(&disk, "data", &session(), from, &types, |line| {
            out.push_str(std::str::from_utf8(line).unwrap());
            Ok(())
        })
        .unwrap();
        out
    };
    assert_eq!(dump(0, &[]).lines().count(), 11);
    assert_eq!(dump(8, &[]).lines().count(), 3);
    assert_eq!(dump(11, &[]), "");
    assert_eq!(dump(0, &["assistant/chunk"]).lines().count(), 9);
    assert_eq!(dump(0, &["turn/start", "session/created"]).lines().count(), 2);
    assert_eq!(
        dump(10, &[]),
        "{\"id\":\"0000000000000014\",\"session_id\":\"s1\",\"seq\":10,\"at\":\"2026-08-18T04:10:11.123456Z\",\"type\":\"turn/start\",\"payload\":{\"agent\":\"agent\"}}\n"
    );
}

#[test]
fn a_sound_session_has_no_findings_and_an_unfinished_end_is_no_damage() {
    let (disk, _store, mut log) = served();
    assert_eq!(findings(&disk), []);
    let base = log.tip().base;
    let path = format!("data/sessions/s1/{base:020}.jsonl");
    let whole = disk.contents(&path).unwrap();
    drop(log.close());
    disk.plant(&path, &[&whole[..], b"{\"id\":\"00"].concat());
    let place = Place {
        segment: base,
        line: split(&whole).len() as u64 + 1,
        byte: whole.len() as u64,
        fault: Fault::Unterminated,
    };
    assert_eq!(findings(&disk), [Finding::Unfinished(place)]);
    assert!(!findings(&disk)[0].is_damage());
}

#[test]
fn a_missing_or_exchanged_segment_and_a_broken_inbox_line_are_named() {
    let (disk, store, mut log) = served();
    let entry = InboxEntry { id: EventId(7), at: AT, wake: true, text: "t".into(), after: 10 };
    log.inbox_append(&store, &[entry]).unwrap();
    let dir = std::path::Path::new("data/sessions/s1");
    let segment = |base: u64| dir.join(format!("{base:020}.jsonl"));
    let second = disk.contents(segment(2)).unwrap();
    disk.remove_file(&segment(2)).unwrap();
    let fault = Fault::NoSegment { base: 2 };
    let place = Place { segment: 4, line: 1, byte: 0, fault };
    assert_eq!(findings(&disk), [Finding::Damaged(place)]);

    // As sound as the one that was there, but not it.
    let other = SimDisk::new(4);
    let elsewhere = store_on(&other, LogOptions { segment_bytes: 600, ..ALWAYS });
    let mut log = elsewhere.open_session(&session(), CREATE).unwrap().log;
    for id in 1..10 {
        log.append(&elsewhere, &[chunk(id, "tact")], AT).unwrap();
    }
    disk.plant(segment(2), &other.contents(segment(2)).unwrap());
    let named: Vec<(u64, Fault)> = findings(&disk)
        .iter()
        .map(|finding| finding.place().unwrap())
        .map(|place| (place.segment, place.fault.clone()))
        .collect();
    assert_eq!(named, [(2, Fault::Predecessor)]);

    disk.plant(segment(2), &second);
    let inbox = dir.join("inbox.jsonl");
    let sound = disk.contents(&inbox).unwrap();
    let end = sound.len() as u64;
    disk.plant(&inbox, &[b"{}\n", &sound[..], b"{\n", &sound[..9]].concat());
    let inbox = |line, byte, at_end| Finding::Inbox { line, byte, at_end };
    let named = [inbox(1, 0, false), inbox(3, end + 3, true), inbox(4, end + 5, true)];
    assert_eq!(findings(&disk), named);
    assert_eq!(named.map(|finding| finding.is_damage()), [true, false, false]);
}

#[test]
fn a_session_is_deleted_only_while_nobody_serves_it() {
    let (disk, store, log) = served();
    let error = delete(&disk, "data").unwrap_err();
    assert!(matches!(error, StoreError::Locked { pid: Some(_) }), "{error}");
    drop((store, log));
    assert!(delete(&disk, "data").unwrap());
    assert!(!delete(&disk, "data").unwrap());
    assert!(!delete(&disk, "elsewhere").unwrap());
    assert!(disk.contents("elsewhere/LOCK").is_none());
    assert_eq!(summaries(&disk.crash()), []);
}

#[test]
fn a_deletion_that_was_cut_short_is_a_deletion_or_none() {
    for last in 1..20 {
        let (disk, store, log) = served();
        drop((store, log));
        let at = disk.calls() + last;
        disk.faults(|faults| faults.power_fails_at = Some(at));
        let _outcome = delete(&disk, "data");
        let disk = disk.crash();
        for summary in summaries(&disk) {
            assert_eq!(summary.events, 10, "at call {last}");
            assert_eq!(findings(&disk), [], "at call {last}");
        }
        delete(&disk, "data").unwrap();
        let left = disk.list(std::path::Path::new("data/sessions")).unwrap();
        assert_eq!(left, Vec::<String>::new(), "at call {last}");
    }
}
