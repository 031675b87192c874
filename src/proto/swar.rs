//! Looking for a few special bytes eight at a time, in safe code: SIMD within a register.
//!
//! Text is mostly plain, and what reads it mostly asks how far that goes.

/// How many bytes at the beginning of `bytes` stand for themselves inside a JSON string: neither a
/// quote nor a backslash nor a control character (RFC 8259, section 7).
pub(crate) fn json_plain_len(bytes: &[u8]) -> usize {
    prefix_len(
        bytes,
        |word| equal(word, b'"') | equal(word, b'\\') | below(word, 0x20),
        |byte| matches!(byte, b'"' | b'\\' | ..0x20),
    )
}

/// How many bytes at the beginning of `bytes` belong to a line: neither CR nor LF.
pub(super) fn line_len(bytes: &[u8]) -> usize {
    prefix_len(
        bytes,
        |word| equal(word, b'\r') | equal(word, b'\n'),
        |byte| matches!(byte, b'\r' | b'\n'),
    )
}

/// How many bytes at the beginning of `bytes` are no control characters (below 0x20).
pub(crate) fn printable_len(bytes: &[u8]) -> usize {
    prefix_len(bytes, |word| below(word, 0x20), |byte| *byte < 0x20)
}

/// How many bytes at the end of `bytes` stand behind the last LF.
pub(crate) fn last_line_len(bytes: &[u8]) -> usize {
    let (rest, words) = bytes.as_rchunks::<8>();
    for (index, chunk) in words.iter().rev().enumerate() {
        // What borrows from its neighbours may mark one too many above a mark, never a word without.
        if equal(u64::from_le_bytes(*chunk), b'\n') != 0 {
            let at = chunk.iter().rev().take_while(|byte| **byte != b'\n').count();
            return index * 8 + at;
        }
    }
    words.len() * 8 + rest.iter().rev().take_while(|byte| **byte != b'\n').count()
}

/// How many bytes lie before the first special one. `word` sets the high bit of the first special
/// byte of a word, and perhaps those of later ones; `byte` says the same of one byte.
#[inline]
fn prefix_len(bytes: &[u8], word: impl Fn(u64) -> u64, byte: impl Fn(&u8) -> bool) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, chunk) in words.iter().enumerate() {
        // Little-endian, so that the first byte is the lowest and its bit is found from below.
        let special = word(u64::from_le_bytes(*chunk));
        if special != 0 {
            return index * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    words.len() * 8 + rest.iter().position(byte).unwrap_or(rest.len())
}

/// The number that eight lower-case hex digits spell, the most significant first; nothing if one of
/// them is another byte.
pub(crate) fn parse_hex8(text: [u8; 8]) -> Option<u32> {
    let word = u64::from_le_bytes(text);
    // Of the bytes that pass in the end only letters have this bit, and stand 9 below their value.
    let letters = word >> 6 & ONES;
    let nibbles = (word & (ONES * 0x0f)) + letters * 9;
    let bytes = (nibbles << 4 | nibbles >> 8) & 0x00ff_00ff_00ff_00ff;
    let halves = (bytes << 8 | bytes >> 16) & 0x0000_ffff_0000_ffff;
    let value = (halves << 16 | halves >> 32) as u32;
    (hex8(value) == text).then_some(value)
}

/// The eight lower-case hex digits of a number, the most significant first.
pub(crate) fn hex8(value: u32) -> [u8; 8] {
    let value = u64::from(value);
    let halves = (value << 32 | value >> 16) & 0x0000_ffff_0000_ffff;
    let bytes = (halves << 16 | halves >> 8) & 0x00ff_00ff_00ff_00ff;
    let nibbles = (bytes << 8 | bytes >> 4) & (ONES * 0x0f);
    let letters = (nibbles + ONES * 6) >> 4 & ONES;
    // From behind `9` to `a` it is 39.
    (nibbles + ONES * u64::from(b'0') + letters * 39).to_le_bytes()
}

/// One in every byte.
const ONES: u64 = u64::MAX / 0xff;

/// Marks the bytes less than `bound`, which is at most 0x80, with their high bit. The subtraction
/// borrows only upwards from a byte that is marked itself, so the lowest mark is exact.
fn below(word: u64, bound: u8) -> u64 {
    word.wrapping_sub(ONES * u64::from(bound)) & !word & (ONES << 7)
}

/// Marks the bytes that are `byte`, likewise.
fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * u64::from(byte)), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirrored(bytes: &[u8]) -> Vec<u8> {
        bytes.iter().rev().copied().collect()
    }

    #[test]
    fn eight_hex_digits_are_read_as_they_are_written_and_nothing_else_is() {
        let mut value = 1_u32;
        for _ in 0..10_000 {
            value = value.wrapping_mul(0x9e37_79b1).rotate_left(7) ^ 0x0123_4567;
            let text = hex8(value);
            assert_eq!(String::from_utf8_lossy(&text), format!("{value:08x}"));
            assert_eq!(parse_hex8(text), Some(value));
        }
        for place in 0..8 {
            for byte in 0..=255_u8 {
                let mut text = *b"09af5c3e";
                text[place] = byte;
                let is_digit = matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                assert_eq!(parse_hex8(text).is_some(), is_digit, "{byte:#x} at {place}");
            }
        }
    }

    #[test]
    fn a_special_byte_is_found_at_every_place_among_all_others() {
        type Case = (fn(&[u8]) -> usize, fn(u8) -> bool);
        let cases: [Case; 4] = [
            (json_plain_len, |byte| byte < 0x20 || byte == b'"' || byte == b'\\'),
            (line_len, |byte| byte == b'\r' || byte == b'\n'),
            (printable_len, |byte| byte < 0x20),
            (|bytes| last_line_len(&mirrored(bytes)), |byte| byte == b'\n'),
        ];
        for (len, is_special) in cases {
            for special in (0..=255).filter(|byte| is_special(*byte)) {
                for plain in (0..=255).filter(|byte| !is_special(*byte)) {
                    for place in 0..17 {
                        let mut bytes = [plain; 17];
                        assert_eq!(len(&bytes), 17);
                        bytes[place] = special;
                        assert_eq!(len(&bytes), place);
                    }
                }
            }
            assert_eq!(len(&[]), 0);
        }
    }
}
