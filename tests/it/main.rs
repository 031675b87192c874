//! The integration tests: one binary, a file per behaviour.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails, and says where")]

mod embedding;
mod tidy;
mod ws_peer;
