//! terret-ws: the server side of the Terret Socket Protocol v1.
//!
//! It runs agents: one durable session per agent, one WebSocket per agent, many agents per process.
//! Everything a client sees is the append-only session log, event by event.
//!
//! ```text
//!  client sockets   ─┐
//!  provider sockets  │
//!  tool processes   ─┼─▶ reactor thread ──── Job ────▶ worker pool (fixed)
//!  timers, signals  ─┘   net: bytes           │         work: run an agent's inputs,
//!                        hub: decides         │         append, sync, read a log
//!                               ▲             │               │
//!                               └──── Done + one Waker ───────┘
//! ```
//!
//! Waiting lives in the reactor, work lives on the workers. A turn that waits for a model, a tool or
//! a human is a value in memory, not a thread. An agent is either at home with the reactor or in
//! exactly one job, so no lock guards a session. An event reaches a client only after its bytes are
//! in the log.
//!
//! Comments cite the Terret Socket Protocol v1 ("contract") and its clarifications by section, and
//! RFC 6455 and its relatives by number; README.md tells what a user needs of them.
//!
//! The layers, from pure to concrete. A module uses those above it in this list and none below;
//! `tests/it/tidy.rs` holds the exact allow-list and reads every `use crate::` line.

pub mod limits;
pub mod os;
pub mod proto;
pub mod config;
pub mod log;
pub mod agent;
pub mod model;
pub mod tool;
pub mod conn;
pub mod disk;
pub mod work;
pub mod hub;
pub mod net;
pub mod server;
pub mod client;
pub mod cli;

#[cfg(test)]
mod tests {
    mod fuzz_seeds;
}
