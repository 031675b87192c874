//! A chat-completions request, written once with blanks where servers disagree, so that a retry
//! fills it in another way without the history it was made of (cases-providers.md, 28 to 32).
//!
//! Correct by construction: what the server may refuse is left out or filled as learned; what
//! everyone demands cannot be missing.

use std::fmt;

use super::OpenAi;
use super::learned::{Fact, Facts};
use crate::agent::Message;
use crate::model::{Request, ToolSpec};
use crate::proto::json::write_string;
use crate::proto::payload::Call;

/// The body of a request with its blanks. It holds all of a history, and what `extra_body` holds may
/// be a secret, so its `Debug` shows a length only.
#[derive(Default)]
pub(super) struct Draft {
    body: Vec<u8>,
    /// Where something is missing, in order.
    blanks: Vec<(usize, Blank)>,
}

/// What servers disagree about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Blank {
    /// The member `stream_options` with its comma, or nothing.
    StreamOptions,
    /// The content beside tool calls when there is no text: `""` or `null`.
    Content,
    /// A tool call id, as it is or as nine letters and digits.
    CallId(Box<str>),
}

impl Draft {
    /// Writes the request but for its blanks.
    pub(super) fn new(provider: &OpenAi, request: &Request<'_>, model: &str) -> Draft {
        let mut draft = Draft::default();
        let extra = &provider.config.extra_body;
        let ours = |key: &str| extra.iter().all(|(name, _)| name != key);
        draft.push("{\"model\":");
        draft.string(model);
        draft.push(",\"messages\":[");
        draft.messages(provider, request);
        draft.push("],\"stream\":true");
        if ours("stream_options") {
            draft.blank(Blank::StreamOptions);
        }
        if !request.tools.is_empty() && ours("tools") {
            draft.tools(request.tools);
        }
        for (key, json) in extra {
            draft.push(",");
            draft.string(key);
            draft.push(":");
            draft.push(json);
        }
        draft.push("}");
        draft
    }

    /// The body as a server wants it of which these facts are known.
    pub(super) fn filled(&self, facts: Facts) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.body.len() + 64 * self.blanks.len());
        let mut done = 0;
        for (at, blank) in &self.blanks {
            out.extend_from_slice(&self.body[done..*at]);
            done = *at;
            match blank {
                Blank::StreamOptions if facts.has(Fact::RefusesStreamOptions) => {}
                Blank::StreamOptions => {
                    out.extend_from_slice(b",\"stream_options\":{\"include_usage\":true}");
                }
                Blank::Content if facts.has(Fact::WantsNullContent) => {
                    out.extend_from_slice(b"null");
                }
                Blank::Content => out.extend_from_slice(b"\"\""),
                Blank::CallId(id) if facts.has(Fact::WantsNineLetterIds) => {
                    out.push(b'"');
                    out.extend_from_slice(&nine_letters(id));
                    out.push(b'"');
                }
                Blank::CallId(id) => write_string(&mut out, id),
            }
        }
        out.extend_from_slice(&self.body[done..]);
        out
    }

    /// Whether the fact makes a difference to this request.
    pub(super) fn depends_on(&self, fact: Fact) -> bool {
        self.blanks.iter().any(|(_, blank)| match fact {
            Fact::RefusesStreamOptions => *blank == Blank::StreamOptions,
            Fact::WantsNullContent => *blank == Blank::Content,
            Fact::WantsNineLetterIds => matches!(blank, Blank::CallId(_)),
        })
    }

    fn messages(&mut self, provider: &OpenAi, request: &Request<'_>) {
        let mut comma = "";
        if let Some(system) = request.system {
            self.plain("system", system);
            comma = ",";
        }
        for message in request.messages {
            self.push(comma);
            comma = ",";
            match message {
                Message::User(text) => self.plain("user", text),
                Message::Assistant { text, calls } if calls.is_empty() => {
                    self.plain("assistant", text);
                }
                Message::Assistant { text, calls } => self.calling(provider, text, calls),
                Message::Tool { call_id, content } => {
                    self.push("{\"role\":\"tool\",\"tool_call_id\":");
                    self.blank(Blank::CallId(call_id.as_str().into()));
                    self.push(",\"content\":");
                    self.string(content);
                    self.push("}");
                }
            }
        }
    }

    fn plain(&mut self, role: &str, text: &str) {
        self.push("{\"role\":\"");
        self.push(role);
        self.push("\",\"content\":");
        self.string(text);
        self.push("}");
    }

    fn calling(&mut self, provider: &OpenAi, text: &str, calls: &[Call]) {
        self.push("{\"role\":\"assistant\",\"content\":");
        if text.is_empty() {
            self.blank(Blank::Content);
        } else {
            self.string(text);
        }
        self.push(",\"tool_calls\":[");
        let kept = provider.kept();
        for (at, Call { id, name, args }) in calls.iter().enumerate() {
            self.push(if at == 0 { "{\"id\":" } else { ",{\"id\":" });
            self.blank(Blank::CallId(id.as_str().into()));
            self.push(",\"type\":\"function\",\"function\":{\"name\":");
            self.string(name);
            self.push(",\"arguments\":");
            self.string(args);
            self.push("}");
            if let Some(members) = kept.find(id, name, args) {
                self.push(",");
                self.push(members);
            }
            self.push("}");
        }
        self.push("]}");
    }

    fn tools(&mut self, tools: &[ToolSpec]) {
        self.push(",\"tools\":[");
        for (at, ToolSpec { name, description, params }) in tools.iter().enumerate() {
            self.push(if at == 0 { "" } else { "," });
            self.push("{\"type\":\"function\",\"function\":{\"name\":");
            self.string(name);
            self.push(",\"description\":");
            self.string(description);
            self.push(",\"parameters\":");
            self.push(params);
            self.push("}}");
        }
        self.push("]");
    }

    fn push(&mut self, text: &str) {
        self.body.extend_from_slice(text.as_bytes());
    }

    fn string(&mut self, text: &str) {
        write_string(&mut self.body, text);
    }

    fn blank(&mut self, blank: Blank) {
        self.blanks.push((self.body.len(), blank));
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Draft({} bytes)", self.body.len())
    }
}

/// An id as Mistral's servers take it. One that is so already stays; of any other the same nine come
/// out each time, so that a call and its result still match, in every request and after a restart.
fn nine_letters(id: &str) -> [u8; 9] {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if let Ok(nine) = id.as_bytes().try_into()
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
    {
        return nine;
    }
    // FNV-1a, because it must never change; 62^9 is less than 2^54.
    let mut hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    std::array::from_fn(|_| {
        let letter = LETTERS[(hash % 62) as usize];
        hash /= 62;
        letter
    })
}
