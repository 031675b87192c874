//! The part of the configuration that the reactor goes by; turns go by their
//! [`Settings`](crate::work::settings::Settings).

use crate::config::{Config, RolesScope};
use crate::limits::IDLE_RESIDENTS_MAX;

/// What an operator decides that is not about turns.
#[derive(Clone, Debug)]
pub struct Options {
    /// Live events the socket has refused before `lagged`.
    pub queue_limit: usize,
    /// Bytes of them, likewise.
    pub queue_bytes: usize,
    /// Seconds between two pings.
    pub heartbeat_s: u64,
    /// Events one subscribe may replay.
    pub replay_limit: u64,
    /// Log reads for replays at once.
    pub max_concurrent_replays: usize,
    /// Connections; a further one gets 503.
    pub max_connections: usize,
    /// As many of them as the descriptor limit leaves room for: the default.
    pub connections_capacity: usize,
    /// Agents that cannot be evicted.
    pub max_agents: usize,
    /// Logs of resident agents that may hold a descriptor.
    pub open_files_max: usize,
    /// Agents with nothing to do that stay in memory.
    pub idle_residents_max: usize,
    /// Origins of web pages that may connect.
    pub allowed_origins: Vec<String>,
    /// A `set_model` reaches only the agent whose client sent it.
    pub roles_per_agent: bool,
    /// Seconds that running steps get to finish when the server stops.
    pub stop_grace_s: u64,
}

impl Options {
    /// Sockets at once, those included that are only answered 503. Whatever the configuration allows,
    /// the descriptors that logs, tools and providers need are left to those who are in.
    pub(super) fn sockets_max(&self) -> usize {
        2 * self.max_connections.min(self.connections_capacity)
    }

    /// What `config` says. `connections_capacity` and `open_files_max` are what the descriptor
    /// limit leaves room for.
    pub fn new(config: &Config, connections_capacity: usize, open_files_max: usize) -> Self {
        let max_connections = config.max_connections.unwrap_or(connections_capacity);
        Self {
            queue_limit: config.queue_limit,
            queue_bytes: config.queue_bytes,
            heartbeat_s: config.heartbeat_s,
            replay_limit: config.replay_limit,
            max_concurrent_replays: config.max_concurrent_replays,
            max_connections,
            connections_capacity,
            max_agents: config.max_agents.unwrap_or(max_connections),
            open_files_max,
            idle_residents_max: IDLE_RESIDENTS_MAX,
            allowed_origins: config.allowed_origins.clone(),
            roles_per_agent: config.roles_scope == RolesScope::Agent,
            stop_grace_s: config.stop_grace_s,
        }
    }
}
