//! A configuration that was read anew, and what of the old one is left.

use super::world::{World, step, tokens};
use crate::config::Config;
use crate::work::Reload;
use std::sync::Arc;

#[test]
fn a_shorter_heartbeat_is_not_kept_waiting_by_the_longer_one_before() {
    let config = |heartbeat_s: u64| Config { heartbeat_s, ..Default::default() };
    let mut world = World::new(vec![step(&["x"])], |options| options.heartbeat_s = 600);
    let old = world.connect(0);
    world.hub.reload(Reload {
        config: config(2),
        running: Arc::new(config(600)),
        tokens: tokens(),
    });
    let new = world.connect(1);
    world.pass(2000);
    assert_eq!((world.peer(old).pings, world.peer(new).pings), (1, 1));
}

#[test]
fn a_connection_limit_that_is_taken_back_leaves_the_default() {
    let config = |max_connections| Config { max_connections, ..Default::default() };
    let mut world = World::new(vec![step(&["x"])], |_| {});
    for (from, to, limit) in [(None, Some(1), 1), (Some(1), None, 64)] {
        world.hub.reload(Reload {
            config: config(to),
            running: Arc::new(config(from)),
            tokens: tokens(),
        });
        assert_eq!(world.hub.options.max_connections, limit);
    }
}
