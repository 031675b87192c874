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

/// Appends an unmasked binary frame.
pub fn write_binary(out: &mut Vec<u8>, payload: &[u8]) {
    write_frame(out, Opcode::Binary, payload);
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

/// Appends an unmasked close frame without a body, which answers one without a body (RFC 6455, 5.5.1).
pub fn write_empty_close(out: &mut Vec<u8>) {
    write_frame(out, Opcode::Close, b"");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_appended_one_behind_the_other() {
        let mut out = Vec::new();
        write_text(&mut out, b"{}");
        write_ping(&mut out, b"7");
        write_pong(&mut out, b"");
        write_close(&mut out, CloseCode::GOING_AWAY, "bye");
        write_binary(&mut out, b"\xff");
        write_empty_close(&mut out);
        let expected = b"\x81\x02{}\x89\x017\x8a\x00\x88\x05\x03\xe9bye\x82\x01\xff\x88\x00";
        assert_eq!(out, expected);
    }

    #[test]
    fn a_header_alone_is_what_stands_before_the_payload() {
        for len in [0, 1, 125, 126, 65_535, 65_536, 1 << 20] {
            let payload = vec![b'x'; len];
            let mut out = Vec::new();
            write_text(&mut out, &payload);
            assert_eq!(out, [&text_header(len), payload.as_slice()].concat());
        }
    }

    #[test]
    fn a_client_masks_whatever_it_sends() {
        let mut out = Vec::new();
        let key = [1, 2, 3, 4];
        write_masked(&mut out, Opcode::Text, b"\0\0\0\0\0", key);
        write_masked_close(&mut out, CloseCode::NORMAL, "\0", key);
        assert_eq!(
            out,
            b"\x81\x85\x01\x02\x03\x04\x01\x02\x03\x04\x01\x88\x83\x01\x02\x03\x04\x02\xea\x03"
        );
    }

    #[test]
    #[should_panic(expected = "a control frame of 126 bytes cannot be sent")]
    fn a_control_frame_that_is_too_long_is_our_own_fault() {
        write_ping(&mut Vec::new(), &[0; 126]);
    }
}
