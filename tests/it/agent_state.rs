//! `GET /agents/{id}` and its neighbour: what an operator reads about one agent.

use serde_json::json;

use crate::harness::provider::Provider;
use crate::harness::{Server, http, token};

#[test]
fn it_tells_an_idle_agent_from_a_busy_one() {
    let provider = Provider::start();
    let server = Server::start(&["s1"], &provider.config(&json!({})));
    let mut client = server.subscribed("s1");
    let idle = server.state("s1");
    assert_eq!(idle["session_id"], "s1");
    assert_eq!(idle["last_seq"], 0);
    assert_eq!(idle["status"], "idle");
    assert_eq!(idle["connected"], true);
    assert_eq!(idle["policy"], json!([]));
    assert!(idle["last_error"].is_null());
    assert!(idle.to_string().contains("fake/model-1"), "the model of each role: {idle}");

    client.wake("go");
    let ask = provider.ask();
    let busy = server.state("s1");
    assert_ne!(busy["status"], "idle", "{busy}");
    ask.answer("Done.");
    client.events_until("turn/end");
    client.cut();
    server.expect_connected("s1", false);
    assert_eq!(server.state("s1")["status"], "idle");
}

#[test]
fn it_shows_the_policy_in_force() {
    let server = Server::start(&["s1"], &json!({"policy": ["get_*"]}));
    let mut client = server.subscribed("s1");
    assert_eq!(server.state("s1")["policy"], json!(["get_*"]));
    client.send(&json!({"type": "set_policy", "patterns": ["a", "b*"]}));
    client.event();
    assert_eq!(server.state("s1")["policy"], json!(["a", "b*"]));
}

#[test]
fn reading_about_a_session_that_is_not_there_makes_none() {
    let server = Server::start(&["s1"], &json!({}));
    for path in ["/agents/s1", "/agents/s1/events?from_seq=0"] {
        let answer = http::get(server.addr(), path, Some(&token("s1")));
        assert!(matches!(answer.status, 200 | 404), "{answer:?}");
    }
    assert!(!server.data_dir().join("sessions/s1").exists());
}

#[test]
fn a_read_never_disturbs_the_connection_of_the_agent() {
    let server = Server::start(&["s1"], &json!({}));
    let mut client = server.subscribed("s1");
    for _ in 0..20 {
        server.state("s1");
        http::get(server.addr(), "/agents/s1/events?from_seq=0", Some(&token("s1")));
    }
    assert_eq!(client.turn("hello").last().unwrap().payload["status"], "completed");
}
