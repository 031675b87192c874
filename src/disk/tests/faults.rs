//! What a disk that is full or broken does to appends, and what it does not.

use std::io;

use super::*;

fn begun(disk: &SimDisk, options: LogOptions) -> (Store, SessionLog) {
    let store = store_on(disk, options);
    let log = store.open_session(&session(), CREATE).unwrap().log;
    (store, log)
}

fn entry(id: u64, after: u64) -> InboxEntry {
    InboxEntry { id: EventId(id), at: AT, wake: false, text: format!("text {id}"), after }
}

#[test]
fn without_space_nothing_changes_and_with_space_the_same_events_follow() {
    for space in 0..400 {
        let disk = SimDisk::new(space);
        let (store, mut log) = begun(&disk, ALWAYS);
        let (tip, whole) = (log.tip(), disk.contents(FIRST).unwrap());
        let events = [chunk(1, "a"), chunk(2, "b")];
        disk.faults(|faults| (faults.space, faults.short_writes) = (Some(space), true));
        match log.append(&store, &events, AT) {
            Ok(_) => assert!(space > 2 * 160),
            Err(AppendError::NoSpace { lines, appended }) => {
                assert_eq!((lines, appended), (Vec::new(), 0));
                assert_eq!(log.tip(), tip);
                assert_eq!(disk.contents(FIRST).unwrap(), whole);
                let lines = reopen(&disk.crash(), ALWAYS).2;
                assert_eq!(lines.len(), 1, "the cut was not synced");
                disk.faults(|faults| faults.space = None);
                let (store, mut log) = begun(&disk.kill(), ALWAYS);
                log.append(&store, &events, AT).unwrap();
                assert_eq!(log.tip().seq, 2);
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(store.latched(), None);
    }
}

#[test]
fn what_was_appended_before_space_ran_out_is_told_exactly() {
    let disk = SimDisk::new(3);
    let (store, mut log) = begun(&disk, ALWAYS);
    let events: Vec<NewEvent> = (1..=600).map(|id| chunk(id, "text")).collect();
    disk.faults(|faults| faults.space = Some(300 * 200));
    let Err(AppendError::NoSpace { lines, appended }) = log.append(&store, &events, AT) else {
        panic!("it fitted")
    };
    assert_eq!(appended, 256);
    assert_eq!(split(&lines).len(), 256);
    assert_eq!(log.tip().seq, 256);
    disk.faults(|faults| faults.space = None);
    let rest = log.append(&store, &events[appended..], AT).unwrap();
    assert_eq!(read_all(&store, 1, log.tip()).unwrap(), [lines, rest].concat());
    assert_eq!(log.tip().seq, 600);
}

#[test]
fn a_batch_is_split_by_events_and_by_bytes() {
    let disk = SimDisk::new(3);
    let (store, mut log) = begun(&disk, ALWAYS);
    let large = "x".repeat(100 * 1024);
    let huge = "x".repeat(1 << 20);
    for (events, syncs) in [
        ((0..256).map(|id| chunk(id, "")).collect::<Vec<_>>(), 1),
        ((0..257).map(|id| chunk(id, "")).collect(), 2),
        ((0..4).map(|id| chunk(id, &large)).collect(), 2),
        (vec![chunk(0, ""), chunk(1, &huge), chunk(2, "")], 3),
        (Vec::new(), 0),
    ] {
        let before = store.stats().syncs.load(std::sync::atomic::Ordering::Relaxed);
        log.append(&store, &events, AT).unwrap();
        let after = store.stats().syncs.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(after - before, syncs, "{} events", events.len());
    }
}

#[test]
fn no_space_for_a_new_segment_leaves_no_trace_of_it() {
    let options = LogOptions { segment_bytes: 600, ..ALWAYS };
    for space in 0..600 {
        let disk = SimDisk::new(space);
        let (store, mut log) = begun(&disk, options);
        log.append(&store, &[chunk(1, "a")], AT).unwrap();
        disk.faults(|faults| faults.space = Some(space));
        let Err(error) = log.append(&store, &[chunk(2, "b")], AT) else {
            assert!(space > 300);
            continue;
        };
        assert!(matches!(error, AppendError::NoSpace { .. }), "{error}");
        assert_eq!(log.tip().seq, 1);
        assert_eq!(split(&read_all(&store, 0, log.tip()).unwrap()).len(), 2);
        assert_eq!(reopen(&disk.crash(), options).2.len(), 2);
    }
}

#[test]
fn without_inodes_a_segment_or_a_session_has_to_wait() {
    let options = LogOptions { segment_bytes: 600, ..ALWAYS };
    let disk = SimDisk::new(1);
    let (store, mut log) = begun(&disk, options);
    log.append(&store, &[chunk(1, "a")], AT).unwrap();
    disk.faults(|faults| faults.inodes = Some(0));
    let error = log.append(&store, &[chunk(2, "b")], AT).unwrap_err();
    assert!(matches!(error, AppendError::NoSpace { .. }), "{error}");
    let other = SessionId::parse("s2").unwrap();
    let error = store.open_session(&other, CREATE).unwrap_err();
    assert!(matches!(error, OpenError::Io(error) if error.kind() == io::ErrorKind::StorageFull));
    disk.faults(|faults| faults.inodes = None);
    log.append(&store, &[chunk(2, "b")], AT).unwrap();
    assert_eq!(log.tip().seq, 2);
    assert_eq!(store.open_session(&other, CREATE).unwrap().log.tip().seq, 0);
}

#[test]
fn a_failed_write_or_sync_latches_the_whole_store() {
    type Break = fn(&SimDisk);
    let breaks: [Break; 2] =
        [|disk| disk.faults(|f| f.writes_fail = 1), |disk| disk.faults(|f| f.syncs_fail = 1)];
    for break_it in breaks {
        let disk = SimDisk::new(5);
        let (store, mut log) = begun(&disk, ALWAYS);
        let other = SessionId::parse("s2").unwrap();
        let mut bystander = store.open_session(&other, CREATE).unwrap().log;
        break_it(&disk);
        let error = log.append(&store, &[chunk(1, "a")], AT).unwrap_err();
        assert!(matches!(error, AppendError::Latched(_)), "{error}");
        let told = store.latched().unwrap();
        assert!(told.contains("00000000000000000000.jsonl"), "{told}");
        let calls = disk.calls();
        let error = bystander.append(&store, &[chunk(1, "a")], AT).unwrap_err();
        assert!(matches!(error, AppendError::Latched(text) if text == told));
        assert!(bystander.inbox_append(&store, &[entry(1, 1)]).is_err());
        bystander.attest(&store);
        assert!(store.open_session(&SessionId::parse("s3").unwrap(), CREATE).is_err());
        assert_eq!(disk.calls(), calls, "a latched store wrote");
        assert_eq!(log.tip().seq, 0);
        read_all(&store, 0, log.tip()).unwrap();
    }
}

#[test]
fn a_cut_that_cannot_be_synced_latches() {
    let disk = SimDisk::new(5);
    let (store, mut log) = begun(&disk, ALWAYS);
    disk.faults(|faults| (faults.space, faults.syncs_fail) = (Some(10), 1));
    let error = log.append(&store, &[chunk(1, "a")], AT).unwrap_err();
    assert!(matches!(error, AppendError::Latched(_)), "{error}");
}

#[test]
fn without_descriptors_an_append_waits_and_nothing_latches() {
    let disk = SimDisk::new(5);
    let (store, mut log) = begun(&disk, ALWAYS);
    assert!(log.is_open());
    drop(log.close());
    assert!(!log.is_open());
    disk.faults(|faults| faults.opens_fail = 1);
    let error = log.append(&store, &[chunk(1, "a")], AT).unwrap_err();
    assert!(matches!(error, AppendError::Unopened { appended: 0, .. }), "{error}");
    log.append(&store, &[chunk(1, "a")], AT).unwrap();
    assert!(log.is_open());
    assert_eq!(log.tip().seq, 1);
}

#[test]
fn a_torn_log_on_a_full_disk_can_be_read_and_heals_when_there_is_space() {
    let disk = SimDisk::new(5);
    let (store, mut log) = begun(&disk, ALWAYS);
    log.append(&store, &[chunk(1, "a")], AT).unwrap();
    let whole = disk.contents(FIRST).unwrap();
    let disk = disk.kill();
    disk.plant(FIRST, &[&whole, &b"torn"[..]].concat());
    disk.faults(|faults| faults.space = Some(0));
    let (store, mut opened, lines) = reopen(&disk, ALWAYS);
    assert_eq!(lines.len(), 2);
    assert_eq!(opened.torn.unwrap().bytes, 4);
    let error = opened.log.append(&store, &[chunk(2, "b")], AT).unwrap_err();
    assert!(matches!(error, AppendError::NoSpace { .. }), "{error}");
    drop(opened.log.close());
    disk.faults(|faults| faults.space = None);
    opened.log.append(&store, &[chunk(2, "b")], AT).unwrap();
    let aside = disk.contents("data/sessions/s1/00000000000000000000.jsonl.torn").unwrap();
    assert_eq!(aside, b"torn");
    drop((store, opened));
    assert_eq!(reopen(&disk.crash(), ALWAYS).2.len(), 3);
}

#[test]
fn a_store_can_be_opened_on_a_full_disk() {
    let disk = SimDisk::new(5);
    drop(begun(&disk, ALWAYS));
    let disk = disk.kill();
    disk.faults(|faults| faults.space = Some(0));
    assert_eq!(reopen(&disk, ALWAYS).2.len(), 1);
}

#[test]
fn an_accepted_text_is_there_until_the_log_holds_its_id() {
    let disk = SimDisk::new(5);
    let (store, mut log) = begun(&disk, ALWAYS);
    log.inbox_append(&store, &[entry(11, 1), entry(12, 1)]).unwrap();
    log.append(&store, &[chunk(1, "a"), chunk(11, "text 11")], AT).unwrap();
    log.inbox_append(&store, &[entry(13, 3)]).unwrap();
    drop((log, store));
    let (store, mut opened, _) = reopen(&disk.crash(), ALWAYS);
    assert_eq!(opened.inbox, [entry(12, 1), entry(13, 3)]);
    opened.log.append(&store, &[chunk(12, "text 12"), chunk(13, "text 13")], AT).unwrap();
    assert_eq!(store.open_session(&session(), None).unwrap().inbox, []);
}

#[test]
fn a_spent_inbox_is_cut_before_it_grows_again() {
    let disk = SimDisk::new(5);
    let (store, mut log) = begun(&disk, ALWAYS);
    let mut after = 1;
    for id in 100..200 {
        log.inbox_append(&store, &[entry(id, after)]).unwrap();
        after += log.append(&store, &[chunk(id, "")], AT).map(|_| 1).unwrap();
    }
    let inbox = disk.contents("data/sessions/s1/inbox.jsonl").unwrap();
    assert_eq!(split(&inbox).len(), 1);
    let mut opened = store.open_session(&session(), None).unwrap();
    assert_eq!(opened.inbox, []);
    opened.log.inbox_append(&store, &[entry(7, after)]).unwrap();
    assert_eq!(split(&disk.contents("data/sessions/s1/inbox.jsonl").unwrap()).len(), 1);
    assert_eq!(store.open_session(&session(), None).unwrap().inbox, [entry(7, after)]);
}

#[test]
fn what_was_spent_is_gone_for_good_before_the_next_text_is_written() {
    for seed in 0..40 {
        let disk = SimDisk::new(seed);
        let (store, mut log) = begun(&disk, ALWAYS);
        log.inbox_append(&store, &[entry(11, 1)]).unwrap();
        log.append(&store, &[chunk(11, "text 11")], AT).unwrap();
        // The cut, its sync, and then the write, during which the power fails.
        let at = disk.calls() + 3;
        disk.faults(|faults| faults.power_fails_at = Some(at));
        log.inbox_append(&store, &[entry(12, 2)]).unwrap_err();
        let left = disk.crash().contents("data/sessions/s1/inbox.jsonl").unwrap();
        assert!(!String::from_utf8_lossy(&left).contains("text 11"), "seed {seed}");
    }
}

#[test]
fn an_inbox_that_has_grown_too_long_is_written_anew_without_what_is_spent() {
    let disk = SimDisk::new(5);
    let (store, mut log) = begun(&disk, ALWAYS);
    log.inbox_append(&store, &[entry(11, 1)]).unwrap();
    drop((log, store));
    let path = "data/sessions/s1/inbox.jsonl";
    let mut grown = vec![b'x'; crate::limits::INBOX_FILE_BYTES_MAX];
    grown.push(b'\n');
    grown.extend(disk.contents(path).unwrap());
    disk.plant(path, &grown);
    let (store, mut opened, _) = reopen(&disk, ALWAYS);
    opened.log.inbox_append(&store, &[entry(12, 1)]).unwrap();
    assert_eq!(split(&disk.contents(path).unwrap()).len(), 2);
    drop((store, opened));
    assert_eq!(reopen(&disk.crash(), ALWAYS).1.inbox, [entry(11, 1), entry(12, 1)]);
}

#[test]
fn what_is_put_into_an_inbox_that_a_failed_sync_left_behind_is_durable() {
    for (seed, texts_before) in (0..40).flat_map(|seed| [(seed, 0), (seed, 1)]) {
        let disk = SimDisk::new(seed);
        let (store, mut log) = begun(&disk, ALWAYS);
        for id in 0..texts_before {
            log.inbox_append(&store, &[entry(10 + id, 1)]).unwrap();
        }
        disk.faults(|faults| faults.syncs_fail = 1);
        log.inbox_append(&store, &[entry(20, 1)]).unwrap_err();
        let disk = disk.kill();
        let (store, mut opened, _) = reopen(&disk, ALWAYS);
        opened.log.inbox_append(&store, &[entry(30, 1)]).unwrap();
        let inbox = reopen(&disk.crash(), ALWAYS).1.inbox;
        assert_eq!(inbox.len(), texts_before as usize + 2, "seed {seed}: {inbox:?}");
    }
}

#[test]
fn an_inbox_without_space_takes_nothing_and_later_everything() {
    for space in 0..100 {
        let disk = SimDisk::new(space);
        let (store, mut log) = begun(&disk, ALWAYS);
        log.inbox_append(&store, &[entry(11, 1)]).unwrap();
        disk.faults(|faults| (faults.space, faults.short_writes) = (Some(space), true));
        let error = log.inbox_append(&store, &[entry(12, 1)]).unwrap_err();
        assert!(matches!(error, AppendError::NoSpace { .. }), "{error}");
        disk.faults(|faults| faults.space = None);
        log.inbox_append(&store, &[entry(12, 1)]).unwrap();
        drop((log, store));
        assert_eq!(reopen(&disk.crash(), ALWAYS).1.inbox, [entry(11, 1), entry(12, 1)]);
    }
}

#[test]
fn an_inbox_cut_at_every_byte_gives_the_texts_before_the_cut() {
    let disk = SimDisk::new(5);
    let (store, mut log) = begun(&disk, ALWAYS);
    let entries = [entry(11, 1), entry(12, 1), entry(13, 1)];
    log.inbox_append(&store, &entries).unwrap();
    drop((log, store));
    let path = "data/sessions/s1/inbox.jsonl";
    let whole = disk.contents(path).unwrap();
    let ends: Vec<usize> =
        (0..whole.len()).filter(|&at| whole[at] == b'\n').map(|at| at + 1).collect();
    for cut in 0..=whole.len() {
        let disk = disk.kill();
        disk.plant(path, &whole[..cut]);
        let (store, mut opened, _) = reopen(&disk, ALWAYS);
        let kept = ends.iter().filter(|&&end| end <= cut).count();
        assert_eq!(opened.inbox, entries[..kept], "cut at {cut}");
        opened.log.inbox_append(&store, &[entry(14, 1)]).unwrap();
        drop((store, opened));
        let expected = [&entries[..kept], &[entry(14, 1)]].concat();
        assert_eq!(reopen(&disk.kill(), ALWAYS).1.inbox, expected, "cut at {cut}");
    }
}

#[test]
fn what_is_not_synced_survives_a_kill_and_is_never_attested() {
    let disk = SimDisk::new(5);
    let (store, mut log) = begun(&disk, OS);
    let before = store.stats().syncs.load(std::sync::atomic::Ordering::Relaxed);
    for id in 1..20 {
        log.append(&store, &[chunk(id, "a")], AT).unwrap();
    }
    log.attest(&store);
    assert_eq!(store.stats().syncs.load(std::sync::atomic::Ordering::Relaxed), before);
    let text = String::from_utf8(disk.contents(FIRST).unwrap()).unwrap();
    assert!(text.lines().all(|line| line.contains(r#","ack":"000000000000","crc":""#)));
    drop((log, store));
    assert_eq!(reopen(&disk.kill(), OS).2.len(), 20);
}
