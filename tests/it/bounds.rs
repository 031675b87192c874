//! What a client can make grow has an end, and reaching it is an answer and not an accident.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::harness::wire::{CONTINUATION, PING, TEXT, Wire, handshake, masked};
use crate::harness::{Client, Server, eventually, token};

#[test]
fn a_full_inbox_refuses_the_next_text_and_loses_none() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.subscribed("s1");
    for n in 0..1025 {
        client.queue(&json!({"type": "inject", "text": n.to_string()}));
    }
    client.flush();
    assert!(client.expect_error("bad_frame").contains("inbox full"));
    let turn = client.turn("now");
    let injected: Vec<String> = turn
        .iter()
        .filter(|event| event.kind == "context/injected")
        .map(|event| event.text().to_owned())
        .collect();
    // The wake itself found the inbox full or not; what was accepted before is there, in order.
    assert_eq!(injected, (0..1024).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn an_inbox_is_full_by_its_bytes_too() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.subscribed("s1");
    let large = "x".repeat(1_000_000);
    for _ in 0..9 {
        client.steer(&large);
    }
    assert!(client.expect_error("bad_frame").contains("inbox full"));
    let turn = client.turn("now");
    let injected = turn.iter().filter(|event| event.kind == "context/injected").count();
    assert_eq!(injected, 8, "8 MiB hold eight of these");
}

#[test]
fn beyond_max_agents_it_is_internal_and_the_others_go_on() {
    let server = Server::start(&["s1", "s2", "s3"], &json!({"max_agents": 2}));
    let mut one = server.subscribed("s1");
    let two = server.connect("s2");
    let mut three = Client::knock(server.addr(), "s3", Some(&token("s3")));
    assert!(three.expect_error("internal").contains("agent limit reached"));
    three.expect_close(1011);
    assert_eq!(one.turn("unharmed").last().unwrap().payload["status"], "completed");
    two.cut();
    eventually("a free place", || {
        let mut client = Client::knock(server.addr(), "s3", Some(&token("s3")));
        (client.frame()["type"] == "hello").then_some(())
    });
}

#[test]
fn out_of_descriptors_it_rests_and_recovers() {
    let folder = std::sync::Arc::new(tempfile::TempDir::new().unwrap());
    let names: Vec<String> = (0..200).map(|n| format!("s{n}")).collect();
    let sessions: Vec<&str> = names.iter().map(String::as_str).collect();
    // More connections than the limit has descriptors, whatever the config says.
    let more = json!({"max_connections": 10_000});
    let config = crate::harness::server::config(&sessions, &more);
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let mut command = crate::harness::server::limited("ulimit -n 64");
    command.args(["serve", "--config", "config.json"]);
    let server = Server::launch(command, folder);
    let mut early = server.subscribed("s0");
    let mut idle: Vec<_> = (0..200).map(|_| TcpStream::connect(server.addr()).unwrap()).collect();
    // Whoever is turned away comes after those who take all places.
    eventually("somebody to be turned away", || idle.iter().any(is_closed).then_some(()));
    early.turn("who is in is served");
    assert!(idle.iter().any(|stream| !is_closed(stream)), "the places are still taken");
    idle.clear();
    expect_place(&server, "s1");
    for id in &sessions[1..6] {
        let mut client = server.subscribed(id);
        assert_eq!(client.turn("hello").last().unwrap().payload["status"], "completed");
    }
    let said = server.stderr().matches("cannot accept").count();
    assert!(said <= 1, "said once, not {said} times:\n{}", server.stderr());
}

/// Whether the server has closed a connection on which nothing was said.
fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    match stream.peek(&mut [0]) {
        Ok(len) => len == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

#[test]
fn two_thousand_connections_from_one_address_leave_those_who_were_in_untouched() {
    let server = Server::start(&["s1", "s2"], &json!({"max_connections": 10}));
    let mut early = server.subscribed("s1");
    let before = server.resident_kib();
    let silent: Vec<_> = (0..2000).map(|_| TcpStream::connect(server.addr()).unwrap()).collect();
    assert_eq!(early.turn("unharmed").last().unwrap().payload["status"], "completed");
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} KiB more for what was never let in");
    drop(silent);
    expect_place(&server, "s2");
}

/// Waits until the places of those who have gone are free, so that `session` is let in.
fn expect_place(server: &Server, session: &str) {
    eventually("a free place", || {
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        stream.write_all(handshake(session, &token(session)).as_bytes()).ok()?;
        let mut start = [0; 12];
        stream.read_exact(&mut start).ok()?;
        (start == *b"HTTP/1.1 101").then_some(())
    });
}

#[test]
fn a_message_in_a_million_fragments_with_pings_between_costs_what_it_weighs() {
    let server = Server::start(&["s1"], &json!({}));
    let mut wire = Wire::open(server.addr(), "s1", &token("s1"));
    let (opening, closing) = (r#"{"type":"inject","text":""#, r#""}"#);
    let text = "x".repeat((1 << 20) - opening.len() - closing.len());
    let message = format!("{opening}{text}{closing}");
    let mut bytes = masked(false, TEXT, b"");
    for (at, byte) in message.bytes().enumerate() {
        bytes.extend(masked(false, CONTINUATION, &[byte]));
        if at % 64 == 0 {
            bytes.extend(masked(true, PING, b""));
        }
    }
    let before = server.resident_kib();
    wire.send(&bytes);
    // All of it but its end has been read when this is answered.
    wire.send(&masked(true, PING, b"the end"));
    while wire.next_frame().payload != b"the end" {}
    let grown = server.peak_resident_kib().saturating_sub(before);
    assert!(grown < 6 * 1024, "{grown} KiB more for a message of 1 MiB");
    wire.send(&masked(true, CONTINUATION, b""));
    wire.send_text(r#"{"type":"subscribe","from_seq":1}"#);
    wire.send_text(r#"{"type":"inject","text":"now","wake":true}"#);
    loop {
        let event = wire.next_data().json();
        if event["type"] == "context/injected" {
            assert_eq!(event["payload"]["text"].as_str().map(str::len), Some(text.len()));
            break;
        }
    }
}

/// What a peer may make one connection own beside its ring: a message as it grows, a share of input that
/// was read too early, the answers that it does not take.
const CONNECTION_KIB_MAX: u64 = 3 * 1024;

#[test]
fn whatever_a_peer_sends_its_connection_owns_3_mib_at_most() {
    const PEERS: usize = 16;
    let names: Vec<String> = (0..PEERS).map(|n| format!("s{n}")).chain(["s".into()]).collect();
    let sessions: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = Server::start(&sessions, &json!({}));
    let mut lively = server.subscribed("s");
    lively.turn("warm");
    // A message that lacks its last byte, and then pings whose pongs nobody takes.
    let mut bytes = Vec::new();
    for n in 0..32 {
        bytes.extend(masked(false, if n == 0 { TEXT } else { CONTINUATION }, &vec![b'x'; 32_767]));
    }
    let ping = masked(true, PING, &[b'x'; 125]).repeat(100);
    let before = server.resident_kib();
    let mut peers: Vec<TcpStream> = sessions[..PEERS]
        .iter()
        .map(|session| {
            let mut stream = TcpStream::connect(server.addr()).unwrap();
            stream.write_all(handshake(session, &token(session)).as_bytes()).unwrap();
            stream.write_all(&bytes).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        })
        .collect();
    // As much as it takes, and more than it may keep: 8 MB each would be seen.
    let mut sent = [(0, 0); PEERS];
    for _ in 0..400 {
        for (stream, (poured, at)) in peers.iter_mut().zip(&mut sent) {
            while *poured < 64 << 20
                && let Ok(n) = stream.write(&ping[*at..])
            {
                (*poured, *at) = (*poured + n, (*at + n) % ping.len());
            }
        }
        lively.send_text("no frame");
        lively.expect_error("bad_frame");
    }
    let least = sent.iter().map(|(poured, _)| *poured).min();
    assert!(least > Some(128 << 10) && least < Some(64 << 20), "it is not read any more: {sent:?}");
    let grown = server.peak_resident_kib().saturating_sub(before);
    assert!(grown > 512 * PEERS as u64, "{grown} KiB: the messages are there");
    assert!(grown < CONNECTION_KIB_MAX * PEERS as u64, "{grown} KiB for {PEERS} connections");
    assert_eq!(lively.turn("unharmed").last().unwrap().payload["status"], "completed");
}

#[test]
fn twenty_thousand_subscribes_end_in_the_last_one() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.subscribed("s1");
    let tip = client.turn("one two three four five six").last().unwrap().seq;
    for n in 0..20_000 {
        client.queue(&json!({"type": "subscribe", "from_seq": n % (tip + 1)}));
    }
    client.flush();
    client.subscribe(tip);
    client.wake("the end");
    let mut last = client.event();
    let mut seen = vec![last.clone()];
    while last.seq <= tip || last.kind != "turn/end" {
        last = client.event();
        seen.push(last.clone());
    }
    let from_tip = seen.iter().rposition(|event| event.seq == tip).unwrap();
    let seqs: Vec<u64> = seen[from_tip..].iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (tip..=last.seq).collect::<Vec<_>>());
}
