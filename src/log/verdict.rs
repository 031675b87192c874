//! What a scanned segment means: the decision table of design/log-format, "Opening a session for
//! append", as data.
//!
//! A [`Finding`] is everything the decision may depend on, a [`Row`] says for which findings it
//! speaks, and for every finding exactly one row does; the tests enumerate all of them.

use super::place::{Fault, Place};
use super::scan::Found;

/// What was found when a segment was scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where the segment stands among its session's.
    pub position: Position,
    /// Whether it follows its predecessor, and each valid line the one right before it.
    pub chain: Chain,
    /// The first line is a header of this segment.
    pub header: bool,
    /// P >= A: the valid prefix reaches as far as anything in the file attests.
    pub covers_attested: bool,
    /// A > 0: something in the file attests that events before it were synced.
    pub attests: bool,
    /// What stands behind the valid prefix.
    pub beyond: Beyond,
}

/// Where a segment stands among its session's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// No segment follows: its last batch may not have been synced.
    Last,
    /// A segment follows: this one was synced before that one was made.
    Finished,
}

/// Whether everything that stands right behind something also follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// It does.
    Holds,
    /// A gap or duplicate of seq between two valid lines, or another predecessor than the header's.
    Broken,
}

/// What stands behind the contiguous valid prefix of a segment, the worst of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Beyond {
    /// Nothing: the prefix ends where the file does.
    Nothing,
    /// Bytes, and no valid line among them.
    Bytes,
    /// Bytes with a valid line among them.
    ValidLine,
}

/// What is to be done with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on behind it.
    Intact,
    /// Keep what stands behind the prefix in a file of its own, and cut.
    Torn,
    /// It never held anything: delete it and go on behind its predecessor.
    Stillborn,
    /// Touch nothing; serve what can be read.
    Damaged,
}

impl Finding {
    /// What a scan says, for a segment in this position that does or does not follow the one before.
    pub fn new(found: &Found, position: Position, follows: bool) -> Self {
        Self {
            position,
            chain: if follows && found.sequence_holds { Chain::Holds } else { Chain::Broken },
            header: found.header.is_some(),
            covers_attested: found.prefix.next >= found.attested,
            attests: found.attested > 0,
            beyond: found.beyond,
        }
    }

    /// The verdict of the one row that speaks for this finding.
    pub fn verdict(self) -> Verdict {
        let row = TABLE.iter().find(|row| row.speaks_for(self));
        row.expect("the table has a row for every finding").verdict
    }
}

/// Where a damaged segment is damaged: what the scan stumbled over, or the line that ought to stand
/// behind a prefix that falls short of what is attested; in an empty file, the header.
pub fn place_of_damage(found: &Found, segment: u64) -> Place {
    found.bad.clone().unwrap_or_else(|| Place {
        segment,
        line: found.prefix.lines + 1,
        byte: found.prefix.bytes,
        fault: match found.header {
            Some(_) => Fault::Missing { attested: found.attested, found: found.prefix.next },
            None => Fault::NoHeader,
        },
    })
}

/// One line of the table. An empty list of values speaks for all of them.
struct Row {
    position: &'static [Position],
    chain: &'static [Chain],
    header: &'static [bool],
    covers_attested: &'static [bool],
    attests: &'static [bool],
    beyond: &'static [Beyond],
    verdict: Verdict,
}

impl Row {
    fn speaks_for(&self, finding: Finding) -> bool {
        fn admits<T: PartialEq>(values: &[T], value: &T) -> bool {
            values.is_empty() || values.contains(value)
        }
        admits(self.position, &finding.position)
            && admits(self.chain, &finding.chain)
            && admits(self.header, &finding.header)
            && admits(self.covers_attested, &finding.covers_attested)
            && admits(self.attests, &finding.attests)
            && admits(self.beyond, &finding.beyond)
    }
}

/// A read error is no finding: it never comes here and never leads to a verdict.
const TABLE: &[Row] = &[
    // A gap or duplicate of seq, or the wrong predecessor.
    Row { chain: &[Chain::Broken], verdict: Verdict::Damaged, ..ANY },
    // A segment that is not the last was synced as a whole: it is sound or it is damaged.
    Row {
        position: &[Position::Finished],
        chain: &[Chain::Holds],
        header: &[false],
        verdict: Verdict::Damaged,
        ..ANY
    },
    Row {
        position: &[Position::Finished],
        chain: &[Chain::Holds],
        header: &[true],
        covers_attested: &[false],
        verdict: Verdict::Damaged,
        ..ANY
    },
    Row {
        position: &[Position::Finished],
        chain: &[Chain::Holds],
        header: &[true],
        covers_attested: &[true],
        beyond: &[Beyond::Bytes, Beyond::ValidLine],
        verdict: Verdict::Damaged,
        ..ANY
    },
    Row {
        position: &[Position::Finished],
        chain: &[Chain::Holds],
        header: &[true],
        covers_attested: &[true],
        beyond: &[Beyond::Nothing],
        verdict: Verdict::Intact,
        ..ANY
    },
    // The last segment, without a header: it was being made, or its header rotted.
    Row {
        position: &[Position::Last],
        chain: &[Chain::Holds],
        header: &[false],
        beyond: &[Beyond::Nothing, Beyond::Bytes],
        verdict: Verdict::Stillborn,
        ..ANY
    },
    Row {
        position: &[Position::Last],
        chain: &[Chain::Holds],
        header: &[false],
        beyond: &[Beyond::ValidLine],
        verdict: Verdict::Damaged,
        ..ANY
    },
    // The last segment, with its header, short of what was synced.
    Row {
        position: &[Position::Last],
        chain: &[Chain::Holds],
        header: &[true],
        covers_attested: &[false],
        verdict: Verdict::Damaged,
        ..ANY
    },
    // The last segment with everything that was synced; behind it at most one unsynced batch.
    Row {
        position: &[Position::Last],
        chain: &[Chain::Holds],
        header: &[true],
        covers_attested: &[true],
        beyond: &[Beyond::Nothing],
        verdict: Verdict::Intact,
        ..ANY
    },
    Row {
        position: &[Position::Last],
        chain: &[Chain::Holds],
        header: &[true],
        covers_attested: &[true],
        beyond: &[Beyond::Bytes],
        verdict: Verdict::Torn,
        ..ANY
    },
    // Unsynced pages land in any order, so a valid line may follow a hole; but where nothing ever
    // attests, it may as well stand behind a hole in what was meant to stay.
    Row {
        position: &[Position::Last],
        chain: &[Chain::Holds],
        header: &[true],
        covers_attested: &[true],
        attests: &[true],
        beyond: &[Beyond::ValidLine],
        verdict: Verdict::Torn,
    },
    Row {
        position: &[Position::Last],
        chain: &[Chain::Holds],
        header: &[true],
        covers_attested: &[true],
        attests: &[false],
        beyond: &[Beyond::ValidLine],
        verdict: Verdict::Damaged,
    },
];

const ANY: Row = Row {
    position: &[],
    chain: &[],
    header: &[],
    covers_attested: &[],
    attests: &[],
    beyond: &[],
    verdict: Verdict::Damaged,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value of a type: each is said to follow another one by a `match`, so that none can be
    /// forgotten.
    fn every<T: Copy>(first: T, next: fn(T) -> Option<T>) -> Vec<T> {
        std::iter::successors(Some(first), |&value| next(value)).collect()
    }

    fn every_finding() -> Vec<Finding> {
        let positions = every(Position::Last, |position| match position {
            Position::Last => Some(Position::Finished),
            Position::Finished => None,
        });
        let chains = every(Chain::Holds, |chain| match chain {
            Chain::Holds => Some(Chain::Broken),
            Chain::Broken => None,
        });
        let beyonds = every(Beyond::Nothing, |beyond| match beyond {
            Beyond::Nothing => Some(Beyond::Bytes),
            Beyond::Bytes => Some(Beyond::ValidLine),
            Beyond::ValidLine => None,
        });
        let mut findings = Vec::new();
        for &position in &positions {
            for &chain in &chains {
                for &beyond in &beyonds {
                    for bits in 0..8_u32 {
                        findings.push(Finding {
                            position,
                            chain,
                            header: bits & 1 != 0,
                            covers_attested: bits & 2 != 0,
                            attests: bits & 4 != 0,
                            beyond,
                        });
                    }
                }
            }
        }
        findings
    }

    #[test]
    fn exactly_one_row_speaks_for_every_finding() {
        let findings = every_finding();
        assert_eq!(findings.len(), 2 * 2 * 3 * 8);
        for (index, finding) in findings.iter().enumerate() {
            assert!(!findings[..index].contains(finding), "{finding:?} twice");
            let rows = TABLE.iter().filter(|row| row.speaks_for(*finding)).count();
            assert_eq!(rows, 1, "{finding:?}");
        }
    }

    #[test]
    fn every_row_speaks_for_some_finding() {
        for (index, row) in TABLE.iter().enumerate() {
            assert!(
                every_finding().into_iter().any(|finding| row.speaks_for(finding)),
                "row {index}"
            );
        }
    }

    /// The table of the log page once more, as nested questions.
    fn as_the_page_says(finding: Finding) -> Verdict {
        if finding.chain == Chain::Broken {
            return Verdict::Damaged;
        }
        if finding.position == Position::Finished {
            let sound =
                finding.header && finding.covers_attested && finding.beyond == Beyond::Nothing;
            return if sound { Verdict::Intact } else { Verdict::Damaged };
        }
        if !finding.header {
            let valid_line_follows = finding.beyond == Beyond::ValidLine;
            return if valid_line_follows { Verdict::Damaged } else { Verdict::Stillborn };
        }
        if !finding.covers_attested {
            return Verdict::Damaged;
        }
        match finding.beyond {
            Beyond::Nothing => Verdict::Intact,
            Beyond::ValidLine if !finding.attests => Verdict::Damaged,
            Beyond::Bytes | Beyond::ValidLine => Verdict::Torn,
        }
    }

    #[test]
    fn the_table_says_what_the_page_says() {
        for finding in every_finding() {
            assert_eq!(finding.verdict(), as_the_page_says(finding), "{finding:?}");
        }
    }
}
