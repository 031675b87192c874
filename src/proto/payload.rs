//! The durable events' types and payloads (clarifications, section 3): what each says, written in
//! its exact key order and read back.
//!
//! Arguments and results stay the JSON text they came as: the number `1e400`, the order of keys
//! and the spaces of what a model sent are what the log holds. Nothing here knows an envelope, a
//! session or what an event means to a turn.
//!
//! Invariant: no byte below 0x20 is ever written, because a payload becomes part of a line.

mod read;
mod write;
#[cfg(any(test, fuzzing))]
pub mod fuzz;

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::proto::json::write_string;

/// One durable event without its envelope.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// The session exists; always its seq 0.
    SessionCreated,
    /// A turn began.
    TurnStart {
        /// `agent-<session_id>`.
        agent: String,
    },
    /// A step of the open turn began.
    StepStart {
        /// Counts from 1 within the turn.
        n: u32,
        /// `provider/model`.
        model: String,
    },
    /// The text that started the turn.
    UserMessage {
        /// What the user said.
        text: String,
    },
    /// A text that a step took from the inbox.
    ContextInjected {
        /// What the user said.
        text: String,
    },
    /// A piece of the step's text as it streamed.
    AssistantChunk {
        /// The chunks of a step concatenate to its text.
        text: String,
    },
    /// The whole answer of a step.
    AssistantMessage {
        /// Text first, then the calls in call order.
        parts: Vec<Part>,
    },
    /// A call was taken up.
    ToolCall(Call),
    /// A call is settled.
    ToolResult {
        /// The call's id.
        id: String,
        /// What the tool returned, or why there is nothing.
        outcome: Outcome,
    },
    /// A step ended.
    StepEnd {
        /// The number its `step/start` had.
        n: u32,
        /// Absent when the provider sent none.
        usage: Option<Usage>,
    },
    /// The turn ended.
    TurnEnd {
        /// How.
        status: TurnStatus,
        /// The cancel's reason, or what made the turn fail.
        reason: Option<String>,
    },
    /// A call waits for a human. The call's id is written as `call_id`.
    ApprovalRequested(Call),
    /// A human, or a cancel, decided.
    ApprovalResolved {
        /// The call's id.
        call_id: String,
        /// What was decided.
        verdict: Verdict,
        /// Why, when one was given.
        reason: Option<String>,
    },
    /// The tool allow list was replaced.
    PolicyUpdated {
        /// Globs over tool names.
        patterns: Vec<String>,
    },
    /// The session has a title. Read, never written by this version.
    SessionTitled {
        /// At most 80 characters.
        title: String,
    },
    /// History up to a seq is replaced by a summary. Read, never written by this version.
    SessionCompacted {
        /// The last seq the summary stands for.
        upto_seq: u64,
        /// What stands in its place.
        summary: String,
    },
    /// The session began as a copy of another. Read, never written by this version.
    SessionForked {
        /// The other session.
        from: String,
        /// The last seq taken over.
        boundary: u64,
    },
}

/// One part of an `assistant/message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// What the model said.
    Text(String),
    /// A tool it wants called.
    ToolCall(Call),
}

/// A tool call as the model made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The provider's id: not unique, not even within one step.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// A JSON object, byte for byte as sent, without any byte below 0x20.
    pub args: Box<str>,
}

/// What became of a call: its content, or the error the model gets to read.
pub type Outcome = Result<Content, String>;

/// A tool's result: the text of any JSON value, on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content(Box<str>);

/// What a step cost, as its provider counted.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Usage {
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// In the provider's currency; none when it sent none.
    pub cost: Option<f64>,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TurnStatus {
    /// The model had nothing more to do.
    Completed,
    /// A cancel was honoured.
    Cancelled,
    /// An embedder's hook refused it.
    Rejected,
    /// A resume with nothing to say.
    Empty,
    /// Something went wrong; the reason says what.
    Failed,
}

/// A decision about a parked call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The call may run.
    Approved,
    /// It may not.
    Denied,
}

/// A payload that is not what its type demands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadError {
    /// The event's type.
    pub kind: &'static str,
    /// What is wrong, and at which column of the payload.
    pub what: String,
}

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "payload of {}: {}", self.kind, self.what)
    }
}

impl std::error::Error for PayloadError {}

impl Content {
    /// A text result: a JSON string.
    #[expect(clippy::expect_used, reason = "escaping leaves text as UTF-8")]
    pub fn text(text: &str) -> Content {
        let mut json = Vec::with_capacity(text.len() + 2);
        write_string(&mut json, text);
        Content(String::from_utf8(json).expect("an escaped str is UTF-8").into_boxed_str())
    }

    /// Any JSON value from its text; none when the text is not one. Line breaks and tabs between
    /// its tokens become spaces, everything else stays byte for byte.
    pub fn json(text: &str) -> Option<Content> {
        let text = text.trim_matches([' ', '\n', '\r', '\t']);
        let raw: &RawValue = serde_json::from_str(text).ok()?;
        Some(Content(single_line(raw.get()).into()))
    }

    /// The value's JSON text.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// How the value reads in a model's history: a string as itself, anything else as its JSON.
    pub fn to_text(&self) -> Cow<'_, str> {
        if !self.0.starts_with('"') {
            return Cow::Borrowed(&self.0);
        }
        match serde_json::from_str::<String>(&self.0) {
            Ok(text) => Cow::Owned(text),
            // A log written elsewhere may hold an escape that denotes no character.
            Err(_) => Cow::Borrowed(&self.0),
        }
    }
}

/// A JSON text with LF, CR and TAB replaced by one space each. In valid JSON these stand between
/// tokens only, so the value is the same and its text fits a line.
pub fn single_line(json: &str) -> Cow<'_, str> {
    if json.contains(['\n', '\r', '\t']) {
        Cow::Owned(json.replace(['\n', '\r', '\t'], " "))
    } else {
        Cow::Borrowed(json)
    }
}

impl TurnStatus {
    /// Every status.
    pub const ALL: [TurnStatus; 5] = [
        TurnStatus::Completed,
        TurnStatus::Cancelled,
        TurnStatus::Rejected,
        TurnStatus::Empty,
        TurnStatus::Failed,
    ];

    /// As the log spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            TurnStatus::Completed => "completed",
            TurnStatus::Cancelled => "cancelled",
            TurnStatus::Rejected => "rejected",
            TurnStatus::Empty => "empty",
            TurnStatus::Failed => "failed",
        }
    }

    fn parse(text: &str) -> Option<TurnStatus> {
        Some(match text {
            "completed" => TurnStatus::Completed,
            "cancelled" => TurnStatus::Cancelled,
            "rejected" => TurnStatus::Rejected,
            "empty" => TurnStatus::Empty,
            "failed" => TurnStatus::Failed,
            _ => return None,
        })
    }
}

impl Verdict {
    /// As the log spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Approved => "approved",
            Verdict::Denied => "denied",
        }
    }

    fn parse(text: &str) -> Option<Verdict> {
        match text {
            "approved" => Some(Verdict::Approved),
            "denied" => Some(Verdict::Denied),
            _ => None,
        }
    }
}

impl Body {
    /// The event's `type`.
    pub fn kind(&self) -> &'static str {
        match self {
            Body::SessionCreated => SESSION_CREATED,
            Body::TurnStart { .. } => TURN_START,
            Body::StepStart { .. } => STEP_START,
            Body::UserMessage { .. } => USER_MESSAGE,
            Body::ContextInjected { .. } => CONTEXT_INJECTED,
            Body::AssistantChunk { .. } => ASSISTANT_CHUNK,
            Body::AssistantMessage { .. } => ASSISTANT_MESSAGE,
            Body::ToolCall(_) => TOOL_CALL,
            Body::ToolResult { .. } => TOOL_RESULT,
            Body::StepEnd { .. } => STEP_END,
            Body::TurnEnd { .. } => TURN_END,
            Body::ApprovalRequested(_) => APPROVAL_REQUESTED,
            Body::ApprovalResolved { .. } => APPROVAL_RESOLVED,
            Body::PolicyUpdated { .. } => POLICY_UPDATED,
            Body::SessionTitled { .. } => SESSION_TITLED,
            Body::SessionCompacted { .. } => SESSION_COMPACTED,
            Body::SessionForked { .. } => SESSION_FORKED,
        }
    }
}

const SESSION_CREATED: &str = "session/created";
const TURN_START: &str = "turn/start";
const STEP_START: &str = "step/start";
const USER_MESSAGE: &str = "user/message";
const CONTEXT_INJECTED: &str = "context/injected";
const ASSISTANT_CHUNK: &str = "assistant/chunk";
const ASSISTANT_MESSAGE: &str = "assistant/message";
const TOOL_CALL: &str = "tool/call";
const TOOL_RESULT: &str = "tool/result";
const STEP_END: &str = "step/end";
const TURN_END: &str = "turn/end";
const APPROVAL_REQUESTED: &str = "approval/requested";
const APPROVAL_RESOLVED: &str = "approval/resolved";
const POLICY_UPDATED: &str = "policy/updated";
const SESSION_TITLED: &str = "session/titled";
const SESSION_COMPACTED: &str = "session/compacted";
const SESSION_FORKED: &str = "session/forked";
