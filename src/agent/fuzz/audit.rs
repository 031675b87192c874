//! What must hold of any log at any moment, checked event by event as it grows and without the
//! projection: ids are unique, turns and steps nest and count, a call is taken up once and answered
//! once, and a turn that ends owes nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::agent::InboxText;
use crate::agent::machine::Machine;
use crate::log::State;
use crate::proto::event::NewEvent;
use crate::proto::ident::{EventId, SessionId};
use crate::proto::payload::{Body, Part};

/// What a log adds up to.
#[derive(Default)]
pub(super) struct Audit {
    /// What a segment header would carry.
    state: State,
    ids: BTreeSet<EventId>,
    in_turn: bool,
    step: u32,
    in_step: bool,
    /// Calls of the last step, by id.
    calls: BTreeMap<String, Calls>,
}

/// Where the calls of one id stand, in one step.
#[derive(Default)]
struct Calls {
    made: usize,
    taken_up: usize,
    asked: usize,
    decided: usize,
    answered: usize,
}

impl Audit {
    /// The audit of a whole log.
    pub(super) fn of(log: &[NewEvent]) -> Audit {
        let mut audit = Audit::default();
        for event in log {
            audit.append(event);
        }
        audit
    }

    /// Whether the log has an event of this id.
    pub(super) fn holds(&self, id: EventId) -> bool {
        self.ids.contains(&id)
    }

    /// Loads a machine as the server does: what the segment header and the scan add up to, the
    /// events of the open turn, the texts that are not spent. `log` is what was audited.
    pub(super) fn load(&self, log: &[NewEvent], inbox: Vec<InboxText>) -> Machine {
        let open = self.state.turn.map_or(&[][..], |start| &log[start as usize..]);
        let session = SessionId::parse("s1").expect("a session id");
        Machine::load(&session, &self.state, open.iter().map(|event| event.body.clone()), inbox)
    }

    /// Takes in the event that follows.
    pub(super) fn append(&mut self, NewEvent { id, body }: &NewEvent) {
        let mut payload = Vec::new();
        body.write_payload(&mut payload);
        self.state.apply(self.ids.len() as u64, body.kind(), &payload);
        assert!(self.ids.insert(*id), "an id was given twice: {body:?}");
        match body {
            Body::TurnStart { agent } => {
                assert!(!self.in_turn && agent == "agent-s1", "a turn in a turn");
                (self.in_turn, self.step, self.in_step) = (true, 0, false);
            }
            Body::TurnEnd { .. } => {
                assert!(self.in_turn, "a turn ended twice");
                assert!(self.is_settled(), "a turn ended and owes results");
                self.in_turn = false;
            }
            Body::StepStart { n, .. } => {
                let next = self.step + 1;
                assert!(self.in_turn && *n == next && next <= 25, "steps count on, to 25");
                assert!(self.is_settled(), "a step began and another owes results");
                (self.step, self.in_step) = (next, true);
                self.calls.clear();
            }
            Body::StepEnd { n, .. } => {
                assert!(self.in_turn && self.in_step && *n == self.step, "a step ends once");
                assert!(self.is_settled(), "a step ended and owes results");
                self.in_step = false;
            }
            Body::AssistantMessage { parts } => {
                self.check_speech("a step is answered once");
                for part in parts {
                    if let Part::ToolCall(call) = part {
                        self.calls.entry(call.id.clone()).or_default().made += 1;
                    }
                }
            }
            Body::ToolCall(call) => {
                let calls = self.calls_of(&call.id);
                calls.taken_up += 1;
                assert!(calls.taken_up <= calls.made, "a call was taken up twice");
            }
            Body::ToolResult { id, .. } => {
                let calls = self.calls_of(id);
                calls.answered += 1;
                assert!(calls.answered <= calls.taken_up, "a call has a second result");
            }
            Body::ApprovalRequested(call) => {
                let calls = self.calls_of(&call.id);
                calls.asked += 1;
                assert!(calls.asked <= calls.taken_up, "one call asked twice");
            }
            Body::ApprovalResolved { call_id, .. } => {
                let calls = self.calls_of(call_id);
                calls.decided += 1;
                assert!(calls.decided <= calls.asked, "a verdict nobody asked for");
            }
            Body::UserMessage { .. }
            | Body::ContextInjected { .. }
            | Body::AssistantChunk { .. } => self.check_speech("text outside of a step"),
            _ => {}
        }
    }

    fn check_speech(&self, otherwise: &str) {
        assert!(self.in_turn && self.in_step && self.calls.is_empty(), "{otherwise}");
    }

    fn calls_of(&mut self, id: &str) -> &mut Calls {
        self.calls.get_mut(id).expect("the step made the call")
    }

    fn is_settled(&self) -> bool {
        let mut calls = self.calls.values();
        calls.all(|calls| calls.made == calls.answered && calls.asked >= calls.decided)
    }
}
