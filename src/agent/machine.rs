//! The machine's door: one input in, events and effects out.
//!
//! Here every input finds the transition that answers it, given what runs. The transitions
//! themselves are in `turn` and `batch`; both work on an `Advance`, one input being handled.
//!
//! Invariant: `running` is some exactly while a model is asked or a step's calls are worked
//! through, and then the projection has an open turn with an open step.

use super::batch::{Batch, UNMOUNTED};
use super::inbox::{Inbox, InboxText};
use super::policy::{CancelStream, Rules};
use super::projection::{Decision, Projection};
use super::turn::AnswerSize;
use super::{ConnTag, Context, Effect, Input, ModelEvent, Output, Reply};
use crate::log::State;
use crate::proto::command::Command;
use crate::proto::event::{ErrorCode, NewEvent};
use crate::proto::ident::{EventId, SessionId};
use crate::proto::payload::{Body, Call, Verdict};

/// One agent.
#[derive(Debug)]
pub struct Machine {
    pub(super) session: SessionId,
    pub(super) log: Projection,
    pub(super) inbox: Inbox,
    pub(super) running: Option<Box<Running>>,
    /// Why the last resume failed; none again once a step has been answered.
    pub(super) last_error: Option<Box<str>>,
}

/// A step that is being taken.
#[derive(Debug)]
pub(super) struct Running {
    /// The turn was resumed: a provider's failure leaves it open.
    pub(super) resumed: bool,
    /// A cancel that waits for the step's boundary.
    pub(super) cancel: Option<Cancel>,
    pub(super) doing: Doing,
}

#[derive(Debug)]
pub(super) enum Doing {
    /// The model is asked.
    Asking(Asking),
    /// The step's calls are worked through.
    Calling(Batch),
}

#[derive(Debug)]
pub(super) struct Asking {
    pub(super) ask: u64,
    /// What has streamed so far.
    pub(super) text: String,
    pub(super) size: AnswerSize,
    /// The texts the step took in.
    pub(super) fresh: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Cancel {
    pub(super) reason: Option<String>,
}

/// What an agent is doing, derived from its log and from what really runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// No turn is open.
    Idle,
    /// A model is asked or a tool runs.
    Running,
    /// The turn waits for a human's decision and for nothing else.
    Parked,
    /// A turn is open in the log and nothing runs: it resumes on its next stimulus.
    Interrupted,
}

/// What `GET /agents/{id}` tells of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// What it is doing.
    pub status: Status,
    /// The number of the open turn's last step; 0 without one.
    pub step: u32,
    /// Calls that wait for a decision, oldest first.
    pub pending: Vec<Call>,
    /// The allow list in force.
    pub policy: Vec<String>,
    /// Why the last resume failed.
    pub last_error: Option<String>,
    /// Texts in the inbox.
    pub inbox_len: usize,
}

impl Status {
    /// As it is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Idle => "idle",
            Status::Running => "running",
            Status::Parked => "parked",
            Status::Interrupted => "interrupted",
        }
    }
}

impl Machine {
    /// A machine for a session whose log stands at `state`, with nothing running.
    ///
    /// `open_turn` are the events from the open turn's `turn/start` on, up to the tip; none when no
    /// turn is open. `inbox` are the texts accepted and not in the log, oldest first.
    pub fn load(
        session: &SessionId,
        state: &State,
        open_turn: impl IntoIterator<Item = Body>,
        inbox: Vec<InboxText>,
    ) -> Machine {
        let mut log = Projection::default();
        for body in open_turn {
            log.apply(&body);
        }
        // The state has seen the whole log, those events included.
        log.policy.clone_from(&state.policy);
        log.steps = state.steps;
        Machine {
            session: session.clone(),
            log,
            inbox: Inbox::load(inbox),
            running: None,
            last_error: None,
        }
    }

    /// Handles one input. What it wants done is added to `out`.
    pub fn input(&mut self, input: Input, ctx: &mut Context<'_>, out: &mut Output) {
        let mut advance = Advance { machine: self, ctx, out };
        match input {
            Input::Command { from, command } => advance.command(from, command),
            Input::Model { ask, event } => advance.model(ask, event),
            Input::Tool { tag, outcome } => advance.tool_ended(tag, outcome),
            Input::Resume => advance.resume_from_outside(),
            Input::Reloaded => advance.reloaded(),
            Input::Recover => advance.recover(),
        }
    }

    /// Texts that were accepted and are neither in the log nor in the inbox file. They must be in
    /// the file, synced, before anything else is done with them.
    pub fn unsaved_inbox(&self) -> impl Iterator<Item = &InboxText> {
        self.inbox.unsaved()
    }

    /// Every text of the inbox is in the file now.
    pub fn mark_saved(&mut self) {
        self.inbox.mark_saved();
    }

    /// The unsaved texts could not be saved and were not accepted after all.
    pub fn drop_unsaved(&mut self) {
        self.inbox.drop_unsaved();
    }

    /// The texts that the step which asks its model took in; empty when none does.
    pub fn fresh_texts(&self) -> &[String] {
        match self.running.as_deref() {
            Some(Running { doing: Doing::Asking(asking), .. }) => &asking.fresh,
            _ => &[],
        }
    }

    /// Whether a model request or a tool of this agent is under way.
    pub fn busy(&self) -> bool {
        self.status() == Status::Running
    }

    /// Whether the machine may be dropped and loaded from the log again without anyone noticing.
    ///
    /// A parked turn may, as long as no outcome that the log does not hold yet would be lost with
    /// it. It has to be given [`Input::Resume`] after it is loaded, which parks it again; and
    /// [`Machine::last_error`], which is in no log either, to [`Machine::remember`].
    pub fn evictable(&self) -> bool {
        let only_parked = match self.running.as_deref() {
            None => true,
            Some(Running { doing: Doing::Calling(batch), .. }) => batch.is_all_in_log(),
            Some(_) => false,
        };
        only_parked && self.inbox.unsaved().next().is_none()
    }

    /// Why the last resume failed, if no step has been answered since.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// What was its `last_error` when it left memory.
    pub fn remember(&mut self, last_error: Option<Box<str>>) {
        self.last_error = last_error;
    }

    /// Whether a call waits for a human, whatever runs beside it.
    pub fn has_parked_calls(&self) -> bool {
        match self.running.as_deref() {
            Some(Running { doing: Doing::Calling(batch), .. }) => batch.has_parked(),
            _ => false,
        }
    }

    /// Whether the log holds a turn without an end.
    pub fn has_open_turn(&self) -> bool {
        self.log.turn.is_some()
    }

    /// What the agent is doing.
    pub fn status(&self) -> Status {
        match (self.running.as_deref(), &self.log.turn) {
            (None, None) => Status::Idle,
            (None, Some(_)) => Status::Interrupted,
            (Some(Running { doing: Doing::Calling(batch), .. }), _) if !batch.has_running() => {
                Status::Parked
            }
            (Some(_), _) => Status::Running,
        }
    }

    /// What there is to tell about the agent.
    pub fn snapshot(&self, rules: &Rules) -> Snapshot {
        let turn = self.log.turn.as_deref();
        Snapshot {
            status: self.status(),
            step: turn.map_or(0, |turn| turn.step),
            pending: turn
                .map(|turn| turn.standing().map(|request| request.call.clone()).collect())
                .unwrap_or_default(),
            policy: self.policy(rules).to_vec(),
            last_error: self.last_error.as_deref().map(str::to_owned),
            inbox_len: self.inbox.len(),
        }
    }

    /// The allow list in force.
    pub(super) fn policy<'a>(&'a self, rules: &'a Rules) -> &'a [String] {
        self.log.policy.as_deref().unwrap_or(&rules.floor)
    }
}

impl Running {
    /// A cancel that comes while one stands brings the newer reason, if it brings one.
    fn stand_cancelled(&mut self, reason: Option<String>) {
        let before = self.cancel.take().and_then(|cancel| cancel.reason);
        self.cancel = Some(Cancel { reason: reason.or(before) });
    }
}

/// One input being handled: the machine with its surroundings.
pub(super) struct Advance<'a, 'c> {
    pub(super) machine: &'a mut Machine,
    pub(super) ctx: &'a mut Context<'c>,
    pub(super) out: &'a mut Output,
}

impl Advance<'_, '_> {
    fn command(&mut self, from: Option<ConnTag>, command: Command) {
        match command {
            Command::Inject { text, wake: false } => {
                self.accept(from, text, false);
            }
            Command::Inject { text, wake: true } => self.wake(from, text),
            Command::Cancel { reason } => self.cancel(from, reason),
            Command::Approve { call_id } => self.decide(from, &call_id, Verdict::Approved, None),
            Command::Deny { call_id, reason } => {
                self.decide(from, &call_id, Verdict::Denied, reason);
            }
            Command::SetPolicy { patterns } => self.emit(Body::PolicyUpdated { patterns }),
            Command::Subscribe { .. } | Command::SetModel { .. } => {
                unreachable!("subscribe and set_model are no turn's business")
            }
        }
    }

    fn model(&mut self, ask: u64, event: ModelEvent) {
        match self.machine.running.as_deref() {
            Some(Running { doing: Doing::Asking(asking), .. }) if asking.ask == ask => {}
            // The request was aborted while this was on its way.
            _ => return,
        }
        match event {
            ModelEvent::Text(text) => self.streamed(text),
            ModelEvent::Finished(finish) => self.answered(finish),
            ModelEvent::Failed { reason } => self.fail(reason),
        }
    }

    /// A cancel, wherever it comes (contract, "cancel"; clarifications, section 4).
    fn cancel(&mut self, from: Option<ConnTag>, reason: Option<String>) {
        if self.machine.log.turn.is_none() {
            self.reply(from, ErrorCode::NotRunning, "no turn is running");
            return;
        }
        let finish_stream = self.ctx.rules.cancel_stream == CancelStream::Finish;
        let begun = self.ctx.answer_begun;
        match self.machine.running.as_deref_mut() {
            None => self.close_interrupted(reason),
            Some(running) => match &running.doing {
                Doing::Asking(asking) if finish_stream && (begun || !asking.text.is_empty()) => {
                    running.stand_cancelled(reason);
                }
                Doing::Asking(asking) => {
                    self.out.effects.push(Effect::StopAsking { ask: asking.ask });
                    self.cut_answer(reason);
                }
                Doing::Calling(_) => {
                    running.stand_cancelled(reason);
                    let reason = running.cancel.as_ref().and_then(|cancel| cancel.reason.clone());
                    self.deny_parked(reason.as_deref());
                    self.work_through();
                }
            },
        }
    }

    /// A waking text starts a turn, resumes one, or rides the running one's next step.
    fn wake(&mut self, from: Option<ConnTag>, text: String) {
        if self.may_resume() && !self.machine.inbox.has_room_for(text.len()) {
            // Its first step may empty the inbox; a full one must not make a turn unwakeable.
            self.resume();
        }
        if self.machine.status() == Status::Idle && !self.ctx.stopping {
            let id = (self.ctx.ids)();
            self.begin_turn(Some(InboxText { id, wake: true, text }));
        } else if self.accept(from, text, true) && self.may_resume() {
            self.resume();
        }
    }

    /// Puts a text into the inbox; says so to whoever sent it when there is no room.
    fn accept(&mut self, from: Option<ConnTag>, text: String, wake: bool) -> bool {
        let room = self.machine.inbox.has_room_for(text.len());
        if room {
            let id = (self.ctx.ids)();
            self.machine.inbox.push(InboxText { id, wake, text });
        } else {
            self.reply(from, ErrorCode::BadFrame, "inbox full");
        }
        room
    }

    /// A verdict is checked against the log: it needs a request that stands in the open turn.
    fn decide(
        &mut self,
        from: Option<ConnTag>,
        call_id: &str,
        verdict: Verdict,
        reason: Option<String>,
    ) {
        if !self.ctx.rules.approvals {
            self.reply(from, ErrorCode::Unsupported, "this deployment has no approvals");
            return;
        }
        let turn = self.machine.log.turn.as_deref();
        let standing = turn.and_then(|turn| turn.standing().find(|r| r.call.id == call_id));
        let Some(call) = standing.map(|request| request.call.clone()) else {
            self.reply(from, ErrorCode::StaleCall, "no approval request stands for this call");
            return;
        };
        let decision = Decision { verdict, reason: reason.clone() };
        self.emit(Body::ApprovalResolved { call_id: call.id.clone(), verdict, reason });
        if self.machine.running.is_some() {
            self.unpark(&call, &decision);
        } else if self.may_resume() {
            self.resume();
        }
    }

    /// The contract has nothing parked and no verdict taken where approvals are not mounted. A call
    /// that somebody was asked about runs only with a yes, so it is denied.
    fn reloaded(&mut self) {
        if !self.ctx.rules.approvals && self.machine.has_parked_calls() {
            self.deny_parked(Some(UNMOUNTED));
            self.work_through();
        }
    }

    /// Whether the log holds an open turn that nothing is at work on and that may go on.
    fn may_resume(&self) -> bool {
        self.machine.status() == Status::Interrupted && !self.ctx.stopping
    }

    fn resume_from_outside(&mut self) {
        match self.machine.status() {
            _ if self.ctx.stopping => {}
            Status::Interrupted => self.resume(),
            Status::Idle => {
                let opening = self.machine.inbox.take_waking();
                self.begin_turn(opening);
            }
            Status::Running | Status::Parked => {}
        }
    }

    fn recover(&mut self) {
        if self.machine.status() != Status::Idle || self.machine.inbox.has_waking() {
            self.resume_from_outside();
        }
    }

    /// Appends an event: to the output, and to what the machine knows of its log.
    pub(super) fn emit(&mut self, body: Body) {
        let id = (self.ctx.ids)();
        self.emit_as(id, body);
    }

    /// The same for a text from the inbox, whose event's id was given when it was accepted.
    pub(super) fn emit_as(&mut self, id: EventId, body: Body) {
        self.machine.log.apply(&body);
        self.out.events.push(NewEvent { id, body });
    }

    fn reply(&mut self, to: Option<ConnTag>, code: ErrorCode, message: &str) {
        if let Some(to) = to {
            self.out.replies.push(Reply { to, code, message: message.to_owned() });
        }
    }
}
