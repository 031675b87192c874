//! The last things that happened, for whoever looks into a seed that failed; and which of the things
//! that a simulation is for have happened at all.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

/// Shared by the world and by whoever catches its failure.
#[derive(Clone, Default)]
pub(super) struct Trace(Rc<RefCell<Inside>>);

#[derive(Default)]
struct Inside {
    lines: VecDeque<String>,
    steps: usize,
    reached: BTreeSet<String>,
}

const KEPT: usize = 80;

impl Trace {
    /// A line about what happens next.
    pub(super) fn say(&self, line: impl FnOnce() -> String) {
        let mut inside = self.0.borrow_mut();
        if inside.lines.len() == KEPT {
            inside.lines.pop_front();
        }
        let step = inside.steps;
        inside.lines.push_back(format!("{step:>6}  {}", line()));
    }

    /// Something happened that a simulation is for.
    pub(super) fn reach(&self, what: &str) {
        let reached = &mut self.0.borrow_mut().reached;
        if !reached.contains(what) {
            reached.insert(what.to_owned());
        }
    }

    pub(super) fn reached(&self) -> BTreeSet<String> {
        self.0.borrow().reached.clone()
    }

    /// Another step begins.
    pub(super) fn step(&self) {
        self.0.borrow_mut().steps += 1;
    }

    pub(super) fn steps(&self) -> usize {
        self.0.borrow().steps
    }

    pub(super) fn text(&self) -> String {
        let lines = &self.0.borrow().lines;
        lines.iter().flat_map(|line| [line, "\n"]).collect()
    }
}
