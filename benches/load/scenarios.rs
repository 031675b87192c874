//! What is done to the server, and what is measured while it is.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::peers::{Peer, Peers};
use crate::server::Server;

/// Names with their unit, and what was measured.
pub(crate) type Figures = Vec<(&'static str, f64)>;

/// How much of everything.
pub(crate) struct Size {
    pub(crate) binary: PathBuf,
    storm_agents: usize,
    storm_turns: u64,
    fanout_agents: usize,
    fanout_chunks: usize,
    slow_pairs: usize,
    wakes_agents: usize,
    pub(crate) fairness_turns: usize,
}

impl Size {
    /// Small sizes if `short`, for the server at `binary`.
    pub(crate) fn new(short: bool, binary: PathBuf) -> Self {
        let pick = |long, small| if short { small } else { long };
        Self {
            binary,
            storm_agents: pick(400, 20),
            storm_turns: if short { 2 } else { 20 },
            fanout_agents: pick(500, 20),
            fanout_chunks: pick(200, 20),
            slow_pairs: pick(8, 2),
            wakes_agents: pick(200, 5),
            fairness_turns: pick(1000, 50),
        }
    }
}

/// Chunks of one model's answer in the storm.
const STORM_CHUNKS: usize = 50;
/// What an answer for readers that read nothing is made of: just below what a step may say. Some of
/// them fill whatever the kernel holds for a socket, and then the ring.
const SLOW_CHUNKS: usize = 480;
const SLOW_CHUNK_BYTES: usize = 8 * 1024;
const SLOW_STEPS: usize = 6;
/// Wakes of one burst.
const WAKES: usize = 40;

/// All clients come back at once, as after a deploy, and replay everything.
pub(crate) fn storm(size: &Size) -> Figures {
    let server =
        Server::start(&size.binary, size.storm_agents, &[step(STORM_CHUNKS, 20, 0)], &json!({}));
    let mut peers = Peers::following(server.addr, size.storm_agents);
    for turn in 1..=size.storm_turns {
        peers.list.iter_mut().for_each(|peer| peer.wake("go"));
        peers.run("every turn", |peers| peers.iter().all(|peer| peer.turns_ended == turn));
    }
    peers.cut();

    let (cpu, start) = (server.cpu_us(), Instant::now());
    let mut peers = Peers::new();
    for number in 0..size.storm_agents {
        peers.connect(server.addr, number);
    }
    peers.run("every hello", |peers| peers.iter().all(|peer| peer.hello.is_some()));
    let hellos = server.cpu_us() - cpu;
    peers.list.iter_mut().for_each(|peer| peer.subscribe(0));
    peers.run("every replay", |peers| peers.iter().all(|peer| peer.caught_up.is_some()));
    let (all, took) = (server.cpu_us() - cpu, start.elapsed());
    let events: u64 = peers.list.iter().map(|peer| peer.events).sum();
    let mut to_hello: Vec<Duration> = peers.list.iter().map(|peer| peer.hello.unwrap().1).collect();
    let mut to_tip: Vec<Duration> = peers.list.iter().map(|peer| peer.caught_up.unwrap()).collect();
    vec![
        ("clients", size.storm_agents as f64),
        ("events", events as f64),
        ("server us a handshake to hello", hellos / size.storm_agents as f64),
        ("server us a replayed event", (all - hellos) / events as f64),
        ("ms to hello, median", median(&mut to_hello)),
        ("ms to hello, last", last(&to_hello)),
        ("ms to the tip, median", median(&mut to_tip)),
        ("ms to the tip, last", last(&to_tip)),
        ("events a second", events as f64 / took.as_secs_f64()),
        ("server resident MB", server.resident_bytes() / 1e6),
    ]
}

/// Every agent streams to its client.
pub(crate) fn fanout(size: &Size) -> Figures {
    let steps = [step(size.fanout_chunks, 20, 5)];
    let server = Server::start(&size.binary, size.fanout_agents, &steps, &json!({}));
    let mut peers = Peers::following(server.addr, size.fanout_agents);
    let (cpu, start) = (server.cpu_us(), Instant::now());
    peers.list.iter_mut().for_each(|peer| peer.wake("go"));
    peers.run("every turn", |peers| peers.iter().all(|peer| peer.turns_ended == 1));
    let (cpu, took) = (server.cpu_us() - cpu, start.elapsed());
    let events: u64 = peers.list.iter().map(|peer| peer.events).sum();
    vec![
        ("clients", size.fanout_agents as f64),
        ("events", events as f64),
        ("server us an event", cpu / events as f64),
        ("events a second", events as f64 / took.as_secs_f64()),
        ("server resident MB", server.resident_bytes() / 1e6),
    ]
}

/// Readers that read, alone and beside as many that do not: what the latter cost the former.
pub(crate) fn slow(size: &Size) -> Figures {
    // A call of a tool that is not there makes the turn go on with another step.
    let mut steps = vec![step(SLOW_CHUNKS, SLOW_CHUNK_BYTES, 0); SLOW_STEPS];
    for step in &mut steps[1..] {
        step["tool_calls"] = json!([{"id": "a", "name": "more", "args": {}}]);
    }
    steps.rotate_left(1);
    let server = Server::start(&size.binary, 2 * size.slow_pairs, &steps, &json!({}));
    let mut peers = Peers::following(server.addr, 2 * size.slow_pairs);
    let (mut cpu, mut took) = (Vec::new(), Vec::new());
    for beside in [false, true] {
        let turns = if beside { 2 } else { 1 };
        let (before, start) = (server.cpu_us(), Instant::now());
        for (index, peer) in peers.list.iter_mut().enumerate() {
            let is_slow = index % 2 == 1;
            peer.reads(!is_slow);
            if !is_slow || beside {
                peer.wake("go");
            }
        }
        peers.run("every reader's turn", |peers| {
            peers.iter().step_by(2).all(|peer| peer.turns_ended == turns)
        });
        cpu.push(server.cpu_us() - before);
        took.push(start.elapsed().as_secs_f64());
    }
    peers.list.iter_mut().for_each(|peer| peer.reads(true));
    peers.run("every slow reader's end", |peers| {
        peers.iter().skip(1).step_by(2).all(|peer| peer.gone)
    });
    for (index, peer) in peers.list.iter().enumerate() {
        // Who reads too late does not get the error frame any more: the socket was closed hard.
        let lagged = (peer.error.as_deref(), peer.close) == (Some("lagged"), Some(4429));
        let is_as_expected =
            if index % 2 == 1 { lagged || peer.error.is_none() } else { !peer.gone };
        assert!(is_as_expected, "client {index}: {:?} {:?}", peer.error, peer.close);
    }
    let lagged = server.metric("terret_lagged_total");
    assert!((lagged - size.slow_pairs as f64).abs() < 0.5, "exactly those are lagged: {lagged}");
    vec![
        ("readers", size.slow_pairs as f64),
        ("readers that read nothing", size.slow_pairs as f64),
        ("server seconds of CPU alone", cpu[0] / 1e6),
        ("seconds alone", took[0]),
        ("seconds beside them", took[1]),
        ("ratio of the seconds", took[1] / took[0]),
        ("ratio of the server's CPU", cpu[1] / cpu[0]),
        ("server resident MB", server.resident_bytes() / 1e6),
    ]
}

/// Bursts of waking texts: each comes into the log exactly once, and every turn ends.
pub(crate) fn wakes(size: &Size) -> Figures {
    let always = json!({"log": {"sync": "always"}});
    let server = Server::start(&size.binary, size.wakes_agents, &[step(2, 10, 0)], &always);
    let mut peers = Peers::following(server.addr, size.wakes_agents);
    let (cpu, start) = (server.cpu_us(), Instant::now());
    let expected: Vec<String> = (0..WAKES).map(|number| format!("text-{number}")).collect();
    for peer in &mut peers.list {
        for text in &expected {
            peer.wake(text);
        }
    }
    let all_there = |peer: &Peer| peer.texts.len() >= WAKES && peer.turns_ended > 0;
    peers.run("every text", |peers| peers.iter().all(all_there));
    let (cpu, took) = (server.cpu_us() - cpu, start.elapsed());
    for peer in &mut peers.list {
        peer.texts.sort_unstable();
        let mut expected = expected.clone();
        expected.sort_unstable();
        assert_eq!(peer.texts, expected, "each text once");
    }
    let texts = (WAKES * size.wakes_agents) as f64;
    vec![
        ("agents", size.wakes_agents as f64),
        ("texts", texts),
        ("server us a text", cpu / texts),
        ("texts a second", texts / took.as_secs_f64()),
    ]
}

/// A scripted answer of so many chunks.
fn step(chunks: usize, bytes: usize, delay_ms: u64) -> Value {
    json!({"chunks": vec!["x".repeat(bytes); chunks], "chunk_delay_ms": delay_ms})
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}

/// Of sorted times.
fn last(times: &[Duration]) -> f64 {
    times[times.len() - 1].as_secs_f64() * 1e3
}
