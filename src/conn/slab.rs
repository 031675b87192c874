//! Slots that are reused, and tags that notice it.
//!
//! A tag names a slot and the generation it was handed out in. Whoever kept a tag past its
//! value's life finds nothing, never a stranger: the generation moved on with the removal.

/// Names a value of one [`Slab`]; stale once the value was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// Index of the slot.
    pub slot: u32,
    /// How often the slot had been emptied when this tag was made.
    pub generation: u32,
}

/// Values in numbered slots; the numbers of removed values are given out again.
#[derive(Debug)]
pub struct Slab<T> {
    /// In blocks: a vector would be copied as it grows, and leave holes of its size behind.
    blocks: Vec<Box<[Option<T>]>>,
    /// Of each slot; beside them, as within they would cost twice their size.
    generations: Vec<u32>,
    free: Vec<u32>,
}

const BLOCK_SLOTS: usize = 64;

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { blocks: Vec::new(), generations: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts `value` into a free slot.
    #[expect(clippy::expect_used, reason = "descriptors run out long before")]
    pub fn insert(&mut self, value: T) -> Tag {
        if let Some(slot) = self.free.pop() {
            let empty = self.slot_mut(slot);
            assert!(empty.is_none(), "a slot on the free list is empty");
            *empty = Some(value);
            return Tag { slot, generation: self.generations[slot as usize] };
        }
        let slot =
            u32::try_from(self.generations.len()).expect("fewer slots than descriptors, so < 2^32");
        if self.generations.len().is_multiple_of(BLOCK_SLOTS) {
            self.blocks.push((0..BLOCK_SLOTS).map(|_| None).collect());
        }
        self.generations.push(0);
        *self.slot_mut(slot) = Some(value);
        Tag { slot, generation: 0 }
    }

    /// The value `tag` names, unless it is gone.
    pub fn get(&self, tag: Tag) -> Option<&T> {
        if self.is_current(tag) { self.slot(tag.slot) } else { None }
    }

    /// As [`Slab::get`], to change it.
    pub fn get_mut(&mut self, tag: Tag) -> Option<&mut T> {
        if self.is_current(tag) { self.slot_mut(tag.slot).as_mut() } else { None }
    }

    /// Takes the value out; every tag of it is stale from here on.
    pub fn remove(&mut self, tag: Tag) -> Option<T> {
        if !self.is_current(tag) {
            return None;
        }
        let value = self.slot_mut(tag.slot).take()?;
        let generation = &mut self.generations[tag.slot as usize];
        *generation = generation.wrapping_add(1);
        self.free.push(tag.slot);
        Some(value)
    }

    /// The tag of the value that now sits in `slot`.
    pub fn tag_at(&self, slot: u32) -> Option<Tag> {
        let generation = *self.generations.get(slot as usize)?;
        self.slot(slot).map(|_| Tag { slot, generation })
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.generations.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tags of all values, by slot.
    pub fn tags(&self) -> impl Iterator<Item = Tag> + '_ {
        self.iter().map(|(tag, _)| tag)
    }

    /// All values with their tags, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (Tag, &T)> + '_ {
        let slots = self.blocks.iter().flatten();
        slots.zip(&self.generations).enumerate().filter_map(|(slot, (value, of))| {
            let tag = Tag { slot: slot as u32, generation: *of };
            value.as_ref().map(|value| (tag, value))
        })
    }

    fn slot(&self, slot: u32) -> Option<&T> {
        self.blocks[slot as usize / BLOCK_SLOTS][slot as usize % BLOCK_SLOTS].as_ref()
    }

    fn slot_mut(&mut self, slot: u32) -> &mut Option<T> {
        &mut self.blocks[slot as usize / BLOCK_SLOTS][slot as usize % BLOCK_SLOTS]
    }

    fn is_current(&self, tag: Tag) -> bool {
        self.generations.get(tag.slot as usize) == Some(&tag.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_finds_its_value_until_it_is_removed() {
        let mut slab = Slab::default();
        let a = slab.insert("a");
        let b = slab.insert("b");
        assert_eq!((slab.get(a), slab.get(b), slab.len()), (Some(&"a"), Some(&"b"), 2));
        assert_eq!(slab.remove(a), Some("a"));
        assert_eq!((slab.get(a), slab.len()), (None, 1));
        assert_eq!(slab.remove(a), None);
    }

    #[test]
    fn a_stale_tag_does_not_find_the_slots_next_value() {
        let mut slab = Slab::default();
        let old = slab.insert(1);
        slab.remove(old);
        let new = slab.insert(2);
        assert_eq!(old.slot, new.slot);
        assert_eq!((slab.get(old), slab.get(new)), (None, Some(&2)));
        assert_eq!(slab.get_mut(old), None);
        assert_eq!(slab.tag_at(new.slot), Some(new));
        assert_eq!(slab.tags().collect::<Vec<_>>(), [new]);
    }

    #[test]
    fn every_value_of_many_blocks_is_found_and_iterated_over_once() {
        let count = 3 * BLOCK_SLOTS + 1;
        let mut slab = Slab::default();
        let tags: Vec<Tag> = (0..count).map(|value| slab.insert(value)).collect();
        assert!(tags.iter().enumerate().all(|(value, &tag)| slab.get(tag) == Some(&value)));
        assert!(slab.iter().all(|(tag, &value)| tags[value] == tag));
        assert_eq!((slab.iter().count(), slab.tag_at(count as u32)), (count, None));
    }
}
