//! A connection that its agent gives up before it stands, and one that brings more than its share.

use super::*;
use crate::work::Done;
use crate::work::pool::Inbound;
use crossbeam_channel::Receiver;
use mio::Poll;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

const AGENT: Tag = Tag { slot: 3, generation: 1 };

/// No connections yet, and where the resolver's answers come out.
fn upstreams() -> (Upstreams, Receiver<Done>) {
    let (inbound, answers) = Inbound::new(|| ());
    let resolver = Resolver::start(inbound).expect("a thread");
    let registry = Poll::new().and_then(|poll| poll.registry().try_clone()).expect("a poll");
    (Upstreams::new(registry, resolver, Trust::default()), answers)
}

fn connect_to(host: &str, listener: &TcpListener) -> Upstream {
    let port = listener.local_addr().expect("bound").port();
    let target = Target { host: host.into(), port, tls: false };
    Upstream::Connect { target, request: RequestBytes::new(b"a request".to_vec()) }
}

#[test]
fn what_is_given_up_while_its_name_is_looked_up_connects_to_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("it is a socket");
    let (mut upstreams, answers) = upstreams();
    upstreams.obey(AGENT, connect_to("localhost", &listener), Mono(0));
    upstreams.obey(AGENT, Upstream::Disconnect, Mono(0));
    assert_eq!(upstreams.links.iter().count(), 0);
    let Ok(Done::Resolved(resolved)) = answers.recv() else { panic!("an answer") };
    upstreams.resolved(resolved, Mono(0));
    assert_eq!(upstreams.links.iter().count(), 0);
    assert!(upstreams.take_events().is_empty());
    let error = listener.accept().expect_err("nobody connects");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[test]
fn what_is_given_up_while_it_connects_hangs_up_unheard() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (mut upstreams, _answers) = upstreams();
    upstreams.obey(AGENT, connect_to("127.0.0.1", &listener), Mono(0));
    let link = upstreams.by_agent[&AGENT];
    let state = upstreams.links.get(link).map(|link| &link.state);
    assert!(matches!(state, Some(State::Connecting { .. })), "nobody has said that it stands");
    upstreams.obey(AGENT, Upstream::Disconnect, Mono(0));
    // The poll speaks of it once more.
    upstreams.event(link.slot, true, true);
    upstreams.serve_next(&mut [0; 64], |_| true);
    assert!(upstreams.take_events().is_empty());
    let (mut stream, _) = listener.accept().expect("it had come that far");
    assert_eq!(stream.read(&mut [0; 64]).expect("an end"), 0, "nothing was sent");
}

#[test]
fn an_answer_that_has_all_come_is_read_by_one_share_a_round() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (mut upstreams, _answers) = upstreams();
    upstreams.obey(AGENT, connect_to("127.0.0.1", &listener), Mono(0));
    let link = upstreams.by_agent[&AGENT];
    let (mut stream, _) = listener.accept().expect("it comes");
    stream.set_nonblocking(true).expect("it is a socket");
    let mut sent = 0;
    while let Ok(n) = stream.write(&[b'x'; 4096]) {
        sent += n;
    }
    assert!(sent > 2 * ROUND_BYTES, "the kernel holds {sent} bytes");
    let mut buffer = vec![0; ROUND_BYTES];
    let mut received = 0;
    while received < sent {
        upstreams.event(link.slot, true, true);
        upstreams.serve_next(&mut buffer, |_| true);
        let share: usize = upstreams.take_events().iter().map(|(_, event)| bytes_of(event)).sum();
        assert!(share <= ROUND_BYTES, "{share} bytes in one round");
        received += share;
    }
}

fn bytes_of(event: &NetEvent) -> usize {
    if let NetEvent::Bytes(bytes) = event { bytes.len() } else { 0 }
}
