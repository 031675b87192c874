//! The list of allowed tools: how its globs match, and that a change is in force on the next call.

use serde_json::json;

use crate::harness::{Event, Server};

/// The error of each result.
fn errors(events: &[Event]) -> Vec<&str> {
    let results = events.iter().filter(|event| event.kind == "tool/result");
    results.map(|event| event.payload["error"].as_str().unwrap()).collect()
}

/// Ruby's `File.fnmatch` without flags, as the clarifications have it.
const TABLE: &[(&str, &str, bool)] = &[
    ("get_weather", "get_weather", true),
    ("get_weather", "get_weathers", false),
    ("get_*", "get_weather", true),
    ("get_*", "get_", true),
    ("get_*", "set_x", false),
    ("GET_*", "get_x", false),
    ("*", "anything", true),
    ("*", "a/b/c", true),
    ("a?c", "a/c", true),
    ("a?c", "ac", false),
    ("?", "漢", true),
    ("*", ".hidden", false),
    ("?hidden", ".hidden", false),
    ("[.]hidden", ".hidden", false),
    (".*", ".hidden", true),
    ("[abc]x", "bx", true),
    ("[^abc]x", "bx", false),
    ("[!abc]x", "dx", true),
    ("[a-c]x", "bx", true),
    ("[a-c]x", "dx", false),
    ("a\\*b", "a*b", true),
    ("a\\*b", "axb", false),
    ("{a,b}", "a", false),
    ("{a,b}", "{a,b}", true),
    ("a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
    ("", "x", false),
];

#[test]
fn globs_match_as_rubys_do() {
    // An allowed tool that nobody knows is told from one that is not allowed.
    let steps: Vec<_> = TABLE
        .iter()
        .flat_map(|(_, name, _)| {
            [json!({"tool_calls": [{"id": "c", "name": name, "args": {}}]}), json!({"text": "ok"})]
        })
        .collect();
    let server = Server::start(&["s1"], &crate::harness::scripted(&json!(steps)));
    let mut client = server.subscribed("s1");
    for (pattern, name, allowed) in TABLE {
        client.send(&json!({"type": "set_policy", "patterns": ["never-this", pattern]}));
        let turn = client.turn("go");
        let expected = if *allowed {
            format!("unknown tool {name}")
        } else {
            format!("{name} is not on the allow list")
        };
        assert_eq!(errors(&turn), [expected], "{pattern} and {name}");
    }
}

#[test]
fn with_nothing_configured_every_call_is_denied() {
    let steps = json!([{"tool_calls": [{"id": "c", "name": "x", "args": {}}]}, {"text": "ok"}]);
    let server = Server::start(&["s1"], &crate::harness::scripted(&steps));
    let mut client = server.subscribed("s1");
    assert_eq!(errors(&client.turn("go")), ["x is not on the allow list"]);
}

#[test]
fn a_change_is_in_force_on_the_very_next_call_of_the_same_batch() {
    let calls = json!([
        {"id": "c1", "name": "ask", "args": {}},
        {"id": "c2", "name": "nosuch", "args": {}}
    ]);
    let mut config = crate::harness::scripted(&json!([{"tool_calls": calls}, {"text": "ok"}]));
    config["approvals"] = json!(true);
    config["policy"] = json!(["*"]);
    config["tools"] = json!([{"name": "ask", "command": ["cat"], "approval": "always"}]);
    let server = Server::start(&["s1"], &config);
    let mut client = server.subscribed("s1");
    client.wake("go");
    client.events_until("approval/requested");
    client.send(&json!({"type": "set_policy", "patterns": ["ask"]}));
    assert_eq!(client.event().kind, "policy/updated");
    client.send(&json!({"type": "deny", "call_id": "c1", "reason": "no"}));
    let rest = client.events_until("turn/end");
    assert_eq!(errors(&rest), ["ask denied: no", "nosuch is not on the allow list"]);
}
