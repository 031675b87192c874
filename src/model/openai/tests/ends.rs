//! Ends and errors: cases 12 to 19 and 21 to 23.

use super::*;

const CALL: &str = r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}"#;
const HALF_A_CALL: &str = r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}"#;

#[test]
fn done_without_a_finish_reason_is_an_end_if_something_came() {
    // 12
    assert_eq!(ask(&[stream(&[&text("hi"), DONE])]).text, "hi");
    assert_eq!(ask(&[stream(&[&calls(CALL), DONE])]).shown_calls(), ["f {}"]);
    let cut = ask(&[stream(&[&text("hi"), &calls(HALF_A_CALL), DONE])]);
    assert!(cut.reason().contains("broke off"), "{}", cut.reason());
}

#[test]
fn neither_finish_reason_nor_done_is_a_cut_and_nothing_is_executed() {
    // 13: at the end of the body, at a broken connection, and inside of an event.
    let events = format!("data: {}\n\ndata: {}\n\n", text("hi"), calls(CALL));
    let chunked = |last: &str| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        format!("{head}{:x}\r\n{events}\r\n{last}", events.len()).into_bytes()
    };
    for server in [
        Server::Answers(ok(&events)),
        Server::Breaks(ok(&events)),
        Server::Answers(chunked("0\r\n\r\n")),
        Server::Answers(chunked("")),
        Server::Answers(ok(&format!("{events}data: {}", &STOP[..30]))),
        // The only event, which nothing ended: it was heard, so it is not asked for again.
        Server::Answers(ok(&format!("data: {}", text("hi")))),
        Server::Breaks(ok(&format!("data: {}", text("hi")))),
    ] {
        let outcome = ask(&[server]);
        assert_eq!(outcome.text, "hi");
        let reason = outcome.reason();
        assert!(reason.contains("broke off") || reason.contains("was cut off"), "{reason}");
    }
}

#[test]
fn what_comes_after_the_end_means_nothing() {
    let events = format!("data: {}\n\ndata: {DONE}\n\ndata: {}\n\n", text("hi"), text("more"));
    for server in [Server::Answers(ok(&events)), Server::Holds(ok(&events))] {
        let outcome = ask(&[server]);
        assert_eq!((outcome.text.as_str(), outcome.took), ("hi", Mono(0)));
        assert!(matches!(outcome.end, Action::Finished(_)));
    }
}

#[test]
fn a_finish_reason_is_an_end_even_if_the_connection_then_breaks_or_falls_silent() {
    let events = format!("data: {}\n\ndata: {STOP}\n\n", text("hi"));
    for server in
        [Server::Answers(ok(&events)), Server::Breaks(ok(&events)), Server::Holds(ok(&events))]
    {
        let outcome = ask(&[server]);
        assert!(matches!(outcome.end, Action::Finished(_)), "{:?}", outcome.end);
        assert!(outcome.took <= Mono(10_000));
    }
}

#[test]
fn an_empty_answer_is_retried_and_then_named() {
    // 14
    let role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    let nothing = "data: {\"choices\":[]}\n\n";
    for body in ["", "\n\n", ": hello\n\n", "data: [DONE]\n\n", nothing, role] {
        let empty = || Server::Answers(ok(body));
        let outcome = ask(&[empty(), stream(&[&text("hi"), STOP, DONE])]);
        assert_eq!(outcome.text, "hi", "{body:?}");
        let outcome = ask(&[empty(), empty(), empty(), empty()]);
        assert_eq!(outcome.reason(), "the provider's answer was empty (attempt 4)", "{body:?}");
    }
    // A model may have nothing to say, and says so.
    assert_eq!(ask(&[stream(&[STOP, DONE])]).text, "");
}

#[test]
fn an_error_after_a_success_status_is_terminal_and_quoted() {
    // 15, 16
    let bodies = [
        r#"{"error":{"message":"boom","code":500}}"#,
        r#"{"error":"boom"}"#,
        r#"{"object":"error","message":"boom","code":400}"#,
        r#"[{"error":{"message":"boom"}}]"#,
        r#""boom""#,
        r#"{"detail":"boom"}"#,
        r#"{"detail":[{"loc":["body"],"msg":"boom"}]}"#,
    ];
    for body in bodies {
        for server in [
            Server::Answers(ok(body)),
            stream(&[body]),
            Server::Answers(ok(&format!("event: error\ndata: {body}\n\n"))),
            Server::Answers(ok(&format!("error: {body}\n\n"))),
            Server::Answers(ok(&format!("data: {}\n\ndata: {body}\n\n", text("hi")))),
        ] {
            let outcome = ask(&[server]);
            assert!(outcome.reason().contains("boom"), "{body}: {}", outcome.reason());
        }
    }
    for body in ["<html><title>boom</title></html>", "boom\n", "error: boom\n", "boom"] {
        let outcome = ask(&[Server::Answers(ok(body))]);
        assert_eq!(outcome.reason(), "the provider said: boom", "{body}");
    }
    // Without a word of an error, what came is quoted as it is.
    for (body, reason) in [
        ("event: error\n\n", "the provider sent an error without a word"),
        ("null", "the provider sent an error without a word: null"),
        ("{\"error\":{}}", "the provider said: {\"error\":{}}"),
        ("<html>\n<div id=app>\n</html>\n", "the provider said: <html> <div id=app> </html>"),
    ] {
        assert_eq!(ask(&[Server::Answers(ok(body))]).reason(), reason, "{body}");
    }
}

#[test]
fn a_delta_may_be_null_or_absent_and_events_unknown() {
    // 17
    let outcome = ask(&[stream(&[
        r#"{"choices":[{"index":0,"delta":null}]}"#,
        r#"{"choices":[{"index":0}]}"#,
        r#"{"choices":[]}"#,
        r#"{"type":"ping"}"#,
        r#"{"choices":[{"delta":{"content":"hi","unheard_of":{"a":[1]}},"logprobs":null}],"x":1}"#,
        STOP,
        DONE,
    ])]);
    assert_eq!(outcome.text, "hi");
}

#[test]
fn a_whole_answer_in_one_document_is_taken_as_such() {
    // 18
    let body = r#"{"id":"1","object":"chat.completion","choices":[{"index":0,"message":
        {"role":"assistant","content":"hi","tool_calls":[{"id":"a","type":"function","function":
        {"name":"f","arguments":"{\"x\":1}"}}]},"finish_reason":"tool_calls"}],
        "usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
    let length = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    for server in [
        Server::Answers(ok(body)),
        Server::Holds(length.into_bytes()),
        Server::Answers(ok(&format!("\u{feff}\n{body}\n"))),
    ] {
        let outcome = ask(&[server]);
        assert_eq!(outcome.text, "hi");
        assert_eq!(outcome.shown_calls(), [r#"f {"x":1}"#]);
        assert_eq!(outcome.usage().map(|usage| usage.completion_tokens), Some(4));
    }
    // Cut off, nothing of it was passed on, so it is asked for again.
    let cut = || Server::Answers(ok(&body[..200]));
    assert_eq!(ask(&[cut(), Server::Answers(ok(body))]).text, "hi");
    let outcome = ask(&[cut(), cut(), cut(), cut()]);
    assert_eq!(outcome.reason(), "the provider's answer broke off (attempt 4)");
}

#[test]
fn of_several_usages_the_last_counts() {
    // 19
    let usage = |n: u64| {
        format!(r#"{{"choices":[],"usage":{{"prompt_tokens":9,"completion_tokens":{n}}}}}"#)
    };
    let outcome = ask(&[stream(&[&usage(1), &text("hi"), &usage(2), STOP, &usage(3), DONE])]);
    let expected = Usage { prompt_tokens: 9, completion_tokens: 3, cost: None };
    assert_eq!(outcome.usage(), Some(expected));
    assert_eq!(ask(&[stream(&[&text("hi"), STOP, DONE])]).usage(), None);
}

#[test]
fn a_server_that_asks_to_be_left_alone_is() {
    // 21
    let hi = || stream(&[&text("hi"), STOP, DONE]);
    for (headers, wait_ms) in [
        ("Retry-After: 7\r\n", 7_000),
        ("Retry-After: 3600\r\n", 60_000),
        ("retry-after-ms: 120\r\nRetry-After: 7\r\n", 120),
        (
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:49:40 GMT\r\n",
            3_000,
        ),
    ] {
        for status in [429, 503, 529] {
            let outcome = ask(&[refusal(status, headers, ""), hi()]);
            assert_eq!((outcome.text.as_str(), &outcome.waits_ms[..]), ("hi", &[wait_ms][..]));
        }
    }
    let told = |value: &str| format!("x-should-retry: {value}\r\n");
    assert_eq!(ask(&[refusal(400, &told("true"), ""), hi()]).text, "hi");
    assert!(ask(&[refusal(503, &told("false"), "")]).reason().contains("503"));
}

#[test]
fn a_refusal_is_retried_by_its_status() {
    // 22; the whole table is enumerated beside it, in `retry`.
    let hi = || stream(&[&text("hi"), STOP, DONE]);
    let busy = |status: u16| refusal(status, "", r#"{"error":{"message":"busy"}}"#);
    for status in [408, 429, 500, 502, 503, 504, 529] {
        let outcome = ask(&[busy(status), busy(status), busy(status), hi()]);
        assert_eq!(outcome.text, "hi", "{status}");
        let outcome = ask(&[busy(status), busy(status), busy(status), busy(status)]);
        let reason = outcome.reason();
        assert!(reason.ends_with("busy (attempt 4)") && reason.contains(&status.to_string()));
        for (wait_ms, middle) in outcome.waits_ms.iter().zip([500, 1000, 2000]) {
            assert!((middle * 3 / 4..=middle * 5 / 4).contains(wait_ms), "{wait_ms}");
        }
    }
    for status in [301, 400, 401, 403, 404, 422, 499] {
        assert!(ask(&[busy(status)]).reason().ends_with("busy"), "{status}");
    }
    let spent = refusal(429, "", r#"{"error":{"code":"insufficient_quota","message":"pay"}}"#);
    assert!(ask(&[spent]).reason().ends_with("pay"));
    let moved = refusal(302, "Location: http://elsewhere/\r\n", "");
    assert!(ask(&[moved]).reason().ends_with("moved to http://elsewhere/"));
}

#[test]
fn each_retry_is_noted_with_its_cause_its_attempt_and_its_wait() {
    let busy = refusal(503, "Retry-After: 3\r\n", "busy");
    let outcome = ask(&[busy, Server::Refuses, stream(&[&text("hi"), STOP, DONE])]);
    let retried = |reason: &str, attempt, wait_ms| Note::Retried {
        reason: reason.to_owned(),
        attempt,
        wait_ms,
    };
    let refused = "no connection to 127.0.0.1:11434: connection reset";
    assert_eq!(
        outcome.notes,
        [
            retried("the provider answered 503 Service Unavailable: busy", 1, 3_000),
            retried(refused, 2, outcome.waits_ms[1]),
        ]
    );
    // What is not made again is no retry.
    assert_eq!(ask(&[refusal(400, "", "no")]).notes, []);
    assert_eq!(ask_as(&OpenAiConfig { max_attempts: 1, ..config() }, &[Server::Refuses]).notes, []);
}

#[test]
fn a_connection_that_fails_before_the_first_delta_is_tried_again() {
    let hi = || stream(&[&text("hi"), STOP, DONE]);
    let role = format!("data: {}\n\n", text(""));
    for server in [
        Server::Refuses,
        Server::Ignores,
        Server::Answers(Vec::new()),
        Server::Breaks(b"HTTP/1.1 200 O".to_vec()),
        Server::Breaks(ok("")),
        Server::Breaks(ok(&role)),
    ] {
        let outcome = ask(&[server.clone(), hi()]);
        assert_eq!(outcome.text, "hi", "{server:?}");
    }
    let outcome = ask_as(&OpenAiConfig { max_attempts: 1, ..config() }, &[Server::Refuses]);
    assert_eq!(outcome.reason(), "no connection to 127.0.0.1:11434: connection reset");
}

#[test]
fn a_server_that_does_not_prove_who_it_is_is_not_asked_again() {
    let outcome = ask(&[Server::Deceives]);
    let expected = "no connection to 127.0.0.1:11434: its certificate has expired";
    assert_eq!(outcome.reason(), expected);
}

#[test]
fn broken_json_in_the_stream_fails_the_answer_and_quotes_nothing_of_it() {
    let outcome = ask(&[stream(&[&text("hi"), r#"{"choices":[{"delta":{"content":"canary}]"#])]);
    let reason = outcome.reason();
    assert!(reason.starts_with("the provider sent an event that is not JSON"), "{reason}");
    assert!(!reason.contains("canary"), "{reason}");
}

#[test]
fn what_is_no_answer_is_named_at_once() {
    for (bytes, words) in [
        ("SSH-2.0-OpenSSH_9.6\r\n", "is not HTTP"),
        ("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", "coding"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "malformed"),
    ] {
        let outcome = ask(&[Server::Answers(bytes.into())]);
        assert!(outcome.reason().contains(words), "{}", outcome.reason());
    }
}

#[test]
fn an_exceeded_context_is_recognised_wherever_it_is_said() {
    // 23
    let error = r#"{"error":{"message":"too much","code":"context_length_exceeded"}}"#;
    let once_more = r#"{"error":{"message":"the request exceeds the available context size"}}"#;
    for server in [
        refusal(400, "", error),
        refusal(413, "", error),
        refusal(500, "", once_more),
        stream(&[error]),
        Server::Answers(ok(once_more)),
    ] {
        let Action::Failed { context_exceeded, .. } = ask(&[server]).end else { panic!("failed") };
        assert!(context_exceeded);
    }
    for server in [
        refusal(400, "", r#"{"error":"no such model"}"#),
        refusal(429, "x-should-retry: false\r\n", error),
        // What has begun cannot begin again.
        stream(&[&text("hi"), error]),
    ] {
        let Action::Failed { context_exceeded, .. } = ask(&[server]).end else { panic!("failed") };
        assert!(!context_exceeded);
    }
}
