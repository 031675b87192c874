//! Readers over HTTP: as slow as they like, as long as their token holds and their agent lives.

use super::world::{WAKE, World, handshake, session, step, subscribe};
use super::{Panics, with_log};
use crate::config::Tokens;
use crate::conn::slab::Tag;
use crate::limits::PIECE_BYTES_MAX;
use crate::model::Provider;
use crate::work::advance::Input;
use crate::work::{Done, Job, Read};
use std::sync::Arc;

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t0\r\n\r\n").into_bytes()
}

/// A connection that reads a history over HTTP and takes nothing of it yet.
fn slow_history(world: &mut World) -> Tag {
    let tag = world.dial(&[]);
    world.peer(tag).takes = 0;
    world.bytes(tag, &get("/agents/s0/events"));
    world.settle();
    tag
}

#[test]
fn the_last_piece_of_a_history_may_be_taken_as_slowly_as_the_others() {
    let (mut world, _) = with_log(2, 9, |_| {});
    let tag = slow_history(&mut world);
    assert!(world.hub.is_ending(tag), "one piece is all there is");
    for _ in 0..20 {
        world.take(tag, 1);
        world.pass(60_000);
    }
    assert!(world.closed.is_empty(), "it takes what it can");
    world.pass(600_000);
    assert_eq!(world.closed, [tag], "it has taken nothing for too long");
}

#[test]
fn a_history_is_read_no_further_with_a_token_that_was_revoked() {
    let (mut world, _) = with_log(60, 90, |_| {});
    let tag = slow_history(&mut world);
    assert!(!world.hub.is_ending(tag), "more than a piece");
    world.hub.set_tokens(Tokens::default());
    world.obey();
    assert!(world.hub.is_ending(tag));
    world.take(tag, usize::MAX / 2);
    world.settle();
    assert!(world.peer(tag).ended);
}

#[test]
fn a_first_connection_during_a_look_for_the_session_makes_it() {
    let mut world = World::new(vec![step(&["x"])], |_| {});
    let reader = world.dial(&get("/agents/s0"));
    assert_eq!(world.jobs.len(), 1, "it is looked up, and not made");
    world.connect(0);
    assert!(world.peer(reader).head.starts_with("HTTP/1.1 404 "));
}

#[test]
fn a_connection_between_a_look_and_its_agents_return_is_not_forgotten() {
    let mut world = World::new(vec![step(&["x"])], |_| {});
    world.dial(&get("/agents/s0"));
    let mut done = Vec::new();
    let job = world.jobs.pop_front().expect("it is looked up");
    world.worker.run(job, &mut |answer: crate::work::Done| done.push(answer));
    let mut done = done.into_iter();
    world.hub.done(done.next().expect("the session is missing"));
    world.obey();
    let tag = world.dial(handshake(0, "t0").as_bytes());
    let reader = world.dial(&get("/agents/s0"));
    for answer in done {
        world.hub.done(answer);
        world.obey();
    }
    world.settle();
    assert_eq!(world.peer(tag).frames.len(), 1, "its hello");
    assert!(world.peer(reader).head.starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_panic_leaves_nobody_who_reads_over_http_waiting() {
    let (mut world, _) = with_log(60, 90, |_| {});
    let agent = world.agent(0);
    let history = slow_history(&mut world);
    let snapshot = world.dial(&get("/agents/s0"));
    let job = world.jobs.pop_front().expect("the agent is asked");
    world.hub.done(job.on_panic());
    world.obey();
    assert!(world.hub.agents.get(agent).is_some_and(|entry| entry.tip().is_none()));
    assert!(world.peer(snapshot).head.starts_with("HTTP/1.1 500 "));
    assert!(world.hub.is_ending(history), "its end is missing, and the coding says so");
    world.take(history, usize::MAX / 2);
    world.settle();
    world.connect(0);
}

#[test]
fn a_panic_loses_no_read_that_was_answered_before_it() {
    let mut world = World::with(Provider::Custom(Arc::new(Panics)), |_| {});
    let tag = world.connect(0);
    let (_, entry) = world.hub.agents.iter().next().expect("its agent");
    let read = |conn| {
        let (session, tip) = (session(0), entry.tip().expect("a log"));
        Input::Read(Box::new(Read {
            conn,
            generation: 1,
            session,
            from: 0,
            frames: Some(Vec::new()),
            cursor: None,
            tip,
            events_max: 9,
        }))
    };
    let answered = read(tag);
    world.send(tag, WAKE);
    let mut job = world.jobs.pop_front().expect("a job");
    if let Job::Advance(advance) = &mut job {
        advance.inputs.insert(0, answered);
    }
    let mut done = Vec::new();
    assert!(
        world.worker.run_caught(job, &mut |answer: crate::work::Done| done.push(answer)).is_err()
    );
    assert!(matches!(done[0], Done::Piece { .. }));
    let Some(Done::Panicked { readers, .. }) = done.last() else { panic!("it has died") };
    assert!(readers.is_empty(), "{readers:?}");
}

#[test]
fn the_space_of_a_piece_is_used_again_but_not_that_of_a_large_event() {
    let large = "x".repeat(2 * PIECE_BYTES_MAX);
    let mut world = World::new(vec![step(&["x"]), step(&[&large])], |_| {});
    let tag = world.connect(0);
    let mut spare = Vec::new();
    for _ in 0..2 {
        world.send(tag, WAKE);
        world.settle();
        world.send(tag, &subscribe(0));
        world.settle();
        spare.extend(world.hub.spaces.iter().map(Vec::capacity));
    }
    assert!(!spare.is_empty());
    assert!(spare.iter().all(|&bytes| bytes <= PIECE_BYTES_MAX), "{spare:?}");
    assert!(world.peer(tag).frames.iter().any(|frame| frame.len() > PIECE_BYTES_MAX));
}
