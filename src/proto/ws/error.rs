//! What a peer can do wrong: one variant a misdeed, and each knows the close code that answers it.

use std::fmt;

use super::close::CloseCode;
use super::utf8::InvalidUtf8;

/// A breach of RFC 6455. The connection has to be failed with [`ProtocolError::close_code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// RSV1, RSV2 or RSV3 is set although no extension was negotiated (5.2).
    ReservedBits,
    /// An opcode the RFC keeps for later: 3 to 7 or 11 to 15 (5.2).
    ReservedOpcode(u8),
    /// A control frame without FIN (5.4, 5.5).
    FragmentedControl,
    /// A control frame with more than 125 payload bytes (5.5).
    LongControl,
    /// A length written with more bytes than it needs (5.2).
    LengthNotMinimal,
    /// A 64-bit length whose most significant bit is set (5.2).
    LengthTopBit,
    /// A client's frame that is not masked (5.1).
    Unmasked,
    /// A server's frame that is masked (5.1).
    Masked,
    /// A continuation frame while no message is open (5.4).
    NothingToContinue,
    /// A new text or binary frame inside a fragmented message (5.4).
    MessageInsideMessage,
    /// A text message that is not UTF-8 (5.6, 8.1).
    TextNotUtf8,
    /// A close frame with a payload of one byte: neither empty nor a code (5.5.1).
    HalfCloseCode,
    /// A close code that must not appear in a frame (7.4).
    InvalidCloseCode(u16),
    /// A close reason that is not UTF-8 (5.5.1, 8.1).
    ReasonNotUtf8,
}

impl ProtocolError {
    /// The code to close with: 1007 for text that is not UTF-8, 1002 for everything else.
    pub fn close_code(self) -> CloseCode {
        match self {
            Self::TextNotUtf8 | Self::ReasonNotUtf8 => CloseCode::INVALID_PAYLOAD,
            _ => CloseCode::PROTOCOL_ERROR,
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReservedBits => f.write_str("a reserved bit is set"),
            Self::ReservedOpcode(opcode) => write!(f, "opcode {opcode} is reserved"),
            Self::FragmentedControl => f.write_str("a control frame is fragmented"),
            Self::LongControl => f.write_str("a control frame is longer than 125 bytes"),
            Self::LengthNotMinimal => f.write_str("a length is not written in its shortest form"),
            Self::LengthTopBit => f.write_str("the top bit of a 64-bit length is set"),
            Self::Unmasked => f.write_str("a client's frame is not masked"),
            Self::Masked => f.write_str("a server's frame is masked"),
            Self::NothingToContinue => f.write_str("a continuation frame continues nothing"),
            Self::MessageInsideMessage => {
                f.write_str("a new message begins inside a fragmented one")
            }
            Self::TextNotUtf8 => f.write_str("a text message is not UTF-8"),
            Self::HalfCloseCode => f.write_str("a close payload is one byte long"),
            Self::InvalidCloseCode(code) => {
                write!(f, "close code {code} is not allowed in a frame")
            }
            Self::ReasonNotUtf8 => f.write_str("a close reason is not UTF-8"),
        }
    }
}

impl std::error::Error for ProtocolError {}

/// Only texts are checked in pieces; a close reason is checked whole.
impl From<InvalidUtf8> for ProtocolError {
    fn from(_: InvalidUtf8) -> Self {
        Self::TextNotUtf8
    }
}
