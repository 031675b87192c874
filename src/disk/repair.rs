//! Repairing a damaged session: what `log repair` does, with the server stopped.
//!
//! What remains is one run of segments without a gap. The newest run is preferred, which reaches to the
//! last event: no seq is handed out twice then, and what clients hold stays true. The log begins behind
//! the damage and says so with the mark of a removed beginning. Damage in the last segment is cut off it
//! from its first byte on. Where the newest run lacks what the session cannot go on without, the
//! beginning of its open turn or its last compaction, the oldest run is taken, up to the damage.
//!
//! Every file that is taken out or changed is kept beside the log as it was, as `<file>.damaged`, never
//! overwritten. A text in the inbox that may have been used in what is lost may come once more; none
//! is lost.
//!
//! Invariant: the last call is the one that makes the log whole. Before it the log is still damaged,
//! and no event is in none of its files.

use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use super::api::{Disk, Open};
use super::error::StoreError;
use super::files::{Files, Listing, scan_file};
use super::mailbox::replace_inbox;
use super::recover::{free_name, set_aside};
use super::retain::mark;
use super::store::{LogOptions, SESSIONS, Store};
use super::verify::{Checked, Finding, Surveyed, inbox_lines, survey};
use crate::config::SyncMode;
use crate::log::inbox::InboxEntry;
use crate::log::scan::Item;
use crate::log::state::State;
use crate::log::verdict::Verdict;
use crate::proto::ident::SessionId;

/// What can be done for a session.
pub enum Diagnosis {
    /// There is no such session.
    Missing,
    /// Nothing is damaged. A torn end heals when the session is opened.
    Sound,
    /// Nothing is left that the session could go on with.
    Lost,
    /// It can be repaired.
    Repairable(Box<Repair>),
}

/// A repair that can be made. As long as it lives, no server can be started on the directory.
pub struct Repair {
    store: Store,
    session: SessionId,
    /// The seqs of the events that remain.
    pub kept: RangeInclusive<u64>,
    /// How many sound events do not.
    pub lost: u64,
    listing: Listing,
    run: Run,
    /// What the inbox is to hold, if it cannot stay as it is.
    inbox: Option<Vec<InboxEntry>>,
}

/// A run of segments that follow one another.
struct Run {
    first: u64,
    last: u64,
    /// How long the last of them is to be, if not as long as it is.
    cut: Option<u64>,
    /// The seq behind its last event.
    next: u64,
}

/// Takes the lock and looks what is to be done for a session, telling what is wrong with it.
pub fn diagnose(
    disk: Arc<dyn Disk>,
    data_dir: &Path,
    session: &SessionId,
    mut report: impl FnMut(Finding),
) -> Result<Diagnosis, StoreError> {
    let root = data_dir.join(SESSIONS);
    if !disk.exists(&root.join(session.as_str()))? {
        return Ok(Diagnosis::Missing);
    }
    let options = LogOptions { sync: SyncMode::Always, segment_bytes: 0 };
    let store = Store::open(disk, data_dir, options)?;
    let files = store.files();
    let listing = files.listing(session)?;
    let (mut checked, mut damaged) = (Checked::default(), false);
    let mut tell = |finding: Finding| {
        damaged |= finding.is_damage();
        report(finding);
    };
    let surveyed = survey(files, session, &listing, &mut checked, &mut tell)?;
    let mut entries = Vec::new();
    let mut rewrite = false;
    if listing.inbox {
        let lines = inbox_lines(files, session)?;
        rewrite = lines.broken.iter().any(Finding::is_damage);
        lines.broken.into_iter().for_each(tell);
        entries = lines.entries;
    }
    if !damaged {
        return Ok(Diagnosis::Sound);
    }
    let Some(run) = run_to_keep(files, session, &surveyed)? else { return Ok(Diagnosis::Lost) };
    for entry in &mut entries {
        let after = entry.after.clamp(run.first, run.next);
        rewrite |= after != entry.after;
        entry.after = after;
    }
    Ok(Diagnosis::Repairable(Box::new(Repair {
        kept: run.first..=run.next - 1,
        lost: checked.events.saturating_sub(run.next - run.first),
        inbox: rewrite.then_some(entries),
        session: session.clone(),
        listing,
        run,
        store,
    })))
}

/// The newest run that the session can go on with, or the oldest.
fn run_to_keep(
    files: Files<'_>,
    session: &SessionId,
    surveyed: &[Surveyed],
) -> io::Result<Option<Run>> {
    let usable = |segment: &Surveyed| is_whole(segment) || cut_of(segment).is_some();
    let Some(top) = surveyed.iter().rposition(usable) else { return Ok(None) };
    let mut bottom = top;
    while bottom > 0 && surveyed[bottom].follows && is_whole(&surveyed[bottom - 1]) {
        bottom -= 1;
    }
    if let Some(run) = run(files, session, &surveyed[bottom..=top])? {
        return Ok(Some(run));
    }
    let bottom = surveyed.iter().position(usable).expect("there is a newest one");
    let mut top = bottom;
    while is_whole(&surveyed[top])
        && surveyed.get(top + 1).is_some_and(|next| next.follows && usable(next))
    {
        top += 1;
    }
    run(files, session, &surveyed[bottom..=top])
}

/// Nothing of it has to go. Its end may be torn, if it is the last one.
fn is_whole(segment: &Surveyed) -> bool {
    matches!(segment.verdict, Verdict::Intact | Verdict::Torn)
}

/// Where a damaged segment is to be cut, if anything remains of it then.
fn cut_of(segment: &Surveyed) -> Option<u64> {
    let found = segment.found.as_ref().filter(|_| !is_whole(segment))?;
    (found.header.is_some() && found.prefix.last_event.is_some()).then_some(found.prefix.bytes)
}

/// These segments as a run, if they hold an event and what a session cannot go on without.
fn run(files: Files<'_>, session: &SessionId, segments: &[Surveyed]) -> io::Result<Option<Run>> {
    let [.., top] = segments else { return Ok(None) };
    let Some(found) = &top.found else { return Ok(None) };
    let (first, next) = (segments[0].base, found.prefix.next);
    let mut state = State::default();
    let file = files.disk.open(&files.segment(session, top.base), Open::Read)?;
    scan_file(&*file, found.prefix.bytes, session, top.base, &mut |item| match item {
        Item::Header(header) => state = header.state.clone(),
        Item::Event { event, .. } => state.apply(event.seq, event.kind, event.payload),
        Item::Bad(_) => {}
    })?;
    let holds = |seq: Option<u64>| seq.is_none_or(|seq| seq >= first);
    let goes_on = first < next && holds(state.turn) && holds(state.compacted);
    Ok(goes_on.then(|| Run { first, last: top.base, cut: cut_of(top), next }))
}

impl Repair {
    /// Repairs it.
    pub fn repair(self) -> io::Result<()> {
        let Self { store, session, listing, run, .. } = &self;
        let files = store.files();
        if let Some(entries) = &self.inbox {
            self.keep_whole(&files.inbox(session))?;
            replace_inbox(store, session, entries)?;
        }
        // From the ends towards the run: what is left at any time is no other run.
        let newer = listing.bases.iter().rev().filter(|&&base| base > run.last);
        for &base in newer.chain(listing.bases.iter().filter(|&&base| base < run.first)) {
            let path = files.segment(session, base);
            let aside = free_name(store, &path, DAMAGED)?;
            store.disk().rename(&path, &aside)?;
            store.sync_dir(&files.dir(session))?;
        }
        if run.first > listing.first {
            mark(store, session, listing.first, run.first)?;
        }
        if let Some(cut) = run.cut {
            let path = files.segment(session, run.last);
            self.keep_whole(&path)?;
            let file = store.open_file(&path, Open::Write)?;
            file.set_len(cut)?;
            store.sync_all(&*file, &path)?;
        }
        Ok(())
    }

    /// Keeps a copy of a file that is going to be changed.
    fn keep_whole(&self, path: &Path) -> io::Result<()> {
        let file = self.store.open_file(path, Open::Read)?;
        Ok(set_aside(&self.store, DAMAGED, path, &*file, 0, file.size()?)?)
    }
}

/// Why something is kept aside that was stored.
const DAMAGED: &str = "damaged";
