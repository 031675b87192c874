//! The fuzz target of this module: an assembler fed in arbitrary pieces against an oracle that has
//! the whole stream before it and takes one byte after the other.

use std::borrow::Cow;
use std::str;

use super::close::CloseCode;
use super::error::ProtocolError as E;
use super::frame::FrameHeader;
use super::message::{Item, Role};
use super::testing::{Transcript, read};

/// Reads `data` as a stream of frames, or as a recipe for one, and compares what the assembler says
/// with the oracle's transcript: whole, byte by byte, and in pieces that `data` chooses.
pub fn frames(data: &[u8]) {
    let Some((&[choices, bound, pieces], rest)) = data.split_first_chunk() else { return };
    let role = if choices & 1 == 0 { Role::Server } else { Role::Client };
    let message_bytes_max = [0, 1, 4, 125, 126, 300, 65_536, 1 << 20][usize::from(bound % 8)];
    let stream = if choices & 2 == 0 { rest.to_vec() } else { cook(role, rest) };

    header_round_trip(&stream);
    let expected = oracle(role, message_bytes_max, &stream);
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

/// The transcript by the letter of the RFC, without regard to cost.
fn oracle(role: Role, message_bytes_max: usize, stream: &[u8]) -> Transcript {
    let mut transcript = Transcript::new();
    if let Err(fault) = interpret(role, message_bytes_max, stream, &mut transcript) {
        transcript.push(Err(fault));
    }
    transcript
}

fn interpret(
    role: Role,
    message_bytes_max: usize,
    stream: &[u8],
    transcript: &mut Transcript,
) -> Result<(), E> {
    let mut bytes = stream.iter().copied();
    // The open message: is it text, its payload so far, and has it been reported as too large?
    let mut message: Option<(bool, Vec<u8>, bool)> = None;
    let mut declared = 0;
    loop {
        let Some((first, second)) = first_two(&mut bytes)? else { return Ok(()) };
        let (fin, opcode) = (first >= 0x80, first & 15);
        let Some(len) = length(second & 0x7f, &mut bytes)? else { return Ok(()) };
        let masked = second >= 0x80;
        let mut key = [0; 4];
        if masked {
            for place in &mut key {
                let Some(byte) = bytes.next() else { return Ok(()) };
                *place = byte;
            }
        }
        match (role, masked) {
            (Role::Server, false) => return Err(E::Unmasked),
            (Role::Client, true) => return Err(E::Masked),
            _ => {}
        }
        match (opcode, &message) {
            (0, None) => return Err(E::NothingToContinue),
            (1 | 2, Some(_)) => return Err(E::MessageInsideMessage),
            (1 | 2, None) => {
                message = Some((opcode == 1, Vec::new(), false));
                declared = 0;
            }
            _ => {}
        }
        if opcode < 8 {
            declared += u128::from(len);
        }
        if let Some((_, _, too_large)) = &mut message
            && declared > message_bytes_max as u128
            && !*too_large
        {
            *too_large = true;
            transcript.push(Ok(Item::TooLarge));
        }

        let mut payload = Vec::new();
        while (payload.len() as u64) < len {
            let Some(byte) = bytes.next() else { break };
            payload.push(byte ^ key[payload.len() % 4]);
        }
        let whole = payload.len() as u64 == len;
        if opcode >= 8 {
            if whole {
                transcript.push(Ok(control(opcode, payload)?));
            }
            if whole && opcode < 9 {
                return Ok(());
            }
        } else if let Some((is_text, all, too_large)) = &mut message {
            all.extend(payload);
            let ended = whole && fin;
            if *is_text && !*too_large {
                match str::from_utf8(all) {
                    Ok(_) => {}
                    Err(fault) if fault.error_len().is_none() && !ended => {}
                    Err(_) => return Err(E::TextNotUtf8),
                }
            }
            if ended {
                let (is_text, all, too_large) = message.take().expect("it is open");
                if is_text && !too_large {
                    let text = String::from_utf8(all).expect("it was checked just now");
                    transcript.push(Ok(Item::Text(Cow::Owned(text))));
                } else if !too_large {
                    transcript.push(Ok(Item::Binary));
                }
            }
        }
        if !whole {
            return Ok(());
        }
    }
}

/// The two bytes every frame begins with, and what can be wrong with them.
fn first_two(bytes: &mut impl Iterator<Item = u8>) -> Result<Option<(u8, u8)>, E> {
    let Some(first) = bytes.next() else { return Ok(None) };
    if first & 0b0111_0000 != 0 {
        return Err(E::ReservedBits);
    }
    let opcode = first & 15;
    if !matches!(opcode, 0 | 1 | 2 | 8 | 9 | 10) {
        return Err(E::ReservedOpcode(opcode));
    }
    if opcode >= 8 && first < 0x80 {
        return Err(E::FragmentedControl);
    }
    let Some(second) = bytes.next() else { return Ok(None) };
    if opcode >= 8 && second & 0x7f > 125 {
        return Err(E::LongControl);
    }
    Ok(Some((first, second)))
}

fn length(short: u8, bytes: &mut impl Iterator<Item = u8>) -> Result<Option<u64>, E> {
    let more = match short {
        126 => 2,
        127 => 8,
        _ => return Ok(Some(u64::from(short))),
    };
    let mut len: u64 = 0;
    for _ in 0..more {
        let Some(byte) = bytes.next() else { return Ok(None) };
        len = len << 8 | u64::from(byte);
    }
    match (more, len) {
        (2, 0..126) | (8, 0..0x1_0000) => Err(E::LengthNotMinimal),
        (_, 0x8000_0000_0000_0000..) => Err(E::LengthTopBit),
        _ => Ok(Some(len)),
    }
}

fn control(opcode: u8, payload: Vec<u8>) -> Result<Item<'static>, E> {
    match opcode {
        9 => return Ok(Item::Ping(Cow::Owned(payload))),
        10 => return Ok(Item::Pong(Cow::Owned(payload))),
        _ => {}
    }
    if payload.is_empty() {
        return Ok(Item::Close(None));
    }
    if payload.len() == 1 {
        return Err(E::HalfCloseCode);
    }
    let number = u16::from(payload[0]) * 256 + u16::from(payload[1]);
    let code = CloseCode::new(number).ok_or(E::InvalidCloseCode(number))?;
    let reason = String::from_utf8(payload[2..].to_vec()).map_err(|_| E::ReasonNotUtf8)?;
    Ok(Item::Close(Some((code, Cow::Owned(reason)))))
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
