//! UTF-8 of a text that arrives in pieces cut at any byte (RFC 6455, 8.1).
//!
//! Knows nothing of frames. The bulk is `std::str::from_utf8`, which skips through ASCII by words;
//! what is added here is the character that a cut has split. Invariant: what has been accepted so
//! far is the beginning of some valid text.

use std::str;

/// A byte that no valid text could hold at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidUtf8;

/// Checks a text piece by piece and appends what is valid to a `String`, so that the whole needs no
/// second check. Only a piece that ends inside a character is gone through twice.
#[derive(Clone, Debug, Default)]
pub struct Utf8Check {
    /// The bytes of a character that has begun: `split[..split_len]`, a proper prefix of one.
    split: [u8; 4],
    /// `split_len < 4` between calls.
    split_len: u8,
}

impl Utf8Check {
    /// Takes the next piece and appends every complete character to `text`.
    ///
    /// Fails with the very byte that makes the text invalid: a piece that ends before it passes.
    /// After a failure neither `self` nor `text` is of use.
    #[expect(clippy::expect_used, reason = "the check itself says up to where text is valid")]
    pub fn push(&mut self, mut piece: &[u8], text: &mut String) -> Result<(), InvalidUtf8> {
        while self.split_len > 0
            && let Some((&byte, rest)) = piece.split_first()
        {
            piece = rest;
            self.split[usize::from(self.split_len)] = byte;
            self.split_len += 1;
            match str::from_utf8(&self.split[..usize::from(self.split_len)]) {
                Ok(character) => {
                    text.push_str(character);
                    self.split_len = 0;
                }
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Err(InvalidUtf8),
            }
        }
        match str::from_utf8(piece) {
            Ok(valid) => text.push_str(valid),
            // `error_len` is absent exactly when the piece ends inside a character.
            Err(error) if error.error_len().is_none() => {
                let (valid, begun) = piece.split_at(error.valid_up_to());
                text.push_str(str::from_utf8(valid).expect("it is valid up to there"));
                self.split[..begun.len()].copy_from_slice(begun);
                self.split_len = begun.len() as u8;
            }
            Err(_) => return Err(InvalidUtf8),
        }
        Ok(())
    }

    /// Whether the text may end here: not inside a character.
    pub fn finish(&self) -> Result<(), InvalidUtf8> {
        if self.split_len == 0 { Ok(()) } else { Err(InvalidUtf8) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Unicode Standard's table 3-7, line by line: how many bytes of `text` a valid text could
    /// begin with, and whether that beginning is itself a whole text.
    fn table_3_7(text: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while at < text.len() {
            let (tail_len, second) = match text[at] {
                0x00..=0x7f => (0, 0..=0),
                0xc2..=0xdf => (1, 0x80..=0xbf),
                0xe0 => (2, 0xa0..=0xbf),
                0xe1..=0xec | 0xee..=0xef => (2, 0x80..=0xbf),
                0xed => (2, 0x80..=0x9f),
                0xf0 => (3, 0x90..=0xbf),
                0xf1..=0xf3 => (3, 0x80..=0xbf),
                0xf4 => (3, 0x80..=0x8f),
                _ => return (at, true),
            };
            for i in 1..=tail_len {
                let allowed = if i == 1 { second.clone() } else { 0x80..=0xbf };
                match text.get(at + i) {
                    None => return (text.len(), false),
                    Some(byte) if allowed.contains(byte) => {}
                    Some(_) => return (at + i, false),
                }
            }
            at += 1 + tail_len;
        }
        (at, true)
    }

    /// Pushes the pieces; the number of pieces that were accepted, the text, and how it ended.
    fn feed<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (usize, String, bool) {
        let (mut check, mut text, mut accepted) = (Utf8Check::default(), String::new(), 0);
        for piece in pieces {
            if check.push(piece, &mut text).is_err() {
                return (accepted, text, false);
            }
            accepted += 1;
        }
        (accepted, text, check.finish().is_ok())
    }

    #[test]
    fn byte_by_byte_it_fails_with_the_very_byte_the_standard_forbids() {
        // Both sides of every border that table 3-7 draws.
        let borders = [
            0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1,
            0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff,
        ];
        let n = borders.len();
        for number in 0..n.pow(4) {
            let text = [n.pow(3), n.pow(2), n, 1].map(|place| borders[number / place % n]);
            let (good, whole) = table_3_7(&text);
            let (accepted, _, ended) = feed(text.chunks(1));
            assert_eq!(accepted, good, "{text:x?}");
            assert_eq!(ended, good == text.len() && whole, "{text:x?}");
        }
    }

    #[test]
    fn a_text_is_the_same_wherever_it_is_cut() {
        let text = "plain ASCII, long enough for the word-wise path; \u{7f}\u{80}\u{7ff}\u{800}\
                    \u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff} κόσμε 漢字 \u{1f600} end";
        for piece_len in 1..=text.len() {
            let (_, read, ended) = feed(text.as_bytes().chunks(piece_len));
            assert_eq!((read.as_str(), ended), (text, true), "pieces of {piece_len}");
        }
        for cut in 0..=text.len() {
            let (first, second) = text.as_bytes().split_at(cut);
            let (_, read, ended) = feed([first, &[], second].into_iter());
            assert_eq!((read.as_str(), ended), (text, true), "cut at {cut}");
            let (_, _, ended) = feed([first].into_iter());
            assert_eq!(ended, text.is_char_boundary(cut), "ends at {cut}");
        }
    }

    #[test]
    fn a_forbidden_byte_is_found_anywhere_in_a_long_piece() {
        for at in 0..100 {
            for (character, valid) in [("ü".as_bytes(), true), (b"\xff", false), (b"\x80", false)]
            {
                let mut text = vec![b'a'; 100];
                text.splice(at..at, character.iter().copied());
                let (_, _, ended) = feed([text.as_slice()].into_iter());
                assert_eq!(ended, valid, "{character:x?} at {at}");
                for cut in [at, at + 1] {
                    let (first, second) = text.split_at(cut);
                    let (_, _, ended) = feed([first, second].into_iter());
                    assert_eq!(ended, valid, "{character:x?} at {at}, cut at {cut}");
                }
            }
        }
    }
}
