//! terret-ws: the server side of the Terret Socket Protocol v1.
//!
//! Layers from pure to concrete; a module uses those above it in this list and none below:
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
