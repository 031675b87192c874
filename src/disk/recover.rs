//! Opening a session for appending (design/log-format, "Opening a session for append").
//!
//! First everything is read and judged, then, if the verdict allows, put right; a session that is
//! damaged is not touched. What has to be put right and finds no space is left for the next append,
//! so that a full disk can be read from.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::api::{DiskFile, Open};
use super::append::{End, SessionLog, begin_segment};
use super::error::{OpenError, ReadError, Stop};
use super::files::{Listing, for_each_block, read_full_at, scan_file, segment_name, write_all_at};
use super::mailbox::Mailbox;
use super::store::{Store, Tip};
use crate::log::header::{Header, Prev};
use crate::log::inbox::InboxEntry;
use crate::log::line::{self, Shape};
use crate::log::place::{Fault, Place};
use crate::log::scan::{Found, Item};
use crate::log::state::State;
use crate::log::verdict::{Finding, Position, Verdict, place_of_damage};
use crate::proto::event::NewEvent;
use crate::proto::ident::{EventId, SessionId};
use crate::proto::payload::Body;
use crate::proto::time::Wall;

/// A session that can be appended to.
#[derive(Debug)]
pub struct Opened {
    /// Its appender.
    pub log: SessionLog,
    /// What its events add up to.
    pub state: State,
    /// Accepted texts that are not in the log yet, in order of acceptance.
    pub inbox: Vec<InboxEntry>,
    /// What was cut off its end.
    pub torn: Option<TornReport>,
}

/// A torn end that was found when a session was opened. Nothing of it had ever been published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornReport {
    /// The segment it stood in.
    pub segment: u64,
    /// Where it began.
    pub byte: u64,
    /// How long it was.
    pub bytes: u64,
}

impl fmt::Display for TornReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment, byte, bytes } = self;
        write!(f, "{bytes} bytes at {byte} in {}", segment_name(*segment))
    }
}

impl Store {
    /// Opens a session for appending, healing what an unclean death left.
    ///
    /// With `create`, a session that does not exist is made, with `session/created` as its event 0;
    /// id and time are those of that event.
    pub fn open_session(
        &self,
        session: &SessionId,
        create: Option<(EventId, Wall)>,
    ) -> Result<Opened, OpenError> {
        self.check()?;
        let listing = self.files().listing(session)?;
        let judged = self.judge(session, &listing)?;
        let stillborn = match &judged {
            Some(judged) => judged.stillborn,
            None if create.is_none() => return Err(OpenError::Missing),
            None => listing.bases.last().copied(),
        };
        let buried = stillborn.map(|base| self.bury(session, base)).transpose()?.flatten();
        let mut log = match judged {
            Some(judged) => judged.into_log(session),
            None => self.begin(session)?,
        };
        let torn = log.heal.as_ref().and_then(|heal| heal.torn(log.end.base)).or(buried);
        if log.heal.as_ref().is_some_and(|heal| heal.is_urgent()) {
            match log.ready(self) {
                Ok(()) | Err(Stop::NoSpace) => {}
                Err(stop) => return Err(stop.into()),
            }
        }
        if log.end.next == 0 {
            let Some((id, at)) = create else { return Err(OpenError::Missing) };
            let created = NewEvent { id, body: Body::SessionCreated };
            log.append(self, &[created], at).map_err(|error| match error {
                super::AppendError::NoSpace { .. } => Stop::NoSpace,
                super::AppendError::Unopened { error, .. } => Stop::Unopened(error),
                super::AppendError::Latched(error) => Stop::Latched(error),
            })?;
        }
        let inbox = if listing.inbox { self.open_inbox(&mut log)? } else { Vec::new() };
        Ok(Opened { state: log.state.clone(), log, inbox, torn })
    }

    /// Makes a session that holds no event yet.
    fn begin(&self, session: &SessionId) -> Result<SessionLog, Stop> {
        let dir = self.files().dir(session);
        self.disk().create_dir(&dir).map_err(|error| self.failed("making", &dir, &error))?;
        self.sync_dir(dir.parent().expect("sessions lie in their directory"))?;
        let header = Header { base: 0, prev: None, state: State::default() };
        let (file, end) = begin_segment(self, session, &header, 0)?;
        Ok(SessionLog {
            shape: Shape::new(session.clone()),
            tip: Tip { seq: 0, base: 0, bytes: end.bytes },
            state: State::default(),
            end,
            heal: None,
            mailbox: Mailbox::default(),
            file: Some(file),
            rolled: false,
        })
    }

    /// Judges the last segment, and the one before it if the last never held anything. Nothing if
    /// there is no segment that ever held anything.
    fn judge(&self, session: &SessionId, listing: &Listing) -> Result<Option<Judged>, OpenError> {
        let Listing { first, bases, .. } = listing;
        let Some((&last, before)) = bases.split_last() else {
            let fault = Fault::NoSegment { base: *first };
            let place = Place { segment: *first, line: 1, byte: 0, fault };
            return if *first == 0 { Ok(None) } else { Err(self.damaged(session, &[], place)) };
        };
        let mut judged = self.judge_one(session, last, before.last().copied(), Position::Last)?;
        if judged.verdict == Verdict::Stillborn {
            match before.split_last() {
                None if last == 0 => return Ok(None),
                None => {}
                Some((&base, before)) => {
                    let before = before.last().copied();
                    judged = self.judge_one(session, base, before, Position::Finished)?;
                    judged.stillborn = Some(last);
                }
            }
        }
        match judged.damage() {
            None => Ok(Some(judged)),
            Some(place) => Err(self.damaged(session, bases, place)),
        }
    }

    /// A damaged log ends, for its readers, with the last valid line that is left, also beyond the
    /// damage.
    fn damaged(&self, session: &SessionId, bases: &[u64], place: Place) -> OpenError {
        for &base in bases.iter().rev() {
            let path = self.files().segment(session, base);
            let found = self
                .disk()
                .open(&path, Open::Read)
                .and_then(|file| scan_file(&*file, file.size()?, session, base, &mut |_| {}));
            match found.map(|found| found.last_event) {
                Ok(None) => {}
                Ok(Some(mark)) => {
                    let tip = Tip { seq: mark.seq, base, bytes: mark.end };
                    return OpenError::Damaged { place, tip: Some(tip) };
                }
                Err(error) => return OpenError::Io(error),
            }
        }
        OpenError::Damaged { place, tip: None }
    }

    fn judge_one(
        &self,
        session: &SessionId,
        base: u64,
        before: Option<u64>,
        position: Position,
    ) -> Result<Judged, OpenError> {
        let path = self.files().segment(session, base);
        let file = self.open_file(&path, Open::Write)?;
        // What is read from here on is on stable storage, or nothing is read.
        self.sync_all(&*file, &path)?;
        let len = file.size()?;
        let mut state = State::default();
        let found = scan_file(&*file, len, session, base, &mut |item| match item {
            Item::Header(header) => state = header.state.clone(),
            Item::Event { event, contiguous: true, .. } => {
                state.apply(event.seq, event.kind, event.payload);
            }
            Item::Event { .. } | Item::Bad(_) => {}
        })?;
        let follows = match &found.header {
            Some(header) => self.follows(session, header, before)?,
            None => true,
        };
        let verdict = Finding::new(&found, position, follows).verdict();
        Ok(Judged { base, before, file, found, follows, state, verdict, stillborn: None })
    }

    /// Whether the segment before is the one that a header describes. It may be gone with all that
    /// was before it: old segments are removed from the front.
    fn follows(
        &self,
        session: &SessionId,
        header: &Header,
        before: Option<u64>,
    ) -> io::Result<bool> {
        let (Some(Prev { bytes, crc, .. }), Some(before)) = (header.prev, before) else {
            return Ok(before.is_none());
        };
        let file = self.disk().open(&self.files().segment(session, before), Open::Read)?;
        let mut end = [0; 32];
        let from = bytes.saturating_sub(end.len() as u64);
        let got = read_full_at(&*file, &mut end, from)?;
        Ok(file.size()? == bytes && line::crc_of_last(&end[..got]) == Some(crc))
    }

    /// Removes a segment that never held anything. If it holds bytes at all, it gets another name, which
    /// needs no space.
    fn bury(&self, session: &SessionId, base: u64) -> Result<Option<TornReport>, Stop> {
        let path = self.files().segment(session, base);
        let bytes = self.open_file(&path, Open::Read)?.size().map_err(Stop::Unopened)?;
        if bytes == 0 {
            return self.remove_file(&path).map(|()| None);
        }
        let aside = free_name(self, &path, TORN)?;
        self.disk()
            .rename(&path, &aside)
            .map_err(|error| self.failed("renaming", &path, &error))?;
        self.sync_dir(&self.files().dir(session))?;
        Ok(Some(TornReport { segment: base, byte: 0, bytes }))
    }

    /// The texts that wait, which are those whose ids the log does not hold.
    fn open_inbox(&self, log: &mut SessionLog) -> Result<Vec<InboxEntry>, OpenError> {
        let (mailbox, mut entries) = Mailbox::read(self, log.session())?;
        log.mailbox = mailbox;
        let from = entries.iter().map(|entry| entry.after).min().unwrap_or(u64::MAX);
        let mut events = self.events_from(log.session(), from, log.tip());
        while let Some(piece) = events.next_piece().map_err(|error| match error {
            ReadError::Damaged(place) => OpenError::Damaged { place, tip: Some(log.tip) },
            error => OpenError::Io(error.into()),
        })? {
            for event in piece.events(&log.shape) {
                if let Some(spent) = entries.iter().position(|entry| entry.id == event.id) {
                    entries.remove(spent);
                    log.mailbox.spend(event.id);
                }
            }
        }
        if !entries.is_empty() {
            let file = self.open_file(&self.files().inbox(log.session()), Open::Write)?;
            match log.inbox_settle(self, &*file) {
                Ok(()) | Err(Stop::NoSpace) => {}
                Err(stop) => return Err(stop.into()),
            }
        }
        Ok(entries)
    }
}

/// A segment that was read and judged.
struct Judged {
    base: u64,
    /// The segment before it.
    before: Option<u64>,
    file: Box<dyn DiskFile>,
    found: Found,
    follows: bool,
    state: State,
    verdict: Verdict,
    /// The one behind it, which never held anything.
    stillborn: Option<u64>,
}

impl Judged {
    fn damage(&self) -> Option<Place> {
        match self.verdict {
            Verdict::Intact | Verdict::Torn => None,
            Verdict::Damaged | Verdict::Stillborn if self.follows => {
                Some(place_of_damage(&self.found, self.base))
            }
            Verdict::Damaged | Verdict::Stillborn => {
                let fault = Fault::Predecessor;
                Some(Place { segment: self.base, line: 1, byte: 0, fault })
            }
        }
    }

    fn into_log(self, session: &SessionId) -> SessionLog {
        let prefix = &self.found.prefix;
        let header = self.found.header.as_ref().expect("a segment without one is not appended to");
        let tip = match (prefix.last_event, self.before) {
            (Some(mark), _) => Tip { seq: mark.seq, base: self.base, bytes: mark.end },
            (None, before) => Tip {
                seq: self.base.saturating_sub(1),
                base: before.unwrap_or(self.base),
                bytes: header.prev.map_or(prefix.bytes, |prev| prev.bytes),
            },
        };
        let end = End {
            base: self.base,
            bytes: prefix.bytes,
            next: prefix.next,
            crc: prefix.crc,
            attested: self.found.attested,
        };
        let heal = Heal {
            file_bytes: self.found.bytes,
            cut: prefix.bytes,
            rewrite_from: prefix.unattested_from,
            attested: end.attested >= end.next,
            holds_events: prefix.last_event.is_some(),
        };
        SessionLog {
            shape: Shape::new(session.clone()),
            tip,
            state: self.state,
            end,
            heal: Some(Box::new(heal)),
            mailbox: Mailbox::default(),
            file: Some(self.file),
            rolled: false,
        }
    }
}

/// What is to be put right in the last segment before anything is appended to it.
#[derive(Debug)]
pub(super) struct Heal {
    /// How long the file is.
    pub(super) file_bytes: u64,
    /// What stands from here on is torn.
    cut: u64,
    /// Of what stands from here to `cut` nothing says that it is stored.
    rewrite_from: u64,
    /// What stands there is a line that attests, and no event.
    attested: bool,
    /// Otherwise not even the segment's name is known to be stored.
    holds_events: bool,
}

impl Heal {
    /// Whether it has to be done before an event is shown, and not only before one is appended.
    fn is_urgent(&self) -> bool {
        self.file_bytes > self.cut || !self.attested || !self.holds_events
    }

    fn torn(&self, segment: u64) -> Option<TornReport> {
        let bytes = self.file_bytes - self.cut;
        (bytes > 0).then_some(TornReport { segment, byte: self.cut, bytes })
    }

    /// Cuts the torn end off, keeping it aside. Then writes the lines that nothing says are stored
    /// again, as they are: they become durable even if a sync that failed earlier left their pages
    /// marked clean. A segment without an event may have been left before its name was synced.
    pub(super) fn apply(
        &mut self,
        store: &Store,
        session: &SessionId,
        base: u64,
        file: &dyn DiskFile,
    ) -> Result<(), Stop> {
        let path = store.files().segment(session, base);
        let is_urgent = self.is_urgent();
        if self.file_bytes > self.cut {
            set_aside(store, TORN, &path, file, self.cut, self.file_bytes)?;
            file.set_len(self.cut).map_err(|error| store.latch("cutting", &path, &error))?;
            store.sync_all(file, &path)?;
            self.file_bytes = self.cut;
        }
        if store.syncs_always() || !self.holds_events {
            rewrite(store, &path, file, self.rewrite_from, self.cut)?;
            // The line that attests is synced with what is about to be appended.
            if is_urgent {
                store.sync_data(file, &path)?;
            }
        }
        if !self.holds_events {
            store.sync_dir(&store.files().dir(session))?;
            store.sync_dir(store.files().sessions)?;
        }
        Ok(())
    }
}

/// Why something is kept aside that was never finished.
pub(super) const TORN: &str = "torn";

/// Writes what stands from `from` to `to` once more.
pub(super) fn rewrite(
    store: &Store,
    path: &Path,
    file: &dyn DiskFile,
    from: u64,
    to: u64,
) -> Result<(), Stop> {
    let mut stop = None;
    let done = for_each_block(file, from, to, |at, block| {
        write_all_at(file, block, at).inspect_err(|error| {
            stop = Some(store.failed("rewriting", path, error));
        })
    });
    match (done, stop) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(stop)) => Err(stop),
        (Err(error), None) => Err(Stop::Unopened(error)),
    }
}

/// Keeps the bytes from `from` to `to` of a file in one beside it, whose name says why.
pub(super) fn set_aside(
    store: &Store,
    why: &str,
    path: &Path,
    file: &dyn DiskFile,
    from: u64,
    to: u64,
) -> Result<(), Stop> {
    let mut kept = Vec::new();
    for_each_block(file, from, to, |_, block| {
        kept.extend_from_slice(block);
        Ok(())
    })
    .map_err(Stop::Unopened)?;
    store.make_file(&free_name(store, path, why)?, &kept)?;
    Ok(())
}

/// `<file>.<why>`, or with a number behind it: nothing that was kept is ever overwritten.
pub(super) fn free_name(store: &Store, path: &Path, why: &str) -> Result<PathBuf, Stop> {
    let mut number = 1_u32;
    loop {
        let end = if number == 1 { String::new() } else { format!(".{number}") };
        let name = path.with_extension(format!("jsonl.{why}{end}"));
        if !store.disk().exists(&name).map_err(Stop::Unopened)? {
            return Ok(name);
        }
        number += 1;
    }
}
