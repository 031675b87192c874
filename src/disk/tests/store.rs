//! A store on files of the machine: what it writes, and that it comes back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::super::real::RealDisk;
use super::*;

fn open(dir: &Path, segment_bytes: u64) -> Store {
    Store::open(Arc::new(RealDisk), dir, LogOptions { segment_bytes, ..ALWAYS }).unwrap()
}

#[test]
fn a_session_is_made_once_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 4 << 20);
    assert!(!store.exists(&session()).unwrap());
    assert!(matches!(store.open_session(&session(), None), Err(OpenError::Missing)));
    let mut opened = store.open_session(&session(), CREATE).unwrap();
    assert_eq!(opened.log.tip().seq, 0);
    let lines = opened.log.append(&store, &[chunk(1, "a"), chunk(2, "b")], AT).unwrap();
    assert_eq!(opened.log.tip().seq, 2);
    let tip = opened.log.tip();
    assert_eq!(read_all(&store, 1, tip).unwrap(), lines);
    drop(opened);
    let opened = store.open_session(&session(), CREATE).unwrap();
    assert_eq!(opened.log.tip(), tip);
    assert_eq!(opened.torn, None);
    let text =
        fs::read_to_string(dir.path().join("sessions/s1/00000000000000000000.jsonl")).unwrap();
    let expected = [
        r#"{"log":1,"session_id":"s1","base":0,"prev":null,"state":{"policy":null,"steps":0,"turn":null,"compacted":null,"titled":null},"ack":"000000000000","crc":""#,
        r#"{"id":"00000000000000c0","session_id":"s1","seq":0,"at":"2026-08-18T04:10:11.123456Z","type":"session/created","payload":{"parent_id":null},"ack":"000000000000","crc":""#,
        r#"{"id":"0000000000000001","session_id":"s1","seq":1,"at":"2026-08-18T04:10:11.123456Z","type":"assistant/chunk","payload":{"text":"a"},"ack":"000000000001","crc":""#,
        r#"{"id":"0000000000000002","session_id":"s1","seq":2,"at":"2026-08-18T04:10:11.123456Z","type":"assistant/chunk","payload":{"text":"b"},"ack":"000000000001","crc":""#,
    ];
    assert_eq!(text.lines().count(), expected.len());
    for (line, expected) in text.lines().zip(expected) {
        assert_eq!(&line[..line.len() - 10], expected);
    }
}

#[test]
fn files_and_directories_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("a/b");
    let store = open(&root, 4 << 20);
    let mut opened = store.open_session(&session(), CREATE).unwrap();
    opened
        .log
        .inbox_append(
            &store,
            &[InboxEntry { id: EventId(9), at: AT, wake: true, text: "x".into(), after: 1 }],
        )
        .unwrap();
    for (path, mode) in [
        ("", 0o700),
        ("LOCK", 0o600),
        ("sessions", 0o700),
        ("sessions/s1", 0o700),
        ("sessions/s1/00000000000000000000.jsonl", 0o600),
        ("sessions/s1/inbox.jsonl", 0o600),
    ] {
        let metadata = fs::metadata(root.join(path)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{path}");
    }
}

#[test]
fn a_second_store_on_a_directory_is_refused_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), 4 << 20);
    let before = fs::read(dir.path().join("LOCK")).unwrap();
    let second = Store::open(Arc::new(RealDisk), dir.path(), *first.options());
    let pid = Some(std::process::id());
    assert!(matches!(second, Err(StoreError::Locked { pid: found }) if found == pid));
    assert_eq!(fs::read(dir.path().join("LOCK")).unwrap(), before);
    drop(first);
    open(dir.path(), 4 << 20);
}

#[test]
fn segments_roll_before_they_outgrow_their_bound() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 2000);
    let mut log = store.open_session(&session(), CREATE).unwrap().log;
    let mut written = Vec::new();
    for id in 1..200 {
        written.extend(log.append(&store, &[chunk(id, "some text")], AT).unwrap());
    }
    let tip = log.tip();
    let mut names: Vec<_> = fs::read_dir(dir.path().join("sessions/s1"))
        .unwrap()
        .map(|entry| {
            (entry.as_ref().unwrap().file_name(), entry.unwrap().metadata().unwrap().len())
        })
        .collect();
    names.sort();
    assert!(names.len() > 20, "{names:?}");
    assert!(names.iter().all(|(_, len)| *len <= 2000), "{names:?}");
    for from in 1..200_u64 {
        let expected: Vec<u8> = written
            .split_inclusive(|&byte| byte == b'\n')
            .skip(from as usize - 1)
            .flatten()
            .copied()
            .collect();
        assert_eq!(read_all(&store, from, tip).unwrap(), expected, "from {from}");
    }
    log.attest(&store);
    drop(log);
    let opened = store.open_session(&session(), None).unwrap();
    assert_eq!(opened.log.tip(), tip);
    assert_eq!(opened.torn, None);
}

#[test]
fn an_appender_moves_between_threads_and_is_small_when_it_is_closed() {
    fn moves<T: Send>(_: &T) {}
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 4 << 20);
    let mut log = store.open_session(&session(), CREATE).unwrap().log;
    moves(&log);
    assert!(log.is_open() && log.close().is_some() && log.close().is_none() && !log.is_open());
    assert!(size_of_val(&log) <= 280, "{} bytes", size_of_val(&log));
    log.append(&store, &[chunk(1, "a")], AT).unwrap();
    assert!(log.is_open());
}
