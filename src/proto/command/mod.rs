//! Client frames: the closed set of what a client may ask (clarifications, section 1).
//!
//! It knows the form of a frame and nothing of the agent it is for: whether a provider is configured,
//! a call is standing or a turn is running is found out by others. Sizes of messages are the
//! WebSocket layer's.
//!
//! Two things the contract leaves open are decided here. A key that the frame's type reads and that
//! occurs twice is refused, since readers of JSON differ in which one they take. And no message of an
//! error repeats what the client sent, which may hold a secret (cases.md, 35).

use std::fmt;

use super::ident::ModelSpec;
use super::json::{Document, Fault, Kind, Value, write_string};
use crate::limits::{POLICY_PATTERN_CHARS_MAX, POLICY_PATTERNS_MAX};

/// One valid client frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Replay from this seq, then the live tail.
    Subscribe {
        /// The first seq wanted.
        from_seq: u64,
    },
    /// Text for the agent.
    Inject {
        /// May be empty.
        text: String,
        /// Whether it starts or resumes a turn on an idle agent.
        wake: bool,
    },
    /// A cooperative stop of the open turn.
    Cancel {
        /// Carried to `turn/end` and to the denials of standing requests.
        reason: Option<String>,
    },
    /// A verdict: run the parked call.
    Approve {
        /// The call's id, as its `tool/call` has it.
        call_id: String,
    },
    /// A verdict: do not run the parked call.
    Deny {
        /// The call's id, as its `tool/call` has it.
        call_id: String,
        /// Given to the model and the log.
        reason: Option<String>,
    },
    /// Points a role at another model.
    SetModel {
        /// Never empty.
        role: String,
        /// Whether the provider is configured is not known here.
        model: ModelSpec,
    },
    /// Replaces the agent's allow list.
    SetPolicy {
        /// At most 128 globs of at most 256 characters.
        patterns: Vec<String>,
    },
}

impl Command {
    /// Reads the payload of one text message.
    pub fn parse(message: &[u8]) -> Result<Self, BadFrame> {
        let frame = Frame::parse(message)?;
        match &*frame.string(Key::Type)? {
            "subscribe" => Ok(Self::Subscribe { from_seq: frame.seq()? }),
            "inject" => Ok(Self::Inject { text: frame.string(Key::Text)?, wake: frame.wake()? }),
            "cancel" => Ok(Self::Cancel { reason: frame.reason()? }),
            "approve" => Ok(Self::Approve { call_id: frame.string(Key::CallId)? }),
            "deny" => {
                Ok(Self::Deny { call_id: frame.string(Key::CallId)?, reason: frame.reason()? })
            }
            "set_model" => Ok(Self::SetModel { role: frame.role()?, model: frame.model()? }),
            "set_policy" => Ok(Self::SetPolicy { patterns: frame.patterns()? }),
            _ => Err(BadFrame::UnknownType),
        }
    }

    /// Appends the frame as a client sends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":");
        write_string(out, self.kind());
        match self {
            Self::Subscribe { from_seq } => {
                write_key(out, Key::FromSeq);
                out.extend_from_slice(from_seq.to_string().as_bytes());
            }
            Self::Inject { text, wake } => {
                write_member(out, Key::Text, text);
                write_key(out, Key::Wake);
                out.extend_from_slice(if *wake { b"true" } else { b"false" });
            }
            Self::Cancel { reason } => write_optional(out, Key::Reason, reason.as_deref()),
            Self::Approve { call_id } => write_member(out, Key::CallId, call_id),
            Self::Deny { call_id, reason } => {
                write_member(out, Key::CallId, call_id);
                write_optional(out, Key::Reason, reason.as_deref());
            }
            Self::SetModel { role, model } => {
                write_member(out, Key::Role, role);
                write_member(out, Key::Model, &model.to_string());
            }
            Self::SetPolicy { patterns } => {
                write_key(out, Key::Patterns);
                out.push(b'[');
                for (index, pattern) in patterns.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_string(out, pattern);
                }
                out.push(b']');
            }
        }
        out.push(b'}');
    }

    /// The frame's `type`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Subscribe { .. } => "subscribe",
            Self::Inject { .. } => "inject",
            Self::Cancel { .. } => "cancel",
            Self::Approve { .. } => "approve",
            Self::Deny { .. } => "deny",
            Self::SetModel { .. } => "set_model",
            Self::SetPolicy { .. } => "set_policy",
        }
    }
}

/// Why a message is no client frame; displayed, it is the `message` of the `bad_frame` error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadFrame {
    /// Not JSON, or not as we require it.
    Json(Fault),
    /// JSON, but something else than an object.
    NotAnObject(Kind),
    /// The `type` is none of the closed set.
    UnknownType,
    /// A required key is absent.
    Missing(Key),
    /// A key that the frame's type reads is there more than once.
    Twice(Key),
    /// A key holds a value of a kind that it cannot hold.
    WrongKind(Key, Kind),
    /// A key holds a value of the right kind that is out of its range.
    OutOfRange(Key),
    /// An element of `patterns` is not a string.
    PatternKind(usize, Kind),
    /// An element of `patterns` has this many characters, which are too many.
    PatternLength(usize, usize),
    /// `patterns` has this many elements, which are too many.
    PatternCount(usize),
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Json(fault) => write!(f, "not a JSON object: {fault}"),
            Self::NotAnObject(kind) => write!(f, "expected a JSON object, found {kind}"),
            Self::UnknownType => write!(f, "type: expected {}", Key::Type.expectation()),
            Self::Missing(key) => {
                write!(f, "{}: missing, expected {}", key.name(), key.expectation())
            }
            Self::Twice(key) => write!(f, "{}: expected once, found twice", key.name()),
            Self::WrongKind(key, kind) => {
                write!(f, "{}: expected {}, found {kind}", key.name(), key.expectation())
            }
            Self::OutOfRange(key) => write!(f, "{}: expected {}", key.name(), key.expectation()),
            Self::PatternKind(index, kind) => {
                write!(f, "patterns[{index}]: expected a string, found {kind}")
            }
            Self::PatternLength(index, chars) => write!(
                f,
                "patterns[{index}]: expected at most {POLICY_PATTERN_CHARS_MAX} characters, \
                 found {chars}"
            ),
            Self::PatternCount(count) => {
                write!(f, "patterns: expected at most {POLICY_PATTERNS_MAX} strings, found {count}")
            }
        }
    }
}

impl std::error::Error for BadFrame {}

/// The keys that client frames have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Every frame's.
    Type,
    /// `subscribe`'s.
    FromSeq,
    /// `inject`'s.
    Text,
    /// `inject`'s, optional.
    Wake,
    /// `cancel`'s and `deny`'s, optional.
    Reason,
    /// `approve`'s and `deny`'s.
    CallId,
    /// `set_model`'s.
    Role,
    /// `set_model`'s.
    Model,
    /// `set_policy`'s.
    Patterns,
}

impl Key {
    /// All of them, each at the place that it has as a number.
    const ALL: [Self; 9] = [
        Self::Type,
        Self::FromSeq,
        Self::Text,
        Self::Wake,
        Self::Reason,
        Self::CallId,
        Self::Role,
        Self::Model,
        Self::Patterns,
    ];

    /// How the key is spelled.
    pub fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::FromSeq => "from_seq",
            Self::Text => "text",
            Self::Wake => "wake",
            Self::Reason => "reason",
            Self::CallId => "call_id",
            Self::Role => "role",
            Self::Model => "model",
            Self::Patterns => "patterns",
        }
    }

    /// What its value must be.
    fn expectation(self) -> &'static str {
        match self {
            Self::Type => {
                "one of \"subscribe\", \"inject\", \"cancel\", \"approve\", \"deny\", \
                 \"set_model\", \"set_policy\""
            }
            Self::FromSeq => {
                "an integer from 0 to 18446744073709551615 without fraction or exponent"
            }
            Self::Text | Self::Reason | Self::CallId => "a string",
            Self::Wake => "a boolean",
            Self::Role => "a string that is not empty",
            Self::Model => "a string \"provider/model\" with neither half empty",
            Self::Patterns => "an array of strings",
        }
    }
}

/// The values of the keys we know, of one message.
struct Frame<'a> {
    values: [Seen<'a>; Key::ALL.len()],
}

/// How often a key was seen.
#[derive(Clone, Copy)]
enum Seen<'a> {
    Never,
    Once(Value<'a>),
    Twice,
}

impl<'a> Frame<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, BadFrame> {
        let value = Document::parse(message).map_err(BadFrame::Json)?.value();
        let members = value.members().ok_or(BadFrame::NotAnObject(value.kind()))?;
        let mut values = [Seen::Never; Key::ALL.len()];
        for (name, value) in members {
            let name = name.to_str();
            if let Some(key) = Key::ALL.into_iter().find(|key| key.name() == name) {
                let seen = &mut values[key as usize];
                *seen = if matches!(seen, Seen::Never) { Seen::Once(value) } else { Seen::Twice };
            }
        }
        Ok(Self { values })
    }

    /// What `read` makes of the key's value; nothing if the key is absent.
    fn optional<T>(
        &self,
        key: Key,
        read: impl FnOnce(Value<'a>) -> Option<T>,
    ) -> Result<Option<T>, BadFrame> {
        match self.values[key as usize] {
            Seen::Never => Ok(None),
            Seen::Once(value) => {
                read(value).map(Some).ok_or(BadFrame::WrongKind(key, value.kind()))
            }
            Seen::Twice => Err(BadFrame::Twice(key)),
        }
    }

    fn required<T>(
        &self,
        key: Key,
        read: impl FnOnce(Value<'a>) -> Option<T>,
    ) -> Result<T, BadFrame> {
        self.optional(key, read)?.ok_or(BadFrame::Missing(key))
    }

    fn string(&self, key: Key) -> Result<String, BadFrame> {
        Ok(self.required(key, Value::as_str)?.into_owned())
    }

    fn seq(&self) -> Result<u64, BadFrame> {
        let value = self.required(Key::FromSeq, Some)?;
        value.as_u64().ok_or(match value.kind() {
            Kind::Number => BadFrame::OutOfRange(Key::FromSeq),
            kind => BadFrame::WrongKind(Key::FromSeq, kind),
        })
    }

    fn wake(&self) -> Result<bool, BadFrame> {
        Ok(self.optional(Key::Wake, Value::as_bool)?.unwrap_or(false))
    }

    fn reason(&self) -> Result<Option<String>, BadFrame> {
        Ok(self.optional(Key::Reason, Value::as_str)?.map(String::from))
    }

    fn role(&self) -> Result<String, BadFrame> {
        let role = self.string(Key::Role)?;
        if role.is_empty() { Err(BadFrame::OutOfRange(Key::Role)) } else { Ok(role) }
    }

    fn model(&self) -> Result<ModelSpec, BadFrame> {
        let text = self.string(Key::Model)?;
        ModelSpec::parse(&text).ok_or(BadFrame::OutOfRange(Key::Model))
    }

    fn patterns(&self) -> Result<Vec<String>, BadFrame> {
        let elements = self.required(Key::Patterns, Value::elements)?;
        let count = elements.clone().count();
        if count > POLICY_PATTERNS_MAX {
            return Err(BadFrame::PatternCount(count));
        }
        elements
            .enumerate()
            .map(|(index, value)| {
                let pattern = value.as_str().ok_or(BadFrame::PatternKind(index, value.kind()))?;
                let chars = pattern.chars().count();
                if chars > POLICY_PATTERN_CHARS_MAX {
                    return Err(BadFrame::PatternLength(index, chars));
                }
                Ok(pattern.into_owned())
            })
            .collect()
    }
}

fn write_key(out: &mut Vec<u8>, key: Key) {
    out.push(b',');
    write_string(out, key.name());
    out.push(b':');
}

fn write_member(out: &mut Vec<u8>, key: Key, text: &str) {
    write_key(out, key);
    write_string(out, text);
}

fn write_optional(out: &mut Vec<u8>, key: Key, text: Option<&str>) {
    if let Some(text) = text {
        write_member(out, key, text);
    }
}

/// The body of the fuzz target for client frames.
#[cfg(any(test, fuzzing))]
pub mod fuzz {
    use super::{BadFrame, Command, ModelSpec};
    use serde_json::Value;

    /// Agrees with a reading of the table through `serde_json`'s tree; what is accepted is the same
    /// after it was written.
    pub fn frame(bytes: &[u8]) {
        let parsed = Command::parse(bytes);
        if let Ok(command) = &parsed {
            let mut written = Vec::new();
            command.write(&mut written);
            assert_eq!(Command::parse(&written).as_ref(), Ok(command));
        }
        match (parsed, serde_json::from_slice(bytes)) {
            // Ours are rules that the tree does not show, of equal keys it keeps the last; it has
            // limits of its own on depth and on the size of numbers.
            (Err(BadFrame::Json(_) | BadFrame::Twice(_)), _) | (_, Err(_)) => {}
            (parsed, Ok(tree)) => assert_eq!(parsed.ok(), naive(&tree)),
        }
    }

    fn naive(tree: &Value) -> Option<Command> {
        let object = tree.as_object()?;
        let string = |key| object.get(key)?.as_str().map(String::from);
        // The outer option is whether the frame is valid.
        let reason = match object.get("reason") {
            None => Some(None),
            Some(value) => value.as_str().map(|reason| Some(reason.to_owned())),
        };
        Some(match object.get("type")?.as_str()? {
            "subscribe" => Command::Subscribe { from_seq: object.get("from_seq")?.as_u64()? },
            "inject" => Command::Inject {
                text: string("text")?,
                wake: object.get("wake").map_or(Some(false), Value::as_bool)?,
            },
            "cancel" => Command::Cancel { reason: reason? },
            "approve" => Command::Approve { call_id: string("call_id")? },
            "deny" => Command::Deny { call_id: string("call_id")?, reason: reason? },
            "set_model" => Command::SetModel {
                role: string("role").filter(|role| !role.is_empty())?,
                model: ModelSpec::parse(&string("model")?)?,
            },
            "set_policy" => {
                let patterns = object.get("patterns")?.as_array()?;
                let fits = |pattern: &&str| pattern.chars().nth(256).is_none();
                let patterns = patterns
                    .iter()
                    .map(|pattern| pattern.as_str().filter(fits).map(String::from))
                    .collect::<Option<Vec<_>>>()?;
                (patterns.len() <= 128).then_some(Command::SetPolicy { patterns })?
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
