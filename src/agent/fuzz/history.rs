//! The body of the fuzz target for histories: of any events in any order, also of those no machine
//! would emit, the projection makes messages that a strict provider takes.

use super::strict;
use crate::agent::Message;
use crate::agent::history::project;
use crate::proto::payload::{Body, Call, Content, Part};

/// Each event takes a few bytes.
pub fn history(bytes: &[u8]) {
    let mut events = Vec::new();
    for (seq, chunk) in (0..).zip(bytes.chunks(4)) {
        let byte = |place: usize| chunk.get(place).copied().unwrap_or(0);
        let text = ["", "a", "b", "c\n"][usize::from(byte(1)) % 4].to_owned();
        let id = || ["0", "1", ""][usize::from(byte(2)) % 3].to_owned();
        let body = match byte(0) % 9 {
            0 => Body::UserMessage { text },
            1 => Body::ContextInjected { text },
            2 | 3 => Body::AssistantMessage { parts: parts(text, byte(2), byte(3)) },
            4 => Body::ToolResult { id: id(), outcome: Ok(Content::text(&text)) },
            5 => Body::ToolResult { id: id(), outcome: Err(text) },
            6 => Body::SessionCompacted { upto_seq: u64::from(byte(3)), summary: text },
            7 => Body::AssistantChunk { text },
            _ => Body::StepStart { n: 1, model: text },
        };
        events.push((seq, body));
    }
    let asked_anything = events.iter().any(|(_, body)| matches!(body, Body::UserMessage { .. }));
    let compacted = events.iter().any(|(_, body)| matches!(body, Body::SessionCompacted { .. }));
    let messages = project(events);
    strict::check(&messages);
    let has_user = messages.iter().any(|message| matches!(message, Message::User(_)));
    assert!(has_user || compacted || !asked_anything, "a user's words are gone");
}

fn parts(text: String, calls: u8, args: u8) -> Vec<Part> {
    let mut parts = vec![Part::Text(text)];
    for number in 0..calls % 4 {
        let id = ["0", "1"][usize::from(calls >> (number + 2)) % 2].to_owned();
        let args = ["{}", "[]", "{\"a\": 1e400}", "{"][usize::from(args >> number) % 4].into();
        parts.push(Part::ToolCall(Call { id, name: "t".into(), args }));
    }
    parts
}
