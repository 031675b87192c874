//! Members of a tool call that we do not know and the server wants back (cases-providers.md, 10).
//!
//! Gemini signs its calls and refuses a history without the signatures. The log has no place for
//! them, so they are kept here, raw, for the provider that sent them and no other, and for the
//! life of the process; after a restart the server is asked without them.
//!
//! Invariant: `bytes` is the sum of what is held, and at most [`KEPT_MEMBERS_BYTES_MAX`].

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::limits::KEPT_MEMBERS_BYTES_MAX;

/// What was kept, the oldest given up first.
#[derive(Debug, Default)]
pub(super) struct Kept {
    members: HashMap<u64, Box<str>>,
    order: VecDeque<u64>,
    bytes: usize,
}

impl Kept {
    /// Keeps `members`, the text of JSON members with commas between them, for the call of this id,
    /// name and arguments.
    pub(super) fn keep(&mut self, id: &str, name: &str, args: &str, members: &str) {
        if members.len() > KEPT_MEMBERS_BYTES_MAX {
            return;
        }
        let key = key(id, name, args);
        self.bytes += members.len();
        match self.members.insert(key, members.into()) {
            Some(former) => self.bytes -= former.len(),
            None => self.order.push_back(key),
        }
        while self.bytes > KEPT_MEMBERS_BYTES_MAX {
            let oldest = self.order.pop_front().expect("bytes are held, so a call is");
            let given_up = self.members.remove(&oldest).expect("order names what is held");
            self.bytes -= given_up.len();
        }
    }

    /// What was kept for this call.
    pub(super) fn find(&self, id: &str, name: &str, args: &str) -> Option<&str> {
        // Nearly every provider sends nothing unknown; then nothing is hashed.
        if self.members.is_empty() {
            return None;
        }
        self.members.get(&key(id, name, args)).map(|members| &**members)
    }
}

/// Ids are not unique, so name and arguments take part; the text itself would double the history.
fn key(id: &str, name: &str, args: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (id, name, args).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_the_whole_call_and_replaced_by_newer_ones() {
        let mut kept = Kept::default();
        assert_eq!(kept.find("1", "f", "{}"), None);
        kept.keep("1", "f", "{}", "\"a\":1");
        kept.keep("1", "f", "{\"x\":1}", "\"a\":2");
        kept.keep("1", "f", "{}", "\"a\":3");
        assert_eq!(kept.find("1", "f", "{}"), Some("\"a\":3"));
        assert_eq!(kept.find("1", "f", "{\"x\":1}"), Some("\"a\":2"));
        assert_eq!(kept.find("1", "g", "{}"), None);
        assert_eq!((kept.bytes, kept.order.len()), (10, 2));
    }

    #[test]
    fn the_oldest_are_given_up_when_it_is_too_much() {
        let mut kept = Kept::default();
        let half = "x".repeat(KEPT_MEMBERS_BYTES_MAX / 2);
        for id in ["1", "2", "3"] {
            kept.keep(id, "f", "{}", &half);
        }
        assert_eq!(kept.find("1", "f", "{}"), None);
        assert!(kept.find("2", "f", "{}").is_some() && kept.find("3", "f", "{}").is_some());
        kept.keep("4", "f", "{}", &"x".repeat(KEPT_MEMBERS_BYTES_MAX + 1));
        assert_eq!(kept.find("4", "f", "{}"), None);
        assert_eq!(kept.bytes, 2 * half.len());
    }
}
