//! A step's tool calls: the barrier, the checks, the approvals, the truncation
//! (clarifications, sections 3 and 4; contract, "cancel" and "approve / deny").
//!
//! Calls are worked through in runs: a maximal sequence of parallel calls, or one serial call. Which
//! calls are left is read from the projection alone, so a batch that was interrupted goes on where
//! its log stands.
//!
//! Invariants: `run` describes the first owed calls of the projection, in order; a run's results
//! are logged together, in call order, when all of it is done.

use std::collections::VecDeque;

use super::hooks::admit_call;
use super::machine::{Advance, Doing};
use super::policy::{ToolTraits, allows};
use super::projection::{Decision, Owed, Request};
use super::turn::string_json_bytes;
use super::{Effect, ToolRun};
use crate::limits::TOOL_RESULT_BYTES_MAX;
use crate::proto::payload::{Body, Call, Outcome, Usage, Verdict};

/// The calls of the open step.
#[derive(Debug)]
pub(super) struct Batch {
    /// For the step's end.
    usage: Option<Usage>,
    /// For each owed call what was sent in place of its arguments, if it was no JSON object. Empty
    /// when the calls come from the log, which does not tell.
    faults: VecDeque<Option<String>>,
    /// The run under way; empty between runs.
    run: Vec<State>,
}

/// Where one call of a run stands.
#[derive(Debug)]
enum State {
    /// Its tool runs under this tag.
    Running(u64),
    /// It waits for a human.
    Parked,
    /// Its result waits for the rest of the run.
    Done(Outcome),
}

impl Batch {
    pub(super) fn new(usage: Option<Usage>, faults: Vec<Option<String>>) -> Batch {
        Batch { usage, faults: faults.into(), run: Vec::new() }
    }

    /// Whether a tool runs.
    pub(super) fn has_running(&self) -> bool {
        self.run.iter().any(|state| matches!(state, State::Running(_)))
    }

    /// Whether a call waits for a human.
    pub(super) fn has_parked(&self) -> bool {
        self.run.iter().any(|state| matches!(state, State::Parked))
    }

    /// Whether a resume from the log would come to this very state.
    pub(super) fn is_all_in_log(&self) -> bool {
        self.run.iter().all(|state| matches!(state, State::Parked))
            && self.faults.iter().all(Option::is_none)
    }

    fn is_run_done(&self) -> bool {
        self.run.iter().all(|state| matches!(state, State::Done(_)))
    }
}

impl Advance<'_, '_> {
    /// Goes on with the step's calls as far as it can: to a tool that runs, to a human, or to the
    /// end of the step.
    pub(super) fn work_through(&mut self) {
        while self.batch().is_run_done() {
            self.log_results();
            if self.running().cancel.is_some() {
                self.truncate_calls();
            }
            if self.owed().is_empty() {
                let usage = self.batch().usage;
                self.close_step(usage);
                return;
            }
            self.take_up_run();
        }
    }

    /// A tool has ended.
    pub(super) fn tool_ended(&mut self, tag: u64, outcome: Outcome) {
        let Some(running) = self.machine.running.as_deref() else { return };
        let Doing::Calling(batch) = &running.doing else { return };
        let of_tag = |state: &State| matches!(state, State::Running(t) if *t == tag);
        let Some(place) = batch.run.iter().position(of_tag) else { return };
        let (session, call) = (&self.machine.session, self.owed_call(place));
        let outcome = self.ctx.hooks.after_call(session, call, outcome);
        self.batch_mut().run[place] = State::Done(bounded(outcome));
        self.work_through();
    }

    /// A verdict has come for a call of the run.
    pub(super) fn unpark(&mut self, call: &Call, decision: &Decision) {
        let run = &self.batch().run;
        let parked = |(place, state): &(usize, &State)| {
            matches!(state, State::Parked) && self.owed_call(*place) == call
        };
        // The call may have been refused already, when the allow list changed before a resume.
        let Some((place, _)) = run.iter().enumerate().find(parked) else { return };
        let admitted = self.admit(call, None);
        let mut start = Vec::new();
        let state = match (decision.verdict, admitted) {
            (Verdict::Denied, _) => {
                State::Done(Err(denied(&call.name, decision.reason.as_deref(), NO_REASON)))
            }
            (Verdict::Approved, Err(refused)) => State::Done(Err(refused)),
            (Verdict::Approved, Ok(_)) => self.run_call(call.clone(), &mut start),
        };
        self.batch_mut().run[place] = state;
        self.release(start);
        self.work_through();
    }

    /// A cancel has come, or nobody can decide any more: every parked call ends denied.
    pub(super) fn deny_parked(&mut self, reason: Option<&str>) {
        self.deny_standing(reason);
        for place in 0..self.batch().run.len() {
            if matches!(self.batch().run[place], State::Parked) {
                let name = &self.owed_call(place).name;
                let error = denied(name, reason, CANCELLED);
                self.batch_mut().run[place] = State::Done(Err(error));
            }
        }
    }

    /// Denies every standing request, durably, oldest first.
    pub(super) fn deny_standing(&mut self, reason: Option<&str>) {
        let Some(turn) = self.machine.log.turn.as_deref() else { return };
        let ids: Vec<String> = turn.standing().map(|request| request.call.id.clone()).collect();
        for call_id in ids {
            self.emit_denial(call_id, reason);
        }
    }

    fn emit_denial(&mut self, call_id: String, reason: Option<&str>) {
        let reason = reason.map(str::to_owned);
        self.emit(Body::ApprovalResolved { call_id, verdict: Verdict::Denied, reason });
    }

    /// Ends every owed call without running it.
    pub(super) fn truncate_calls(&mut self) {
        while let Some(Owed { call, called }) = self.owed().front().cloned() {
            let id = call.id.clone();
            if !called {
                self.emit(Body::ToolCall(call));
            }
            self.emit(Body::ToolResult { id, outcome: Err(TRUNCATED.to_owned()) });
        }
    }

    /// Takes up the next run: first every `tool/call` of it, then its approval requests, then the
    /// tools that need none start side by side.
    fn take_up_run(&mut self) {
        let calls = self.next_run();
        let decisions = self.decisions_for(&calls);
        for Owed { call, called } in &calls {
            if !called {
                self.emit(Body::ToolCall(call.clone()));
            }
        }
        let mut start = Vec::new();
        let mut run = Vec::with_capacity(calls.len());
        for (place, (Owed { call, .. }, decision)) in calls.into_iter().zip(decisions).enumerate() {
            let fault = self.batch().faults.get(place).and_then(Option::as_deref);
            run.push(match (self.admit(&call, fault), decision) {
                (Err(refused), _) => State::Done(Err(refused)),
                (Ok(_), Asked::Decided(Decision { verdict: Verdict::Denied, reason })) => {
                    State::Done(Err(denied(&call.name, reason.as_deref(), NO_REASON)))
                }
                (Ok(_), Asked::Decided(Decision { verdict: Verdict::Approved, .. })) => {
                    self.run_call(call, &mut start)
                }
                (Ok(_), Asked::Standing) if self.ctx.rules.approvals => State::Parked,
                // Its row is gone, and with it whoever could decide: that is no yes.
                (Ok(_), Asked::Standing) => {
                    let error = denied(&call.name, Some(UNMOUNTED), NO_REASON);
                    self.emit_denial(call.id, Some(UNMOUNTED));
                    State::Done(Err(error))
                }
                (Ok(traits), Asked::Never) if !self.ctx.rules.needs_approval(traits) => {
                    self.run_call(call, &mut start)
                }
                (Ok(_), Asked::Never) => {
                    self.emit(Body::ApprovalRequested(call));
                    State::Parked
                }
            });
        }
        self.batch_mut().run = run;
        self.release(start);
    }

    /// The longest sequence of parallel calls at the front of what is owed, or one serial call.
    fn next_run(&self) -> Vec<Owed> {
        let rules = self.ctx.rules;
        let parallel = |owed: &&Owed| rules.is_parallel(&owed.call.name);
        let len = self.owed().iter().take_while(parallel).count().max(1);
        self.owed().iter().take(len).cloned().collect()
    }

    /// What the log says about the approval of each call of a run: equal calls and equal requests
    /// belong together in order.
    fn decisions_for(&self, calls: &[Owed]) -> Vec<Asked> {
        let turn = self.machine.log.turn.as_deref();
        let mut unmatched: Vec<&Request> = turn.iter().flat_map(|turn| &turn.requests).collect();
        let mut decision = |owed: &Owed| {
            let place = unmatched.iter().position(|request| request.call == owed.call);
            match place.map(|place| unmatched.remove(place).decision.clone()) {
                None => Asked::Never,
                Some(None) => Asked::Standing,
                Some(Some(decision)) => Asked::Decided(decision),
            }
        };
        calls.iter().map(&mut decision).collect()
    }

    /// The checks before approval, in their order: allow list, known tool, arguments, the embedding
    /// program's own.
    fn admit(&self, call: &Call, fault: Option<&str>) -> Result<ToolTraits, String> {
        let rules = self.ctx.rules;
        let name = &call.name;
        if !allows(self.machine.policy(rules), name) {
            return Err(format!("{name} is not on the allow list"));
        }
        let Some(&traits) = rules.tools.get(name) else {
            return Err(format!("unknown tool {name}"));
        };
        if let Some(sent) = fault {
            return Err(format!("arguments are not a JSON object: {sent}"));
        }
        admit_call(self.ctx.hooks, &self.machine.session, call)?;
        Ok(traits)
    }

    fn run_call(&mut self, call: Call, start: &mut Vec<ToolRun>) -> State {
        let tag = (self.ctx.ids)().0;
        start.push(ToolRun { tag, call });
        State::Running(tag)
    }

    fn release(&mut self, start: Vec<ToolRun>) {
        if !start.is_empty() {
            self.out.effects.push(Effect::Run(start));
        }
    }

    /// Logs the results of a run that is done; none when no run was under way.
    fn log_results(&mut self) {
        for state in std::mem::take(&mut self.batch_mut().run) {
            let State::Done(outcome) = state else { unreachable!("the whole run is done") };
            let id = self.owed_call(0).id.clone();
            self.batch_mut().faults.pop_front();
            self.emit(Body::ToolResult { id, outcome });
        }
    }

    fn owed(&self) -> &VecDeque<Owed> {
        let turn = self.machine.log.turn.as_deref().expect("calls belong to an open turn");
        &turn.owed
    }

    fn owed_call(&self, place: usize) -> &Call {
        &self.owed()[place].call
    }

    fn batch(&self) -> &Batch {
        match self.machine.running.as_deref().map(|running| &running.doing) {
            Some(Doing::Calling(batch)) => batch,
            _ => unreachable!("calls are worked through only while a batch is open"),
        }
    }

    fn batch_mut(&mut self) -> &mut Batch {
        match &mut self.running().doing {
            Doing::Calling(batch) => batch,
            Doing::Asking(_) => unreachable!("calls are worked through only while a batch is open"),
        }
    }
}

/// What the log says about a call's approval.
enum Asked {
    /// No request of the open turn is this call's.
    Never,
    /// A request stands.
    Standing,
    /// There is a verdict.
    Decided(Decision),
}

const TRUNCATED: &str = "cancelled before execution";
const NO_REASON: &str = "no reason given";
const CANCELLED: &str = "cancelled";
/// Why a call is denied that was parked when the approvals row went away.
pub(super) const UNMOUNTED: &str = "approvals were turned off before a verdict came";

fn denied(name: &str, reason: Option<&str>, without: &str) -> String {
    format!("{name} denied: {}", reason.unwrap_or(without))
}

/// A tool bounds its output while it reads; an embedder's closure may not have.
fn bounded(outcome: Outcome) -> Outcome {
    let bytes = match &outcome {
        Ok(content) => content.as_json().len(),
        Err(error) => string_json_bytes(error),
    };
    if bytes > TOOL_RESULT_BYTES_MAX {
        return Err(format!("the result is over {TOOL_RESULT_BYTES_MAX} bytes"));
    }
    outcome
}
