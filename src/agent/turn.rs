//! From step to step: how a turn begins, asks its model, goes on, is resumed and ends
//! (clarifications, sections 3 and 4).
//!
//! Knows nothing of how calls are worked through. Invariant: when a transition is over, either a
//! step is running, or the turn has ended, or it stays open in the log for a stimulus to come.

use super::batch::Batch;
use super::hooks::{StepAhead, admit_step};
use super::inbox::InboxText;
use super::machine::{Advance, Asking, Cancel, Doing, Running};
use super::projection::Talk;
use super::{Effect, Finish, Note, RawCall};
use crate::limits::{
    CALL_NAME_BYTES_MAX, STEP_BYTES_MAX, STEP_CALLS_MAX, STEP_JSON_BYTES_MAX, TURN_STEPS_MAX,
};
use crate::proto::ident::EventId;
use crate::proto::payload::{Body, Call, Part, TurnStatus, Usage};
use crate::proto::swar::json_plain_len;

impl Advance<'_, '_> {
    /// Starts a turn with the text that woke the agent; with none, from what waits in the inbox.
    /// A turn that has nothing to say at all closes `empty`, without a step.
    pub(super) fn begin_turn(&mut self, opening: Option<InboxText>) {
        let agent = format!("agent-{}", self.machine.session);
        self.emit(Body::TurnStart { agent });
        if opening.is_none() && self.machine.inbox.is_empty() {
            self.end_turn(TurnStatus::Empty, None);
        } else {
            self.start_step(false, opening);
        }
    }

    /// Picks up the turn that the log holds open: what the interrupted step owes first, then its
    /// end, then the next step.
    pub(super) fn resume(&mut self) {
        let turn = self.machine.log.turn.as_deref().expect("only an open turn is resumed");
        if !turn.owed.is_empty() {
            let batch = Batch::new(None, Vec::new());
            self.set_running(true, Doing::Calling(batch));
            self.work_through();
            return;
        }
        if turn.step_open {
            self.emit_step_end(None);
        }
        let more_to_say = !self.machine.inbox.is_empty();
        self.go_on(true, more_to_say);
    }

    /// A piece of the answer.
    pub(super) fn streamed(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        let asking = self.asking();
        let size = asking.size.with(&text);
        if let Err(reason) = size.check() {
            let ask = asking.ask;
            self.out.effects.push(Effect::StopAsking { ask });
            self.fail(reason);
            return;
        }
        asking.size = size;
        asking.text.push_str(&text);
        self.emit(Body::AssistantChunk { text });
    }

    /// The whole answer.
    pub(super) fn answered(&mut self, finish: Finish) {
        let asking = self.asking();
        if let Err(reason) = check_calls(asking.size, &finish.calls) {
            self.fail(reason);
            return;
        }
        let mut parts = text_part(std::mem::take(&mut asking.text));
        let mut faults = Vec::with_capacity(finish.calls.len());
        for RawCall { id, name, args } in finish.calls {
            let (args, fault) = match args {
                Ok(args) => (args, None),
                Err(sent) => ("{}".into(), Some(sent)),
            };
            parts.push(Part::ToolCall(Call { id, name, args }));
            faults.push(fault);
        }
        self.machine.last_error = None;
        self.emit(Body::AssistantMessage { parts });
        self.running().doing = Doing::Calling(Batch::new(finish.usage, faults));
        self.work_through();
    }

    /// The step fails: it leaves neither an `assistant/message` nor a `step/end`. A turn that was
    /// resumed stays open for the next stimulus, any other ends.
    pub(super) fn fail(&mut self, reason: String) {
        let running = self.running();
        if let Some(Cancel { reason }) = running.cancel.take() {
            // The stream that was to be heard to its end has none: here is the boundary.
            self.cut_answer(reason);
        } else if running.resumed {
            self.machine.running = None;
            self.machine.last_error = Some(reason.as_str().into());
            self.out.notes.push(Note::ResumeFailed { reason });
        } else {
            self.end_turn(TurnStatus::Failed, Some(reason));
        }
    }

    /// A cancel ends the answer here: what has streamed is the step's text, its calls are dropped.
    pub(super) fn cut_answer(&mut self, reason: Option<String>) {
        let parts = text_part(std::mem::take(&mut self.asking().text));
        if !parts.is_empty() {
            self.emit(Body::AssistantMessage { parts });
        }
        self.running().cancel = Some(Cancel { reason });
        self.close_step(None);
    }

    /// Every call of the step has its result.
    pub(super) fn close_step(&mut self, usage: Option<Usage>) {
        self.emit_step_end(usage);
        let running = self.machine.running.take().expect("a step that closes was running");
        match running.cancel {
            Some(Cancel { reason }) => self.end_turn(TurnStatus::Cancelled, reason),
            None => self.go_on(running.resumed, false),
        }
    }

    /// A cancel of a turn that nothing is at work on: the process was restarted, or a resume
    /// failed.
    pub(super) fn close_interrupted(&mut self, reason: Option<String>) {
        self.deny_standing(reason.as_deref());
        self.truncate_calls();
        let turn = self.machine.log.turn.as_deref().expect("only an open turn is closed");
        if turn.step_open {
            self.emit_step_end(None);
        }
        self.end_turn(TurnStatus::Cancelled, reason);
    }

    /// Between two steps. The turn goes on when the model has something to answer, or when a
    /// resume brings `more_to_say`; texts that merely wait do not prolong it.
    fn go_on(&mut self, resumed: bool, more_to_say: bool) {
        let turn = self.machine.log.turn.as_deref().expect("a turn goes on while it is open");
        match turn.talk {
            Talk::Silent | Talk::Answered if !more_to_say => {
                let answered = turn.talk == Talk::Answered;
                let status = if answered { TurnStatus::Completed } else { TurnStatus::Empty };
                self.end_turn(status, None);
            }
            // It stays open in the log, for whoever starts next.
            _ if self.ctx.stopping => {}
            _ => self.start_step(resumed, None),
        }
    }

    fn start_step(&mut self, resumed: bool, opening: Option<InboxText>) {
        let turn = self.machine.log.turn.as_deref().expect("a step starts in an open turn");
        let n = turn.step + 1;
        if n > TURN_STEPS_MAX {
            let reason = format!("more than {TURN_STEPS_MAX} steps");
            self.end_turn(TurnStatus::Failed, Some(reason));
            return;
        }
        let step = self.machine.log.steps;
        let model = self.ctx.model.clone();
        let ahead = StepAhead { session: &self.machine.session, n, model: &model };
        let waiting = self.machine.inbox.texts().map(|text| &*text.text);
        let taken_in: Vec<&str> = opening.iter().map(|text| &*text.text).chain(waiting).collect();
        let fresh = match admit_step(self.ctx.hooks, &ahead, &taken_in) {
            Ok(texts) => texts,
            Err(reason) => {
                self.reject(opening, reason);
                return;
            }
        };
        self.emit(Body::StepStart { n, model: model.to_string() });
        let mut texts = fresh.iter().cloned();
        let mut next = || texts.next().expect("a hook rewrites texts, but keeps their number");
        if let Some(InboxText { id, .. }) = opening {
            self.emit_as(id, Body::UserMessage { text: next() });
        }
        for InboxText { id, .. } in self.machine.inbox.take_all() {
            self.emit_as(id, Body::ContextInjected { text: next() });
        }
        // A random tag: no answer to a request of an earlier life of this agent can match it.
        let ask = (self.ctx.ids)().0;
        let asking = Asking { ask, text: String::new(), size: AnswerSize::default(), fresh };
        self.set_running(resumed, Doing::Asking(asking));
        self.out.effects.push(Effect::Ask { ask, step, model });
    }

    /// A hook refuses the step ahead. The text that was to start the turn is spent with it: the turn's
    /// end has its id, for the inbox goes by ids. Steers stay where they are.
    fn reject(&mut self, opening: Option<InboxText>, reason: String) {
        let id = opening.map_or_else(|| (self.ctx.ids)(), |text| text.id);
        self.end_turn_as(id, TurnStatus::Rejected, Some(reason));
    }

    fn end_turn(&mut self, status: TurnStatus, reason: Option<String>) {
        let id = (self.ctx.ids)();
        self.end_turn_as(id, status, reason);
    }

    /// Ends the turn. When it came to its own end and a waking text still waits, the next one
    /// starts at once; after a cancel or a failure texts wait for a stimulus: stop means stop.
    fn end_turn_as(&mut self, id: EventId, status: TurnStatus, reason: Option<String>) {
        let turn = self.machine.log.turn.as_deref().expect("only an open turn ends");
        let (steps, usage) = (turn.step, turn.usage);
        self.out.notes.push(Note::TurnEnded { status, reason: reason.clone(), steps, usage });
        self.machine.running = None;
        self.emit_as(id, Body::TurnEnd { status, reason });
        let stopped = matches!(status, TurnStatus::Cancelled | TurnStatus::Failed);
        if !stopped
            && !self.ctx.stopping
            && let Some(opening) = self.machine.inbox.take_waking()
        {
            self.begin_turn(Some(opening));
        }
    }

    fn emit_step_end(&mut self, usage: Option<Usage>) {
        let turn = self.machine.log.turn.as_deref().expect("a step ends in an open turn");
        let n = turn.step;
        self.emit(Body::StepEnd { n, usage });
    }

    fn set_running(&mut self, resumed: bool, doing: Doing) {
        self.machine.running = Some(Box::new(Running { resumed, cancel: None, doing }));
    }

    pub(super) fn running(&mut self) -> &mut Running {
        self.machine.running.as_deref_mut().expect("a step is running")
    }

    fn asking(&mut self) -> &mut Asking {
        match &mut self.running().doing {
            Doing::Asking(asking) => asking,
            Doing::Calling(_) => unreachable!("an answer comes only while its model is asked"),
        }
    }
}

/// The text of an answer as parts; an answer without text has none.
fn text_part(text: String) -> Vec<Part> {
    if text.is_empty() { Vec::new() } else { vec![Part::Text(text)] }
}

/// How large a step's answer has grown.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AnswerSize {
    bytes: usize,
    /// The same inside its event, at most. Bounded as well, because a text that is all escapes
    /// would make an event larger than the log takes.
    json_bytes: usize,
}

impl AnswerSize {
    fn with(self, text: &str) -> AnswerSize {
        AnswerSize {
            bytes: self.bytes + text.len(),
            json_bytes: self.json_bytes + string_json_bytes(text),
        }
    }

    fn check(self) -> Result<(), String> {
        if self.bytes > STEP_BYTES_MAX || self.json_bytes > STEP_JSON_BYTES_MAX {
            return Err(format!("the step's text and arguments are over {STEP_BYTES_MAX} bytes"));
        }
        Ok(())
    }
}

/// Holds a step's calls, beside its text, to their bounds.
fn check_calls(text: AnswerSize, calls: &[RawCall]) -> Result<(), String> {
    if calls.len() > STEP_CALLS_MAX {
        return Err(format!("the step has more than {STEP_CALLS_MAX} tool calls"));
    }
    let args = calls.iter().filter_map(|call| call.args.as_ref().ok());
    let args_bytes: usize = args.map(|args| args.len()).sum();
    let size =
        AnswerSize { bytes: text.bytes + args_bytes, json_bytes: text.json_bytes + args_bytes };
    size.check()?;
    let long = |call: &RawCall| call.id.len().max(call.name.len()) > CALL_NAME_BYTES_MAX;
    if calls.iter().any(long) {
        return Err(format!("a tool call's id or name is over {CALL_NAME_BYTES_MAX} bytes"));
    }
    Ok(())
}

/// At most how many bytes a text takes inside a JSON string.
pub(super) fn string_json_bytes(text: &str) -> usize {
    let (mut json_bytes, mut rest) = (text.len(), text.as_bytes());
    while let Some((&special, behind)) = rest[json_plain_len(rest)..].split_first() {
        json_bytes += if special < 0x20 { 5 } else { 1 };
        rest = behind;
    }
    json_bytes
}
