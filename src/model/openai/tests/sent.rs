//! What we send: cases 28 to 32, and what never leaves.

use serde_json::json;

use super::*;
use crate::model::Fact;
use crate::proto::payload::Call as ToolCall;

fn call(id: &str) -> ToolCall {
    ToolCall { id: id.into(), name: "f".into(), args: "{ \"x\":1e400 }".into() }
}

/// A history with every kind of message.
fn history() -> Vec<Message> {
    vec![
        Message::User("hello".into()),
        Message::Assistant { text: String::new(), calls: vec![call("call_1"), call("123456789")] },
        Message::Tool { call_id: "call_1".into(), content: "one".into() },
        Message::Tool { call_id: "123456789".into(), content: "two".into() },
        Message::Assistant { text: "so \"it\" is\n".into(), calls: Vec::new() },
    ]
}

fn hi() -> Server {
    stream(&[&text("hi"), STOP, DONE])
}

/// Asks about `history` and tells what was sent.
fn sent(server: &Arc<OpenAi>, servers: &[Server]) -> Outcome {
    let (messages, tools) = (history(), vec![tool("f")]);
    let request =
        Request { system: Some("be brief"), messages: &messages, tools: &tools, fresh: &[] };
    drive(server, &request, servers, Feed::AtOnce)
}

fn server(config: OpenAiConfig) -> Arc<OpenAi> {
    Arc::new(OpenAi::new(config).unwrap())
}

#[test]
fn a_request_is_the_history_message_by_message() {
    // 28, 29: that history alternates and answers every call is the projection's.
    let outcome = sent(&server(config()), &[hi()]);
    let function = json!({"name": "f", "arguments": "{ \"x\":1e400 }"});
    let expected = json!({
        "model": "m1",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "call_1", "type": "function", "function": function},
                {"id": "123456789", "type": "function", "function": function},
            ]},
            {"role": "tool", "tool_call_id": "call_1", "content": "one"},
            {"role": "tool", "tool_call_id": "123456789", "content": "two"},
            {"role": "assistant", "content": "so \"it\" is\n"},
        ],
        "stream": true,
        "stream_options": {"include_usage": true},
        "tools": [{"type": "function", "function": {
            "name": "f", "description": "does f", "parameters": {"type": "object"},
        }}],
    });
    assert_eq!(outcome.body(0), expected);
}

#[test]
fn the_head_of_a_request_says_who_and_where() {
    let outcome = sent(&server(config()), &[hi()]);
    let (head, body) = outcome.requests[0].split_once("\r\n\r\n").unwrap();
    let lines: Vec<&str> = head.split("\r\n").collect();
    assert_eq!(lines[0], "POST /v1/chat/completions HTTP/1.1");
    for line in [
        "Host: 127.0.0.1:11434",
        "Connection: close",
        "Content-Type: application/json",
        &format!("Content-Length: {}", body.len()),
        &format!("Authorization: Bearer {KEY}"),
        &format!("X-Api-Key: {HEADER}"),
    ] {
        assert!(lines.contains(&line), "{line}: {lines:?}");
    }
    let headers = vec![("AUTHORIZATION".to_owned(), Secret::new("Basic x"))];
    let request = asked(OpenAiConfig { headers, ..config() }).1;
    assert!(request.contains("AUTHORIZATION: Basic x\r\n") && !request.contains("Bearer"));
}

/// Where a provider connects to, and what it sends there.
fn asked(config: OpenAiConfig) -> (Target, String) {
    let (messages, tools) = hello();
    let request = Request { system: None, messages: &messages, tools: &tools, fresh: &[] };
    let mut call = Call::start(&Provider::OpenAi(server(config)), &request, "m", 0, Mono(0), 0);
    let Action::Connect { target, request } = call.poll(Mono(0)) else { panic!("connect") };
    (target, String::from_utf8(request.to_vec()).unwrap())
}

#[test]
fn a_base_url_says_whom_to_ask_and_for_what() {
    let azure = "http://r.openai.azure.com/openai/deployments/d/?api-version=2024-10-21";
    for (url, host, port, authority, path) in [
        ("http://h", "h", 80, "h", "/chat/completions"),
        ("http://h:80/v1/", "h", 80, "h", "/v1/chat/completions"),
        ("http://H:8080/behind/a/proxy//", "h", 8080, "h:8080", "/behind/a/proxy/chat/completions"),
        ("http://127.0.0.1:443/v1", "127.0.0.1", 443, "127.0.0.1:443", "/v1/chat/completions"),
        ("http://[::1]/", "::1", 80, "[::1]", "/chat/completions"),
        ("http://[0::1]:11434/v1", "::1", 11434, "[::1]:11434", "/v1/chat/completions"),
        (
            azure,
            "r.openai.azure.com",
            80,
            "r.openai.azure.com",
            "/openai/deployments/d/chat/completions?api-version=2024-10-21",
        ),
    ] {
        let base_url = BaseUrl::parse(url).unwrap();
        let (target, request) = asked(OpenAiConfig { base_url, ..config() });
        assert_eq!(target, Target { host: host.into(), port, tls: false }, "{url}");
        let head = format!("POST {path} HTTP/1.1\r\nHost: {authority}\r\n");
        assert!(request.starts_with(&head), "{url}: {request}");
    }
}

#[test]
fn a_header_that_cannot_be_sent_is_refused_when_the_provider_is_made() {
    let key = OpenAiConfig { api_key: Some(Secret::new("sk-1\r\nX: y")), ..config() };
    let header = vec![("Bad Name".to_owned(), Secret::new("x"))];
    for config in [key, OpenAiConfig { headers: header, ..config() }] {
        let error = OpenAi::new(config).unwrap_err();
        assert!(!error.to_string().contains("sk-1"), "{error}");
    }
}

#[test]
fn extra_members_go_along_and_replace_ours() {
    let extra = |key: &str, json: &str| (key.to_owned(), Box::<str>::from(json));
    let extra_body = vec![
        extra("temperature", "0.5"),
        extra("chat_template_kwargs", r#"{"enable_thinking": false}"#),
        extra("stream_options", "null"),
        extra("tools", "[1]"),
    ];
    let body = sent(&server(OpenAiConfig { extra_body, ..config() }), &[hi()]).body(0);
    assert_eq!(body["temperature"], 0.5);
    assert_eq!(body["chat_template_kwargs"], json!({"enable_thinking": false}));
    assert_eq!((&body["stream_options"], &body["tools"]), (&json!(null), &json!([1])));
}

#[test]
fn a_server_that_refuses_stream_options_is_asked_without_from_then_on() {
    // 19
    for (status, message) in [
        (400, "Unrecognized request argument supplied: stream_options"),
        (422, "body.stream_options: Extra inputs are not permitted"),
    ] {
        let server = server(OpenAiConfig { max_attempts: 1, ..config() });
        let refused = refusal(status, "", &json!({"error": {"message": message}}).to_string());
        let outcome = sent(&server, &[refused.clone(), hi()]);
        assert_eq!(outcome.text, "hi");
        assert!(outcome.body(0).get("stream_options").is_some());
        assert!(outcome.body(1).get("stream_options").is_none());
        assert_eq!(outcome.waits_ms, [0]);
        let [Note::Retried { reason, attempt: 1, wait_ms: 0 }, learned] = &outcome.notes[..] else {
            panic!("{:?}", outcome.notes);
        };
        assert!(reason.contains(message), "{reason}");
        assert_eq!(*learned, Note::Learned { fact: Fact::RefusesStreamOptions, holds: true });
        assert!(server.learned().has(Fact::RefusesStreamOptions));
        let later = sent(&server, &[hi()]);
        assert!(later.body(0).get("stream_options").is_none());
        assert_eq!(later.notes, [], "it is no news");
        // A server that goes on naming it is not asked a third time.
        assert!(sent(&server, &[refused]).reason().contains("stream_options"));
    }
}

#[test]
fn mistrals_ids_are_nine_letters_and_digits_and_still_match() {
    // 30: by configuration, or by what the server says.
    let configured = OpenAiConfig { id_style: Some(crate::config::IdStyle::Mistral9), ..config() };
    let refused = refusal(
        400,
        "",
        r#"{"message":"Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9."}"#,
    );
    let told = server(config());
    let taught = sent(&told, &[refused, hi()]);
    assert!(told.learned().has(Fact::WantsNineLetterIds));
    for body in [sent(&server(configured), &[hi()]).body(0), taught.body(1)] {
        let messages = &body["messages"];
        let mapped = messages[2]["tool_calls"][0]["id"].as_str().unwrap();
        assert!(mapped.len() == 9 && mapped.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_eq!(mapped, "9gD2Dimct");
        assert_eq!(messages[3]["tool_call_id"], mapped);
        assert_eq!(messages[2]["tool_calls"][1]["id"], "123456789");
        assert_eq!(messages[4]["tool_call_id"], "123456789");
    }
}

#[test]
fn content_beside_calls_is_empty_or_null_as_the_server_wants_it() {
    // 31
    let refused = |what: &str| {
        let message = format!("messages.2.content: {what}");
        refusal(400, "", &json!({"error": {"message": message}}).to_string())
    };
    let server = server(config());
    let outcome = sent(&server, &[refused("must not be empty"), hi()]);
    assert_eq!(outcome.body(0)["messages"][2]["content"], "");
    assert_eq!(outcome.body(1)["messages"][2]["content"], json!(null));
    assert!(server.learned().has(Fact::WantsNullContent));
    assert_eq!(sent(&server, &[hi()]).body(0)["messages"][2]["content"], json!(null));
    let relearned = |holds| Note::Learned { fact: Fact::WantsNullContent, holds };
    assert_eq!(outcome.notes[1..], [relearned(true)]);
    // Neither helps: it was something else, and nothing is learned from it.
    let outcome = sent(&server, &[refused("too rude"), refused("too rude")]);
    assert_eq!(outcome.body(1)["messages"][2]["content"], "");
    assert!(outcome.reason().contains("too rude"));
    assert!(server.learned().has(Fact::WantsNullContent));
    // What was believed may turn out wrong, as when the server behind a proxy was replaced.
    let outcome = sent(&server, &[refused("expected a string, got null"), hi()]);
    assert_eq!(outcome.notes[1..], [relearned(false)]);
    assert!(!server.learned().has(Fact::WantsNullContent));
}

#[test]
fn no_tools_are_no_member() {
    // 32
    let (messages, _) = hello();
    let request = Request { system: None, messages: &messages, tools: &[], fresh: &[] };
    let outcome = drive(&server(config()), &request, &[hi()], Feed::AtOnce);
    assert!(outcome.body(0).get("tools").is_none());
}

#[test]
fn a_secret_is_in_no_reason_and_no_debug_output() {
    // cases.md 35
    let extra_body = vec![("api_key".to_owned(), Box::<str>::from("\"body-canary-01\""))];
    let base_url = "http://127.0.0.1:11434/v1?api-version=2024-10-21&code_key=query%2Dcanary-01";
    let base_url = BaseUrl::parse(base_url).unwrap();
    let config = OpenAiConfig { base_url, extra_body, max_attempts: 1, ..config() };
    let hidden = format!("{KEY}, {HEADER}, body-canary-01 and query-canary-01, query%2Dcanary-01");
    let quoted = json!({"error": {"message": format!("you sent {hidden}")}}).to_string();
    // A key that lies across the place where an error body is cut.
    let cut = format!("{}{KEY}", "x".repeat(crate::limits::ERROR_BODY_BYTES_MAX - 12));
    let spaced = format!("{}{KEY}", " ".repeat(crate::limits::ERROR_BODY_BYTES_MAX - 12));
    let shown = |server: Server| format!("{:?}", ask_as(&config, &[server]).end);
    let patient = OpenAiConfig { max_attempts: 2, ..config.clone() };
    let twice = ask_as(&patient, &[refusal(503, "", &cut), refusal(503, "", &hidden)]);
    let shown_notes = format!("{:?} {:?}", twice.notes, twice.end);
    assert!(shown_notes.contains("503") && !shown_notes.contains("canary"), "{shown_notes}");
    for server in [
        refusal(401, "", &quoted),
        refusal(401, "", &hidden),
        refusal(401, "", &cut),
        refusal(401, "", &spaced),
        refusal(302, &format!("Location: http://h/?{KEY}\r\n"), ""),
        stream(&[&quoted]),
        stream(&[&hidden]),
        stream(&[&text("hi"), &hidden]),
        stream(&["{broken", &hidden]),
        Server::Answers(ok(&hidden)),
        Server::Answers(ok(&format!("error: {hidden}\n\n"))),
        Server::Answers(ok(&format!("event: error\ndata: {hidden}\n\n"))),
    ] {
        let shown = shown(server.clone());
        assert!(!shown.contains("canary") && !shown.contains("sk-c"), "{server:?}: {shown}");
    }
    let provider = Provider::new(crate::config::ProviderConfig::OpenAi(config)).unwrap();
    let (messages, tools) = hello();
    let request = Request { system: None, messages: &messages, tools: &tools, fresh: &[] };
    let mut call = Call::start(&provider, &request, "m", 0, Mono(0), 0);
    let action = call.poll(Mono(0));
    let shown = format!("{provider:?} {call:?} {action:?} {call:#?}");
    assert!(!shown.contains("canary"), "{shown}");
}
