//! The texts that were sent to one session, and what is owed to each: an accepted text enters the log
//! once, a refused one never, and of one whose process died before it was durable nobody knows.

use std::collections::BTreeMap;

/// Where a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// On its way to the agent.
    Sent,
    /// On its way and past the point where losing its connection can stop it.
    Posted,
    /// Handled, in a batch that the disk has not taken yet.
    Held,
    /// Durable, and waiting in the inbox.
    Kept,
    /// In the log.
    Logged,
    /// It must never be there.
    Refused,
    /// It may be there or not.
    Doubtful,
}

#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) fate: Fate,
    pub(super) wake: bool,
    /// It was accepted by the process that runs now.
    pub(super) of_this_life: bool,
}

/// See the module's documentation. A text is its own name: none is sent twice.
#[derive(Debug, Default)]
pub(super) struct Texts {
    all: BTreeMap<String, Text>,
}

impl Texts {
    pub(super) fn sent(&mut self, text: String, wake: bool, fate: Fate) {
        let before = self.all.insert(text, Text { fate, wake, of_this_life: false });
        assert!(before.is_none(), "every text is sent once");
    }

    pub(super) fn fate(&self, text: &str) -> Option<Fate> {
        self.all.get(text).map(|text| text.fate)
    }

    /// Whether it wakes its agent.
    pub(super) fn wakes(&self, text: &str) -> bool {
        self.all.get(text).is_some_and(|text| text.wake)
    }

    pub(super) fn settle(&mut self, text: &str, fate: Fate) {
        let text = self.all.get_mut(text).expect("only what was sent is handled");
        text.fate = fate;
        text.of_this_life = matches!(fate, Fate::Kept | Fate::Held);
    }

    /// Its event stands in the log.
    pub(super) fn logged(&mut self, text: &str, opens_turn: bool) {
        let known = self.all.get_mut(text).unwrap_or_else(|| panic!("nobody sent {text:?}"));
        assert!(known.wake || !opens_turn, "a text that wakes nobody opened a turn: {text:?}");
        match known.fate {
            Fate::Logged => panic!("a text twice: {text:?}"),
            Fate::Refused => panic!("a text that was refused: {text:?}"),
            _ => known.fate = Fate::Logged,
        }
    }

    /// The texts of which this holds.
    pub(super) fn that<'a>(
        &'a self,
        holds: impl Fn(&Text) -> bool + 'a,
    ) -> impl Iterator<Item = &'a str> {
        self.all.iter().filter(move |(_, text)| holds(text)).map(|(text, _)| &**text)
    }

    /// The process is dead, and what it only had in memory is gone.
    pub(super) fn die(&mut self) {
        for text in self.all.values_mut() {
            text.of_this_life = false;
            text.fate = match text.fate {
                Fate::Sent | Fate::Posted => Fate::Refused,
                Fate::Held => Fate::Doubtful,
                fate => fate,
            };
        }
    }

    /// The agent died in its job, or what was meant for it was lost with it.
    pub(super) fn lose_posted(&mut self) {
        for text in self.all.values_mut() {
            if matches!(text.fate, Fate::Posted | Fate::Sent | Fate::Held) {
                text.fate = Fate::Doubtful;
            }
        }
    }
}
