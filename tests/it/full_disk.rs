//! No room for the log: nothing is lost, nothing is pretended, and the turn goes on by itself.
//!
//! Where a small disk can be mounted, a real one is filled. The kernel's limit on a file's size stands in
//! for it everywhere: a process can set that for itself.

use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;

use crate::harness::client::Event;
use crate::harness::client::{assert_gapless, kinds};
use crate::harness::small_disk::{Short, SmallDisk};
use crate::harness::{Client, Server, eventually, files, http, server};

/// A server whose files may grow to 64 KiB, with a script that says more than that.
fn cramped() -> Server {
    let folder = Arc::new(TempDir::new().unwrap());
    let chunks = vec!["x".repeat(1000); 100];
    let config = crate::harness::scripted(&json!([{"chunks": chunks, "chunk_delay_ms": 1}]));
    let text = server::config(&["s1"], &config).to_string();
    std::fs::write(folder.path().join("config.json"), text).unwrap();
    // The unit of `ulimit -f` is 512 bytes.
    let mut command = server::limited("ulimit -f 128");
    command.args(["serve", "--config", "config.json"]);
    Server::launch(command, folder)
}

fn expect_full(server: &Server) {
    eventually("healthz to say that the storage is full", || {
        let answer = http::get(server.addr(), "/healthz", None);
        (answer.status == 503 && answer.body.contains("storage full")).then_some(())
    });
}

#[test]
fn a_full_disk_is_said_and_survived() {
    let mut server = cramped();
    let mut client = server.subscribed("s1");
    client.wake("go");
    expect_full(&server);
    assert!(server.stderr().contains("storage full"), "an operator is told:\n{}", server.stderr());
    client.wake("more");
    assert!(client.error_after_events("internal").contains("storage full"));

    // Hello and replay work, and show nothing that is not on disk.
    let mut client = server.connect("s1");
    client.subscribe(0);
    let seen = client.events_to(client.last_seq());
    assert_gapless(&seen, 0, client.last_seq());
    let raw: Vec<&str> = seen.iter().map(|event| event.raw.as_str()).collect();
    assert_eq!(files::envelopes(&server.data_dir(), "s1"), raw);
    server.signal("TERM");
    assert_eq!(server.exit().code(), Some(0));

    // With room again: every event it was sent is there, and the turn goes on.
    let server = Server::start_in(server.folder(), &["s1"], &json!({}));
    let mut client = server.connect("s1");
    client.subscribe(0);
    let log = client.events_to(client.last_seq());
    assert_eq!(log[..seen.len()], seen);
    client.wake("again");
    let rest = client.events_until("turn/end");
    assert_gapless(&rest, log.len() as u64, log.len() as u64 + rest.len() as u64 - 1);
    assert_eq!(rest.last().unwrap().payload["status"], "completed");
}

#[test]
fn a_cancel_is_taken_even_then() {
    let server = cramped();
    let mut client = server.subscribed("s1");
    client.wake("go");
    expect_full(&server);
    client.cancel("no room");
    // It is logged later, when there is room; it must not be refused for want of it.
    client.send(&json!({"type": "no such frame"}));
    client.error_after_events("bad_frame");
}

/// Several agents at work on a disk that has just become full, each with a text it was told then.
struct Crowd {
    server: Server,
    clients: Vec<Client>,
    /// What each client has seen.
    logs: Vec<Vec<Event>>,
    disk: SmallDisk,
}

const CROWD: usize = 6;

fn name(number: usize) -> String {
    format!("s{number}")
}

impl Crowd {
    /// Nothing where no small disk can be mounted. An answer is longer than what may still fit in the
    /// last page of a file, and than a segment.
    fn on_full_disk(short: Short) -> Option<Self> {
        let folder = Arc::new(TempDir::new().unwrap());
        let disk = SmallDisk::mount(folder.path())?;
        let mut crowd = Self { server: Self::serve(folder), clients: vec![], logs: vec![], disk };
        for number in 0..CROWD {
            let mut client = crowd.server.connect(&name(number));
            client.subscribe(0);
            crowd.logs.push(client.turn("while there is room"));
            crowd.clients.push(client);
        }
        crowd.disk.fill(short);
        crowd.clients.iter_mut().for_each(|client| client.wake("go"));
        expect_full(&crowd.server);
        Some(crowd)
    }

    fn serve(folder: Arc<TempDir>) -> Server {
        let mut config = crate::harness::scripted(&json!([{"chunks": vec!["x".repeat(1000); 30]}]));
        config["log"] = json!({"segment_bytes": 50_000});
        let names: Vec<String> = (0..CROWD).map(name).chain(["new".to_owned()]).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Server::start_in(folder, &names, &config)
    }

    /// Tells every agent something more, which must be refused, and lets every client come back.
    fn expect_refusals(&mut self) {
        for number in 0..CROWD {
            let client = &mut self.clients[number];
            client.steer("refused");
            self.logs[number].extend(client.events_through_error("internal"));
            client.expect_close(1011);
            *client = self.server.connect(&name(number));
            self.come_back(number);
        }
    }

    /// Hello and replay show what was seen before, and nothing that is not in the files.
    fn come_back(&mut self, number: usize) {
        let client = &mut self.clients[number];
        client.subscribe(0);
        let log = client.events_to(client.last_seq());
        assert_eq!(log[..self.logs[number].len()], self.logs[number]);
        assert_gapless(&log, 0, client.last_seq());
        let raw: Vec<&str> = log.iter().map(|event| event.raw.as_str()).collect();
        assert_eq!(files::envelopes(&self.server.data_dir(), &name(number))[..raw.len()], raw);
        self.logs[number] = log;
    }

    /// Every turn comes to its end without a word.
    fn expect_ends(&mut self) {
        for (client, log) in self.clients.iter_mut().zip(&mut self.logs) {
            log.extend(client.events_until("turn/end"));
            assert_gapless(log, 0, log.len() as u64 - 1);
            let said: Vec<&str> = log
                .iter()
                .filter(|event| matches!(&*event.kind, "user/message" | "context/injected"))
                .map(Event::text)
                .collect();
            assert_eq!(said, ["while there is room", "go"]);
        }
        eventually("healthz to say that all is well", || {
            (http::get(self.server.addr(), "/healthz", None).status == 200).then_some(())
        });
    }
}

#[test]
fn when_a_real_disk_that_was_full_has_room_again_every_turn_goes_on_by_itself() {
    for short in [Short::Bytes, Short::Inodes] {
        let Some(mut crowd) = Crowd::on_full_disk(short) else { return };
        crowd.expect_refusals();
        // A session that is not there cannot be made.
        let mut newcomer = Client::knock(crowd.server.addr(), "new", Some(&server::token("new")));
        assert!(newcomer.expect_error("internal").contains("storage full"), "{short:?}");
        // A cancel is taken, and does its work when there is room to say so.
        crowd.clients[0].cancel("no room");
        crowd.clients[0].send(&json!({"type": "no such frame"}));
        crowd.clients[0].expect_error("bad_frame");
        crowd.disk.free();
        crowd.expect_ends();
        let ends: Vec<&str> = crowd
            .logs
            .iter()
            .map(|log| log.last().unwrap().payload["status"].as_str().unwrap())
            .collect();
        assert_eq!(ends[1..], ["completed"; CROWD - 1]);
        assert_eq!(crowd.server.connect("new").last_seq(), 0);
        crowd.server.signal("TERM");
        assert_eq!(crowd.server.exit().code(), Some(0));
        let verified = server::run(crowd.server.folder().path(), &["log", "verify"]);
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    }
}

#[test]
fn a_server_that_ends_on_a_full_real_disk_has_lost_nothing_that_was_seen() {
    for (short, signal) in [(Short::Bytes, "KILL"), (Short::Bytes, "TERM"), (Short::Inodes, "KILL")]
    {
        let Some(mut crowd) = Crowd::on_full_disk(short) else { return };
        crowd.expect_refusals();
        crowd.server.signal(signal);
        crowd.server.exit();
        // The next one starts on a disk that is still full, and serves what is there.
        crowd.server = Crowd::serve(crowd.server.folder());
        for number in 0..CROWD {
            crowd.clients[number] = crowd.server.connect(&name(number));
            crowd.come_back(number);
        }
        crowd.disk.free();
        for number in 0..CROWD {
            let client = &mut crowd.clients[number];
            // What nobody has seen is lost, the turn's first event perhaps among it.
            client.wake("again");
            let log = &mut crowd.logs[number];
            log.extend(client.events_until("turn/end"));
            assert_gapless(log, 0, log.len() as u64 - 1);
            assert_eq!(log.last().unwrap().payload["status"], "completed", "{:?}", kinds(log));
        }
    }
}
