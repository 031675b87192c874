//! A thousand agents whose batches the disk does not take: what each frame does then, and what all of
//! them together cost (design/log-format, "Failures").

use super::world::{WAKE, World, seq, session, step, subscribe};
use crate::config::{Token, Tokens};
use crate::conn::slab::Tag;
use crate::disk::{LogOptions, Store, SyncMode};
use crate::hub::Stage;
use std::sync::Arc;

const AGENTS: usize = 1000;
/// The events of each session before the disk was full: its creation, and a whole turn.
const SEEN: u64 = 8;

/// A thousand agents that took a turn, and were woken again when the disk was full.
fn stalled() -> (World, Vec<Tag>) {
    let mut world = World::new(vec![step(&["a"])], |options| {
        options.max_connections = 2 * AGENTS;
        options.connections_capacity = 2 * AGENTS;
        options.max_agents = AGENTS;
    });
    let mut tokens = Tokens::default();
    for number in 0..AGENTS {
        tokens.add(session(number), Token::parse(&format!("t{number}")).expect("a valid token"));
    }
    world.hub.set_tokens(tokens);
    let tags: Vec<Tag> = (0..AGENTS).map(|number| world.connect(number)).collect();
    for &tag in &tags {
        world.send(tag, &subscribe(0));
        world.send(tag, WAKE);
    }
    world.settle();
    for &tag in &tags {
        assert_eq!(world.seqs(tag), (0..SEEN).collect::<Vec<_>>());
    }
    world.disk.faults(|faults| faults.space = Some(0));
    for &tag in &tags {
        world.send(tag, WAKE);
    }
    world.settle();
    (world, tags)
}

#[test]
fn a_thousand_stalled_agents_make_one_probe_a_second_and_go_on_together() {
    let (mut world, tags) = stalled();
    let mut probe_calls = Vec::new();
    for _ in 0..5 {
        let before = world.disk.calls();
        world.pass(1000);
        assert_eq!(world.jobs.len(), 1, "one probe for the whole store");
        world.settle();
        probe_calls.push(world.disk.calls() - before);
        world.pass(999);
        assert_eq!(world.jobs.len(), 0, "and none before its second is over");
        world.pass(1);
        world.settle();
    }
    assert!(probe_calls.iter().all(|calls| *calls <= 4), "a write, a cut, a sync: {probe_calls:?}");
    world.disk.faults(|faults| faults.space = None);
    let before = world.inputs;
    world.pass(1000);
    world.settle();
    for &tag in &tags {
        assert_eq!(world.seqs(tag), (SEEN..SEEN + 7).collect::<Vec<_>>());
    }
    let inputs = world.inputs - before;
    // Each is told once, and then its model answers.
    assert!(inputs <= 4 * AGENTS, "{inputs} inputs so that {AGENTS} agents go on");
}

#[test]
fn when_room_for_a_few_was_found_the_others_wait_for_the_next_probe() {
    let (mut world, tags) = stalled();
    // As much as a few batches take.
    world.disk.faults(|faults| faults.space = Some(5000));
    world.pass(1000);
    world.settle();
    let done = tags.iter().filter(|&&tag| !world.peers[&tag].frames.is_empty()).count();
    assert!((1..AGENTS / 2).contains(&done), "{done}");
    for _ in 0..3 {
        world.pass(1000);
        assert_eq!(world.jobs.len(), 1);
        world.settle();
    }
    world.disk.faults(|faults| faults.space = None);
    world.pass(1000);
    world.settle();
    for &tag in &tags {
        assert_eq!(world.seqs(tag), (SEEN..SEEN + 7).collect::<Vec<_>>());
    }
}

#[test]
fn every_frame_to_a_stalled_agent_does_what_the_failure_table_says() {
    let refused = Some("storage full");
    // A frame, and the message of the `internal` that closes its connection.
    let table = [
        (WAKE, refused),
        (r#"{"type":"inject","text":"steer"}"#, refused),
        (r#"{"type":"set_policy","patterns":["*"]}"#, refused),
        (r#"{"type":"approve","call_id":"c"}"#, refused),
        (r#"{"type":"deny","call_id":"c"}"#, refused),
        (r#"{"type":"cancel"}"#, None),
        (r#"{"type":"subscribe","from_seq":3}"#, None),
        (r#"{"type":"set_model","role":"main","model":"mine/model"}"#, None),
    ];
    let (mut world, tags) = stalled();
    for (number, (frame, refusal)) in table.into_iter().enumerate() {
        let tag = tags[number];
        let before = world.disk.calls();
        world.send(tag, frame);
        world.settle();
        assert_eq!(world.disk.calls(), before, "the disk was left alone: {frame}");
        let peer = world.peer(tag);
        let (frames, close) = (std::mem::take(&mut peer.frames), peer.close);
        match refusal {
            Some(message) => {
                let error =
                    format!(r#"{{"type":"error","code":"internal","message":"{message}"}}"#);
                assert_eq!((frames, close), (vec![error], Some(1011)), "{frame}");
                world.hub.gone(tag, "closed by the peer");
            }
            None => {
                assert_eq!(close, None, "{frame}");
                let replayed = if frame.contains("subscribe") { 3..SEEN } else { 0..0 };
                let seqs: Vec<u64> = frames.iter().map(|frame| seq(frame)).collect();
                assert_eq!(seqs, replayed.collect::<Vec<_>>(), "{frame}");
            }
        }
        // Whoever comes back is greeted, and shown what is stored.
        let again = world.connect(number);
        world.send(again, &subscribe(0));
        world.settle();
        assert_eq!(world.seqs(again), (0..SEEN).collect::<Vec<_>>(), "{frame}");
    }
}

#[test]
fn a_stop_and_a_kill_with_a_thousand_stalled_agents_lose_nothing_that_was_seen() {
    for kill in [true, false] {
        let (mut world, tags) = stalled();
        if !kill {
            world.hub.stop();
            world.obey();
            world.settle();
            for &tag in &tags {
                assert_eq!((world.peer(tag).close, world.peer(tag).frames.len()), (Some(1001), 0));
                world.hub.gone(tag, "closed by the peer");
            }
            world.hub.stage_tick();
            assert_eq!(world.hub.stage(), Stage::Over);
        }
        // The next process finds the disk as full as it was.
        let disk = world.disk.kill();
        let log = LogOptions { sync: SyncMode::Always, segment_bytes: 16 * 1024 };
        let store = Store::open(Arc::new(disk), "/data", log).expect("a store");
        for number in 0..AGENTS {
            let opened = store.open_session(&session(number), None).expect("a sound log");
            assert_eq!((opened.log.tip().seq, opened.state.turn), (SEEN - 1, None));
        }
    }
}
