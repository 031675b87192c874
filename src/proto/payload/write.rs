//! Payloads written: one JSON object, keys in the order of the table in the clarifications.
//!
//! Knows JSON's punctuation and nothing of what a payload means. Invariant: every string goes
//! through [`write_string`], every raw text was made single-line where it entered.

use crate::proto::append_number;

use super::{Body, Call, Content, Part, Usage};
use crate::proto::json::write_string;

impl Body {
    /// Appends the payload, a JSON object, to `out`.
    pub fn write_payload(&self, out: &mut Vec<u8>) {
        let mut object = Object::open(out);
        match self {
            Body::SessionCreated => object.raw("parent_id", "null"),
            Body::TurnStart { agent } => object.string("agent", agent),
            Body::StepStart { n, model } => {
                object.number("n", u64::from(*n));
                object.string("model", model);
            }
            Body::UserMessage { text }
            | Body::ContextInjected { text }
            | Body::AssistantChunk { text } => object.string("text", text),
            Body::AssistantMessage { parts } => object.parts(parts),
            Body::ToolCall(call) => object.call("id", call),
            Body::ToolResult { id, outcome } => {
                object.string("id", id);
                object.raw("content", outcome.as_ref().map_or("null", Content::as_json));
                object.nullable("error", outcome.as_ref().err());
            }
            Body::StepEnd { n, usage } => {
                object.number("n", u64::from(*n));
                if let Some(usage) = usage {
                    object.usage(usage);
                }
            }
            Body::TurnEnd { status, reason } => {
                object.string("status", status.as_str());
                object.optional("reason", reason.as_ref());
            }
            Body::ApprovalRequested(call) => object.call("call_id", call),
            Body::ApprovalResolved { call_id, verdict, reason } => {
                object.string("call_id", call_id);
                object.string("verdict", verdict.as_str());
                object.optional("reason", reason.as_ref());
            }
            Body::PolicyUpdated { patterns } => object.strings("patterns", patterns),
            Body::SessionTitled { title } => object.string("title", title),
            Body::SessionCompacted { upto_seq, summary } => {
                object.number("upto_seq", *upto_seq);
                object.string("summary", summary);
            }
            Body::SessionForked { from, boundary } => {
                object.string("from", from);
                object.number("boundary", *boundary);
            }
        }
        object.close();
    }
}

/// Writes one JSON object, key by key.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl Object<'_> {
    fn open(out: &mut Vec<u8>) -> Object<'_> {
        out.push(b'{');
        Object { out, first: true }
    }

    fn close(self) {
        self.out.push(b'}');
    }

    fn key(&mut self, key: &str) {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn raw(&mut self, key: &str, json: &str) {
        self.key(key);
        self.out.extend_from_slice(json.as_bytes());
    }

    fn string(&mut self, key: &str, value: &str) {
        self.key(key);
        write_string(self.out, value);
    }

    fn number(&mut self, key: &str, value: u64) {
        self.key(key);
        append_number(self.out, value);
    }

    fn optional(&mut self, key: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.string(key, value);
        }
    }

    fn nullable(&mut self, key: &str, value: Option<&String>) {
        match value {
            Some(value) => self.string(key, value),
            None => self.raw(key, "null"),
        }
    }

    fn strings(&mut self, key: &str, values: &[String]) {
        self.key(key);
        self.out.push(b'[');
        for (i, value) in values.iter().enumerate() {
            if i > 0 {
                self.out.push(b',');
            }
            write_string(self.out, value);
        }
        self.out.push(b']');
    }

    fn call(&mut self, id_key: &str, call: &Call) {
        self.string(id_key, &call.id);
        self.string("name", &call.name);
        self.raw("args", &call.args);
    }

    fn parts(&mut self, parts: &[Part]) {
        self.key("parts");
        self.out.push(b'[');
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                self.out.push(b',');
            }
            let mut object = Object::open(self.out);
            match part {
                Part::Text(text) => {
                    object.string("type", "text");
                    object.string("text", text);
                }
                Part::ToolCall(call) => {
                    object.string("type", "tool_call");
                    object.call("id", call);
                }
            }
            object.close();
        }
        self.out.push(b']');
    }

    #[expect(clippy::expect_used, reason = "memory is all that can run out")]
    fn usage(&mut self, usage: &Usage) {
        self.key("usage");
        let mut object = Object::open(self.out);
        object.number("prompt_tokens", usage.prompt_tokens);
        object.number("completion_tokens", usage.completion_tokens);
        object.key("cost");
        // A cost that is no JSON number (NaN, an infinity) becomes null.
        serde_json::to_writer(&mut *object.out, &usage.cost).expect("a Vec takes every byte");
        object.close();
    }
}
