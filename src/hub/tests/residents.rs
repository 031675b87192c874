//! Who is in memory, who holds a descriptor, and that nobody can tell.

use super::world::{SESSIONS, WAKE, World, step, subscribe};
use super::{TURN, Tag};
use crate::model::custom::Answer;
use crate::model::{Provider, Request};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn idle_agents_beyond_the_bound_leave_memory_and_come_back_on_a_text() {
    let mut world = World::new(vec![step(&["x"])], |_| {});
    let tags: Vec<Tag> = (0..4).map(|number| world.connect(number)).collect();
    for &tag in &tags {
        world.hub.evict_idle_for_test(tag);
        world.send(tag, &subscribe(0));
        world.send(tag, WAKE);
        world.settle();
        assert_eq!(world.seqs(tag), (0..=TURN + 1).collect::<Vec<_>>());
    }
}

#[test]
fn why_a_resume_failed_is_known_after_its_agent_has_left_memory() {
    let died = AtomicBool::new(false);
    let model = move |_: &Request<'_>, _: &str| -> Answer {
        assert!(died.swap(true, Ordering::Relaxed), "the first time it panics");
        Box::new([Err("no answer today".to_owned())].into_iter())
    };
    let mut world = World::with(Provider::Custom(Arc::new(model)), |_| {});
    let tag = world.connect(0);
    world.send(tag, WAKE);
    world.run_job_that_panics();
    // The turn is open in the log, and this text resumes it.
    let tag = world.connect(0);
    world.send(tag, WAKE);
    world.settle();
    let shown = |world: &mut World| {
        world.hub.evict_idle_for_test(tag);
        let get = "GET /agents/s0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t0\r\n\r\n";
        let reader = world.dial(get.as_bytes());
        world.settle();
        world.peer(reader).text()
    };
    for _ in 0..2 {
        let shown = shown(&mut world);
        assert!(shown.contains(r#""status":"interrupted""#), "{shown}");
        assert!(shown.contains(r#""last_error":"no answer today""#), "{shown}");
    }
}

#[test]
fn no_more_logs_than_allowed_hold_a_descriptor_and_every_turn_goes_on() {
    let mut slow = step(&["a", "b", "c"]);
    slow.chunk_delay_ms = 1000;
    let mut world = World::new(vec![slow], |options| options.open_files_max = 4);
    let tags: Vec<Tag> = (0..SESSIONS).map(|number| world.connect(number)).collect();
    for &tag in &tags {
        world.send(tag, &subscribe(0));
        world.send(tag, WAKE);
        world.settle();
        assert!(world.hub.open_files_for_test() <= 4);
    }
    for _ in 0..3 {
        world.pass(1000);
        world.settle();
        assert!(world.hub.open_files_for_test() <= 4);
    }
    for &tag in &tags {
        assert_eq!(world.seqs(tag), (0..=TURN + 3).collect::<Vec<_>>());
    }
    assert_eq!(world.hub.open_files_for_test(), 0, "an idle session holds no descriptor");
}
