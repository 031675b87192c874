//! Frames as they are sent: whole messages, never fragmented.
//!
//! Knows no queue: everything is appended to a `Vec`, or returned for the caller to place. Servers
//! do not mask, clients do (RFC 6455, 5.1); a masking key is an argument because randomness is not
//! found in this layer.

use super::close::{CloseCode, close_payload};
use super::frame::{CONTROL_BYTES_MAX, FrameHeader, HeaderBytes, Opcode};
use super::mask;

/// The header of an unmasked text frame whose payload of `len` bytes the caller writes after it.
pub fn text_header(len: usize) -> HeaderBytes {
    header(Opcode::Text, None, len).encode()
}

/// Appends an unmasked text frame. `text` has to be UTF-8; the log's lines are, and are bytes.
pub fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    write_frame(out, Opcode::Text, text);
}

/// Appends an unmasked ping of at most [`CONTROL_BYTES_MAX`] bytes.
pub fn write_ping(out: &mut Vec<u8>, payload: &[u8]) {
    write_frame(out, Opcode::Ping, payload);
}

/// Appends the unmasked answer to a ping that carried `payload`, at most [`CONTROL_BYTES_MAX`]
/// bytes.
pub fn write_pong(out: &mut Vec<u8>, payload: &[u8]) {
    write_frame(out, Opcode::Pong, payload);
}

/// Appends an unmasked close frame. A reason longer than
/// [`REASON_BYTES_MAX`](super::close::REASON_BYTES_MAX) is cut between characters.
pub fn write_close(out: &mut Vec<u8>, code: CloseCode, reason: &str) {
    write_frame(out, Opcode::Close, &close_payload(code, reason));
}

/// Appends a client's frame: one whole message or control frame, masked with `key`.
pub fn write_masked(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], key: [u8; 4]) {
    out.extend_from_slice(&header(opcode, Some(key), payload.len()).encode());
    let start = out.len();
    out.extend_from_slice(payload);
    mask::apply(&mut out[start..], key, 0);
}

/// Appends a client's close frame, masked with `key`; the reason is cut as in [`write_close`].
pub fn write_masked_close(out: &mut Vec<u8>, code: CloseCode, reason: &str, key: [u8; 4]) {
    write_masked(out, Opcode::Close, &close_payload(code, reason), key);
}

fn write_frame(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
    out.extend_from_slice(&header(opcode, None, payload.len()).encode());
    out.extend_from_slice(payload);
}

fn header(opcode: Opcode, mask: Option<[u8; 4]>, len: usize) -> FrameHeader {
    assert!(
        !opcode.is_control() || len <= CONTROL_BYTES_MAX,
        "a control frame of {len} bytes cannot be sent"
    );
    FrameHeader { fin: true, opcode, mask, len: len as u64 }
}
