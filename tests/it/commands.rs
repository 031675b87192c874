//! What people type: the commands that read, check, make and remove, and what they exit with.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Event, Server, files, server};

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A stopped server's folder with sessions `s1` (two turns) and `s2` (no turn), and the log of `s1`.
fn left_behind() -> (std::sync::Arc<TempDir>, Vec<Event>) {
    let mut server = Server::start(&["s1", "s2"], &json!({}));
    let mut client = server.connect("s1");
    client.subscribe(0);
    let mut log = client.turn("hello");
    log.extend(client.turn("again"));
    client.cut();
    server.connect("s2").cut();
    server.signal("TERM");
    server.exit();
    (server.folder(), log)
}

#[test]
fn log_prints_the_envelopes_from_the_files() {
    let (folder, log) = left_behind();
    let raw: Vec<&str> = log.iter().map(|event| event.raw.as_str()).collect();
    let lines = |arguments: &[&str]| {
        let output = server::run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", err(&output));
        out(&output).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&["log", "s1"]), raw);
    assert_eq!(lines(&["log", "s1", "--from", "3"]), raw[3..]);
    assert_eq!(lines(&["log", "s1", "--data-dir", "terret-data"]), raw);
    let ends: Vec<&str> = log
        .iter()
        .filter(|event| ["turn/start", "turn/end"].contains(&&*event.kind))
        .map(|event| event.raw.as_str())
        .collect();
    assert_eq!(lines(&["log", "s1", "--types", "turn/start,turn/end"]), ends);
    let missing = server::run(folder.path(), &["log", "nobody"]);
    assert_eq!(missing.status.code(), Some(1), "{}", err(&missing));
    assert!(err(&missing).contains("nobody"));
}

#[test]
fn log_verify_passes_what_is_whole_and_names_what_is_not() {
    let (folder, _log) = left_behind();
    for arguments in [&["log", "verify"][..], &["log", "verify", "s1"]] {
        let output = server::run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{}{}", out(&output), err(&output));
    }
    let segment = files::segments(&folder.path().join("terret-data"), "s1").pop().unwrap();
    let text = fs::read_to_string(&segment).unwrap();
    fs::write(&segment, text.replacen("hello", "jello", 1)).unwrap();
    let line = 1 + text.lines().position(|line| line.contains("hello")).unwrap();
    for arguments in [&["log", "verify"][..], &["log", "verify", "s1"]] {
        let output = server::run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(1));
        let said = out(&output) + &err(&output);
        let name = segment.file_stem().unwrap().to_str().unwrap();
        assert!(said.contains(name), "names the segment: {said}");
        assert!(said.contains(&line.to_string()), "names line {line}: {said}");
    }
    let output = server::run(folder.path(), &["log", "verify", "s2"]);
    assert_eq!(output.status.code(), Some(0), "the other session is whole");
}

#[test]
fn sessions_lists_what_lies_there() {
    let (folder, log) = left_behind();
    let output = server::run(folder.path(), &["sessions"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = out(&output);
    let row = |id: &str| {
        let found = text.lines().find(|line| line.split_whitespace().next() == Some(id));
        found.unwrap_or_else(|| panic!("no row for {id} in\n{text}")).to_owned()
    };
    assert!(row("s1").split_whitespace().any(|cell| cell == log.len().to_string()), "{text}");
    assert!(row("s2").split_whitespace().any(|cell| cell == "1"), "{text}");
}

#[test]
fn log_and_sessions_work_beside_a_running_server() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.connect("s1");
    client.subscribe(0);
    let log = client.turn("hello");
    let folder = server.folder();
    let output = server::run(folder.path(), &["log", "s1"]);
    assert_eq!(out(&output).lines().count(), log.len());
    for arguments in [&["log", "verify"][..], &["sessions"]] {
        let output = server::run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", err(&output));
    }
    let refused = answered(folder.path(), &["delete", "s1"], "yes\n");
    assert_eq!(refused.status.code(), Some(75), "{}", err(&refused));
    assert!(err(&refused).contains(&server.pid().to_string()), "{}", err(&refused));
    assert_eq!(client.turn("unharmed").last().unwrap().payload["status"], "completed");
}

/// Runs a command that asks before it acts.
pub(crate) fn answered(folder: &Path, arguments: &[&str], answer: &str) -> Output {
    let mut child = server::binary()
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that has already made up its mind does not read.
    let _unread = std::io::Write::write_all(&mut stdin, answer.as_bytes());
    drop(stdin);
    server::finish(child)
}

#[test]
fn delete_asks_before_it_acts() {
    let (folder, _log) = left_behind();
    let session = folder.path().join("terret-data/sessions/s1");
    for answer in ["", "n\n", "\n"] {
        answered(folder.path(), &["delete", "s1"], answer);
        assert!(session.exists(), "kept after {answer:?}");
    }
    let output = answered(folder.path(), &["delete", "s1"], "yes\n");
    assert_eq!(output.status.code(), Some(0), "{}{}", out(&output), err(&output));
    assert!(!session.exists());
    assert!(folder.path().join("terret-data/sessions/s2").exists());
    let output = answered(folder.path(), &["delete", "s1"], "yes\n");
    assert_eq!(output.status.code(), Some(1), "there is none");
}

#[test]
fn check_names_every_problem_with_its_path_and_line() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("config.json");
    let check = || server::run(folder.path(), &["check", "--config", "config.json"]);
    fs::write(&path, server::config(&["s1"], &json!({})).to_string()).unwrap();
    assert_eq!(check().status.code(), Some(0), "{}", err(&check()));
    let bad = "{\n  \"listen\": \"127.0.0.1:0\",\n  \"workers\": 1,\n  \"heartbeat\": 20,\n  \
               \"roles\": {\"main\": \"nosuch/m\"}\n}\n";
    fs::write(&path, bad).unwrap();
    let output = check();
    assert_eq!(output.status.code(), Some(1));
    let said = out(&output) + &err(&output);
    for (path, line) in [("workers", "3"), ("heartbeat", "4"), ("roles.main", "5")] {
        let named = said.lines().any(|row| row.contains(path) && row.contains(line));
        assert!(named, "{path} in line {line}:\n{said}");
    }
}

#[test]
fn token_makes_a_fresh_one_each_time() {
    let folder = TempDir::new().unwrap();
    let make = || out(&server::run(folder.path(), &["token", "s1"]));
    let (one, two) = (make(), make());
    assert_ne!(one, two);
    assert!(one.contains("s1"), "{one}");
}

#[test]
fn help_and_version_go_to_standard_output_and_nonsense_is_usage() {
    let folder = TempDir::new().unwrap();
    let run = |arguments: &[&str]| server::run(folder.path(), arguments);
    let version = out(&run(&["--version"]));
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    let help = run(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    for command in ["serve", "demo", "attach", "log", "sessions", "delete", "check", "token"] {
        assert!(out(&help).contains(command), "{command} in --help");
        let own = run(&[command, "--help"]);
        assert_eq!(own.status.code(), Some(0), "{command} --help: {}", err(&own));
        assert!(out(&own).contains(command), "{command} --help");
    }
    for nonsense in [
        &["frobnicate"][..],
        &["serve", "--frobnicate"],
        &["serve", "--config"],
        &["log"],
        &["log", "s1", "--from", "x"],
        &["token"],
        &["check"],
        &["log", "../escape"],
    ] {
        let output = run(nonsense);
        assert_eq!(output.status.code(), Some(2), "{nonsense:?}: {}", err(&output));
        assert!(!err(&output).is_empty() && output.stdout.is_empty(), "{nonsense:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "none of this leaves a trace");
}

#[test]
fn demo_shows_a_session_from_hello_to_the_end_of_its_last_turn() {
    let folder = TempDir::new().unwrap();
    let output = server::run(folder.path(), &["demo"]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let shown = out(&output);
    let mut rest = shown.as_str();
    for milestone in [
        // A session and a plain turn.
        ["hello", "subscribe", "session/created", "inject", "assistant/chunk", "turn/end"],
        // A parallel run under a policy.
        ["set_policy", "policy/updated", "tool/call", "tool/call", "tool/result", "tool/result"],
        // A parked call, a steer, and the yes.
        [
            "approval/requested",
            r#""wake":false"#,
            r#""approve""#,
            "approved",
            "tool/result",
            "context/injected",
        ],
        // A call that is denied.
        [
            "approval/requested",
            r#""deny""#,
            "denied",
            "send_mail denied",
            "assistant/message",
            "turn/end",
        ],
        // A turn that is cancelled.
        ["inject", "turn/start", "assistant/chunk", r#""cancel""#, "turn/end", "cancelled"],
    ]
    .concat()
    {
        let at = rest.find(milestone).unwrap_or_else(|| panic!("no {milestone} in\n{shown}"));
        rest = &rest[at + milestone.len()..];
    }
    assert_eq!(rest.matches("<-").count(), 0, "nothing behind the end of the last turn:\n{shown}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}
