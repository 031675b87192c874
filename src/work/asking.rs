//! The model request of a step, driven between the turn machine and the provider: built from the log,
//! queued where its provider answers only so many at once, polled, fed, and given up.

use super::advance::NetEvent;
use super::agent::{AskState, Asking, Progress};
use super::note::{Level, Note};
use super::run::{BATCHES_MAX, Run};
use super::{Done, Upstream};
use crate::agent::history::History;
use crate::agent::{Input as Turn, Message, ModelEvent};
use crate::log::Shape;
use crate::log::line::bodies;
use crate::model::{Action, Call, Net, Note as CallNote, Provider, Request};
use crate::proto::ident::ModelSpec;

impl Run<'_> {
    /// Something happened on the provider connection.
    pub(super) fn net(&mut self, event: &NetEvent) {
        let now = self.job.now;
        let Some(asking) = &mut self.body.asking else { return };
        let (Progress::Started(call), false) = (&mut asking.progress, self.deaf) else { return };
        match event {
            NetEvent::Connected => call.feed(now, Net::Connected),
            NetEvent::Bytes(bytes) => call.feed(now, Net::Bytes(bytes)),
            NetEvent::Eof => call.feed(now, Net::Eof),
            NetEvent::Failed(reason) => call.feed(now, Net::Failed(reason)),
            NetEvent::Untrusted(reason) => call.feed(now, Net::Untrusted(reason)),
        }
        asking.state = AskState::Ready;
        self.pump();
    }

    /// Takes from the model call what it has, until the batch is full or it has to wait.
    pub(super) fn pump(&mut self) {
        while self.batches < BATCHES_MAX && !self.batch_is_full() {
            let Some(asking) = &mut self.body.asking else { return };
            let ask = asking.ask;
            // One that is queued has nothing to say, and nothing but a grant moves it.
            let Progress::Started(call) = &mut asking.progress else { return };
            match call.poll(self.job.now) {
                Action::Text(text) => {
                    self.turn(Turn::Model { ask, event: ModelEvent::Text(text) });
                }
                Action::Wait(deadline) => {
                    asking.state = AskState::Waiting(deadline);
                    return;
                }
                Action::Connect { target, request } => {
                    let model = asking.model.clone();
                    self.count(&model, |meter| &meter.attempts);
                    self.deaf = true;
                    self.upstream(Upstream::Connect { target, request });
                }
                Action::Note(note) => {
                    let note = call_note(note, &asking.model.provider).about(&self.job.session);
                    self.answers.send(Done::Notes(vec![note]));
                }
                Action::Disconnect => {
                    self.deaf = true;
                    self.upstream(Upstream::Disconnect);
                }
                Action::Finished(finish) => {
                    let asking = self.body.asking.take().expect("it has just been polled");
                    self.count(&asking.model, |meter| &meter.answered);
                    self.turn(Turn::Model { ask, event: ModelEvent::Finished(finish) });
                }
                Action::Failed { reason, context_exceeded } => {
                    self.failed(&reason, context_exceeded);
                }
            }
        }
    }

    /// A request the model's context had no room for is repeated once with half the history.
    fn failed(&mut self, reason: &str, context_exceeded: bool) {
        let asking = self.body.asking.take().expect("only a call that runs can fail");
        if context_exceeded && !asking.halved {
            let (ask, step, before) = (asking.ask, asking.step, asking.history_bytes);
            let note = Note::new(Level::Warn, "model is asked again with half the history")
                .about(&self.job.session)
                .with("provider", &asking.model.provider)
                .with("cause", reason);
            self.answers.send(Done::Notes(vec![note]));
            // It keeps the place it has with its provider.
            self.start(ask, step, asking.model, Some(before));
        } else {
            self.count(&asking.model, |meter| &meter.failed);
            let event = ModelEvent::Failed { reason: reason.to_owned() };
            self.turn(Turn::Model { ask: asking.ask, event });
        }
    }

    /// Asks the model of a step, or waits until its provider takes one more request.
    pub(super) fn ask(&mut self, ask: u64, step: u64, model: ModelSpec) {
        let provider = self.job.settings.providers.get(&*model.provider);
        let bounded = provider.is_some_and(|provider| provider.max_concurrent_requests().is_some());
        if bounded {
            let (progress, state) = (Progress::Queued, AskState::Waiting(None));
            let (history_bytes, halved) = (0, false);
            let asking = Asking { ask, step, model, progress, history_bytes, halved, state };
            self.body.asking = Some(Box::new(asking));
        } else {
            self.start(ask, step, model, None);
        }
    }

    /// The provider takes the request that was queued.
    pub(super) fn granted(&mut self) {
        let queued = |asking: &mut Box<Asking>| matches!(asking.progress, Progress::Queued);
        if let Some(asking) = self.body.asking.take_if(queued) {
            self.start(asking.ask, asking.step, asking.model, None);
            self.pump();
        }
    }

    /// Builds the request of a step and starts its call; with half as much history as one before it,
    /// where it repeats that.
    fn start(&mut self, ask: u64, step: u64, model: ModelSpec, before: Option<usize>) {
        let bytes_max = before.map_or(self.job.settings.history_bytes, |before| before / 2);
        match self.start_call(step, &model, bytes_max) {
            Ok((call, history_bytes)) => {
                let (progress, state) = (Progress::Started(Box::new(call)), AskState::Ready);
                let halved = before.is_some();
                let asking = Asking { ask, step, model, progress, history_bytes, halved, state };
                self.body.asking = Some(Box::new(asking));
            }
            Err(reason) => self.turn(Turn::Model { ask, event: ModelEvent::Failed { reason } }),
        }
    }

    /// The call, and how many bytes of log its request carries.
    fn start_call(
        &mut self,
        step: u64,
        model: &ModelSpec,
        bytes_max: usize,
    ) -> Result<(Call, usize), String> {
        let settings = &self.job.settings;
        let provider = settings
            .providers
            .get(&*model.provider)
            .ok_or_else(|| format!("provider {} is not configured", model.provider))?;
        let fresh = self.body.machine.fresh_texts();
        let needs_history = match provider {
            Provider::Scripted(_) => false,
            Provider::Echo => fresh.is_empty(),
            Provider::Custom(_) | Provider::OpenAi(_) => true,
        };
        let (messages, history_bytes) =
            if needs_history { self.history(bytes_max)? } else { (Vec::new(), 0) };
        let request = Request {
            system: settings.system_prompt.as_deref(),
            messages: &messages,
            tools: settings.tools.specs(),
            fresh,
        };
        let seed = self.random.next_u64();
        let call = Call::start(provider, &request, &model.model, step, self.job.now, seed);
        Ok((call, history_bytes))
    }

    /// The model's view of the session: whole turns, newest first, within `bytes_max` of log, and how
    /// many bytes of it these are.
    fn history(&self, bytes_max: usize) -> Result<(Vec<Message>, usize), String> {
        let log = &self.body.log;
        let lines = self
            .store
            .turns(&self.job.session, log.state(), log.tip(), bytes_max)
            .map_err(|error| format!("the history cannot be read: {error}"))?;
        let shape = Shape::new(self.job.session.clone());
        let mut history = History::default();
        for event in bodies(&lines).filter_map(|body| shape.event(body)) {
            history.push_raw(event.seq, event.kind, event.payload).map_err(|error| {
                format!("the history cannot be read: seq {}: {error}", event.seq)
            })?;
        }
        Ok((history.finish(), lines.len()))
    }
}

fn call_note(note: CallNote, provider: &str) -> Note {
    match note {
        CallNote::Retried { reason, attempt, wait_ms } => {
            Note::new(Level::Warn, "model is asked again")
                .with("provider", provider)
                .with("cause", reason)
                .with("attempt", attempt)
                .with("wait_ms", wait_ms)
        }
        CallNote::Learned { fact, holds } => {
            Note::new(Level::Info, "learned how the provider wants to be asked")
                .with("provider", provider)
                .with(fact.name(), holds)
        }
    }
}
