//! Where a log is damaged, and by what: everything that names damage to a person uses these.

use std::fmt;

/// A damaged place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The segment, by the seq in its name.
    pub segment: u64,
    /// The line in it, counted from 1.
    pub line: u64,
    /// Where that line begins, in bytes from the beginning of the file.
    pub byte: u64,
    /// What is wrong there.
    pub fault: Fault,
}

/// What can be wrong with a line or a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The checksum does not match what the line holds, or there is none.
    Seal,
    /// The last bytes of the file are no whole line.
    Unterminated,
    /// The first line is no header of this segment.
    NoHeader,
    /// A sound line that does not belong here: of another session, or a header in the middle.
    Foreign,
    /// A sound line whose seq does not follow the one before it.
    Sequence {
        /// The seq that had to follow.
        expected: u64,
        /// The seq that stands there.
        found: u64,
    },
    /// The file ends, or breaks off, before events that a later line says were synced.
    Missing {
        /// How many events were synced.
        attested: u64,
        /// How many there are.
        found: u64,
    },
    /// The segment's header describes another predecessor than the one that is there.
    Predecessor,
    /// The segment that has to begin with this seq is not there.
    NoSegment {
        /// The seq in its name.
        base: u64,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "segment {:020}, line {}, byte {}: {}",
            self.segment, self.line, self.byte, self.fault
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seal => f.write_str("the line does not match its checksum"),
            Self::Unterminated => f.write_str("the file ends in the middle of a line"),
            Self::NoHeader => f.write_str("the segment does not begin with its header"),
            Self::Foreign => f.write_str("a sound line that does not belong here"),
            Self::Sequence { expected, found } => {
                write!(f, "seq {found} stands where {expected} has to follow")
            }
            Self::Missing { attested, found } => {
                write!(f, "{attested} events were stored and only {found} are there")
            }
            Self::Predecessor => f.write_str("the segment before is not the one it followed"),
            Self::NoSegment { base } => write!(f, "the segment {base:020} is not there"),
        }
    }
}
