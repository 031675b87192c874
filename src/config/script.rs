//! What a scripted provider says: answers written down beforehand, in the configuration or a file.
//!
//! Plain values. Knows not which step is asked for, nor when its time has come.

use std::path::Path;

use super::Surroundings;
use super::node::{Fields, Node, Source};
use crate::limits::{SCRIPT_PIECE_CHARS, WAIT_S_MAX};
use crate::proto::json::Kind;
use crate::proto::payload::Usage;

/// What a scripted provider says, one step a model request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// The answers in order.
    pub steps: Vec<ScriptStep>,
    /// Whether it starts over after the last.
    pub repeat: bool,
}

/// One scripted answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptStep {
    /// Milliseconds before the first piece, or before the end when there is no piece.
    pub delay_ms: u64,
    /// Milliseconds between two pieces.
    pub chunk_delay_ms: u64,
    /// The text as it streams; `text` was cut already.
    pub pieces: Vec<String>,
    /// What comes after the text.
    pub end: ScriptEnd,
}

/// How a scripted answer ends.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptEnd {
    /// As a model's answer does.
    Answer {
        /// The tools the model wants called.
        calls: Vec<ScriptCall>,
        /// What the step cost.
        usage: Option<Usage>,
    },
    /// As a provider's failure.
    Error {
        /// An HTTP status.
        status: u16,
        /// What the provider says about it.
        message: String,
    },
}

/// A scripted tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptCall {
    /// The call's id, as a provider would give it.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// What the model sends as arguments, byte for byte: the text of the JSON value in the script, or
    /// of a string what it holds, so that a script can send what is not JSON.
    pub args: Box<str>,
}

impl Script {
    pub(super) fn read(fields: &mut Fields<'_>, around: &Surroundings<'_>) -> Option<Script> {
        let mut script = Script::default();
        fields.set("repeat", &mut script.repeat, Node::boolean);
        let steps = fields.optional("steps");
        let file = fields.optional("script");
        script.steps = match (steps, file) {
            (Some(steps), None) => steps.list(read_step)?,
            (None, Some(file)) => read_script_file(&file, around)?,
            (None, None) => {
                fields.node().problem("expected `steps`, or `script` with the name of a file");
                return None;
            }
            (Some(_), Some(file)) => {
                file.problem("`steps` are here already; expected one of the two");
                return None;
            }
        };
        Some(script)
    }
}

fn read_script_file(node: &Node<'_>, around: &Surroundings<'_>) -> Option<Vec<ScriptStep>> {
    let name = node.string()?;
    let text = match (around.read)(&around.base_dir.join(Path::new(&name))) {
        Ok(text) => text,
        Err(error) => {
            node.problem(format!("{name}: {error}"));
            return None;
        }
    };
    let source = Source::new(&text);
    let steps = source.root().and_then(|root| root.list(read_step));
    let problems = source.into_problems();
    for problem in &problems {
        node.problem(format!("{name}:{problem}"));
    }
    steps.filter(|_| problems.is_empty())
}

fn read_step(node: &Node<'_>) -> Option<ScriptStep> {
    let mut fields = node.fields()?;
    let milliseconds = |node: &Node<'_>| node.whole(0..=WAIT_S_MAX * 1000);
    let (mut delay_ms, mut chunk_delay_ms) = (0, 0);
    fields.set("delay_ms", &mut delay_ms, milliseconds);
    fields.set("chunk_delay_ms", &mut chunk_delay_ms, milliseconds);
    let pieces = match (fields.nullable("text"), fields.nullable("chunks")) {
        (None, None) => Some(Vec::new()),
        (Some(text), None) => text.string().map(|text| cut(&text)),
        (None, Some(chunks)) => chunks.list(Node::string),
        (Some(_), Some(chunks)) => {
            chunks.problem("`text` is here already; expected one of the two");
            None
        }
    };
    let calls = fields.optional("tool_calls");
    let usage = fields.nullable("usage");
    let end = match fields.nullable("error") {
        Some(error) => {
            if let Some(node) = calls.as_ref().or(usage.as_ref()) {
                node.problem("does not go with `error`");
            }
            read_error(&error)
        }
        None => Some(ScriptEnd::Answer {
            calls: calls.and_then(|node| node.list(read_call)).unwrap_or_default(),
            usage: usage.as_ref().and_then(read_usage),
        }),
    };
    fields.finish();
    Some(ScriptStep { delay_ms, chunk_delay_ms, pieces: pieces?, end: end? })
}

fn read_error(node: &Node<'_>) -> Option<ScriptEnd> {
    let mut fields = node.fields()?;
    let (mut status, mut message) = (500, String::from("scripted error"));
    fields.set("status", &mut status, |node| node.whole(100..=599));
    fields.set("message", &mut message, Node::string);
    fields.finish();
    Some(ScriptEnd::Error { status, message })
}

fn read_call(node: &Node<'_>) -> Option<ScriptCall> {
    let mut fields = node.fields()?;
    let id = fields.required("id").and_then(|node| node.string());
    let name = fields.required("name").and_then(|node| node.string());
    let mut args: Box<str> = "{}".into();
    fields.set("args", &mut args, |node| {
        if node.kind() == Kind::String {
            node.string().map(Into::into)
        } else {
            Some(node.raw().into())
        }
    });
    fields.finish();
    Some(ScriptCall { id: id?, name: name?, args })
}

fn read_usage(node: &Node<'_>) -> Option<Usage> {
    let mut fields = node.fields()?;
    let mut usage = Usage { prompt_tokens: 0, completion_tokens: 0, cost: None };
    fields.set("prompt_tokens", &mut usage.prompt_tokens, |node| node.whole(0..=u64::MAX));
    fields.set("completion_tokens", &mut usage.completion_tokens, |node| node.whole(0..=u64::MAX));
    fields.set_nullable("cost", &mut usage.cost, Node::amount);
    fields.finish();
    Some(usage)
}

fn cut(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(SCRIPT_PIECE_CHARS).map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_in_pieces_of_eight_characters() {
        assert_eq!(cut(""), Vec::<String>::new());
        assert_eq!(cut("12345678"), ["12345678"]);
        assert_eq!(cut("äöü45678é"), ["äöü45678", "é"]);
    }
}
