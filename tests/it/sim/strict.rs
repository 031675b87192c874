//! What providers demand of a request's messages, whoever wrote the request: a conversation begins
//! with a user, every call is answered once, in order and before anybody speaks again, nobody speaks
//! twice in a row, and nothing is empty.

use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use terret_ws::agent::Message;

/// One message, of whatever dialect.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    User(String),
    Assistant { text: String, calls: Vec<(String, String)> },
    Tool { call_id: String, content: String },
}

impl Said {
    pub(super) fn of(message: &Message) -> Self {
        match message {
            Message::User(text) => Self::User(text.clone()),
            Message::Assistant { text, calls } => {
                let calls = calls.iter().map(|call| (call.id.clone(), call.args.to_string()));
                Self::Assistant { text: text.clone(), calls: calls.collect() }
            }
            Message::Tool { call_id, content } => {
                Self::Tool { call_id: call_id.clone(), content: content.clone() }
            }
        }
    }

    /// The messages of a chat-completions request, without the system's.
    pub(super) fn of_request(body: &[u8]) -> Vec<Self> {
        let request: Value = serde_json::from_slice(body).expect("a request is JSON");
        let messages = request["messages"].as_array().expect("a request has messages").iter();
        messages.filter(|message| message["role"] != "system").map(Self::of_json).collect()
    }

    fn of_json(message: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let content = text(&message["content"]);
        match message["role"].as_str() {
            Some("user") => Self::User(content),
            Some("tool") => Self::Tool { call_id: text(&message["tool_call_id"]), content },
            Some("assistant") => {
                let calls = message["tool_calls"].as_array().into_iter().flatten();
                let call = |call: &Value| (text(&call["id"]), text(&call["function"]["arguments"]));
                Self::Assistant { text: content, calls: calls.map(call).collect() }
            }
            role => panic!("a message of {role:?}"),
        }
    }
}

/// Fails at the first rule that the messages break.
pub(super) fn check(messages: &[Said]) {
    assert!(matches!(messages.first(), Some(Said::User(_))), "nobody asked: {messages:?}");
    let mut owed: Vec<&str> = Vec::new();
    let mut before: Option<&Said> = None;
    for message in messages {
        match message {
            Said::User(text) => {
                assert!(owed.is_empty(), "a user speaks before {owed:?} are answered");
                assert!(!text.is_empty(), "a user says nothing");
                let may = matches!(before, None | Some(Said::Assistant { .. }));
                assert!(may, "a user right behind {before:?}");
            }
            Said::Assistant { text, calls } => {
                assert!(owed.is_empty(), "the model speaks before {owed:?} are answered");
                assert!(!text.is_empty() || !calls.is_empty(), "the model says nothing");
                assert!(!matches!(before, Some(Said::Assistant { .. })), "twice: {message:?}");
                for (_, args) in calls {
                    let object: Result<BTreeMap<String, &RawValue>, _> = serde_json::from_str(args);
                    assert!(object.is_ok(), "no object: {args}");
                }
                owed = calls.iter().rev().map(|(id, _)| id.as_str()).collect();
            }
            Said::Tool { call_id, content } => {
                assert_eq!(owed.pop(), Some(call_id.as_str()), "a result out of place");
                assert!(!content.is_empty(), "an empty result");
            }
        }
        before = Some(message);
    }
    assert!(owed.is_empty(), "{owed:?} are never answered");
}
