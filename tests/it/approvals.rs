//! Calls that wait for a human: who is asked, what a verdict does, and that neither a restart nor a
//! cancel leaves one standing.

use std::fs;

use serde_json::{Value, json};

use crate::harness::client::kinds;
use crate::harness::{Client, Event, Server, server};

/// A call as a script gives it.
fn call(id: &str, name: &str, args: &Value) -> Value {
    json!({"id": id, "name": name, "args": args})
}

/// A server whose model makes `calls` in the first step of each turn and says "done" in the second.
fn config(calls: &[Value], more: &Value) -> Value {
    let tool = |name: &str, approval: &str, concurrency: &str, mutating: bool| {
        json!({"name": name, "command": ["cat"], "approval": approval,
               "concurrency": concurrency, "mutating": mutating})
    };
    let mut config = json!({
        "approvals": true,
        "policy": ["*"],
        "providers": {"script": {
            "kind": "scripted", "repeat": true,
            "steps": [{"text": "Let me see.", "tool_calls": calls}, {"text": "done"}]
        }},
        "roles": {"main": "script/m"},
        "tools": [
            tool("ask", "always", "serial", false),
            tool("ask_many", "always", "parallel", false),
            tool("read", "policy", "serial", false),
            tool("write", "policy", "serial", true),
            tool("free", "never", "serial", true),
        ]
    });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

fn verdict(client: &mut Client, verdict: &str, call_id: &str) {
    client.send(&json!({"type": verdict, "call_id": call_id}));
}

/// Reads until `count` requests stand.
fn parked(client: &mut Client, count: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while kinds(&events).iter().filter(|kind| **kind == "approval/requested").count() < count {
        events.push(client.event());
    }
    events
}

/// The results of a turn: the id, and the content or the error.
fn results(events: &[Event]) -> Vec<(&str, Result<&str, &str>)> {
    let results = events.iter().filter(|event| event.kind == "tool/result");
    results
        .map(|event| {
            let payload = &event.payload;
            let outcome = match payload["error"].as_str() {
                Some(error) => Err(error),
                None => Ok(payload["content"].as_str().unwrap()),
            };
            (payload["id"].as_str().unwrap(), outcome)
        })
        .collect()
}

fn completed(events: &[Event]) -> bool {
    events.last().unwrap().payload == json!({"status": "completed"})
}

#[test]
fn an_approved_call_runs_and_its_events_have_the_golden_order() {
    let calls = [call("c1", "ask", &json!({"n": 1}))];
    let server = Server::start(&["s1"], &config(&calls, &json!({})));
    let mut client = server.subscribed("s1");
    client.wake("go");
    let mut events = parked(&mut client, 1);
    let asked = &events.last().unwrap().payload;
    assert_eq!(*asked, json!({"call_id": "c1", "name": "ask", "args": {"n": 1}}));
    let shown = &server.state("s1")["pending_approvals"];
    assert_eq!(shown[0]["call_id"], "c1", "{shown}");
    verdict(&mut client, "approve", "c1");
    events.extend(client.events_until("turn/end"));
    let from = kinds(&events).iter().position(|kind| *kind == "assistant/message").unwrap();
    assert_eq!(
        kinds(&events)[from..],
        [
            "assistant/message",
            "tool/call",
            "approval/requested",
            "approval/resolved",
            "tool/result",
            "step/end",
            "step/start",
            "assistant/chunk",
            "assistant/message",
            "step/end",
            "turn/end",
        ]
    );
    let resolved = &events[from + 3].payload;
    assert_eq!(*resolved, json!({"call_id": "c1", "verdict": "approved"}));
    assert_eq!(results(&events), [("c1", Ok(r#"{"n":1}"#))]);
}

#[test]
fn a_denied_call_is_an_error_that_the_model_reads() {
    let calls = [call("c1", "ask", &json!({})), call("c2", "ask", &json!({}))];
    let server = Server::start(&["s1"], &config(&calls, &json!({})));
    let mut client = server.subscribed("s1");
    client.wake("go");
    let mut events = parked(&mut client, 1);
    client.send(&json!({"type": "deny", "call_id": "c1", "reason": "not today"}));
    events.extend(parked(&mut client, 1));
    verdict(&mut client, "deny", "c2");
    events.extend(client.events_until("turn/end"));
    assert_eq!(
        results(&events),
        [("c1", Err("ask denied: not today")), ("c2", Err("ask denied: no reason given"))]
    );
    let resolved: Vec<&Value> = events
        .iter()
        .filter(|event| event.kind == "approval/resolved")
        .map(|event| &event.payload)
        .collect();
    assert_eq!(
        resolved,
        [
            &json!({"call_id": "c1", "verdict": "denied", "reason": "not today"}),
            &json!({"call_id": "c2", "verdict": "denied"})
        ]
    );
    assert!(completed(&events));
}

#[test]
fn only_those_that_need_it_ask() {
    let calls = ["read", "free", "write"].map(|name| call(name, name, &json!({})));
    let server = Server::start(&["s1"], &config(&calls, &json!({})));
    let mut client = server.subscribed("s1");
    client.wake("go");
    let mut events = parked(&mut client, 1);
    verdict(&mut client, "approve", "write");
    events.extend(client.events_until("turn/end"));
    let asked: Vec<&Value> = events
        .iter()
        .filter(|event| event.kind == "approval/requested")
        .map(|event| &event.payload["name"])
        .collect();
    assert_eq!(asked, ["write"]);
    assert_eq!(results(&events).iter().filter(|(_, outcome)| outcome.is_ok()).count(), 3);
}

#[test]
fn where_the_row_is_not_mounted_nothing_ever_parks() {
    let calls = ["ask", "write"].map(|name| call(name, name, &json!({})));
    let server = Server::start(&["s1"], &config(&calls, &json!({"approvals": false})));
    let mut client = server.subscribed("s1");
    let events = client.turn("go");
    assert!(!kinds(&events).contains(&"approval/requested"));
    assert_eq!(results(&events), [("ask", Ok("{}")), ("write", Ok("{}"))]);
    verdict(&mut client, "approve", "ask");
    client.expect_error("unsupported");
}

#[test]
fn a_call_parked_when_the_row_goes_away_is_denied_and_never_run() {
    let asking = |approvals: bool| {
        config(&[call("c1", "ask", &json!({}))], &json!({"approvals": approvals}))
    };
    for restarted in [false, true] {
        let mut server = Server::start(&["s1"], &asking(true));
        let mut client = server.subscribed("s1");
        client.wake("go");
        let mut events = parked(&mut client, 1);
        if restarted {
            server.kill();
            server = Server::start_in(server.folder(), &["s1"], &asking(false));
            client = server.connect("s1");
            client.subscribe(client.last_seq() + 1);
            verdict(&mut client, "approve", "c1");
            client.expect_error("unsupported");
            client.wake("on");
        } else {
            let path = server.folder().path().join("config.json");
            fs::write(path, server::config(&["s1"], &asking(false)).to_string()).unwrap();
            server.signal("HUP");
        }
        events.extend(client.events_until("turn/end"));
        let off = "approvals were turned off before a verdict came";
        assert_eq!(results(&events), [("c1", Err(&*format!("ask denied: {off}")))]);
        let resolved = events.iter().find(|event| event.kind == "approval/resolved").unwrap();
        let denied = json!({"call_id": "c1", "verdict": "denied", "reason": off});
        assert_eq!(resolved.payload, denied);
        assert!(completed(&events), "restarted: {restarted}");
        verdict(&mut client, "deny", "c1");
        client.expect_error("unsupported");
    }
}

#[test]
fn what_is_not_allowed_or_not_known_asks_nobody() {
    let calls = ["ask", "nosuch"].map(|name| call(name, name, &json!({})));
    let server = Server::start(&["s1"], &config(&calls, &json!({"policy": ["no*"]})));
    let mut client = server.subscribed("s1");
    let events = client.turn("go");
    assert!(!kinds(&events).contains(&"approval/requested"));
    assert_eq!(
        results(&events),
        [("ask", Err("ask is not on the allow list")), ("nosuch", Err("unknown tool nosuch"))]
    );
    assert!(completed(&events), "neither ends the turn");
}

#[test]
fn a_verdict_counts_once_and_only_while_its_request_stands() {
    let calls = [call("c1", "ask", &json!({})), call("c2", "ask", &json!({}))];
    let server = Server::start(&["s1"], &config(&calls, &json!({})));
    let mut client = server.subscribed("s1");
    client.wake("go");
    let mut events = parked(&mut client, 1);
    verdict(&mut client, "approve", "c2");
    client.expect_error("stale_call");
    verdict(&mut client, "approve", "typo");
    client.expect_error("stale_call");
    client.queue(&json!({"type": "approve", "call_id": "c1"}));
    client.queue(&json!({"type": "deny", "call_id": "c1"}));
    client.flush();
    events.extend(client.events_through_error("stale_call"));
    while !events.iter().any(|event| event.payload["call_id"] == "c2") {
        events.push(client.event());
    }
    verdict(&mut client, "approve", "c2");
    events.extend(client.events_until("turn/end"));
    assert_eq!(kinds(&events).iter().filter(|kind| **kind == "approval/resolved").count(), 2);
    assert_eq!(results(&events), [("c1", Ok("{}")), ("c2", Ok("{}"))]);
    verdict(&mut client, "approve", "c1");
    client.expect_error("stale_call");
}

#[test]
fn a_parked_call_survives_kill_9_and_is_asked_for_once() {
    // In a string, so that nothing on the way to the server writes it anew.
    let args = r#"{ "n": 1.0E+2,"b":12345678901234567890,  "a":"\u00e4" }"#;
    let config = config(&[call("c1", "ask", &json!(args))], &json!({}));
    for verdict_word in ["approve", "deny"] {
        let mut server = Server::start(&["s1"], &config);
        let mut client = server.subscribed("s1");
        client.wake("go");
        let seen = parked(&mut client, 1);
        server.kill();
        let server = Server::start_in(server.folder(), &["s1"], &config);
        let mut client = server.connect("s1");
        client.subscribe(1);
        let mut events: Vec<Event> = seen.iter().map(|_| client.event()).collect();
        assert_eq!(events, seen);
        assert_eq!(server.state("s1")["pending_approvals"][0]["call_id"], "c1");
        verdict(&mut client, verdict_word, "c1");
        events.extend(client.events_until("turn/end"));
        assert_eq!(kinds(&events).iter().filter(|kind| **kind == "approval/requested").count(), 1);
        assert_eq!(kinds(&events).iter().filter(|kind| **kind == "turn/start").count(), 1);
        let expected =
            if verdict_word == "approve" { Ok(args) } else { Err("ask denied: no reason given") };
        assert_eq!(results(&events), [("c1", expected)]);
        assert!(completed(&events));
        let raw: String = events.into_iter().map(|event| event.raw).collect();
        // The message, the call and the request.
        assert_eq!(raw.matches(args).count(), 3, "{raw}");
    }
}

#[test]
fn a_parked_call_is_there_for_whoever_connects_next() {
    let config = config(&[call("c1", "ask", &json!({}))], &json!({}));
    let server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.wake("go");
    let seen = parked(&mut client, 1);
    for _ in 0..2 {
        client.cut();
        server.expect_connected("s1", false);
        client = server.connect("s1");
        assert_eq!(client.last_seq(), seen.last().unwrap().seq, "a connection appends nothing");
        client.subscribe(1);
        assert_eq!(client.events_to(client.last_seq()), seen);
        let state = server.state("s1");
        assert_eq!((&state["status"], &state["connected"]), (&json!("parked"), &json!(true)));
        assert_eq!(
            state["pending_approvals"],
            json!([{"call_id": "c1", "name": "ask", "args": {}}])
        );
    }
    verdict(&mut client, "approve", "c1");
    let events = client.events_until("turn/end");
    assert_eq!(results(&events), [("c1", Ok("{}"))]);
}

#[test]
fn a_wake_resumes_a_parked_turn_without_a_second_request() {
    let config = config(&[call("c1", "ask", &json!({}))], &json!({}));
    let mut server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.wake("go");
    parked(&mut client, 1);
    server.kill();
    let server = Server::start_in(server.folder(), &["s1"], &config);
    let mut client = server.connect("s1");
    client.subscribe(client.last_seq() + 1);
    client.wake("meanwhile");
    verdict(&mut client, "approve", "c1");
    let events = client.events_until("turn/end");
    assert!(!kinds(&events).contains(&"approval/requested"), "{:?}", kinds(&events));
    assert!(!kinds(&events).contains(&"turn/start"));
    let injected: Vec<&str> =
        events.iter().filter(|event| event.kind == "context/injected").map(Event::text).collect();
    assert_eq!(injected, ["meanwhile"]);
}

#[test]
fn a_cancel_denies_all_that_stand_and_the_next_wake_works() {
    let calls = ["c1", "c2", "c3"].map(|id| call(id, "ask_many", &json!({"id": id})));
    let config = config(&calls, &json!({}));
    for restarted in [false, true] {
        let mut server = Server::start(&["s1"], &config);
        let mut client = server.subscribed("s1");
        client.wake("go");
        let mut events = parked(&mut client, 3);
        if restarted {
            server.kill();
            server = Server::start_in(server.folder(), &["s1"], &config);
            client = server.connect("s1");
            client.subscribe(client.last_seq() + 1);
        }
        client.cancel("changed my mind");
        events.extend(client.events_until("turn/end"));
        let resolved: Vec<&Value> = events
            .iter()
            .filter(|event| event.kind == "approval/resolved")
            .map(|event| &event.payload)
            .collect();
        let denied =
            |id: &str| json!({"call_id": id, "verdict": "denied", "reason": "changed my mind"});
        assert_eq!(resolved, [&denied("c1"), &denied("c2"), &denied("c3")]);
        let ids: Vec<&str> = results(&events).iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, ["c1", "c2", "c3"], "each has one result, in call order");
        assert!(results(&events).iter().all(|(_, outcome)| outcome.is_err()));
        assert_eq!(
            events.last().unwrap().payload,
            json!({"status": "cancelled", "reason": "changed my mind"})
        );
        assert_eq!(server.state("s1")["pending_approvals"], json!([]));
        client.wake("again");
        let next = client.events_until("turn/end");
        assert!(completed(&next), "{:?}", kinds(&next));
    }
}

#[test]
fn results_come_in_call_order_whichever_verdict_came_first() {
    let calls = ["c1", "c2", "c3"].map(|id| call(id, "ask_many", &json!({"id": id})));
    let server = Server::start(&["s1"], &config(&calls, &json!({})));
    let mut client = server.subscribed("s1");
    client.wake("go");
    let mut events = parked(&mut client, 3);
    let from = kinds(&events).iter().position(|kind| *kind == "tool/call").unwrap();
    let first: Vec<&str> = kinds(&events)[from..from + 3].to_vec();
    assert_eq!(first, ["tool/call"; 3], "first every call of the run");
    verdict(&mut client, "approve", "c3");
    verdict(&mut client, "deny", "c2");
    verdict(&mut client, "approve", "c1");
    events.extend(client.events_until("turn/end"));
    assert_eq!(
        results(&events),
        [
            ("c1", Ok(r#"{"id":"c1"}"#)),
            ("c2", Err("ask_many denied: no reason given")),
            ("c3", Ok(r#"{"id":"c3"}"#))
        ]
    );
}

#[test]
fn a_provider_that_calls_everything_0_is_asked_for_each() {
    let calls = [
        call("0", "ask", &json!({"n": 1})),
        call("0", "ask_many", &json!({"n": 2})),
        call("0", "ask_many", &json!({"n": 3})),
    ];
    let server = Server::start(&["s1"], &config(&calls, &json!({})));
    let mut client = server.subscribed("s1");
    client.wake("go");
    let mut events = parked(&mut client, 1);
    verdict(&mut client, "approve", "0");
    events.extend(parked(&mut client, 2));
    // Two stand under one id: one verdict frees one, oldest first.
    verdict(&mut client, "deny", "0");
    verdict(&mut client, "approve", "0");
    events.extend(client.events_until("turn/end"));
    assert_eq!(
        results(&events),
        [
            ("0", Ok(r#"{"n":1}"#)),
            ("0", Err("ask_many denied: no reason given")),
            ("0", Ok(r#"{"n":3}"#))
        ]
    );
    assert!(completed(&events));
}

#[test]
fn a_server_that_stops_leaves_a_parked_turn_to_its_successor() {
    let config = config(&[call("c1", "ask", &json!({}))], &json!({}));
    let mut server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.wake("go");
    parked(&mut client, 1);
    server.stop(client);
    let server = Server::start_in(server.folder(), &["s1"], &config);
    let mut client = server.connect("s1");
    client.subscribe(client.last_seq() + 1);
    verdict(&mut client, "approve", "c1");
    let events = client.events_until("turn/end");
    assert_eq!(results(&events), [("c1", Ok("{}"))]);
}
