//! What the server sends: the envelope around a durable event, and the protocol frames (contract,
//! "Server to client"; clarifications, section 2).
//!
//! Written by hand around raw payload bytes, in the exact key order. Session events carry the key
//! `seq`, protocol frames never do. Nothing here knows WebSocket frames or the seal of a log line.

use super::{append, append_number};

use crate::proto::ident::{EventId, SessionId};
use crate::proto::json::write_string;
use crate::proto::payload::Body;
use crate::proto::time::Wall;

/// An event that is about to be appended: its seq and time are given by the append.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// Drawn from the operating system's random source.
    pub id: EventId,
    /// Type and payload.
    pub body: Body,
}

/// Appends one session event to `out`, from `{` to `}`.
pub fn write_envelope(
    out: &mut Vec<u8>,
    id: EventId,
    session: &SessionId,
    seq: u64,
    at: Wall,
    body: &Body,
) {
    write_envelope_at(out, id, session, seq, &at.to_text(), body);
}

/// The same with the time as text, which is one for many events.
pub fn write_envelope_at(
    out: &mut Vec<u8>,
    id: EventId,
    session: &SessionId,
    seq: u64,
    at: &[u8; Wall::TEXT_LEN],
    body: &Body,
) {
    out.extend_from_slice(b"{\"id\":\"");
    id.write(out);
    out.extend_from_slice(b"\",\"session_id\":\"");
    out.extend_from_slice(session.as_bytes());
    out.extend_from_slice(b"\",\"seq\":");
    append_number(out, seq);
    out.extend_from_slice(b",\"at\":\"");
    out.extend_from_slice(at);
    out.extend_from_slice(b"\",\"type\":\"");
    out.extend_from_slice(body.kind().as_bytes());
    out.extend_from_slice(b"\",\"payload\":");
    body.write_payload(out);
    out.push(b'}');
}

/// A session event taken apart without a JSON parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The event's id.
    pub id: EventId,
    /// The session it belongs to.
    pub session_id: &'a str,
    /// Its place in the session.
    pub seq: u64,
    /// When it was appended.
    pub at: Wall,
    /// Its `type`.
    pub kind: &'a str,
    /// Its payload, a JSON object that is not looked into here.
    pub payload: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Takes apart what [`write_envelope`] wrote. None when the line is not of that form; the
    /// payload's JSON is not checked.
    pub fn parse(line: &'a [u8]) -> Option<Envelope<'a>> {
        let rest = line.strip_prefix(b"{\"id\":\"")?;
        let (id, rest) = quoted(rest)?;
        let rest = rest.strip_prefix(b",\"session_id\":\"")?;
        let (session_id, rest) = quoted(rest)?;
        let rest = rest.strip_prefix(b",\"seq\":")?;
        let (seq, rest) = number(rest)?;
        let rest = rest.strip_prefix(b",\"at\":\"")?;
        let (at, rest) = quoted(rest)?;
        let rest = rest.strip_prefix(b",\"type\":\"")?;
        let (kind, rest) = quoted(rest)?;
        let payload = rest.strip_prefix(b",\"payload\":")?.strip_suffix(b"}")?;
        if !payload.starts_with(b"{") || !payload.ends_with(b"}") {
            return None;
        }
        Some(Envelope {
            id: EventId::parse(id)?,
            session_id,
            seq,
            at: Wall::parse(at)?,
            kind,
            payload,
        })
    }
}

/// Splits at the next quotation mark. Ids, times and types hold no escape.
fn quoted(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'"' || byte == b'\\')?;
    if bytes[end] == b'\\' {
        return None;
    }
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

/// Splits after the digits of a JSON integer: no sign, no leading zero, at most 2^64-1.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit())?;
    if end > 1 && bytes[0] == b'0' {
        return None;
    }
    let digits = std::str::from_utf8(&bytes[..end]).ok()?;
    Some((digits.parse().ok()?, &bytes[end..]))
}

/// The contract's error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// Bad or missing token.
    Unauthorized,
    /// A newer connection took over this agent.
    Superseded,
    /// The client read too slowly.
    Lagged,
    /// The client frame is unparseable or invalid.
    BadFrame,
    /// A cancel without an open turn.
    NotRunning,
    /// A verdict on a call without a standing request.
    StaleCall,
    /// The frame needs what this deployment does not mount.
    Unsupported,
    /// The server could not serve this connection.
    Internal,
}

impl ErrorCode {
    /// Every code, for tables.
    pub const ALL: [ErrorCode; 8] = [
        ErrorCode::Unauthorized,
        ErrorCode::Superseded,
        ErrorCode::Lagged,
        ErrorCode::BadFrame,
        ErrorCode::NotRunning,
        ErrorCode::StaleCall,
        ErrorCode::Unsupported,
        ErrorCode::Internal,
    ];

    /// As the wire spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorCode::Unauthorized => "unauthorized",
            ErrorCode::Superseded => "superseded",
            ErrorCode::Lagged => "lagged",
            ErrorCode::BadFrame => "bad_frame",
            ErrorCode::NotRunning => "not_running",
            ErrorCode::StaleCall => "stale_call",
            ErrorCode::Unsupported => "unsupported",
            ErrorCode::Internal => "internal",
        }
    }

    /// The code a server frame names; none for one this version does not know.
    pub fn parse(text: &str) -> Option<ErrorCode> {
        ErrorCode::ALL.into_iter().find(|code| code.as_str() == text)
    }

    /// The WebSocket close code that follows the error frame; none when the connection stays open
    /// (clarifications, section 2).
    pub fn close_code(self) -> Option<u16> {
        match self {
            ErrorCode::Unauthorized => Some(4401),
            ErrorCode::Superseded => Some(4409),
            ErrorCode::Lagged => Some(4429),
            ErrorCode::Internal => Some(1011),
            ErrorCode::BadFrame
            | ErrorCode::NotRunning
            | ErrorCode::StaleCall
            | ErrorCode::Unsupported => None,
        }
    }
}

/// Appends the `hello` frame. `last_seq` is the highest seq in the log.
pub fn write_hello(out: &mut Vec<u8>, session: &SessionId, last_seq: u64) {
    append(out, format_args!("{{\"type\":\"hello\",\"proto\":1,\"session_id\":\"{session}\","));
    append(out, format_args!("\"last_seq\":{last_seq}}}"));
}

/// Appends the `replay_truncated` frame: the replay begins at `from_seq`, not where it was asked to.
pub fn write_replay_truncated(out: &mut Vec<u8>, requested_from_seq: u64, from_seq: u64) {
    append(out, format_args!("{{\"type\":\"replay_truncated\","));
    append(out, format_args!("\"requested_from_seq\":{requested_from_seq},"));
    append(out, format_args!("\"from_seq\":{from_seq}}}"));
}

/// Appends an `error` frame.
pub fn write_error(out: &mut Vec<u8>, code: ErrorCode, message: &str) {
    append(out, format_args!("{{\"type\":\"error\",\"code\":\"{}\",\"message\":", code.as_str()));
    write_string(out, message);
    out.push(b'}');
}

/// The body of the fuzz target for envelopes.
#[cfg(any(test, fuzzing))]
pub mod fuzz {
    use super::Envelope;

    /// Whatever is taken apart is, put together again, the very same bytes.
    pub fn envelope(bytes: &[u8]) {
        let Some(Envelope { id, session_id, seq, at, kind, payload }) = Envelope::parse(bytes)
        else {
            return;
        };
        let payload = String::from_utf8_lossy(payload);
        let line = format!(
            r#"{{"id":"{id}","session_id":"{session_id}","seq":{seq},"at":"{at}","type":"{kind}","payload":{payload}}}"#
        );
        assert_eq!(line, String::from_utf8_lossy(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"id":"00000000000000ff","session_id":"s1","seq":7,"at":"2026-08-18T04:10:11.123456Z","type":"assistant/chunk","payload":{"text":"22C"}}"#;

    fn session() -> SessionId {
        SessionId::parse("s1").unwrap()
    }

    #[test]
    fn an_envelope_is_written_as_the_contract_shows_it_and_taken_apart_again() {
        let at = Wall::parse("2026-08-18T04:10:11.123456Z").unwrap();
        let mut out = Vec::new();
        let body = Body::AssistantChunk { text: "22C".into() };
        write_envelope(&mut out, EventId(255), &session(), 7, at, &body);
        assert_eq!(String::from_utf8(out).unwrap(), LINE);
        let parsed = Envelope::parse(LINE.as_bytes()).unwrap();
        let payload = br#"{"text":"22C"}"#;
        let expected = Envelope {
            id: EventId(255),
            session_id: "s1",
            seq: 7,
            at,
            kind: "assistant/chunk",
            payload,
        };
        assert_eq!(parsed, expected);
    }

    #[test]
    fn a_line_of_another_form_is_no_envelope() {
        for cut in 0..LINE.len() {
            assert_eq!(Envelope::parse(&LINE.as_bytes()[..cut]), None, "cut at {cut}");
        }
        for (from, to) in [
            ("\"seq\":7", "\"seq\":07"),
            ("\"seq\":7", "\"seq\":"),
            ("\"seq\":7", "\"seq\":18446744073709551616"),
            ("\"seq\":7", "\"seq\": 7"),
            ("s1", "s\\u0031"),
            ("00000000000000ff", "00000000000000fg"),
            ("2026", "20x6"),
            ("{\"text\":\"22C\"}", "[]"),
        ] {
            assert_eq!(Envelope::parse(LINE.replace(from, to).as_bytes()), None, "{to}");
        }
    }

    #[test]
    fn the_largest_seq_fits() {
        let line = LINE.replace("\"seq\":7", "\"seq\":18446744073709551615");
        assert_eq!(Envelope::parse(line.as_bytes()).unwrap().seq, u64::MAX);
    }

    #[test]
    fn protocol_frames_are_the_contracts_and_never_carry_a_seq_key() {
        let mut hello = Vec::new();
        write_hello(&mut hello, &session(), 41);
        let mut truncated = Vec::new();
        write_replay_truncated(&mut truncated, 0, 5001);
        let mut error = Vec::new();
        write_error(&mut error, ErrorCode::BadFrame, "from_seq: a \"number\"\n");
        for (frame, expected) in [
            (hello, r#"{"type":"hello","proto":1,"session_id":"s1","last_seq":41}"#),
            (truncated, r#"{"type":"replay_truncated","requested_from_seq":0,"from_seq":5001}"#),
            (error, r#"{"type":"error","code":"bad_frame","message":"from_seq: a \"number\"\n"}"#),
        ] {
            let frame = String::from_utf8(frame).unwrap();
            assert_eq!(frame, expected);
            assert!(!frame.contains("\"seq\""));
        }
    }

    #[test]
    fn codes_that_close_name_their_close_code() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::parse(code.as_str()), Some(code));
            let expected = match code.as_str() {
                "unauthorized" => Some(4401),
                "superseded" => Some(4409),
                "lagged" => Some(4429),
                "internal" => Some(1011),
                _ => None,
            };
            assert_eq!(code.close_code(), expected);
        }
        assert_eq!(ErrorCode::parse("teapot"), None);
    }
}
