//! The sessions this process knows, by name and by tag.
//!
//! There may be a hundred thousand of which nothing is going on, so what each of them costs counts:
//! an [`Entry`] that holds its name in itself, and one slot of an index that holds no name at all.
//!
//! Invariant: every entry stands in the index once, and is never removed.

use super::entry::Entry;
use crate::conn::slab::{Slab, Tag};
use crate::proto::ident::SessionId;
use std::hash::{BuildHasher, RandomState};

/// Entries by tag, with an index by name.
#[derive(Default)]
pub(super) struct Sessions {
    entries: Slab<Entry>,
    /// One more than an entry's slot, at the place its name hashes to or at the next free one behind
    /// it; 0 where none is. A power of two of them, at most three quarters used.
    index: Vec<u32>,
    /// Seeded at random: names are chosen by others.
    hasher: RandomState,
}

impl Sessions {
    /// The tag of a session, if it is known.
    pub(super) fn find(&self, session: &SessionId) -> Option<Tag> {
        self.places(session)
            .map_while(|place| self.tag_at(place))
            .find(|&tag| self.entries.get(tag).is_some_and(|entry| entry.session == *session))
    }

    /// The tag of a session; it is known from here on.
    pub(super) fn find_or_insert(&mut self, session: &SessionId) -> Tag {
        if let Some(tag) = self.find(session) {
            return tag;
        }
        let tag = self.entries.insert(Entry::new(session.clone()));
        if 4 * self.entries.len() > 3 * self.index.len() {
            self.grow();
        } else {
            self.enter(tag);
        }
        tag
    }

    pub(super) fn get(&self, tag: Tag) -> Option<&Entry> {
        self.entries.get(tag)
    }

    pub(super) fn get_mut(&mut self, tag: Tag) -> Option<&mut Entry> {
        self.entries.get_mut(tag)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn tags(&self) -> impl Iterator<Item = Tag> {
        self.entries.tags()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Tag, &Entry)> {
        self.entries.iter()
    }

    /// The places of the index where a session may stand, nearest first.
    fn places(&self, session: &SessionId) -> impl Iterator<Item = usize> + use<> {
        let count = self.index.len();
        let first = self.hasher.hash_one(session) as usize;
        (0..count).map(move |step| first.wrapping_add(step) & (count - 1))
    }

    fn tag_at(&self, place: usize) -> Option<Tag> {
        self.entries.tag_at(self.index[place].checked_sub(1)?)
    }

    fn enter(&mut self, tag: Tag) {
        let entry = self.entries.get(tag).expect("it has just been put there");
        let mut places = self.places(&entry.session);
        let free = places.find(|&place| self.index[place] == 0);
        self.index[free.expect("a quarter of the index is free")] = tag.slot + 1;
    }

    fn grow(&mut self) {
        let count = (2 * self.index.len()).max(INDEX_MIN);
        self.index = vec![0; count];
        let tags: Vec<Tag> = self.tags().collect();
        for tag in tags {
            self.enter(tag);
        }
    }
}

/// Places of the smallest index; a power of two.
const INDEX_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_session_is_found_again_under_the_tag_it_got_and_no_other_is() {
        let mut sessions = Sessions::default();
        let name = |number: u32| SessionId::parse(&format!("s{number}")).expect("a name");
        assert_eq!(sessions.find(&name(0)), None);
        let tags: Vec<Tag> = (0..1000).map(|n| sessions.find_or_insert(&name(n))).collect();
        for (number, &tag) in (0..).zip(&tags) {
            assert_eq!(sessions.find(&name(number)), Some(tag));
            assert_eq!(sessions.find_or_insert(&name(number)), tag);
            assert_eq!(sessions.get(tag).expect("an entry").session, name(number));
        }
        assert_eq!((sessions.len(), sessions.find(&name(1000))), (1000, None));
        assert_eq!(sessions.tags().collect::<Vec<_>>(), tags);
    }
}
