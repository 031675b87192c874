//! The close frame's payload: a code, and a reason for people (RFC 6455, 5.5.1 and 7.4).
//!
//! Knows no connection: who closes when is `conn`'s business. Invariant: a [`CloseCode`] is one
//! that may stand in a frame.

use std::{fmt, str};

use super::error::ProtocolError;
use super::frame::CONTROL_BYTES_MAX;

/// Bytes of the longest reason: what the code leaves of a control frame.
pub const REASON_BYTES_MAX: usize = CONTROL_BYTES_MAX - 2;

/// A code that may stand in a close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseCode(u16);

impl CloseCode {
    /// The purpose of the connection is fulfilled.
    pub const NORMAL: Self = Self(1000);
    /// The endpoint is going away: the server stops.
    pub const GOING_AWAY: Self = Self(1001);
    /// A breach of RFC 6455.
    pub const PROTOCOL_ERROR: Self = Self(1002);
    /// Text that is not UTF-8.
    pub const INVALID_PAYLOAD: Self = Self(1007);
    /// An unexpected fault of the server.
    pub const INTERNAL: Self = Self(1011);
    /// Bad, missing or revoked token (clarifications, 2).
    pub const UNAUTHORIZED: Self = Self(4401);
    /// A newer connection took over the agent (clarifications, 2).
    pub const SUPERSEDED: Self = Self(4409);
    /// The client read too slowly (clarifications, 2).
    pub const LAGGED: Self = Self(4429);

    /// `None` for a code that must not be sent.
    ///
    /// Allowed are the codes of RFC 6455, 7.4.1, the three the IANA registry has added since (1012
    /// to 1014), and the ranges of 7.4.2 for libraries and applications, 3000 to 4999. 1004 has no
    /// meaning, 1005, 1006 and 1015 exist only inside an endpoint.
    pub fn new(code: u16) -> Option<Self> {
        matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999).then_some(Self(code))
    }

    /// The number in the frame.
    pub fn as_u16(self) -> u16 {
        self.0
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reads a close frame's payload: `None` when it is empty, else code and reason.
pub fn parse_close_payload(payload: &[u8]) -> Result<Option<(CloseCode, &str)>, ProtocolError> {
    if payload.is_empty() {
        return Ok(None);
    }
    let Some((code, reason)) = payload.split_first_chunk() else {
        return Err(ProtocolError::HalfCloseCode);
    };
    let code = u16::from_be_bytes(*code);
    let code = CloseCode::new(code).ok_or(ProtocolError::InvalidCloseCode(code))?;
    let reason = str::from_utf8(reason).map_err(|_| ProtocolError::ReasonNotUtf8)?;
    Ok(Some((code, reason)))
}

/// A close frame's payload. A reason longer than [`REASON_BYTES_MAX`] is cut between characters.
pub(super) fn close_payload(code: CloseCode, reason: &str) -> Vec<u8> {
    let mut end = reason.len().min(REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let reason = &reason[..end];
    let mut payload = Vec::with_capacity(2 + reason.len());
    payload.extend_from_slice(&code.0.to_be_bytes());
    payload.extend_from_slice(reason.as_bytes());
    payload
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_all_numbers_only_the_assigned_and_the_free_ones_are_codes() {
        let allowed = [
            1000..=1003, // RFC 6455, 7.4.1
            1007..=1011, // the same
            1012..=1014, // IANA: service restart, try again later, bad gateway
            3000..=3999, // 7.4.2: libraries and frameworks
            4000..=4999, // 7.4.2: private use
        ];
        for code in 0..=u16::MAX {
            let expected = allowed.iter().any(|range| range.contains(&code));
            assert_eq!(CloseCode::new(code).is_some(), expected, "{code}");
            assert!(CloseCode::new(code).is_none_or(|it| it.as_u16() == code));
        }
    }

    #[test]
    fn every_named_code_may_be_sent() {
        for code in [
            CloseCode::NORMAL,
            CloseCode::GOING_AWAY,
            CloseCode::PROTOCOL_ERROR,
            CloseCode::INVALID_PAYLOAD,
            CloseCode::INTERNAL,
            CloseCode::UNAUTHORIZED,
            CloseCode::SUPERSEDED,
            CloseCode::LAGGED,
        ] {
            assert_eq!(CloseCode::new(code.as_u16()), Some(code));
        }
    }

    #[test]
    fn a_payload_is_empty_or_a_code_and_a_reason() {
        use ProtocolError as E;
        type Parsed = Result<Option<(u16, &'static str)>, ProtocolError>;
        let table: &[(&[u8], Parsed)] = &[
            (b"", Ok(None)),
            (b"\x03", Err(E::HalfCloseCode)),
            (b"\x03\xe8", Ok(Some((1000, "")))),
            (b"\x03\xe8bye", Ok(Some((1000, "bye")))),
            (b"\x11\x39", Ok(Some((4409, "")))),
            (b"\x03\xed", Err(E::InvalidCloseCode(1005))),
            (b"\x03\xe8\xff", Err(E::ReasonNotUtf8)),
            (b"\x03\xe8cut \xe2\x82", Err(E::ReasonNotUtf8)),
            (b"\x00\x00\xff", Err(E::InvalidCloseCode(0))),
        ];
        for &(payload, expected) in table {
            let parsed = parse_close_payload(payload);
            let parsed = parsed.map(|it| it.map(|(code, reason)| (code.as_u16(), reason)));
            assert_eq!(parsed, expected, "{payload:x?}");
        }
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        for (reason, kept) in [
            ("short".to_owned(), 5),
            ("x".repeat(REASON_BYTES_MAX), REASON_BYTES_MAX),
            ("x".repeat(REASON_BYTES_MAX + 1), REASON_BYTES_MAX),
            ("é".repeat(100), REASON_BYTES_MAX - 1),
            ("漢".repeat(100), REASON_BYTES_MAX),
            (format!("x{}", "\u{1f600}".repeat(100)), 121),
        ] {
            let payload = close_payload(CloseCode::LAGGED, &reason);
            let parsed = parse_close_payload(&payload);
            assert_eq!(parsed, Ok(Some((CloseCode::LAGGED, &reason[..kept]))));
        }
    }
}
