//! What a peer cannot make grow or last: its handshake, its close, what waits for it, and how many
//! it is. Seconds are the test's own.

use super::world::{WAKE, World, close_frame, frame, handshake, step, subscribe};
use crate::config::{OpenAiConfig, ProviderConfig};
use crate::conn::ring::SLICES_MAX;
use crate::limits::{PROTOCOL_BYTES_MAX, ROLE_BYTES_MAX, UPSTREAM_BYTES_MAX};
use crate::model::Provider;
use crate::proto::http_client::BaseUrl;
use crate::proto::ws::frame::Opcode;
use crate::proto::ws::write_masked;
use crate::work::advance::NetEvent;
use std::io::IoSlice;

#[test]
fn a_handshake_and_a_close_have_their_deadlines() {
    let mut world = World::new(vec![step(&["x"])], |_| {});
    let slow = world.dial(b"GET /agents/s0/ws HTTP/1.1\r\n");
    let closing = world.connect(1);
    world.send(closing, WAKE);
    world.bytes(closing, &close_frame());
    assert_eq!(world.peer(closing).close, Some(1000), "a close is answered with its own code");
    world.pass(4_999);
    assert_eq!(world.closed, []);
    world.pass(1);
    assert_eq!(world.closed, [closing]);
    world.pass(5_000);
    assert_eq!(world.closed, [closing, slow]);
}

#[test]
fn a_close_of_ours_that_is_not_answered_ends_as_soon() {
    let mut world = World::new(vec![step(&["x"])], |_| {});
    let (first, deaf) = (world.connect(0), world.connect(1));
    world.peer(deaf).takes = 0;
    let second = world.connect(0);
    world.connect(1);
    assert_eq!(world.peer(first).close, Some(4409));
    assert_eq!(world.peer(deaf).close, None, "it does not even take it");
    for _ in 0..4 {
        world.pass(1000);
        // Whatever it still says is no answer.
        world.send(first, WAKE);
    }
    assert_eq!(world.closed, []);
    world.pass(1000);
    assert_eq!(world.closed, [first, deaf]);
    world.settle();
    assert!(world.hub.clients.get(second).is_some());
}

#[test]
fn a_flood_of_frames_is_read_only_as_fast_as_its_agent_takes_them() {
    let mut world = World::new(vec![step(&["x"])], |_| {});
    let tag = world.connect(0);
    let steer = frame(&format!(r#"{{"type":"inject","text":"{}"}}"#, "z".repeat(1000)));
    let mut sent = 0;
    while world.hub.wants_read(tag) {
        world.bytes(tag, &steer.repeat(40));
        sent += 40;
        assert!(sent < 2000, "the mailbox is bounded");
    }
    world.settle();
    assert!(world.hub.wants_read(tag), "and read on once there is room");
    world.send(tag, WAKE);
    world.send(tag, &subscribe(0));
    world.settle();
    let injected = world.peer(tag).frames.iter().filter(|frame| frame.contains("context/injected"));
    assert_eq!(injected.count(), sent);
}

#[test]
fn a_peer_that_takes_no_answers_is_not_read() {
    let mut ping = Vec::new();
    write_masked(&mut ping, Opcode::Ping, &[b'x'; 125], [1, 2, 3, 4]);
    for asks in [frame("{}").repeat(500), ping.repeat(500)] {
        let mut world = World::new(vec![step(&["x"])], |_| {});
        let tag = world.connect(0);
        world.peer(tag).takes = 0;
        while world.hub.wants_read(tag) {
            world.bytes(tag, &asks);
            let waiting = world.hub.clients.get(tag).expect("it is there");
            assert!(waiting.backlog.len() <= asks.len());
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = world.hub.slices(tag, &mut slices);
        let waiting: usize = slices[..count].iter().map(|slice| slice.len()).sum();
        assert!(waiting <= PROTOCOL_BYTES_MAX + 1024, "{waiting} bytes wait");
        world.take(tag, usize::MAX / 2);
        assert!(world.hub.wants_read(tag));
    }
}

#[test]
fn a_handshake_or_a_body_that_trickles_has_the_same_deadlines() {
    let mut world = World::new(vec![step(&["x"])], |_| {});
    let slow = world.dial(b"");
    // A body where none belongs is not waited for, whatever the method.
    let announced = "/healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n";
    let bodies = [("POST", 405), ("GET", 400)].map(|(method, status)| {
        let tag = world.dial(format!("{method} {announced}").as_bytes());
        let head = &world.peer(tag).head;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{method}: {head}");
        tag
    });
    let mut closed = Vec::new();
    for (second, byte) in (1..).zip(handshake(0, "t0").into_bytes()) {
        world.bytes(slow, &[byte]);
        for tag in bodies {
            if world.hub.clients.get(tag).is_some() {
                world.bytes(tag, b"x");
                let held = world.hub.clients.get(tag).map_or(0, |client| client.backlog.len());
                assert_eq!(held, 0, "what it still says is discarded");
            }
        }
        world.pass(1000);
        closed.extend(std::mem::take(&mut world.closed).into_iter().map(|tag| (second, tag)));
        if world.hub.clients.get(slow).is_none() {
            break;
        }
    }
    let [posts, gets] = bodies;
    assert_eq!(closed, [(5, posts), (5, gets), (10, slow)]);
}

#[test]
fn beyond_the_connection_limit_it_is_503_and_beyond_twice_that_nothing() {
    let mut world = World::new(vec![step(&["x"])], |options| options.max_connections = 3);
    let served = world.connect(0);
    world.dial(b"");
    world.dial(b"");
    let refused: Vec<_> = (0..3).map(|_| world.dial(b"")).collect();
    for &tag in &refused {
        assert!(world.peer(tag).head.starts_with("HTTP/1.1 503 "));
    }
    assert!(world.hub.accept().is_none(), "not even an answer");
    world.send(served, &subscribe(0));
    world.settle();
    assert_eq!(world.seqs(served), [0], "whoever is in is served");
    world.pass(5_000);
    assert_eq!(world.closed, refused, "an answer that is not taken lasts five seconds");
    world.dial(b"");
}

#[test]
fn a_role_has_a_name_of_256_bytes_at_most() {
    let mut world = World::new(vec![step(&["x"])], |_| {});
    let tag = world.connect(0);
    for (len, refused) in [(ROLE_BYTES_MAX, 0), (ROLE_BYTES_MAX + 1, 1)] {
        let role = "r".repeat(len);
        world.send(tag, &format!(r#"{{"type":"set_model","role":"{role}","model":"mine/x"}}"#));
        assert_eq!(world.peer(tag).frames.len(), refused, "{len} bytes");
    }
}

#[test]
fn a_provider_is_read_only_as_fast_as_its_agent_takes_it() {
    let base_url = BaseUrl::parse("http://192.0.2.1/v1").expect("a URL");
    let provider = ProviderConfig::OpenAi(OpenAiConfig::new(base_url));
    let mut world = World::with(Provider::new(provider).expect("no headers"), |_| {});
    let tag = world.connect(0);
    world.send(tag, WAKE);
    world.settle();
    let (agent, _) = world.upstream[0];
    world.hub.upstream(agent, NetEvent::Connected);
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    world.hub.upstream(agent, NetEvent::Bytes(head.to_vec()));
    let (comments, mut came) = (b": and so on\n".repeat(1000), 0);
    while world.hub.wants_upstream(agent) {
        world.hub.upstream(agent, NetEvent::Bytes(comments.clone()));
        came += comments.len();
        assert!(came <= UPSTREAM_BYTES_MAX + comments.len(), "what waits is bounded");
    }
    world.obey();
    world.settle();
    assert!(world.hub.wants_upstream(agent), "and read on once there is room");
}
