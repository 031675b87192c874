//! Accepted texts that are not in the log yet.
//!
//! Order is that of acceptance. A text is `unsaved` until it stands in `inbox.jsonl`; one that
//! enters the log in the very job that accepted it never does. Invariant: at most
//! [`INBOX_TEXTS_MAX`] texts of [`INBOX_BYTES_MAX`] bytes together.

use std::collections::VecDeque;

use crate::limits::{INBOX_BYTES_MAX, INBOX_TEXTS_MAX};
use crate::proto::ident::EventId;

/// An accepted text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxText {
    /// The id its event will have.
    pub id: EventId,
    /// It starts a turn of its own when no step takes it before.
    pub wake: bool,
    /// May be empty.
    pub text: String,
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    texts: VecDeque<InboxText>,
    /// How many of `texts`, from the front, are in the file.
    saved: usize,
    bytes: usize,
}

impl Inbox {
    /// What the file held when the agent was loaded, whatever the bounds are now.
    pub(super) fn load(texts: Vec<InboxText>) -> Inbox {
        let bytes = texts.iter().map(|text| text.text.len()).sum();
        Inbox { saved: texts.len(), texts: texts.into(), bytes }
    }

    /// Whether a text of this many bytes may wait as well.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.texts.len() < INBOX_TEXTS_MAX && self.bytes + bytes <= INBOX_BYTES_MAX
    }

    pub(super) fn push(&mut self, text: InboxText) {
        self.bytes += text.text.len();
        self.texts.push_back(text);
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Takes the oldest waking text.
    pub(super) fn take_waking(&mut self) -> Option<InboxText> {
        let place = self.texts.iter().position(|text| text.wake)?;
        let text = self.texts.remove(place)?;
        self.bytes -= text.text.len();
        if place < self.saved {
            self.saved -= 1;
        }
        Some(text)
    }

    /// Whether a text waits that starts a turn.
    pub(super) fn has_waking(&self) -> bool {
        self.texts.iter().any(|text| text.wake)
    }

    /// Every text, oldest first.
    pub(super) fn texts(&self) -> impl Iterator<Item = &InboxText> {
        self.texts.iter()
    }

    /// Takes every text, oldest first, and gives the memory back.
    pub(super) fn take_all(&mut self) -> VecDeque<InboxText> {
        std::mem::take(self).texts
    }

    pub(super) fn unsaved(&self) -> impl Iterator<Item = &InboxText> {
        self.texts.range(self.saved..)
    }

    pub(super) fn mark_saved(&mut self) {
        self.saved = self.texts.len();
    }

    /// Forgets what could not be saved.
    pub(super) fn drop_unsaved(&mut self) {
        self.bytes -= self.unsaved().map(|text| text.text.len()).sum::<usize>();
        self.texts.truncate(self.saved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(id: u64, wake: bool, text: &str) -> InboxText {
        InboxText { id: EventId(id), wake, text: text.into() }
    }

    fn ids<'a>(texts: impl Iterator<Item = &'a InboxText>) -> Vec<u64> {
        texts.map(|text| text.id.0).collect()
    }

    #[test]
    fn only_what_is_in_no_file_yet_is_unsaved() {
        let mut inbox = Inbox::load(vec![text(1, false, "a"), text(2, true, "b")]);
        inbox.push(text(3, true, "c"));
        assert_eq!(ids(inbox.unsaved()), [3]);
        assert_eq!(inbox.take_waking().unwrap().id, EventId(2));
        assert_eq!(ids(inbox.unsaved()), [3]);
        assert_eq!(inbox.take_waking().unwrap().id, EventId(3));
        assert_eq!(ids(inbox.unsaved()), [0; 0]);
        inbox.push(text(4, false, "d"));
        inbox.mark_saved();
        assert_eq!(ids(inbox.unsaved()), [0; 0]);
        inbox.push(text(5, false, "e"));
        inbox.drop_unsaved();
        assert_eq!(ids(inbox.take_all().iter()), [1, 4]);
        assert!(inbox.is_empty() && inbox.take_waking().is_none());
    }

    #[test]
    fn room_ends_with_the_count_or_the_bytes() {
        let mut inbox = Inbox::default();
        for id in 0..INBOX_TEXTS_MAX as u64 {
            assert!(inbox.has_room_for(0));
            inbox.push(text(id, false, ""));
        }
        assert!(!inbox.has_room_for(0));
        inbox.take_all();
        assert!(inbox.has_room_for(INBOX_BYTES_MAX));
        inbox.push(text(1, true, "abc"));
        assert!(!inbox.has_room_for(INBOX_BYTES_MAX - 2));
        assert!(inbox.has_room_for(INBOX_BYTES_MAX - 3));
        inbox.take_waking();
        assert!(inbox.has_room_for(INBOX_BYTES_MAX));
        inbox.push(text(2, true, "abc"));
        inbox.drop_unsaved();
        assert!(inbox.has_room_for(INBOX_BYTES_MAX));
    }
}
