//! The program as a function: words in, status and streams out.

use std::fs;
use std::io::{self, BufRead, BufReader, Cursor, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use super::*;
use crate::client::{Client, Endpoint, Received, ServerFrame};
use crate::config::{Config, Tokens};
use crate::server::Builder;

/// A stream that can be looked at.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Status, standard output and standard error.
fn run_with(words: &[&str], stdin: &str) -> (Status, String, String) {
    run_reading(words, Cursor::new(stdin.to_owned()))
}

fn run_reading(words: &[&str], stdin: impl BufRead + Send + 'static) -> (Status, String, String) {
    let (stdout, stderr) = (Kept::default(), Kept::default());
    let world = World {
        process: 2,
        program: "terret-ws".to_owned(),
        env: Arc::new(|name| (name == "KEY").then(|| "canary".to_owned())),
        stdin: Box::new(stdin),
        stdin_is_terminal: false,
        stdout: Output::new(stdout.clone()),
        stdout_is_terminal: false,
        stderr: Output::new(stderr.clone()),
    };
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let status = run(&words, world);
    (status, stdout.text(), stderr.text())
}

fn run_words(words: &[&str]) -> (Status, String, String) {
    run_with(words, "")
}

fn path_in(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}

#[test]
fn help_and_version_go_to_standard_output() {
    for words in [&["--help"][..], &["serve", "--help"], &["log", "verify", "--help"], &["-V"]] {
        let (status, out, err) = run_words(words);
        assert_eq!((status, err.as_str()), (Status::Fine, ""), "{words:?}");
        assert!(out.starts_with("terret-ws"), "{out}");
    }
}

#[test]
fn what_cannot_be_understood_is_one_line_and_status_2() {
    let (status, out, err) = run_words(&["sreve"]);
    assert_eq!((status, out.as_str()), (Status::Usage, ""));
    assert_eq!(err, "terret-ws: there is no command `sreve`; see terret-ws --help\n");
}

#[test]
fn statuses_are_those_of_the_interface() {
    let codes = [
        Status::Fine,
        Status::Bad,
        Status::Usage,
        Status::AddressInUse,
        Status::DiskFailed,
        Status::Locked,
    ]
    .map(Status::code);
    assert_eq!(codes, [0, 1, 2, 69, 74, 75]);
}

#[test]
fn two_tokens_differ_and_come_with_their_line() {
    let (_, first, _) = run_words(&["token", "s1"]);
    let (status, second, _) = run_words(&["token", "s1"]);
    assert_eq!(status, Status::Fine);
    assert_ne!(first, second);
    let (token, entry) = second.trim_end().split_once('\n').unwrap();
    assert_eq!(entry, format!("\"s1\": \"{token}\""));
    assert!(crate::config::Token::parse(token).is_some());
}

#[test]
fn check_names_every_problem_and_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let config = path_in(dir.path(), "c.json");
    fs::write(&config, "{\"tokens\": {\"s1\": \"can ary\"},\n\"heartbeat_s\": 0}").unwrap();
    let (status, out, err) = run_words(&["check", "--config", &config]);
    assert_eq!((status, err.as_str()), (Status::Bad, ""));
    assert_eq!(
        out,
        format!(
            "{config}:1: tokens.s1: expected a token of 1 to 1024 visible ASCII characters\n\
             {config}:2: heartbeat_s: expected a whole number from 1 to 31536000\n"
        )
    );

    fs::write(&config, r#"{"tokens_file": "t.json"}"#).unwrap();
    fs::write(dir.path().join("t.json"), "{\n\"s1\": [\"a\", 7]}").unwrap();
    let (status, out, _) = run_words(&["check", "--config", &config]);
    assert_eq!(status, Status::Bad);
    assert!(out.contains("t.json:2: s1[1]: expected a token"), "{out}");

    fs::write(dir.path().join("t.json"), r#"{"s1": "a"}"#).unwrap();
    let (status, out, err) = run_words(&["check", "--config", &config]);
    assert_eq!((status, err.as_str()), (Status::Fine, ""));
    assert_eq!(out, format!("{config}: no problem found\n"));
}

#[test]
fn a_server_with_a_bad_configuration_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let config = path_in(dir.path(), "c.json");
    fs::write(&config, r#"{"listen": "canary"}"#).unwrap();
    let (status, out, err) = run_words(&["serve", "--config", &config]);
    assert_eq!((status, out.as_str()), (Status::Bad, ""));
    assert!(err.starts_with(&format!("{config}:1: listen: expected an address")), "{err}");
    assert!(err.ends_with("terret-ws: not started: put the configuration right\n"), "{err}");
    assert!(!err.contains("canary"), "{err}");
    assert!(!dir.path().join("terret-data").exists());
}

/// The types of the frames that `demo` shows, each with its arrow.
fn shown_by_demo(out: &str) -> Vec<String> {
    let frames = out.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    let kind = |line: &str| {
        let (arrow, frame) = line.split_once(' ').unwrap();
        let (_, kind) = frame.split_once("\"type\":\"").unwrap();
        format!("{arrow} {}", kind.split('"').next().unwrap())
    };
    frames.map(kind).collect()
}

#[test]
fn demo_shows_every_turn_of_one_session_frame_by_frame() {
    let (status, out, err) = run_words(&["demo"]);
    assert_eq!((status, err.as_str()), (Status::Fine, ""), "{out}");
    assert_eq!(
        shown_by_demo(&out),
        [
            &["<- hello", "-> subscribe", "<- session/created"][..],
            // A plain turn.
            &["-> inject", "<- turn/start", "<- step/start", "<- user/message"],
            &["<- assistant/chunk", "<- assistant/chunk", "<- assistant/message"],
            &["<- step/end", "<- turn/end"],
            &["-> set_policy", "<- policy/updated"],
            // A parallel run.
            &["-> inject", "<- turn/start", "<- step/start", "<- user/message"],
            &["<- assistant/chunk", "<- assistant/message", "<- tool/call", "<- tool/call"],
            &["<- tool/result", "<- tool/result", "<- step/end"],
            // A parked call, approved, and a steer that the step behind it takes in.
            &["<- step/start", "<- assistant/chunk", "<- assistant/message", "<- tool/call"],
            &["<- approval/requested", "-> inject", "-> approve", "<- approval/resolved"],
            &["<- tool/result", "<- step/end", "<- step/start", "<- context/injected"],
            // One that is denied.
            &["<- assistant/chunk", "<- assistant/message", "<- tool/call"],
            &["<- approval/requested", "-> deny", "<- approval/resolved", "<- tool/result"],
            &["<- step/end", "<- step/start", "<- assistant/chunk", "<- assistant/message"],
            &["<- step/end", "<- turn/end"],
            // A cancelled turn.
            &["-> inject", "<- turn/start", "<- step/start", "<- user/message"],
            &["<- assistant/chunk", "-> cancel", "<- assistant/message", "<- step/end"],
            &["<- turn/end"],
        ]
        .concat()
    );
    assert_eq!(out.matches("\"status\":\"completed\"").count(), 2, "{out}");
    assert!(out.contains(r#"{"status":"cancelled","reason":"time to go"}"#), "{out}");
    assert!(out.contains(r#""error":"send_mail denied: I will call him""#), "{out}");
    assert!(!out.contains('\x1b'), "no colours but on a terminal");
}

#[test]
fn nobody_to_attach_to_is_told_with_what_to_do() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("ws://{address}/agents/a/ws");
    let (status, _, err) = run_words(&["attach", &url, "--token", "canary"]);
    assert_eq!(status, Status::Bad);
    assert_eq!(
        err,
        format!(
            "terret-ws: nothing listens on {address}: start `terret-ws serve`, or give the URL of a \
             server\n"
        )
    );
}

#[test]
fn sessions_that_are_not_there_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().to_str().unwrap();
    for words in [
        &["log", "s1"][..],
        &["log", "verify", "s1"],
        &["log", "repair", "s1", "--yes"],
        &["delete", "s1", "--yes"],
    ] {
        let words: Vec<&str> = words.iter().copied().chain(["--data-dir", data_dir]).collect();
        let (status, out, err) = run_words(&words);
        assert_eq!((status, out.as_str()), (Status::Bad, ""), "{words:?}");
        assert!(err.starts_with("terret-ws: there is no session s1 in "), "{err}");
    }
}

#[test]
fn nothing_is_deleted_without_a_yes() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().to_str().unwrap();
    let words = ["delete", "s1", "--data-dir", data_dir];
    let (status, _, err) = run_with(&words, "yes\n");
    assert_eq!(status, Status::Bad);
    assert!(err.starts_with("terret-ws: there is no session s1 in "), "not asked about: {err}");
    fs::create_dir_all(dir.path().join("sessions/s1")).unwrap();
    for answer in ["", "no\n", "yess\n"] {
        let (status, _, err) = run_with(&words, answer);
        assert_eq!(status, Status::Bad);
        assert!(err.ends_with("terret-ws: s1 was not deleted\n"), "{err}");
    }
    assert!(dir.path().join("sessions/s1").exists());
}

/// Runs `client` beside a server that has one agent, `a`, and gives it the URL of its socket.
fn beside_a_server<T: Send>(client: impl FnOnce(&str) -> T + Send) -> T {
    let dir = tempfile::tempdir().unwrap();
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        data_dir: dir.path().to_owned(),
        tokens: Tokens::parse(r#"{"a": "secret"}"#).unwrap(),
        ..Config::default()
    };
    let server = Builder::new(config).bind().unwrap();
    let (url, handle) = (format!("ws://{}/agents/a/ws", server.local_addr()), server.handle());
    thread::scope(|scope| {
        let client = scope.spawn(move || {
            let result = client(&url);
            handle.shutdown();
            result
        });
        server.run().unwrap();
        client.join().unwrap()
    })
}

#[test]
fn attach_sends_what_is_piped_in_and_leaves_when_the_turn_is_over() {
    let (status, out, err) = beside_a_server(|url| {
        run_with(&["attach", url, "--token", "secret"], "good morning\n/policy get_*\n")
    });
    assert_eq!((status, err.as_str()), (Status::Fine, ""));
    // The policy is answered whenever the turn lets it in: before the answer, or behind it.
    assert!(out.contains("> good morning\n"), "{out}");
    assert!(out.contains("\ngood morning\n-- completed\n"), "{out}");
    assert!(out.contains("-- policy: get_*\n"), "{out}");
}

#[test]
fn attach_prints_frames_as_they_are() {
    let (status, out, _) =
        beside_a_server(|url| run_with(&["attach", url, "--token", "secret", "--json"], "hi"));
    assert_eq!(status, Status::Fine);
    let frames: Vec<ServerFrame> =
        out.lines().map(|line| ServerFrame::parse(line).expect(line)).collect();
    assert!(matches!(frames[0], ServerFrame::Hello { .. }), "{out}");
    let seqs: Vec<u64> = frames
        .iter()
        .filter_map(|frame| match frame {
            ServerFrame::Event { seq, .. } => Some(*seq),
            _ => None,
        })
        .collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
}

#[test]
fn attach_says_that_something_was_refused() {
    let (status, out, err) =
        beside_a_server(|url| run_with(&["attach", url, "--token", "secret"], "/cancel\n"));
    assert_eq!(status, Status::Bad);
    assert!(out.contains("!! not_running: "), "{out}");
    assert_eq!(err, "terret-ws: not everything that was sent was done; see above\n");
}

#[test]
fn attach_stops_for_good_when_its_token_is_refused_or_another_takes_over() {
    let (status, out, err) =
        beside_a_server(|url| run_with(&["attach", url, "--token", "canary"], "hi\n"));
    assert_eq!((status, out.as_str()), (Status::Bad, ""));
    assert!(err.starts_with("terret-ws: unauthorized: "), "{err}");
    assert!(!err.contains("canary"), "{err}");

    // A spectator, who stays while something may still be piped in, and somebody who takes over
    // once it is there.
    let (silence, _open) = io::pipe().unwrap();
    let (status, _, err) = beside_a_server(|url| {
        let endpoint = Endpoint::parse(url).unwrap();
        thread::scope(|scope| {
            let spectator = scope.spawn(|| {
                run_reading(&["attach", url, "--token", "secret"], BufReader::new(silence))
            });
            let mut taking_over = Vec::new();
            while !spectator.is_finished() {
                let mut client = Client::connect(&endpoint, "secret").unwrap();
                let hello = client.receive(None).unwrap();
                assert!(matches!(hello, Received::Text(_)), "{hello:?}");
                taking_over.push(client);
                // The spectator may come between two of these; the next then takes over from it.
                thread::sleep(std::time::Duration::from_millis(50));
            }
            spectator.join().unwrap()
        })
    });
    assert_eq!(status, Status::Bad);
    assert!(err.contains("superseded: another client took over"), "{err}");
}
