//! The replay gate: at most so many log reads at once, whoever asks, first come first served.
//!
//! It knows tags and numbers only. A slot is held for one read, never while a client drains what
//! was read (contract, "Concurrent replays are capped").
//!
//! Invariant: `reading <= limit`, and nobody waits while a slot is free.

use super::slab::Tag;
use std::collections::VecDeque;

/// Hands out the right to read.
#[derive(Debug)]
pub struct Gate {
    limit: usize,
    reading: usize,
    waiting: VecDeque<Tag>,
}

impl Gate {
    /// A gate through which `limit` reads pass at once; at least one does.
    pub fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), reading: 0, waiting: VecDeque::new() }
    }

    /// Queues `who` behind everybody that waits. Each caller queues at most once.
    pub fn ask(&mut self, who: Tag) {
        self.waiting.push_back(who);
    }

    /// The next in line, if a slot is free; it holds the slot until [`Gate::leave`].
    ///
    /// Whoever finds that the one it was given is gone must leave at once.
    pub fn enter(&mut self) -> Option<Tag> {
        if self.reading == self.limit {
            return None;
        }
        let who = self.waiting.pop_front()?;
        self.reading += 1;
        Some(who)
    }

    /// Gives one slot back.
    pub fn leave(&mut self) {
        assert!(self.reading > 0, "a slot is given back once for each time it was taken");
        self.reading -= 1;
    }

    /// Changes the number of slots; reads under way finish.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.max(1);
    }

    /// Reads under way and callers waiting, for the metrics.
    pub fn load(&self) -> (usize, usize) {
        (self.reading, self.waiting.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(slot: u32) -> Tag {
        Tag { slot, generation: 0 }
    }

    #[test]
    fn no_more_than_the_limit_read_and_the_rest_wait_in_order() {
        let mut gate = Gate::new(2);
        for slot in 0..5 {
            gate.ask(tag(slot));
        }
        assert_eq!((gate.enter(), gate.enter(), gate.enter()), (Some(tag(0)), Some(tag(1)), None));
        assert_eq!(gate.load(), (2, 3));
        gate.leave();
        assert_eq!((gate.enter(), gate.enter()), (Some(tag(2)), None));
        gate.leave();
        gate.leave();
        assert_eq!((gate.enter(), gate.enter()), (Some(tag(3)), Some(tag(4))));
        assert_eq!(gate.enter(), None);
    }

    #[test]
    fn a_smaller_limit_lets_running_reads_finish_first() {
        let mut gate = Gate::new(3);
        for slot in 0..4 {
            gate.ask(tag(slot));
        }
        while gate.enter().is_some() {}
        gate.set_limit(1);
        gate.leave();
        gate.leave();
        assert_eq!(gate.enter(), None);
        gate.leave();
        assert_eq!(gate.enter(), Some(tag(3)));
    }

    #[test]
    #[should_panic(expected = "given back once")]
    fn a_slot_cannot_be_given_back_twice() {
        Gate::new(1).leave();
    }
}
