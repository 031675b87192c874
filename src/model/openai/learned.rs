//! What a server turned out to want, learned from its refusals and remembered for the life of the
//! process (cases-providers.md, 19, 30, 31).
//!
//! A fact is first tried by the one call that met the refusal and remembered only once a request
//! written that way was answered: a 400 may name `content` for other reasons.

use std::sync::atomic::{AtomicU8, Ordering};

/// One way in which a server departs from what is tried first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fact {
    /// It refuses `stream_options`; its usage then stays unknown.
    RefusesStreamOptions,
    /// It refuses `""` as content beside tool calls and takes `null`.
    WantsNullContent,
    /// It takes only call ids of exactly nine letters and digits.
    WantsNineLetterIds,
}

impl Fact {
    /// Every fact that can be learned.
    pub const ALL: [Fact; 3] =
        [Fact::RefusesStreamOptions, Fact::WantsNullContent, Fact::WantsNineLetterIds];

    /// A name for a metric's label or a line of the log.
    pub fn name(self) -> &'static str {
        match self {
            Fact::RefusesStreamOptions => "refuses_stream_options",
            Fact::WantsNullContent => "wants_null_content",
            Fact::WantsNineLetterIds => "wants_nine_letter_ids",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of facts: how one request is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts(u8);

impl Facts {
    /// Whether the fact is among them.
    pub fn has(self, fact: Fact) -> bool {
        self.0 & fact.bit() != 0
    }

    /// Those that are in the set.
    pub(super) fn iter(self) -> impl Iterator<Item = Fact> {
        Fact::ALL.into_iter().filter(move |&fact| self.has(fact))
    }

    /// The set with the fact turned over.
    #[must_use]
    pub(super) fn flipped(self, fact: Fact) -> Facts {
        Facts(self.0 ^ fact.bit())
    }
}

/// What all calls of one provider have learned. Each fact stands for itself, so no order between
/// them is needed.
#[derive(Debug, Default)]
pub(super) struct Learned(AtomicU8);

impl Learned {
    pub(super) fn facts(&self) -> Facts {
        Facts(self.0.load(Ordering::Relaxed))
    }

    /// Remembers the facts of `changed` as they stand in `now`, and tells which of them are news.
    pub(super) fn remember(&self, changed: Facts, now: Facts) -> Facts {
        let hold = changed.0 & now.0;
        let hold_not = changed.0 & !now.0;
        let before = self.0.fetch_or(hold, Ordering::Relaxed);
        self.0.fetch_and(!hold_not, Ordering::Relaxed);
        Facts(hold & !before | hold_not & before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_tried_is_remembered() {
        let learned = Learned::default();
        let null = Facts::default().flipped(Fact::WantsNullContent);
        let both = null.flipped(Fact::RefusesStreamOptions);
        assert_eq!(learned.remember(null, both), null);
        assert_eq!(learned.facts(), null);
        assert_eq!(
            learned.remember(both, both),
            null.flipped(Fact::WantsNullContent).flipped(Fact::RefusesStreamOptions)
        );
        assert_eq!(learned.facts(), both);
        assert_eq!(learned.remember(null, both.flipped(Fact::WantsNullContent)), null);
        assert!(!learned.facts().has(Fact::WantsNullContent));
        let names: Vec<&str> = learned.facts().iter().map(Fact::name).collect();
        assert_eq!(names, ["refuses_stream_options"]);
    }
}
