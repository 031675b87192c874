//! The check: one pass over a whole document, without recursion and without allocation.
//!
//! It knows the grammar of RFC 8259 and the two rules of our own, depth and surrogates; what the
//! document means is not looked at.

use std::fmt;

use super::value::Value;
use crate::limits::JSON_DEPTH_MAX;
use crate::proto::ident::hex_value;
use crate::proto::swar::json_plain_len;

/// A JSON document that has passed the check.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    text: &'a str,
}

impl<'a> Document<'a> {
    /// Checks all of `doc`: JSON in UTF-8, at most [`JSON_DEPTH_MAX`] arrays and objects inside one
    /// another, every escape part of a Unicode string.
    pub fn parse(doc: &'a [u8]) -> Result<Self, Fault> {
        Self::check(doc, Surrogates::Refused)
    }

    /// As [`Document::parse`], but an escape that is half of a surrogate pair passes and reads as
    /// U+FFFD, as in text that comes from a model (clarifications, section 3).
    pub fn parse_lossy(doc: &'a [u8]) -> Result<Self, Fault> {
        Self::check(doc, Surrogates::Replaced)
    }

    fn check(doc: &'a [u8], surrogates: Surrogates) -> Result<Self, Fault> {
        let text = std::str::from_utf8(doc)
            .map_err(|error| Fault { at: error.valid_up_to(), what: What::NotUtf8 })?;
        Scan { bytes: doc, at: 0, surrogates }.document()?;
        Ok(Self { text })
    }

    /// The value that the document is.
    pub fn value(self) -> Value<'a> {
        Value::trusted(self.text.trim_matches(is_space))
    }
}

/// Checks all of `doc` as [`Document::parse`] does.
pub fn check(doc: &[u8]) -> Result<(), Fault> {
    Document::parse(doc).map(drop)
}

/// Why a document is refused, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// How many bytes of the document lie before the fault.
    pub at: usize,
    /// What is wrong there.
    pub what: What,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

impl std::error::Error for Fault {}

/// One way in which a document can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Bytes that are not UTF-8.
    NotUtf8,
    /// The document ends before its value does; an empty one too.
    End,
    /// Something that begins no value, or is only the beginning of `true`, `false` or `null`.
    NoValue,
    /// A member of an object does not begin with a string.
    NoKey,
    /// No colon behind a key.
    NoColon,
    /// Neither a comma nor the end of its array or object behind a value.
    NoComma,
    /// Something behind the document's value.
    Trailing,
    /// A number that JSON does not spell so.
    Number,
    /// An unescaped control character in a string.
    Control,
    /// A backslash followed by what is no escape.
    Escape,
    /// A `\u` escape that is half of a surrogate pair.
    LoneSurrogate,
    /// More arrays and objects inside one another than [`JSON_DEPTH_MAX`].
    TooDeep,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotUtf8 => "not UTF-8",
            Self::End => "unexpected end",
            Self::NoValue => "expected a value",
            Self::NoKey => "expected a key in quotes",
            Self::NoColon => "expected a colon",
            Self::NoComma => "expected a comma or a closing bracket",
            Self::Trailing => "unexpected text behind the value",
            Self::Number => "invalid number",
            Self::Control => "control character in a string",
            Self::Escape => "invalid escape",
            Self::LoneSurrogate => "escape that denotes no Unicode string",
            Self::TooDeep => return write!(f, "nested deeper than {JSON_DEPTH_MAX}"),
        })
    }
}

/// The four characters JSON allows between tokens; fewer than Rust or ASCII call white space.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Surrogates {
    Refused,
    Replaced,
}

/// What is open around the scan's place, one bit for each: set for an object, clear for an array.
#[derive(Default)]
struct Open {
    objects: u128,
    depth: usize,
}

const _: () = assert!(JSON_DEPTH_MAX <= u128::BITS as usize);

impl Open {
    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }

    fn push(&mut self, object: bool) -> Result<(), What> {
        if self.depth == JSON_DEPTH_MAX {
            return Err(What::TooDeep);
        }
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(object);
        Ok(())
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.objects >>= 1;
    }
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    surrogates: Surrogates,
}

impl Scan<'_> {
    fn document(&mut self) -> Result<(), Fault> {
        let mut open = Open::default();
        loop {
            if self.value(&mut open)? {
                continue;
            }
            // A value has ended; so has everything whose closing bracket follows.
            loop {
                self.skip_space();
                match self.peek() {
                    None if open.depth == 0 => return Ok(()),
                    None => return Err(self.fault(What::End)),
                    Some(_) if open.depth == 0 => return Err(self.fault(What::Trailing)),
                    Some(b',') => {
                        self.at += 1;
                        if open.in_object() {
                            self.key()?;
                        }
                        break;
                    }
                    Some(b'}') if open.in_object() => open.pop(),
                    Some(b']') if !open.in_object() => open.pop(),
                    Some(_) => return Err(self.fault(What::NoComma)),
                }
                self.at += 1;
            }
        }
    }

    /// Passes one value, or only the beginning of an array or an object that is not empty: then the
    /// answer is true and its first value follows.
    fn value(&mut self, open: &mut Open) -> Result<bool, Fault> {
        self.skip_space();
        match self.peek() {
            None => Err(self.fault(What::End)),
            Some(bracket @ (b'{' | b'[')) => {
                let object = bracket == b'{';
                open.push(object).map_err(|what| self.fault(what))?;
                self.at += 1;
                self.skip_space();
                if self.peek() == Some(if object { b'}' } else { b']' }) {
                    self.at += 1;
                    open.pop();
                    return Ok(false);
                }
                if object {
                    self.key()?;
                }
                Ok(true)
            }
            Some(b'"') => self.string().map(|()| false),
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| false),
            Some(b't') => self.literal(b"true").map(|()| false),
            Some(b'f') => self.literal(b"false").map(|()| false),
            Some(b'n') => self.literal(b"null").map(|()| false),
            Some(_) => Err(self.fault(What::NoValue)),
        }
    }

    /// Passes a member's key and its colon.
    fn key(&mut self) -> Result<(), Fault> {
        self.skip_space();
        self.expect(b'"', What::NoKey)?;
        self.string()?;
        self.skip_space();
        self.expect(b':', What::NoColon)?;
        self.at += 1;
        Ok(())
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), Fault> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(self.fault(What::NoValue));
        }
        self.at += word.len();
        Ok(())
    }

    /// RFC 8259, section 6.
    fn number(&mut self) -> Result<(), Fault> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        // Without this the 1 of `01` would be blamed on a missing comma.
        if let Some(b'0'..=b'9') = self.peek() {
            return Err(self.fault(What::Number));
        }
        Ok(())
    }

    /// Passes one digit or more.
    fn digits(&mut self) -> Result<(), Fault> {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { Err(self.fault(What::Number)) } else { Ok(()) }
    }

    /// Passes a string whose opening quote is here (RFC 8259, section 7).
    fn string(&mut self) -> Result<(), Fault> {
        self.at += 1;
        loop {
            self.at += json_plain_len(&self.bytes[self.at..]);
            match self.peek() {
                None => return Err(self.fault(What::End)),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(self.fault(What::Control)),
            }
        }
    }

    /// Passes one escape, or the two that are a surrogate pair.
    fn escape(&mut self) -> Result<(), Fault> {
        match self.bytes.get(self.at + 1) {
            None => Err(self.fault(What::End)),
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => {
                let unit = unicode_escape(&self.bytes[self.at..]);
                let unit = unit.ok_or_else(|| self.fault(What::Escape))?;
                let next = unicode_escape(&self.bytes[self.at + UNICODE_ESCAPE_LEN..]);
                let lone = match (Surrogate::of(unit), next.and_then(Surrogate::of)) {
                    (None, _) => false,
                    (Some(Surrogate::High), Some(Surrogate::Low)) => {
                        self.at += UNICODE_ESCAPE_LEN;
                        false
                    }
                    (Some(_), _) => true,
                };
                if lone && self.surrogates == Surrogates::Refused {
                    return Err(self.fault(What::LoneSurrogate));
                }
                self.at += UNICODE_ESCAPE_LEN;
                Ok(())
            }
            Some(_) => Err(self.fault(What::Escape)),
        }
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| is_space(char::from(byte))) {
            self.at += 1;
        }
    }

    fn expect(&self, byte: u8, what: What) -> Result<(), Fault> {
        match self.peek() {
            Some(here) if here == byte => Ok(()),
            Some(_) => Err(self.fault(what)),
            None => Err(self.fault(What::End)),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn fault(&self, what: What) -> Fault {
        Fault { at: self.at, what }
    }
}

/// Bytes of a `\uXXXX`.
pub(super) const UNICODE_ESCAPE_LEN: usize = 6;

/// The UTF-16 code unit of the `\uXXXX` that `bytes` begins with, if it does.
pub(super) fn unicode_escape(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.get(..UNICODE_ESCAPE_LEN)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | u16::from(hex_value(digit)?)))
}

/// Which half of a surrogate pair a UTF-16 code unit is (Unicode, section 3.8).
pub(super) enum Surrogate {
    High,
    Low,
}

impl Surrogate {
    pub(super) fn of(unit: u16) -> Option<Self> {
        match unit {
            0xd800..=0xdbff => Some(Self::High),
            0xdc00..=0xdfff => Some(Self::Low),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_named_with_its_place() {
        for (doc, at, what) in [
            (&b""[..], 0, What::End),
            (b" \n", 2, What::End),
            (b"\"\xff\"", 1, What::NotUtf8),
            (b"\xef\xbb\xbf{}", 0, What::NoValue),
            (b"[1,", 3, What::End),
            (b"[1", 2, What::End),
            (b"{\"a\":1", 6, What::End),
            (b"{\"a\"", 4, What::End),
            (b"{", 1, What::End),
            (b"\"a", 2, What::End),
            (b"\"\\", 1, What::End),
            (b"[1,]", 3, What::NoValue),
            (b"tru", 0, What::NoValue),
            (b"nulL", 0, What::NoValue),
            (b"NaN", 0, What::NoValue),
            (b"'a'", 0, What::NoValue),
            (b"+1", 0, What::NoValue),
            (b"]", 0, What::NoValue),
            (b"/**/1", 0, What::NoValue),
            (b"\x0b1", 0, What::NoValue),
            (b"{a:1}", 1, What::NoKey),
            (b"{\"a\":1,}", 7, What::NoKey),
            (b"{,}", 1, What::NoKey),
            (b"{\"a\" 1}", 5, What::NoColon),
            (b"{\"a\":1]", 6, What::NoComma),
            (b"[1}", 2, What::NoComma),
            (b"[1 2]", 3, What::NoComma),
            (b"[truefalse]", 5, What::NoComma),
            (b"{} {}", 3, What::Trailing),
            (b"{}\0", 2, What::Trailing),
            (b"01", 1, What::Number),
            (b"-", 1, What::Number),
            (b"1.", 2, What::Number),
            (b"1.e1", 2, What::Number),
            (b"1e", 2, What::Number),
            (b"1e+", 3, What::Number),
            (b"-Infinity", 1, What::Number),
            (b"\"a\nb\"", 2, What::Control),
            (b"\"\0\"", 1, What::Control),
            (b"\"\\x41\"", 1, What::Escape),
            (b"\"\\u12g4\"", 1, What::Escape),
            (b"\"\\u12\"", 1, What::Escape),
            (b"\"\\ud800\"", 1, What::LoneSurrogate),
            (b"\"\\udc00\"", 1, What::LoneSurrogate),
            (b"\"\\udc00\\ud800\"", 1, What::LoneSurrogate),
            (b"\"\\ud83d\\ud83d\\ude00\"", 1, What::LoneSurrogate),
            (b"\"\\ud83d\\\\ude00\"", 1, What::LoneSurrogate),
            (b"{\"\\uD800\":1}", 2, What::LoneSurrogate),
        ] {
            assert_eq!(check(doc), Err(Fault { at, what }), "{}", doc.escape_ascii());
        }
    }

    #[test]
    fn what_json_allows_passes() {
        for doc in [
            "0",
            "-0",
            "-0.0e-0",
            "1E+400",
            "12345678901234567890",
            "true",
            "false",
            "null",
            "\"\"",
            "[]",
            "{}",
            " [ ] ",
            "\r\n\t{ }\t",
            "[[],{},[{}]]",
            r#"{"a":{"b":[1,"2",null]},"a":0}"#,
            r#""\"\\\/\b\f\n\r\t\u0000\u00e4\uD83D\uDE00""#,
            "\"\u{7f}ä\u{10ffff}\"",
        ] {
            assert_eq!(check(doc.as_bytes()), Ok(()), "{doc}");
        }
    }

    #[test]
    fn depth_128_is_accepted_and_one_more_is_not() {
        let nested = |open: &str, close: &str, depth| open.repeat(depth) + &close.repeat(depth);
        for depth in [1, 127, 128] {
            assert_eq!(check(nested("[", "]", depth).as_bytes()), Ok(()));
            assert_eq!(
                check((nested("{\"\":", "}", depth).replace(":}", ":0}")).as_bytes()),
                Ok(())
            );
        }
        let fault = |at| Err(Fault { at, what: What::TooDeep });
        assert_eq!(check(nested("[", "]", 129).as_bytes()), fault(128));
        assert_eq!(check(nested("[{\"\":", "}]", 65).as_bytes()), fault(128 / 2 * 5));
        assert_eq!(check("[".repeat(5000).as_bytes()), fault(128));
        // Siblings are not depth.
        assert_eq!(check(format!("[{}[]]", "[],".repeat(1000)).as_bytes()), Ok(()));
    }

    #[test]
    fn a_lossy_document_may_hold_half_of_a_surrogate_pair_and_nothing_else_wrong() {
        for doc in [r#""\ud800""#, r#""a\udc00\ud800b""#, r#"{"\ud800":["\ud83d\ude00"]}"#] {
            assert!(Document::parse_lossy(doc.as_bytes()).is_ok(), "{doc}");
        }
        for doc in [r#""\ud80""#, r#""\ud800"#, r#""\ud800\x""#, "", "[1,]"] {
            assert!(Document::parse_lossy(doc.as_bytes()).is_err(), "{doc}");
        }
    }
}
