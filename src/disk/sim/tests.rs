//! What the simulated disk keeps and loses.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;

fn file(disk: &SimDisk, how: Open) -> Box<dyn DiskFile> {
    disk.open(Path::new("f"), how).unwrap()
}

/// What `f` holds after a crash, for many seeds.
fn outcomes(prepare: impl Fn(&SimDisk)) -> BTreeSet<Option<Vec<u8>>> {
    (0..400)
        .map(|seed| {
            let disk = SimDisk::new(seed);
            prepare(&disk);
            disk.crash().contents("f")
        })
        .collect()
}

#[test]
fn what_was_synced_is_there_after_a_crash() {
    let kept = outcomes(|disk| {
        let file = file(disk, Open::New);
        file.write_at(b"0123456789", 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(Path::new("")).unwrap();
    });
    assert_eq!(kept, BTreeSet::from([Some(b"0123456789".to_vec())]));
}

#[test]
fn a_name_whose_directory_was_not_synced_may_be_gone() {
    let kept = outcomes(|disk| {
        file(disk, Open::New).sync_all().unwrap();
    });
    assert_eq!(kept, BTreeSet::from([None, Some(Vec::new())]));
}

#[test]
fn unsynced_bytes_may_survive_or_not_behind_synced_ones_that_do() {
    let kept = outcomes(|disk| {
        let file = file(disk, Open::New);
        file.write_at(b"ab", 0).unwrap();
        file.sync_all().unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        file.write_at(b"cd", 2).unwrap();
    });
    let kept: BTreeSet<Vec<u8>> = kept.into_iter().flatten().collect();
    assert!(kept.iter().all(|kept| kept.starts_with(b"ab") && kept.len() <= 4), "{kept:?}");
    for outcome in [&b"ab"[..], b"ab\0", b"ab\0\0", b"abc", b"abcd"] {
        assert!(kept.contains(outcome), "{outcome:?} never happened");
    }
    assert!(kept.iter().any(|kept| kept.len() == 4 && !kept.ends_with(b"cd") && kept[3] != 0));
}

#[test]
fn an_unsynced_cut_may_be_undone() {
    let kept = outcomes(|disk| {
        let file = file(disk, Open::New);
        file.write_at(b"abcd", 0).unwrap();
        file.sync_all().unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        file.set_len(1).unwrap();
    });
    let possible: BTreeSet<_> =
        [&b"a"[..], b"ab", b"abc", b"abcd"].map(|kept| Some(kept.to_vec())).into();
    assert_eq!(kept, possible);
}

#[test]
fn a_sync_that_failed_marks_pages_clean_and_a_second_one_does_not_save_them() {
    let kept = outcomes(|disk| {
        let file = file(disk, Open::New);
        file.write_at(b"ab", 0).unwrap();
        file.sync_all().unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        file.write_at(b"cd", 0).unwrap();
        disk.faults(|faults| faults.syncs_fail = 1);
        assert!(file.sync_data().is_err());
        file.sync_data().unwrap();
    });
    assert_eq!(kept, BTreeSet::from([Some(b"ab".to_vec())]));
}

#[test]
fn a_killed_process_loses_its_files_and_locks_but_no_byte() {
    let disk = SimDisk::new(1);
    let lock = disk.lock(Path::new("LOCK")).unwrap();
    assert!(lock.is_some() && disk.lock(Path::new("LOCK")).unwrap().is_none());
    let file = file(&disk, Open::New);
    file.write_at(b"ab", 0).unwrap();
    let after = disk.kill();
    assert!(file.write_at(b"cd", 0).is_err() && disk.list(Path::new("")).is_err());
    assert_eq!(after.contents("f").unwrap(), b"ab");
    let living = after.lock(Path::new("LOCK")).unwrap();
    assert!(living.is_some());
    drop(lock);
    assert!(after.lock(Path::new("LOCK")).unwrap().is_none(), "the dead took a living one's lock");
}

#[test]
fn a_full_disk_takes_what_fits_and_gives_room_back() {
    let disk = SimDisk::new(1);
    let file = file(&disk, Open::New);
    disk.faults(|faults| faults.space = Some(3));
    assert_eq!(file.write_at(b"abcd", 0).unwrap(), 3);
    let error = file.write_at(b"d", 3).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.write_at(b"xyz", 0).unwrap(), 3, "overwriting needs no room");
    file.set_len(1).unwrap();
    assert_eq!(file.write_at(b"bcd", 1).unwrap(), 2);
    drop(file);
    disk.remove_file(Path::new("f")).unwrap();
    let file = super::tests::file(&disk, Open::New);
    assert_eq!(file.write_at(b"abcd", 0).unwrap(), 3);
}

#[test]
fn power_fails_at_the_call_it_is_told_to() {
    let disk = SimDisk::new(1);
    let file = file(&disk, Open::New);
    disk.faults(|faults| faults.power_fails_at = Some(3));
    file.write_at(b"a", 0).unwrap();
    assert!(file.sync_data().is_err());
    assert_eq!(disk.calls(), 3);
    assert!(file.write_at(b"a", 0).is_err() && file.read_at(&mut [0], 0).is_err());
    assert_eq!(disk.calls(), 3);
}
