//! What is wrong with a configuration: where, and what would be right.
//!
//! A message quotes keys and file names, never another value: that may be a secret which landed in the
//! wrong place.

use std::fmt;

/// One thing wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where in the document, such as `providers.local.base_url` or `tools[0].name`; empty when the
    /// document itself is meant.
    pub path: String,
    /// The line of the value, counted from 1.
    pub line: u32,
    /// What is wrong and what is expected.
    pub message: String,
}

impl fmt::Display for Problem {
    /// `LINE: PATH: MESSAGE`, so that a file name and a colon before it make the usual form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            write!(f, "{}: {}", self.line, self.message)
        } else {
            write!(f, "{}: {}: {}", self.line, self.path, self.message)
        }
    }
}
