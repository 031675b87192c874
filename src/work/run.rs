//! One run of an agent through its inputs: the body of [`Job::Advance`](super::Job::Advance).
//!
//! Inputs go to the turn machine or to the model call; what the machine decides collects in one
//! batch; the batch is appended, published, and its effects are released. A provider inside the
//! process is pulled for at most one batch, then the agent goes to the back of the queue.

use super::advance::{Advance, Input};
use super::agent::{Agent, AskState, Progress};
use super::launcher::Launcher;
use super::meter::{Counter, Meter, ProviderMeter};
use super::note::{Level, Note};
use super::settings::Settings;
use super::{Answers, Done, Home, Published, Random, Upstream, Worker};
use crate::agent::{
    ConnTag, Context, Effect, Input as Turn, ModelEvent, Note as TurnNote, Output, Reply, Status,
};
use crate::disk::{AppendError, InboxEntry, Store, Trimmed};
use crate::limits::{BATCH_BYTES_MAX, BATCH_EVENTS_MAX};
use crate::proto::command::Command;
use crate::proto::event::ErrorCode;
use crate::proto::ident::{EventId, ModelSpec};
use crate::proto::payload::TurnStatus;
use crate::proto::time::Wall;

/// Batches one job may append: what its inputs led to, and what a provider inside the process
/// answers to that. With both in one job, a short answer costs one trip to a worker.
pub(super) const BATCHES_MAX: u32 = 2;

pub(super) struct Run<'a> {
    pub(super) job: &'a Advance,
    pub(super) body: Box<Agent>,
    pub(super) store: &'a Store,
    pub(super) launcher: &'a Launcher,
    pub(super) random: &'a mut Random,
    pub(super) clock: fn() -> Wall,
    pub(super) meter: &'a Meter,
    pub(super) answers: &'a mut dyn Answers,
    /// It came with a batch that the disk had not taken.
    held: bool,
    out: Output,
    /// Bytes of text in `out.events`, roughly: what bounds a batch.
    out_bytes: usize,
    /// Texts that went into the inbox in this job, by the ids of their events, and who sent them: to
    /// be told when there is no space to keep them.
    injectors: Vec<(EventId, Option<ConnTag>)>,
    /// The provider connection was given up during this job: what came from it is stale.
    pub(super) deaf: bool,
    pub(super) batches: u32,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        job: &'a Advance,
        mut body: Box<Agent>,
        worker: &'a mut Worker,
        answers: &'a mut dyn Answers,
    ) -> Self {
        let held = body.held.take();
        Self {
            job,
            body,
            store: &worker.store,
            launcher: &worker.launcher,
            random: &mut worker.random,
            clock: worker.clock,
            meter: &worker.meter,
            answers,
            held: held.is_some(),
            out: held.map(|held| *held).unwrap_or_default(),
            out_bytes: 0,
            injectors: Vec::new(),
            deaf: false,
            batches: 0,
        }
    }

    /// Runs the inputs, and says what the agent waits for then.
    pub(super) fn run(mut self, mut inputs: Vec<Input>) -> Home {
        let retry = inputs.iter().any(|input| matches!(input, Input::Retry));
        let rest = inputs.iter().any(|input| matches!(input, Input::Rest));
        let trim = inputs.iter().any(|input| matches!(input, Input::Trim));
        let mut stalled = self.held && (!retry || !self.append());
        let deferred = std::mem::take(&mut self.body.deferred);
        for input in deferred.into_iter().chain(inputs.drain(..)) {
            if stalled {
                self.input_while_stalled(input);
                continue;
            }
            self.input(input);
            stalled = self.batch_is_full() && !self.append();
        }
        stalled = stalled || !self.settle();
        if trim || self.body.log.has_rolled() {
            self.trim();
        }
        if !stalled && (rest || !self.body.is_busy()) {
            self.rest();
        }
        self.home(stalled, inputs)
    }

    fn input(&mut self, input: Input) {
        match input {
            Input::Command { from, command } => {
                let before = self.newest_unsaved();
                self.turn(Turn::Command { from, command });
                if let Some(id) = self.newest_unsaved().filter(|id| Some(*id) != before) {
                    self.injectors.push((id, from));
                }
            }
            Input::Resume => self.turn(Turn::Resume),
            Input::Reloaded => self.turn(Turn::Reloaded),
            Input::Recover => self.turn(Turn::Recover),
            Input::Net(event) => self.net(&event),
            Input::Granted => self.granted(),
            Input::Tool { tag, outcome } => self.turn(Turn::Tool { tag, outcome }),
            Input::Clock => {
                // Nothing but a grant moves a request that is queued.
                if let Some(asking) = &mut self.body.asking
                    && matches!(asking.progress, Progress::Started(_))
                {
                    asking.state = AskState::Ready;
                }
                self.pump();
            }
            Input::Read(read) => {
                let tip = self.body.log.tip();
                self.answers.send(read.run(self.store, tip));
            }
            Input::Snapshot { conn } => {
                let snapshot = Some(Box::new(self.body.machine.snapshot(&self.job.settings.rules)));
                self.answers.send(Done::Snapshot { conn, agent: self.job.agent, snapshot });
            }
            Input::Retry | Input::Rest | Input::Trim => {}
        }
    }

    /// While a batch waits for space, a frame that would append is refused; a cancel is not: it
    /// stops the provider now and is logged later (design/log-format, "Failures").
    fn input_while_stalled(&mut self, input: Input) {
        match input {
            Input::Command { from, command: command @ Command::Cancel { .. } } => {
                self.turn(Turn::Command { from, command });
                // A stream that is to be heard to its end goes on.
                if let Some(&Effect::StopAsking { ask }) = self.out.effects.last() {
                    self.stop_asking(ask);
                }
            }
            Input::Command { from, .. } => self.refuse(from),
            Input::Read(_) | Input::Snapshot { .. } => self.input(input),
            Input::Net(_)
            | Input::Granted
            | Input::Tool { .. }
            | Input::Clock
            | Input::Resume
            | Input::Reloaded
            | Input::Recover => self.body.deferred.push(input),
            Input::Retry | Input::Rest | Input::Trim => {}
        }
    }

    /// Tells a connection, or the operator where a frame has none, that it was not accepted.
    fn refuse(&mut self, from: Option<ConnTag>) {
        self.answers.send(match from {
            Some(to) => {
                let message = "storage full".to_owned();
                Done::Replies(vec![Reply { to, code: ErrorCode::Internal, message }])
            }
            None => {
                let note = Note::new(Level::Warn, "text refused: storage full");
                Done::Notes(vec![note.about(&self.job.session)])
            }
        });
    }

    fn newest_unsaved(&self) -> Option<EventId> {
        self.body.machine.unsaved_inbox().last().map(|text| text.id)
    }

    /// Gives the turn machine one input.
    pub(super) fn turn(&mut self, input: Turn) {
        if let Turn::Model { event: ModelEvent::Text(text), .. } = &input {
            self.out_bytes += text.len();
        }
        let answer_begun = self.body.asking.as_ref().is_some_and(|asking| asking.has_begun());
        let random = &mut *self.random;
        let mut context = Context {
            rules: &self.job.settings.rules,
            hooks: &*self.job.settings.hooks,
            model: &self.job.model,
            answer_begun,
            ids: &mut || random.next_id(),
            stopping: self.job.stopping,
        };
        self.body.machine.input(input, &mut context, &mut self.out);
        if self.turn_runs() {
            self.body.turn_since.get_or_insert(self.job.now);
        }
    }

    fn turn_runs(&self) -> bool {
        matches!(self.body.machine.status(), Status::Running | Status::Parked)
    }

    pub(super) fn batch_is_full(&self) -> bool {
        self.out.events.len() >= BATCH_EVENTS_MAX || self.out_bytes >= BATCH_BYTES_MAX
    }

    pub(super) fn upstream(&mut self, command: Upstream) {
        self.answers.send(Done::Upstream { agent: self.job.agent, command });
    }

    fn stop_asking(&mut self, ask: u64) {
        if let Some(asking) = self.body.asking.take_if(|asking| asking.ask == ask) {
            self.count(&asking.model, |meter| &meter.aborted);
            self.deaf = true;
            self.upstream(Upstream::Disconnect);
        }
    }

    /// Appends what was decided, releases its effects, and lets a provider inside the process
    /// answer. Says whether the disk took everything.
    fn settle(&mut self) -> bool {
        loop {
            // Past the bound it pumps nothing, but what an effect has led to at once, a tool that could
            // not be started, is still to be appended.
            self.pump();
            if self.out_is_empty() {
                return true;
            }
            if !self.append() {
                return false;
            }
        }
    }

    fn out_is_empty(&self) -> bool {
        self.out.events.is_empty()
            && self.out.effects.is_empty()
            && self.out.replies.is_empty()
            && self.out.notes.is_empty()
            && self.body.machine.unsaved_inbox().next().is_none()
    }

    /// Saves texts that wait, appends the batch, publishes it, and releases its effects. False when
    /// the disk does not take it: then the batch is held, whole or what is left of it.
    fn append(&mut self) -> bool {
        self.reply();
        if !self.append_events() {
            return false;
        }
        self.batches += 1;
        self.out_bytes = 0;
        if !self.out.notes.is_empty() {
            let notes = std::mem::take(&mut self.out.notes);
            let notes = notes.into_iter().map(|note| self.note(note)).collect();
            self.answers.send(Done::Notes(notes));
        }
        if !self.out.effects.is_empty() {
            // A client hears of its turn before the model is asked.
            self.answers.hurry();
        }
        let effects = std::mem::take(&mut self.out.effects);
        let stopped = |effect: &Effect| match effect {
            Effect::StopAsking { ask } => Some(*ask),
            _ => None,
        };
        let stopped: Vec<u64> = effects.iter().filter_map(stopped).collect();
        for effect in effects {
            match effect {
                // A cancel has come before it was released.
                Effect::Ask { ask, .. } if stopped.contains(&ask) => {}
                Effect::Ask { ask, step, model } => self.ask(ask, step, model),
                Effect::StopAsking { ask } => self.stop_asking(ask),
                Effect::Run(runs) => runs.into_iter().for_each(|run| self.start_tool(run)),
            }
        }
        true
    }

    /// Answers those who are told of errors: that waits for no disk.
    fn reply(&mut self) {
        if !self.out.replies.is_empty() {
            let replies = std::mem::take(&mut self.out.replies);
            self.answers.send(Done::Replies(replies));
        }
    }

    /// The same without what follows from it. A latched store is told of by whoever ends the job.
    fn append_events(&mut self) -> bool {
        let at = (self.clock)();
        if !self.save_texts(at) {
            return false;
        }
        if self.out.events.is_empty() {
            return true;
        }
        if self.batches > 0 {
            // What is published waits for no write and no sync of what follows.
            self.answers.hurry();
        }
        let first = self.body.log.tip().seq + 1;
        let (lines, whole) = match self.body.log.append(self.store, &self.out.events, at) {
            Ok(lines) => {
                self.out.events.clear();
                (lines, true)
            }
            Err(
                AppendError::NoSpace { lines, appended }
                | AppendError::Unopened { lines, appended, .. },
            ) => {
                self.out.events.drain(..appended);
                (lines, false)
            }
            Err(AppendError::Latched(_)) => return false,
        };
        if !lines.is_empty() {
            let (tip, stored) = (self.body.log.tip(), (self.clock)());
            self.meter.append.observe(stored.0 - at.0);
            let count = tip.seq + 1 - first;
            let agent = self.job.agent;
            self.answers.send(Done::Events(Published { agent, lines, first, count, tip, stored }));
        }
        whole
    }

    /// Saves the texts that wait and are not in the inbox file yet. False when nothing can be stored
    /// any more; without space the texts are not accepted after all, and their senders learn it.
    fn save_texts(&mut self, at: Wall) -> bool {
        let after = self.body.log.tip().seq + 1;
        let unsaved: Vec<InboxEntry> = self
            .body
            .machine
            .unsaved_inbox()
            .map(|text| InboxEntry {
                id: text.id,
                at,
                wake: text.wake,
                text: text.text.clone(),
                after,
            })
            .collect();
        if unsaved.is_empty() {
            return true;
        }
        match self.body.log.inbox_append(self.store, &unsaved) {
            Ok(()) => self.body.machine.mark_saved(),
            Err(AppendError::Latched(_)) => return false,
            Err(AppendError::NoSpace { .. } | AppendError::Unopened { .. }) => {
                // A text that a step of the held batch took in is accepted.
                self.body.machine.drop_unsaved();
                for (id, from) in std::mem::take(&mut self.injectors) {
                    if unsaved.iter().any(|entry| entry.id == id) {
                        self.refuse(from);
                    }
                }
            }
        }
        true
    }

    /// Removes old segments, also while a batch waits for space: this makes some.
    fn trim(&mut self) {
        let Settings { retention, history_bytes, .. } = &*self.job.settings;
        if retention.is_off() {
            return;
        }
        let note = match self.body.log.trim(self.store, retention, *history_bytes, (self.clock)()) {
            Ok(None) => return,
            Ok(Some(Trimmed { files, first })) => {
                let note = Note::new(Level::Info, "old segments removed").with("files", files);
                note.with("first_seq", first)
            }
            Err(error) => Note::new(Level::Warn, "old segments not removed").with("cause", error),
        };
        self.answers.send(Done::Notes(vec![note.about(&self.job.session)]));
    }

    /// Leaves the log as a clean stop leaves it: its last batch attested, no descriptor held.
    fn rest(&mut self) {
        self.body.log.attest(self.store);
        drop(self.body.log.close());
    }

    fn home(mut self, stalled: bool, emptied: Vec<Input>) -> Home {
        if stalled {
            self.reply();
            self.body.held = Some(Box::new(std::mem::take(&mut self.out)));
        }
        let (wake_at, again) = match self.body.asking.as_ref().map(|asking| asking.state) {
            _ if stalled => (None, false),
            None => (None, false),
            Some(AskState::Ready) => (None, true),
            Some(AskState::Waiting(deadline)) => (deadline, false),
        };
        Home { agent: self.job.agent, body: Some(self.body), wake_at, again, emptied }
    }

    /// A line of the server's log about the turn.
    fn note(&mut self, note: TurnNote) -> Note {
        let note = match note {
            TurnNote::TurnEnded { status, reason, steps, usage } => {
                self.meter.turn_ended(status);
                let now = self.job.now;
                // The next turn may have begun in the same input.
                let next = self.turn_runs().then_some(now);
                let since = std::mem::replace(&mut self.body.turn_since, next).unwrap_or(now);
                let mut note = Note::new(Level::Info, "turn ended")
                    .with("status", status.as_str())
                    .with("steps", steps)
                    .with("ms", now.since(since));
                if let Some(usage) = usage {
                    note = note
                        .with("prompt_tokens", usage.prompt_tokens)
                        .with("completion_tokens", usage.completion_tokens);
                }
                match (status, reason) {
                    // A cancel's reason is what somebody wrote; a failure's is ours.
                    (TurnStatus::Failed, Some(reason)) => note.with("reason", reason),
                    _ => note,
                }
            }
            TurnNote::ResumeFailed { reason } => {
                Note::new(Level::Warn, "resume failed, the turn stays open").with("reason", reason)
            }
        };
        note.about(&self.job.session)
    }

    /// Counts what became of a request to the provider of `model`.
    pub(super) fn count(&self, model: &ModelSpec, what: fn(&ProviderMeter) -> &Counter) {
        if let Some(meter) = self.meter.provider(&model.provider) {
            what(meter).add_one();
        }
    }
}
