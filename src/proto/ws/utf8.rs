//! UTF-8 of a text that arrives in pieces cut at any byte (RFC 6455, 8.1).
//!
//! Knows nothing of frames. The bulk is `std::str::from_utf8`, which skips through ASCII by words;
//! what is added here is the character that a cut has split. Invariant: what has been accepted so
//! far is the beginning of some valid text.

use std::str;

/// A byte that no valid text could hold at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidUtf8;

/// Checks a text piece by piece and appends what is valid to a `String`, in one pass.
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
                text.push_str(str::from_utf8(valid).map_err(|_| InvalidUtf8)?);
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
