//! The names of things: sessions, events, models.
//!
//! A value of these types exists only if it is valid, so a [`SessionId`] is safe as a file name by
//! its construction. Nothing here knows whether what is named exists, or who may use it.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::swar::{hex8, parse_hex8};
use crate::limits::SESSION_ID_CHARS_MAX;

/// The name of a session, which in this version of the contract is the agent's id.
///
/// 1 to 128 characters of `A-Z a-z 0-9 . _ -`, the first of which is not `.` (clarifications,
/// section 2): never a path of more than one part, never hidden, never `.` or `..`.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionId(Text);

/// A short name stands in the value itself, behind zeros from its end on; it is then copied wherever it
/// is wanted, and allocated nowhere. A UUID is one.
#[derive(Clone, PartialEq, Eq)]
enum Text {
    Short { len: u8, bytes: [u8; SHORT_BYTES_MAX] },
    Long(Arc<str>),
}

const SHORT_BYTES_MAX: usize = 38;
const _: () = assert!(size_of::<SessionId>() == 40);

impl SessionId {
    /// The id, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let valid = (1..=SESSION_ID_CHARS_MAX).contains(&text.len())
            && !text.starts_with('.')
            && text.bytes().all(allowed);
        valid.then(|| {
            let mut bytes = [0; SHORT_BYTES_MAX];
            match bytes.get_mut(..text.len()) {
                Some(head) => {
                    head.copy_from_slice(text.as_bytes());
                    Self(Text::Short { len: text.len() as u8, bytes })
                }
                None => Self(Text::Long(text.into())),
            }
        })
    }

    /// The id that a percent-encoded segment of a path names, if it names one.
    pub fn from_path_segment(segment: &str) -> Option<Self> {
        let decoded = percent_decode(segment)?;
        Self::parse(std::str::from_utf8(&decoded).ok()?)
    }

    /// The id as text.
    #[expect(clippy::expect_used, reason = "what was parsed is ASCII, whoever sent it")]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Short { .. } => std::str::from_utf8(self.as_bytes()).expect("an id is ASCII"),
            Text::Long(text) => text,
        }
    }

    /// The bytes of the text, for less: nothing asks again whether they are text.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Text::Short { len, bytes } => &bytes[..usize::from(*len)],
            Text::Long(text) => text.as_bytes(),
        }
    }
}

// As a text, so that a map keyed by ids can be asked with one.

impl PartialOrd for SessionId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SessionId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for SessionId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Borrow<str> for SessionId {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({self})")
    }
}

/// The bytes that percent-encoded text stands for (RFC 3986, 2.1), or nothing if a `%` is not
/// followed by two hex digits. A `+` is a plus: paths are not forms.
pub fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        if byte == b'%' {
            let [high, low, behind @ ..] = behind else { return None };
            decoded.push(hex_value(*high)? << 4 | hex_value(*low)?);
            rest = behind;
        } else {
            decoded.push(byte);
            rest = behind;
        }
    }
    Some(decoded)
}

/// The value of one hex digit of either case.
pub(crate) fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// A model as `set_model` and the config name it: a provider, and what that provider calls it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelSpec {
    /// A key of the config's `providers`; never empty. Whether it is configured is not known here.
    pub provider: Arc<str>,
    /// The provider's own name for the model; never empty, and may hold further slashes.
    pub model: Arc<str>,
}

impl ModelSpec {
    /// Splits `provider/model` at its first slash; nothing if either half is empty.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                Some(Self { provider: provider.into(), model: model.into() })
            }
            _ => None,
        }
    }
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// The name of one event, drawn at random by the caller and written as 16 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub u64);

impl EventId {
    /// Bytes of a written id.
    pub const TEXT_LEN: usize = 16;

    /// The written form.
    pub fn to_text(self) -> [u8; Self::TEXT_LEN] {
        let mut text = [0; Self::TEXT_LEN];
        text[..8].copy_from_slice(&hex8((self.0 >> 32) as u32));
        text[8..].copy_from_slice(&hex8(self.0 as u32));
        text
    }

    /// Appends the written form.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_text());
    }

    /// Reads exactly the form that [`EventId::to_text`] writes.
    pub fn parse(text: impl AsRef<[u8]>) -> Option<Self> {
        let ([high, low], []) = text.as_ref().as_chunks::<8>() else { return None };
        Some(Self(u64::from(parse_hex8(*high)?) << 32 | u64::from(parse_hex8(*low)?)))
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The body of the fuzz target for identifiers.
#[cfg(any(test, fuzzing))]
pub mod fuzz {
    use super::{SessionId, percent_decode};
    use std::fmt::Write;

    /// Encoding every byte and decoding it gives the bytes back; what decodes at all does so to what
    /// a decoder written from the other end says; an id survives its own spelling.
    pub fn percent_decoding(bytes: &[u8]) {
        let encoded = bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "%{byte:02X}");
            text
        });
        assert_eq!(percent_decode(&encoded).as_deref(), Some(bytes));
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        assert_eq!(percent_decode(text), naive(text));
        if let Some(id) = SessionId::from_path_segment(text) {
            assert_eq!(SessionId::from_path_segment(id.as_str()), Some(id.clone()));
            assert!(!id.as_str().contains(['/', '\\', '\0', '%']) && !id.as_str().starts_with('.'));
        }
    }

    /// The first part of a split at `%` stands for itself, every other begins with two digits.
    fn naive(text: &str) -> Option<Vec<u8>> {
        let mut parts = text.split('%');
        let mut decoded = parts.next()?.as_bytes().to_vec();
        for part in parts {
            let digits = part.get(..2).filter(|digits| !digits.contains('+'))?;
            decoded.push(u8::from_str_radix(digits, 16).ok()?);
            decoded.extend_from_slice(&part.as_bytes()[2..]);
        }
        Some(decoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_is_safe_as_a_file_name_or_is_none() {
        let [short, long, longest] = [38, 39, 128].map(|len| "a".repeat(len));
        for id in ["s1", "A", "0", "-", "_", "a.b", "a..b", "a.", "-rf", &short, &long, &longest] {
            assert_eq!(SessionId::parse(id).expect(id).as_str(), id);
        }
        let too_long = "a".repeat(129);
        for id in [
            "",
            ".",
            "..",
            ".hidden",
            "a/b",
            "/",
            "a\\b",
            "a b",
            "a\0",
            "a\n",
            "ä",
            "a%2e",
            "a:b",
            "~",
            "a?",
            too_long.as_str(),
        ] {
            assert_eq!(SessionId::parse(id), None, "{id:?}");
        }
    }

    #[test]
    fn a_path_segment_is_decoded_once_before_it_is_judged() {
        for (segment, id) in [
            ("s1", Some("s1")),
            ("%73%31", Some("s1")),
            ("a%2Db", Some("a-b")),
            ("a%2db", Some("a-b")),
            ("a%2Fb", None),
            ("%2e%2E", None),
            ("%2e", None),
            ("a%00", None),
            ("a%252e", None),
            ("a+b", None),
            ("%C3%A4", None),
            ("%ff", None),
            ("a%", None),
            ("a%2", None),
            ("a%2x", None),
            ("", None),
        ] {
            assert_eq!(SessionId::from_path_segment(segment).as_ref().map(SessionId::as_str), id);
        }
    }

    #[test]
    fn only_the_first_slash_splits_a_model() {
        for (text, parts) in [
            ("echo/echo", Some(("echo", "echo"))),
            ("openrouter/openai/gpt-5", Some(("openrouter", "openai/gpt-5"))),
            ("a//", Some(("a", "/"))),
            ("echo", None),
            ("echo/", None),
            ("/echo", None),
            ("/", None),
            ("", None),
        ] {
            let spec = ModelSpec::parse(text);
            assert_eq!(spec.as_ref().map(|spec| (&*spec.provider, &*spec.model)), parts, "{text}");
            if let Some(spec) = spec {
                assert_eq!(spec.to_string(), text);
            }
        }
    }

    #[test]
    fn an_event_id_is_sixteen_lower_case_hex_digits() {
        for (id, text) in [
            (0, "0000000000000000"),
            (0x5f2c_0000_89ab_cdef, "5f2c000089abcdef"),
            (u64::MAX, "ffffffffffffffff"),
        ] {
            assert_eq!(EventId(id).to_text(), text.as_bytes());
            assert_eq!(EventId(id).to_string(), text);
            assert_eq!(EventId::parse(text), Some(EventId(id)));
        }
        for text in [
            "",
            "0",
            "000000000000000",
            "00000000000000000",
            "5F2C000089abcdef",
            "+00000000000000f",
        ] {
            assert_eq!(EventId::parse(text), None, "{text}");
        }
    }
}
