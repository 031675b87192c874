//! `inbox.jsonl`: accepted texts that are not in the log yet (design/log-format, "The inbox").
//!
//! Append only, one write and one sync a job. An entry is spent when the log holds its id; when all
//! are, the file is cut to nothing before its next append, and if it grows too long before that
//! happens, what waits is written anew. What stands behind the last sound line was never accepted,
//! since it was never synced; it is kept aside before the file is used again.

use std::io;

use super::api::{DiskFile, Open};
use super::append::SessionLog;
use super::error::{AppendError, Stop};
use super::files::for_each_block;
use super::recover::{TORN, rewrite, set_aside};
use super::store::Store;
use crate::limits::INBOX_FILE_BYTES_MAX;
use crate::log::inbox::InboxEntry;
use crate::log::line;
use crate::proto::ident::{EventId, SessionId};

/// What an appender knows of its session's inbox file.
#[derive(Clone, Debug, Default)]
pub(super) struct Mailbox {
    /// There is a file.
    exists: bool,
    /// Its name and its entries are known to be stored: whoever wrote them may have died before that.
    settled: bool,
    /// Its length up to the last sound line.
    bytes: u64,
    /// Its length.
    file_bytes: u64,
    /// The entries in it that are not spent.
    waiting: Vec<EventId>,
    /// The least `after` of any entry in it, spent or not: to know which are, the log is read from there on.
    after: Option<u64>,
}

impl Mailbox {
    /// Reads what a session's inbox file holds, spent or not.
    pub(super) fn read(store: &Store, session: &SessionId) -> io::Result<(Self, Vec<InboxEntry>)> {
        let file = store.disk().open(&store.files().inbox(session), Open::Read)?;
        let file_bytes = file.size()?;
        let mut text = Vec::new();
        for_each_block(&*file, 0, file_bytes, |_, block| {
            text.extend_from_slice(block);
            Ok(())
        })?;
        let mut entries = Vec::new();
        let (mut bytes, mut at) = (0, 0);
        while let Some(lf) = line::find_lf(&text[at..]) {
            let entry =
                line::unseal(&text[at..at + lf]).and_then(|sealed| InboxEntry::read(&sealed));
            at += lf + 1;
            if let Some(entry) = entry {
                entries.push(entry);
                bytes = at as u64;
            }
        }
        let waiting = entries.iter().map(|entry| entry.id).collect();
        let after = least_after(&entries);
        Ok((Self { exists: true, settled: false, bytes, file_bytes, waiting, after }, entries))
    }

    /// The log holds this id.
    pub(super) fn spend(&mut self, id: EventId) {
        self.waiting.retain(|waiting| *waiting != id);
    }
}

impl SessionLog {
    /// Makes accepted texts durable, with one write and one sync.
    ///
    /// The caller bounds how many may wait ([`crate::limits::INBOX_TEXTS_MAX`],
    /// [`crate::limits::INBOX_BYTES_MAX`]). On an error none of them is in the file.
    pub fn inbox_append(
        &mut self,
        store: &Store,
        entries: &[InboxEntry],
    ) -> Result<(), AppendError> {
        self.inbox_write(store, entries).map_err(|stop| stop.after(Vec::new(), 0))
    }

    fn inbox_write(&mut self, store: &Store, entries: &[InboxEntry]) -> Result<(), Stop> {
        store.check()?;
        let ack = if store.syncs_always() { self.end.next } else { 0 };
        let mut lines = Vec::new();
        for entry in entries {
            entry.write(&mut lines, ack);
        }
        if self.mailbox.bytes > INBOX_FILE_BYTES_MAX as u64 && !self.mailbox.waiting.is_empty() {
            self.inbox_rewrite(store)?;
        }
        let path = store.files().inbox(self.shape.session());
        if self.mailbox.exists {
            let file = store.open_file(&path, Open::Write)?;
            self.inbox_clean(store, &*file)?;
            self.inbox_settle(store, &*file)?;
            store.write_at_end(&*file, || path.clone(), &lines, self.mailbox.bytes)?;
            if store.syncs_always() {
                store.sync_data(&*file, &path)?;
            }
        } else {
            store.make_file(&path, &lines)?;
            (self.mailbox.exists, self.mailbox.settled) = (true, true);
        }
        self.mailbox.bytes += lines.len() as u64;
        self.mailbox.file_bytes = self.mailbox.bytes;
        self.mailbox.waiting.extend(entries.iter().map(|entry| entry.id));
        self.mailbox.after = self.mailbox.after.into_iter().chain(least_after(entries)).min();
        Ok(())
    }

    /// The oldest event that has to stay in the log for the sake of the inbox; nothing if there is
    /// none. A file whose entries are all spent is cut to nothing first.
    pub(super) fn inbox_needs(&mut self, store: &Store) -> Result<Option<u64>, Stop> {
        if self.mailbox.waiting.is_empty() && self.mailbox.file_bytes > 0 {
            let path = store.files().inbox(self.shape.session());
            let file = store.open_file(&path, Open::Write)?;
            self.inbox_clean(store, &*file)?;
        }
        Ok(self.mailbox.after)
    }

    /// Makes durable what was found in the file, as it is done with a segment.
    pub(super) fn inbox_settle(&mut self, store: &Store, file: &dyn DiskFile) -> Result<(), Stop> {
        if !self.mailbox.settled {
            let path = store.files().inbox(self.shape.session());
            if store.syncs_always() {
                rewrite(store, &path, file, 0, self.mailbox.bytes)?;
                store.sync_data(file, &path)?;
            }
            store.sync_dir(&store.files().dir(self.shape.session()))?;
            self.mailbox.settled = true;
        }
        Ok(())
    }

    /// Writes what waits into a file of its own, without what is spent.
    fn inbox_rewrite(&mut self, store: &Store) -> Result<(), Stop> {
        let session = self.shape.session();
        let (_, mut entries) = Mailbox::read(store, session).map_err(Stop::Unopened)?;
        entries.retain(|entry| self.mailbox.waiting.contains(&entry.id));
        self.mailbox.bytes = replace_inbox(store, session, &entries)?;
        self.mailbox.file_bytes = self.mailbox.bytes;
        self.mailbox.after = least_after(&entries);
        Ok(())
    }

    /// Cuts off what must not stand before the next entry: an end that is no line, and everything if
    /// all of it is spent.
    fn inbox_clean(&mut self, store: &Store, file: &dyn DiskFile) -> Result<(), Stop> {
        let path = store.files().inbox(self.shape.session());
        let mailbox = &mut self.mailbox;
        if mailbox.file_bytes > mailbox.bytes {
            set_aside(store, TORN, &path, file, mailbox.bytes, mailbox.file_bytes)?;
        }
        let kept = if mailbox.waiting.is_empty() { 0 } else { mailbox.bytes };
        if mailbox.file_bytes > kept {
            file.set_len(kept).map_err(|error| store.latch("cutting", &path, &error))?;
            store.sync_all(file, &path)?;
            (mailbox.bytes, mailbox.file_bytes) = (kept, kept);
        }
        if kept == 0 {
            mailbox.after = None;
        }
        Ok(())
    }
}

/// Writes entries into a new file, which then takes the place of the old one. Says how long it is.
pub(super) fn replace_inbox(
    store: &Store,
    session: &SessionId,
    entries: &[InboxEntry],
) -> Result<u64, Stop> {
    let path = store.files().inbox(session);
    let fresh = path.with_extension("jsonl.new");
    let mut lines = Vec::new();
    for entry in entries {
        entry.write(&mut lines, 0);
    }
    if store.disk().exists(&fresh).map_err(Stop::Unopened)? {
        store.remove_file(&fresh)?;
    }
    store.make_file(&fresh, &lines)?;
    store.disk().rename(&fresh, &path).map_err(|error| store.failed("renaming", &path, &error))?;
    store.sync_dir(&store.files().dir(session))?;
    Ok(lines.len() as u64)
}

fn least_after(entries: &[InboxEntry]) -> Option<u64> {
    entries.iter().map(|entry| entry.after).min()
}
