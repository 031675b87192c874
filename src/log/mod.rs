//! The segment format as pure functions (design/log-format): how a session's events stand in its
//! files, and what a file that was found means.
//!
//! Nothing here opens a file. `disk` does the reading and writing and asks these:
//!
//! - [`mod@line`]: one line and its seal
//! - [`header`], [`state`]: the first line of a segment and the projection it carries
//! - [`scan`]: a segment read from its beginning
//! - [`verdict`]: what the scan means, as a decision table
//! - [`seek`]: where an event stands, by a few small reads
//! - [`inbox`]: accepted texts that are not in the log yet
//! - [`place`]: how damage is named

pub mod crc;
pub mod line;
pub mod place;
pub mod state;
pub mod header;
pub mod scan;
pub mod verdict;
pub mod seek;
pub mod inbox;
#[cfg(any(test, fuzzing))]
pub mod fuzz;

pub use line::{SUFFIX_LEN, Shape, wire_len};
pub use state::State;
