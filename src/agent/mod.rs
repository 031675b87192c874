//! The turn machine: what an agent does about what happens to it, as a pure state machine.
//!
//! [`Input`]s go in (a client's frame, a piece of the model's answer, a tool's outcome), an
//! [`Output`] comes out: events to append, effects to release once they are appended, error frames
//! to answer. No clock, no file, no socket, no thread. What a [`Machine`] knows of its session is a
//! projection of the session's log, and every event it emits goes through that same projection, so
//! a machine that lived on and one that was loaded from the log cannot differ.
//!
//! Invariant: replaying the emitted events into a new machine gives the same open turn, the same
//! owed calls, the same standing approvals and the same policy.
//!
//! In reading order: `machine` takes inputs apart, `turn` moves from step to step, `batch`
//! works through a step's tool calls, `projection` is what the log says, `inbox` what waits to
//! enter it; [`policy`] and [`fnmatch`] decide about tools, [`hooks`] lets the embedding program decide, [`history`] makes a log a model's
//! messages.

mod machine;
mod turn;
mod batch;
mod inbox;
mod projection;
pub mod hooks;
pub mod policy;
pub mod fnmatch;
pub mod history;
#[cfg(any(test, fuzzing))]
pub mod fuzz;

use crate::proto::command::Command;
use crate::proto::event::{ErrorCode, NewEvent};
use crate::proto::ident::{EventId, ModelSpec};
use crate::proto::payload::{Call, Outcome, TurnStatus, Usage};

pub use history::Message;
pub use hooks::{Hooks, NoHooks, StepAhead};
pub use inbox::InboxText;
pub use machine::{Machine, Snapshot, Status};
pub use policy::{Approval, CancelStream, Concurrency, Rules, ToolTraits};

/// Which connection asked: its slot and the slot's generation, so that an answer never reaches
/// whoever took the slot over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnTag {
    /// The slot.
    pub slot: u32,
    /// How often the slot had been given away before.
    pub generation: u32,
}

/// What surrounds a machine while it handles an input.
pub struct Context<'a> {
    /// The deployment's rules as they stand now.
    pub rules: &'a Rules,
    /// What the embedding program has to say about it.
    pub hooks: &'a dyn Hooks,
    /// What the role `main` points at now; the next step asks it.
    pub model: &'a ModelSpec,
    /// The model that is asked has begun to answer, if only with a call that is not whole yet.
    pub answer_begun: bool,
    /// Draws an id from the operating system's random source.
    pub ids: &'a mut dyn FnMut() -> EventId,
    /// The server is stopping: no turn and no step begins, an open turn stays open in the log. A
    /// step that runs may finish, with all its calls, for as long as the server waits for it:
    /// [`Machine::busy`] says whether there is anything to wait for.
    pub stopping: bool,
}

/// Something that happened to an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A client's frame, or an embedder's call of the same meaning.
    Command {
        /// Whom to answer; none when nobody is connected for it.
        from: Option<ConnTag>,
        /// `inject`, `cancel`, `approve`, `deny` or `set_policy`; the others are not a turn's.
        command: Command,
    },
    /// The model that [`Effect::Ask`] asked.
    Model {
        /// The tag of the request. One that is no longer the current one is ignored.
        ask: u64,
        /// What came.
        event: ModelEvent,
    },
    /// A tool that [`Effect::Run`] started has ended.
    Tool {
        /// The tag of the run. One that is not running is ignored.
        tag: u64,
        /// Its result.
        outcome: Outcome,
    },
    /// An embedder resumes the agent with nothing new to say.
    Resume,
    /// The rules are others than before: where approvals are not mounted any more, nothing stays parked.
    Reloaded,
    /// The server has started and is to go on where the one before it ended: with an open turn, or
    /// with a waking text that no turn has taken. Where nothing is owed, nothing happens.
    Recover,
}

/// What a model request brings.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// A piece of the step's text.
    Text(String),
    /// The answer is whole; its text came before.
    Finished(Finish),
    /// There will be no answer, all retries included.
    Failed {
        /// Why, with every secret already taken out.
        reason: String,
    },
}

/// The end of a model's answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Finish {
    /// The tools it wants called, in order.
    pub calls: Vec<RawCall>,
    /// What it cost, when the provider said.
    pub usage: Option<Usage>,
}

/// A tool call as a provider's decoder assembled it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawCall {
    /// The provider's id for it, or one made up when it sent none.
    pub id: String,
    /// The tool.
    pub name: String,
    /// A JSON object's text without any byte below 0x20; or, when what was sent is none, the
    /// beginning of what was sent.
    pub args: Result<Box<str>, String>,
}

/// What a machine wants done, in order. It is emptied by whoever does it.
#[derive(Debug, Default)]
pub struct Output {
    /// To be appended to the log.
    pub events: Vec<NewEvent>,
    /// To be released once every event before them is appended.
    pub effects: Vec<Effect>,
    /// Error frames for the connections that asked.
    pub replies: Vec<Reply>,
    /// For the server's own log and its counters.
    pub notes: Vec<Note>,
}

/// Something that happens outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask the model for the next step's answer. At most one request of an agent stands.
    Ask {
        /// Comes back with every [`ModelEvent`].
        ask: u64,
        /// How many `step/start` events the session had before this step's.
        step: u64,
        /// Whom.
        model: ModelSpec,
    },
    /// Abort that request.
    StopAsking {
        /// Its tag.
        ask: u64,
    },
    /// Start these tools side by side.
    Run(Vec<ToolRun>),
}

/// One tool to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRun {
    /// Comes back with [`Input::Tool`].
    pub tag: u64,
    /// The call; its tool is one of [`Rules::tools`].
    pub call: Call,
}

/// An error frame for the connection that asked. It stays open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Whom.
    pub to: ConnTag,
    /// The contract's code.
    pub code: ErrorCode,
    /// For people.
    pub message: String,
}

/// Something the server's own log should hold.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// A turn ended.
    TurnEnded {
        /// How.
        status: TurnStatus,
        /// As in the log.
        reason: Option<String>,
        /// Steps it took.
        steps: u32,
        /// The sum over its steps, as far as their providers said.
        usage: Option<Usage>,
    },
    /// A resumed turn failed and stays open (clarifications, section 4).
    ResumeFailed {
        /// Why.
        reason: String,
    },
}

#[cfg(test)]
mod tests;
