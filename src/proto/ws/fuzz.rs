//! The body of the fuzz target `ws_frames`: an assembler fed in arbitrary pieces, against an oracle
//! that has the whole stream before it.

mod oracle;

use std::borrow::Cow;

use super::error::ProtocolError;
use super::frame::FrameHeader;
use super::message::{Assembler, Item, Role};

/// Everything an assembler said about a stream: its items, and the error it ended with, if any.
pub(super) type Transcript = Vec<Result<Item<'static>, ProtocolError>>;

/// Reads `data` as a stream of frames, or as a recipe for one, and compares what the assembler says
/// with the oracle's transcript: whole, byte by byte, and in pieces that `data` chooses.
pub fn frames(data: &[u8]) {
    let Some((&[choices, bound, pieces], rest)) = data.split_first_chunk() else { return };
    let role = if choices & 1 == 0 { Role::Server } else { Role::Client };
    let message_bytes_max = [0, 1, 4, 125, 126, 300, 65_536, 1 << 20][usize::from(bound % 8)];
    let stream = if choices & 2 == 0 { rest.to_vec() } else { cook(role, rest) };

    header_round_trip(&stream);
    let expected = oracle::transcript(role, message_bytes_max, &stream);
    assert_eq!(read(role, message_bytes_max, [stream.as_slice()]), expected, "whole");
    assert_eq!(read(role, message_bytes_max, stream.chunks(1)), expected, "byte by byte");
    let pieces = cut(&stream, pieces);
    assert_eq!(read(role, message_bytes_max, pieces), expected, "in pieces");
}

/// A header that is accepted is written back byte for byte: there is one way to write it.
fn header_round_trip(stream: &[u8]) {
    if let Ok(Some((header, used))) = FrameHeader::decode(stream) {
        assert_eq!(*header.encode(), stream[..used]);
    }
}

/// Pieces whose lengths a small generator draws from `seed`, empty ones among them.
fn cut(mut stream: &[u8], seed: u8) -> Vec<&[u8]> {
    let mut state = u32::from(seed) + 1;
    let mut pieces = Vec::new();
    while !stream.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let len = ((state >> 24) as usize % 23).min(stream.len());
        let (piece, rest) = stream.split_at(len);
        pieces.push(piece);
        stream = rest;
    }
    pieces
}

/// Frames out of a recipe, so that the fuzzer need not find lengths and masks that match. Of each
/// frame the first byte is taken as it is, then comes a byte for the length of its payload, then
/// the payload.
fn cook(role: Role, mut recipe: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    while let Some((&[first, len], rest)) = recipe.split_first_chunk() {
        let (payload, rest) = rest.split_at(usize::from(len).min(rest.len()));
        recipe = rest;
        stream.push(first);
        let mask_bit = if role == Role::Server { 0x80 } else { 0 };
        match payload.len() as u8 {
            short @ 0..126 => stream.push(mask_bit | short),
            long => stream.extend([mask_bit | 0x7e, 0, long]),
        }
        if role == Role::Server {
            let key = [first, len, !first, 0x5a];
            stream.extend(key);
            stream.extend(payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
        } else {
            stream.extend(payload);
        }
    }
    stream
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

fn owned(item: Item<'_>) -> Item<'static> {
    match item {
        Item::Text(text) => Item::Text(Cow::Owned(text.into_owned())),
        Item::Binary(payload) => Item::Binary(Cow::Owned(payload.into_owned())),
        Item::TooLarge => Item::TooLarge,
        Item::Ping(payload) => Item::Ping(Cow::Owned(payload.into_owned())),
        Item::Pong(payload) => Item::Pong(Cow::Owned(payload.into_owned())),
        Item::Close(close) => {
            Item::Close(close.map(|(code, reason)| (code, Cow::Owned(reason.into_owned()))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::ws::testing::{client, server};

    #[test]
    fn the_oracle_and_the_assembler_agree_on_random_recipes() {
        let mut state: u64 = 1;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let opcodes = [0x81, 0x01, 0x00, 0x80, 0x89, 0x8a, 0x02, 0x82, 0x88, 0x0b, 0xc1, 0x09];
        let letters = ["a", "é", "漢", "😀", "\u{7f}", "\u{0}"];
        for _ in 0..3000 {
            let mut data = vec![random() as u8 | 2, random() as u8, random() as u8];
            for _ in 0..random() % 12 {
                // Mostly what the RFC allows, or no stream would last beyond its first frame.
                let choice = (random() % 64) as usize;
                let first = opcodes[if choice < opcodes.len() { choice } else { choice % 6 }];
                let mut payload = String::new();
                while !random().is_multiple_of(5) {
                    payload.push_str(letters[(random() % 6) as usize]);
                }
                let mut payload = payload.into_bytes();
                if random().is_multiple_of(8) {
                    payload.pop();
                }
                data.extend([first, payload.len() as u8]);
                data.extend(payload);
            }
            frames(&data);
        }
    }

    #[test]
    fn raw_streams_pass_through_the_target_as_well() {
        let streams = [
            client(0x81, b"Hello"),
            [client(0x01, b"a"), client(0x89, b"b"), client(0x80, b"c")].concat(),
            client(0x81, &[b'x'; 300]),
            server(0x81, b"Hello"),
            client(0x88, b"\x03\xe8bye"),
            vec![0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5],
        ];
        for stream in streams {
            for choices in [0, 1] {
                for bound in 0..8 {
                    frames(&[&[choices, bound, 7], stream.as_slice()].concat());
                }
            }
        }
    }
}
