//! A damaged session and an operator: what is named, what a repair asks, does and leaves; and files that
//! are none.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::commands::answered;
use crate::harness::{Event, Server, files, server};

fn config() -> Value {
    json!({"log": {"segment_bytes": 4000}})
}

/// A stopped server's folder with a session `s1` in several files, what it was sent, and its files.
fn stopped() -> (Arc<TempDir>, Vec<Event>, Vec<PathBuf>) {
    let mut server = Server::start(&["s1", "s2"], &config());
    let mut client = server.connect("s1");
    client.subscribe(0);
    let mut log = vec![client.event()];
    for _ in 0..8 {
        log.extend(client.turn("a b c d e f g h"));
    }
    client.cut();
    server.connect("s2").cut();
    server.signal("TERM");
    server.exit();
    let segments = files::segments(&server.data_dir(), "s1");
    assert!(segments.len() > 4, "{segments:?}");
    (server.folder(), log, segments)
}

/// Changes one letter of a segment's last word.
fn damage(segment: &Path) {
    let text = fs::read_to_string(segment).unwrap();
    let at = text.rfind("completed").or(text.rfind("assistant")).unwrap();
    let mut bytes = text.into_bytes();
    bytes[at] ^= 1;
    fs::write(segment, bytes).unwrap();
}

#[test]
fn whoever_attaches_to_a_damaged_session_is_told_the_way_out() {
    let (folder, _, segments) = stopped();
    damage(segments.last().unwrap());
    let server = Server::start_in(folder, &["s1", "s2"], &config());
    let url = format!("ws://{}/agents/s1/ws", server.addr());
    let arguments = ["attach", &url, "--token", &server::token("s1")];
    let output = answered(server.folder().path(), &arguments, "hello\n");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("terret-ws log repair"), "{said}");
    assert!(!said.contains("connecting again"), "{said}");
}

fn base(segment: &Path) -> u64 {
    segment.file_stem().unwrap().to_str().unwrap().parse().unwrap()
}

fn run(folder: &Path, arguments: &[&str], answer: &str) -> (Option<i32>, String) {
    let output = answered(folder, arguments, answer);
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn a_repair_shows_what_it_costs_asks_and_leaves_a_session_that_goes_on() {
    let (folder, log, segments) = stopped();
    let (bad, first) = (&segments[2], base(&segments[3]));
    damage(bad);
    let rotten = fs::read(bad).unwrap();
    let repair = ["log", "repair", "s1"];
    let (status, said) = run(folder.path(), &repair, "no\n");
    assert_eq!(status, Some(1), "{said}");
    let tip = log.last().unwrap().seq;
    for part in [
        format!("damaged: segment {:020}, line ", base(bad)),
        format!("would keep events {first} to {tip};"),
        format!("{} sound events", first - 1),
        "s1 was not repaired".to_owned(),
    ] {
        assert!(said.contains(&part), "{part:?} in {said}");
    }
    assert_eq!(fs::read(bad).unwrap(), rotten, "nothing was touched");
    let (status, said) = run(folder.path(), &repair, "yes\n");
    assert_eq!(status, Some(0), "{said}");
    let aside = bad.with_extension("jsonl.damaged");
    assert_eq!(fs::read(&aside).unwrap(), rotten);
    assert_eq!(fs::metadata(&aside).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(run(folder.path(), &["log", "verify"], "").0, Some(0));
    let (status, said) = run(folder.path(), &repair, "");
    assert_eq!((status, said.contains("nothing to repair")), (Some(0), true), "{said}");

    let server = Server::start_in(folder, &["s1", "s2"], &config());
    let (status, said) = run(server.folder().path(), &repair, "yes\n");
    assert_eq!(status, Some(75), "{said}");
    let mut client = server.connect("s1");
    assert_eq!(client.last_seq(), tip);
    client.subscribe(0);
    assert_eq!(client.frame()["from_seq"], first);
    assert_eq!(client.events_to(tip), log[first as usize..]);
    assert_eq!(client.turn("on").first().unwrap().seq, tip + 1);
}

#[test]
fn damage_in_the_last_file_is_cut_off_it() {
    let (folder, log, segments) = stopped();
    let last = segments.last().unwrap();
    damage(last);
    let rotten = fs::read(last).unwrap();
    let (status, said) = run(folder.path(), &["log", "repair", "s1", "--yes"], "");
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(fs::read(last.with_extension("jsonl.damaged")).unwrap(), rotten);
    let server = Server::start_in(folder, &["s1", "s2"], &config());
    let mut client = server.connect("s1");
    let tip = client.last_seq();
    assert!(tip < log.last().unwrap().seq);
    client.subscribe(0);
    assert_eq!(client.events_to(tip), log[..=tip as usize]);
    client.wake("on");
    assert_eq!(client.events_until("turn/end").first().unwrap().seq, tip + 1);
}

#[test]
fn what_cannot_be_read_is_named_blocks_nobody_and_hides_nobody_else() {
    type Spoil = fn(&Path);
    let fifo: Spoil = |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let folder: Spoil = |path| fs::create_dir(path).unwrap();
    let dangling: Spoil = |path| symlink("nowhere", path).unwrap();
    for (what, spoil) in [("fifo", fifo), ("folder", folder), ("dangling link", dangling)] {
        let (folder, log, segments) = stopped();
        fs::remove_file(&segments[1]).unwrap();
        spoil(&segments[1]);
        for (command, named) in [
            (
                &["log", "verify"][..],
                format!("s1: unreadable: segment {:020}: ", base(&segments[1])),
            ),
            (&["sessions"], "s1 cannot be read: ".to_owned()),
        ] {
            let output = server::run(folder.path(), command);
            let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert_eq!(output.status.code(), Some(1), "{what}, {command:?}: {said}");
            assert!(said.contains(&named), "{what}, {command:?}: {said}");
            assert!(said.contains("s2"), "{what}, {command:?}: {said}");
        }
        // The last segment is sound, so the session is served but for the hole.
        let mut server = Server::start_in(Arc::clone(&folder), &["s1", "s2"], &config());
        let mut client = server.connect("s1");
        let (from, tip) = (base(&segments[2]), client.last_seq());
        client.subscribe(from);
        assert_eq!(client.events_to(tip), log[from as usize..]);
        server.signal("TERM");
        server.exit();
        let (status, said) = run(folder.path(), &["log", "repair", "s1", "--yes"], "");
        assert_eq!(status, Some(0), "{what}: {said}");
        assert_eq!(run(folder.path(), &["log", "verify"], "").0, Some(0), "{what}");
    }
}

#[test]
fn an_inbox_that_is_no_file_refuses_its_session_and_holds_nobody() {
    let (folder, _log, segments) = stopped();
    let inbox = segments[0].with_file_name("inbox.jsonl");
    fs::remove_file(&inbox).ok();
    assert!(Command::new("mkfifo").arg(&inbox).status().unwrap().success());
    let (status, said) = run(folder.path(), &["log", "verify"], "");
    assert_eq!(status, Some(1));
    assert!(said.contains("s1: unreadable: inbox: it is not a regular file"), "{said}");
    let server = Server::start_in(folder, &["s1", "s2"], &json!({"workers": 2}));
    let mut client = crate::harness::Client::knock(server.addr(), "s1", Some(&server::token("s1")));
    assert_eq!(client.frame()["code"], "internal");
    let mut client = server.subscribed("s2");
    assert_eq!(client.turn("as ever").last().unwrap().payload["status"], "completed");
}
