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
