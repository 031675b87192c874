//! What a session's log says about its agent: the allow list in force, and of the open turn the
//! step, the calls that are owed a result and the approvals that stand.
//!
//! Fed with every event of the open turn, read back or just emitted; it knows nothing of what runs.
//!
//! Invariants: `owed` holds the calls of the last `assistant/message` without a result, in call
//! order; calls and results that share an id are matched k-th to k-th. Without an open turn it
//! holds the allow list and a counter, nothing else.

use std::collections::VecDeque;

use crate::proto::payload::{Body, Call, Part, Usage, Verdict};

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Projection {
    /// The last `policy/updated`; none: the floor is in force.
    pub(super) policy: Option<Vec<String>>,
    /// How many `step/start` the session had.
    pub(super) steps: u64,
    /// A `turn/start` without a `turn/end`.
    pub(super) turn: Option<Box<OpenTurn>>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct OpenTurn {
    /// The number of the last step, 0 before the first.
    pub(super) step: u32,
    /// A `step/start` without its `step/end`.
    pub(super) step_open: bool,
    /// Whose word was last.
    pub(super) talk: Talk,
    /// Calls without a result.
    pub(super) owed: VecDeque<Owed>,
    /// Approval requests whose call has no result.
    pub(super) requests: Vec<Request>,
    /// The sum over the turn's steps.
    pub(super) usage: Option<Usage>,
}

/// Where the conversation of a turn stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Talk {
    /// Nobody has said anything.
    #[default]
    Silent,
    /// A user or a tool spoke last: the model has something to answer.
    Unanswered,
    /// The model spoke last.
    Answered,
}

/// A call that is owed a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owed {
    pub(super) call: Call,
    /// Its `tool/call` is in the log.
    pub(super) called: bool,
}

/// An `approval/requested` of the open turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) call: Call,
    /// None: the request stands.
    pub(super) decision: Option<Decision>,
}

/// An `approval/resolved`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) verdict: Verdict,
    pub(super) reason: Option<String>,
}

impl Projection {
    /// Takes in the event that follows.
    pub(super) fn apply(&mut self, body: &Body) {
        match body {
            Body::TurnStart { .. } => self.turn = Some(Box::default()),
            Body::TurnEnd { .. } => self.turn = None,
            Body::PolicyUpdated { patterns } => self.policy = Some(patterns.clone()),
            Body::StepStart { .. } => {
                self.steps += 1;
                self.apply_to_turn(body);
            }
            _ => self.apply_to_turn(body),
        }
    }

    fn apply_to_turn(&mut self, body: &Body) {
        let Some(turn) = &mut self.turn else { return };
        match body {
            Body::StepStart { n, .. } => {
                turn.step = *n;
                turn.step_open = true;
                turn.abandon();
            }
            Body::UserMessage { .. } | Body::ContextInjected { .. } => {
                turn.talk = Talk::Unanswered;
            }
            Body::AssistantMessage { parts } => {
                turn.talk = Talk::Answered;
                turn.owed = parts.iter().filter_map(Owed::of_part).collect();
            }
            Body::ToolCall(call) => {
                let mut owed = turn.owed.iter_mut();
                if let Some(owed) = owed.find(|owed| !owed.called && owed.call.id == call.id) {
                    owed.called = true;
                }
            }
            Body::ToolResult { id, .. } => turn.settle(id),
            Body::StepEnd { usage, .. } => {
                turn.step_open = false;
                turn.abandon();
                if let Some(usage) = usage {
                    turn.usage = Some(sum(turn.usage, *usage));
                }
            }
            Body::ApprovalRequested(call) => {
                turn.requests.push(Request { call: call.clone(), decision: None });
            }
            Body::ApprovalResolved { call_id, verdict, reason } => {
                let decision = Decision { verdict: *verdict, reason: reason.clone() };
                if let Some(standing) = turn.standing_mut(call_id) {
                    standing.decision = Some(decision);
                }
            }
            _ => {}
        }
    }
}

impl OpenTurn {
    /// Requests without a verdict, oldest first.
    pub(super) fn standing(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|request| request.decision.is_none())
    }

    /// The oldest request for this id that stands.
    fn standing_mut(&mut self, call_id: &str) -> Option<&mut Request> {
        self.requests
            .iter_mut()
            .find(|request| request.decision.is_none() && request.call.id == call_id)
    }

    /// Calls do not outlive their step. In a log of ours they are settled by then.
    fn abandon(&mut self) {
        self.owed.clear();
        self.requests.clear();
    }

    /// A result settles the oldest owed call of its id, and spends that call's approval.
    fn settle(&mut self, id: &str) {
        self.talk = Talk::Unanswered;
        let Some(place) = self.owed.iter().position(|owed| owed.call.id == id) else { return };
        let settled = self.owed.remove(place).expect("the place was found just now").call;
        if let Some(spent) = self.requests.iter().position(|request| request.call == settled) {
            self.requests.remove(spent);
        }
    }
}

impl Owed {
    fn of_part(part: &Part) -> Option<Owed> {
        match part {
            Part::Text(_) => None,
            Part::ToolCall(call) => Some(Owed { call: call.clone(), called: false }),
        }
    }
}

fn sum(before: Option<Usage>, more: Usage) -> Usage {
    let Some(before) = before else { return more };
    Usage {
        prompt_tokens: before.prompt_tokens.saturating_add(more.prompt_tokens),
        completion_tokens: before.completion_tokens.saturating_add(more.completion_tokens),
        cost: match (before.cost, more.cost) {
            (Some(before), Some(more)) => Some(before + more),
            (one, other) => one.or(other),
        },
    }
}
