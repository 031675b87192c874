//! When a provider is asked again, how often, and what the operator sees of it. The whole table is
//! enumerated beside the code; here it is lived through.

use serde_json::json;

use crate::harness::client::kinds;
use crate::harness::{eventually, http};
use crate::openai::{failed, said, started};

#[test]
fn after_the_first_delta_nothing_is_retried() {
    let (provider, _server, mut client) = started(&json!({}));
    failed(&provider, &mut client, |mut ask| {
        ask.open();
        ask.text("begun");
    });
    assert!(provider.is_asked().is_none());
}

#[test]
fn before_the_first_delta_a_failure_that_may_pass_is_retried() {
    let (provider, _server, mut client) = started(&json!({}));
    let now = "Retry-After: 0\r\n";
    client.wake("go");
    provider.ask().refuse("503 Service Unavailable", now, "later");
    provider.ask().refuse("429 Too Many Requests", now, r#"{"error":{"message":"slow down"}}"#);
    provider.ask().refuse("529 Site Is Overloaded", now, "");
    provider.ask().answer("At last.");
    let turn = client.events_until("turn/end");
    assert_eq!(said(&turn), "At last.");
    assert_eq!(kinds(&turn).iter().filter(|kind| **kind == "step/start").count(), 1);
}

#[test]
fn a_retry_and_what_it_taught_are_lines_of_the_log_and_the_latter_is_a_metric() {
    let (provider, server, mut client) = started(&json!({}));
    client.wake("canary in a message");
    let now = "Retry-After: 0\r\n";
    provider.ask().refuse("503 Service Unavailable", now, r#"{"error":"warming up"}"#);
    let unknown = "unknown field: stream_options";
    provider.ask().refuse("400 Bad Request", "", &json!({"error": unknown}).to_string());
    let too_long = r#"{"error":{"code":"context_length_exceeded","message":"too long"}}"#;
    provider.ask().refuse("400 Bad Request", "", too_long);
    let ask = provider.ask();
    assert!(ask.body.get("stream_options").is_some(), "nothing is learned from a refusal alone");
    ask.refuse("400 Bad Request", "", &json!({"error": unknown}).to_string());
    provider.ask().answer("At last.");
    client.events_until("turn/end");
    let expected = [
        "warn model is asked again session=s1 provider=fake \
         cause=\"the provider answered 503 Service Unavailable: warming up\" attempt=1 wait_ms=0",
        "warn model is asked again session=s1 provider=fake \
         cause=\"the provider answered 400 Bad Request: unknown field: stream_options\" \
         attempt=2 wait_ms=0",
        "warn model is asked again with half the history session=s1 provider=fake \
         cause=\"the provider answered 400 Bad Request: too long (attempt 2)\"",
        "warn model is asked again session=s1 provider=fake \
         cause=\"the provider answered 400 Bad Request: unknown field: stream_options\" \
         attempt=1 wait_ms=0",
        "info learned how the provider wants to be asked session=s1 provider=fake \
         refuses_stream_options=true",
    ];
    eventually("every line in the log", || {
        let log = server.stderr();
        let lines = log.lines().filter_map(|line| Some(line.split_once(' ')?.1));
        let ours = |line: &&str| line.contains("provider=");
        let lines: Vec<&str> = lines.filter(ours).collect();
        (lines.len() == expected.len()).then(|| assert_eq!(lines, expected))
    });
    assert!(!server.stderr().contains("canary"));
    let page = http::get(server.addr(), "/metrics", None).body;
    for (fact, holds) in [("refuses_stream_options", 1), ("wants_null_content", 0)] {
        let sample =
            format!("terret_provider_learned{{provider=\"fake\",fact=\"{fact}\"}} {holds}\n");
        assert!(page.contains(&sample), "{sample} in\n{page}");
    }
}

#[test]
fn a_connection_that_ends_before_any_answer_is_retried() {
    let (provider, _server, mut client) = started(&json!({}));
    client.wake("go");
    drop(provider.ask());
    // An answer with nothing in it is as good as none.
    let mut empty = provider.ask();
    empty.open();
    empty.write(b"0\r\n\r\n");
    drop(empty);
    provider.ask().answer("Third time.");
    assert_eq!(said(&client.events_until("turn/end")), "Third time.");
}

#[test]
fn attempts_are_counted_and_the_last_failure_is_named() {
    let (provider, _server, mut client) = started(&json!({"max_attempts": 3}));
    client.wake("go");
    for _ in 0..3 {
        provider.ask().refuse("503 Service Unavailable", "Retry-After: 0\r\n", "still down");
    }
    let events = client.events_until("turn/end");
    let end = &events.last().unwrap().payload;
    assert_eq!(end["status"], "failed");
    let reason = end["reason"].as_str().unwrap();
    assert!(reason.contains("503") && reason.contains("still down"), "{reason}");
    assert!(provider.is_asked().is_none());
}

#[test]
fn what_will_not_pass_is_not_retried() {
    let (provider, _server, mut client) = started(&json!({}));
    for status in ["400 Bad Request", "401 Unauthorized", "404 Not Found", "422 Unprocessable"] {
        let reason = failed(&provider, &mut client, |ask| {
            ask.refuse(status, "Retry-After: 0\r\n", r#"{"error":{"message":"no such thing"}}"#);
        });
        assert!(reason.contains(&status[..3]) && reason.contains("no such thing"), "{reason}");
        assert!(provider.is_asked().is_none(), "{status}");
    }
}
