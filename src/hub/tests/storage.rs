//! A disk that is full, and one that fails, as clients see it (design/log-format, "Failures").

use super::world::{WAKE, World, handshake, seq, session, step, subscribe};
use crate::config::{CancelStream, Config, Script};
use crate::conn::slab::Tag;
use crate::hub::Stage;
use crate::model::Provider;
use crate::work::note::Note;
use std::sync::Arc;

fn fill(world: &World) {
    world.disk.faults(|faults| faults.space = Some(0));
}

fn free(world: &World) {
    world.disk.faults(|faults| faults.space = None);
}

fn get(world: &mut World, path: &str) -> String {
    let tag = world.dial(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    world.settle();
    world.peer(tag).head.clone()
}

/// The error frame a connection got, and the code it was closed with.
fn error(world: &mut World, tag: Tag) -> (String, Option<u16>) {
    let peer = world.peer(tag);
    (peer.frames.pop().unwrap_or_default(), peer.close)
}

#[test]
fn a_full_disk_holds_the_turn_refuses_frames_serves_reads_and_goes_on_by_itself() {
    let mut world = World::new(vec![step(&["a", "b"])], |_| {});
    let tag = world.connect(0);
    world.send(tag, &subscribe(0));
    world.settle();
    assert_eq!(world.seqs(tag), [0]);
    fill(&world);
    world.send(tag, WAKE);
    world.settle();
    assert_eq!(world.seqs(tag), [0_u64; 0], "nothing is published that is not stored");
    assert!(get(&mut world, "/healthz").starts_with("HTTP/1.1 503 "));

    world.send(tag, WAKE);
    world.settle();
    let (frame, close) = error(&mut world, tag);
    let want = r#"{"type":"error","code":"internal","message":"storage full"}"#;
    assert_eq!((frame.as_str(), close), (want, Some(1011)));

    let again = world.connect(0);
    world.send(again, &subscribe(0));
    world.settle();
    assert_eq!(world.seqs(again), [0], "hello and replay work");

    free(&world);
    world.pass(1000);
    world.settle();
    assert_eq!(world.seqs(again), (1..=8).collect::<Vec<_>>(), "it goes on by itself");
    assert!(get(&mut world, "/healthz").starts_with("HTTP/1.1 200 "));
}

#[test]
fn with_many_stalled_one_probe_a_second_is_made_and_all_go_on_together() {
    let mut world = World::new(vec![step(&["a"])], |_| {});
    let tags: Vec<Tag> = (0..10).map(|number| world.connect(number)).collect();
    for &tag in &tags {
        world.send(tag, &subscribe(1));
    }
    world.settle();
    fill(&world);
    for &tag in &tags {
        world.send(tag, WAKE);
    }
    world.settle();
    for _ in 0..5 {
        world.pass(1000);
        assert_eq!(world.jobs.len(), 1, "one probe for the whole store");
        world.settle();
    }
    free(&world);
    world.pass(1000);
    world.settle();
    for &tag in &tags {
        assert_eq!(world.seqs(tag), (1..=7).collect::<Vec<_>>());
    }
}

#[test]
fn a_cancel_is_taken_while_the_disk_is_full_and_logged_when_it_is_not() {
    let mut slow = step(&["a", "b"]);
    slow.chunk_delay_ms = 10_000;
    let mut world = World::new(vec![slow], |_| {});
    let tag = world.connect(0);
    world.send(tag, &subscribe(0));
    world.send(tag, WAKE);
    world.settle();
    assert_eq!(world.seqs(tag), [0, 1, 2, 3, 4]);
    fill(&world);
    world.send(tag, r#"{"type":"cancel","reason":"enough"}"#);
    world.settle();
    assert_eq!(world.seqs(tag), [0_u64; 0]);
    assert_eq!(world.peer(tag).close, None, "a cancel is not refused");
    free(&world);
    world.pass(1000);
    world.settle();
    let frames = std::mem::take(&mut world.peer(tag).frames);
    let end = frames.last().expect("the turn's end");
    assert!(end.contains(r#""payload":{"status":"cancelled","reason":"enough"}"#), "{end}");
    assert_eq!(frames.iter().map(|frame| seq(frame)).collect::<Vec<_>>(), [5, 6, 7]);
}

#[test]
fn a_stream_that_a_cancel_lets_finish_goes_on_when_the_disk_has_space_again() {
    let mut slow = step(&["a", "b", "c"]);
    slow.chunk_delay_ms = 10_000;
    let script = Provider::Scripted(Arc::new(Script { steps: vec![slow], repeat: true }));
    let config = Config { cancel_stream: CancelStream::Finish, ..Config::default() };
    let mut world = World::configured(&config, script, Vec::new(), |_| {});
    let tag = world.connect(0);
    world.send(tag, &subscribe(0));
    world.send(tag, WAKE);
    world.settle();
    fill(&world);
    world.pass(10_000);
    world.settle();
    world.send(tag, r#"{"type":"cancel","reason":"enough"}"#);
    world.settle();
    free(&world);
    for _ in 0..3 {
        world.pass(10_000);
        world.settle();
    }
    let frames = std::mem::take(&mut world.peer(tag).frames);
    let end = frames.last().expect("the turn's end");
    assert!(end.contains(r#""payload":{"status":"cancelled","reason":"enough"}"#), "{end}");
    let answer = frames.iter().find(|frame| frame.contains("assistant/message"));
    assert!(answer.is_some_and(|answer| answer.contains("abc")), "{answer:?}");
}

#[test]
fn a_steer_that_cannot_be_kept_is_refused_and_not_used_later() {
    let mut slow = step(&["a"]);
    slow.delay_ms = 10_000;
    let mut world = World::new(vec![slow], |_| {});
    let tag = world.connect(0);
    world.send(tag, WAKE);
    world.settle();
    fill(&world);
    world.send(tag, r#"{"type":"inject","text":"lost"}"#);
    world.settle();
    let (frame, close) = error(&mut world, tag);
    assert!(frame.contains("storage full"), "{frame}");
    assert_eq!(close, Some(1011));
    free(&world);
    let again = world.connect(0);
    world.pass(10_000);
    world.settle();
    world.send(again, WAKE);
    world.send(again, &subscribe(0));
    world.settle();
    assert!(world.peer(again).frames.iter().all(|frame| !frame.contains("lost")));
}

#[test]
fn only_a_text_that_cannot_be_kept_is_refused_and_not_the_one_that_began_a_turn_beside_it() {
    let mut world = World::new(vec![step(&["a"])], |_| {});
    let tag = world.connect(0);
    world.send(tag, r#"{"type":"cancel"}"#);
    for (text, wake) in [("begins", true), ("steers", false)] {
        world.hub.inject(&session(0), text.to_owned(), wake);
    }
    fill(&world);
    world.settle();
    let refused = |note: &&Note| note.event == "text refused: storage full";
    assert_eq!(world.notes.iter().filter(refused).count(), 1);
    free(&world);
    world.pass(1000);
    world.settle();
    world.peer(tag).frames.clear();
    world.send(tag, &subscribe(0));
    world.settle();
    let says = |text: &str| world.peers[&tag].frames.iter().any(|frame| frame.contains(text));
    assert!(says("begins") && !says("steers"));
}

#[test]
fn a_failed_sync_ends_the_server_and_nothing_of_that_batch_was_seen() {
    let mut world = World::new(vec![step(&["a"])], |_| {});
    let (tag, other) = (world.connect(0), world.connect(1));
    world.send(tag, &subscribe(0));
    world.settle();
    assert_eq!(world.seqs(tag), [0]);
    world.disk.faults(|faults| faults.syncs_fail = 1);
    world.send(tag, WAKE);
    world.settle();
    for tag in [tag, other] {
        let (frame, close) = error(&mut world, tag);
        assert!(frame.starts_with(r#"{"type":"error","code":"internal""#), "{frame}");
        assert_eq!((close, world.peer(tag).frames.len()), (Some(1011), 0));
        world.hub.gone(tag, "closed by the peer");
    }
    assert!(world.hub.latched().is_some());
    world.hub.stage_tick();
    assert_eq!(world.hub.stage(), Stage::Over);
}

#[test]
fn a_log_that_cannot_be_opened_again_for_a_while_stays_where_its_readers_know_it() {
    let mut world = World::new(vec![step(&["a"])], |options| options.idle_residents_max = 0);
    let tag = world.connect(0);
    world.disk.faults(|faults| faults.opens_fail = 1);
    let look = "GET /agents/s0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t0\r\n\r\n";
    let reader = world.dial(look.as_bytes());
    world.settle();
    assert!(world.peer(reader).head.starts_with("HTTP/1.1 500 "));
    world.send(tag, &subscribe(0));
    world.send(tag, WAKE);
    world.settle();
    assert_eq!(world.seqs(tag), (0..8).collect::<Vec<_>>());
}

#[test]
fn a_sync_that_fails_when_a_log_is_opened_ends_the_server_too() {
    let mut world = World::new(vec![step(&["a"])], |_| {});
    world.disk.faults(|faults| faults.syncs_fail = 1);
    let tag = world.dial(handshake(0, "t0").as_bytes());
    world.settle();
    let (frame, close) = error(&mut world, tag);
    assert!(frame.starts_with(r#"{"type":"error","code":"internal""#), "{frame}");
    assert_eq!(close, Some(1011));
    assert!(world.hub.latched().is_some());
}
