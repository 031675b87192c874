//! What the tests and the fuzz target share: frames built by hand, right or wrong, and an assembler
//! fed in pieces.

use std::borrow::Cow;

use super::error::ProtocolError;
use super::message::{Assembler, Item, Role};

/// Everything an assembler said about a stream: its items, and the error it ended with, if any.
pub(super) type Transcript = Vec<Result<Item<'static>, ProtocolError>>;

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

/// Feeds a new assembler piece by piece, as a connection's reads would.
pub(super) fn read<'a>(
    role: Role,
    message_bytes_max: usize,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Transcript {
    let mut assembler = Assembler::new(role, message_bytes_max);
    let mut transcript = Transcript::new();
    for piece in pieces {
        let mut buffer = piece.to_vec();
        let mut input = buffer.as_mut_slice();
        loop {
            let ended = matches!(transcript.last(), Some(Err(_) | Ok(Item::Close(_))));
            match assembler.push(&mut input) {
                Ok(None) => break,
                said => {
                    assert!(!ended, "{said:?} after the end");
                    transcript.extend(said.map(|item| item.map(owned)).transpose());
                }
            }
        }
        assert!(input.is_empty(), "what yields nothing uses everything up");
    }
    transcript
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

fn owned(item: Item<'_>) -> Item<'static> {
    match item {
        Item::Text(text) => Item::Text(Cow::Owned(text.into_owned())),
        Item::Binary => Item::Binary,
        Item::TooLarge => Item::TooLarge,
        Item::Ping(payload) => Item::Ping(Cow::Owned(payload.into_owned())),
        Item::Pong(payload) => Item::Pong(Cow::Owned(payload.into_owned())),
        Item::Close(close) => {
            Item::Close(close.map(|(code, reason)| (code, Cow::Owned(reason.into_owned()))))
        }
    }
}
