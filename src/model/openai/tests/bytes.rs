//! Bytes: cases 24 to 27, and how much of them.

use super::*;
use crate::limits::{SSE_LINE_BYTES_MAX, STEP_BYTES_MAX, STEP_CALLS_MAX};

/// The text of a stream of these bytes.
fn heard(body: &str) -> String {
    let outcome = ask(&[Server::Answers(ok(body))]);
    assert!(matches!(outcome.end, Action::Finished(_)), "{:?}", outcome.end);
    outcome.text
}

#[test]
fn events_may_be_spelled_in_any_way_the_standard_allows_and_some_it_does_not() {
    // 24
    let (a, b) = (text("a"), text("b"));
    let (first, second) = a.split_at(12);
    for body in [
        format!("data:{a}\n\ndata:{b}\n\ndata:{STOP}\n\ndata:[DONE]\n\n"),
        format!("data: {a}\r\n\r\ndata: {b}\r\n\r\ndata: {STOP}\r\n\r\ndata: [DONE]\r\n\r\n"),
        format!("data: {a}\r\rdata: {b}\r\rdata: {STOP}\r\rdata: [DONE]\r\r"),
        format!(": OPENROUTER PROCESSING\n\ndata: {a}\n\n:\n\ndata: {b}\n\ndata: {STOP}\n\n"),
        format!("data: : OPENROUTER PROCESSING\n\ndata: {a}\n\ndata: {b}\n\ndata: [DONE]\n\n"),
        format!("data: {first}\ndata: {second}\n\ndata: {b}\n\ndata: [DONE]\n\n"),
        format!("id: 1\nretry: 5\nevent: message\ndata: {a}\n\ndata: {b}\n\ndata: [DONE]\n\n"),
        format!("event: ping\ndata: {{}}\n\ndata: {a}\n\ndata: {b}\n\ndata: [DONE]\n\n"),
        // Nothing between two events, nothing behind the last.
        format!("data: {a}\ndata: {b}\ndata: [DONE]"),
        format!("data: heartbeat\n\ndata: {a}\n\ndata: {b}\n\ndata: [DONE]\n\n"),
        format!("\u{feff}data: {a}\n\ndata: {b}\n\ndata: [DONE]\n\n"),
    ] {
        assert_eq!(heard(&body), "ab", "{body}");
    }
}

#[test]
fn a_character_may_be_cut_between_reads() {
    // 25; `ask` feeds it byte by byte.
    let body = format!("data: {}\n\ndata: [DONE]\n\n", text("größer 😀"));
    assert_eq!(heard(&body), "größer 😀");
}

#[test]
fn a_lone_surrogate_and_bytes_that_are_not_utf8_become_u_fffd() {
    // cases.md 22
    let event = r#"{"choices":[{"delta":{"content":"a\ud800b\ud83d\ude00"}}]}"#;
    assert_eq!(heard(&format!("data: {event}\n\ndata: [DONE]\n\n")), "a\u{fffd}b😀");
    let mut body = ok("data: ");
    body.extend_from_slice(&text("a?b").into_bytes());
    body.extend_from_slice(b"\n\ndata: [DONE]\n\n");
    let at = body.iter().rposition(|byte| *byte == b'?').unwrap();
    body[at] = 0xff;
    assert_eq!(ask(&[Server::Answers(body)]).text, "a\u{fffd}b");
}

#[test]
fn a_line_may_be_a_mebibyte_and_no_longer() {
    // 26
    let event = |len: usize| {
        let rest = len - "data: ".len() - text("").len();
        format!("data: {}\n\ndata: [DONE]\n\n", text(&"x".repeat(rest)))
    };
    let (messages, tools) = hello();
    let request = Request { system: None, messages: &messages, tools: &tools, fresh: &[] };
    let ask = |body: &str| {
        let server = Arc::new(OpenAi::new(config()).unwrap());
        drive(&server, &request, &[Server::Answers(ok(body))], Feed::AtOnce)
    };
    assert!(ask(&event(SSE_LINE_BYTES_MAX)).text.len() > 1_000_000);
    let outcome = ask(&event(SSE_LINE_BYTES_MAX + 1));
    assert!(outcome.reason().contains("longer than 1048576 bytes"), "{}", outcome.reason());
}

#[test]
fn an_answer_over_a_bound_fails_and_says_which() {
    let (messages, tools) = hello();
    let request = Request { system: None, messages: &messages, tools: &tools, fresh: &[] };
    let piece = "x".repeat(STEP_BYTES_MAX / 8);
    let args = calls(&format!(r#"{{"index":0,"function":{{"arguments":"{piece}"}}}}"#));
    let many: Vec<String> =
        (0..=STEP_CALLS_MAX).map(|at| format!(r#"{{"index":{at},"id":"{at}"}}"#)).collect();
    for (events, words) in [
        (vec![text(&piece); 9], "over 4194304 bytes"),
        (vec![args; 9], "over 4194304 bytes"),
        (vec![calls(&many.join(","))], "over 128 tool calls"),
    ] {
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let server = Arc::new(OpenAi::new(config()).unwrap());
        let outcome = drive(&server, &request, &[stream(&events)], Feed::AtOnce);
        assert!(outcome.reason().contains(words), "{}", outcome.reason());
    }
}

#[test]
fn every_request_has_a_connection_of_its_own() {
    // 27
    let outcome = ask(&[refusal(503, "", ""), stream(&[&text("hi"), STOP, DONE])]);
    for request in &outcome.requests {
        assert!(request.contains("\r\nConnection: close\r\n"));
    }
}
