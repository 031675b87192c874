//! Checking every line of a session: what `log verify` does, and what `log repair` goes by.
//!
//! It takes no lock and may look at a directory that is being served: what it then finds at the end of
//! a last segment may be a batch in the middle of its write, so an end that is no whole line is told as
//! such and not as damage. What cannot be read is named like damage, and the rest is looked at
//! nevertheless.

use std::fmt;
use std::io;
use std::path::Path;

use super::api::{Disk, Open};
use super::files::{Files, Listing, for_each_block, scan_file};
use super::store::SESSIONS;
use crate::log::header::Prev;
use crate::log::inbox::InboxEntry;
use crate::log::line;
use crate::log::place::{Fault, Place};
use crate::log::scan::{Found, Item};
use crate::log::verdict::{self, Position, Verdict};
use crate::proto::ident::SessionId;

/// What `log verify` has to say about a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is damaged.
    Damaged(Place),
    /// From here to the end of the log stands what was never finished: torn, or still being written
    /// if the directory is being served.
    Unfinished(Place),
    /// A line of the inbox that is none.
    Inbox {
        /// Its number, counted from 1.
        line: u64,
        /// Where it begins.
        byte: u64,
        /// No sound line stands behind it: it was never finished, and so never accepted.
        at_end: bool,
    },
    /// A file that the system does not let be read, or that is none.
    Unreadable {
        /// The base of the segment; none for the inbox.
        segment: Option<u64>,
        /// What the system said.
        error: String,
    },
}

/// How much `log verify` looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Segments.
    pub segments: u64,
    /// Sound event lines in them.
    pub events: u64,
    /// Bytes in them.
    pub bytes: u64,
}

/// Checks every line of every segment of a session, and its inbox.
pub fn verify(
    disk: &dyn Disk,
    data_dir: impl AsRef<Path>,
    session: &SessionId,
    mut report: impl FnMut(Finding),
) -> io::Result<Checked> {
    let root = data_dir.as_ref().join(SESSIONS);
    let files = Files { disk, sessions: &root };
    let listing = files.listing(session)?;
    if listing.bases.is_empty() && listing.first == 0 {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut checked = Checked::default();
    survey(files, session, &listing, &mut checked, &mut report)?;
    if listing.inbox {
        let entries = inbox_lines(files, session);
        match entries {
            Ok(lines) => lines.broken.into_iter().for_each(report),
            Err(error) => report(Finding::Unreadable { segment: None, error: error.to_string() }),
        }
    }
    Ok(checked)
}

/// A segment that was looked at.
pub(super) struct Surveyed {
    pub(super) base: u64,
    /// What it holds; nothing if it cannot be read.
    pub(super) found: Option<Found>,
    /// It follows what was read before it.
    pub(super) follows: bool,
    /// What it is, whatever is before it.
    pub(super) verdict: Verdict,
}

/// Looks at every segment of a session.
pub(super) fn survey(
    files: Files<'_>,
    session: &SessionId,
    listing: &Listing,
    checked: &mut Checked,
    report: &mut impl FnMut(Finding),
) -> io::Result<Vec<Surveyed>> {
    let Listing { first, bases, .. } = listing;
    if bases.first() != Some(first) {
        let fault = Fault::NoSegment { base: *first };
        let segment = bases.first().copied().unwrap_or(*first);
        report(Finding::Damaged(Place { segment, line: 1, byte: 0, fault }));
    }
    let mut surveyed: Vec<Surveyed> = Vec::new();
    for &base in bases {
        let mut places = Vec::new();
        let scanned = files.disk.open(&files.segment(session, base), Open::Read).and_then(|file| {
            scan_file(&*file, file.size()?, session, base, &mut |item| match item {
                Item::Event { .. } => checked.events += 1,
                Item::Bad(place) => places.push(place),
                Item::Header(_) => {}
            })
        });
        let found = match scanned {
            Ok(found) => found,
            // It was removed for its age meanwhile, and so was what was before it.
            Err(_) if base < files.listing(session)?.first => {
                surveyed.clear();
                continue;
            }
            Err(error) => {
                let error = error.to_string();
                report(Finding::Unreadable { segment: Some(base), error });
                let verdict = Verdict::Damaged;
                surveyed.push(Surveyed { base, found: None, follows: true, verdict });
                continue;
            }
        };
        checked.segments += 1;
        checked.bytes += found.bytes;
        let position =
            if Some(&base) == bases.last() { Position::Last } else { Position::Finished };
        let before = surveyed.last();
        let follows = before.is_none_or(|before| before.is_followed_by(&found, base));
        let verdict = verdict::Finding::new(&found, position, true).verdict();
        if let Some(before) = before.filter(|before| !follows && before.is_sound()) {
            report(Finding::Damaged(before.missed_by(base)));
        }
        match verdict {
            Verdict::Intact => {}
            Verdict::Torn | Verdict::Stillborn => {
                report(Finding::Unfinished(verdict::place_of_damage(&found, base)));
            }
            Verdict::Damaged if places.is_empty() => {
                report(Finding::Damaged(verdict::place_of_damage(&found, base)));
            }
            Verdict::Damaged => places.into_iter().map(Finding::Damaged).for_each(&mut *report),
        }
        surveyed.push(Surveyed { base, found: Some(found), follows, verdict });
    }
    Ok(surveyed)
}

impl Surveyed {
    fn is_sound(&self) -> bool {
        self.verdict == Verdict::Intact && self.follows
    }

    fn is_followed_by(&self, next: &Found, base: u64) -> bool {
        // Of one that cannot be read it is not known what follows it.
        let Some(found) = &self.found else { return true };
        let prefix = &found.prefix;
        let this = Prev { last: prefix.next.wrapping_sub(1), bytes: found.bytes, crc: prefix.crc };
        let described = next.header.as_ref().map(|header| header.prev);
        base == prefix.next && described.is_none_or(|described| described == Some(this))
    }

    /// Where `base` does not follow this segment.
    fn missed_by(&self, base: u64) -> Place {
        let expected = self.found.as_ref().map_or(base, |found| found.prefix.next);
        let fault =
            if base == expected { Fault::Predecessor } else { Fault::NoSegment { base: expected } };
        Place { segment: base, line: 1, byte: 0, fault }
    }
}

/// What an inbox file holds.
pub(super) struct InboxLines {
    /// What the lines that hold say.
    pub(super) entries: Vec<InboxEntry>,
    /// The others, as findings.
    pub(super) broken: Vec<Finding>,
}

pub(super) fn inbox_lines(files: Files<'_>, session: &SessionId) -> io::Result<InboxLines> {
    let file = files.disk.open(&files.inbox(session), Open::Read)?;
    let mut text = Vec::new();
    for_each_block(&*file, 0, file.size()?, |_, block| {
        text.extend_from_slice(block);
        Ok(())
    })?;
    let mut lines = InboxLines { entries: Vec::new(), broken: Vec::new() };
    let mut byte = 0;
    for (line, text) in (1..).zip(text.split_inclusive(|&byte| byte == b'\n')) {
        let sound = text.strip_suffix(b"\n").and_then(line::unseal);
        if let Some(entry) = sound.and_then(|sealed| InboxEntry::read(&sealed)) {
            lines.entries.push(entry);
            for finding in &mut lines.broken {
                if let Finding::Inbox { at_end, .. } = finding {
                    *at_end = false;
                }
            }
        } else {
            lines.broken.push(Finding::Inbox { line, byte, at_end: true });
        }
        byte += text.len() as u64;
    }
    Ok(lines)
}

impl Finding {
    /// Where in the segments it is; nothing for a place in the inbox, and for a whole file.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Damaged(place) | Self::Unfinished(place) => Some(place),
            Self::Inbox { .. } | Self::Unreadable { .. } => None,
        }
    }

    /// Whether something that was stored is lost or false, or may be. What was never finished was
    /// never published.
    pub fn is_damage(&self) -> bool {
        !matches!(self, Self::Unfinished(_) | Self::Inbox { at_end: true, .. })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(place) => write!(f, "damaged: {place}"),
            Self::Unfinished(place) => write!(f, "torn, or being written: {place}"),
            Self::Inbox { line, byte, at_end } => {
                let what = if *at_end { "torn, or being written" } else { "damaged" };
                write!(f, "{what}: inbox, line {line}, byte {byte}: the line is no entry")
            }
            Self::Unreadable { segment: Some(base), error } => {
                write!(f, "unreadable: segment {base:020}: {error}")
            }
            Self::Unreadable { segment: None, error } => write!(f, "unreadable: inbox: {error}"),
        }
    }
}
