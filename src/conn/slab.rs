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
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts `value` into a free slot.
    #[expect(clippy::expect_used, reason = "descriptors run out long before")]
    pub fn insert(&mut self, value: T) -> Tag {
        if let Some(slot) = self.free.pop() {
            let entry = &mut self.slots[slot as usize];
            assert!(entry.value.is_none(), "a slot on the free list is empty");
            entry.value = Some(value);
            return Tag { slot, generation: entry.generation };
        }
        let slot =
            u32::try_from(self.slots.len()).expect("fewer slots than descriptors, so < 2^32");
        self.slots.push(Slot { generation: 0, value: Some(value) });
        Tag { slot, generation: 0 }
    }

    /// The value `tag` names, unless it is gone.
    pub fn get(&self, tag: Tag) -> Option<&T> {
        let entry = self.slots.get(tag.slot as usize)?;
        if entry.generation == tag.generation { entry.value.as_ref() } else { None }
    }

    /// As [`Slab::get`], to change it.
    pub fn get_mut(&mut self, tag: Tag) -> Option<&mut T> {
        let entry = self.slots.get_mut(tag.slot as usize)?;
        if entry.generation == tag.generation { entry.value.as_mut() } else { None }
    }

    /// Takes the value out; every tag of it is stale from here on.
    pub fn remove(&mut self, tag: Tag) -> Option<T> {
        let entry = self.slots.get_mut(tag.slot as usize)?;
        if entry.generation != tag.generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(tag.slot);
        Some(value)
    }

    /// The tag of the value that now sits in `slot`.
    pub fn tag_at(&self, slot: u32) -> Option<Tag> {
        let entry = self.slots.get(slot as usize)?;
        entry.value.as_ref().map(|_| Tag { slot, generation: entry.generation })
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
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
        self.slots.iter().enumerate().filter_map(|(slot, entry)| {
            let tag = Tag { slot: slot as u32, generation: entry.generation };
            entry.value.as_ref().map(|value| (tag, value))
        })
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
}
