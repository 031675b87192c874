//! The first line of a segment: which segment this is, which one it follows, and the projection at
//! its base.
//!
//! It is sealed like every line and holds no key `seq` at any depth, so nothing that looks for
//! events can take it for one.

use serde::Deserialize;

use super::line::{self, Crc, Sealed};
use super::state::State;
use crate::proto::ident::SessionId;
use crate::proto::json;

/// The only format version there is.
pub const VERSION: u32 = 1;

/// What a segment's first line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The seq of the segment's first event, which is also its name.
    pub base: u64,
    /// The segment before it; nothing in the first.
    pub prev: Option<Prev>,
    /// What the events below `base` add up to.
    pub state: State,
}

/// How the segment before ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prev {
    /// The seq of its last event.
    pub last: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The checksum of its last line.
    pub crc: Crc,
}

impl Header {
    /// Appends the header of a segment of `session` as a sealed line.
    pub fn write(&self, out: &mut Vec<u8>, session: &SessionId, ack: u64) {
        let start = out.len();
        push(
            out,
            &format!("{{\"log\":{VERSION},\"session_id\":\"{session}\",\"base\":{}", self.base),
        );
        match &self.prev {
            None => push(out, ",\"prev\":null"),
            Some(prev) => {
                push(
                    out,
                    &format!(
                        ",\"prev\":{{\"last\":{},\"bytes\":{},\"crc\":\"",
                        prev.last, prev.bytes
                    ),
                );
                out.extend_from_slice(&prev.crc);
                push(out, "\"}");
            }
        }
        push(out, ",\"state\":{\"policy\":");
        match &self.state.policy {
            None => push(out, "null"),
            Some(patterns) => {
                out.push(b'[');
                for (index, pattern) in patterns.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    json::write_string(out, pattern);
                }
                out.push(b']');
            }
        }
        push(out, &format!(",\"steps\":{}", self.state.steps));
        for (key, seq) in [
            ("turn", self.state.turn),
            ("compacted", self.state.compacted),
            ("titled", self.state.titled),
        ] {
            match seq {
                None => push(out, &format!(",\"{key}\":null")),
                Some(seq) => push(out, &format!(",\"{key}\":{seq}")),
            }
        }
        push(out, "}}");
        line::seal(out, start, ack);
    }

    /// The header that a sealed line holds, if it is one of this format and of `session`.
    pub fn read(sealed: &Sealed<'_>, session: &SessionId) -> Option<Self> {
        if !line::is_header(sealed.body) {
            return None;
        }
        let mut object = sealed.body.to_vec();
        object.push(b'}');
        let Fields { log, session_id, base, prev, state } = serde_json::from_slice(&object).ok()?;
        let prev = match prev {
            None => None,
            Some(PrevFields { last, bytes, crc }) => {
                Some(Prev { last, bytes, crc: crc.as_bytes().try_into().ok()? })
            }
        };
        let follows = prev.map_or(base == 0, |prev| prev.last.checked_add(1) == Some(base));
        (log == VERSION && session_id == session.as_str() && follows).then_some(Self {
            base,
            prev,
            state,
        })
    }
}

fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    log: u32,
    session_id: String,
    base: u64,
    prev: Option<PrevFields>,
    state: State,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PrevFields {
    last: u64,
    bytes: u64,
    crc: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionId {
        SessionId::parse("s1").unwrap()
    }

    #[test]
    fn the_header_of_the_log_page_is_written_so() {
        let header = Header {
            base: 1025,
            prev: Some(Prev { last: 1024, bytes: 4_190_112, crc: *b"0badcafe" }),
            state: State { steps: 12, turn: Some(1010), ..State::default() },
        };
        let mut out = Vec::new();
        header.write(&mut out, &session(), 0x401);
        let text = String::from_utf8(out).unwrap();
        let (before_crc, crc) = text.split_at(text.len() - 11);
        assert_eq!(
            before_crc,
            "{\"log\":1,\"session_id\":\"s1\",\"base\":1025,\"prev\":{\"last\":1024,\"bytes\":4190112,\
             \"crc\":\"0badcafe\"},\"state\":{\"policy\":null,\"steps\":12,\"turn\":1010,\
             \"compacted\":null,\"titled\":null},\"ack\":\"000000000401\",\"crc\":\""
        );
        assert!(crc.ends_with("\"}\n"), "{crc}");
    }

    #[test]
    fn a_header_comes_back_as_it_was_written() {
        let first = Header { base: 0, prev: None, state: State::default() };
        let later = Header {
            base: 7,
            prev: Some(Prev { last: 6, bytes: 9, crc: *b"00000000" }),
            state: State {
                policy: Some(vec!["\"seq\":1".into(), "a\nb\\".into(), String::new()]),
                steps: u64::MAX,
                turn: None,
                compacted: Some(3),
                titled: Some(4),
            },
        };
        for header in [first, later] {
            let mut out = Vec::new();
            header.write(&mut out, &session(), 7);
            let sealed = line::unseal(out.strip_suffix(b"\n").unwrap()).unwrap();
            assert_eq!(Header::read(&sealed, &session()), Some(header));
            assert_eq!(Header::read(&sealed, &SessionId::parse("s2").unwrap()), None);
        }
    }

    #[test]
    fn a_sealed_line_that_is_no_header_of_this_format_is_refused() {
        let state =
            r#""state":{"policy":null,"steps":0,"turn":null,"compacted":null,"titled":null}"#;
        let accepted = format!(r#"{{"log":1,"session_id":"s1","base":0,"prev":null,{state}}}"#);
        let table = [
            (accepted.clone(), true),
            (accepted.replace("\"log\":1", "\"log\":2"), false),
            (accepted.replace("\"base\":0", "\"base\":1"), false),
            (
                accepted
                    .replace("\"prev\":null", r#""prev":{"last":0,"bytes":1,"crc":"00000000"}"#),
                false,
            ),
            (accepted.replace("\"steps\":0", "\"steps\":-1"), false),
            (accepted.replace("\"steps\":0,", ""), false),
            (accepted.replace("\"prev\"", "\"more\":1,\"prev\""), false),
            ("{}".to_owned(), false),
        ];
        for (object, expected) in table {
            let mut out = object.clone().into_bytes();
            line::seal(&mut out, 0, 0);
            let sealed = line::unseal(out.strip_suffix(b"\n").unwrap()).unwrap();
            assert_eq!(Header::read(&sealed, &session()).is_some(), expected, "{object}");
        }
    }
}
