//! Keeping configured secrets out of what people read.
//!
//! Servers quote keys back in their errors, and so do programs. Every reason that leaves the model layer
//! passes here, and what a tool's error quotes.

use std::fmt;

/// Values that must not appear in a text.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    /// Longest first, so that a value that holds another is replaced whole. None is empty.
    values: Vec<Box<str>>,
}

impl Secrets {
    /// Adds a value; an empty one hides nothing.
    pub(crate) fn add(&mut self, value: &str) {
        let value = value.trim();
        if !value.is_empty() && !self.values.iter().any(|known| &**known == value) {
            self.values.push(value.into());
            self.values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        }
    }

    /// The text with every secret in it replaced.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.values.iter().fold(text.to_owned(), |text, secret| {
            if text.contains(&**secret) { text.replace(&**secret, REDACTED) } else { text }
        })
    }

    /// As [`Secrets::redact`], for a text whose beginning was cut off: what may be the end of a secret
    /// there is replaced too.
    pub(crate) fn redact_tail(&self, text: &str) -> String {
        let text = self.redact(text);
        let ended = |secret: &str| {
            let begins = secret.char_indices().map(|(at, _)| at).skip(1);
            let long = begins.take_while(|&at| secret.len() - at >= PART_BYTES_MIN);
            long.map(|at| &secret[at..]).find(|end| text.starts_with(end)).map(str::len)
        };
        match self.values.iter().filter_map(|secret| ended(secret)).max() {
            Some(len) => format!("{REDACTED}{}", &text[len..]),
            None => text,
        }
    }

    /// As [`Secrets::redact`], for a text that was cut off: what may be the beginning of a secret at
    /// its end is replaced too.
    pub(crate) fn redact_cut(&self, text: &str) -> String {
        let mut text = self.redact(text);
        let begun = |secret: &str| {
            let ends = secret.char_indices().map(|(at, _)| at).filter(|&at| at >= PART_BYTES_MIN);
            ends.rev().find(|&at| text.ends_with(&secret[..at]))
        };
        if let Some(len) = self.values.iter().filter_map(|secret| begun(secret)).max() {
            text.truncate(text.len() - len);
            text.push_str(REDACTED);
        }
        text
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.values.len())
    }
}

const REDACTED: &str = "[REDACTED]";

/// Fewer bytes of a secret at the cut of a text tell nothing; most words would match.
const PART_BYTES_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(values: &[&str]) -> Secrets {
        let mut secrets = Secrets::default();
        for value in values {
            secrets.add(value);
        }
        secrets
    }

    #[test]
    fn every_occurrence_is_replaced_and_the_longest_secret_first() {
        let hidden = secrets(&["sk-canary", "Bearer sk-canary", "", " spaced "]);
        for (text, expected) in [
            ("nothing here", "nothing here"),
            ("bad key sk-canary, again sk-canary", "bad key [REDACTED], again [REDACTED]"),
            ("sent Bearer sk-canary", "sent [REDACTED]"),
            ("un-spaced-out", "un-[REDACTED]-out"),
        ] {
            assert_eq!(hidden.redact(text), expected);
        }
        assert_eq!(format!("{hidden:?}"), "Secrets(3)");
    }

    #[test]
    fn the_beginning_of_a_secret_at_a_cut_is_replaced_too() {
        let hidden = secrets(&["sk-canary", "other"]);
        for (text, expected) in [
            ("key sk-canar", "key [REDACTED]"),
            ("key sk-c", "key [REDACTED]"),
            ("key sk-", "key sk-"),
            ("key sk-canary", "key [REDACTED]"),
            ("key sk-canary and", "key [REDACTED] and"),
        ] {
            assert_eq!(hidden.redact_cut(text), expected);
        }
    }

    #[test]
    fn the_end_of_a_secret_at_a_cut_is_replaced_too() {
        let hidden = secrets(&["sk-canary", "other", "ä-canary"]);
        for (text, expected) in [
            ("k-canary is the key", "[REDACTED] is the key"),
            ("nary is the key", "[REDACTED] is the key"),
            ("ary is the key", "ary is the key"),
            ("sk-canary is the key", "[REDACTED] is the key"),
            ("is sk-canary", "is [REDACTED]"),
            ("", ""),
        ] {
            assert_eq!(hidden.redact_tail(text), expected);
        }
    }
}
