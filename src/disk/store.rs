//! A data directory that this process serves, and what all its sessions share: the lock, the options,
//! the counters, and the latch.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::api::{Disk, DiskFile, Open};
use super::error::{ReadError, Stop, StoreError, is_no_space};
use super::files::{Files, write_all_at};
use super::read::{Cursor, Events, Form, Piece};
use super::running;
use super::turns;
use crate::config::SyncMode;
use crate::log::state::State;
use crate::proto::ident::SessionId;

/// How sessions are stored (config, `log`).
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// What "in the log" means before an event is published.
    pub sync: SyncMode,
    /// Bytes after which a segment rolls.
    pub segment_bytes: u64,
}

/// The last event of a log, and where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// Its seq.
    pub seq: u64,
    /// The segment it stands in.
    pub base: u64,
    /// The length of that segment up to and including its line. No reader looks beyond it.
    pub bytes: u64,
}

/// What has been stored since the store was opened.
#[derive(Debug, Default)]
pub struct Stats {
    /// Events appended.
    pub events: AtomicU64,
    /// Bytes of event lines appended.
    pub bytes: AtomicU64,
    /// Calls of fdatasync and fsync for content, directories not counted.
    pub syncs: AtomicU64,
}

/// A data directory that this process serves. It is shared by the workers.
pub struct Store {
    disk: Arc<dyn Disk>,
    sessions: PathBuf,
    options: LogOptions,
    latched: OnceLock<String>,
    stats: Arc<Stats>,
    /// Held, not used: closing it lets another process in.
    _lock: Box<dyn DiskFile>,
}

impl Store {
    /// Takes the lock on a data directory, making the directory if need be. Looks at no session.
    pub fn open(
        disk: Arc<dyn Disk>,
        data_dir: impl AsRef<Path>,
        options: LogOptions,
    ) -> Result<Self, StoreError> {
        let data_dir = data_dir.as_ref();
        let lock = lock(&*disk, data_dir)?;
        let sessions = data_dir.join(SESSIONS);
        if !disk.exists(&sessions)? {
            sync_above(&*disk, data_dir)?;
            disk.create_dir(&sessions)?;
        }
        // Whoever made it may have died before its name was stored.
        disk.sync_dir(data_dir)?;
        let (latched, stats) = (OnceLock::new(), Arc::default());
        Ok(Self { disk, sessions, options, latched, stats, _lock: lock })
    }

    /// Whether there is anything of a session.
    pub fn exists(&self, session: &SessionId) -> io::Result<bool> {
        Ok(!self.files().listing(session)?.bases.is_empty())
    }

    /// Reads whole lines from event `from` on: at least one, if the tip is not before it, then as
    /// many as stay within both bounds. `cursor` is where an earlier piece ended, if it is known.
    pub fn read(
        &self,
        session: &SessionId,
        from: u64,
        cursor: Option<Cursor>,
        tip: Tip,
        events_max: u32,
        bytes_max: usize,
    ) -> Result<Piece, ReadError> {
        let bounds = (events_max, bytes_max);
        self.files().read(session, from, cursor, tip, bounds, (Form::Line, Vec::new()))
    }

    /// The same as frames for a client, in a space that is used again: new memory costs more than
    /// what is done with it. The bounds are a number of events and of bytes.
    pub fn read_frames(
        &self,
        session: &SessionId,
        from: u64,
        cursor: Option<Cursor>,
        tip: Tip,
        bounds: (u32, usize),
        space: Vec<u8>,
    ) -> Result<Piece, ReadError> {
        self.files().read(session, from, cursor, tip, bounds, (Form::Frame, space))
    }

    /// Everything from event `from` to the tip, piece by piece.
    pub fn events_from(&self, session: &SessionId, from: u64, tip: Tip) -> Events<'_> {
        Events::new(self.files(), session.clone(), from, tip)
    }

    /// The lines a model request is made of, oldest first: whole turns, newest first within
    /// `bytes_max`, the open turn always; nothing that a compaction replaced, but its own line first.
    ///
    /// Chunks are left out and not counted: the message of their step repeats them.
    pub fn turns(
        &self,
        session: &SessionId,
        state: &State,
        tip: Tip,
        bytes_max: usize,
    ) -> Result<Vec<u8>, ReadError> {
        turns::read(self.files(), session, state, tip, bytes_max)
    }

    /// Why nothing can be appended any more, if a write or sync has failed.
    pub fn latched(&self) -> Option<String> {
        self.latched.get().cloned()
    }

    /// What has been stored so far.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(super) fn files(&self) -> Files<'_> {
        Files { disk: &*self.disk, sessions: &self.sessions }
    }

    pub(super) fn options(&self) -> &LogOptions {
        &self.options
    }

    /// Whether events are on stable storage before they are published.
    pub fn syncs_always(&self) -> bool {
        self.options.sync == SyncMode::Always
    }

    /// Nothing is written by a store that is latched.
    pub(super) fn check(&self) -> Result<(), Stop> {
        self.latched.get().map_or(Ok(()), |error| Err(Stop::Latched(error.clone())))
    }

    /// From here on it is unknown what is stored: nothing is ever appended again. The first error
    /// is the one that is told.
    pub(super) fn latch(&self, doing: &str, path: &Path, error: &io::Error) -> Stop {
        let told = self.latched.get_or_init(|| format!("{doing} {}: {error}", path.display()));
        Stop::Latched(told.clone())
    }

    /// What an error of a call that changes something means.
    pub(super) fn failed(&self, doing: &str, path: &Path, error: &io::Error) -> Stop {
        if is_no_space(error) { Stop::NoSpace } else { self.latch(doing, path, error) }
    }

    /// Opens a file to be changed. What was tried is no write, so most errors pass; these do not.
    pub(super) fn open_file(&self, path: &Path, how: Open) -> Result<Box<dyn DiskFile>, Stop> {
        use io::ErrorKind::{AlreadyExists, ReadOnlyFilesystem};
        self.disk.open(path, how).map_err(|error| match error.kind() {
            _ if is_no_space(&error) => Stop::NoSpace,
            AlreadyExists | ReadOnlyFilesystem => self.latch("opening", path, &error),
            _ if error.raw_os_error() == Some(EIO) => self.latch("opening", path, &error),
            _ => Stop::Unopened(error),
        })
    }

    /// Syncs content; an error latches, whatever it is: the kernel may have marked the pages clean,
    /// so that a second call would succeed and mean nothing.
    pub(super) fn sync_data(&self, file: &dyn DiskFile, path: &Path) -> Result<(), Stop> {
        self.stats.syncs.fetch_add(1, Ordering::Relaxed);
        file.sync_data().map_err(|error| self.latch("syncing", path, &error))
    }

    /// Syncs content and metadata; likewise.
    pub(super) fn sync_all(&self, file: &dyn DiskFile, path: &Path) -> Result<(), Stop> {
        self.stats.syncs.fetch_add(1, Ordering::Relaxed);
        file.sync_all().map_err(|error| self.latch("syncing", path, &error))
    }

    /// Makes the names in a directory durable; likewise.
    pub(super) fn sync_dir(&self, path: &Path) -> Result<(), Stop> {
        self.disk.sync_dir(path).map_err(|error| self.latch("syncing", path, &error))
    }

    /// Writes at the good end of a file. If there is no space, cuts back what was written of it.
    pub(super) fn write_at_end(
        &self,
        file: &dyn DiskFile,
        path: impl FnOnce() -> PathBuf,
        bytes: &[u8],
        end: u64,
    ) -> Result<(), Stop> {
        let Err(error) = write_all_at(file, bytes, end) else { return Ok(()) };
        let path = path();
        let stop = self.failed("writing", &path, &error);
        if matches!(stop, Stop::NoSpace) {
            file.set_len(end).map_err(|error| self.latch("cutting", &path, &error))?;
            self.sync_all(file, &path)?;
        }
        Err(stop)
    }

    /// Makes a file that holds `bytes`, durable with its name. If there is no space, none is left.
    pub(super) fn make_file(&self, path: &Path, bytes: &[u8]) -> Result<Box<dyn DiskFile>, Stop> {
        let file = self.open_file(path, Open::New)?;
        let dir = path.parent().expect("every file of a session lies in its directory");
        if let Err(error) = write_all_at(&*file, bytes, 0) {
            let stop = self.failed("writing", path, &error);
            if matches!(stop, Stop::NoSpace) {
                drop(file);
                self.remove_file(path)?;
            }
            return Err(stop);
        }
        self.sync_all(&*file, path)?;
        self.sync_dir(dir)?;
        Ok(file)
    }

    /// Removes a file, durably.
    pub(super) fn remove_file(&self, path: &Path) -> Result<(), Stop> {
        let dir = path.parent().expect("every file of a session lies in its directory");
        self.disk.remove_file(path).map_err(|error| self.latch("removing", path, &error))?;
        self.sync_dir(dir)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("sessions", &self.sessions)
            .field("options", &self.options)
            .field("latched", &self.latched.get())
            .finish_non_exhaustive()
    }
}

/// Takes the lock of a data directory and writes the process id into it.
pub(super) fn lock(disk: &dyn Disk, data_dir: &Path) -> Result<Box<dyn DiskFile>, StoreError> {
    make_dirs(disk, data_dir)?;
    let path = data_dir.join(LOCK);
    let Some(file) = disk.lock(&path)? else {
        return Err(StoreError::Locked { pid: read_pid(disk, &path) });
    };
    let pid = format!("{}\n", std::process::id());
    match file.set_len(0).and_then(|()| write_all_at(&*file, pid.as_bytes(), 0)) {
        // The lock is what counts: a full disk must still be served.
        Err(error) if !is_no_space(&error) => Err(error.into()),
        _ => Ok(file),
    }
}

/// Whether the lock of a data directory is held, and by a process that is no more.
///
/// That lasts for a moment: a server that is killed while it starts a tool leaves a child behind that
/// has the lock with everything else, until it becomes the tool or is killed as well.
pub fn lock_is_left_behind(disk: &dyn Disk, data_dir: &Path) -> bool {
    let path = data_dir.join(LOCK);
    let held = disk.exists(&path).unwrap_or(false) && matches!(disk.lock(&path), Ok(None));
    let own = std::process::id();
    held && read_pid(disk, &path).is_some_and(|pid| pid == own || !running::runs(pid))
}

/// Makes a directory and those above it.
fn make_dirs(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || disk.exists(path)? {
        return Ok(());
    }
    make_dirs(disk, path.parent().unwrap_or(Path::new("")))?;
    disk.create_dir(path).map(|_| ())
}

/// Makes the names of a directory and of those above it durable. One that may not be read was not
/// made by us.
fn sync_above(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    for parent in path.ancestors().skip(1) {
        let named = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match disk.sync_dir(named) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn read_pid(disk: &dyn Disk, path: &Path) -> Option<u32> {
    let mut text = [0; 16];
    let len = disk.open(path, Open::Read).ok()?.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..len]).ok()?.trim().parse().ok()
}

pub(super) const SESSIONS: &str = "sessions";
const LOCK: &str = "LOCK";
/// The number has no name of its own in [`io::ErrorKind`]; it is the same on every Unix.
const EIO: i32 = 5;
