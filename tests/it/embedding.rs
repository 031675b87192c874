//! The server inside another program: its own model, texts and resumes through a handle, a log sink,
//! and an end that is returned.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use terret_ws::client::{Client, Endpoint, Received};
use terret_ws::config::{Config, Token};
use terret_ws::model::custom::{Answer, Piece};
use terret_ws::model::{Model, Request};
use terret_ws::proto::command::Command;
use terret_ws::proto::ident::{ModelSpec, SessionId};
use terret_ws::server::{Builder, Handle, RunError, StartError};

/// Long enough that only a hang reaches it.
const HANG: Duration = Duration::from_secs(60);

/// Answers with the texts it was given, loudly; fails while it is told to.
struct Loud {
    fails: Arc<Mutex<bool>>,
}

impl Model for Loud {
    fn answer(&self, request: &Request<'_>, model: &str) -> Answer {
        if *self.fails.lock().expect("no panic") {
            return Box::new(std::iter::once(Err("no voice".to_owned())));
        }
        let text = format!("{model}: {}", request.fresh.join(" ").to_uppercase());
        Box::new(std::iter::once(Ok(Piece::Text(text))))
    }
}

struct Running {
    handle: Handle,
    endpoint: Endpoint,
    lines: Arc<Mutex<Vec<String>>>,
    fails: Arc<Mutex<bool>>,
    thread: thread::JoinHandle<Result<(), RunError>>,
    _dir: tempfile::TempDir,
}

fn session() -> SessionId {
    SessionId::parse("mine").expect("a valid id")
}

fn config(dir: &tempfile::TempDir) -> Config {
    let mut config = Config {
        listen: "127.0.0.1:0".parse().expect("an address"),
        data_dir: dir.path().join("data"),
        ..Config::default()
    };
    config.tokens.add(session(), Token::parse("secret").expect("a token"));
    config.roles.insert("main".to_owned(), ModelSpec::parse("loud/v1").expect("a model"));
    config
}

fn start() -> Running {
    let dir = tempfile::tempdir().expect("a directory");
    let (lines, fails) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(false)));
    let sink = Arc::clone(&lines);
    let server = Builder::new(config(&dir))
        .model("loud", Arc::new(Loud { fails: Arc::clone(&fails) }))
        .log(Box::new(move |notes| {
            let events = notes.iter().map(|note| note.event.to_owned());
            sink.lock().expect("no panic").extend(events);
        }))
        .bind()
        .expect("it starts");
    let handle = server.handle();
    let endpoint = Endpoint::of_agent(server.local_addr(), &session());
    let thread = thread::spawn(move || server.run());
    Running { handle, endpoint, lines, fails, thread, _dir: dir }
}

impl Running {
    /// A connection that is subscribed from `from` on.
    fn connect(&self, from_seq: u64) -> Client {
        let mut client = Client::connect(&self.endpoint, "secret").expect("it connects");
        let hello = text(&mut client);
        assert!(hello.starts_with("{\"type\":\"hello\""), "{hello}");
        client.send(&Command::Subscribe { from_seq }).expect("it is sent");
        client
    }

    fn stop(self) {
        self.handle.shutdown();
        self.thread.join().expect("no panic").expect("it was told to stop");
        let lines = self.lines.lock().expect("no panic");
        assert!(lines.iter().any(|line| line == "stopping"), "{lines:?}");
    }
}

fn text(client: &mut Client) -> String {
    match client.receive(Some(HANG)).expect("the connection stands") {
        Received::Text(text) => text,
        other => panic!("no frame but {other:?}"),
    }
}

/// Reads on to the event of this type.
fn until(client: &mut Client, kind: &str) -> String {
    loop {
        let frame = text(client);
        if frame.contains(&format!("\"type\":\"{kind}\"")) {
            return frame;
        }
    }
}

#[test]
fn a_handle_wakes_an_agent_whose_answer_comes_from_the_programs_own_model() {
    let running = start();
    running.handle.inject(session(), "hello".to_owned(), true);
    let mut client = running.connect(0);
    let message = until(&mut client, "assistant/message");
    assert!(message.contains(r#"{"type":"text","text":"v1: HELLO"}"#), "{message}");
    assert!(until(&mut client, "turn/end").contains("completed"));
    drop(client);
    running.stop();
}

#[test]
fn a_turn_that_its_model_failed_ends_failed_and_says_why() {
    let running = start();
    *running.fails.lock().expect("no panic") = true;
    let mut client = running.connect(0);
    client.send(&Command::Inject { text: "x".to_owned(), wake: true }).expect("it is sent");
    let end = until(&mut client, "turn/end");
    assert!(end.contains(r#"{"status":"failed","reason":"no voice"}"#), "{end}");
    drop(client);
    running.stop();
}

#[test]
fn a_resume_with_nothing_to_say_is_an_empty_turn_and_a_steer_waits_for_a_wake() {
    let running = start();
    let mut client = running.connect(0);
    assert!(text(&mut client).contains("session/created"));
    running.handle.resume(session());
    running.handle.inject(session(), "steer".to_owned(), false);
    running.handle.inject(session(), "wake".to_owned(), true);
    let start = text(&mut client);
    assert!(start.contains("\"type\":\"turn/start\""), "{start}");
    let end = text(&mut client);
    assert!(end.contains(r#""type":"turn/end","payload":{"status":"empty"}"#), "{end}");
    for kind in ["turn/start", "step/start", "user/message", "context/injected"] {
        let frame = text(&mut client);
        assert!(frame.contains(&format!("\"type\":\"{kind}\"")), "{frame} is no {kind}");
    }
    drop(client);
    running.stop();
}

#[test]
fn two_servers_do_not_share_a_data_directory_or_a_port() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = Builder::new(config(&dir)).bind().expect("it starts");
    let locked = Builder::new(config(&dir)).bind().err().expect("it is locked");
    let pid = std::process::id();
    assert!(matches!(&locked, StartError::Locked { pid: Some(holder), .. } if *holder == pid));
    assert!(locked.to_string().contains(&pid.to_string()), "{locked}");

    let other = tempfile::tempdir().expect("a directory");
    let mut taken = config(&other);
    taken.listen = first.local_addr();
    let in_use = Builder::new(taken).bind().err().expect("it is in use");
    assert!(matches!(in_use, StartError::AddressInUse(address) if address == first.local_addr()));
}
