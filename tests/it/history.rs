//! What of a session a model is told: whole turns, the newest, and what has no place stays out.

use serde_json::{Value, json};

use crate::harness::provider::{Ask, Provider};
use crate::harness::{Client, Server};

/// A server whose requests carry at most this much history, and a client.
fn started(provider: &Provider, history_bytes: u64) -> (Server, Client) {
    let mut config = provider.config(&json!({}));
    config["history_bytes"] = json!(history_bytes);
    let server = Server::start(&["s1"], &config);
    let client = server.subscribed("s1");
    (server, client)
}

/// One turn: its text is `name` and a hundred letters, and so is its answer. Returns its request.
fn turn(provider: &Provider, client: &mut Client, name: &str) -> Vec<(String, String)> {
    client.wake(&format!("{name} {}", "u".repeat(100)));
    let ask = provider.ask();
    let said = said(&ask);
    ask.answer(&format!("{name} {}", "a".repeat(100)));
    client.events_until("turn/end");
    said
}

/// Role and first word of each message.
fn said(ask: &Ask) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap().split(' ').next().unwrap().to_owned();
    let messages = ask.body["messages"].as_array().unwrap();
    messages.iter().map(|message| (word(&message["role"]), word(&message["content"]))).collect()
}

fn turns(names: &[&str]) -> Vec<(String, String)> {
    let both = names.iter().flat_map(|name| [("user", *name), ("assistant", *name)]);
    both.map(|(role, name)| (role.to_owned(), name.to_owned())).collect()
}

#[test]
fn a_history_beyond_its_bound_is_cut_at_whole_turns_and_the_open_one_is_always_there() {
    let provider = Provider::start();
    // A turn of this length is some 1,500 bytes of log without its chunks.
    let (_server, mut client) = started(&provider, 3500);
    for name in ["one", "two", "three"] {
        turn(&provider, &mut client, name);
    }
    let request = turn(&provider, &mut client, "four");
    let (last, before) = request.split_last().unwrap();
    assert_eq!(*last, ("user".to_owned(), "four".to_owned()));
    assert!(before.len() < turns(&["one", "two", "three"]).len(), "it is cut: {before:?}");
    assert!(turns(&["one", "two", "three"]).ends_with(before), "at a turn: {before:?}");
    assert!(!before.is_empty());
    // Without any room for what is over, what is asked now is still asked.
    let (_server, mut client) = started(&provider, 0);
    turn(&provider, &mut client, "one");
    let request = turn(&provider, &mut client, "two");
    assert_eq!(request, [("user".to_owned(), "two".to_owned())]);
}

#[test]
fn a_request_that_exceeds_the_context_is_repeated_once_with_half_of_what_it_carried() {
    let provider = Provider::start();
    let (_server, mut client) = started(&provider, 1 << 20);
    let exceeded = r#"{"error": {"message": "maximum context length is 8192 tokens"}}"#;
    for name in ["one", "two", "three", "four"] {
        turn(&provider, &mut client, name);
    }
    for answers in [true, false] {
        client.wake("five");
        let ask = provider.ask();
        let whole = said(&ask);
        ask.refuse("400 Bad Request", "", exceeded);
        let ask = provider.ask();
        let half = said(&ask);
        assert!(whole.ends_with(&half), "{half:?}");
        assert!((2..=whole.len() / 2 + 1).contains(&half.len()), "{half:?} of {whole:?}");
        if answers {
            ask.answer("five");
        } else {
            ask.refuse("400 Bad Request", "", exceeded);
        }
        let end = client.events_until("turn/end").pop().unwrap().payload;
        assert_eq!(end["status"], if answers { "completed" } else { "failed" }, "{end}");
        assert!(provider.is_asked().is_none(), "once");
    }
}
