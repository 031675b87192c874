//! What providers demand of a request's messages, checked without the projection that makes them.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::agent::Message;

/// Fails at the first rule that the messages break.
pub fn check(messages: &[Message]) {
    if messages.iter().any(|message| matches!(message, Message::User(_))) {
        assert!(matches!(messages[0], Message::User(_)), "begins with an answer: {messages:?}");
    }
    let mut expected: Vec<&str> = Vec::new();
    let mut before: Option<&Message> = None;
    for message in messages {
        match message {
            Message::User(text) => {
                assert!(expected.is_empty(), "a user speaks before {expected:?} are answered");
                assert!(!text.is_empty(), "an empty user message");
                assert!(
                    matches!(before, None | Some(Message::Assistant { .. })),
                    "a user's message right behind {before:?}"
                );
            }
            Message::Assistant { text, calls } => {
                assert!(expected.is_empty(), "the model speaks before {expected:?} are answered");
                assert!(!text.is_empty() || !calls.is_empty(), "an empty answer");
                assert!(
                    !matches!(before, Some(Message::Assistant { .. })),
                    "two answers in a row, the second {message:?}"
                );
                for call in calls {
                    let object: Result<BTreeMap<String, &RawValue>, _> =
                        serde_json::from_str(&call.args);
                    assert!(object.is_ok(), "arguments are no object: {}", call.args);
                }
                expected = calls.iter().rev().map(|call| call.id.as_str()).collect();
            }
            Message::Tool { call_id, content } => {
                assert_eq!(expected.pop(), Some(call_id.as_str()), "a result out of place");
                assert!(!content.is_empty(), "an empty result");
            }
        }
        before = Some(message);
    }
    assert!(expected.is_empty(), "{expected:?} are never answered");
}
