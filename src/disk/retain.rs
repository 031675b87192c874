//! Removing old segments (config `log.keep_events`, `log.keep_days`).
//!
//! Whole segments go, oldest first, and none that anything needs: not the one of the last event, and
//! none from the oldest on that the open turn, the model's history, a compaction or the inbox is read
//! from. What is decided here is read from events that are on stable storage.
//!
//! A log whose beginning was removed must not look like one whose beginning was lost. So before the
//! first segment goes, a mark is stored: an empty file whose name is the seq of the first event that
//! stays. From then on nothing below it is part of the log, whether its files are gone yet or not, so
//! a crash at any call leaves the log before or the log behind; what stays missing above the mark is
//! damage as ever. Rejected: to take the first segment that is there for the first of the log, which
//! would call every lost beginning a removed one; and a file with content, which needs space on a
//! disk that is full.
//!
//! Invariant: the mark is never above the seq of the last event, and never moves down.

use std::io;

use super::api::Open;
use super::append::SessionLog;
use super::error::Stop;
use super::files::{Files, Listing, read_full_at};
use super::store::Store;
use super::turns;
use crate::limits::{EVENT_BYTES_MAX, REMOVALS_MAX, SWEEP_SESSIONS_MAX};
use crate::log::line::Shape;
use crate::log::scan::{Item, Scan};
use crate::proto::ident::SessionId;
use crate::proto::time::Wall;

/// How much of a session is kept. What either of the two keeps, stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// So many events before the last segment.
    pub keep_events: Option<u64>,
    /// The events of so many days.
    pub keep_days: Option<u64>,
}

/// What was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trimmed {
    /// Segments, and marks of earlier removals.
    pub files: usize,
    /// The seq of the first event that is kept.
    pub first: u64,
}

/// What a look at some sessions found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Those that hold more than is to be kept.
    pub due: Vec<SessionId>,
    /// The last one looked at, if there are more behind it.
    pub more_after: Option<SessionId>,
}

impl Retention {
    /// Whether everything is kept.
    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }
}

impl SessionLog {
    /// Whether a segment was finished since [`SessionLog::trim`] was last called, or that has left
    /// some for the next time.
    pub fn has_rolled(&self) -> bool {
        self.rolled
    }

    /// Removes the old segments that nothing needs, of many only some. `history_bytes` is how much a
    /// model request carries. Says what was removed, if anything.
    pub fn trim(
        &mut self,
        store: &Store,
        retention: &Retention,
        history_bytes: usize,
        now: Wall,
    ) -> io::Result<Option<Trimmed>> {
        store.check()?;
        self.rolled = false;
        let mut listing = store.files().listing(self.session())?;
        let due = due(store.files(), self.session(), &listing, retention, now)?;
        if due > 0 {
            self.ready(store)?;
            if !store.syncs_always() {
                self.sync(store)?;
            }
            let needed = self.needed(store, history_bytes)?;
            let first = listing.bases[..=due].iter().rfind(|&&base| base <= needed).copied();
            if let Some(first) = first.filter(|&first| first > listing.first) {
                self.rolled = due == REMOVALS_MAX;
                mark(store, self.session(), listing.first, first)?;
                listing = store.files().listing(self.session())?;
            }
        }
        // Whatever keeps one from being removed: it is no part of the log any more.
        for name in &listing.removed {
            store.disk().remove_file(&store.files().dir(self.session()).join(name))?;
        }
        let (files, first) = (listing.removed.len(), listing.first);
        Ok((files > 0).then_some(Trimmed { files, first }))
    }

    /// The oldest event that something needs.
    fn needed(&mut self, store: &Store, history_bytes: usize) -> io::Result<u64> {
        let inbox = self.inbox_needs(store)?.unwrap_or(u64::MAX);
        let history =
            turns::oldest(store.files(), self.session(), &self.state, self.tip, history_bytes)?;
        Ok(self.tip.seq.min(inbox).min(history))
    }
}

impl Store {
    /// Looks at some sessions, those that follow `after` by their ids, for old segments.
    ///
    /// It takes no notice of what is needed, nor of who appends: [`SessionLog::trim`] does.
    pub fn sweep(
        &self,
        after: Option<&SessionId>,
        retention: &Retention,
        now: Wall,
    ) -> io::Result<Swept> {
        let names = self.disk().list(self.files().sessions)?;
        let mut ids: Vec<SessionId> = names
            .iter()
            .filter_map(|name| SessionId::parse(name))
            .filter(|id| after.is_none_or(|after| id > after))
            .collect();
        ids.sort_unstable();
        let more = ids.len() > SWEEP_SESSIONS_MAX;
        ids.truncate(SWEEP_SESSIONS_MAX);
        let more_after = if more { ids.last().cloned() } else { None };
        // One that cannot be read keeps what it has; `log verify` names it.
        ids.retain(|id| self.is_due(id, retention, now).unwrap_or(false));
        Ok(Swept { due: ids, more_after })
    }

    fn is_due(&self, session: &SessionId, retention: &Retention, now: Wall) -> io::Result<bool> {
        let listing = self.files().listing(session)?;
        Ok(!listing.removed.is_empty() || due(self.files(), session, &listing, retention, now)? > 0)
    }
}

/// How many segments at the beginning hold nothing that is to be kept, at most [`REMOVALS_MAX`].
///
/// None where the beginning is lost or what would become the beginning does not hold: a damaged
/// session is left as it is.
fn due(
    files: Files<'_>,
    session: &SessionId,
    listing: &Listing,
    retention: &Retention,
    now: Wall,
) -> io::Result<usize> {
    let Some((last, finished)) = listing.bases.split_last() else { return Ok(0) };
    if retention.is_off() || listing.bases[0] != listing.first {
        return Ok(0);
    }
    let mut due = finished.len().min(REMOVALS_MAX);
    if let Some(keep) = retention.keep_events {
        let kept_from = last.saturating_sub(keep);
        due = due.min(listing.bases.partition_point(|&base| base <= kept_from).saturating_sub(1));
    }
    let micros = retention.keep_days.map_or(0, |days| days.saturating_mul(MICROS_A_DAY));
    let kept_since = Wall(now.0.saturating_sub_unsigned(micros));
    for index in 0..due {
        // Everything in a segment is older than what the next one begins with.
        let next = begins_at(files, session, listing.bases[index + 1])?;
        let is_old = |at| retention.keep_days.is_none() || at < kept_since;
        if !next.is_some_and(is_old) {
            return Ok(index);
        }
    }
    Ok(due)
}

/// When the first event of a segment was appended; nothing if it does not begin with its header and
/// an event.
fn begins_at(files: Files<'_>, session: &SessionId, base: u64) -> io::Result<Option<Wall>> {
    let file = files.disk.open(&files.segment(session, base), Open::Read)?;
    let mut scan = Scan::new(Shape::new(session.clone()), base);
    let (mut block, mut offset, mut found) = (vec![0; BLOCK_BYTES], 0, None);
    loop {
        let got = read_full_at(&*file, &mut block, offset)?;
        offset += got as u64;
        scan.push(&block[..got], &mut |item| {
            let at = match item {
                Item::Header(_) => return,
                Item::Event { event, contiguous: true, .. } => Wall::parse(event.at),
                Item::Event { .. } | Item::Bad(_) => None,
            };
            found.get_or_insert(at);
        });
        // A header and an event are at most so long.
        if found.is_some() || got < block.len() || offset > 2 * EVENT_BYTES_MAX as u64 {
            return Ok(found.flatten());
        }
    }
}

/// Stores that the log begins with `first` from now on, and no longer with `before`.
pub(super) fn mark(
    store: &Store,
    session: &SessionId,
    before: u64,
    first: u64,
) -> Result<(), Stop> {
    let files = store.files();
    let path = files.mark(session, first);
    if before == 0 {
        store.open_file(&path, Open::New)?;
    } else {
        // Another name for the old mark: once there is one, a full disk can be trimmed.
        store
            .disk()
            .rename(&files.mark(session, before), &path)
            .map_err(|error| store.failed("renaming", &path, &error))?;
    }
    store.sync_dir(&files.dir(session))
}

const MICROS_A_DAY: u64 = 24 * 3600 * 1_000_000;
/// How much is read at once.
const BLOCK_BYTES: usize = 4 * 1024;
