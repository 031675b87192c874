//! What is kept of a process's output: the beginning of the one stream, the end of the other.
//!
//! Bounds hold while bytes are taken in, not after. Invariant: neither ever holds more than its bound.

use crate::model::secrets::Secrets;

/// The beginning of a stream.
#[derive(Debug)]
pub struct Head {
    bytes: Vec<u8>,
    bytes_max: usize,
    /// More came than fits.
    cut: bool,
}

impl Head {
    /// Keeps the first `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), bytes_max, cut: false }
    }

    /// Takes in what comes next.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = self.bytes_max - self.bytes.len();
        self.cut |= bytes.len() > room;
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// The text it was: byte for byte, but for bytes that are not UTF-8, which become U+FFFD. Where it
    /// was cut, it ends with a whole character and says so.
    pub fn into_text(mut self) -> String {
        if self.cut
            && let Some(last) = self.bytes.utf8_chunks().last()
        {
            // The beginning of a character whose rest was cut off, or else no character at all.
            let kept = self.bytes.len() - last.invalid().len();
            self.bytes.truncate(kept);
        }
        let mut text = match String::from_utf8(self.bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        if self.cut {
            let notice = format!("\n[cut: the output is longer than {} bytes]", self.bytes_max);
            text.push_str(&notice);
        }
        text
    }
}

/// The end of a stream.
#[derive(Debug)]
pub struct Tail {
    bytes: Vec<u8>,
    bytes_max: usize,
    /// More came than fits.
    cut: bool,
}

impl Tail {
    /// Keeps the last `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), bytes_max, cut: false }
    }

    /// Takes in what comes next.
    pub fn push(&mut self, bytes: &[u8]) {
        let bytes = match bytes.len().checked_sub(self.bytes_max) {
            None => bytes,
            Some(over) => {
                self.cut |= over > 0 || !self.bytes.is_empty();
                self.bytes.clear();
                &bytes[over..]
            }
        };
        let over = (self.bytes.len() + bytes.len()).saturating_sub(self.bytes_max);
        self.cut |= over > 0;
        self.bytes.drain(..over);
        self.bytes.extend_from_slice(bytes);
    }

    /// The text it was, without white space around it and without any of these secrets. Bytes that are
    /// not UTF-8 become U+FFFD; where its beginning was cut off, an ellipsis says so.
    pub(super) fn into_text(self, secrets: &Secrets) -> String {
        let whole = |byte: &u8| !matches!(byte, 0x80..=0xBF);
        // At most three bytes continue a character whose beginning is gone.
        let begin = self.bytes.iter().take(4).position(whole).unwrap_or(0);
        let start = if self.cut { begin } else { 0 };
        let text = String::from_utf8_lossy(&self.bytes[start..]);
        if self.cut {
            format!("...{}", secrets.redact_tail(&text).trim())
        } else {
            secrets.redact(&text).trim().to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: &str = "\n[cut: the output is longer than 6 bytes]";

    /// The bytes whole, and one at a time.
    fn both_ways<T>(bytes: &[u8], new: impl Fn() -> T, push: impl Fn(&mut T, &[u8])) -> [T; 2] {
        let (mut whole, mut single) = (new(), new());
        push(&mut whole, bytes);
        bytes.chunks(1).for_each(|byte| push(&mut single, byte));
        [whole, single]
    }

    #[test]
    fn the_beginning_ends_with_a_whole_character_and_says_that_it_was_cut() {
        let cut = |text: &str| format!("{text}{CUT}");
        for (bytes, text) in [
            (&b""[..], String::new()),
            (b"two\n\n", "two\n\n".into()),
            (b"sixsix", "sixsix".into()),
            (b"sevenxx", cut("sevenx")),
            ("äöü".as_bytes(), "äöü".into()),
            ("äöxü".as_bytes(), cut("äöx")),
            ("abcd𝄞".as_bytes(), cut("abcd")),
            (b"a\xFFb", "a\u{FFFD}b".into()),
            (b"abc\xC3", "abc\u{FFFD}".into()),
            (b"\xFF\xFF\xFF\xFF\xFFabc", cut("\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}a")),
        ] {
            for head in both_ways(bytes, || Head::new(6), Head::push) {
                assert!(head.bytes.len() <= 6);
                assert_eq!(head.into_text(), text, "{bytes:?}");
            }
        }
    }

    #[test]
    fn the_end_begins_with_a_whole_character_and_says_that_it_was_cut() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b" ab\n", "ab"),
            (b"sixsix", "sixsix"),
            (b"123456789", "...456789"),
            ("ääää".as_bytes(), "...äää"),
            ("xäääx".as_bytes(), "...ääx"),
            ("𝄞bcde".as_bytes(), "...bcde"),
            (b"1234567890\n\n", "...7890"),
            (b"ab\xFF", "ab\u{FFFD}"),
        ] {
            for tail in both_ways(bytes, || Tail::new(6), Tail::push) {
                assert!(tail.bytes.len() <= 6);
                assert_eq!(tail.into_text(&Secrets::default()), text, "{bytes:?}");
            }
        }
    }
}
