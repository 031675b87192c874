//! A slow reader of the live tail is let go cleanly; a slow reader of a replay is waited for.

use serde_json::{Value, json};

use crate::harness::wire::{CLOSE, End, Wire, close_payload, masked};
use crate::harness::{Event, Server, eventually, files, http, scripted, token};

/// `with` laid over `config`.
fn overlaid(mut config: Value, with: &Value) -> Value {
    config.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
    config
}

/// A step of 3.5 MiB, which its `assistant/message` repeats: more than the kernel buffers of a
/// connection that is not read.
fn large_step() -> Value {
    json!({"chunks": vec!["x".repeat(64 * 1024); 56]})
}

fn seq_of(frame: &Value) -> u64 {
    frame["seq"].as_u64().unwrap_or_else(|| panic!("{frame}"))
}

/// Reads up to the error frame, holds the events before it to be gapless, and returns their seqs.
fn events_until_lagged(wire: &mut Wire) -> Vec<u64> {
    let mut seqs = Vec::new();
    let error = loop {
        let value = wire.next_data().json();
        if value["type"] == "error" {
            break value;
        }
        seqs.push(seq_of(&value));
    };
    assert_eq!(error["code"], "lagged");
    let first = seqs[0];
    assert_eq!(seqs, (first..first + seqs.len() as u64).collect::<Vec<_>>());
    let close = wire.next_data();
    assert_eq!((close.opcode, close.close_code()), (CLOSE, Some(4429)));
    wire.send(&masked(true, CLOSE, &close_payload(4429, b"")));
    assert_eq!(wire.rest(), (Vec::new(), End::Clean));
    seqs
}

#[test]
fn a_slow_live_reader_gets_whole_frames_then_lagged_then_4429() {
    for bound in [
        json!({"queue_bytes": 65_536, "queue_limit": 1_000_000}),
        json!({"queue_bytes": 1 << 26, "queue_limit": 1}),
    ] {
        let config = overlaid(scripted(&json!([large_step()])), &bound);
        let server = Server::start(&["s1"], &overlaid(config, &json!({"log": {"sync": "os"}})));
        let mut wire = Wire::open(server.addr(), "s1", &token("s1"));
        wire.send_text(r#"{"type":"subscribe","from_seq":0}"#);
        assert_eq!(seq_of(&wire.next_data().json()), 0);
        wire.send_text(r#"{"type":"inject","text":"more","wake":true}"#);
        // It has five seconds from here to take its last frames, however long the turn goes on.
        eventually("it is let go", || server.stderr().contains("lagged").then_some(()));
        let seqs = events_until_lagged(&mut wire);
        let tip = server.idle_tip("s1", 0);
        let next = seqs.last().unwrap() + 1;
        assert!(seqs[0] == 1 && next <= tip, "{seqs:?} of {tip}");

        // Its turn was not disturbed, and one subscribe catches up.
        let mut client = server.connect("s1");
        client.subscribe(next);
        let rest = client.events_to(tip);
        assert_eq!(rest[0].seq, next);
        assert_eq!(rest.last().unwrap().payload, json!({"status": "completed"}));
    }
}

/// A log of about 28 MiB in four turns; its next turn consists of 2,000 small events.
fn long_log(more: &Value) -> (Server, u64) {
    let small: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    let large = large_step();
    let config = scripted(&json!([large, large, large, large, {"chunks": small}]));
    let config = overlaid(config, &json!({"log": {"sync": "os"}}));
    let server = Server::start(&["s1"], &overlaid(config, more));
    let mut client = server.subscribed("s1");
    let mut tip = 0;
    for _turn in 0..4 {
        tip = client.turn("more").last().unwrap().seq;
    }
    (server, tip)
}

#[test]
fn a_reader_of_a_long_replay_may_be_as_slow_as_it_likes() {
    let (server, tip) = long_log(&json!({"queue_limit": 1, "queue_bytes": 65_536}));
    let before = server.resident_kib();
    let mut wire = Wire::open(server.addr(), "s1", &token("s1"));
    wire.send_text(r#"{"type":"subscribe","from_seq":0}"#);
    let mut seqs = vec![seq_of(&wire.next_data().json())];
    // The reader rests while the log grows by another turn.
    wire.send_text(r#"{"type":"inject","text":"meanwhile","wake":true}"#);
    let tip = server.idle_tip("s1", tip);
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} KiB more for one reader that rests in a log of 28 MiB");
    while *seqs.last().unwrap() < tip {
        seqs.push(seq_of(&wire.next_data().json()));
    }
    assert_eq!(seqs, (0..=tip).collect::<Vec<_>>());
}

#[test]
fn a_reader_that_falls_replay_limit_behind_the_tip_is_slow_too() {
    let (server, tip) = long_log(&json!({"replay_limit": 250}));
    let mut wire = Wire::open(server.addr(), "s1", &token("s1"));
    wire.send_text(&format!(r#"{{"type":"subscribe","from_seq":{}}}"#, tip - 230));
    assert_eq!(seq_of(&wire.next_data().json()), tip - 230);
    wire.send_text(r#"{"type":"inject","text":"meanwhile","wake":true}"#);
    let tip = server.idle_tip("s1", tip);
    let seqs = events_until_lagged(&mut wire);
    assert!(*seqs.last().unwrap() < tip);
}

#[test]
fn a_slow_reader_of_the_history_costs_no_memory_either() {
    let (server, tip) = long_log(&json!({}));
    let before = server.resident_kib();
    let mut wire = Wire::connect(server.addr());
    let request = format!(
        "GET /agents/s1/events?from_seq=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
        token("s1")
    );
    wire.send(request.as_bytes());
    assert!(wire.sip(1000) > 0);
    let mut client = server.connect("s1");
    client.subscribe(tip + 1);
    client.turn("meanwhile");
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} KiB more for one reader that rests in a log of 28 MiB");
    // It ends where the log ended when it began.
    let answer = http::answer(&mut wire);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body.lines().count() as u64, tip + 1);
}

#[test]
fn a_burst_does_not_make_a_steady_reader_slow() {
    // 5,000 small events at once against a queue of 4: pushed, written, pushed.
    let chunks: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
    let mut config = scripted(&json!([{"chunks": chunks}]));
    config["queue_limit"] = json!(4);
    let server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    let turn = client.turn("go");
    assert_eq!(turn.len(), 5000 + 6);
}

#[test]
fn a_reader_that_takes_nothing_disturbs_nobody() {
    let config = overlaid(scripted(&json!([large_step()])), &json!({"log": {"sync": "os"}}));
    let server = Server::start(&["stuck", "lively"], &config);
    let mut lively = server.subscribed("lively");
    let mut tip = 0;
    for _turn in 0..2 {
        let mut stuck = Wire::open(server.addr(), "stuck", &token("stuck"));
        stuck.send_text(r#"{"type":"subscribe","from_seq":0}"#);
        stuck.send_text(r#"{"type":"inject","text":"more","wake":true}"#);
        tip = server.idle_tip("stuck", tip);
        let turn = lively.turn("and you?");
        assert_eq!(turn.last().unwrap().payload["status"], "completed");
    }
    // Over a new connection its own agent is as well as ever.
    let mut again = server.connect("stuck");
    again.subscribe(tip);
    assert_eq!(again.event().seq, tip);
    let whole = files::envelopes(&server.data_dir(), "stuck");
    let ends = whole.iter().filter_map(|raw| Event::parse(raw)).filter(|e| e.kind == "turn/end");
    assert_eq!(ends.filter(|end| end.payload["status"] == "completed").count(), 2);
}
