//! No text is lost and none lands twice: bursts of wakes, steers, and what waits for what.

use serde_json::json;

use crate::harness::client::kinds;
use crate::harness::provider::Provider;
use crate::harness::tools::{gate, open_gate, tool};
use crate::harness::{Client, Event, Server};

/// The texts that reached the history, in order.
fn texts(events: &[Event]) -> Vec<&str> {
    let told = ["user/message", "context/injected"];
    events.iter().filter(|event| told.contains(&&*event.kind)).map(Event::text).collect()
}

/// Reads whole turns until all of `wanted` have landed.
fn turns_until_landed(client: &mut Client, wanted: &[String]) -> Vec<Event> {
    let mut events = Vec::new();
    while wanted.iter().any(|text| !texts(&events).contains(&text.as_str())) {
        events.extend(client.events_until("turn/end"));
    }
    events
}

#[test]
fn forty_wakes_in_one_burst_are_forty_texts_each_once() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.subscribed("s1");
    let mut wanted: Vec<String> = (0..40).map(|n| format!("wake number {n}")).collect();
    for text in &wanted {
        client.queue(&json!({"type": "inject", "text": text, "wake": true}));
    }
    client.flush();
    let mut events = turns_until_landed(&mut client, &wanted);
    // Whatever a text that landed twice would ride in, it comes before the end of a later turn.
    client.wake("the last");
    wanted.push("the last".to_owned());
    events.extend(client.events_until("turn/end"));
    assert_eq!(texts(&events), wanted, "each once, in the order they were sent");
}

#[test]
fn forty_wakes_reach_the_model_each_once() {
    let provider = Provider::start();
    let server = Server::start(&["s1"], &provider.config(&json!({})));
    let mut client = server.subscribed("s1");
    for n in 0..40 {
        client.queue(&json!({"type": "inject", "text": format!("<wake {n}>"), "wake": true}));
    }
    client.flush();
    let wanted: Vec<String> = (0..40).map(|n| format!("<wake {n}>")).collect();
    let mut events = Vec::new();
    while texts(&events).len() < 40 {
        provider.ask().answer("Noted.");
        events.extend(client.events_until("turn/end"));
    }
    client.wake("What did I say?");
    let ask = provider.ask();
    let said = ask.contents("user").join("\n");
    for text in &wanted {
        assert_eq!(said.matches(text.as_str()).count(), 1, "{text} in {said}");
    }
    ask.answer("That.");
    client.events_until("turn/end");
}

#[test]
fn a_wake_while_busy_becomes_the_next_turn_at_once() {
    let provider = Provider::start();
    let server = Server::start(&["s1"], &provider.config(&json!({})));
    let mut client = server.subscribed("s1");
    client.wake("first");
    let mut ask = provider.ask();
    client.steer("a steer");
    client.wake("second");
    client.wake("third");
    client.steer("another steer");
    // An error frame answers what was sent after the texts: they have been taken in.
    client.send(&json!({"type": "no such frame"}));
    ask.open();
    ask.text("Done.");
    let mut events = client.events_through_error("bad_frame");
    ask.end();
    events.extend(client.events_until("turn/end"));
    assert_eq!(texts(&events), ["first"]);

    provider.ask().answer("Done too.");
    let next = client.events_until("turn/end");
    assert_eq!(
        kinds(&next)[..6],
        [
            "turn/start",
            "step/start",
            "user/message",
            "context/injected",
            "context/injected",
            "context/injected"
        ]
    );
    assert_eq!(texts(&next), ["second", "a steer", "third", "another steer"]);
}

#[test]
fn a_text_without_wake_starts_nothing_and_rides_the_next_step() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.subscribed("s1");
    client.steer("one");
    client.steer("two");
    let turn = client.turn("three");
    assert_eq!(
        kinds(&turn)[..5],
        ["turn/start", "step/start", "user/message", "context/injected", "context/injected"]
    );
    assert_eq!(texts(&turn), ["three", "one", "two"]);
    assert_eq!(turn[0].seq, 1, "nothing was logged before the wake");
}

#[test]
fn a_text_that_comes_while_a_tool_runs_rides_the_next_step_of_the_same_turn() {
    let provider = Provider::start();
    for wake in [false, true] {
        let mut config = provider.config(&json!({}));
        config["tools"] = json!([tool("waits", "cat gate", &json!({}))]);
        config["policy"] = json!(["*"]);
        let server = Server::start(&["s1"], &config);
        let folder = server.folder();
        gate(folder.path(), "gate");
        let mut client = server.subscribed("s1");
        client.wake("go");
        provider.ask().call(&[("1", "waits", "{}")]);
        let mut turn = client.events_until("tool/call");
        client.send(&json!({"type": "inject", "text": "mind the gap", "wake": wake}));
        // The answer to what came after it says that the text was taken in.
        client.send(&json!({"type": "no such frame"}));
        client.expect_error("bad_frame");
        open_gate(folder.path(), "gate");
        turn.extend(client.events_until("context/injected"));
        let golden = ["tool/call", "tool/result", "step/end", "step/start", "context/injected"];
        assert!(kinds(&turn).ends_with(&golden), "{:?}", kinds(&turn));
        let ask = provider.ask();
        assert_eq!(ask.contents("user"), ["go", "mind the gap"]);
        ask.answer("I do.");
        turn.extend(client.events_until("turn/end"));
        assert_eq!(texts(&turn), ["go", "mind the gap"]);
        client.send(&json!({"type": "cancel"}));
        client.expect_error("not_running");
        assert!(provider.is_asked().is_none(), "it is spent, and starts no turn of its own");
    }
}

#[test]
fn after_a_cancelled_turn_waiting_texts_wait() {
    let provider = Provider::start();
    let server = Server::start(&["s1"], &provider.config(&json!({})));
    let mut client = server.subscribed("s1");
    client.wake("first");
    let ask = provider.ask();
    client.steer("a steer");
    client.wake("second");
    client.cancel("enough");
    let turn = client.events_until("turn/end");
    assert_eq!(turn.last().unwrap().payload, json!({"status": "cancelled", "reason": "enough"}));
    ask.expect_hang_up();

    // Stop means stop: nothing happens until the next stimulus, and then everything is there.
    client.send(&json!({"type": "cancel"}));
    client.expect_error("not_running");
    assert!(provider.is_asked().is_none());
    client.wake("third");
    let ask = provider.ask();
    let said = ask.contents("user").join("\n");
    for text in ["first", "a steer", "second", "third"] {
        assert_eq!(said.matches(text).count(), 1, "{text} in {said}");
    }
    ask.answer("Yes.");
    let turn = client.events_until("turn/end");
    let mut landed = texts(&turn);
    landed.sort_unstable();
    assert_eq!(landed, ["a steer", "second", "third"]);
    assert_eq!(kinds(&turn).iter().filter(|kind| **kind == "user/message").count(), 1);
}

#[test]
fn an_empty_text_is_a_text() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.subscribed("s1");
    client.steer("");
    let turn = client.turn("");
    assert_eq!(texts(&turn), ["", ""]);
}
