//! `set_model` repoints a role of the live service, from the next step on.

use serde_json::json;

use crate::harness::{Event, Server};

/// The model of each step.
fn models(events: &[Event]) -> Vec<&str> {
    let steps = events.iter().filter(|event| event.kind == "step/start");
    steps.map(|step| step.payload["model"].as_str().unwrap()).collect()
}

fn two_providers() -> serde_json::Value {
    json!({
        "roles": {"main": "a/one"},
        "providers": {
            "a": {"kind": "scripted", "steps": [{"text": "from a"}], "repeat": true},
            "b": {"kind": "scripted", "steps": [{"text": "from b"}], "repeat": true}
        }
    })
}

#[test]
fn a_changed_role_takes_effect_at_the_next_step() {
    let server = Server::start(&["s1", "s2"], &two_providers());
    let mut one = server.subscribed("s1");
    let mut two = server.subscribed("s2");
    assert_eq!(models(&one.turn("hi")), ["a/one"]);
    // Only the first slash splits.
    one.send(&json!({"type": "set_model", "role": "main", "model": "b/org/two"}));
    assert_eq!(models(&one.turn("hi")), ["b/org/two"]);
    assert_eq!(models(&two.turn("hi")), ["b/org/two"], "the role table is the service's");
    one.send(&json!({"type": "set_model", "role": "titler", "model": "a/one"}));
    assert_eq!(models(&one.turn("hi")), ["b/org/two"], "another role is another role");
}

#[test]
fn a_role_changed_within_a_turn_takes_effect_at_its_next_step() {
    let mut config = two_providers();
    config["providers"]["a"]["steps"] =
        json!([{"tool_calls": [{"id": "1", "name": "ask", "args": {}}]}]);
    config["tools"] = json!([{"name": "ask", "command": ["cat"], "approval": "always"}]);
    config["policy"] = json!(["*"]);
    config["approvals"] = json!(true);
    let server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.wake("go");
    let mut turn = client.events_until("approval/requested");
    client.send(&json!({"type": "set_model", "role": "main", "model": "b/two"}));
    client.send(&json!({"type": "approve", "call_id": "1"}));
    turn.extend(client.events_until("turn/end"));
    assert_eq!(models(&turn), ["a/one", "b/two"]);
    assert_eq!(turn.last().unwrap().payload, json!({"status": "completed"}));
}

#[test]
fn with_roles_scope_agent_a_change_is_the_agents_own() {
    let mut config = two_providers();
    config["roles_scope"] = json!("agent");
    let server = Server::start(&["s1", "s2"], &config);
    let mut one = server.subscribed("s1");
    let mut two = server.subscribed("s2");
    one.send(&json!({"type": "set_model", "role": "main", "model": "b/two"}));
    assert_eq!(models(&one.turn("hi")), ["b/two"]);
    assert_eq!(models(&two.turn("hi")), ["a/one"]);
}

#[test]
fn a_change_is_not_durable() {
    let config = two_providers();
    let mut server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.send(&json!({"type": "set_model", "role": "main", "model": "b/two"}));
    let tip = client.turn("hi").last().unwrap().seq;
    server.kill();
    let server = Server::start_in(server.folder(), &["s1"], &config);
    let mut client = server.connect("s1");
    client.subscribe(tip + 1);
    assert_eq!(models(&client.turn("hi")), ["a/one"]);
}
