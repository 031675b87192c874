//! What one answer may grow to, counted at the push (clarifications, section 4, "sizes that close").
//!
//! Every provider counts here, those inside the process too: the log's event size leans on it.

use std::fmt;

use crate::limits::{STEP_BYTES_MAX, STEP_CALLS_MAX};

/// What has been taken of one answer.
#[derive(Debug, Default)]
pub(super) struct Tally {
    bytes: usize,
    calls: usize,
}

/// An answer that went over a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Excess {
    /// Text and arguments together.
    Bytes,
    /// Tool calls.
    Calls,
}

impl Tally {
    /// Counts text, or bytes of a call.
    pub(super) fn add_bytes(&mut self, bytes: usize) -> Result<(), Excess> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > STEP_BYTES_MAX { Err(Excess::Bytes) } else { Ok(()) }
    }

    /// Counts one more call.
    pub(super) fn add_call(&mut self) -> Result<(), Excess> {
        self.calls += 1;
        if self.calls > STEP_CALLS_MAX { Err(Excess::Calls) } else { Ok(()) }
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Excess::Bytes => {
                write!(f, "the answer's text and arguments are over {STEP_BYTES_MAX} bytes")
            }
            Excess::Calls => write!(f, "the answer has over {STEP_CALLS_MAX} tool calls"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_met_exactly_and_passed_by_one() {
        let mut tally = Tally::default();
        assert_eq!(tally.add_bytes(STEP_BYTES_MAX), Ok(()));
        assert_eq!(tally.add_bytes(0), Ok(()));
        assert_eq!(tally.add_bytes(1), Err(Excess::Bytes));
        let mut tally = Tally::default();
        for _ in 0..STEP_CALLS_MAX {
            assert_eq!(tally.add_call(), Ok(()));
        }
        assert_eq!(tally.add_call(), Err(Excess::Calls));
    }
}
