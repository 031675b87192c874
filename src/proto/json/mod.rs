//! JSON as this protocol needs it: one strict check, a lazy reader over what passed it, a writer.
//!
//! `serde_json` skips what nobody asked for without looking: nesting of any depth and escapes that
//! denote no Unicode string pass it there. The contract refuses both anywhere in a client's frame
//! (clarifications, section 1), and what has once reached the log must be readable for ever; so a
//! [`Document`] exists only after one pass over all of it. Numbers and the spelling of strings stay
//! the text they were.
//!
//! Invariant: reading a [`Document`] never fails for a reason of form, only of kind.

mod check;
mod value;
mod write;

pub use check::{Document, Fault, What, check};
pub use value::{Elements, Kind, Members, Text, Value};
pub use write::write_string;

/// The bodies of the fuzz targets for JSON.
#[cfg(any(test, fuzzing))]
pub mod fuzz {
    use super::{Document, Fault, Value, What, write_string};
    use serde::de::IgnoredAny;

    /// What we accept `serde_json` accepts; what we refuse it refuses too, except for the two rules
    /// it does not have; what the reader returns is what `serde_json` reads.
    pub fn document(bytes: &[u8]) {
        let valid = std::str::from_utf8(bytes).ok();
        let oracle = valid.is_some_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
        let lossy = Document::parse_lossy(bytes);
        match Document::parse(bytes) {
            Ok(document) => {
                assert!(oracle);
                // It has limits of its own on depth and on the size of numbers.
                if let Ok(value) = serde_json::from_slice(bytes) {
                    assert_same(document.value(), &value);
                }
            }
            Err(Fault { what: What::TooDeep, at }) => assert!(at < bytes.len()),
            Err(Fault { what: What::LoneSurrogate, at }) => {
                assert!(at < bytes.len());
                if !matches!(lossy, Err(Fault { what: What::TooDeep, .. })) {
                    assert_eq!(lossy.is_ok(), oracle);
                }
            }
            Err(fault) => {
                assert!(!oracle, "{fault}");
                assert!(lossy.is_err());
            }
        }
    }

    /// A written string is one JSON string, holds no control character, and reads as it was.
    pub fn string(bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let mut out = Vec::new();
        write_string(&mut out, &text);
        assert!(out.iter().all(|byte| *byte >= 0x20));
        assert_eq!(serde_json::from_slice::<String>(&out).expect("a JSON string"), text);
        let document = Document::parse(&out).expect("a JSON string");
        assert_eq!(document.value().as_str().expect("a string"), text);
    }

    fn assert_same(ours: Value<'_>, oracle: &serde_json::Value) {
        match oracle {
            serde_json::Value::Null => assert!(ours.is_null()),
            serde_json::Value::Bool(value) => assert_eq!(ours.as_bool(), Some(*value)),
            serde_json::Value::Number(value) => assert_eq!(ours.as_u64(), value.as_u64()),
            serde_json::Value::String(value) => {
                assert_eq!(ours.as_str().expect("a string"), value.as_str());
            }
            serde_json::Value::Array(values) => {
                let elements: Vec<_> = ours.elements().expect("an array").collect();
                assert_eq!(elements.len(), values.len());
                elements.into_iter().zip(values).for_each(|(ours, value)| assert_same(ours, value));
            }
            serde_json::Value::Object(values) => {
                let members: Vec<_> = ours.members().expect("an object").collect();
                for (key, value) in values {
                    // Of equal keys `serde_json` keeps the last.
                    let same = members.iter().rfind(|(ours, _)| ours.is(key)).expect("the key");
                    assert_same(same.1, value);
                }
            }
        }
    }
}
