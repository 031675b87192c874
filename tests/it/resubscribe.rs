//! A client that drops and comes back gets exactly the rest, wherever it dropped.

use serde_json::json;

use crate::harness::client::assert_gapless;
use crate::harness::provider::Provider;
use crate::harness::wire::{TEXT, Wire};
use crate::harness::{Client, Event, Server, files, scripted, token};

/// A server whose session `s1` holds one turn of `chunks`, with the whole log as its client saw it.
fn recorded(chunks: &[String]) -> (Server, Vec<Event>) {
    let mut config = scripted(&json!([{"chunks": chunks}]));
    config["replay_limit"] = json!(100_000);
    let server = Server::start(&["s1"], &config);
    let mut client = server.connect("s1");
    client.subscribe(0);
    let log = client.turn("go");
    assert_gapless(&log, 0, chunks.len() as u64 + 6);
    (server, log)
}

/// The rest of the log from `next` on, over a connection that is cut afterwards.
fn rest(server: &Server, next: u64, tip: u64) -> Vec<Event> {
    let mut client = server.connect("s1");
    client.subscribe(next);
    let events = client.events_to(tip);
    client.cut();
    events
}

#[test]
fn from_every_seq_the_rest_is_exact() {
    let chunks: Vec<String> = (0..40).map(|n| format!("chunk {n} ")).collect();
    let (server, log) = recorded(&chunks);
    let tip = log.last().unwrap().seq;
    for from in 0..=tip {
        assert_eq!(rest(&server, from, tip), log[from as usize..], "from_seq {from}");
    }
}

#[test]
fn subscribing_again_replaces_the_subscription() {
    let chunks: Vec<String> = (0..40).map(|n| format!("chunk {n} ")).collect();
    let (server, log) = recorded(&chunks);
    let tip = log.last().unwrap().seq;
    let mut client = server.connect("s1");
    for from in (0..=tip).rev() {
        client.subscribe(from);
        assert_eq!(client.events_to(tip), log[from as usize..], "from_seq {from}");
    }
}

#[test]
fn a_replaced_replay_stops_and_the_new_one_is_whole() {
    let chunks: Vec<String> = (0..2000).map(|n| format!("chunk {n} ")).collect();
    let (server, log) = recorded(&chunks);
    let tip = log.last().unwrap().seq;
    for (replaced, from) in [(0, tip), (0, 5), (5, 0), (tip / 2, tip / 2), (0, tip + 1)] {
        let mut client = server.connect("s1");
        let tip = client.last_seq();
        client.queue(&json!({"type": "subscribe", "from_seq": replaced}));
        client.queue(&json!({"type": "subscribe", "from_seq": from}));
        client.wake("one more turn");
        let mut seen = vec![client.event()];
        while seen.last().is_some_and(|event| event.seq <= tip || event.kind != "turn/end") {
            seen.push(client.event());
        }
        let whole = rest(&server, 0, seen.last().unwrap().seq);
        // First whatever was under way of the replaced one, then the new one from its first event.
        let under_way = seen.len() - (whole.len() - from as usize);
        assert_eq!(seen[under_way..], whole[from as usize..], "{replaced}, then {from}");
        assert_eq!(seen[..under_way], whole[replaced as usize..][..under_way]);
    }
}

#[test]
fn a_replay_cut_at_every_piece_boundary_goes_on_exactly() {
    // More events than a piece holds (1,024), and more bytes than a piece holds (256 KiB).
    let many: Vec<String> = (0..2100).map(|n| format!("{n} ")).collect();
    let large: Vec<String> = (0..30).map(|n| format!("{n} ").repeat(20_000)).collect();
    let cuts_of_many = [1_u64, 2, 255, 256, 257, 1023, 1024, 1025, 2047, 2048, 2049].to_vec();
    for (chunks, cuts) in [(many, cuts_of_many), (large, (1..36).collect())] {
        let (server, log) = recorded(&chunks);
        let tip = log.last().unwrap().seq;
        for cut in cuts {
            let mut client = server.connect("s1");
            client.subscribe(0);
            let mut seen: Vec<Event> = (0..cut).map(|_| client.event()).collect();
            client.cut();
            seen.extend(rest(&server, cut, tip));
            assert_eq!(seen, log, "cut after {cut} events");
        }
    }
}

#[test]
fn a_client_that_drops_while_a_turn_streams_misses_nothing() {
    let provider = Provider::start();
    let server = Server::start(&["s1"], &provider.config(&json!({})));
    let mut client = server.subscribed("s1");
    client.wake("go");
    let mut ask = provider.ask();
    ask.open();

    let mut seen = Vec::new();
    for n in 0..30 {
        ask.text(&format!("chunk {n}, "));
        // Some connections see what was just said, some see nothing at all, some come back twice.
        match n % 3 {
            0 => seen.extend(client.events_until("assistant/chunk")),
            1 => seen.push(client.event()),
            _ => {}
        }
        client.cut();
        client = server.connect("s1");
        client.subscribe(seen.last().map_or(1, |event| event.seq + 1));
    }
    ask.end();
    seen.extend(client.events_until("turn/end"));

    assert_gapless(&seen, 1, seen.len() as u64);
    let frames: Vec<String> = seen.into_iter().map(|event| event.raw).collect();
    assert_eq!(files::envelopes(&server.data_dir(), "s1")[1..], frames);
}

#[test]
fn a_connection_cut_at_any_byte_loses_nothing() {
    let chunks: Vec<String> = (0..300).map(|n| format!("{n} ")).collect();
    let (server, log) = recorded(&chunks);
    let mut seen: Vec<Event> = Vec::new();
    // Odd sizes, so that the cuts fall into headers, into payloads and between frames.
    let mut sizes = (0..).map(|n: usize| n * 7919 % 4001 + 200);
    while seen.len() < log.len() {
        let mut wire = Wire::open(server.addr(), "s1", &token("s1"));
        wire.send_text(&format!(r#"{{"type":"subscribe","from_seq":{}}}"#, seen.len()));
        let mut budget = sizes.next().unwrap();
        while seen.len() < log.len()
            && let Some(frame) = wire.frame_within(&mut budget)
        {
            seen.extend(Event::parse(str::from_utf8(&frame.payload).unwrap()));
        }
    }
    assert_eq!(seen, log);
}

#[test]
fn a_replay_runs_into_the_live_tail_without_a_seam() {
    let provider = Provider::start();
    let server = Server::start(&["s1"], &provider.config(&json!({})));
    let mut client = server.subscribed("s1");
    let mut expected = Vec::new();
    for round in 0..5 {
        client.wake(&format!("round {round}"));
        let mut ask = provider.ask();
        ask.open();
        for n in 0..200 {
            ask.text(&format!("chunk {n} "));
            if n == 100 {
                // Into a log that grows at this very moment.
                client = server.connect("s1");
                client.subscribe(1);
            }
        }
        ask.end();
        let mut seen = client.events_until("turn/end");
        while seen.iter().filter(|event| event.kind == "turn/end").count() <= round {
            seen.extend(client.events_until("turn/end"));
        }
        assert_gapless(&seen, 1, seen.len() as u64);
        assert_eq!(seen[..expected.len()], expected);
        expected = seen;
    }
}

#[test]
fn every_frame_is_one_unfragmented_text_frame() {
    // The envelope around a text of 65,401 bytes makes a frame of 65,535.
    let chunks: Vec<String> = (65_395..65_408).map(|len| "x".repeat(len)).collect();
    let (server, log) = recorded(&chunks);
    let mut wire = Wire::open(server.addr(), "s1", &token("s1"));
    wire.send_text(r#"{"type":"subscribe","from_seq":0}"#);
    assert!(log.iter().any(|event| event.raw.len() == 0xFFFF));
    assert!(log.iter().any(|event| event.raw.len() == 0x1_0000));
    for event in &log {
        let frame = wire.next_data();
        assert_eq!((frame.fin, frame.opcode), (true, TEXT));
        assert_eq!(frame.payload, event.raw.as_bytes());
    }
}

#[test]
fn a_second_session_sees_nothing_of_the_first() {
    let server = Server::start(&["s1", "s2"], &json!({}));
    let mut one = server.subscribed("s1");
    let mut two: Client = server.subscribed("s2");
    let first = one.turn("for the first alone");
    let second = two.turn("for the second alone");
    assert!(first.iter().all(|event| event.raw.contains(r#""session_id":"s1""#)));
    assert!(second.iter().all(|event| event.raw.contains(r#""session_id":"s2""#)));
    assert_gapless(&second, 1, second.len() as u64);
}
