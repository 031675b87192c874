//! Files: the only place that names `std::fs`.
//!
//! The durable log of every session lies behind [`Store`], which any thread may share: it opens
//! sessions ([`Store::open_session`]), reads pieces of them ([`Store::read`]) and holds the lock on the
//! data directory. Appending is the business of a [`SessionLog`], which has one owner at a time and
//! moves with it. What the bytes mean is decided in [`crate::log`]; nothing here knows an agent, a
//! connection or a thread.
//!
//! Every call to the operating system goes through [`Disk`] and [`DiskFile`], so that [`sim::SimDisk`]
//! can stand in for it and lose power at any of them.
//!
//! Invariants:
//! - What [`SessionLog::append`] returned is in the log for good (with [`SyncMode::Always`]: across a
//!   power cut), under the same seq and unchanged.
//! - After a write or sync that failed for another reason than space, nothing is appended to any
//!   session until the process is started anew ([`Store::latched`]).

pub mod api;
pub mod real;
pub mod sim;
pub mod error;
pub mod store;
mod files;
mod recover;
mod append;
mod mailbox;
mod read;
mod turns;
mod retain;
pub mod inspect;
pub mod verify;
pub mod repair;
pub mod text_file;
pub mod running;
pub mod scratch;

pub use crate::config::SyncMode;
pub use crate::log::inbox::InboxEntry;
pub use api::{Disk, DiskFile, Open};
pub use append::SessionLog;
pub use error::{AppendError, OpenError, ReadError, StoreError};
pub use read::{Cursor, Events, Piece};
pub use recover::{Opened, TornReport};
pub use retain::{Retention, Swept, Trimmed};
pub use store::{LogOptions, Stats, Store, Tip, lock_is_left_behind};

#[cfg(test)]
mod tests;
