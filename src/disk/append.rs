//! The appender of one session: the only thing that ever extends its log.
//!
//! It is small, belongs to whoever holds the agent, and moves between threads with it. It holds at
//! most one open file, which may be taken away at any time and is opened again when needed.
//!
//! Invariant: `end` is the length of the last segment as far as it is known to be good. Bytes are
//! written there and nowhere else, and `end`, `tip` and `state` move only after the write, and with
//! [`SyncMode::Always`](crate::config::SyncMode) the sync, have succeeded.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::api::{DiskFile, Open};
use super::error::{AppendError, Stop};
use super::mailbox::Mailbox;
use super::recover::Heal;
use super::store::{Store, Tip};
use crate::limits::{BATCH_BYTES_MAX, BATCH_EVENTS_MAX};
use crate::log::header::{Header, Prev};
use crate::log::line::{self, Crc, Shape};
use crate::log::state::State;
use crate::proto::event::{NewEvent, write_envelope_at};
use crate::proto::ident::SessionId;
use crate::proto::time::Wall;

/// The appender of one session's log.
pub struct SessionLog {
    pub(super) shape: Shape,
    pub(super) tip: Tip,
    pub(super) state: State,
    pub(super) end: End,
    /// What recovery found and has not put right yet: for want of space, or because there is time
    /// until the next append.
    pub(super) heal: Option<Box<Heal>>,
    pub(super) mailbox: Mailbox,
    pub(super) file: Option<Box<dyn DiskFile>>,
    /// A segment was finished since old ones were last looked for.
    pub(super) rolled: bool,
}

/// Where the next line goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// The last segment.
    pub(super) base: u64,
    /// Its length.
    pub(super) bytes: u64,
    /// The seq of the next event: that of the tip + 1, or 0 in a log that holds no event yet.
    pub(super) next: u64,
    /// The checksum of its last line.
    pub(super) crc: Crc,
    /// How many events its lines attest to be on stable storage.
    pub(super) attested: u64,
}

impl SessionLog {
    /// The last event.
    pub fn tip(&self) -> Tip {
        self.tip
    }

    /// What all events up to the tip add up to.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Whose log it is.
    pub fn session(&self) -> &SessionId {
        self.shape.session()
    }

    /// Whether it holds a descriptor.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Gives the descriptor away; the next append opens the file again. Everything is synced, so
    /// nothing is lost with it.
    pub fn close(&mut self) -> Option<Box<dyn DiskFile>> {
        self.file.take()
    }

    /// Appends events, in parts of at most [`BATCH_EVENTS_MAX`] events and [`BATCH_BYTES_MAX`] bytes
    /// (one larger event alone), each part with one write and one sync. Returns the lines that were
    /// written, whole, with their LF.
    ///
    /// # Panics
    ///
    /// If an event makes a line longer than [`crate::limits::EVENT_BYTES_MAX`] or with a control
    /// character in it: its maker has to see to that. Nothing of its part is written.
    pub fn append(
        &mut self,
        store: &Store,
        events: &[NewEvent],
        at: Wall,
    ) -> Result<Vec<u8>, AppendError> {
        let mut lines = Vec::with_capacity(events.len().min(BATCH_EVENTS_MAX) * LINE_BYTES);
        let mut appended = 0;
        while appended < events.len() {
            let start = lines.len();
            match self.append_part(store, &events[appended..], at, &mut lines) {
                Ok(count) => appended += count,
                Err(stop) => {
                    lines.truncate(start);
                    return Err(stop.after(lines, appended));
                }
            }
        }
        Ok(lines)
    }

    /// Says, in a line that is no event, that everything is on stable storage, so that not even the
    /// last batch can be taken for a torn one. Not synced, and best effort: without it the log is as
    /// good, but the rot of its last batch would look like a tear.
    pub fn attest(&mut self, store: &Store) {
        if !store.syncs_always() || self.end.attested >= self.end.next {
            return;
        }
        let mut line = Vec::new();
        line::write_attest(&mut line, self.end.next);
        if self.ready(store).and_then(|()| self.write(store, &line)).is_ok() {
            self.end.attested = self.end.next;
        }
    }

    /// Appends the first of `events`, as many as one part holds, and says how many that were.
    fn append_part(
        &mut self,
        store: &Store,
        events: &[NewEvent],
        at: Wall,
        lines: &mut Vec<u8>,
    ) -> Result<usize, Stop> {
        let ack = if store.syncs_always() { self.end.next } else { 0 };
        let start = lines.len();
        let at = at.to_text();
        let mut count = 0;
        for event in events.iter().take(BATCH_EVENTS_MAX) {
            let begins = lines.len();
            let seq = self.end.next + count as u64;
            write_envelope_at(lines, event.id, self.shape.session(), seq, &at, &event.body);
            line::seal(lines, begins, ack);
            if count > 0 && lines.len() - start > BATCH_BYTES_MAX {
                lines.truncate(begins);
                break;
            }
            count += 1;
        }
        let part = &lines[start..];
        self.ready(store)?;
        let holds_events = self.end.next > self.end.base;
        if holds_events && self.end.bytes + part.len() as u64 > store.options().segment_bytes {
            self.roll(store)?;
        }
        self.write(store, part)?;
        if store.syncs_always() {
            self.sync(store)?;
        }
        store.stats().events.fetch_add(count as u64, Ordering::Relaxed);
        store.stats().bytes.fetch_add(part.len() as u64, Ordering::Relaxed);
        self.took(&events[..count], ack);
        Ok(count)
    }

    /// Takes note of what has been stored.
    fn took(&mut self, events: &[NewEvent], ack: u64) {
        for event in events {
            self.state.apply_body(self.end.next, &event.body);
            self.mailbox.spend(event.id);
            self.end.next += 1;
        }
        self.end.attested = self.end.attested.max(ack);
        self.tip = Tip { seq: self.end.next - 1, base: self.end.base, bytes: self.end.bytes };
    }

    /// Puts right what recovery had to leave, and opens the file.
    pub(super) fn ready(&mut self, store: &Store) -> Result<(), Stop> {
        store.check()?;
        if self.file.is_none() {
            let file = store.open_file(&self.path(store), Open::Write)?;
            let expected = self.heal.as_ref().map_or(self.end.bytes, |heal| heal.file_bytes);
            let bytes = file.size().map_err(Stop::Unopened)?;
            if bytes != expected {
                let error = format!("{bytes} bytes long where {expected} were left");
                return Err(Stop::Unopened(std::io::Error::other(error)));
            }
            self.file = Some(file);
        }
        if let Some(heal) = &mut self.heal {
            let file = self.file.as_deref().expect("the file was just opened");
            heal.apply(store, self.shape.session(), self.end.base, file)?;
            self.heal = None;
        }
        Ok(())
    }

    /// Writes lines at the end. They count as part of the file from here on, synced or not: if the
    /// sync fails, the store is latched and nothing is written again.
    fn write(&mut self, store: &Store, lines: &[u8]) -> Result<(), Stop> {
        let file = self.file.as_deref().expect("`ready` opened it");
        store.write_at_end(file, || self.path(store), lines, self.end.bytes)?;
        self.end.bytes += lines.len() as u64;
        self.end.crc = line::crc_of_last(lines).expect("every line ends in its checksum");
        Ok(())
    }

    pub(super) fn sync(&self, store: &Store) -> Result<(), Stop> {
        let file = self.file.as_deref().expect("`ready` opened it");
        store.sync_data(file, &self.path(store))
    }

    /// Finishes the segment and begins the next. The finished one is synced in every mode, and so is
    /// the header, before an event stands behind it: only the last batch can ever be in doubt.
    fn roll(&mut self, store: &Store) -> Result<(), Stop> {
        self.sync(store)?;
        let base = self.end.next;
        let prev = Prev { last: base - 1, bytes: self.end.bytes, crc: self.end.crc };
        let header = Header { base, prev: Some(prev), state: self.state.clone() };
        let ack = if store.syncs_always() { base } else { 0 };
        // The old file goes first: an appender never holds two.
        self.file = None;
        let (file, end) = begin_segment(store, self.session(), &header, ack)?;
        self.file = Some(file);
        self.end = end;
        self.rolled = true;
        Ok(())
    }

    fn path(&self, store: &Store) -> PathBuf {
        store.files().segment(self.shape.session(), self.end.base)
    }
}

/// What a line with a little text takes, about.
const LINE_BYTES: usize = 256;

/// Makes a segment that holds its header and no event.
pub(super) fn begin_segment(
    store: &Store,
    session: &SessionId,
    header: &Header,
    ack: u64,
) -> Result<(Box<dyn DiskFile>, End), Stop> {
    let mut line = Vec::new();
    header.write(&mut line, session, ack);
    let file = store.make_file(&store.files().segment(session, header.base), &line)?;
    let crc = line::crc_of_last(&line).expect("every line ends in its checksum");
    let (base, bytes) = (header.base, line.len() as u64);
    Ok((file, End { base, bytes, next: base, crc, attested: ack }))
}

impl fmt::Debug for SessionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionLog")
            .field("session", self.session())
            .field("tip", &self.tip)
            .field("end", &self.end)
            .field("is_open", &self.is_open())
            .finish_non_exhaustive()
    }
}
