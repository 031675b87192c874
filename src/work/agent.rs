//! One agent as it travels between the reactor and the workers: its turn machine, its log, the
//! model request it waits for, and a batch that the disk has not taken yet.
//!
//! Invariant: whatever the machine has decided and the log does not hold is in `held`, and none of
//! its effects has been released.

use super::advance::Input;
use crate::agent::{Machine, Output, Status};
use crate::disk::{DiskFile, SessionLog};
use crate::model::Call;
use crate::proto::ident::ModelSpec;
use crate::proto::time::Mono;
use std::sync::Arc;

/// An agent that is resident in memory.
pub struct Agent {
    pub(super) machine: Machine,
    pub(super) log: SessionLog,
    pub(super) asking: Option<Box<Asking>>,
    pub(super) held: Option<Box<Output>>,
    /// What came while a batch was held and can wait for its turn; bounded by what of a provider's
    /// answer may wait.
    pub(super) deferred: Vec<Input>,
    /// When the running turn began, or was resumed, in this stay.
    pub(super) turn_since: Option<Mono>,
}

/// The model request of the running step.
pub(super) struct Asking {
    /// The machine's name for it.
    pub(super) ask: u64,
    /// The step's number within the session, from 0.
    pub(super) step: u64,
    /// What it asks, as the step's log says.
    pub(super) model: ModelSpec,
    pub(super) progress: Progress,
    /// How much of the log it carries as history, in bytes.
    pub(super) history_bytes: usize,
    /// Whether it was already repeated with half of that.
    pub(super) halved: bool,
    pub(super) state: AskState,
}

/// How far a model request has come.
pub(super) enum Progress {
    /// Its provider answers no more requests at once; it waits for its turn.
    Queued,
    /// It is under way.
    Started(Box<Call>),
}

/// The place a model request has, or wants, with a provider that answers only so many at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// It waits for one.
    Wanted(Arc<str>),
    /// It has one.
    Taken(Arc<str>),
}

impl Place {
    /// The provider's name.
    pub fn provider(&self) -> &str {
        match self {
            Self::Wanted(name) | Self::Taken(name) => name,
        }
    }
}

/// Whether a call has something to say.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AskState {
    /// It has to be polled.
    Ready,
    /// Not before this point, or before something is fed.
    Waiting(Option<Mono>),
}

impl Asking {
    /// Whether its answer has begun, be it with nothing that has come up yet.
    pub(super) fn has_begun(&self) -> bool {
        matches!(&self.progress, Progress::Started(call) if call.has_begun())
    }
}

impl Agent {
    /// Whether a step is running or its batch waits for the disk: it cannot be evicted.
    pub fn is_busy(&self) -> bool {
        self.held.is_some() || self.asking.is_some() || !self.machine.evictable()
    }

    /// Whether a model is asked or a tool runs.
    pub fn is_stepping(&self) -> bool {
        self.machine.busy()
    }

    /// Whether its turn waits for a human and for nothing else.
    pub fn is_parked(&self) -> bool {
        self.machine.status() == Status::Parked
    }

    /// Whether a call of its waits for a human, whatever runs beside it.
    pub fn has_parked_calls(&self) -> bool {
        self.machine.has_parked_calls()
    }

    /// What it is doing.
    pub fn status(&self) -> Status {
        self.machine.status()
    }

    /// Why its last resume failed: the one thing it knows that its log does not.
    pub fn last_error(&self) -> Option<&str> {
        self.machine.last_error()
    }

    /// The place its request has or wants with its provider.
    pub fn provider_place(&self) -> Option<Place> {
        let asking = self.asking.as_ref()?;
        let provider = asking.model.provider.clone();
        Some(match asking.progress {
            Progress::Queued => Place::Wanted(provider),
            Progress::Started(_) => Place::Taken(provider),
        })
    }

    /// Whether a batch waits for the disk to take it.
    pub fn is_stalled(&self) -> bool {
        self.held.is_some()
    }

    /// Whether its log holds a descriptor.
    pub fn holds_file(&self) -> bool {
        self.log.is_open()
    }

    /// Takes the descriptor away; the next append opens the file again.
    pub fn take_file(&mut self) -> Option<Box<dyn DiskFile>> {
        self.log.close()
    }
}
