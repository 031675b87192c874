//! A cancel stops the turn wherever it waits, and says so in the log.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::client::kinds;
use crate::harness::provider::Provider;
use crate::harness::{Client, Event, Server, eventually, http, scripted};

fn started(provider: &Provider, definition: &Value, more: &Value) -> (Server, Client) {
    let mut config = provider.config(definition);
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let server = Server::start(&["s1"], &config);
    let client = server.subscribed("s1");
    (server, client)
}

fn end(events: &[Event]) -> &Value {
    &events.last().unwrap().payload
}

#[test]
fn with_no_turn_running_it_is_answered_not_running() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.subscribed("s1");
    client.cancel("nothing to stop");
    client.expect_error("not_running");
    client.turn("hello");
    client.send(&json!({"type": "cancel"}));
    client.expect_error("not_running");
    let log = client.turn("the connection is still open");
    assert_eq!(end(&log)["status"], "completed");
}

#[test]
fn while_the_model_streams_it_keeps_what_was_said() {
    let provider = Provider::start();
    let (_server, mut client) = started(&provider, &json!({}), &json!({}));
    client.wake("go");
    let mut ask = provider.ask();
    ask.open();
    ask.text("So far ");
    ask.text("so good");
    let mut said = String::new();
    let mut events = Vec::new();
    while said != "So far so good" {
        let event = client.event();
        if event.kind == "assistant/chunk" {
            said.push_str(event.text());
        }
        events.push(event);
    }
    client.cancel("seen enough");
    events.extend(client.events_until("turn/end"));
    let closing = &events[events.len() - 3..];
    assert_eq!(kinds(closing), ["assistant/message", "step/end", "turn/end"]);
    assert_eq!(closing[0].payload, json!({"parts": [{"type": "text", "text": "So far so good"}]}));
    assert_eq!(closing[1].payload, json!({"n": 1}));
    assert_eq!(closing[2].payload, json!({"status": "cancelled", "reason": "seen enough"}));
    ask.expect_hang_up();
}

#[test]
fn while_the_model_is_silent_it_leaves_no_message() {
    let provider = Provider::start();
    let (_server, mut client) = started(&provider, &json!({}), &json!({}));
    for head_sent in [false, true] {
        client.wake("go");
        let mut ask = provider.ask();
        if head_sent {
            ask.open();
        }
        client.send(&json!({"type": "cancel"}));
        let events = client.events_until("turn/end");
        assert_eq!(
            kinds(&events),
            ["turn/start", "step/start", "user/message", "step/end", "turn/end"]
        );
        assert_eq!(*end(&events), json!({"status": "cancelled"}), "no reason was given");
        ask.expect_hang_up();
    }
}

#[test]
fn while_its_provider_lets_nobody_connect_it_waits_no_longer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    terret_ws::os::set_backlog(listener.as_raw_fd(), 0).unwrap();
    let addr = listener.local_addr().unwrap();
    // Whoever stands in its queue keeps the next from connecting.
    let mut queue = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&addr, Duration::from_millis(300)) {
        queue.push(stream);
        assert!(queue.len() < 100, "a queue without end");
    }
    let deaf =
        json!({"kind": "openai", "base_url": format!("http://{addr}"), "connect_timeout_s": 3600});
    let config = json!({"providers": {"deaf": deaf}, "roles": {"main": "deaf/m"}});
    let server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.wake("go");
    client.events_until("user/message");
    eventually("an attempt", || {
        let page = http::get(server.addr(), "/metrics", None).body;
        page.contains("terret_provider_attempts_total{provider=\"deaf\"} 1\n").then_some(())
    });
    client.cancel("no patience");
    let events = client.events_until("turn/end");
    assert_eq!(kinds(&events), ["step/end", "turn/end"]);
    assert_eq!(*end(&events), json!({"status": "cancelled", "reason": "no patience"}));
}

#[test]
fn between_two_attempts_it_ends_the_waiting() {
    let provider = Provider::start();
    let (_server, mut client) = started(&provider, &json!({}), &json!({}));
    client.wake("go");
    provider.ask().refuse("503 Service Unavailable", "Retry-After: 60\r\n", "busy");
    client.events_until("user/message");
    client.cancel("no patience");
    let events = client.events_until("turn/end");
    assert_eq!(kinds(&events), ["step/end", "turn/end"]);
    assert_eq!(*end(&events), json!({"status": "cancelled", "reason": "no patience"}));
    assert!(provider.is_asked().is_none(), "nothing is asked again after a cancel");
}

#[test]
fn while_a_script_pauses_it_does_not_wait_for_it() {
    let hour = 3_600_000;
    for step in [
        json!([{"text": "never said", "delay_ms": hour}]),
        json!([{"chunks": ["said", "never said"], "chunk_delay_ms": hour}]),
    ] {
        let server = Server::start(&["s1"], &scripted(&step));
        let mut client = server.subscribed("s1");
        client.wake("go");
        client.events_until("user/message");
        client.cancel("no hour to spare");
        let events = client.events_until("turn/end");
        assert_eq!(end(&events)["status"], "cancelled");
    }
}

#[test]
fn with_finish_the_stream_is_heard_to_its_end() {
    let provider = Provider::start();
    let (_server, mut client) = started(&provider, &json!({}), &json!({"cancel_stream": "finish"}));
    client.wake("go");
    let mut ask = provider.ask();
    ask.open();
    ask.text("begun ");
    let mut events = client.events_until("assistant/chunk");
    client.cancel("first reason");
    client.cancel("newer reason");
    // The error frame answers what was sent after the cancels: both have been taken in.
    client.send(&json!({"type": "no such frame"}));
    events.extend(client.events_through_error("bad_frame"));
    ask.text("and ended");
    ask.end();
    events.extend(client.events_until("turn/end"));
    let closing = &events[events.len() - 3..];
    assert_eq!(kinds(closing), ["assistant/message", "step/end", "turn/end"]);
    assert_eq!(closing[0].payload["parts"][0]["text"], "begun and ended");
    assert_eq!(closing[1].payload["usage"]["completion_tokens"], 7);
    assert_eq!(closing[2].payload, json!({"status": "cancelled", "reason": "newer reason"}));
}

#[test]
fn a_turn_survives_its_connection_and_is_cancelled_over_another() {
    let provider = Provider::start();
    let (server, mut client) = started(&provider, &json!({}), &json!({}));
    client.wake("go");
    let ask = provider.ask();
    client.cut();
    let mut client = server.connect("s1");
    client.subscribe(1);
    client.cancel("from elsewhere");
    let events = client.events_until("turn/end");
    assert_eq!(*end(&events), json!({"status": "cancelled", "reason": "from elsewhere"}));
    ask.expect_hang_up();
}

#[test]
fn after_a_cancel_the_next_turn_is_a_whole_one() {
    let provider = Provider::start();
    let (_server, mut client) = started(&provider, &json!({}), &json!({}));
    client.wake("go");
    let mut ask = provider.ask();
    ask.open();
    ask.text("half a sen");
    client.events_until("assistant/chunk");
    client.cancel("stop");
    client.events_until("turn/end");
    client.wake("again");
    let ask = provider.ask();
    assert_eq!(ask.contents("assistant"), ["half a sen"]);
    assert_eq!(ask.contents("user"), ["go", "again"]);
    ask.answer("Whole.");
    assert_eq!(*end(&client.events_until("turn/end")), json!({"status": "completed"}));
}
