//! The arguments of a tool call, made fit for a line once (clarifications, section 3, "tool
//! arguments pass through byte for byte").
//!
//! Invariant: what is accepted is the text of a JSON object without any byte below 0x20.

use crate::limits::ARGS_QUOTE_CHARS_MAX;
use crate::proto::json;
use crate::proto::payload::single_line;

/// The arguments as the log holds them: byte for byte but for LF, CR and TAB between tokens, which
/// become one space each. Nothing sent means `{}`. What is not a JSON object, or holds an escape
/// that denotes no Unicode string, comes back as the beginning of what was sent.
pub(super) fn settle(sent: &str) -> Result<Box<str>, String> {
    let trimmed = sent.trim_matches(JSON_SPACE);
    if trimmed.is_empty() {
        return Ok("{}".into());
    }
    if !trimmed.starts_with('{') || json::check(sent.as_bytes()).is_err() {
        return Err(beginning(sent));
    }
    Ok(single_line(sent).into())
}

/// Enough of a text for its author to recognise it.
pub(super) fn beginning(sent: &str) -> String {
    match sent.char_indices().nth(ARGS_QUOTE_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &sent[..end]),
        None => sent.to_owned(),
    }
}

const JSON_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_passes_byte_for_byte_on_one_line() {
        for (sent, logged) in [
            ("{}", "{}"),
            ("", "{}"),
            (" \n", "{}"),
            (r#"{"n":12345678901234567890,"e":1e400}"#, r#"{"n":12345678901234567890,"e":1e400}"#),
            (r#"{ "b" :1,  "a":"x\ny" }"#, r#"{ "b" :1,  "a":"x\ny" }"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#),
            ("{\r\n\t\"a\": [1,\n2]\n}\n", r#"{   "a": [1, 2] } "#),
            (r#"{"a":"\ud83d\ude00"}"#, r#"{"a":"\ud83d\ude00"}"#),
        ] {
            assert_eq!(settle(sent).as_deref(), Ok(logged), "{sent}");
        }
    }

    #[test]
    fn anything_else_comes_back_quoted() {
        for sent in [
            "null",
            "[1]",
            "\"{}\"",
            "{\"a\":",
            "{\"a\":NaN}",
            "{\"a\":1}{\"a\":2}",
            "{\"a\":1} x",
            "{\"a\":\"\\ud800\"}",
            "{\"a\":\"b\nc\"}",
            "get_weather(city='Rome')",
        ] {
            assert_eq!(settle(sent), Err(sent.to_owned()), "{sent:?}");
        }
    }

    #[test]
    fn depth_is_bounded_and_a_quotation_is_short() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(settle(&nested(127)).is_ok());
        let quoted = settle(&nested(2000)).unwrap_err();
        assert_eq!(quoted.chars().count(), ARGS_QUOTE_CHARS_MAX + 3);
        assert!(quoted.ends_with("..."));
        let wide = "ä".repeat(ARGS_QUOTE_CHARS_MAX + 1);
        assert_eq!(beginning(&wide), format!("{}...", "ä".repeat(ARGS_QUOTE_CHARS_MAX)));
    }
}
