//! What must hold of the order of any log's events, whatever happened: turns and steps nest and
//! count, a step is answered once, a call is taken up once and has one result, a verdict answers a
//! request, and a turn that ends owes nothing.
//!
//! An automaton over the events as they are written, made without a look at the turn machine.

use terret_ws::proto::payload::{Body, Call, Part, TurnStatus, Verdict};

/// The events so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    turn: Option<Turn>,
    /// The allow list that was logged last.
    pub(crate) policy: Option<Vec<String>>,
    pub(crate) turns: u64,
    pub(super) steps: u64,
    /// How the last turn ended.
    pub(crate) last_end: Option<TurnStatus>,
}

#[derive(Clone, Debug, Default)]
struct Turn {
    /// A cancel was taken: nothing follows but the turn's end.
    stops: bool,
    step: u32,
    in_step: bool,
    /// The step took in a text, and may be answered.
    chunks: String,
    answered: bool,
    calls: Vec<Made>,
    requests: Vec<Request>,
}

/// A call of the open step.
#[derive(Clone, Debug)]
struct Made {
    call: Call,
    taken_up: bool,
    requested: bool,
    has_result: bool,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    /// The index of the call that it is for.
    made: usize,
    resolved: bool,
}

impl Ledger {
    /// Takes in the next event of a session; fails if it should not be there.
    pub(crate) fn apply(&mut self, session: &str, seq: u64, body: &Body) {
        if let Err(wrong) = self.try_apply(session, seq, body) {
            panic!("{session}: seq {seq}, {body:?}: {wrong}");
        }
    }

    /// Whether a turn is open.
    pub(crate) fn is_open(&self) -> bool {
        self.turn.is_some()
    }

    /// A cancel of the open turn was taken.
    pub(super) fn cancel(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.stops = true;
        }
    }

    /// Who took it is gone, and it is in no log.
    pub(super) fn forget_cancel(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.stops = false;
        }
    }

    /// Whether a step is open that its model has not answered.
    pub(super) fn is_asking(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.in_step && !turn.answered)
    }

    /// Whether a call was taken up that has no result.
    pub(super) fn is_calling(&self) -> bool {
        let runs = |made: &Made| made.taken_up && !made.has_result;
        self.turn.as_ref().is_some_and(|turn| turn.calls.iter().any(runs))
    }

    /// The calls that wait for a verdict, oldest request first. One that was refused for another
    /// reason, when its turn was resumed, waits for nothing any more.
    pub(crate) fn standing(&self) -> impl Iterator<Item = &Call> {
        self.turn.iter().flat_map(|turn| turn.standing().map(|request| turn.call(*request)))
    }

    fn try_apply(&mut self, session: &str, seq: u64, body: &Body) -> Result<(), &'static str> {
        hold((seq == 0) == (*body == Body::SessionCreated), "a session begins once, at 0")?;
        match body {
            Body::SessionCreated => Ok(()),
            Body::PolicyUpdated { patterns } => {
                self.policy = Some(patterns.clone());
                Ok(())
            }
            Body::TurnStart { agent } => {
                hold(self.turn.is_none(), "a turn in a turn")?;
                hold(*agent == format!("agent-{session}"), "another agent's turn")?;
                self.turn = Some(Turn::default());
                self.turns += 1;
                Ok(())
            }
            Body::TurnEnd { status, reason } => {
                let turn = self.turn.take().ok_or("a turn ended twice")?;
                self.last_end = Some(*status);
                let explains = matches!(
                    status,
                    TurnStatus::Cancelled | TurnStatus::Failed | TurnStatus::Rejected
                );
                hold(explains || reason.is_none(), "a reason for nothing")?;
                hold(!turn.in_step || *status == TurnStatus::Failed, "its step did not end")?;
                let stopped = !turn.stops || *status == TurnStatus::Cancelled;
                hold(stopped, "another end than the cancel's")?;
                hold(turn.owes_nothing(), "a turn ended and owes results")
            }
            _ => {
                self.steps += u64::from(matches!(body, Body::StepStart { .. }));
                self.turn.as_mut().ok_or("outside of a turn")?.apply(body)
            }
        }
    }
}

impl Turn {
    fn apply(&mut self, body: &Body) -> Result<(), &'static str> {
        if let Body::StepStart { n, .. } = body {
            hold(!self.in_step, "a step in a step")?;
            hold(*n == self.step + 1 && *n <= 25, "steps count on, to 25")?;
            hold(!self.stops, "a step behind a cancel")?;
            *self = Self { step: *n, in_step: true, ..Self::default() };
            return Ok(());
        }
        hold(self.in_step, "outside of a step")?;
        match body {
            Body::UserMessage { .. } | Body::ContextInjected { .. } => {
                hold(self.chunks.is_empty() && !self.answered, "a text behind the answer")
            }
            Body::AssistantChunk { text } => {
                hold(!self.answered, "an answer behind the answer")?;
                self.chunks.push_str(text);
                hold(!text.is_empty(), "a chunk of nothing")
            }
            Body::AssistantMessage { parts } => self.answer(parts),
            Body::ToolCall(call) => {
                let next = self.calls.iter_mut().find(|made| !made.taken_up);
                let made = next.ok_or("a call that was not made, or twice")?;
                hold(made.call == *call, "not the call that is next")?;
                made.taken_up = true;
                Ok(())
            }
            Body::ApprovalRequested(call) => {
                let open = |made: &Made| {
                    made.taken_up && !made.requested && !made.has_result && made.call == *call
                };
                let made = self.calls.iter().position(open).ok_or("asked for no call")?;
                self.calls[made].requested = true;
                self.requests.push(Request { made, resolved: false });
                Ok(())
            }
            Body::ApprovalResolved { call_id, verdict, reason } => {
                let of_id = |request: &&Request| self.call(**request).id == *call_id;
                let request = *self.standing().find(of_id).ok_or("nobody asked")?;
                let resolved = self.requests.iter_mut().find(|other| other.made == request.made);
                resolved.expect("it stands").resolved = true;
                hold(*verdict == Verdict::Denied || reason.is_none(), "a reason to approve")
            }
            Body::ToolResult { id, .. } => {
                let next =
                    self.calls.iter_mut().find(|made| made.call.id == *id && !made.has_result);
                let made = next.ok_or("a second result, or one of no call")?;
                hold(made.taken_up, "a result before its call")?;
                made.has_result = true;
                Ok(())
            }
            Body::StepEnd { n, .. } => {
                hold(*n == self.step, "another step ends")?;
                hold(self.owes_nothing(), "a step ended and owes results")?;
                self.in_step = false;
                Ok(())
            }
            _ => Err("not known here"),
        }
    }

    fn answer(&mut self, parts: &[Part]) -> Result<(), &'static str> {
        hold(!self.answered, "answered twice")?;
        self.answered = true;
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Text(more) => text.push_str(more),
                Part::ToolCall(call) => self.calls.push(Made {
                    call: call.clone(),
                    taken_up: false,
                    requested: false,
                    has_result: false,
                }),
            }
        }
        hold(text == self.chunks, "its text is not that of its chunks")
    }

    fn standing(&self) -> impl Iterator<Item = &Request> {
        self.requests
            .iter()
            .filter(|request| !request.resolved && !self.calls[request.made].has_result)
    }

    fn call(&self, request: Request) -> &Call {
        &self.calls[request.made].call
    }

    fn owes_nothing(&self) -> bool {
        self.calls.iter().all(|made| made.has_result)
    }
}

fn hold(holds: bool, wrong: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(wrong) }
}
