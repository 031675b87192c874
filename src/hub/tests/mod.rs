//! The hub with everything around it played by the test.

mod bounds;
mod races;
mod readers;
mod reload;
mod residents;
mod retention;
mod roles;
mod stalled;
mod storage;
mod tools;
mod world;

use crate::config::{OpenAiConfig, ProviderConfig};
use crate::conn::slab::Tag;
use crate::limits::{PIECE_BYTES_MAX, RING_LOW_WATER_BYTES};
use crate::model::custom::{Answer, Piece};
use crate::model::{Model, Provider, Request};
use crate::proto::http_client::BaseUrl;
use crate::work::Upstream;
use std::sync::Arc;
use world::{SESSIONS, WAKE, World, frame, handshake, seq, session, step, subscribe, tokens};

/// Events of a plain turn, its chunks not counted.
const TURN: u64 = 6;

/// A world whose session 0 has a log of `turns` turns of `chunks` chunks, and the log's tip.
fn with_log(turns: usize, chunks: usize, adjust: impl FnOnce(&mut super::Options)) -> (World, u64) {
    let pieces = vec!["some text of the model "; chunks];
    let mut world = World::new(vec![step(&pieces)], adjust);
    let tag = world.connect(0);
    for _ in 0..turns {
        world.send(tag, WAKE);
        world.settle();
    }
    world.hub.gone(tag, "done");
    (world, turns as u64 * (TURN + chunks as u64))
}

#[test]
fn a_plain_turn_has_the_golden_order() {
    let mut world = World::new(vec![step(&["a", "b"])], |_| {});
    let tag = world.connect(0);
    world.send(tag, &subscribe(0));
    world.send(tag, WAKE);
    world.settle();
    let kind = |frame: &String| {
        crate::proto::event::Envelope::parse(frame.as_bytes()).expect("an event").kind.to_owned()
    };
    let kinds: Vec<String> = world.peer(tag).frames.iter().map(kind).collect();
    let golden = [
        "session/created",
        "turn/start",
        "step/start",
        "user/message",
        "assistant/chunk",
        "assistant/chunk",
        "assistant/message",
        "step/end",
        "turn/end",
    ];
    assert_eq!(kinds, golden);
    assert_eq!(world.seqs(tag), (0..9).collect::<Vec<_>>());
}

#[test]
fn a_subscribe_from_every_seq_gets_exactly_the_rest() {
    let (mut world, tip) = with_log(4, 9, |_| {});
    let tag = world.connect(0);
    for from in (0..=tip + 2).chain([1 << 63, u64::MAX]) {
        world.send(tag, &subscribe(from));
        world.settle();
        assert_eq!(world.seqs(tag), (from..=tip).collect::<Vec<_>>(), "from {from}");
    }
    world.send(tag, &subscribe(tip + 3));
    world.send(tag, WAKE);
    world.settle();
    assert_eq!(world.seqs(tag), (tip + 3..=tip + TURN + 9).collect::<Vec<_>>());
}

#[test]
fn a_resubscribe_at_every_point_of_a_running_turn_misses_and_repeats_nothing() {
    // Jobs run one at a time, so that the subscribe falls between any two of them.
    for jobs_before in 0..12 {
        let mut world = World::new(vec![step(&["x"; 700])], |_| {});
        let tag = world.connect(0);
        world.send(tag, &subscribe(0));
        world.send(tag, WAKE);
        for _ in 0..jobs_before {
            world.run_job();
        }
        let before = world.seqs(tag);
        assert_eq!(before, (0..before.len() as u64).collect::<Vec<_>>());
        let from = before.len() as u64 / 2;
        world.send(tag, &subscribe(from));
        world.settle();
        let after = world.seqs(tag);
        let start =
            after.iter().rposition(|&seq| seq == from).expect("the new replay's first event");
        assert_eq!(after[start..], (from..=TURN + 700).collect::<Vec<_>>());
    }
}

#[test]
fn a_capped_replay_is_announced_before_its_first_event() {
    let (mut world, tip) = with_log(4, 9, |options| options.replay_limit = 10);
    let tag = world.connect(0);
    world.send(tag, &subscribe(3));
    world.settle();
    let told = world.peer(tag).frames.remove(0);
    let from = tip - 9;
    let want = format!(r#"{{"type":"replay_truncated","requested_from_seq":3,"from_seq":{from}}}"#);
    assert_eq!(told, want);
    assert_eq!(world.seqs(tag), (from..=tip).collect::<Vec<_>>());
    world.send(tag, &subscribe(from));
    world.settle();
    assert_eq!(
        world.seqs(tag),
        (from..=tip).collect::<Vec<_>>(),
        "within the limit nothing is told"
    );
}

#[test]
fn the_gate_lets_so_many_read_at_once_and_everyone_is_served() {
    let mut world = World::new(vec![step(&["x"])], |options| options.max_concurrent_replays = 3);
    let tags: Vec<Tag> = (0..SESSIONS).map(|number| world.connect(number)).collect();
    for &tag in &tags {
        world.send(tag, &subscribe(0));
    }
    assert_eq!(world.jobs.len(), 3, "a read each for those who are let in");
    assert_eq!(world.hub.gate.load(), (3, SESSIONS - 3));
    while world.run_job() {
        assert!(world.jobs.len() <= 3);
    }
    assert_eq!(world.hub.gate.load(), (0, 0));
    for &tag in &tags {
        assert_eq!(world.seqs(tag), [0]);
    }
}

#[test]
fn whoever_leaves_the_queue_or_a_read_gives_its_place_back() {
    let mut world = World::new(vec![step(&["x"])], |options| options.max_concurrent_replays = 1);
    let tags: Vec<Tag> = (0..4).map(|number| world.connect(number)).collect();
    for &tag in &tags {
        world.send(tag, &subscribe(0));
    }
    world.hub.gone(tags[0], "in its read");
    world.hub.gone(tags[1], "in the queue");
    world.settle();
    assert_eq!(world.hub.gate.load(), (0, 0));
    assert_eq!((world.seqs(tags[2]), world.seqs(tags[3])), (vec![0], vec![0]));
}

#[test]
fn resubscribing_over_and_over_holds_one_place_at_the_gate() {
    let mut world = World::new(vec![step(&["x"])], |options| options.max_concurrent_replays = 2);
    let tag = world.connect(0);
    for _ in 0..10 {
        world.send(tag, &subscribe(0));
    }
    assert_eq!(world.hub.gate.load(), (1, 0));
    world.settle();
    assert_eq!(world.seqs(tag), [0]);
}

#[test]
fn a_slow_reader_of_a_long_replay_is_waited_for_in_bounded_memory() {
    let (mut world, tip) = with_log(60, 100, |options| options.queue_limit = 16);
    let tag = world.connect(0);
    world.peer(tag).takes = 0;
    world.send(tag, &subscribe(0));
    world.settle();
    let mut got = Vec::new();
    while got.len() as u64 <= tip {
        let waiting = world.hub.clients.get(tag).expect("it is there").conn.event_bytes();
        assert!(waiting <= RING_LOW_WATER_BYTES + PIECE_BYTES_MAX * 2, "{waiting} bytes wait");
        world.take(tag, 7919);
        world.settle();
        got.extend(world.seqs(tag));
    }
    assert_eq!(got, (0..=tip).collect::<Vec<_>>());
    assert_eq!(world.peer(tag).close, None);
}

#[test]
fn a_slow_live_reader_gets_whole_frames_then_lagged_then_4429_and_its_turn_goes_on() {
    for taken in [0, 1, 100, 1000] {
        let mut world = World::new(vec![step(&["x"; 300])], |options| options.queue_limit = 40);
        let tag = world.connect(0);
        world.send(tag, &subscribe(0));
        world.settle();
        assert_eq!(world.seqs(tag), [0]);
        world.peer(tag).takes = taken;
        world.send(tag, WAKE);
        world.settle();
        world.take(tag, usize::MAX / 2);
        let mut frames = std::mem::take(&mut world.peer(tag).frames);
        let last = frames.pop().expect("an error frame");
        assert!(last.starts_with(r#"{"type":"error","code":"lagged""#), "{last}");
        let seqs: Vec<u64> = frames.iter().map(|frame| seq(frame)).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "a prefix of whole frames");
        assert_eq!(world.peer(tag).close, Some(4429));
        let again = world.connect(0);
        world.send(again, &subscribe(0));
        world.settle();
        assert_eq!(world.seqs(again), (0..=TURN + 300).collect::<Vec<_>>(), "the turn has ended");
    }
}

#[test]
fn a_burst_to_a_reader_that_takes_it_is_no_lag() {
    let mut world = World::new(vec![step(&["x"; 5000])], |options| options.queue_limit = 1);
    let tag = world.connect(0);
    world.send(tag, &subscribe(0));
    world.send(tag, WAKE);
    world.settle();
    assert_eq!(world.seqs(tag), (0..=TURN + 5000).collect::<Vec<_>>());
}

#[test]
fn one_frame_larger_than_the_queue_passes_when_nothing_else_waits() {
    // Only the turn's last event is wanted, and it alone is larger than the queue.
    for (from, open) in [(TURN + 1, true), (TURN, false)] {
        let mut world = World::new(vec![step(&["x"])], |options| options.queue_bytes = 20);
        let tag = world.connect(0);
        world.send(tag, &subscribe(from));
        world.peer(tag).takes = 0;
        world.send(tag, WAKE);
        world.settle();
        let client = world.hub.clients.get(tag).expect("it is there");
        assert_eq!(client.conn.is_open(), open, "from {from}");
    }
}

#[test]
fn a_second_connection_supersedes_the_first_and_earlier_frames_still_count() {
    let mut world = World::new(vec![step(&["x"])], |_| {});
    let first = world.connect(0);
    world.send(first, WAKE);
    let second = world.connect(0);
    world.settle();
    let frames = std::mem::take(&mut world.peer(first).frames);
    assert_eq!(frames.len(), 1);
    assert!(frames[0].starts_with(r#"{"type":"error","code":"superseded""#), "{}", frames[0]);
    assert_eq!((world.peer(first).close, world.peer(first).ended), (Some(4409), true));
    world.send(second, &subscribe(0));
    world.settle();
    assert_eq!(world.seqs(second), (0..=TURN + 1).collect::<Vec<_>>());
}

#[test]
fn frames_that_wait_when_a_connection_is_superseded_are_still_handled() {
    // Behind the handshake, while the session is made; and behind a full mailbox.
    let mut world = World::new(vec![step(&["x"])], |_| {});
    let steer = |text: &str| frame(&format!(r#"{{"type":"inject","text":"{text}"}}"#));
    let pipelined = [handshake(0, "t0").into_bytes(), steer("a"), steer("b")].concat();
    let first = world.dial(&pipelined);
    let second = world.dial(&[handshake(0, "t0").into_bytes(), steer("c")].concat());
    world.settle();
    let full = "z".repeat(crate::limits::MAILBOX_FRAME_BYTES_MAX);
    world.bytes(second, &[steer(&full), steer(&full), steer("d"), steer("e")].concat());
    let third = world.connect(0);
    assert_eq!((world.peer(first).close, world.peer(second).close), (Some(4409), Some(4409)));
    world.send(third, WAKE);
    world.send(third, &subscribe(0));
    world.settle();
    let frames = std::mem::take(&mut world.peer(third).frames);
    for text in ["a", "b", "c", "d", "e"] {
        let injected = format!(r#""type":"context/injected","payload":{{"text":"{text}"}}"#);
        let count = frames.iter().filter(|frame| frame.contains(&injected)).count();
        assert_eq!(count, 1, "{text}");
    }
}

#[test]
fn a_bad_token_gets_a_handshake_and_then_the_error() {
    let mut world = World::new(vec![step(&["x"])], |_| {});
    for request in [
        handshake(0, "wrong"),
        handshake(0, "t1"),
        handshake(0, "t0").replace("Authorization: Bearer t0\r\n", ""),
        handshake(0, "t0").replace("/agents/s0/", "/agents/..%2Fs0/"),
        handshake(0, "t0").replace("/agents/s0/", "/agents/unknown/"),
    ] {
        let tag = world.dial(request.as_bytes());
        world.settle();
        let peer = world.peer(tag);
        assert!(peer.head.starts_with("HTTP/1.1 101 "), "{}", peer.head);
        assert!(peer.frames[0].starts_with(r#"{"type":"error","code":"unauthorized""#));
        assert_eq!((peer.frames.len(), peer.close), (1, Some(4401)));
    }
    assert!(world.hub.agents.len() == 0, "nothing is known of whom nobody may ask for");
}

#[test]
fn a_rotation_drops_exactly_the_connections_that_presented_the_old_token() {
    let mut world = World::new(vec![step(&["x"])], |_| {});
    let (zero, one) = (world.connect(0), world.connect(1));
    let mut rotated = tokens();
    rotated.add(session(0), crate::config::Token::parse("n").expect("a token"));
    world.hub.set_tokens(rotated.clone());
    world.obey();
    assert_eq!((world.peer(zero).close, world.peer(one).close), (None, None), "an overlap");
    let mut revoked = crate::config::Tokens::default();
    for number in 0..SESSIONS {
        let token = if number == 0 { "n".to_owned() } else { format!("t{number}") };
        let token = crate::config::Token::parse(&token).expect("a token");
        revoked.add(world::session(number), token);
    }
    world.hub.set_tokens(revoked);
    world.obey();
    assert_eq!((world.peer(zero).close, world.peer(one).close), (Some(4401), None));
    let new = world.dial(handshake(0, "n").as_bytes());
    world.settle();
    assert!(world.peer(new).frames[0].contains("hello"));
}

#[test]
fn a_silent_peer_is_pinged_and_after_three_heartbeats_dropped() {
    let mut world = World::new(vec![step(&["x"])], |options| options.heartbeat_s = 20);
    let (silent, alive) = (world.connect(0), world.connect(1));
    for _ in 0..3 {
        world.pass(20_000);
        world.bytes(alive, &[0x8a, 0x80, 0, 0, 0, 0]);
    }
    assert_eq!((world.peer(silent).pings, world.peer(alive).pings), (3, 3));
    assert_eq!(world.closed, []);
    world.pass(20_000);
    assert_eq!(world.closed, [silent]);
}

#[test]
fn a_peer_with_something_to_take_is_not_silent_but_stalled_after_ten_minutes() {
    let mut world = World::new(vec![step(&["x"])], |options| options.heartbeat_s = 20);
    let tag = world.connect(0);
    world.peer(tag).takes = 0;
    world.send(tag, &subscribe(0));
    world.settle();
    for _ in 0..29 {
        world.pass(20_000);
    }
    assert_eq!(world.closed, []);
    world.pass(20_000);
    assert_eq!(world.closed, [tag]);
}

/// A model that panics in the middle of its answer.
struct Panics;

impl Model for Panics {
    fn answer(&self, _: &Request<'_>, _: &str) -> Answer {
        Box::new(std::iter::from_fn(|| -> Option<Result<Piece, String>> {
            panic!("an embedder's mistake")
        }))
    }
}

#[test]
fn a_panic_costs_its_agent_the_job_and_nobody_else_anything() {
    let mut world = World::with(Provider::Custom(Arc::new(Panics)), |_| {});
    let (tag, other) = (world.connect(0), world.connect(1));
    world.send(tag, WAKE);
    world.run_job_that_panics();
    let frames = std::mem::take(&mut world.peer(tag).frames);
    assert!(frames[0].starts_with(r#"{"type":"error","code":"internal""#), "{}", frames[0]);
    assert_eq!((world.peer(tag).close, world.peer(other).close), (Some(1011), None));
    let again = world.connect(0);
    world.send(again, &subscribe(0));
    world.settle();
    assert_eq!(world.seqs(again), [0, 1, 2, 3], "the turn stays open in the log");
}

/// A world in which session 0 waits for a connection to its provider.
fn connecting() -> (World, Tag) {
    let base_url = BaseUrl::parse("http://192.0.2.1/v1").expect("a URL");
    let provider = ProviderConfig::OpenAi(OpenAiConfig::new(base_url));
    let provider = Provider::new(provider).expect("no headers");
    let mut world = World::with(provider, |_| {});
    let tag = world.connect(0);
    world.send(tag, &subscribe(1));
    world.send(tag, WAKE);
    world.settle();
    assert!(matches!(world.upstream[..], [(_, Upstream::Connect { .. })]));
    (world, tag)
}

#[test]
fn a_cancel_that_cannot_be_logged_yet_hangs_up_on_the_provider_at_once() {
    let (mut world, tag) = connecting();
    world.disk.faults(|faults| faults.space = Some(0));
    world.send(tag, r#"{"type":"set_policy","patterns":[]}"#);
    world.settle();
    world.send(tag, r#"{"type":"cancel"}"#);
    world.settle();
    assert!(matches!(world.upstream[..], [_, (_, Upstream::Disconnect)]));
    assert!(world.peer(tag).frames.iter().all(|frame| !frame.contains("turn/end")));
    world.disk.faults(|faults| faults.space = None);
    world.pass(1000);
    world.settle();
    let end = world.peer(tag).frames.last().expect("events").clone();
    assert!(end.contains(r#""type":"turn/end","payload":{"status":"cancelled"}"#), "{end}");
    assert_eq!(world.upstream.len(), 2, "once");
}

#[test]
fn stopping_closes_clients_with_1001_and_leaves_a_running_turn_open() {
    let mut slow = step(&["a", "b"]);
    slow.delay_ms = 60_000;
    let mut world = World::new(vec![slow], |_| {});
    let tag = world.connect(0);
    world.send(tag, &subscribe(0));
    world.send(tag, WAKE);
    world.settle();
    world.seqs(tag);
    world.hub.stop();
    world.obey();
    world.settle();
    assert_eq!((world.peer(tag).close, world.peer(tag).frames.len()), (Some(1001), 0));
    world.hub.gone(tag, "closed by the peer");
    world.hub.stage_tick();
    assert_eq!(world.hub.stage(), super::Stage::Over);
}
