//! Looking at a data directory from outside: what `log`, `sessions` and `delete` do.
//!
//! Only deleting takes the lock. The others may look at a directory that is being served.

use std::io;
use std::path::{Path, PathBuf};

use super::api::{Disk, DiskFile, Open};
use super::error::{ReadError, StoreError};
use super::files::{Files, for_each_block, scan_file};
use super::read::Events;
use super::store::{SESSIONS, Tip, lock};
use crate::log::inbox::InboxEntry;
use crate::log::line::{self, Shape};
use crate::log::scan::Item;
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

/// The ids of the sessions of a data directory, in order.
pub fn session_ids(disk: &dyn Disk, data_dir: &Path) -> io::Result<Vec<SessionId>> {
    let names = disk.list(&data_dir.join(SESSIONS))?;
    let mut ids: Vec<SessionId> = names.iter().filter_map(|name| SessionId::parse(name)).collect();
    ids.sort();
    Ok(ids)
}

/// What the files of one session say.
pub fn summary(
    disk: &dyn Disk,
    data_dir: &Path,
    session: &SessionId,
) -> io::Result<SessionSummary> {
    summarize(Files { disk, sessions: &data_dir.join(SESSIONS) }, session.clone())
}

fn summarize(files: Files<'_>, id: SessionId) -> io::Result<SessionSummary> {
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

/// Hands the events from seq `from` on to `write`, each as its wire envelope and an LF; only those of
/// these types, if any are given. Stops with an error at a damaged place. Says which seq it began with:
/// a higher one than `from` where what was before it has been removed.
pub fn dump(
    disk: &dyn Disk,
    data_dir: impl AsRef<Path>,
    session: &SessionId,
    from: u64,
    types: &[String],
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<u64, ReadError> {
    let root = data_dir.as_ref().join(SESSIONS);
    let files = Files { disk, sessions: &root };
    let shape = Shape::new(session.clone());
    let Some(tip) = tip(files, session)? else { return Ok(from) };
    let from = from.max(files.listing(session)?.first);
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
    Ok(from)
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
