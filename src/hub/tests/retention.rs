//! Old segments that are removed: who is told, and who is not disturbed.

use super::tools::{calls, mirror};
use super::with_log;
use super::world::{WAKE, World, handshake, seq, step, subscribe, tokens};
use crate::agent::Approval;
use crate::config::{Config, LogConfig, Script};
use crate::conn::slab::Tag;
use crate::hub::Options;
use crate::hub::entry::Entry;
use crate::limits::{SWEEP_ROUND_S, SWEEP_S};
use crate::model::Provider;
use crate::work::Reload;
use std::sync::Arc;

/// From now on only the newest events are kept.
fn keep(world: &mut World, keep_events: Option<u64>) {
    keep_as(world, keep_events, Config::default());
}

fn keep_as(world: &mut World, keep_events: Option<u64>, config: Config) {
    let log = LogConfig { keep_events, ..config.log };
    let config = Config { log, history_bytes: 100, ..config };
    let running = Arc::new(config.clone());
    let Options { idle_residents_max, max_agents, replay_limit, .. } = world.hub.options;
    world.hub.reload(Reload { config, running, tokens: tokens() });
    world.hub.options.idle_residents_max = idle_residents_max;
    world.hub.options.max_agents = max_agents;
    world.hub.options.replay_limit = replay_limit;
}

/// Lets a sweep happen. One job is out at a time.
fn sweep(world: &mut World) {
    world.pass(SWEEP_S * 1000);
    while !world.jobs.is_empty() {
        assert_eq!(world.jobs.len(), 1);
        world.run_job();
    }
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer t0\r\n\r\n").into_bytes()
}

fn seqs_of(text: &str) -> Vec<u64> {
    text.lines().filter(|line| line.starts_with("{\"id\"")).map(seq).collect()
}

/// What a subscribe from `from` is told first, if anything but events, and its events.
fn subscribed(world: &mut World, tag: Tag, from: u64) -> (Option<String>, Vec<u64>) {
    world.send(tag, &subscribe(from));
    world.settle();
    let frames = &mut world.peer(tag).frames;
    let is_told = frames.first().is_some_and(|frame| frame.starts_with("{\"type\""));
    let told = is_told.then(|| frames.remove(0));
    (told, world.seqs(tag))
}

fn truncated(requested: u64, from: u64) -> String {
    format!(r#"{{"type":"replay_truncated","requested_from_seq":{requested},"from_seq":{from}}}"#)
}

/// A world in which the beginning of session 0 was removed, the first event kept, and the tip.
fn trimmed(adjust: impl FnOnce(&mut Options)) -> (World, u64, u64) {
    let (mut world, tip) = with_log(20, 20, adjust);
    keep(&mut world, Some(100));
    sweep(&mut world);
    let tag = world.dial(&get("/agents/s0/events"));
    world.settle();
    let first = seqs_of(&world.peer(tag).text())[0];
    assert!((300..=tip - 100).contains(&first), "{first} of {tip}");
    (world, first, tip)
}

#[test]
fn a_subscribe_below_what_is_kept_is_told_once_and_begins_there() {
    let (mut world, first, tip) = trimmed(|_| {});
    let tag = world.connect(0);
    for from in [0, 1, first - 1, first, first + 1, tip, tip + 1] {
        let (told, seqs) = subscribed(&mut world, tag, from);
        assert_eq!(told, (from < first).then(|| truncated(from, first)), "from {from}");
        assert_eq!(seqs, (from.max(first)..=tip).collect::<Vec<_>>(), "from {from}");
    }
    // The bound on replays moves the beginning further, and it is still told once.
    world.hub.options.replay_limit = 10;
    for from in [0, first, tip - 10] {
        let (told, seqs) = subscribed(&mut world, tag, from);
        assert_eq!(told, Some(truncated(from, tip - 9)), "from {from}");
        assert_eq!(seqs, (tip - 9..=tip).collect::<Vec<_>>(), "from {from}");
    }
    // Less than it would let through is there.
    world.hub.options.replay_limit = tip - first + 5;
    let (told, seqs) = subscribed(&mut world, tag, 0);
    assert_eq!(told, Some(truncated(0, first)));
    assert_eq!(seqs, (first..=tip).collect::<Vec<_>>());
    world.send(tag, WAKE);
    world.settle();
    assert_eq!(world.seqs(tag)[0], tip + 1, "and the tail follows");
}

#[test]
fn a_history_read_below_what_is_kept_begins_with_the_first_event_there_is() {
    let (mut world, first, tip) = trimmed(|_| {});
    for (query, expected) in [
        ("", first..=tip),
        ("?from_seq=3", first..=tip),
        ("?from_seq=3&limit=2", first..=first + 1),
        ("?limit=100000", first..=tip),
        ("?from_seq=400&limit=2", 400..=401),
    ] {
        let tag = world.dial(&get(&format!("/agents/s0/events{query}")));
        world.settle();
        let text = world.peer(tag).text();
        assert!(text.starts_with("HTTP/1.1 200 "), "{query}: {text}");
        assert_eq!(seqs_of(&text), expected.collect::<Vec<_>>(), "{query}");
        assert!(world.hub.is_ending(tag), "{query}");
    }
}

#[test]
fn a_reader_that_has_begun_is_ended_and_not_given_a_gap() {
    let (mut world, tip) = with_log(60, 90, |_| {});
    let (tag, history) = (world.connect(0), world.dial(&[]));
    for reader in [tag, history] {
        world.peer(reader).takes = 1000;
    }
    world.send(tag, &subscribe(0));
    world.bytes(history, &get("/agents/s0/events"));
    world.settle();
    keep(&mut world, Some(1));
    sweep(&mut world);
    for reader in [tag, history] {
        world.take(reader, usize::MAX / 2);
    }
    world.settle();
    let error = world.peer(tag).frames.pop().expect("an error frame");
    assert!(error.contains(r#""code":"internal","message":"events before "#), "{error}");
    let seqs = world.seqs(tag);
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
    assert!((seqs.len() as u64) < tip);
    assert!(world.peer(history).ended);
    let seqs = seqs_of(&world.peer(history).text());
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
    let again = world.connect(0);
    let (told, rest) = subscribed(&mut world, again, seqs.len() as u64);
    assert_eq!(told, Some(truncated(seqs.len() as u64, rest[0])));
    assert_eq!(rest.last(), Some(&tip));
}

#[test]
fn a_session_that_grows_loses_its_beginning_by_itself() {
    let (mut world, _) = with_log(0, 20, |_| {});
    keep(&mut world, Some(1));
    let tag = world.connect(0);
    for _ in 0..30 {
        world.send(tag, WAKE);
        world.settle();
    }
    let dir = std::path::Path::new("/data/sessions/s0");
    let names = crate::disk::Disk::list(&world.disk, dir).expect("a directory");
    assert!(names.len() <= 4, "{names:?}");
    assert!(world.notes.iter().any(|note| note.event == "old segments removed"));
}

#[test]
fn the_sweep_reaches_everybody_and_leaves_them_where_they_were() {
    let mut world = World::new(vec![step(&["some text of the model "; 20])], |options| {
        (options.idle_residents_max, options.max_agents) = (0, 3);
    });
    for number in 0..3 {
        let tag = world.connect(number);
        for _ in 0..10 {
            world.send(tag, WAKE);
            world.settle();
        }
        if number > 0 {
            world.hub.gone(tag, "done");
        }
    }
    let removed = |world: &World| {
        world.notes.iter().filter(|note| note.event == "old segments removed").count()
    };
    sweep(&mut world);
    assert_eq!(removed(&world), 0, "everything is kept");
    keep(&mut world, Some(1));
    world.pass(SWEEP_S * 1000);
    world.run_job();
    // While an agent is called, others find their places, and so does its own client.
    assert_eq!(world.hub.residents.pinned, 1);
    let called = world.jobs.len();
    assert_eq!(called, 1);
    world.dial(handshake(3, "t3").as_bytes());
    world.dial(handshake(4, "t4").as_bytes());
    world.settle();
    assert_eq!(removed(&world), 3);
    for number in [1, 2] {
        let entry = world.hub.agents.get(world.agent(number)).expect("an entry");
        assert!(entry.agent().is_none() && !entry.is_out(), "s{number}");
    }
    assert_eq!(world.hub.residents.pinned, 3);
    // The next round comes later, and finds nothing.
    world.pass(SWEEP_S * 1000);
    assert_eq!(world.jobs.len(), 0);
    world.pass(SWEEP_ROUND_S * 1000);
    world.settle();
    assert_eq!(removed(&world), 3);
    keep(&mut world, None);
    world.pass(2 * SWEEP_ROUND_S * 1000);
    assert_eq!(world.jobs.len(), 0, "nobody sweeps where everything is kept");
}

#[test]
fn an_agent_that_waits_for_a_human_still_does_when_it_was_swept() {
    let config = || Config { policy: vec!["*".into()], approvals: true, ..Config::default() };
    let mut steps = vec![step(&["some text of the model "; 20]); 10];
    steps.extend([calls(&["m"]), calls(&[])]);
    let script = Provider::Scripted(Arc::new(Script { steps, repeat: true }));
    let tool = mirror("m").approval(Approval::Always);
    let mut world = World::configured(&config(), script, vec![tool], |_| {});
    let tag = world.connect(0);
    for _ in 0..11 {
        world.send(tag, WAKE);
        world.settle();
    }
    world.hub.evict_idle_for_test(tag);
    world.hub.gone(tag, "done");
    keep_as(&mut world, Some(1), config());
    sweep(&mut world);
    assert!(world.notes.iter().any(|note| note.event == "old segments removed"));
    let reader = world.dial(&get("/agents/s0"));
    world.settle();
    let state = world.peer(reader).text();
    assert!(
        state.contains(r#""status":"parked","pending_approvals":[{"call_id":"id-m""#),
        "{state}"
    );
    let tag = world.connect(0);
    let agent = world.agent(0);
    let tip = world.hub.agents.get(agent).and_then(Entry::tip);
    world.send(tag, &subscribe(tip.expect("it has one").seq + 1));
    world.send(tag, r#"{"type":"approve","call_id":"id-m"}"#);
    world.settle();
    let end = world.peer(tag).frames.pop().expect("the turn's end");
    assert!(end.contains("\"completed\""), "{end}");
}

#[test]
fn a_full_disk_is_swept_while_a_turn_waits_for_space() {
    let (mut world, _) = with_log(20, 20, |_| {});
    world.disk.faults(|faults| faults.space = Some(0));
    let tag = world.connect(0);
    world.send(tag, WAKE);
    world.settle();
    assert!(world.hub.is_storage_full());
    keep(&mut world, Some(100));
    for _ in 0..SWEEP_S {
        world.pass(1000);
        world.settle();
    }
    world.pass(1000);
    world.settle();
    assert!(!world.hub.is_storage_full(), "what was removed made room");
}
