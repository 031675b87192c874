//! Logs as histories: what a model gets to read (cases-providers, 9, 28, 29).

use super::*;
use crate::agent::Message;
use crate::agent::fuzz::strict;
use crate::agent::history::{History, project};
use crate::proto::payload::Call;

fn user(text: &str) -> Body {
    Body::UserMessage { text: text.into() }
}

fn injected(text: &str) -> Body {
    Body::ContextInjected { text: text.into() }
}

fn call(id: &str, args: &str) -> Call {
    Call { id: id.into(), name: "t".into(), args: args.into() }
}

fn answer(text: &str, calls: &[&str]) -> Body {
    let text = Some(text).filter(|text| !text.is_empty());
    let mut parts: Vec<Part> = text.into_iter().map(|text| Part::Text(text.into())).collect();
    parts.extend(calls.iter().map(|id| Part::ToolCall(call(id, "{}"))));
    Body::AssistantMessage { parts }
}

fn result(id: &str, text: &str) -> Body {
    Body::ToolResult { id: id.into(), outcome: Ok(Content::text(text)) }
}

/// The history in one line a message.
fn messages(events: impl IntoIterator<Item = Body>) -> Vec<String> {
    let messages = project((0..).zip(events));
    strict::check(&messages);
    let shown = messages.iter().map(|message| match message {
        Message::User(text) => format!("user {text}"),
        Message::Assistant { text, calls } => {
            let calls = calls.iter().map(|call| format!(" {}{}", call.id, call.args));
            format!("assistant {text}{}", calls.collect::<String>())
        }
        Message::Tool { call_id, content } => format!("tool {call_id} {content}"),
    });
    shown.collect()
}

const MISSING: &str = "Error: the call has no result; it may or may not have run";

#[test]
fn every_log_makes_a_history_that_a_strict_provider_takes() {
    let error = Body::ToolResult { id: "a".into(), outcome: Err("broke".into()) };
    let json =
        Body::ToolResult { id: "a".into(), outcome: Ok(Content::json("{\"n\": 1e400}").unwrap()) };
    let rows: Vec<(Vec<Body>, Vec<String>)> = vec![
        (vec![], vec![]),
        (vec![Body::SessionCreated, user("hi")], vec!["user hi".into()]),
        (
            vec![user("hi"), injected("and"), answer("yes", &[]), user("so")],
            vec!["user hi\n\nand".into(), "assistant yes".into(), "user so".into()],
        ),
        // Chunks of a step that failed are nobody's words.
        (
            vec![user("a"), Body::AssistantChunk { text: "half".into() }, user("b")],
            vec!["user a\n\nb".into()],
        ),
        // Results in call order, k-th to k-th per id, each once.
        (
            vec![
                user("go"),
                answer("", &["a", "b", "a"]),
                result("b", "1"),
                result("a", "2"),
                result("a", "3"),
                result("a", "4"),
                result("z", "5"),
            ],
            vec![
                "user go".into(),
                "assistant  a{} b{} a{}".into(),
                "tool a 2".into(),
                "tool b 1".into(),
                "tool a 3".into(),
            ],
        ),
        // A call that was never answered; a result that comes after the next answer.
        (
            vec![
                user("go"),
                answer("t", &["a"]),
                user("on"),
                answer("u", &[]),
                result("a", "late"),
            ],
            vec![
                "user go".into(),
                "assistant t a{}".into(),
                format!("tool a {MISSING}"),
                "assistant Noted.".into(),
                "user on".into(),
                "assistant u".into(),
            ],
        ),
        (
            vec![user("go"), answer("", &["a"]), error],
            vec!["user go".into(), "assistant  a{}".into(), "tool a Error: broke".into()],
        ),
        (
            vec![user("go"), answer("", &["a"]), json],
            vec!["user go".into(), "assistant  a{}".into(), "tool a {\"n\": 1e400}".into()],
        ),
        // No part is empty.
        (
            vec![user(""), answer("", &["a"]), result("a", ""), answer("", &[]), injected("")],
            vec![
                "user (no text)".into(),
                "assistant  a{}".into(),
                "tool a (no output)".into(),
                "assistant Noted.".into(),
                "user (no text)".into(),
            ],
        ),
        (vec![user(""), user("x"), user("")], vec!["user x".into()]),
        // Two answers in a row are one.
        (
            vec![user("go"), answer("one", &[]), answer("", &[]), answer("two", &["a"])],
            vec!["user go".into(), "assistant one\n\ntwo a{}".into(), format!("tool a {MISSING}")],
        ),
        // What a cut left in front of the first user's message goes.
        (
            vec![result("x", "1"), answer("old", &["a"]), result("a", "2"), user("go")],
            vec!["user go".into()],
        ),
        (vec![answer("all there is", &[])], vec!["assistant all there is".into()]),
    ];
    for (events, expected) in rows {
        assert_eq!(messages(events.clone()), expected, "{events:?}");
    }
}

#[test]
fn arguments_are_always_an_object() {
    for (args, kept) in [
        ("{}", true),
        (" {\"n\": 1e400}", true),
        ("{\"a\":12345678901234567890}", true),
        ("[]", false),
        ("null", false),
        ("{\"a\":", false),
        ("{\"a\":\"\\ud800\"}", false),
        ("", false),
    ] {
        let parts = vec![Part::ToolCall(call("a", args))];
        let messages = messages([user("go"), Body::AssistantMessage { parts }]);
        let expected = if kept { args } else { "{}" };
        assert_eq!(messages[1], format!("assistant  a{expected}"));
    }
}

#[test]
fn a_compaction_stands_for_everything_up_to_its_seq() {
    let compacted =
        |upto_seq, summary: &str| Body::SessionCompacted { upto_seq, summary: summary.into() };
    let log = vec![
        user("old"),
        answer("older", &["a"]),
        result("a", "gone"),
        user("new"),
        answer("kept", &[]),
        compacted(2, "once upon a time"),
        user("now"),
    ];
    let expected = ["user once upon a time\n\nnew", "assistant kept", "user now"];
    assert_eq!(messages(log.clone()), expected);
    // The reader may put it first, whatever its own seq.
    let mut events: Vec<(u64, Body)> = (0..).zip(log).collect();
    let first = events.remove(5);
    events.insert(0, first);
    let mut history = History::default();
    for (seq, body) in events {
        let mut payload = Vec::new();
        body.write_payload(&mut payload);
        history.push_raw(seq, body.kind(), &payload).unwrap();
    }
    let shown: Vec<_> = history.finish().into_iter().collect();
    assert_eq!(shown[0], Message::User("once upon a time\n\nnew".into()));
    assert_eq!(shown.len(), 3);
    // The later of two counts, and one in the middle of a turn orphans nobody.
    assert_eq!(
        messages([
            user("go"),
            answer("", &["a"]),
            compacted(0, "first"),
            result("a", "kept"),
            compacted(1, "second"),
            compacted(0, "stale"),
            user("on"),
        ]),
        ["user second\n\non"]
    );
}

#[test]
fn chunks_and_unknown_types_are_not_even_parsed() {
    let mut history = History::default();
    history.push_raw(1, "assistant/chunk", b"not json").unwrap();
    history.push_raw(2, "session/starred", b"not json").unwrap();
    history.push_raw(3, "user/message", br#"{"text":"hi"}"#).unwrap();
    assert!(history.push_raw(4, "user/message", b"not json").is_err());
    assert_eq!(history.finish(), [Message::User("hi".into())]);
}

#[test]
fn an_event_says_the_same_as_the_log_has_it() {
    let (mut world, _) = calling(&[("a", "serial", "{}"), ("b", "unknown", "{}")]);
    world.steer("meanwhile");
    world.tool(0, "done");
    world.text("so");
    world.finish(&[]);
    let mut log: Vec<Body> = world.log.iter().map(|event| event.body.clone()).collect();
    for compacted in [false, true] {
        if compacted {
            log.push(Body::SessionCompacted { upto_seq: 4, summary: "before".into() });
        }
        let mut history = History::default();
        for (seq, body) in (0..).zip(&log) {
            let mut payload = Vec::new();
            body.write_payload(&mut payload);
            history.push_raw(seq, body.kind(), &payload).unwrap();
        }
        let expected = project((0..).zip(log.iter().cloned()));
        assert!(expected.len() > 1);
        assert_eq!(history.finish(), expected);
    }
}

#[test]
fn a_call_that_was_cut_off_does_not_poison_the_next_request() {
    // Cut at every event between the message and the end of its step, then closed by a cancel.
    let (mut whole, _) = calling(&[("a", "serial", "{}"), ("b", "par", "{}"), ("b", "par", "{}")]);
    whole.tool(0, "a");
    whole.tool(0, "b");
    whole.tool(0, "b");
    for events in 1..=whole.log.len() {
        let mut world = whole.died_after(events);
        world.cancel(None);
        world.wake("next");
        // `history` is held to the strict checker.
        assert_eq!(world.history().last(), world.asked.unwrap().messages.last());
    }
}
