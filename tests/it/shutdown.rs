//! How a server stops, and how it refuses to start where another one is at work.

use std::fs;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::harness::provider::Provider;
use crate::harness::wire::Wire;
use crate::harness::{Received, Server, server, token};

#[test]
fn sigterm_closes_clients_with_1001_and_exits_0() {
    for name in ["TERM", "INT"] {
        let mut server = Server::start(&["s1", "s2"], &json!({}));
        let mut one = server.subscribed("s1");
        let two = server.connect("s2");
        one.turn("hello");
        server.signal(name);
        for mut client in [one, two] {
            client.expect_close(1001);
        }
        assert_eq!(server.exit().code(), Some(0), "{name}");
        assert_eq!(server.stdout().lines().count(), 1, "one line on standard output");
    }
}

#[test]
fn a_terminal_that_closes_takes_a_server_without_a_configuration_with_it() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let mut command = server::binary();
    command.args(["serve", "--listen", "127.0.0.1:0"]).current_dir(folder.path());
    let mut server = Server::launch(command, folder);
    server.signal("HUP");
    assert_eq!(server.exit().code(), Some(0));
}

#[test]
fn sigterm_does_not_wait_for_a_client_that_takes_nothing() {
    let mut server = Server::start(&["s1"], &json!({}));
    let mut deaf = Wire::open(server.addr(), "s1", &token("s1"));
    let _silent = Wire::connect(server.addr());
    server.signal("TERM");
    assert_eq!(server.exit().code(), Some(0));
    assert_eq!(deaf.next_data().close_code(), Some(1001));
}

#[test]
fn a_turn_in_progress_stays_open_and_resumes_on_its_next_stimulus() {
    let provider = Provider::start();
    let config = provider.config(&json!({}));
    let mut server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.wake("first");
    let mut ask = provider.ask();
    ask.open();
    ask.text("half of ");
    let mut log = client.events_until("assistant/chunk");
    server.signal("TERM");
    assert_eq!(client.receive(), Received::Closed(Some(1001)));
    assert_eq!(server.exit().code(), Some(0));

    let server = Server::start_in(server.folder(), &["s1"], &config);
    let mut client = server.connect("s1");
    client.subscribe(1);
    let replayed: Vec<_> = log.iter().map(|_| client.event()).collect();
    assert_eq!(replayed, log);
    assert!(provider.is_asked().is_none(), "an open turn waits for a stimulus");
    client.wake("second");
    provider.ask().answer("Whole.");
    log.extend(client.events_until("turn/end"));
    crate::restart::expect_one_resumed_turn(&log, &["first", "second"]);
}

#[test]
fn with_grace_a_running_step_may_finish() {
    let provider = Provider::start();
    let mut config = provider.config(&json!({}));
    config["stop_grace_s"] = json!(50);
    let mut server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.wake("go");
    let mut ask = provider.ask();
    ask.open();
    ask.text("almost ");
    client.events_until("assistant/chunk");
    server.signal("TERM");
    crate::harness::eventually("a server that says it is stopping", || {
        // Refused, or 503: either way nobody new is let in.
        std::net::TcpStream::connect(server.addr()).is_err().then_some(())
    });
    ask.text("there");
    ask.end();
    let rest = client.events_until("turn/end");
    assert_eq!(rest.last().unwrap().payload["status"], "completed");
    client.expect_close(1001);
    assert_eq!(server.exit().code(), Some(0));
}

#[test]
fn a_second_signal_exits_at_once() {
    let provider = Provider::start();
    let mut config = provider.config(&json!({}));
    config["stop_grace_s"] = json!(3600);
    let mut server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.wake("go");
    let _never_answered = provider.ask();
    server.signal("TERM");
    crate::harness::eventually("a server that no longer accepts", || {
        std::net::TcpStream::connect(server.addr()).is_err().then_some(())
    });
    server.signal("TERM");
    server.exit();
}

#[test]
fn a_second_process_on_the_directory_exits_75_and_names_the_first() {
    let mut server = Server::start(&["s1"], &json!({}));
    server.connect("s1");
    let folder = server.folder();
    // By the time the next job of the agent answers, the one that made its session has rested.
    server.state("s1");
    let before = listing(&server);
    let second = server::run(folder.path(), &["serve", "--config", "config.json"]);
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(75), "{said}");
    assert!(said.contains(&server.pid().to_string()), "{said}");
    assert_eq!(second.stdout, b"", "it never says that it listens");
    assert_eq!(listing(&server), before, "and writes nothing");

    // After kill -9 of the first it may start.
    server.kill();
    Server::start_in(folder, &["s1"], &json!({})).connect("s1");
}

#[test]
fn a_lock_that_a_dead_server_left_to_a_child_for_a_moment_is_waited_for() {
    let mut server = Server::start(&["s1"], &json!({}));
    server.kill();
    let lock = fs::File::open(server.data_dir().join("LOCK")).unwrap();
    lock.lock().unwrap();
    // The pause lets the next server find the lock held, as a rule; it holds either way.
    let moment = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        drop(lock);
    });
    Server::start_in(server.folder(), &["s1"], &json!({})).connect("s1");
    moment.join().unwrap();
}

/// Every file of the data directory with its length.
fn listing(server: &Server) -> Vec<(String, u64)> {
    let mut folders = vec![server.data_dir()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                folders.push(entry.path());
            }
            found.push((entry.path().display().to_string(), metadata.len()));
        }
    }
    found.sort();
    found
}

#[test]
fn an_address_in_use_exits_69() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::TempDir::new().unwrap();
    let output = server::run(folder.path(), &["serve", "--listen", &address]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(said.contains(&address), "{said}");
    assert_eq!(output.stdout, b"");
}

#[test]
fn a_config_that_is_wrong_is_refused_before_anything_is_made() {
    let folder = tempfile::TempDir::new().unwrap();
    fs::write(folder.path().join("config.json"), r#"{"listne": "127.0.0.1:0"}"#).unwrap();
    let output = server::run(folder.path(), &["serve", "--config", "config.json"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_ne!(output.status.code(), Some(0));
    assert!(said.contains("listne"), "{said}");
    assert!(!folder.path().join("terret-data").exists());
}
