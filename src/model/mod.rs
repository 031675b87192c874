//! Models: how one step's request becomes text and tool calls.
//!
//! A [`Call`] is one request with all its retries, a machine that is fed and polled like every
//! other: it names the connection it wants and is handed the bytes that came, so sockets, clocks
//! and threads stay with those who drive it. Providers inside the process (`echo`, `scripted`, an
//! embedder's [`Model`]) are polled the same way and never ask for a connection.
//!
//! Nothing here knows a session, a log or a turn; a request is the history the agent layer made.
//!
//! Invariant: after its last action, [`Action::Finished`] or [`Action::Failed`], a call holds no
//! connection and says nothing more.

mod args;
mod tally;
mod refusal;
mod retry;
pub(crate) mod secrets;
mod echo;
mod script;
pub mod custom;
pub mod openai;
mod call;

use std::fmt;
use std::sync::Arc;

use crate::agent::Message;
use crate::config::{ProviderConfig, Script};
use crate::proto::http_client::InvalidHeader;

pub use call::{Action, Call, Net, Note, RequestBytes, Target};
pub use custom::Model;
pub use openai::{Fact, Facts, OpenAi};

/// What a step asks of its model.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The system message; the request begins with it.
    pub system: Option<&'a str>,
    /// The history, oldest first, as `agent` projects it.
    pub messages: &'a [Message],
    /// The tools the model may call.
    pub tools: &'a [ToolSpec],
    /// The texts this step took in; they are the end of `messages` as well.
    pub fresh: &'a [String],
}

/// A tool as a model is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSpec {
    /// What the model calls it.
    pub name: String,
    /// What it does, in words for the model.
    pub description: String,
    /// A JSON Schema, the text of a JSON object.
    pub params: Box<str>,
}

/// Who answers. Cheap to clone; every clone shares what was learned about the provider.
#[derive(Clone)]
pub enum Provider {
    /// Answers with the words it was given.
    Echo,
    /// Answers from a script.
    Scripted(Arc<Script>),
    /// Asks a server that speaks chat completions.
    OpenAi(Arc<OpenAi>),
    /// An embedder's own code.
    Custom(Arc<dyn Model>),
}

impl Provider {
    /// The provider that a configuration describes. The error is a header that cannot be sent.
    pub fn new(config: ProviderConfig) -> Result<Provider, InvalidHeader> {
        Ok(match config {
            ProviderConfig::Echo => Provider::Echo,
            ProviderConfig::Scripted(script) => Provider::Scripted(Arc::new(script)),
            ProviderConfig::OpenAi(config) => Provider::OpenAi(Arc::new(OpenAi::new(config)?)),
        })
    }

    /// How many requests it is asked at once; none: as many as there are.
    pub fn max_concurrent_requests(&self) -> Option<usize> {
        match self {
            Provider::OpenAi(server) => server.max_concurrent_requests(),
            Provider::Echo | Provider::Scripted(_) | Provider::Custom(_) => None,
        }
    }

    /// What was learned about it since the process started; none where there is nothing to learn.
    pub fn learned(&self) -> Option<Facts> {
        match self {
            Provider::OpenAi(server) => Some(server.learned()),
            Provider::Echo | Provider::Scripted(_) | Provider::Custom(_) => None,
        }
    }

    /// Whether polling a call of this provider may block: it runs an embedder's code.
    pub fn may_block(&self) -> bool {
        matches!(self, Provider::Custom(_))
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Provider::Echo => f.write_str("Echo"),
            Provider::Scripted(script) => f.debug_tuple("Scripted").field(script).finish(),
            Provider::OpenAi(server) => server.fmt(f),
            // An embedder's type may hold keys and need not be Debug.
            Provider::Custom(_) => f.write_str("Custom"),
        }
    }
}
