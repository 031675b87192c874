//! Where the files of a session lie, and the loops around short reads and writes.

use std::io;
use std::path::{Path, PathBuf};

use super::api::{Disk, DiskFile};
use crate::log::line::Shape;
use crate::log::scan::{Found, Item, Scan};
use crate::proto::ident::SessionId;

/// The sessions of a data directory.
#[derive(Clone, Copy)]
pub(super) struct Files<'a> {
    pub(super) disk: &'a dyn Disk,
    /// `<data_dir>/sessions`
    pub(super) sessions: &'a Path,
}

impl Files<'_> {
    pub(super) fn dir(&self, session: &SessionId) -> PathBuf {
        self.sessions.join(session.as_str())
    }

    pub(super) fn segment(&self, session: &SessionId, base: u64) -> PathBuf {
        self.dir(session).join(segment_name(base))
    }

    pub(super) fn inbox(&self, session: &SessionId) -> PathBuf {
        self.dir(session).join(INBOX)
    }

    /// The empty file whose name says that a log begins with event `first`.
    pub(super) fn mark(&self, session: &SessionId, first: u64) -> PathBuf {
        self.dir(session).join(mark_name(first))
    }

    /// What a session's directory holds; nothing if there is none.
    pub(super) fn listing(&self, session: &SessionId) -> io::Result<Listing> {
        let listing = self.list(session)?;
        if listing.bases.first() == Some(&listing.first) {
            return Ok(listing);
        }
        // A directory is not read in an instant: it may have missed the mark that was made before the
        // segment went that it missed too.
        self.list(session)
    }

    fn list(&self, session: &SessionId) -> io::Result<Listing> {
        let names = match self.disk.list(&self.dir(session)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names?,
        };
        let first = names.iter().filter_map(|name| mark_first(name)).max().unwrap_or(0);
        let mut listing = Listing { first, bases: Vec::new(), removed: Vec::new(), inbox: false };
        for name in names {
            match (segment_base(&name), mark_first(&name)) {
                (Some(base), _) if base >= first => listing.bases.push(base),
                (Some(_), _) => listing.removed.push(name),
                (None, Some(older)) if older < first => listing.removed.push(name),
                (None, _) => listing.inbox |= name == INBOX,
            }
        }
        listing.bases.sort_unstable();
        listing.removed.sort_unstable();
        Ok(listing)
    }
}

/// What a session's directory holds.
pub(super) struct Listing {
    /// The seq of the log's first event: 0 until older ones are removed.
    pub(super) first: u64,
    /// The bases of its segments, ascending.
    pub(super) bases: Vec<u64>,
    /// What is left of older segments, and of marks: no part of the log any more.
    pub(super) removed: Vec<String>,
    /// Whether there is an inbox file.
    pub(super) inbox: bool,
}

pub(super) fn segment_name(base: u64) -> String {
    format!("{base:020}.jsonl")
}

/// The base that a segment's name says; nothing for any other name.
pub(super) fn segment_base(name: &str) -> Option<u64> {
    let base = twenty_digits(name.strip_suffix(".jsonl")?)?;
    (segment_name(base) == name).then_some(base)
}

fn mark_name(first: u64) -> String {
    format!("{first:020}.first")
}

/// The seq of the first event that is kept, which a mark's name says; nothing for any other name.
fn mark_first(name: &str) -> Option<u64> {
    let first = twenty_digits(name.strip_suffix(".first")?)?;
    (mark_name(first) == name).then_some(first)
}

fn twenty_digits(digits: &str) -> Option<u64> {
    (digits.len() == 20).then(|| digits.parse().ok())?
}

/// Fills as much of `bytes` as there is.
pub(super) fn read_full_at(
    file: &dyn DiskFile,
    bytes: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Writes all of `bytes`, however short the single writes are.
pub(super) fn write_all_at(file: &dyn DiskFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        match file.write_at(&bytes[written..], offset + written as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Calls `take` with the bytes from `from` to `to`, or to the end of the file, block by block.
pub(super) fn for_each_block(
    file: &dyn DiskFile,
    from: u64,
    to: u64,
    mut take: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut block = vec![0; (to - from).min(BLOCK_BYTES) as usize];
    let mut at = from;
    while at < to {
        let room = (to - at).min(BLOCK_BYTES) as usize;
        let got = read_full_at(file, &mut block[..room], at)?;
        if got == 0 {
            break;
        }
        take(at, &block[..got])?;
        at += got as u64;
    }
    Ok(())
}

/// Scans the first `len` bytes of a segment.
pub(super) fn scan_file(
    file: &dyn DiskFile,
    len: u64,
    session: &SessionId,
    base: u64,
    seen: &mut impl FnMut(Item<'_>),
) -> io::Result<Found> {
    let mut scan = Scan::new(Shape::new(session.clone()), base);
    for_each_block(file, 0, len, |_, block| {
        scan.push(block, seen);
        Ok(())
    })?;
    Ok(scan.finish(seen))
}

const INBOX: &str = "inbox.jsonl";
/// How much is read at once where a whole file is gone through.
const BLOCK_BYTES: u64 = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_twenty_digits_name_a_segment() {
        for (name, base) in [
            ("00000000000000000000.jsonl", Some(0)),
            ("00000000000000001025.jsonl", Some(1025)),
            ("18446744073709551615.jsonl", Some(u64::MAX)),
            ("18446744073709551616.jsonl", None),
            ("0000000000000000000.jsonl", None),
            ("+0000000000000000001.jsonl", None),
            ("00000000000000000000.jsonl.torn", None),
            ("inbox.jsonl", None),
        ] {
            assert_eq!(segment_base(name), base, "{name}");
        }
    }
}
