//! RFC 6455 by the letter and without regard to cost: the whole stream is there, and one byte is
//! taken after the other. Shares nothing with what it judges but the values it speaks in.

use std::borrow::Cow;
use std::str;

use super::super::close::CloseCode;
use super::super::error::ProtocolError as E;
use super::super::message::{Item, Role};
use super::Transcript;

/// What has to be said about `stream`, which may end anywhere.
pub(super) fn transcript(role: Role, message_bytes_max: usize, stream: &[u8]) -> Transcript {
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
                    transcript.push(Ok(Item::Binary(Cow::Owned(all))));
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
