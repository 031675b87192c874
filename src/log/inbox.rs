//! One line of `inbox.jsonl`: a text that was accepted and is not in the log yet.
//!
//! Sealed like every line, so a torn one is recognised, and without a key `seq`, so it is never taken
//! for an event. Whether an entry is spent is for the log to say (design/log-format, "The inbox").

use serde::Deserialize;

use super::line::{self, Sealed};
use crate::proto::ident::EventId;
use crate::proto::json;
use crate::proto::time::Wall;

/// A text that waits to enter the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxEntry {
    /// The id its event will have; when the log holds it, the entry is spent.
    pub id: EventId,
    /// When it was accepted.
    pub at: Wall,
    /// Whether it starts a turn.
    pub wake: bool,
    /// What was said.
    pub text: String,
    /// The next seq at acceptance: its event has this one or a later.
    pub after: u64,
}

impl InboxEntry {
    /// Appends the entry as a sealed line.
    pub fn write(&self, out: &mut Vec<u8>, ack: u64) {
        let start = out.len();
        out.extend_from_slice(b"{\"id\":\"");
        self.id.write(out);
        out.extend_from_slice(b"\",\"at\":\"");
        self.at.write(out);
        out.extend_from_slice(if self.wake { b"\",\"wake\":true" } else { b"\",\"wake\":false" });
        out.extend_from_slice(b",\"text\":");
        json::write_string(out, &self.text);
        out.extend_from_slice(format!(",\"after\":{}}}", self.after).as_bytes());
        line::seal(out, start, ack);
    }

    /// The entry that a sealed line holds, if it is one.
    pub fn read(sealed: &Sealed<'_>) -> Option<Self> {
        let mut object = sealed.body.to_vec();
        object.push(b'}');
        let Fields { id, at, wake, text, after } = serde_json::from_slice(&object).ok()?;
        Some(Self { id: EventId::parse(id)?, at: Wall::parse(at)?, wake, text, after })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    id: String,
    at: String,
    wake: bool,
    text: String,
    after: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_as_it_was_written() {
        for (wake, text, after) in [
            (true, "hello", 1031),
            (false, "", 0),
            (true, "a\n\u{0}\"\\\u{2028}\u{10ffff}", u64::MAX),
        ] {
            let entry =
                InboxEntry { id: EventId(7), at: Wall(1), wake, text: text.to_owned(), after };
            let mut out = Vec::new();
            entry.write(&mut out, 0x407);
            let sealed = line::unseal(out.strip_suffix(b"\n").unwrap()).unwrap();
            assert_eq!(sealed.ack, 0x407);
            assert_eq!(InboxEntry::read(&sealed), Some(entry));
        }
    }

    #[test]
    fn the_entry_of_the_log_page_is_written_so() {
        let entry = InboxEntry {
            id: EventId(0x0a1b),
            at: Wall(0),
            wake: true,
            text: "go on".to_owned(),
            after: 1031,
        };
        let mut out = Vec::new();
        entry.write(&mut out, 0x407);
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.starts_with(
                "{\"id\":\"0000000000000a1b\",\"at\":\"1970-01-01T00:00:00.000000Z\",\"wake\":true,\
                 \"text\":\"go on\",\"after\":1031,\"ack\":\"000000000407\",\"crc\":\""
            ),
            "{text}"
        );
    }

    #[test]
    fn a_sealed_line_of_another_kind_is_no_entry() {
        let mut out = Vec::new();
        line::write_attest(&mut out, 1);
        let sealed = line::unseal(out.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!(InboxEntry::read(&sealed), None);
    }
}
