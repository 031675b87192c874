//! Looking at a data directory from outside: what `log`, `log verify`, `sessions` and `delete` do.
//!
//! Only deleting takes the lock. The others may look at a directory that is being served: what they
//! then find at the end of a last segment may be a batch in the middle of its write, so an end that is
//! no whole line is told as such and not as damage.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::api::{Disk, DiskFile, Open};
use super::error::{ReadError, StoreError};
use super::files::{Files, for_each_block, scan_file};
use super::read::Events;
use super::store::{SESSIONS, Tip, lock};
use crate::log::header::Prev;
use crate::log::inbox::InboxEntry;
use crate::log::line::{self, Shape};
use crate::log::place::{Fault, Place};
use crate::log::scan::{Found, Item};
use crate::log::verdict::{self, Position, Verdict};
use crate::proto::ident::SessionId;
use crate::proto::time::Wall;

/// A session as its files have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// Its id.
    pub id: SessionId,
    /// How many events it holds.
    pub events: u64,
    /// The bytes of its segments.
    pub bytes: u64,
    /// When the last event was appended.
    pub last_at: Option<Wall>,
    /// Whether a turn is open.
    pub open_turn: bool,
}

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

/// The sessions of a data directory in order of their ids, each looked at when it is asked for.
pub fn sessions<'a>(
    disk: &'a dyn Disk,
    data_dir: &Path,
) -> io::Result<impl Iterator<Item = io::Result<SessionSummary>> + 'a> {
    let root = data_dir.join(SESSIONS);
    let mut ids: Vec<SessionId> =
        disk.list(&root)?.iter().filter_map(|name| SessionId::parse(name)).collect();
    ids.sort();
    Ok(ids.into_iter().map(move |id| summary(Files { disk, sessions: &root }, id)))
}

fn summary(files: Files<'_>, id: SessionId) -> io::Result<SessionSummary> {
    let bases = files.listing(&id)?.bases;
    let mut summary = SessionSummary { id, events: 0, bytes: 0, last_at: None, open_turn: false };
    let mut state = None;
    for &base in bases.iter().rev() {
        let file = files.disk.open(&files.segment(&summary.id, base), Open::Read)?;
        let len = file.size()?;
        summary.bytes += len;
        if summary.last_at.is_some() {
            continue;
        }
        // The last segment that holds an event has everything; what is before it only has bytes.
        let mut before = None;
        let found = scan_file(&*file, len, &summary.id, base, &mut |item| match item {
            Item::Header(header) => before = Some(header.state.clone()),
            Item::Event { event, .. } => {
                summary.last_at = Wall::parse(event.at);
                if let Some(state) = &mut before {
                    state.apply(event.seq, event.kind, event.payload);
                }
            }
            Item::Bad(_) => {}
        })?;
        state = state.or(before);
        let next = found.last_event.map_or(base, |mark| mark.seq + 1);
        summary.events = summary.events.max(next - bases[0]);
    }
    summary.open_turn = state.is_some_and(|state| state.turn.is_some());
    Ok(summary)
}

/// Whether a session's inbox file holds a waking text; the log may have taken it since.
pub fn may_hold_wake(disk: &dyn Disk, data_dir: &Path, session: &SessionId) -> io::Result<bool> {
    let file = match disk
        .open(&Files { disk, sessions: &data_dir.join(SESSIONS) }.inbox(session), Open::Read)
    {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    let mut text = Vec::new();
    for_each_block(&*file, 0, file.size()?, |_, block| {
        text.extend_from_slice(block);
        Ok(())
    })?;
    let mut entries = text.split(|&byte| byte == b'\n').filter_map(line::unseal);
    Ok(entries.any(|sealed| InboxEntry::read(&sealed).is_some_and(|entry| entry.wake)))
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
    if listing.bases.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut checked = Checked::default();
    let mut before: Option<Sound> = None;
    for (index, &base) in listing.bases.iter().enumerate() {
        let file = disk.open(&files.segment(session, base), Open::Read)?;
        let mut places = Vec::new();
        let found = scan_file(&*file, file.size()?, session, base, &mut |item| match item {
            Item::Event { .. } => checked.events += 1,
            Item::Bad(place) => places.push(place),
            Item::Header(_) => {}
        })?;
        checked.segments += 1;
        checked.bytes += found.bytes;
        let last = index + 1 == listing.bases.len();
        let position = if last { Position::Last } else { Position::Finished };
        let follows = before.as_ref().is_none_or(|before| before.is_followed_by(&found, base));
        let verdict = verdict::Finding::new(&found, position, follows).verdict();
        if index == 0 && base != 0 {
            let fault = Fault::NoSegment { base: 0 };
            report(Finding::Damaged(Place { segment: base, line: 1, byte: 0, fault }));
        }
        if let Some(before) = before.filter(|before| !follows && before.sound) {
            report(Finding::Damaged(before.missed_by(base)));
        }
        match verdict {
            Verdict::Intact => {}
            Verdict::Torn | Verdict::Stillborn => {
                report(Finding::Unfinished(verdict::place_of_damage(&found, base)));
            }
            Verdict::Damaged if places.is_empty() && follows => {
                report(Finding::Damaged(verdict::place_of_damage(&found, base)));
            }
            Verdict::Damaged => places.into_iter().map(Finding::Damaged).for_each(&mut report),
        }
        before = Some(Sound { sound: verdict == Verdict::Intact, found });
    }
    if listing.inbox {
        verify_inbox(files, session, &mut report)?;
    }
    Ok(checked)
}

/// A segment that another one has to follow.
struct Sound {
    sound: bool,
    found: Found,
}

impl Sound {
    fn is_followed_by(&self, next: &Found, base: u64) -> bool {
        let prefix = &self.found.prefix;
        let this =
            Prev { last: prefix.next.wrapping_sub(1), bytes: self.found.bytes, crc: prefix.crc };
        let described = next.header.as_ref().map(|header| header.prev);
        base == prefix.next && described.is_none_or(|described| described == Some(this))
    }

    /// Where `base` does not follow this segment.
    fn missed_by(&self, base: u64) -> Place {
        let expected = self.found.prefix.next;
        let fault =
            if base == expected { Fault::Predecessor } else { Fault::NoSegment { base: expected } };
        Place { segment: base, line: 1, byte: 0, fault }
    }
}

fn verify_inbox(
    files: Files<'_>,
    session: &SessionId,
    report: &mut impl FnMut(Finding),
) -> io::Result<()> {
    let file = files.disk.open(&files.inbox(session), Open::Read)?;
    let mut text = Vec::new();
    for_each_block(&*file, 0, file.size()?, |_, block| {
        text.extend_from_slice(block);
        Ok(())
    })?;
    let mut byte = 0;
    for (line, entry) in (1..).zip(text.split_inclusive(|&byte| byte == b'\n')) {
        let sound = entry.strip_suffix(b"\n").and_then(line::unseal);
        if sound.and_then(|sealed| InboxEntry::read(&sealed)).is_none() {
            report(Finding::Inbox { line, byte });
        }
        byte += entry.len() as u64;
    }
    Ok(())
}

/// Hands the events from seq `from` on to `write`, each as its wire envelope and an LF; only those of
/// these types, if any are given. Stops with an error at a damaged place.
pub fn dump(
    disk: &dyn Disk,
    data_dir: impl AsRef<Path>,
    session: &SessionId,
    from: u64,
    types: &[String],
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), ReadError> {
    let root = data_dir.as_ref().join(SESSIONS);
    let files = Files { disk, sessions: &root };
    let shape = Shape::new(session.clone());
    let Some(tip) = tip(files, session)? else { return Ok(()) };
    let mut events = Events::new(files, session.clone(), from, tip);
    let mut envelope = Vec::new();
    while let Some(piece) = events.next_piece()? {
        for body in line::bodies(&piece.lines) {
            let event =
                shape.event(body).expect("the reader lets only events of this shape through");
            if types.is_empty() || types.iter().any(|kind| kind == event.kind) {
                envelope.clear();
                envelope.extend_from_slice(body);
                envelope.extend_from_slice(b"}\n");
                write(&envelope)?;
            }
        }
    }
    Ok(())
}

/// The last event of a session that others may be appending to; nothing if it holds none.
fn tip(files: Files<'_>, session: &SessionId) -> io::Result<Option<Tip>> {
    let bases = files.listing(session)?.bases;
    if bases.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    for &base in bases.iter().rev() {
        let file = files.disk.open(&files.segment(session, base), Open::Read)?;
        let found = scan_file(&*file, file.size()?, session, base, &mut |_| {})?;
        if let Some(mark) = found.last_event {
            return Ok(Some(Tip { seq: mark.seq, base, bytes: mark.end }));
        }
    }
    Ok(None)
}

/// A session that can be deleted. As long as this lives, no server can be started on its directory.
pub struct Deletable<'a> {
    disk: &'a dyn Disk,
    root: PathBuf,
    dir: PathBuf,
    /// Where it goes first. No id begins with a dot, so from then on the session is gone, and what a
    /// deletion that was cut short has left is found.
    doomed: PathBuf,
    _lock: Box<dyn DiskFile>,
}

/// Takes the lock for deleting a session; nothing if there is no such session.
pub fn deletable<'a>(
    disk: &'a dyn Disk,
    data_dir: &Path,
    session: &SessionId,
) -> Result<Option<Deletable<'a>>, StoreError> {
    let root = data_dir.join(SESSIONS);
    let dir = root.join(session.as_str());
    let doomed = root.join(format!(".deleted-{session}"));
    if !disk.exists(&dir)? && !disk.exists(&doomed)? {
        return Ok(None);
    }
    let lock = lock(disk, data_dir)?;
    remove_all(disk, &doomed)?;
    if !disk.exists(&dir)? {
        disk.sync_dir(&root)?;
        return Ok(None);
    }
    Ok(Some(Deletable { disk, root, dir, doomed, _lock: lock }))
}

impl Deletable<'_> {
    /// Deletes it with all its files.
    pub fn delete(self) -> io::Result<()> {
        self.disk.rename(&self.dir, &self.doomed)?;
        self.disk.sync_dir(&self.root)?;
        remove_all(self.disk, &self.doomed)?;
        self.disk.sync_dir(&self.root)
    }
}

/// Removes a directory of files, if it is there.
fn remove_all(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    if !disk.exists(dir)? {
        return Ok(());
    }
    for name in disk.list(dir)? {
        disk.remove_file(&dir.join(name))?;
    }
    disk.remove_dir(dir)
}

impl Finding {
    /// Where in the segments it is; nothing for a place in the inbox.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Damaged(place) | Self::Unfinished(place) => Some(place),
            Self::Inbox { .. } => None,
        }
    }

    /// Whether something that was stored is lost or false. What was never finished was never
    /// published.
    pub fn is_damage(&self) -> bool {
        !matches!(self, Self::Unfinished(_))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(place) => write!(f, "damaged: {place}"),
            Self::Unfinished(place) => write!(f, "torn, or being written: {place}"),
            Self::Inbox { line, byte } => {
                write!(f, "damaged: inbox, line {line}, byte {byte}: the line is no entry")
            }
        }
    }
}
