//! What the embedding program has to say about turns: it refuses steps, rewrites what they take in,
//! vetoes calls and rewrites their results, as chance has it. What it has let through is remembered,
//! so that a call that ran without its leave is noticed.

use super::plan::Plan;
use super::provider::Intended;
use super::random::Random;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use terret_ws::agent::{Hooks, StepAhead};
use terret_ws::proto::ident::SessionId;
use terret_ws::proto::payload::{Call, Content, Outcome};
use terret_ws::tool::ToolCall;

/// Clones are one office.
#[derive(Clone)]
pub(super) struct Office(Arc<Mutex<Inside>>);

struct Inside {
    random: Random,
    /// It has anything to say at all.
    interferes: bool,
    panics: bool,
    refused: Vec<Refused>,
    vetoes: usize,
    /// Calls that it has let through, by session, id and arguments.
    admitted: BTreeSet<(String, String, String)>,
}

/// A step that was refused.
pub(super) struct Refused {
    /// Its number within its turn.
    pub(super) n: u32,
    /// The first text that it would have taken in.
    pub(super) first: Option<String>,
}

/// What it writes behind a text.
const SEEN: &str = " [seen]";

/// A text as it was sent, whatever was written behind it.
pub(super) fn as_sent(text: &str) -> &str {
    text.strip_suffix(SEEN).unwrap_or(text)
}

impl Office {
    pub(super) fn new(plan: &Plan, random: &mut Random) -> Self {
        Self(Arc::new(Mutex::new(Inside {
            random: random.fork(),
            interferes: plan.hooks,
            panics: plan.panics,
            refused: Vec::new(),
            vetoes: 0,
            admitted: BTreeSet::new(),
        })))
    }

    /// From here on it lets everything pass.
    pub(super) fn calm_down(&self) {
        self.inside().interferes = false;
    }

    /// The steps it has refused since the last time, and how many calls.
    pub(super) fn said(&self) -> (Vec<Refused>, usize) {
        let mut inside = self.inside();
        (std::mem::take(&mut inside.refused), std::mem::take(&mut inside.vetoes))
    }

    /// Fails if the call runs without leave.
    pub(super) fn has_admitted(&self, call: &ToolCall<'_>) {
        let key = (call.session.to_string(), call.call_id.to_owned(), call.args.to_owned());
        let admitted = self.inside().admitted.contains(&key);
        assert!(admitted, "a call ran without leave: {key:?}");
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        // What panics on purpose does not hold it.
        self.0.lock().expect("nothing panics while it is held")
    }

    /// One chance in a hundred that it panics, where it may.
    fn may_panic(&self) {
        let mut inside = self.inside();
        let panics = inside.interferes && inside.panics && inside.random.chance(1);
        drop(inside);
        if panics {
            // As a panic, but for the message to standard error.
            std::panic::resume_unwind(Box::new(Intended));
        }
    }
}

impl Hooks for Office {
    fn before_step(&self, step: &StepAhead<'_>, texts: &mut [String]) -> Result<(), String> {
        self.may_panic();
        let mut inside = self.inside();
        if !inside.interferes {
            return Ok(());
        }
        if inside.random.chance(8) {
            inside.refused.push(Refused { n: step.n, first: texts.first().cloned() });
            return Err("not now".to_owned());
        }
        if !texts.is_empty() && inside.random.chance(20) {
            texts[inside.random.below(texts.len())].push_str(SEEN);
        }
        Ok(())
    }

    fn before_call(&self, session: &SessionId, call: &Call) -> Result<(), String> {
        self.may_panic();
        let mut inside = self.inside();
        if inside.interferes && inside.random.chance(25) {
            inside.vetoes += 1;
            return Err("not that".to_owned());
        }
        let key = (session.to_string(), call.id.clone(), call.args.to_string());
        inside.admitted.insert(key);
        Ok(())
    }

    fn after_call(&self, _session: &SessionId, _call: &Call, outcome: Outcome) -> Outcome {
        self.may_panic();
        let mut inside = self.inside();
        match inside.interferes.then(|| inside.random.below(10)) {
            Some(0) => Ok(Content::text("as it should have been")),
            Some(1) => Err("as it should not have been".to_owned()),
            _ => outcome,
        }
    }
}
