//! A lazy reader: values are views of checked text, decoded when asked for.
//!
//! It trusts that the text has passed the check and builds no tree. Each step over an array or an
//! object scans the element it yields, so walking all of a tree costs its size times its depth: it is
//! made for frames, which are shallow.

use std::borrow::Cow;
use std::fmt;

use super::check::{Surrogate, UNICODE_ESCAPE_LEN, is_space, unicode_escape};
use crate::proto::swar::json_plain_len;

/// One JSON value inside a checked document.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    /// Without space around it; never empty.
    raw: &'a str,
}

impl<'a> Value<'a> {
    /// A value whose text has been checked.
    pub(super) fn trusted(raw: &'a str) -> Self {
        Self { raw }
    }

    /// The value as it was written, without the space around it.
    pub fn raw(self) -> &'a str {
        self.raw
    }

    /// Which of the six kinds of value this is.
    pub fn kind(self) -> Kind {
        match self.raw.as_bytes()[0] {
            b'n' => Kind::Null,
            b't' | b'f' => Kind::Bool,
            b'"' => Kind::String,
            b'[' => Kind::Array,
            b'{' => Kind::Object,
            _ => Kind::Number,
        }
    }

    /// Whether this is `null`.
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// The value of a boolean.
    pub fn as_bool(self) -> Option<bool> {
        match self.raw {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// The value of a number that is spelled as an integer from 0 to 2^64-1: exact, and without a
    /// sign, a fraction or an exponent.
    pub fn as_u64(self) -> Option<u64> {
        // A JSON number never has the leading plus that `parse` would allow.
        self.raw.parse().ok()
    }

    /// The text of a string, decoded.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        (self.kind() == Kind::String).then(|| Text::trusted(self.raw).to_str())
    }

    /// The elements of an array.
    pub fn elements(self) -> Option<Elements<'a>> {
        (self.kind() == Kind::Array).then(|| Elements { rest: inside(self.raw) })
    }

    /// The members of an object, in their order, equal keys and all.
    pub fn members(self) -> Option<Members<'a>> {
        (self.kind() == Kind::Object).then(|| Members { rest: inside(self.raw) })
    }
}

/// The kinds of JSON value, displayed as one would say them in a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// Any number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        })
    }
}

/// A string inside a checked document, still escaped.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// Without its quotes.
    escaped: &'a str,
}

impl<'a> Text<'a> {
    fn trusted(quoted: &'a str) -> Self {
        Self { escaped: &quoted[1..quoted.len() - 1] }
    }

    /// Whether this string, decoded, is `text`.
    pub fn is(self, text: &str) -> bool {
        self.to_str() == text
    }

    /// The string, decoded; only one that holds an escape is copied. Half of a surrogate pair becomes
    /// U+FFFD.
    pub fn to_str(self) -> Cow<'a, str> {
        let Some(first) = self.escaped.find('\\') else { return Cow::Borrowed(self.escaped) };
        let mut text = String::with_capacity(self.escaped.len());
        let (plain, mut rest) = self.escaped.split_at(first);
        text.push_str(plain);
        while !rest.is_empty() {
            let (c, len) = unescape(rest);
            text.push(c);
            rest = &rest[len..];
            let (plain, behind) = rest.split_at(rest.find('\\').unwrap_or(rest.len()));
            text.push_str(plain);
            rest = behind;
        }
        Cow::Owned(text)
    }
}

/// The character that the escape at the beginning of `text` stands for, and the escape's length.
#[expect(clippy::expect_used, reason = "a value exists only of text that the check has passed")]
fn unescape(text: &str) -> (char, usize) {
    let bytes = text.as_bytes();
    match bytes[1] {
        b'b' => ('\u{8}', 2),
        b'f' => ('\u{c}', 2),
        b'n' => ('\n', 2),
        b'r' => ('\r', 2),
        b't' => ('\t', 2),
        b'u' => {
            let unit = unicode_escape(bytes).expect("the check has read this escape");
            let next = unicode_escape(&bytes[UNICODE_ESCAPE_LEN..]).filter(|_| {
                // Only a high surrogate reads on; the unit after any other is its own character.
                matches!(Surrogate::of(unit), Some(Surrogate::High))
            });
            match char::decode_utf16([unit].into_iter().chain(next)).next() {
                Some(Ok(c)) => (c, UNICODE_ESCAPE_LEN * c.len_utf16()),
                _ => (char::REPLACEMENT_CHARACTER, UNICODE_ESCAPE_LEN),
            }
        }
        itself => (char::from(itself), 2),
    }
}

/// The elements of an array, in their order.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let raw = take_value(&mut self.rest);
        skip_mark(&mut self.rest, ',');
        Some(Value { raw })
    }
}

/// The members of an object, in their order.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Members<'a> {
    type Item = (Text<'a>, Value<'a>);

    fn next(&mut self) -> Option<(Text<'a>, Value<'a>)> {
        if self.rest.is_empty() {
            return None;
        }
        let key = Text::trusted(take_value(&mut self.rest));
        skip_mark(&mut self.rest, ':');
        let raw = take_value(&mut self.rest);
        skip_mark(&mut self.rest, ',');
        Some((key, Value { raw }))
    }
}

/// What stands between the brackets of an array or an object.
fn inside(raw: &str) -> &str {
    raw[1..raw.len() - 1].trim_matches(is_space)
}

fn take_value<'a>(rest: &mut &'a str) -> &'a str {
    let (value, behind) = rest.split_at(value_len(rest.as_bytes()));
    *rest = behind;
    value
}

/// Passes one mark, where there is one, and the space on both sides of it.
fn skip_mark(rest: &mut &str, mark: char) {
    let behind = rest.trim_start_matches(is_space);
    *rest = behind.strip_prefix(mark).unwrap_or(behind).trim_start_matches(is_space);
}

/// Length of the value at the beginning of checked text.
fn value_len(bytes: &[u8]) -> usize {
    match bytes[0] {
        b'"' => string_len(bytes),
        b'[' | b'{' => {
            let mut depth = 0_usize;
            let mut at = 0;
            loop {
                match bytes[at] {
                    b'"' => {
                        at += string_len(&bytes[at..]);
                        continue;
                    }
                    b'[' | b'{' => depth += 1,
                    b']' | b'}' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return at;
                }
            }
        }
        _ => {
            let ends =
                |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
            bytes.iter().position(ends).unwrap_or(bytes.len())
        }
    }
}

/// Length of the string at the beginning of checked text, with its quotes.
fn string_len(bytes: &[u8]) -> usize {
    let mut at = 1;
    loop {
        at += json_plain_len(&bytes[at..]);
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Document;
    use super::*;

    fn value(doc: &str) -> Value<'_> {
        Document::parse_lossy(doc.as_bytes()).expect(doc).value()
    }

    #[test]
    fn only_a_plain_integer_within_64_bits_is_one() {
        for (doc, number) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-0", None),
            ("-1", None),
            ("1.0", None),
            ("1e3", None),
            ("\"1\"", None),
            ("true", None),
            ("null", None),
            ("[1]", None),
        ] {
            assert_eq!(value(doc).as_u64(), number, "{doc}");
        }
    }

    #[test]
    fn escapes_are_decoded_and_half_a_pair_is_replaced() {
        for (doc, text) in [
            (r#""""#, ""),
            (r#""plain ä""#, "plain ä"),
            (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r#""a\u0000b\u00E4c\u20acd""#, "a\0bäc€d"),
            (r#""\ud83d\ude00!""#, "😀!"),
            (r#""\ud83d!""#, "\u{fffd}!"),
            (r#""\ud83d\u0041""#, "\u{fffd}A"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\\u0041""#, "\\u0041"),
        ] {
            assert_eq!(value(doc).as_str().expect(doc), text, "{doc}");
        }
    }

    #[test]
    fn members_come_in_their_order_with_their_spelling() {
        let doc =
            "{ \"a\" : [ 1 , \"]\\\"}\" ] ,\"\\u0062\":{\"x\":[{}]}\n,\"a\":1e400 , \"c\":true}";
        let members: Vec<_> = value(doc).members().expect("an object").collect();
        let raw: Vec<_> = members.iter().map(|(_, value)| value.raw()).collect();
        assert_eq!(raw, ["[ 1 , \"]\\\"}\" ]", "{\"x\":[{}]}", "1e400", "true"]);
        let keys: Vec<_> = members.iter().map(|(key, _)| key.to_str()).collect();
        assert_eq!(keys, ["a", "b", "a", "c"]);
        assert!(members[1].0.is("b"));
        let elements: Vec<_> = members[0].1.elements().expect("an array").map(Value::raw).collect();
        assert_eq!(elements, ["1", "\"]\\\"}\""]);
    }

    #[test]
    fn a_value_is_only_what_it_is() {
        for (doc, kind) in [
            ("null", Kind::Null),
            ("false", Kind::Bool),
            ("-1", Kind::Number),
            ("\"\"", Kind::String),
            (" [ ] ", Kind::Array),
            ("\t{ }\n", Kind::Object),
        ] {
            let value = value(doc);
            assert_eq!(value.kind(), kind);
            assert_eq!(value.is_null(), kind == Kind::Null);
            assert_eq!(value.as_bool().is_some(), kind == Kind::Bool);
            assert_eq!(value.as_str().is_some(), kind == Kind::String);
            assert_eq!(value.elements().is_some(), kind == Kind::Array);
            assert_eq!(value.members().is_some(), kind == Kind::Object);
            assert_eq!(value.elements().map_or(0, Iterator::count), 0);
            assert_eq!(value.members().map_or(0, Iterator::count), 0);
            assert_eq!(value.raw(), doc.trim());
        }
    }
}
