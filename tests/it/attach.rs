//! The terminal client, driven through pipes: what it shows, what it takes, when it gives up.

use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::provider::Provider;
use crate::harness::server::{binary, collect};
use crate::harness::{Server, eventually, scripted, token};

/// A running `attach`; dropping it kills exactly this process.
struct Attach {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
}

impl Attach {
    fn spawn(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command: Command = binary();
        command.arg("attach").args(arguments).envs(environment.iter().copied());
        command.current_dir(folder).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = collect(child.stdout.take().unwrap());
        let stderr = collect(child.stderr.take().unwrap());
        Self { child, stdin, stdout, stderr }
    }

    /// Attaches to `session` by its address.
    fn to(server: &Server, session: &str, more: &[&str]) -> Self {
        let url = format!("ws://{}/agents/{session}/ws", server.addr());
        let token = token(session);
        let arguments = [&[url.as_str(), "--token", token.as_str()], more].concat();
        Self::spawn(server.folder().path(), &arguments, &[])
    }

    fn type_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Attaches with `text` piped in, and nothing behind it.
    fn piped(server: &Server, session: &str, text: &str) -> Self {
        Self::piped_with(server, session, text, &[])
    }

    fn piped_with(server: &Server, session: &str, text: &str, more: &[&str]) -> Self {
        let mut attach = Self::to(server, session, more);
        attach.type_line(text);
        attach.stdin = None;
        attach
    }

    /// Waits until `text` has been shown on either stream.
    fn expect_shown(&self, text: &str) {
        eventually(&format!("`{text}` on the screen of attach"), || {
            let shown = self.stdout.lock().unwrap().contains(text);
            let noted = self.stderr.lock().unwrap().contains(text);
            (shown || noted).then_some(())
        });
    }

    fn exit_code(&mut self) -> Option<i32> {
        eventually("the end of attach", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Attach {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
        if std::thread::panicking() {
            eprintln!("-- attach showed:\n{}", self.stdout.lock().unwrap());
            eprintln!("-- attach noted:\n{}", self.stderr.lock().unwrap());
        }
    }
}

#[test]
fn the_line_that_serve_shows_attaches_and_talks() {
    let folder = Arc::new(TempDir::new().unwrap());
    let mut command = binary();
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    let server = Server::launch(command, Arc::clone(&folder));
    let line = eventually("the attach command", || {
        let text = server.stderr();
        text.lines().find(|line| line.contains("attach ")).map(str::to_owned)
    });
    // Pasted as it is, but for the name of the binary.
    let pasted: Vec<&str> = line.split("attach ").nth(1).unwrap().split_whitespace().collect();
    let mut attach = Attach::spawn(folder.path(), &pasted, &[]);
    attach.type_line("good morning to you");
    attach.expect_shown("good morning to you");
    attach.type_line("/quit");
    assert_eq!(attach.exit_code(), Some(0));
}

#[test]
fn the_token_may_come_from_the_environment() {
    let server = Server::start(&["s1"], &json!({}));
    let url = format!("ws://{}/agents/s1/ws", server.addr());
    let mut attach =
        Attach::spawn(server.folder().path(), &[&url], &[("TERRET_TOKEN", &token("s1"))]);
    attach.type_line("from the environment");
    attach.expect_shown("from the environment");
    attach.type_line("/quit");
    assert_eq!(attach.exit_code(), Some(0));
}

#[test]
fn with_json_the_frames_are_shown_as_they_are() {
    let server = Server::start(&["s1"], &json!({}));
    let mut attach = Attach::to(&server, "s1", &["--json"]);
    attach.type_line("hello");
    attach.expect_shown("turn/end");
    attach.type_line("/quit");
    assert_eq!(attach.exit_code(), Some(0));
    let mut client = server.connect("s1");
    client.subscribe(0);
    let log = client.events_to(client.last_seq());
    let shown = attach.stdout.lock().unwrap().clone();
    let values: Vec<Value> =
        shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values[0]["type"], "hello");
    for event in log {
        assert!(shown.lines().any(|line| line == event.raw), "{} in\n{shown}", event.raw);
    }
}

#[test]
fn steers_cancels_models_and_policies_are_typed() {
    let provider = Provider::start();
    let server = Server::start(&["s1"], &provider.config(&json!({})));
    let mut attach = Attach::to(&server, "s1", &[]);
    attach.type_line("/steer a word in passing");
    attach.type_line("begin");
    let ask = provider.ask();
    let said = ask.contents("user").join("\n");
    assert!(said.contains("begin") && said.contains("a word in passing"), "{said}");
    attach.type_line("/cancel enough of it");
    attach.expect_shown("enough of it");
    ask.expect_hang_up();
    attach.type_line("/policy get_* set_?");
    attach.expect_shown("policy: get_* set_?");
    // Nothing behind it is a question, not an empty list.
    attach.type_line("/policy");
    attach.expect_shown("allowed: get_* set_?;");
    attach.type_line("/model main echo/echo");
    attach.type_line("the last words");
    attach.expect_shown("the last words");
    attach.type_line("/quit");
    assert_eq!(attach.exit_code(), Some(0));
    assert_eq!(server.state("s1")["policy"], json!(["get_*", "set_?"]));
}

#[test]
fn it_comes_back_by_itself_and_shows_nothing_twice() {
    let mut server = Server::start(&["s1"], &json!({}));
    let address = server.addr().to_string();
    let mut attach = Attach::to(&server, "s1", &["--json"]);
    attach.type_line("before");
    attach.expect_shown("turn/end");
    server.kill();
    let server = Server::start_in(server.folder(), &["s1"], &json!({"listen": address}));
    // What is typed while there is no connection is the client's to keep or to refuse; this waits
    // for the connection and for the answer.
    server.expect_connected("s1", true);
    attach.type_line("afterwards");
    attach.expect_shown("afterwards");
    eventually("the end of the second turn", || {
        (attach.stdout.lock().unwrap().matches("turn/end").count() >= 2).then_some(())
    });
    attach.type_line("/quit");
    assert_eq!(attach.exit_code(), Some(0));
    let shown = attach.stdout.lock().unwrap().clone();
    let seqs: Vec<u64> = shown
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["seq"].as_u64())
        .collect();
    assert_eq!(seqs, (seqs[0]..seqs[0] + seqs.len() as u64).collect::<Vec<_>>());
}

#[test]
fn it_stops_for_good_when_superseded_or_unauthorized() {
    let server = Server::start(&["s1"], &json!({}));
    let mut attach = Attach::to(&server, "s1", &[]);
    server.expect_connected("s1", true);
    let mut newer = server.subscribed("s1");
    attach.expect_shown("superseded");
    assert_ne!(attach.exit_code(), Some(0));
    assert_eq!(newer.turn("mine now").last().unwrap().payload["status"], "completed");

    let url = format!("ws://{}/agents/s1/ws", server.addr());
    let mut refused = Attach::spawn(server.folder().path(), &[&url, "--token", "wrong"], &[]);
    refused.expect_shown("unauthorized");
    assert_ne!(refused.exit_code(), Some(0));
}

#[test]
fn text_piped_into_a_turn_that_cannot_be_resumed_ends_with_the_reason() {
    let provider = Provider::start();
    let config = provider.config(&json!({}));
    let mut server = Server::start(&["s1"], &config);
    server.subscribed("s1").wake("first");
    let _ask = provider.ask();
    server.kill();
    let server = Server::start_in(server.folder(), &["s1"], &config);
    let mut attach = Attach::piped(&server, "s1", "second");
    provider.ask().refuse("400 Bad Request", "", "no model of that name");
    attach.expect_shown("no model of that name");
    assert_eq!(attach.exit_code(), Some(1));
    let mut attach = Attach::piped(&server, "s1", "third");
    provider.ask().answer("Here I am.");
    assert_eq!(attach.exit_code(), Some(0));
}

#[test]
fn text_piped_into_a_parked_turn_ends_with_what_to_type() {
    let call = json!({"id": "c1", "name": "true", "args": {"all": "of it"}});
    let mut config = scripted(&json!([{"tool_calls": [call]}, {"text": "Done."}]));
    config["approvals"] = json!(true);
    config["policy"] = json!(["*"]);
    config["tools"] = json!([{"name": "true", "command": ["true"], "approval": "always"}]);
    let server = Server::start(&["s1"], &config);
    // Also from behind the request, which is not replayed then.
    for arguments in [&[][..], &[], &["--from", "1000"]] {
        let mut attach = Attach::piped_with(&server, "s1", "go on", arguments);
        attach.expect_shown("/approve");
        attach.expect_shown("c1");
        assert_eq!(attach.exit_code(), Some(1), "{arguments:?}");
    }
    let mut attach = Attach::piped(&server, "s1", "/approve c1");
    assert_eq!(attach.exit_code(), Some(0));
    attach.expect_shown("Done.");
}

#[test]
fn a_piped_verdict_is_about_the_call_that_history_leaves_parked() {
    for (line, arguments) in [
        ("/approve", &[][..]),
        ("/approve c1", &[]),
        ("/approve c1", &["--from", "1000"]),
        ("/deny", &["--from", "1000"]),
    ] {
        let provider = Provider::start();
        let mut config = provider.config(&json!({}));
        config["approvals"] = json!(true);
        config["policy"] = json!(["*"]);
        config["tools"] = json!([{"name": "true", "command": ["true"], "approval": "always"}]);
        let server = Server::start(&["s1"], &config);
        let mut parked = Attach::piped(&server, "s1", "begin");
        provider.ask().call(&[("c1", "true", "{}")]);
        assert_eq!(parked.exit_code(), Some(1));
        let mut attach = Attach::piped_with(&server, "s1", line, arguments);
        // It is still there when the turn goes on.
        provider.ask().answer("Here is the end.");
        assert_eq!(attach.exit_code(), Some(0), "{line} {arguments:?}");
        attach.expect_shown("Here is the end.");
    }
}

#[test]
fn an_old_failure_is_not_that_of_the_text_piped_in_now() {
    let provider = Provider::start();
    let server = Server::start(&["s1"], &provider.config(&json!({})));
    let mut first = Attach::piped(&server, "s1", "first");
    provider.ask().refuse("400 Bad Request", "", "no model of that name");
    assert_eq!(first.exit_code(), Some(1));
    let mut second = Attach::piped(&server, "s1", "second");
    provider.ask().answer("All is well.");
    assert_eq!(second.exit_code(), Some(0));
    second.expect_shown("All is well.");
}

#[test]
fn with_nothing_said_it_exits_when_no_turn_is_open() {
    let provider = Provider::start();
    let server = Server::start(&["s1"], &provider.config(&json!({})));
    let arguments = [&[][..], &["--from", "1000"]];
    for (line, code) in [("", 0), ("/policy", 0), ("/approve", 1), ("/no such", 1)] {
        for more in arguments {
            let mut attach = Attach::piped_with(&server, "s1", line, more);
            assert_eq!(attach.exit_code(), Some(code), "{line} {more:?}");
        }
    }
    for more in arguments {
        let mut client = server.subscribed("s1");
        client.wake("begin");
        let ask = provider.ask();
        client.cut();
        server.expect_connected("s1", false);
        let mut attach = Attach::piped_with(&server, "s1", "", more);
        server.expect_connected("s1", true);
        ask.answer("And that was all.");
        attach.expect_shown("And that was all.");
        assert_eq!(attach.exit_code(), Some(0), "{more:?}");
    }
}
