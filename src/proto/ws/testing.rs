//! What the tests share: frames built by hand, right or wrong, and streams read every way.

use super::fuzz::{Transcript, read};
use super::message::Role;

/// A masking key without a repeated byte.
pub(super) const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A client's frame: any first byte, the shortest length, the payload masked with [`KEY`].
pub(super) fn client(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = start(first, 0x80, payload.len());
    frame.extend_from_slice(&KEY);
    frame.extend(payload.iter().enumerate().map(|(i, byte)| byte ^ KEY[i % 4]));
    frame
}

/// A server's frame: any first byte, the shortest length, the payload as it is.
pub(super) fn server(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = start(first, 0, payload.len());
    frame.extend_from_slice(payload);
    frame
}

fn start(first: u8, mask_bit: u8, len: usize) -> Vec<u8> {
    let wide = (len as u64).to_be_bytes();
    match len {
        0..126 => vec![first, mask_bit + wide[7]],
        126..0x1_0000 => [&[first, mask_bit + 126], &wide[6..]].concat(),
        _ => [&[first, mask_bit + 127], &wide[..]].concat(),
    }
}

/// Reads the stream whole, byte by byte and, unless it is long, cut in two at every place; all of
/// them have to say the same.
pub(super) fn read_every_way(role: Role, message_bytes_max: usize, stream: &[u8]) -> Transcript {
    let whole = read(role, message_bytes_max, [stream]);
    assert_eq!(read(role, message_bytes_max, stream.chunks(1)), whole, "byte by byte");
    if stream.len() <= 1024 {
        for cut in 0..=stream.len() {
            let (first, second) = stream.split_at(cut);
            assert_eq!(read(role, message_bytes_max, [first, second]), whole, "cut at {cut}");
        }
    }
    whole
}
