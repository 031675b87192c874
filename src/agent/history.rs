//! A session's log as the messages of a model request (issue "History"; cases-providers, 9, 28, 29).
//!
//! Correct by construction, whatever the log went through: every call is answered exactly once and
//! in order, right behind the message that made it; a call without a result gets a synthetic error,
//! a result without a call is dropped; arguments are an object; no part is empty; no two messages
//! of one role stand side by side but tools', and none of a user's right behind a tool's; the
//! first message is a user's, if there is any. Text of a step that failed is not part of it.
//!
//! Knows no provider: what a dialect wants otherwise is done where it is spoken.

use std::collections::VecDeque;

use crate::proto::json;
use crate::proto::payload::{Body, Call, Outcome, Part, PayloadError};

/// One message of a model's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// What users said; never empty.
    User(String),
    /// What the model said; has a text, or calls, or both.
    Assistant {
        /// Empty when there are only calls.
        text: String,
        /// Each is answered by the [`Message::Tool`]s right behind, in order.
        calls: Vec<Call>,
    },
    /// The result of a call; never empty.
    Tool {
        /// The call's id.
        call_id: String,
        /// An error begins with `Error: `.
        content: String,
    },
}

/// The messages that these events, in order of seq, amount to.
pub fn project(events: impl IntoIterator<Item = (u64, Body)>) -> Vec<Message> {
    let mut history = History::default();
    for (seq, body) in events {
        history.push(seq, body);
    }
    history.finish()
}

/// The same, event by event: for logs that are read piece by piece.
#[derive(Debug, Default)]
pub struct History {
    entries: Vec<(u64, Entry)>,
    compacted: Option<(u64, String)>,
}

/// What an event says in a conversation.
#[derive(Debug)]
enum Entry {
    User(String),
    Assistant { text: String, calls: Vec<Call> },
    Result { id: String, outcome: Outcome },
}

impl History {
    /// Takes in an event. One that a compaction covers is passed over, in whichever order the two
    /// come.
    pub fn push(&mut self, seq: u64, body: Body) {
        let entry = match body {
            Body::UserMessage { text } | Body::ContextInjected { text } => Entry::User(text),
            Body::AssistantMessage { parts } => Entry::of_parts(parts),
            Body::ToolResult { id, outcome } => Entry::Result { id, outcome },
            Body::SessionCompacted { upto_seq, summary } => {
                self.compact(upto_seq, summary);
                return;
            }
            _ => return,
        };
        if self.compacted.as_ref().is_none_or(|(upto_seq, _)| seq > *upto_seq) {
            self.entries.push((seq, entry));
        }
    }

    /// Takes in an event as the log has it. Most events of a log are chunks, which mean nothing
    /// here: their payload is not even looked at.
    pub fn push_raw(&mut self, seq: u64, kind: &str, payload: &[u8]) -> Result<(), PayloadError> {
        if MEANT.contains(&kind)
            && let Some(body) = Body::parse(kind, payload)?
        {
            self.push(seq, body);
        }
        Ok(())
    }

    /// The messages.
    pub fn finish(self) -> Vec<Message> {
        let mut messages = Messages::default();
        if let Some((_, summary)) = self.compacted {
            messages.user(&summary);
        }
        for (_, entry) in self.entries {
            match entry {
                Entry::User(text) => messages.user(&text),
                Entry::Assistant { text, calls } => messages.assistant(text, calls),
                Entry::Result { id, outcome } => messages.result(&id, &outcome),
            }
        }
        messages.finish()
    }

    /// The compaction that reaches furthest stands; of two that reach as far, the later.
    fn compact(&mut self, upto_seq: u64, summary: String) {
        if self.compacted.as_ref().is_none_or(|(before, _)| upto_seq >= *before) {
            self.entries.retain(|(seq, _)| *seq > upto_seq);
            self.compacted = Some((upto_seq, summary));
        }
    }
}

impl Entry {
    fn of_parts(parts: Vec<Part>) -> Entry {
        let (mut text, mut calls) = (String::new(), Vec::new());
        for part in parts {
            match part {
                Part::Text(more) => text.push_str(&more),
                Part::ToolCall(call) => calls.push(call),
            }
        }
        Entry::Assistant { text, calls }
    }
}

/// The events that say something in a conversation.
const MEANT: [&str; 5] =
    ["user/message", "context/injected", "assistant/message", "tool/result", "session/compacted"];

/// Stands where a user's message has no text at all.
const NO_TEXT: &str = "(no text)";
/// Stands where a tool returned the empty string.
const NO_OUTPUT: &str = "(no output)";
/// Answers a call that the log has no result of: its process died, or its turn was closed.
const NO_RESULT: &str = "Error: the call has no result; it may or may not have run";
/// Stands between a tool's result and a user's next words: templates that demand strict
/// alternation (Mistral's, vllm's) refuse a user's message right behind a tool's. The model takes it for
/// its own words, so it is true behind a result, an error and a cancel alike: nothing was interrupted
/// where a steer rides the step that follows a tool's.
const BRIDGE: &str = "Noted.";
/// Between the texts of messages that are joined.
const JOINT: &str = "\n\n";

/// The messages so far.
#[derive(Default)]
struct Messages {
    done: Vec<Message>,
    /// The calls of the last assistant message that wait for their result, in call order; those
    /// with one wait too, for the ones before them.
    pending: VecDeque<(String, Option<String>)>,
}

impl Messages {
    fn user(&mut self, text: &str) {
        self.answer_all();
        match self.done.last_mut() {
            Some(Message::User(before)) => join(before, text),
            Some(Message::Tool { .. }) => {
                self.done.push(Message::Assistant { text: BRIDGE.into(), calls: Vec::new() });
                self.done.push(Message::User(text.to_owned()));
            }
            _ => self.done.push(Message::User(text.to_owned())),
        }
    }

    fn assistant(&mut self, text: String, mut calls: Vec<Call>) {
        self.answer_all();
        if text.is_empty() && calls.is_empty() {
            return;
        }
        for call in &mut calls {
            if !is_object(&call.args) {
                call.args = "{}".into();
            }
        }
        self.pending = calls.iter().map(|call| (call.id.clone(), None)).collect();
        match self.done.last_mut() {
            Some(Message::Assistant { text: before, calls: none }) if none.is_empty() => {
                join(before, &text);
                *none = calls;
            }
            _ => self.done.push(Message::Assistant { text, calls }),
        }
    }

    /// The k-th result of an id answers the k-th call of it.
    fn result(&mut self, id: &str, outcome: &Outcome) {
        let open = |(of, content): &&mut (String, Option<String>)| of == id && content.is_none();
        if let Some((_, content)) = self.pending.iter_mut().find(open) {
            *content = Some(match outcome {
                Ok(content) => match content.to_text() {
                    text if text.is_empty() => NO_OUTPUT.to_owned(),
                    text => text.into_owned(),
                },
                Err(error) => format!("Error: {error}"),
            });
        }
    }

    /// Closes the last assistant message: whatever has no result by now will never have one.
    fn answer_all(&mut self) {
        for (call_id, content) in self.pending.drain(..) {
            let content = content.unwrap_or_else(|| NO_RESULT.to_owned());
            self.done.push(Message::Tool { call_id, content });
        }
    }

    fn finish(mut self) -> Vec<Message> {
        self.answer_all();
        let is_user = |message: &Message| matches!(message, Message::User(_));
        // A log that was cut in the middle of a turn begins with an answer to nothing.
        if let Some(first) = self.done.iter().position(is_user) {
            self.done.drain(..first);
        }
        for message in &mut self.done {
            if let Message::User(text) = message
                && text.is_empty()
            {
                NO_TEXT.clone_into(text);
            }
        }
        self.done
    }
}

fn join(before: &mut String, text: &str) {
    if !before.is_empty() && !text.is_empty() {
        before.push_str(JOINT);
    }
    before.push_str(text);
}

/// A log of ours holds nothing else; one that was made elsewhere may.
fn is_object(args: &str) -> bool {
    args.trim_start().starts_with('{') && json::check(args.as_bytes()).is_ok()
}
