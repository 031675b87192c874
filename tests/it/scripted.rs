//! The scripted provider: the n-th request of a session gets the n-th step, whatever happens between.

use serde_json::{Value, json};

use crate::harness::{Event, Server};

fn config(steps: &Value) -> Value {
    json!({
        "providers": {"script": {"kind": "scripted", "steps": steps}},
        "roles": {"main": "script/m"}
    })
}

fn answer(turn: &[Event]) -> String {
    turn.iter().filter(|event| event.kind == "assistant/chunk").map(Event::text).collect()
}

fn end(turn: &[Event]) -> &Value {
    &turn.last().unwrap().payload
}

#[test]
fn text_is_cut_in_pieces_of_eight_characters() {
    let server = Server::start(&["s1"], &config(&json!([{"text": "Grüße aus 漢字, 😀 und mehr"}])));
    let mut client = server.subscribed("s1");
    let turn = client.turn("hi");
    let pieces: Vec<&str> =
        turn.iter().filter(|event| event.kind == "assistant/chunk").map(Event::text).collect();
    assert_eq!(pieces, ["Grüße au", "s 漢字, 😀 ", "und mehr"]);
}

#[test]
fn a_script_that_is_used_up_fails_the_turn() {
    let server = Server::start(&["s1"], &config(&json!([{"text": "only this"}])));
    let mut client = server.subscribed("s1");
    assert_eq!(answer(&client.turn("one")), "only this");
    let turn = client.turn("two");
    assert_eq!(*end(&turn), json!({"status": "failed", "reason": "script exhausted"}));
}

#[test]
fn an_error_uses_its_step_up_and_is_not_retried() {
    let steps = json!([{"error": {"status": 503, "message": "out of order"}}, {"text": "mended"}]);
    let server = Server::start(&["s1"], &config(&steps));
    let mut client = server.subscribed("s1");
    let turn = client.turn("one");
    assert_eq!(end(&turn)["status"], "failed");
    let reason = end(&turn)["reason"].as_str().unwrap();
    assert!(reason.contains("503") && reason.contains("out of order"), "{reason}");
    assert_eq!(answer(&client.turn("two")), "mended");
}

#[test]
fn steps_are_counted_by_the_log_and_so_survive_a_restart() {
    let config = config(&json!([{"text": "first"}, {"text": "second"}, {"text": "third"}]));
    let mut server = Server::start(&["s1", "s2"], &config);
    let mut client = server.subscribed("s1");
    assert_eq!(answer(&client.turn("one")), "first");
    // Another provider's step counts too.
    client.send(&json!({"type": "set_model", "role": "main", "model": "echo/echo"}));
    let tip = client.turn("two").last().unwrap().seq;
    server.kill();
    let server = Server::start_in(server.folder(), &["s1", "s2"], &config);
    let mut client = server.connect("s1");
    client.subscribe(tip + 1);
    assert_eq!(answer(&client.turn("three")), "third");
    assert_eq!(answer(&server.subscribed("s2").turn("one")), "first", "each session has its own");
}

#[test]
fn the_steps_may_stand_in_a_file_of_their_own() {
    let folder = std::sync::Arc::new(tempfile::TempDir::new().unwrap());
    std::fs::write(folder.path().join("script.json"), r#"[{"text": "from the file"}]"#).unwrap();
    let config = json!({
        "providers": {"script": {"kind": "scripted", "script": "script.json", "repeat": true}},
        "roles": {"main": "script/m"}
    });
    let server = Server::start_in(folder, &["s1"], &config);
    let mut client = server.subscribed("s1");
    for _ in 0..3 {
        assert_eq!(answer(&client.turn("again")), "from the file", "and over and over");
    }
}
