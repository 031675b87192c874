//! A chunked body (RFC 9112, section 7.1), decoded as it arrives.

use crate::limits::{CHUNK_LINE_BYTES_MAX, RESPONSE_HEAD_BYTES_MAX};
use crate::proto::ident::hex_value;

/// Where in a chunked body the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunks {
    /// In the line that says how long the next chunk is.
    Size(SizeLine),
    /// In a chunk, with this many bytes to come, at least one.
    Data(u64),
    /// Behind a chunk's last byte: a line end.
    DataEnd,
    /// Behind the CR of that line end.
    DataEndLf,
    /// Behind the last chunk, in the trailer fields, which nobody reads.
    Trailers { line_is_empty: bool, bytes: usize },
    /// Behind all of it.
    Done,
}

/// The size line as far as it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SizeLine {
    size: u64,
    bytes: usize,
    part: SizePart,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SizePart {
    #[default]
    FirstDigit,
    Digits,
    /// Spaces that some servers pad the size with, and extensions. None of it means anything to us.
    Ignored,
    Cr,
}

/// The bytes break the coding, or exceed a bound of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadChunk(pub(super) &'static str);

impl Chunks {
    pub(super) fn new() -> Self {
        Self::Size(SizeLine::default())
    }

    /// Decodes `bytes` and appends what they hold of the body; what lies behind its end is ignored.
    pub(super) fn push(&mut self, mut bytes: &[u8], body: &mut Vec<u8>) -> Result<(), BadChunk> {
        while let Some((&byte, behind)) = bytes.split_first() {
            if let Self::Data(left) = *self {
                let len = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                let (data, behind) = bytes.split_at(len);
                body.extend_from_slice(data);
                bytes = behind;
                let left = left - len as u64;
                *self = if left == 0 { Self::DataEnd } else { Self::Data(left) };
            } else {
                *self = self.step(byte)?;
                bytes = behind;
            }
        }
        Ok(())
    }

    /// Whether the last chunk has come. Its trailers may still be missing: they carry nothing we
    /// need, and servers exist that close without them.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Self::Trailers { .. } | Self::Done)
    }

    fn step(self, byte: u8) -> Result<Self, BadChunk> {
        match (self, byte) {
            (Self::Size(line), byte) => line.step(byte),
            (Self::DataEnd, b'\r') => Ok(Self::DataEndLf),
            (Self::DataEnd | Self::DataEndLf, b'\n') => Ok(Self::new()),
            (Self::DataEnd | Self::DataEndLf, _) => {
                Err(BadChunk("a chunk is longer than its size says"))
            }
            (Self::Trailers { bytes: RESPONSE_HEAD_BYTES_MAX.., .. }, _) => {
                Err(BadChunk("trailers are too long"))
            }
            (Self::Trailers { line_is_empty: true, .. }, b'\n') => Ok(Self::Done),
            (Self::Trailers { line_is_empty, bytes }, byte) => {
                let line_is_empty = byte == b'\n' || (line_is_empty && byte == b'\r');
                Ok(Self::Trailers { line_is_empty, bytes: bytes + 1 })
            }
            (Self::Data(_) | Self::Done, _) => Ok(self),
        }
    }
}

impl SizeLine {
    fn step(mut self, byte: u8) -> Result<Chunks, BadChunk> {
        self.bytes += 1;
        if self.bytes > CHUNK_LINE_BYTES_MAX {
            return Err(BadChunk("a chunk's size line is too long"));
        }
        self.part = match (self.part, byte) {
            (SizePart::FirstDigit | SizePart::Digits, digit) if hex_value(digit).is_some() => {
                let digit = u64::from(hex_value(digit).unwrap_or(0));
                let size = self.size.checked_mul(16).ok_or(BadChunk("a chunk's size is absurd"))?;
                self.size = size | digit;
                SizePart::Digits
            }
            (SizePart::FirstDigit, _) => return Err(BadChunk("a chunk begins without its size")),
            (SizePart::Digits | SizePart::Ignored, b'\r') => SizePart::Cr,
            (_, b'\n') if self.size == 0 => {
                return Ok(Chunks::Trailers { line_is_empty: true, bytes: 0 });
            }
            (_, b'\n') => return Ok(Chunks::Data(self.size)),
            (SizePart::Digits, b' ' | b'\t' | b';') | (SizePart::Ignored, _) => SizePart::Ignored,
            (SizePart::Digits | SizePart::Cr, _) => {
                return Err(BadChunk("a chunk's size is no hexadecimal number"));
            }
        };
        Ok(Chunks::Size(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> Result<(Vec<u8>, Chunks), BadChunk> {
        let mut chunks = Chunks::new();
        let mut body = Vec::new();
        chunks.push(bytes, &mut body)?;
        let (mut slow, mut slow_body) = (Chunks::new(), Vec::new());
        for byte in bytes {
            slow.push(&[*byte], &mut slow_body).expect("what is fine whole is fine in pieces");
        }
        assert_eq!((slow, &slow_body), (chunks, &body));
        Ok((body, chunks))
    }

    #[test]
    fn what_servers_send_is_decoded() {
        for (bytes, body) in [
            (&b"5\r\nhello\r\n0\r\n\r\n"[..], &b"hello"[..]),
            (b"0\r\n\r\n", b""),
            (b"5\nhello\n0\n\n", b"hello"),
            (b"00000000000000000005\r\nhello\r\n000\r\n\r\n", b"hello"),
            (b"A  \r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
            (b"1;a=\"b;\"\r\nx\r\n1 ; c\r\ny\r\n0;last\r\n\r\n", b"xy"),
            (b"2\r\n\r\n\r\n1\r\n0\r\n0\r\nTrailer: x\r\nAnother: y\r\n\r\n", b"\r\n0"),
            (b"1\r\nx\r\n0\r\n\r\nignored", b"x"),
        ] {
            let (decoded, end) = decode(bytes).expect("a chunked body");
            assert_eq!((decoded.as_slice(), end), (body, Chunks::Done), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn an_end_is_whole_only_behind_the_last_chunk() {
        for (bytes, whole) in [
            (&b""[..], false),
            (b"5\r\nhel", false),
            (b"5\r\nhello", false),
            (b"5\r\nhello\r\n", false),
            (b"5\r\nhello\r\n0", false),
            (b"5\r\nhello\r\n0\r\n", true),
            (b"5\r\nhello\r\n0\r\nX: y\r\n", true),
        ] {
            assert_eq!(decode(bytes).expect("fine so far").1.is_whole(), whole);
        }
    }

    #[test]
    fn what_breaks_the_coding_is_refused_by_name() {
        let long_line = [b"1;", "x".repeat(CHUNK_LINE_BYTES_MAX).as_bytes()].concat();
        let long_trailers = [b"0\r\n", "x".repeat(RESPONSE_HEAD_BYTES_MAX + 1).as_bytes()].concat();
        for (bytes, what) in [
            (&b"\r\n"[..], "a chunk begins without its size"),
            (b"hello", "a chunk begins without its size"),
            (b"-5\r\n", "a chunk begins without its size"),
            (b";x\r\n", "a chunk begins without its size"),
            (b"5x\r\n", "a chunk's size is no hexadecimal number"),
            (b"5\rx", "a chunk's size is no hexadecimal number"),
            (b"10000000000000000\r\n", "a chunk's size is absurd"),
            (b"2\r\nhello", "a chunk is longer than its size says"),
            (b"2\r\nhe\rx", "a chunk is longer than its size says"),
            (&long_line, "a chunk's size line is too long"),
            (&long_trailers, "trailers are too long"),
        ] {
            assert_eq!(Chunks::new().push(bytes, &mut Vec::new()), Err(BadChunk(what)));
        }
        let mut chunks = Chunks::new();
        assert_eq!(chunks.push(b"ffffffffffffffff\r\nx", &mut Vec::new()), Ok(()));
        assert_eq!(chunks, Chunks::Data(u64::MAX - 1));
    }
}
