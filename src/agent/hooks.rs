//! What an embedding program has to say about its agents' turns: a few decisions, each of one type.
//!
//! A hook can narrow what the policy lets through, and never widen it: it is asked after the allow list,
//! about a call that would run, and its only other answer is no. It runs in the agent's own job, before
//! anything it may change is logged, and should answer at once; what takes its time is a tool or a model.
//! A hook that panics costs its agent the job, as anything else that panics there.
//!
//! ```
//! use terret_ws::agent::Hooks;
//! use terret_ws::proto::ident::SessionId;
//! use terret_ws::proto::payload::Call;
//!
//! struct OfficeHours;
//!
//! impl Hooks for OfficeHours {
//!     fn before_call(&self, _session: &SessionId, call: &Call) -> Result<(), String> {
//!         if call.name == "phone" { Err("nobody is there now".to_owned()) } else { Ok(()) }
//!     }
//! }
//! ```

use crate::limits::{CLIENT_MESSAGE_BYTES_MAX, REASON_CHARS_MAX};
use crate::proto::ident::{ModelSpec, SessionId};
use crate::proto::payload::{Call, Outcome};

/// Decisions about turns. Every one has a default that changes nothing.
pub trait Hooks: Send + Sync {
    /// Before a step begins: `texts` is what it takes in, the one that started the turn first, and may
    /// be rewritten, each to at most 1 MiB. A step may take in nothing.
    ///
    /// # Errors
    /// The reason to refuse the step, of which 1,000 characters are kept. The turn ends `rejected`, with this reason; the text that started
    /// it is spent; steers go back to the inbox as they were, and are offered again with the next step.
    fn before_step(&self, step: &StepAhead<'_>, texts: &mut [String]) -> Result<(), String> {
        let _ = (step, texts);
        Ok(())
    }

    /// Before a call that everything else lets through; before a human is asked about it, and once more
    /// when there is a verdict or the turn is resumed.
    ///
    /// # Errors
    /// The reason to refuse it, which the model gets to read; 1,000 characters of it are kept.
    fn before_call(&self, session: &SessionId, call: &Call) -> Result<(), String> {
        let _ = (session, call);
        Ok(())
    }

    /// After a tool has run: its outcome as it is to be logged, and as the model gets to read it.
    fn after_call(&self, session: &SessionId, call: &Call, outcome: Outcome) -> Outcome {
        let _ = (session, call);
        outcome
    }
}

/// The step that is about to begin.
#[derive(Debug, Clone, Copy)]
pub struct StepAhead<'a> {
    /// Whose.
    pub session: &'a SessionId,
    /// Its number within the turn, from 1.
    pub n: u32,
    /// Whom it will ask.
    pub model: &'a ModelSpec,
}

/// Nothing to say.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}

/// What a step takes in after the hook has seen it, or why it is refused.
pub(super) fn admit_step(
    hooks: &dyn Hooks,
    step: &StepAhead<'_>,
    taken_in: &[&str],
) -> Result<Vec<String>, String> {
    let mut texts: Vec<String> = taken_in.iter().map(|&text| text.to_owned()).collect();
    hooks.before_step(step, &mut texts).map_err(|reason| cut(&reason))?;
    let rewritten = texts.iter().zip(taken_in).filter(|(text, before)| text != before);
    if rewritten.map(|(text, _)| text.len()).max() > Some(CLIENT_MESSAGE_BYTES_MAX) {
        return Err(format!("a rewritten text is over {CLIENT_MESSAGE_BYTES_MAX} bytes"));
    }
    Ok(texts)
}

/// Whether a call may run, or the error that is its result.
pub(super) fn admit_call(
    hooks: &dyn Hooks,
    session: &SessionId,
    call: &Call,
) -> Result<(), String> {
    let vetoed = |reason: String| format!("{} vetoed: {}", call.name, cut(&reason));
    hooks.before_call(session, call).map_err(vetoed)
}

fn cut(reason: &str) -> String {
    reason.chars().take(REASON_CHARS_MAX).collect()
}
