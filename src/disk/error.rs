//! How the store fails, sorted by what the caller has to do about it.

use std::fmt;
use std::io;

use super::store::Tip;
use crate::log::place::Place;

/// Why a data directory cannot be served.
#[derive(Debug)]
pub enum StoreError {
    /// Another process serves it (exit status 75). Nothing was written.
    Locked {
        /// The process that holds the lock, if it could be read.
        pid: Option<u32>,
    },
    /// The directory could not be made, or its lock not be taken.
    Io(io::Error),
}

/// Why a session cannot be opened for appending.
#[derive(Debug)]
pub enum OpenError {
    /// There is no such session, and it was not to be made.
    Missing,
    /// It is damaged. Nothing was touched; it can be read up to the hole and from beyond it.
    Damaged {
        /// The damage that was met first.
        place: Place,
        /// The last valid line, which is what `hello` names; nothing if none is left.
        tip: Option<Tip>,
    },
    /// An error, never a verdict: nothing was cut. Of kind `StorageFull` when a session that was to
    /// be made did not fit.
    Io(io::Error),
}

/// Why events were not appended, or not all of them.
#[derive(Debug)]
pub enum AppendError {
    /// No space, quota or file size left. What had been written of the failing part is cut off again
    /// and the cut is synced; what was not appended may be appended later.
    NoSpace {
        /// The lines that are in the log for good, as [`super::SessionLog::append`] returns them:
        /// they are to be published.
        lines: Vec<u8>,
        /// How many events these are; the ones behind them were not appended.
        appended: usize,
    },
    /// The file could not be opened: descriptors are used up, or somebody removed it. What was not
    /// appended may be appended later.
    Unopened {
        /// As in [`AppendError::NoSpace`].
        lines: Vec<u8>,
        /// As in [`AppendError::NoSpace`].
        appended: usize,
        /// Why.
        error: io::Error,
    },
    /// A write or sync failed, now or earlier, here or in another session. Nothing is ever appended
    /// again by this process; it should exit with status 74.
    Latched(String),
}

/// Why a read gave nothing.
#[derive(Debug)]
pub enum ReadError {
    /// The next event cannot be read; those before it were served by earlier pieces.
    Damaged(Place),
    /// It is older than what is kept: old segments have been removed.
    Removed {
        /// The seq of the first event that there is.
        first: u64,
    },
    /// An error, never a verdict.
    Io(io::Error),
}

/// What stopped a change, before it is known what it was a part of.
#[derive(Debug)]
pub(super) enum Stop {
    NoSpace,
    Unopened(io::Error),
    Latched(String),
}

impl Stop {
    /// The error of an append that had stored `lines`, which are `appended` events, before.
    pub(super) fn after(self, lines: Vec<u8>, appended: usize) -> AppendError {
        match self {
            Self::NoSpace => AppendError::NoSpace { lines, appended },
            Self::Unopened(error) => AppendError::Unopened { lines, appended, error },
            Self::Latched(error) => AppendError::Latched(error),
        }
    }
}

impl From<Stop> for io::Error {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::NoSpace => io::ErrorKind::StorageFull.into(),
            Stop::Unopened(error) => error,
            Stop::Latched(error) => io::Error::other(error),
        }
    }
}

impl From<Stop> for OpenError {
    fn from(stop: Stop) -> Self {
        Self::Io(stop.into())
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error,
            told => io::Error::other(told.to_string()),
        }
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { pid: Some(pid) } => {
                write!(f, "the data directory is in use by process {pid}")
            }
            Self::Locked { pid: None } => f.write_str("the data directory is in use"),
            Self::Io(error) => write!(f, "the data directory cannot be used: {error}"),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("no such session"),
            Self::Damaged { place, tip } => {
                let none_left = if tip.is_none() { "; no event is left" } else { "" };
                write!(f, "the log is damaged: {place}{none_left}")
            }
            Self::Io(error) if is_no_space(error) => f.write_str(FULL),
            Self::Io(error) => write!(f, "the log cannot be opened: {error}"),
        }
    }
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpace { .. } => f.write_str(FULL),
            Self::Unopened { error, .. } => write!(f, "the log cannot be opened: {error}"),
            Self::Latched(error) => write!(f, "the disk failed: {error}"),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(place) => write!(f, "the log is damaged: {place}"),
            Self::Removed { first } => {
                write!(f, "events before {first} are no longer kept; resubscribe")
            }
            Self::Io(error) => write!(f, "the log cannot be read: {error}"),
        }
    }
}

impl std::error::Error for StoreError {}
impl std::error::Error for OpenError {}
impl std::error::Error for AppendError {}
impl std::error::Error for ReadError {}

/// Whether an error says that there is no room: it passes when somebody makes some.
pub(super) fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// What clients are told (design/log-format, "Failures").
const FULL: &str = "storage full";
