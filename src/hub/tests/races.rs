//! Two things that cross: what was decided before one of them is still right after the other.

use super::world::{WAKE, World, close_frame, frame, handshake, step};
use crate::config::OpenAiConfig;
use crate::model::{OpenAi, Provider};
use crate::proto::http_client::BaseUrl;
use crate::work::advance::Input;
use std::sync::Arc;

#[test]
fn a_first_connection_is_served_though_somebody_was_just_told_that_there_is_no_session() {
    let mut world = World::new(vec![step(&["x"])], |_| {});
    let look = "GET /agents/s0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t0\r\n\r\n";
    let looks = world.dial(look.as_bytes());
    let tag = world.dial(handshake(0, "t0").as_bytes());
    world.settle();
    assert!(world.peer(looks).head.starts_with("HTTP/1.1 404 "));
    let frames = std::mem::take(&mut world.peer(tag).frames);
    assert_eq!(frames, [r#"{"type":"hello","proto":1,"session_id":"s0","last_seq":0}"#]);
}

#[test]
fn no_error_follows_the_close_frame_that_overtook_it() {
    let mut world = World::new(vec![step(&["x"])], |_| {});
    let tag = world.connect(0);
    let cancel_and_close = [frame(r#"{"type":"cancel"}"#), close_frame()].concat();
    world.bytes(tag, &cancel_and_close);
    world.settle();
    assert_eq!(world.peer(tag).close, Some(1000));
    assert!(world.peer(tag).frames.is_empty());
}

#[test]
fn an_agent_whose_request_is_queued_is_not_run_again_and_again() {
    let base_url = BaseUrl::parse("http://models.test/v1").expect("a URL");
    let mut config = OpenAiConfig::new(base_url);
    config.max_concurrent_requests = Some(1);
    let server = OpenAi::new(config).expect("no headers");
    let mut world = World::with(Provider::OpenAi(Arc::new(server)), |_| {});
    for number in 0..2 {
        let tag = world.connect(number);
        world.send(tag, WAKE);
        world.settle();
    }
    let agent = world.agent(1);
    world.hub.post(agent, Input::Clock);
    world.obey();
    assert!(world.run_job());
    assert!(world.jobs.is_empty(), "it waits for its turn");
}
