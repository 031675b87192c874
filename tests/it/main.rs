//! The integration tests: the real binary, spoken to from outside by peers that share no code with
//! it, and the rules of the repository. One binary, a file per behaviour.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails, and says where")]
#![allow(clippy::print_stderr, reason = "a failing test shows what the server had logged")]

mod harness;

mod agent_state;
mod approvals;
mod attach;
mod bad_frame;
mod bounds;
mod bounds_table;
mod cancel;
mod close_codes;
mod commands;
mod crash;
mod deploys;
mod embedding;
mod embedding_tools;
mod failed_disk;
mod first_contact;
mod first_process;
mod from_seq;
mod full_disk;
mod handshake;
mod heartbeat;
mod history;
mod instruction_counts;
mod liveness;
mod long_log;
mod many_sessions;
mod many_turns;
mod metrics;
mod openai;
mod plain_turn;
mod policy;
mod repair;
mod replay_limit;
mod restart;
mod resubscribe;
mod retries;
mod retention;
mod roles;
mod scripted;
mod secrets;
mod server_log;
mod shutdown;
mod sim;
mod slow_reader;
mod storm;
mod supersede;
mod tidy;
#[cfg(feature = "tls")]
mod tls;
mod tokens;
mod tool_ends;
mod tools;
mod wakes;
mod ws_peer;
