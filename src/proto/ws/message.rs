//! From bytes to messages: fragments joined, control frames taken out from between them (RFC 6455,
//! 5.4), text checked while it arrives (8.1), and what nobody wants discarded while it arrives.
//!
//! Knows no connection: it neither answers a ping nor closes anything. Invariants: what is kept of a
//! message grows with what has arrived of it, not with what its headers declare, and holds at most
//! `message_bytes_max` bytes; nothing is kept between messages; the work is linear in the bytes,
//! however they are cut.

#![expect(
    clippy::mut_mut,
    reason = "the input is a cursor: a slice that is moved past what was used"
)]

use std::borrow::Cow;
use std::{mem, str};

use super::close::{CloseCode, parse_close_payload};
use super::error::ProtocolError;
use super::frame::{FrameHeader, HEADER_BYTES_MAX, Opcode};
use super::mask;
use super::utf8::Utf8Check;

/// Which end of the connection reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads what clients send: every frame has to be masked (5.1).
    Server,
    /// Reads what a server sends: no frame may be masked (5.1).
    Client,
}

/// One message or control frame. It borrows from the input when it lay in it whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A text message.
    Text(Cow<'a, str>),
    /// A binary message.
    Binary(Cow<'a, [u8]>),
    /// A message declares more than the bound; the item comes with the header that does so.
    ///
    /// The message is not reported again: the rest of its payload and its further fragments are
    /// discarded as they arrive, and not checked for UTF-8.
    TooLarge,
    /// Has to be answered with a pong of the same payload.
    Ping(Cow<'a, [u8]>),
    /// Answers a ping, or came unasked; never to be answered.
    Pong(Cow<'a, [u8]>),
    /// The peer's last frame: code and reason, if it gave any.
    Close(Option<(CloseCode, Cow<'a, str>)>),
}

/// Turns the bytes one peer sends into [`Item`]s.
#[derive(Debug)]
pub struct Assembler {
    role: Role,
    message_bytes_max: u32,
    phase: Phase,
    message: Message,
    /// The payload of a control frame that arrives in pieces; empty otherwise.
    control: Vec<u8>,
}

impl Assembler {
    /// An assembler for a new connection.
    ///
    /// `message_bytes_max` bounds the payload of one message, all fragments together: exactly that
    /// many are accepted. It is at most 2^32 - 1.
    #[expect(clippy::expect_used, reason = "the bound is the program's, never the peer's")]
    pub fn new(role: Role, message_bytes_max: usize) -> Self {
        Self {
            role,
            message_bytes_max: u32::try_from(message_bytes_max)
                .expect("a message bound fits 32 bits"),
            phase: Phase::Head(PartialHead::default()),
            message: Message::None,
            control: Vec::new(),
        }
    }

    /// Reads on until one item is complete, and moves `input` past what was used.
    ///
    /// `Ok(None)`: everything is used up, `input` is empty; what is incomplete is kept inside. The
    /// payload bytes that were used have been unmasked in place.
    ///
    /// After [`Item::Close`] (5.5.1) and after an error (7.1.7) the peer is not heard any more:
    /// every further input is used up and yields nothing.
    pub fn push<'a>(
        &mut self,
        input: &mut &'a mut [u8],
    ) -> Result<Option<Item<'a>>, ProtocolError> {
        let result = self.advance(input);
        if matches!(result, Err(_) | Ok(Some(Item::Close(_)))) {
            self.phase = Phase::Ended;
            self.message = Message::None;
        }
        result
    }

    /// Whether the peer stands between two messages; then nothing is kept but `self`, which could
    /// be replaced by a new one.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Head(PartialHead { len: 0, .. }))
            && matches!(self.message, Message::None)
    }

    fn advance<'a>(&mut self, input: &mut &'a mut [u8]) -> Result<Option<Item<'a>>, ProtocolError> {
        loop {
            match &mut self.phase {
                Phase::Head(partial) => {
                    let Some(header) = partial.complete(input)? else { return Ok(None) };
                    self.phase = Phase::Payload(Frame::new(&header, self.role)?);
                    if self.begin(&header)? == Size::Exceeded {
                        return Ok(Some(Item::TooLarge));
                    }
                }
                Phase::Payload(frame) => {
                    if input.is_empty() && frame.left > 0 {
                        return Ok(None);
                    }
                    let piece = frame.take(input);
                    let Frame { opcode, fin, left, .. } = *frame;
                    if left == 0 {
                        self.phase = Phase::Head(PartialHead::default());
                    }
                    let item = if opcode.is_control() {
                        self.control_piece(opcode, piece, left == 0)?
                    } else {
                        self.data_piece(piece, fin && left == 0)?
                    };
                    if item.is_some() {
                        return Ok(item);
                    }
                }
                Phase::Ended => {
                    mem::take(input);
                    return Ok(None);
                }
            }
        }
    }

    /// Checks that the frame may stand here (5.4) and adds its length to its message's.
    fn begin(&mut self, header: &FrameHeader) -> Result<Size, ProtocolError> {
        let open = !matches!(self.message, Message::None);
        match header.opcode {
            Opcode::Text | Opcode::Binary if open => {
                return Err(ProtocolError::MessageInsideMessage);
            }
            Opcode::Text => self.message = Message::text(),
            Opcode::Binary => self.message = Message::Binary { bytes: 0, payload: Vec::new() },
            Opcode::Continuation if open => {}
            Opcode::Continuation => return Err(ProtocolError::NothingToContinue),
            Opcode::Close | Opcode::Ping | Opcode::Pong => return Ok(Size::Within),
        }
        let (Message::Text { bytes, .. } | Message::Binary { bytes, .. }) = &mut self.message
        else {
            return Ok(Size::Within);
        };
        let total = u64::from(*bytes) + header.len;
        if total > u64::from(self.message_bytes_max) {
            self.message = Message::TooLarge;
            return Ok(Size::Exceeded);
        }
        *bytes = total as u32;
        Ok(Size::Within)
    }

    /// Takes the next piece of the open message; `last`: the message ends with it.
    fn data_piece<'a>(
        &mut self,
        piece: &'a [u8],
        last: bool,
    ) -> Result<Option<Item<'a>>, ProtocolError> {
        if !last {
            match &mut self.message {
                Message::Text { text, utf8, .. } => utf8.push(piece, text)?,
                Message::Binary { payload, .. } => payload.extend_from_slice(piece),
                Message::TooLarge | Message::None => {}
            }
            return Ok(None);
        }
        Ok(match mem::replace(&mut self.message, Message::None) {
            Message::Text { bytes, .. } if bytes as usize == piece.len() => {
                let text = str::from_utf8(piece).map_err(|_| ProtocolError::TextNotUtf8)?;
                Some(Item::Text(Cow::Borrowed(text)))
            }
            Message::Text { mut text, mut utf8, .. } => {
                utf8.push(piece, &mut text)?;
                utf8.finish()?;
                Some(Item::Text(Cow::Owned(text)))
            }
            Message::Binary { bytes, .. } if bytes as usize == piece.len() => {
                Some(Item::Binary(Cow::Borrowed(piece)))
            }
            Message::Binary { mut payload, .. } => {
                payload.extend_from_slice(piece);
                Some(Item::Binary(Cow::Owned(payload)))
            }
            Message::TooLarge | Message::None => None,
        })
    }

    /// Takes the next piece of a control frame; `last`: the frame ends with it.
    fn control_piece<'a>(
        &mut self,
        opcode: Opcode,
        piece: &'a [u8],
        last: bool,
    ) -> Result<Option<Item<'a>>, ProtocolError> {
        let payload = if last && self.control.is_empty() {
            Cow::Borrowed(piece)
        } else {
            self.control.extend_from_slice(piece);
            if !last {
                return Ok(None);
            }
            Cow::Owned(mem::take(&mut self.control))
        };
        Ok(Some(match opcode {
            Opcode::Ping => Item::Ping(payload),
            Opcode::Pong => Item::Pong(payload),
            _ => close_item(payload)?,
        }))
    }
}

fn close_item(payload: Cow<'_, [u8]>) -> Result<Item<'_>, ProtocolError> {
    Ok(Item::Close(match payload {
        Cow::Borrowed(payload) => {
            parse_close_payload(payload)?.map(|(code, reason)| (code, Cow::Borrowed(reason)))
        }
        Cow::Owned(payload) => parse_close_payload(&payload)?
            .map(|(code, reason)| (code, Cow::Owned(reason.to_owned()))),
    }))
}

/// What the next byte belongs to.
#[derive(Debug)]
enum Phase {
    Head(PartialHead),
    Payload(Frame),
    /// A close frame or an error was seen.
    Ended,
}

/// The data message that is open: from its first frame's header to its last frame's end. `bytes`
/// is what its frames have declared so far, at most `message_bytes_max`.
#[derive(Debug)]
enum Message {
    None,
    Text {
        bytes: u32,
        text: String,
        utf8: Utf8Check,
    },
    Binary {
        bytes: u32,
        payload: Vec<u8>,
    },
    /// Has been reported as such.
    TooLarge,
}

impl Message {
    fn text() -> Self {
        Self::Text { bytes: 0, text: String::new(), utf8: Utf8Check::default() }
    }
}

/// Whether a message still fits its bound after a header was read.
#[derive(PartialEq, Eq)]
enum Size {
    Within,
    /// With this very header it does so no longer.
    Exceeded,
}

/// A header that has not arrived completely.
#[derive(Debug, Default)]
struct PartialHead {
    bytes: [u8; HEADER_BYTES_MAX],
    /// `len < HEADER_BYTES_MAX`: that many bytes always hold a header.
    len: u8,
}

impl PartialHead {
    /// The header, once `input` completes it; moves `input` past what belongs to it.
    fn complete(&mut self, input: &mut &mut [u8]) -> Result<Option<FrameHeader>, ProtocolError> {
        if self.len == 0
            && let Some((header, used)) = FrameHeader::decode(input)?
        {
            skip(input, used);
            return Ok(Some(header));
        }
        let kept = usize::from(self.len);
        let taken = input.len().min(HEADER_BYTES_MAX - kept);
        self.bytes[kept..kept + taken].copy_from_slice(&input[..taken]);
        let Some((header, used)) = FrameHeader::decode(&self.bytes[..kept + taken])? else {
            self.len += taken as u8;
            skip(input, taken);
            return Ok(None);
        };
        skip(input, used - kept);
        Ok(Some(header))
    }
}

/// A frame whose payload is arriving.
#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: Opcode,
    fin: bool,
    /// The masking key, turned so that its first byte belongs to the next payload byte.
    mask: Option<[u8; 4]>,
    /// Payload bytes still to come.
    left: u64,
}

impl Frame {
    fn new(header: &FrameHeader, reader: Role) -> Result<Self, ProtocolError> {
        match (reader, header.mask) {
            (Role::Server, None) => return Err(ProtocolError::Unmasked),
            (Role::Client, Some(_)) => return Err(ProtocolError::Masked),
            (Role::Server, Some(_)) | (Role::Client, None) => {}
        }
        let FrameHeader { fin, opcode, mask, len } = *header;
        Ok(Self { opcode, fin, mask, left: len })
    }

    /// Cuts off `input` what belongs to this frame's payload, and unmasks it.
    fn take<'a>(&mut self, input: &mut &'a mut [u8]) -> &'a [u8] {
        let taken = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len());
        let piece = skip(input, taken);
        self.left -= taken as u64;
        if let Some(key) = &mut self.mask {
            mask::apply(piece, *key, 0);
            key.rotate_left(taken % 4);
        }
        piece
    }
}

/// Cuts the first `len` bytes off `input`.
fn skip<'a>(input: &mut &'a mut [u8], len: usize) -> &'a mut [u8] {
    let (taken, rest) = mem::take(input).split_at_mut(len);
    *input = rest;
    taken
}

#[cfg(test)]
mod tests;
