//! After kill -9 at any moment: everything a client was sent is there, and the open turn resumes.

use serde_json::{Value, json};

use crate::harness::client::{assert_gapless, kinds};
use crate::harness::provider::{Ask, Provider};
use crate::harness::{Client, Event, Server, files};

/// Holds `log` (from the turn's start on) to be one turn that was interrupted and resumed.
pub(crate) fn expect_one_resumed_turn(log: &[Event], texts: &[&str]) {
    let of = |kind: &str| log.iter().filter(|event| event.kind == kind).collect::<Vec<_>>();
    assert_eq!(of("turn/start").len(), 1, "a resume has no second turn/start: {:?}", kinds(log));
    assert_eq!(of("turn/end").len(), 1, "{:?}", kinds(log));
    assert_eq!(log.last().unwrap().payload, json!({"status": "completed"}));
    let steps: Vec<u64> =
        of("step/start").iter().map(|step| step.payload["n"].as_u64().unwrap()).collect();
    assert_eq!(steps, (1..=steps.len() as u64).collect::<Vec<_>>(), "step numbers go on");
    let (first, rest) = texts.split_first().unwrap();
    assert_eq!(of("user/message").iter().map(|e| e.text()).collect::<Vec<_>>(), [*first]);
    assert_eq!(of("context/injected").iter().map(|e| e.text()).collect::<Vec<_>>(), rest);
    assert_gapless(log, log[0].seq, log[0].seq + log.len() as u64 - 1);
}

/// Another server in the folder of one that has ended, and a client that has been sent all its log.
fn successor(of: &Server, config: &Value) -> (Server, Client, Vec<Event>) {
    let server = Server::start_in(of.folder(), &["s1"], config);
    let mut client = server.connect("s1");
    client.subscribe(1);
    let log = client.events_to(client.last_seq());
    (server, client, log)
}

/// Holds a model request to carry each of these texts, once.
fn expect_said_once(ask: &Ask, texts: &[&str]) {
    let said = ask.contents("user").join("\n");
    for text in texts {
        assert_eq!(said.matches(text).count(), 1, "{text} in {said}");
    }
}

#[test]
fn what_a_client_was_sent_is_there_after_kill_9_at_any_event() {
    let provider = Provider::start();
    let config = provider.config(&json!({}));
    // Killed when the client has seen this many events of the turn.
    for killed_after in 1..=8 {
        let mut server = Server::start(&["s1"], &config);
        let mut client = server.subscribed("s1");
        client.wake("first");
        let mut ask = provider.ask();
        ask.open();
        for n in 0..5 {
            ask.text(&format!("chunk {n} "));
        }
        let seen: Vec<Event> = (0..killed_after).map(|_| client.event()).collect();
        server.kill();
        drop(ask);

        let (server, mut client, mut log) = successor(&server, &config);
        assert!(client.last_seq() >= seen.last().unwrap().seq, "killed after {killed_after}");
        assert_eq!(log[..seen.len()], seen, "killed after {killed_after}");
        client.wake("second");
        provider.ask().answer("Whole.");
        log.extend(client.events_until("turn/end"));
        if log.iter().any(|event| event.kind == "user/message") {
            expect_one_resumed_turn(&log, &["first", "second"]);
        }
        let frames: Vec<String> = log.into_iter().map(|event| event.raw).collect();
        assert_eq!(files::envelopes(&server.data_dir(), "s1")[1..], frames);
    }
}

#[test]
fn an_accepted_text_survives_kill_9_and_lands_once() {
    let provider = Provider::start();
    let config = provider.config(&json!({}));
    let mut server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.wake("first");
    let _ask = provider.ask();
    client.steer("a steer");
    client.wake("second");
    // The answer to what came after them says that the texts were taken in.
    client.send(&json!({"type": "no such frame"}));
    client.events_through_error("bad_frame");
    let inbox = server.data_dir().join("sessions/s1/inbox.jsonl");
    crate::harness::eventually("the texts in the inbox file", || {
        let text = std::fs::read_to_string(&inbox).unwrap_or_default();
        (text.contains("a steer") && text.contains("second")).then_some(())
    });
    server.kill();

    let (mut server, mut client, _) = successor(&server, &config);
    assert!(provider.is_asked().is_none(), "after a restart waiting texts wait");
    client.wake("third");
    let ask = provider.ask();
    expect_said_once(&ask, &["first", "a steer", "second", "third"]);
    ask.answer("Yes.");
    client.events_until("turn/end");
    server.kill();

    let (_server, mut client, _) = successor(&server, &config);
    client.wake("fourth");
    let ask = provider.ask();
    expect_said_once(&ask, &["first", "a steer", "second", "third", "fourth"]);
    ask.answer("Yes.");
    client.events_until("turn/end");
}

#[test]
fn a_cancel_after_a_restart_closes_the_open_turn() {
    let provider = Provider::start();
    let config = provider.config(&json!({}));
    let mut server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.wake("first");
    let _ask = provider.ask();
    client.events_until("user/message");
    server.kill();

    let server = Server::start_in(server.folder(), &["s1"], &config);
    let mut client = server.connect("s1");
    client.subscribe(client.last_seq() + 1);
    client.cancel("not any more");
    let events = client.events_until("turn/end");
    assert_eq!(kinds(&events), ["step/end", "turn/end"]);
    assert_eq!(events[0].payload, json!({"n": 1}));
    assert_eq!(events[1].payload, json!({"status": "cancelled", "reason": "not any more"}));
    client.cancel("again");
    client.expect_error("not_running");
    client.wake("second");
    provider.ask().answer("Fine.");
    assert_eq!(client.events_until("turn/end")[0].kind, "turn/start");
}

#[test]
fn with_resume_on_start_an_open_turn_needs_no_stimulus() {
    let provider = Provider::start();
    let mut config = provider.config(&json!({}));
    let mut server = Server::start(&["s1", "s2"], &config);
    server.subscribed("s2");
    let mut client = server.subscribed("s1");
    client.wake("first");
    let _ask = provider.ask();
    client.events_until("user/message");
    server.kill();

    config["resume_on_start"] = json!(true);
    let server = Server::start_in(server.folder(), &["s1", "s2"], &config);
    let ask = provider.ask();
    assert_eq!(ask.contents("user"), ["first"]);
    ask.answer("Whole.");
    let mut client = server.connect("s1");
    client.subscribe(1);
    expect_one_resumed_turn(&client.events_until("turn/end"), &["first"]);
    assert_eq!(server.connect("s2").last_seq(), 0, "a session with no open turn is left alone");
}

#[test]
fn a_policy_survives_and_the_last_one_wins() {
    let mut server = Server::start(&["s1"], &json!({"policy": ["floor"]}));
    let mut client = server.subscribed("s1");
    for patterns in [json!(["one"]), json!(["two", "t*"])] {
        client.send(&json!({"type": "set_policy", "patterns": patterns}));
        assert_eq!(client.event().payload, json!({"patterns": patterns}));
    }
    server.kill();
    let server = Server::start_in(server.folder(), &["s1"], &json!({"policy": ["floor"]}));
    assert_eq!(server.state("s1")["policy"], json!(["two", "t*"]));
}

#[test]
fn a_torn_last_line_heals_and_is_kept_aside() {
    let mut server = Server::start(&["s1"], &json!({}));
    let mut client = server.connect("s1");
    client.subscribe(0);
    let log = client.turn("hello");
    server.kill();
    let segment = files::segments(&server.data_dir(), "s1").pop().unwrap();
    let torn = br#"{"id":"0123456789abcdef","session_id":"s1","seq":"#;
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes.extend_from_slice(torn);
    std::fs::write(&segment, bytes).unwrap();

    let server = Server::start_in(server.folder(), &["s1"], &json!({}));
    let mut client = server.connect("s1");
    let tip = log.last().unwrap().seq;
    assert_eq!(client.last_seq(), tip);
    client.subscribe(0);
    assert_eq!(client.events_to(tip), log);
    assert_eq!(client.turn("again")[0].seq, tip + 1);
    let mut kept = segment.into_os_string();
    kept.push(".torn");
    assert_eq!(std::fs::read(kept).unwrap(), torn);
}

#[test]
fn damage_in_the_middle_is_named_and_the_rest_is_served() {
    let mut server = Server::start(&["s1", "s2"], &json!({}));
    let mut client = server.connect("s1");
    client.subscribe(0);
    let mut log = client.turn("hello");
    log.extend(client.turn("again"));
    server.kill();
    let segment = files::segments(&server.data_dir(), "s1").pop().unwrap();
    let text = std::fs::read_to_string(&segment).unwrap();
    std::fs::write(&segment, text.replacen(r#""text":"hello""#, r#""text":"jello""#, 1)).unwrap();
    let damaged = log.iter().find(|event| event.kind == "user/message").unwrap().seq;

    let server = Server::start_in(server.folder(), &["s1", "s2"], &json!({}));
    let tip = log.last().unwrap().seq;
    let mut client = server.connect("s1");
    assert_eq!(client.last_seq(), tip, "hello.last_seq is the last valid line");
    client.subscribe(damaged + 1);
    assert_eq!(client.events_to(tip), log[damaged as usize + 1..]);
    client.subscribe(0);
    for event in &log[..damaged as usize] {
        assert_eq!(client.event(), *event);
    }
    client.expect_error("internal");
    client.expect_close(1011);
    let mut client = server.connect("s1");
    client.wake("must append");
    client.expect_error("internal");
    // Nobody else notices.
    assert_eq!(server.subscribed("s2").turn("hi").last().unwrap().payload["status"], "completed");
}

#[test]
fn with_resume_on_start_a_waking_text_that_no_turn_took_begins_one() {
    let provider = Provider::start();
    let mut config = provider.config(&json!({}));
    let mut server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.wake("first");
    let _ask = provider.ask();
    client.events_until("user/message");
    client.wake("second");
    client.cancel("stop means stop");
    client.events_until("turn/end");
    server.kill();

    config["resume_on_start"] = json!(true);
    let server = Server::start_in(server.folder(), &["s1"], &config);
    provider.ask().answer("Here.");
    let mut client = server.connect("s1");
    client.subscribe(1);
    client.events_until("turn/end");
    let turn = client.events_until("turn/end");
    assert_eq!(kinds(&turn)[..3], ["turn/start", "step/start", "user/message"]);
    assert_eq!(turn[2].text(), "second");
}
