//! The chat-completions provider against a server in the test's hand.

use serde_json::{Value, json};

use crate::harness::client::kinds;
use crate::harness::provider::{Ask, Provider};
use crate::harness::{Client, Event, Server, eventually};

pub(crate) fn started(definition: &Value) -> (Provider, Server, Client) {
    let provider = Provider::start();
    let server = Server::start(&["s1"], &provider.config(definition));
    let client = server.subscribed("s1");
    (provider, server, client)
}

/// What the step's chunks add up to, which its message must repeat.
pub(crate) fn said(events: &[Event]) -> String {
    let chunks = events.iter().filter(|event| event.kind == "assistant/chunk");
    let text: String = chunks.map(Event::text).collect();
    let message = events.iter().find(|event| event.kind == "assistant/message").unwrap();
    assert_eq!(message.payload, json!({"parts": [{"type": "text", "text": text}]}));
    text
}

/// Runs a turn whose only request is answered by `answer`, and expects it to complete.
fn completed(provider: &Provider, client: &mut Client, answer: impl FnOnce(Ask)) -> Vec<Event> {
    client.wake("go");
    answer(provider.ask());
    let events = client.events_until("turn/end");
    assert_eq!(events.last().unwrap().payload, json!({"status": "completed"}));
    events
}

/// The same for a turn that must fail; the reason it gives.
pub(crate) fn failed(provider: &Provider, client: &mut Client, answer: impl FnOnce(Ask)) -> String {
    client.wake("go");
    answer(provider.ask());
    let events = client.events_until("turn/end");
    let end = &events.last().unwrap().payload;
    assert_eq!(end["status"], "failed", "{end}");
    assert!(!kinds(&events).contains(&"assistant/message"), "a failed step has no message");
    assert!(!kinds(&events).contains(&"step/end"), "a failed step has no end");
    end["reason"].as_str().unwrap().to_owned()
}

#[test]
fn the_request_is_what_such_servers_expect() {
    let provider = Provider::start();
    let mut config = provider
        .config(&json!({"headers": {"X-Team": "terret"}, "extra_body": {"temperature": 0.5}}));
    config["system_prompt"] = json!("Be brief.");
    let server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.steer("By the way");
    client.wake("Hello");
    let ask = provider.ask();
    assert!(ask.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", ask.head);
    assert_eq!(ask.header("Content-Type"), Some("application/json"));
    assert_eq!(ask.header("Connection"), Some("close"));
    assert_eq!(ask.header("X-Team"), Some("terret"));
    assert!(ask.header("Host").is_some());
    assert_eq!(ask.body["model"], "model-1");
    assert_eq!(ask.body["stream"], true);
    assert_eq!(ask.body["stream_options"], json!({"include_usage": true}));
    assert_eq!(ask.body["temperature"], 0.5);
    assert_eq!(ask.body["messages"][0], json!({"role": "system", "content": "Be brief."}));
    let roles: Vec<&Value> =
        ask.body["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["system", "user"], "adjacent user messages are joined");
    assert!(ask.body.get("tools").is_none(), "left out when empty");
    ask.answer("Hi.");
    client.events_until("turn/end");

    client.wake("And then?");
    let ask = provider.ask();
    assert_eq!(ask.contents("assistant"), ["Hi."]);
    assert_eq!(ask.contents("user").len(), 2);
    ask.answer("Bye.");
    client.events_until("turn/end");
}

#[test]
fn a_key_comes_from_the_environment_and_appears_nowhere_else() {
    let provider = Provider::start();
    let folder = std::sync::Arc::new(tempfile::TempDir::new().unwrap());
    let config = provider.config(&json!({"api_key_env": "CANARY_KEY", "max_attempts": 1}));
    let path = folder.path().join("config.json");
    std::fs::write(&path, crate::harness::server::config(&["s1"], &config).to_string()).unwrap();
    let mut command = crate::harness::server::binary();
    command.args(["serve", "--config", "config.json"]).env("CANARY_KEY", "sk-canary-0123456789");
    let server = Server::launch(command, folder);
    let mut client = server.subscribed("s1");
    client.wake("go");
    let ask = provider.ask();
    assert_eq!(ask.header("Authorization"), Some("Bearer sk-canary-0123456789"));
    // A provider that repeats the key in its error.
    ask.refuse("401 Unauthorized", "", r#"{"error":{"message":"bad key sk-canary-0123456789"}}"#);
    let events = client.events_until("turn/end");
    let reason = events.last().unwrap().payload["reason"].as_str().unwrap();
    assert!(reason.contains("[REDACTED]") && reason.contains("401"), "{reason}");
    assert!(!server.state("s1").to_string().contains("canary"));
    assert!(!server.stderr().contains("sk-canary"), "{}", server.stderr());
}

#[test]
fn however_the_answer_is_framed_its_text_is_whole() {
    let (provider, _server, mut client) = started(&json!({}));
    let events = ["Grüße, ", "漢字 ", "😀"]
        .map(|text| format!("data: {}\n\n", json!({"choices": [{"delta": {"content": text}}]})));
    let stream = [
        events.concat(),
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n".to_owned(),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    let crlf = stream.replace('\n', "\r\n");
    let bare = stream.replace("data: ", "data:");
    for body in [&stream, &crlf, &bare] {
        let chunked: String = {
            let chunks = body.as_bytes().chunks(7).map(|chunk| {
                let text: String = chunk.iter().map(|&byte| char::from(byte)).collect();
                format!("{:X};ext=1\r\n{text}\r\n", chunk.len())
            });
            chunks.collect::<String>() + "0\r\nTrailer: x\r\n\r\n"
        };
        // `chunked` holds each byte as one character: written back as bytes below.
        let chunked: Vec<u8> =
            chunked.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
        let framed: [Vec<u8>; 4] = [
            [format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes(), &chunked].concat(),
            format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes(),
            format!("{head}\r\n{body}").into_bytes(),
            format!("HTTP/1.1 100 Continue\r\n\r\n{head}\r\n{body}").into_bytes(),
        ];
        for bytes in framed {
            for size in [1, 3, bytes.len()] {
                let turn = completed(&provider, &mut client, |mut ask| {
                    bytes.chunks(size).for_each(|piece| ask.write(piece));
                });
                assert_eq!(said(&turn), "Grüße, 漢字 😀");
            }
        }
    }
}

#[test]
fn usage_is_logged_when_the_provider_sends_it() {
    let (provider, _server, mut client) = started(&json!({}));
    let turn = completed(&provider, &mut client, |ask| ask.answer("Hi."));
    let step_end = turn.iter().find(|event| event.kind == "step/end").unwrap();
    let usage = json!({"prompt_tokens": 11, "completion_tokens": 7, "cost": null});
    assert_eq!(step_end.payload, json!({"n": 1, "usage": usage}));
    let turn = completed(&provider, &mut client, |mut ask| {
        ask.open();
        ask.text("Hi.");
        ask.chunk("data: [DONE]\n\n");
        ask.write(b"0\r\n\r\n");
    });
    let step_end = turn.iter().find(|event| event.kind == "step/end").unwrap();
    assert_eq!(step_end.payload, json!({"n": 1}));
}

#[test]
fn a_stream_that_is_cut_fails_the_turn() {
    let (provider, _server, mut client) = started(&json!({"max_attempts": 1}));
    // Inside a chunked body, and at the end of one that says nothing of its end.
    failed(&provider, &mut client, |mut ask| {
        ask.open();
        ask.text("half a sen");
    });
    failed(&provider, &mut client, |mut ask| {
        ask.open();
        ask.text("half a sen");
        ask.write(b"0\r\n\r\n");
    });
    failed(&provider, &mut client, |mut ask| {
        ask.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\ndata: {");
    });
    completed(&provider, &mut client, |ask| ask.answer("and the next turn is well"));
}

#[test]
fn an_error_in_the_stream_fails_the_turn_with_its_words() {
    let (provider, _server, mut client) = started(&json!({}));
    let table = [
        "data: {\"error\":{\"message\":\"model melted\",\"code\":500}}\n\n",
        "event: error\ndata: {\"message\":\"model melted\"}\n\n",
        "error: {\"message\":\"model melted\"}\n\n",
    ];
    for event in table {
        let reason = failed(&provider, &mut client, |mut ask| {
            ask.open();
            ask.text("so far ");
            ask.chunk(event);
            ask.write(b"0\r\n\r\n");
        });
        assert!(reason.contains("model melted"), "{event}: {reason}");
    }
}

#[test]
fn comments_are_no_progress() {
    let (provider, _server, mut client) =
        started(&json!({"silence_timeout_s": 1, "first_byte_timeout_s": 1, "max_attempts": 1}));
    for text_first in [true, false] {
        client.wake("go");
        let mut ask = provider.ask();
        ask.open();
        if text_first {
            ask.text("a word, and then ");
        }
        // Comments until the server has had enough of them.
        while ask.is_heard() {
            ask.chunk(": keep-alive\n\n");
        }
        let events = client.events_until("turn/end");
        assert_eq!(events.last().unwrap().payload["status"], "failed", "text first: {text_first}");
    }
}

#[test]
fn comments_between_words_harm_nothing() {
    let (provider, _server, mut client) = started(&json!({}));
    let turn = completed(&provider, &mut client, |mut ask| {
        ask.open();
        for text in ["one ", "two ", "three"] {
            ask.chunk(": OPENROUTER PROCESSING\n\n");
            ask.text(text);
            ask.chunk(":\n\n: :\n\n");
        }
        ask.end();
    });
    assert_eq!(said(&turn), "one two three");
}

#[test]
fn a_whole_answer_where_a_stream_was_asked_for_is_taken_as_one() {
    let (provider, _server, mut client) = started(&json!({}));
    let turn = completed(&provider, &mut client, |ask| {
        let body = json!({
            "choices": [{
                "message": {"role": "assistant", "content": "All at once."},
                "finish_reason": "stop"
            }],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2}
        });
        ask.refuse("200 OK", "Content-Type: application/json\r\n", &body.to_string());
    });
    assert_eq!(said(&turn), "All at once.");
}

#[test]
fn nobody_listening_fails_the_turn_and_says_so() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let definition = json!({
        "kind": "openai", "base_url": format!("http://{free}/v1"), "max_attempts": 1
    });
    let server = Server::start(
        &["s1"],
        &json!({"providers": {"gone": definition}, "roles": {"main": "gone/m"}}),
    );
    let mut client = server.subscribed("s1");
    let turn = client.turn("anybody?");
    let end = &turn.last().unwrap().payload;
    assert_eq!(end["status"], "failed");
    assert!(end["reason"].as_str().unwrap().contains(&free.to_string()), "{end}");
}

#[test]
fn a_provider_is_found_by_its_name() {
    let provider = Provider::start();
    let base_url = format!("http://localhost:{}/v1", provider.addr.port());
    let server = Server::start(&["s1"], &provider.config(&json!({"base_url": base_url})));
    let mut client = server.subscribed("s1");
    // The second time the name is known already.
    for text in ["once", "twice"] {
        completed(&provider, &mut client, |ask| {
            let host = format!("localhost:{}", provider.addr.port());
            assert_eq!(ask.header("Host"), Some(host.as_str()));
            ask.answer(text);
        });
    }
}

#[test]
fn a_provider_is_asked_no_more_at_once_than_it_takes_and_turns_wait_in_order() {
    let provider = Provider::start();
    let sessions = ["s1", "s2", "s3", "s4"];
    let server = Server::start(&sessions, &provider.config(&json!({"max_concurrent_requests": 1})));
    let mut clients = sessions.map(|session| server.subscribed(session));
    clients[0].wake("first");
    let ask = provider.ask();
    for (client, session) in clients.iter_mut().zip(sessions).skip(1) {
        client.wake(session);
        eventually("it waits for its provider", || {
            let state = server.state(session);
            (state["waits_for_provider"] == "fake" && state["status"] == "running").then_some(())
        });
    }
    assert_eq!(server.state("s1")["waits_for_provider"], Value::Null);
    // One that waits can be cancelled, and the next in line is asked in its place.
    clients[1].cancel("no longer");
    let cancelled = clients[1].events_until("turn/end");
    assert_eq!(cancelled.last().unwrap().payload["status"], "cancelled");
    assert!(provider.is_asked().is_none(), "nobody else was asked meanwhile");

    ask.answer("1");
    for number in [2, 3] {
        let ask = provider.ask();
        assert_eq!(ask.contents("user"), [sessions[number]]);
        assert!(provider.is_asked().is_none());
        ask.answer("later");
    }
    for number in [0, 2, 3] {
        let events = clients[number].events_until("turn/end");
        assert_eq!(events.last().unwrap().payload, json!({"status": "completed"}));
    }
    // A place is given back by a failure as well.
    clients[0].wake("again");
    provider.ask().refuse("400 Bad Request", "", "no");
    clients[0].events_until("turn/end");
    clients[1].wake("again");
    provider.ask().answer("yes");
    clients[1].events_until("turn/end");
}

#[test]
fn a_name_that_nobody_has_fails_the_turn_and_holds_up_no_other() {
    let server = Server::start(
        &["s1", "s2"],
        &json!({
            "providers": {"lost": {
                "kind": "openai", "base_url": "http://no-such-host.invalid/v1", "max_attempts": 1
            }},
            "roles": {"main": "lost/m"}, "roles_scope": "agent", "workers": 2
        }),
    );
    let mut lost = server.subscribed("s1");
    lost.wake("anybody?");
    let mut other = server.subscribed("s2");
    other.send(&json!({"type": "set_model", "role": "main", "model": "echo/echo"}));
    assert_eq!(other.turn("hello").last().unwrap().payload, json!({"status": "completed"}));
    let turn = lost.events_until("turn/end");
    let end = &turn.last().unwrap().payload;
    assert_eq!(end["status"], "failed");
    assert!(end["reason"].as_str().unwrap().contains("no-such-host.invalid"), "{end}");
}

#[test]
fn a_text_beyond_4_mib_fails_the_turn_and_says_which_bound() {
    let (provider, _server, mut client) = started(&json!({}));
    let piece = "x".repeat(512 * 1024);
    let reason = failed(&provider, &mut client, |mut ask| {
        ask.open();
        for _ in 0..9 {
            ask.text(&piece);
        }
        ask.end();
    });
    assert!(reason.contains("4 MiB") || reason.contains("4194304"), "{reason}");
}

#[test]
fn a_failed_resume_leaves_the_turn_open() {
    let provider = Provider::start();
    let config = provider.config(&json!({"max_attempts": 1}));
    let mut server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.wake("first");
    let ask = provider.ask();
    client.events_until("user/message");
    server.kill();
    drop(ask);
    let server = Server::start_in(server.folder(), &["s1"], &config);
    let mut client = server.connect("s1");
    client.subscribe(client.last_seq() + 1);
    client.wake("second");
    provider.ask().refuse("500 Internal Server Error", "", "still broken");
    crate::harness::eventually("the failure in GET /agents/s1", || {
        server.state("s1")["last_error"].as_str().map(|error| assert!(error.contains("500")))
    });
    assert!(provider.is_asked().is_none(), "no hot loop");
    // The next stimulus picks it up, and only now the turn ends.
    client.wake("third");
    let ask = provider.ask();
    let said = ask.contents("user").join("\n");
    for text in ["first", "second", "third"] {
        assert_eq!(said.matches(text).count(), 1, "{text} in {said}");
    }
    ask.answer("Mended.");
    let events = client.events_until("turn/end");
    assert_eq!(events.last().unwrap().payload, json!({"status": "completed"}));
    assert!(!kinds(&events).contains(&"turn/start"));
}
