//! The header of one frame (RFC 6455, 5.2), from bytes and to bytes.
//!
//! Knows neither the payload, nor who may mask (5.1), nor which frame may follow which (5.4).
//! Invariant: a [`FrameHeader`] that [`FrameHeader::decode`] returns is one the RFC allows.

use std::ops::Deref;

use super::error::ProtocolError;

/// Bytes of the longest header: two, a 64-bit length, a masking key.
pub const HEADER_BYTES_MAX: usize = 14;
/// Payload bytes of the longest control frame (5.5).
pub const CONTROL_BYTES_MAX: usize = 125;

/// What a frame carries. The reserved opcodes do not exist here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// A further fragment of the message begun by a text or binary frame without FIN.
    Continuation = 0,
    /// A text message, or its first fragment.
    Text = 1,
    /// A binary message, or its first fragment.
    Binary = 2,
    /// Nothing follows this frame.
    Close = 8,
    /// Has to be answered with a pong of the same payload.
    Ping = 9,
    /// Answers a ping, or says that the sender is alive.
    Pong = 10,
}

impl Opcode {
    /// Control frames may stand between the fragments of a message; they are never fragmented.
    pub fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }

    fn from_bits(bits: u8) -> Result<Self, ProtocolError> {
        Ok(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return Err(ProtocolError::ReservedOpcode(bits)),
        })
    }
}

/// A frame without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Whether the message ends with this frame.
    pub fin: bool,
    /// What the frame carries.
    pub opcode: Opcode,
    /// The masking key, if the payload is masked.
    pub mask: Option<[u8; 4]>,
    /// Bytes of the payload; at most 2^63 - 1.
    pub len: u64,
}

impl FrameHeader {
    /// Reads the header at the beginning of `bytes` and says how many of them it is.
    ///
    /// `Ok(None)`: the header is not complete; it is as soon as [`HEADER_BYTES_MAX`] are there. A
    /// fault is reported from the byte on that shows it, whether or not the rest has arrived. Of
    /// several faults the one that stands first in the header is reported.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, ProtocolError> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err(ProtocolError::ReservedBits);
        }
        let fin = first & 0x80 != 0;
        let opcode = Opcode::from_bits(first & 0x0f)?;
        if opcode.is_control() && !fin {
            return Err(ProtocolError::FragmentedControl);
        }

        let Some(&second) = bytes.get(1) else { return Ok(None) };
        let short_len = second & 0x7f;
        if opcode.is_control() && usize::from(short_len) > CONTROL_BYTES_MAX {
            return Err(ProtocolError::LongControl);
        }
        let rest = &bytes[2..];
        // The length, and the least one that needs this form.
        let (len, least, rest) = match short_len {
            LEN_16 => {
                let Some((wide, rest)) = rest.split_first_chunk() else { return Ok(None) };
                (u64::from(u16::from_be_bytes(*wide)), 126, rest)
            }
            LEN_64 => {
                let Some((wide, rest)) = rest.split_first_chunk() else { return Ok(None) };
                (u64::from_be_bytes(*wide), 0x1_0000, rest)
            }
            short => (u64::from(short), 0, rest),
        };
        if len >> 63 != 0 {
            return Err(ProtocolError::LengthTopBit);
        }
        if len < least {
            return Err(ProtocolError::LengthNotMinimal);
        }

        let (mask, rest) = if second & 0x80 == 0 {
            (None, rest)
        } else {
            let Some((key, rest)) = rest.split_first_chunk() else { return Ok(None) };
            (Some(*key), rest)
        };
        Ok(Some((Self { fin, opcode, mask, len }, bytes.len() - rest.len())))
    }

    /// The header as it is sent, its length in the shortest form.
    pub fn encode(&self) -> HeaderBytes {
        let mut header = HeaderBytes { bytes: [0; HEADER_BYTES_MAX], len: 0 };
        let mask_bit = if self.mask.is_some() { 0x80 } else { 0 };
        header.push(&[(u8::from(self.fin) << 7) | self.opcode as u8]);
        match self.len {
            0..126 => header.push(&[mask_bit | self.len as u8]),
            126..0x1_0000 => {
                header.push(&[mask_bit | LEN_16]);
                header.push(&(self.len as u16).to_be_bytes());
            }
            _ => {
                header.push(&[mask_bit | LEN_64]);
                header.push(&self.len.to_be_bytes());
            }
        }
        if let Some(key) = self.mask {
            header.push(&key);
        }
        header
    }
}

/// An encoded header: at most [`HEADER_BYTES_MAX`] bytes, read as a slice, never on the heap.
#[derive(Clone, Copy, Debug)]
pub struct HeaderBytes {
    bytes: [u8; HEADER_BYTES_MAX],
    /// `len <= HEADER_BYTES_MAX`; `bytes` beyond it are zero.
    len: u8,
}

impl HeaderBytes {
    fn push(&mut self, part: &[u8]) {
        let at = usize::from(self.len);
        self.bytes[at..at + part.len()].copy_from_slice(part);
        self.len += part.len() as u8;
    }
}

impl Deref for HeaderBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// In the length's first byte: the length follows in two bytes.
const LEN_16: u8 = 126;
/// In the length's first byte: the length follows in eight bytes.
const LEN_64: u8 = 127;

#[cfg(test)]
mod tests {
    use super::*;
    use ProtocolError as E;

    fn header(fin: bool, opcode: Opcode, mask: Option<[u8; 4]>, len: u64) -> FrameHeader {
        FrameHeader { fin, opcode, mask, len }
    }

    #[test]
    fn headers_and_their_bytes_correspond() {
        let key = Some([1, 2, 3, 4]);
        let table: &[(FrameHeader, &[u8])] = &[
            (header(true, Opcode::Text, None, 0), &[0x81, 0]),
            (header(false, Opcode::Text, None, 1), &[0x01, 1]),
            (header(false, Opcode::Continuation, None, 2), &[0x00, 2]),
            (header(true, Opcode::Continuation, None, 2), &[0x80, 2]),
            (header(true, Opcode::Binary, None, 125), &[0x82, 125]),
            (header(true, Opcode::Binary, None, 126), &[0x82, 126, 0, 126]),
            (header(true, Opcode::Binary, None, 0xffff), &[0x82, 126, 0xff, 0xff]),
            (header(true, Opcode::Binary, None, 0x1_0000), &[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
            (
                header(true, Opcode::Text, None, u64::MAX >> 1),
                &[0x81, 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            ),
            (header(true, Opcode::Close, None, 2), &[0x88, 2]),
            (header(true, Opcode::Ping, None, 125), &[0x89, 125]),
            (header(true, Opcode::Pong, key, 0), &[0x8a, 0x80, 1, 2, 3, 4]),
            (header(true, Opcode::Text, key, 5), &[0x81, 0x85, 1, 2, 3, 4]),
            (header(true, Opcode::Text, key, 300), &[0x81, 0xfe, 1, 44, 1, 2, 3, 4]),
            (
                header(true, Opcode::Text, key, 1 << 20),
                &[0x81, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 0, 1, 2, 3, 4],
            ),
        ];
        for &(header, bytes) in table {
            assert_eq!(*header.encode(), *bytes, "{header:?}");
            let mut stream = bytes.to_vec();
            stream.extend_from_slice(b"payload");
            assert_eq!(FrameHeader::decode(&stream), Ok(Some((header, bytes.len()))));
            for cut in 0..bytes.len() {
                assert_eq!(FrameHeader::decode(&bytes[..cut]), Ok(None), "{header:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_fault_is_reported_from_the_byte_on_that_shows_it() {
        // What is sent, and how many bytes of it suffice.
        let table: &[(&[u8], usize, ProtocolError)] = &[
            (&[0xc1, 0], 1, E::ReservedBits),
            (&[0xa1, 0], 1, E::ReservedBits),
            (&[0x91, 0], 1, E::ReservedBits),
            (&[0xf3, 0], 1, E::ReservedBits),
            (&[0x83, 0], 1, E::ReservedOpcode(3)),
            (&[0x07, 0], 1, E::ReservedOpcode(7)),
            (&[0x8b, 0], 1, E::ReservedOpcode(11)),
            (&[0x0f, 0], 1, E::ReservedOpcode(15)),
            (&[0x08, 0], 1, E::FragmentedControl),
            (&[0x09, 0], 1, E::FragmentedControl),
            (&[0x0a, 0], 1, E::FragmentedControl),
            (&[0x89, 126, 0, 126], 2, E::LongControl),
            (&[0x88, 127, 0, 0, 0, 0, 0, 1, 0, 0], 2, E::LongControl),
            (&[0x81, 126, 0, 125], 4, E::LengthNotMinimal),
            (&[0x81, 0xfe, 0, 0, 1, 2, 3, 4], 4, E::LengthNotMinimal),
            (&[0x81, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff], 10, E::LengthNotMinimal),
            (&[0x81, 127, 0, 0, 0, 0, 0, 0, 0, 1], 10, E::LengthNotMinimal),
            (&[0x81, 127, 0x80, 0, 0, 0, 0, 0, 0, 0], 10, E::LengthTopBit),
            (&[0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 10, E::LengthTopBit),
        ];
        for &(bytes, suffice, fault) in table {
            for cut in 0..=bytes.len() {
                let expected = if cut < suffice { Ok(None) } else { Err(fault) };
                assert_eq!(FrameHeader::decode(&bytes[..cut]), expected, "{bytes:x?} cut at {cut}");
            }
        }
    }
}
