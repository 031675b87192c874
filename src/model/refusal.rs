//! What a server says when it refuses: the one tolerant reader of errors (cases-providers.md, 15,
//! 22, 23, 30, 31), whatever their shape and wherever in an answer they stand.
//!
//! What it returns may quote secrets; redaction comes after it.

use std::borrow::Cow;

use crate::proto::json::{Document, Kind, Value};

/// A failure by status, in one line: `the provider answered 503 Service Unavailable: busy`.
pub(super) fn reason(status: u16, said: &str) -> String {
    let phrase = match phrase(status) {
        "" => String::new(),
        phrase => format!(" {phrase}"),
    };
    // Many servers say no more than the status once again.
    let said = said.trim_start_matches(&status.to_string()).trim();
    if said.is_empty() || said.eq_ignore_ascii_case(phrase.trim()) {
        format!("the provider answered {status}{phrase}")
    } else {
        format!("the provider answered {status}{phrase}: {said}")
    }
}

/// What a body or an event says, in one line: the message of an error object, string or array, the
/// `detail` of `FastAPI`, the title or text of HTML, or the text as it is. Empty when it says nothing.
pub(super) fn said(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    let found = Document::parse_lossy(text.as_bytes()).ok().map(|doc| {
        let value = doc.value();
        message(value, QUOTED_JSON_MAX).unwrap_or_else(|| match value.kind() {
            Kind::Null => String::new(),
            _ => value.raw().to_owned(),
        })
    });
    let line = match found {
        Some(message) => message,
        None if text.starts_with('<') => html(text),
        None => text.to_owned(),
    };
    one_line(&line)
}

/// Whether a text says that the history was too long for the model.
pub(super) fn names_context(text: &str) -> bool {
    any(text, CONTEXT)
}

/// Whether a text says that a quota is spent: waiting does not help, paying does.
pub(super) fn names_spent_quota(text: &str) -> bool {
    // Gemini uses OpenAI's sentence for a rate as well.
    any(text, QUOTA)
        || any(text, &["exceeded your current quota"]) && !any(text, &["resource_exhausted"])
}

/// Whether a refusal is about `stream_options`.
pub(super) fn names_stream_options(text: &str) -> bool {
    any(text, &["stream_options", "include_usage"])
}

/// Whether a refusal is about the content of a message.
pub(super) fn names_content(text: &str) -> bool {
    any(text, &["content"])
}

/// Whether a refusal is about the form of tool call ids, as Mistral's is: `Tool call id was ... but
/// must be a-z, A-Z, 0-9, with a length of 9.`
pub(super) fn names_call_ids(text: &str) -> bool {
    any(text, &["tool call id", "tool_call_id", "tool_calls"])
        && any(text, &["length of 9", "9 characters", "9 letters", "{9}"])
}

/// The wordings seen in the field, in lower case.
const CONTEXT: &[&str] = &[
    "context length",
    "context_length",
    "context window",
    "context_window",
    "context size",
    "context_size",
    "context limit",
    "context the overflows",
    "context overflow",
    "maximum prompt length",
    "maximum model length",
    "exceeds max length",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input token count",
    "prompt token count",
    "prompt_tokens_exceeded",
    "model token limit",
    "too many tokens",
    "reduce the length of the messages",
    "range of input length",
    "`inputs` tokens + `max_new_tokens`",
    "`inputs` must have less than",
];

const QUOTA: &[&str] = &[
    "insufficient_quota",
    "insufficient balance",
    "insufficient_balance",
    "insufficient credits",
    "insufficient_credits",
    "credit balance",
    "exceeded_current_quota",
    "billing_hard_limit",
    "billing hard limit",
    "spending limit",
    "out of credits",
];

/// How often a message may be JSON inside a JSON string; proxies wrap what they pass on.
const QUOTED_JSON_MAX: u32 = 4;

fn any(text: &str, patterns: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    patterns.iter().any(|pattern| text.contains(pattern))
}

/// The message inside a value; none when it holds nothing that reads as one.
fn message(value: Value<'_>, quoted_left: u32) -> Option<String> {
    match value.kind() {
        Kind::String => {
            let text = value.as_str()?;
            let text = text.trim();
            let inner = match Document::parse_lossy(text.as_bytes()) {
                Ok(doc) if quoted_left > 0 && text.starts_with(['{', '[']) => {
                    message(doc.value(), quoted_left - 1)
                }
                _ => None,
            };
            inner.or_else(|| (!text.is_empty()).then(|| text.to_owned()))
        }
        Kind::Array => value.elements()?.find_map(|element| message(element, quoted_left)),
        Kind::Object => {
            let member = |name: &str| {
                let mut members = value.members()?;
                members.find(|(key, _)| key.is(name)).map(|(_, value)| value)
            };
            let words = ["error", "message", "detail", "details", "errors", "msg", "title"];
            let found = words.iter().find_map(|name| message(member(name)?, quoted_left))?;
            // `FastAPI` says where in the request, OpenRouter what the server behind it said.
            let place = member("loc").and_then(path);
            let raw = member("metadata")
                .and_then(Value::members)
                .and_then(|mut members| members.find(|(key, _)| key.is("raw")))
                .and_then(|(_, raw)| message(raw, quoted_left));
            Some(match (place, raw) {
                (Some(place), _) => format!("{found} ({place})"),
                (None, Some(raw)) => format!("{found}: {raw}"),
                (None, None) => found,
            })
        }
        Kind::Null | Kind::Bool | Kind::Number => None,
    }
}

/// `["body", "messages", 0]` as `body.messages.0`.
fn path(value: Value<'_>) -> Option<String> {
    let steps: Vec<Cow<'_, str>> =
        value.elements()?.map(|step| step.as_str().unwrap_or(Cow::Borrowed(step.raw()))).collect();
    Some(steps.join("."))
}

/// The title of a page, or its text without tags, or the page as it is where all it has are tags.
fn html(page: &str) -> String {
    let lower = page.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|at| {
        let begin = at + "<title>".len();
        let end = begin + lower[begin..].find("</title>")?;
        Some(page[begin..end].trim())
    });
    if let Some(title) = title.filter(|title| !title.is_empty()) {
        return title.to_owned();
    }
    let mut text = String::new();
    for part in page.split('<') {
        text.push_str(part.split_once('>').map_or(part, |(_, after)| after));
        text.push(' ');
    }
    if text.trim().is_empty() { page.to_owned() } else { text }
}

/// White space and control characters become one space each run: a reason is one line of a log.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty())
        .collect();
    words.join(" ")
}

fn phrase(status: u16) -> &'static str {
    match status {
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        529 => "Overloaded",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_any_shape_is_read() {
        for (body, expected) in [
            (r#"{"error":{"message":"no such model","code":404}}"#, "no such model"),
            (r#"{"error":"model 'x' not found"}"#, "model 'x' not found"),
            (r#"{"error":{"code":500}}"#, r#"{"error":{"code":500}}"#),
            (r#"[{"error":{"code":400,"message":"bad role"}}]"#, "bad role"),
            (r#"{"object":"error","message":"too hot","type":"x"}"#, "too hot"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            (
                r#"{"detail":[{"loc":["body","messages",0],"msg":"field required","type":"v"}]}"#,
                "field required (body.messages.0)",
            ),
            (r#"{"errors":[{"message":"first"},{"message":"second"}]}"#, "first"),
            (r#"{"error":{"message":"{\"error\":{\"message\":\"inner\"}}"}}"#, "inner"),
            (
                r#"{"error":{"message":"Provider error","metadata":{"raw":"{\"message\":\"why\"}"}}}"#,
                "Provider error: why",
            ),
            (r#""a string""#, "a string"),
            (r#"{"error":{"message":"one\n\ttwo"}}"#, "one two"),
            (r#"{"error":{"message":"\ud800"}}"#, "\u{fffd}"),
            ("<html><head><title>502 Bad Gateway</title></head></html>", "502 Bad Gateway"),
            ("<h1>Not<br>here</h1>\n<hr>nginx", "Not here nginx"),
            ("<title></title>\n<div id=app></div>", "<title></title> <div id=app></div>"),
            ("upstream connect error\r\n", "upstream connect error"),
            (r#"{"error":{"message":"cut o"#, r#"{"error":{"message":"cut o"#),
            ("", ""),
            ("null", ""),
            ("{}", "{}"),
        ] {
            assert_eq!(said(body.as_bytes()), expected, "{body}");
        }
        assert_eq!(said(b"caf\xe9 closed"), "caf\u{fffd} closed");
    }

    #[test]
    fn json_quoted_without_end_is_given_up() {
        let mut body = r#"{"message":"core"}"#.to_owned();
        for _ in 0..6 {
            body = format!(r#"{{"message":{}}}"#, serde_json::Value::from(body));
        }
        assert!(said(body.as_bytes()).contains("core"));
    }

    #[test]
    fn a_reason_names_the_status_once() {
        for (status, said, expected) in [
            (503, "busy", "the provider answered 503 Service Unavailable: busy"),
            (502, "502 Bad Gateway", "the provider answered 502 Bad Gateway"),
            (404, "not found", "the provider answered 404 Not Found"),
            (418, "", "the provider answered 418"),
            (418, "tea", "the provider answered 418: tea"),
        ] {
            assert_eq!(reason(status, said), expected);
        }
    }

    #[test]
    fn a_context_that_is_exceeded_is_known_by_its_wordings() {
        for text in [
            "This model's maximum context length is 8192 tokens. However, you requested 9000.",
            "Your input exceeds the context window of this model.",
            r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#,
            "the request exceeds the available context size, try increasing it",
            r#"{"error":{"type":"exceed_context_size_error"}}"#,
            "prompt is too long: 200001 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 1 + 2 > 2",
            "The input token count (1048577) exceeds the maximum number of tokens allowed",
            "Please reduce the length of the messages or completion.",
            "Trying to keep the first 5000 tokens when context the overflows.",
            "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
            "Invalid request: Your request exceeded model token limit: 8192",
            "Input is too long for requested model.",
            "Prompt exceeds max length",
            "Range of input length should be [1, 30720]",
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096",
        ] {
            assert!(names_context(text), "{text}");
        }
        for text in ["model not found", "max_tokens is too large: 9999", "invalid api key"] {
            assert!(!names_context(text), "{text}");
        }
    }

    #[test]
    fn a_spent_quota_is_told_from_a_rate() {
        for (text, spent) in [
            (r#"{"error":{"code":"insufficient_quota"}}"#, true),
            ("You exceeded your current quota, please check your plan and billing details.", true),
            (
                r#"{"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED"}"#,
                false,
            ),
            ("Insufficient Balance", true),
            ("Your credit balance is too low to access the API.", true),
            ("Rate limit reached for requests per min", false),
            ("", false),
        ] {
            assert_eq!(names_spent_quota(text), spent, "{text}");
        }
    }

    #[test]
    fn what_a_request_must_do_without_is_recognised() {
        assert!(names_stream_options("Unrecognized request argument supplied: stream_options"));
        assert!(names_stream_options("extra fields not permitted: include_usage"));
        assert!(!names_stream_options("stream is not supported"));
        assert!(names_content("Invalid value for 'content': expected a string, got null."));
        assert!(!names_content("model not found"));
        let mistral = "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.";
        assert!(names_call_ids(mistral));
        assert!(!names_call_ids("Tool call id call_1 has no result"));
    }
}
