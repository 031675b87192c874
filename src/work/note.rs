//! One line of the server's log, as a value: what happened, to which session, with which figures.
//!
//! Layers make notes and hand them on; only `cli` turns them into text, so a secret can leak at no
//! other place. A note never holds a token, a key, or what a person or a model wrote.

use crate::proto::ident::SessionId;
use std::fmt::Display;

/// How much a note matters to whoever runs the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Normal operation.
    Info,
    /// Something an operator should look at; the server goes on as told.
    Warn,
    /// Something is lost or refused until an operator acts.
    Error,
}

impl Level {
    /// As the log spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// One occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How much it matters.
    pub level: Level,
    /// What happened, in words that stay the same from one occurrence to the next.
    pub event: &'static str,
    /// Whose session it concerns.
    pub session: Option<SessionId>,
    /// Figures and causes, in the order they are to be read.
    pub fields: Vec<(&'static str, String)>,
}

impl Note {
    /// A note of this level, about no session and without fields yet.
    pub fn new(level: Level, event: &'static str) -> Self {
        Self { level, event, session: None, fields: Vec::new() }
    }

    /// The same, about `session`.
    #[must_use]
    pub fn about(mut self, session: &SessionId) -> Self {
        self.session = Some(session.clone());
        self
    }

    /// The same, with one more field.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Display) -> Self {
        self.fields.push((name, value.to_string()));
        self
    }
}
