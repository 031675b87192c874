//! What the server sends, read: the counterpart of the writers in `proto::event`.
//!
//! Knows no connection. Additive changes of the protocol pass: an event of an unknown type has no
//! body, a protocol frame of an unknown type is `Other`.

use crate::proto::event::Envelope;
use crate::proto::json::{Document, Value};
use crate::proto::payload::Body;

/// One frame from the server.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerFrame {
    /// The first frame of a connection.
    Hello {
        /// The session the agent id names.
        session_id: String,
        /// The highest seq in the log.
        last_seq: u64,
    },
    /// The replay begins later than was asked.
    ReplayTruncated {
        /// Where it was asked to begin.
        requested_from_seq: u64,
        /// Where it begins.
        from_seq: u64,
    },
    /// The server refuses something; `proto::event::ErrorCode` knows which codes close.
    Error {
        /// One word.
        code: String,
        /// For people.
        message: String,
    },
    /// A session event.
    Event {
        /// Its place in the session.
        seq: u64,
        /// Its type.
        kind: String,
        /// What it says; none when this version does not know the type.
        body: Option<Body>,
    },
    /// A protocol frame this version does not know.
    Other,
}

impl ServerFrame {
    /// Reads one text message; none when it is not a frame of the protocol.
    pub fn parse(text: &str) -> Option<ServerFrame> {
        if let Some(envelope) = Envelope::parse(text.as_bytes()) {
            return Some(ServerFrame::Event {
                seq: envelope.seq,
                kind: envelope.kind.to_owned(),
                body: Body::parse(envelope.kind, envelope.payload).ok().flatten(),
            });
        }
        let frame = Document::parse(text.as_bytes()).ok()?.value();
        Some(match member(frame, "type")?.as_str()?.as_ref() {
            "hello" => ServerFrame::Hello {
                session_id: string(frame, "session_id")?,
                last_seq: member(frame, "last_seq")?.as_u64()?,
            },
            "replay_truncated" => ServerFrame::ReplayTruncated {
                requested_from_seq: member(frame, "requested_from_seq")?.as_u64()?,
                from_seq: member(frame, "from_seq")?.as_u64()?,
            },
            "error" => ServerFrame::Error {
                code: string(frame, "code")?,
                message: string(frame, "message")?,
            },
            _ => ServerFrame::Other,
        })
    }
}

/// A member of `frame` that is a string.
pub(super) fn string(frame: Value<'_>, key: &str) -> Option<String> {
    Some(member(frame, key)?.as_str()?.into_owned())
}

/// The first member of `frame` with this name.
pub(super) fn member<'a>(frame: Value<'a>, key: &str) -> Option<Value<'a>> {
    frame.members()?.find(|(name, _)| name.is(key)).map(|(_, value)| value)
}

#[cfg(any(test, fuzzing))]
pub mod fuzz {
    //! The body of the fuzz target.

    use super::ServerFrame;
    use crate::proto::event::{ErrorCode, write_error, write_replay_truncated};

    /// Any text is a frame or none, and what the server writes is read back: an error with any
    /// message, and a truncation at any two numbers.
    pub fn server_frame(bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        // The outcome is free; that there is one is not.
        let _any = ServerFrame::parse(&text);

        let code = ErrorCode::ALL[bytes.len() % ErrorCode::ALL.len()];
        let written = read_back(|out| write_error(out, code, &text));
        let (code, message) = (code.as_str().to_owned(), text.into_owned());
        assert_eq!(written, Some(ServerFrame::Error { code, message }));

        let number = |skip: usize| {
            bytes.iter().skip(skip).take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        let (requested_from_seq, from_seq) = (number(0), number(8));
        assert_eq!(
            read_back(|out| write_replay_truncated(out, requested_from_seq, from_seq)),
            Some(ServerFrame::ReplayTruncated { requested_from_seq, from_seq })
        );
    }

    fn read_back(write: impl FnOnce(&mut Vec<u8>)) -> Option<ServerFrame> {
        let mut out = Vec::new();
        write(&mut out);
        ServerFrame::parse(std::str::from_utf8(&out).expect("frames are UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::event::{
        ErrorCode, write_envelope, write_error, write_hello, write_replay_truncated,
    };
    use crate::proto::ident::{EventId, SessionId};
    use crate::proto::time::Wall;

    #[test]
    fn what_the_server_writes_is_read_back() {
        let session = SessionId::parse("s1").unwrap();
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            ServerFrame::parse(std::str::from_utf8(&out).unwrap()).unwrap()
        };
        assert_eq!(
            written(&|out| write_hello(out, &session, 41)),
            ServerFrame::Hello { session_id: "s1".into(), last_seq: 41 }
        );
        assert_eq!(
            written(&|out| write_replay_truncated(out, 0, 5001)),
            ServerFrame::ReplayTruncated { requested_from_seq: 0, from_seq: 5001 }
        );
        assert_eq!(
            written(&|out| write_error(out, ErrorCode::BadFrame, "a \"b\"\n")),
            ServerFrame::Error { code: "bad_frame".into(), message: "a \"b\"\n".into() }
        );
        let body = Body::AssistantChunk { text: "22C".into() };
        assert_eq!(
            written(&|out| write_envelope(out, EventId(1), &session, 7, Wall(0), &body)),
            ServerFrame::Event { seq: 7, kind: "assistant/chunk".into(), body: Some(body.clone()) }
        );
    }

    #[test]
    fn what_is_new_passes_and_what_is_none_does_not() {
        let event = r#"{"id":"000000000000000a","session_id":"s1","seq":7,"at":"2026-08-18T04:10:11.123456Z","type":"a/b","payload":{"x":1}}"#;
        assert_eq!(
            ServerFrame::parse(event),
            Some(ServerFrame::Event { seq: 7, kind: "a/b".into(), body: None })
        );
        assert_eq!(ServerFrame::parse(r#"{"type":"news","x":[]}"#), Some(ServerFrame::Other));
        for text in ["", "[]", "{}", r#"{"type":7}"#, r#"{"type":"hello"}"#, r#"{"type":"error"}"#]
        {
            assert_eq!(ServerFrame::parse(text), None, "{text}");
        }
    }
}
