//! A machine in a world made of values: a log, an inbox file, at most one model request and the
//! tools that run.
//!
//! Whatever the machine appends is checked at once against what must hold of any log, and the
//! machine itself is held to what one freshly loaded from that log would know.

use std::collections::{BTreeMap, BTreeSet};

use super::strict;
use crate::agent::history::project;
use crate::agent::machine::Machine;
use crate::agent::{
    Approval, Concurrency, Context, Effect, Hooks, InboxText, Input, Message, NoHooks, Note,
    Output, Rules, Status, ToolRun, ToolTraits,
};
use crate::log::State;
use crate::proto::event::{ErrorCode, NewEvent};
use crate::proto::ident::{EventId, ModelSpec, SessionId};
use crate::proto::payload::{Body, Call, Part, Verdict};

/// A machine and what surrounds it.
pub struct World {
    /// The agent.
    pub machine: Machine,
    /// The deployment's rules.
    pub rules: Rules,
    /// What the role `main` points at.
    pub model: ModelSpec,
    /// What the embedding program has to say.
    pub hooks: Box<dyn Hooks>,
    /// The server is stopping.
    pub stopping: bool,
    /// The model has begun to answer, if only with a call.
    pub answer_begun: bool,
    /// What was appended, by seq.
    pub log: Vec<NewEvent>,
    /// Every text that ever was in `inbox.jsonl`.
    pub inbox_file: Vec<InboxText>,
    /// The model request that stands.
    pub asked: Option<Asked>,
    /// Tools that run, in the order they were started.
    pub tools: Vec<ToolRun>,
    /// What the last input was answered with.
    pub replies: Vec<(ErrorCode, String)>,
    /// Everything for the server's log.
    pub notes: Vec<Note>,
    next_id: u64,
}

/// A model request.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Its tag.
    pub ask: u64,
    /// The session's steps before it.
    pub step: u64,
    /// Whom.
    pub model: ModelSpec,
    /// The history as the log had it then.
    pub messages: Vec<Message>,
    /// What the step took in.
    pub fresh: Vec<String>,
}

/// Rules with an open allow list and these tools: `serial`, `par` and `par2` need no decision,
/// `guarded` and `parguarded` always do, `changing` does because it is mutating.
pub fn rules() -> Rules {
    let traits = |mutating, approval, concurrency| ToolTraits { mutating, approval, concurrency };
    let tools = [
        ("serial", traits(false, Approval::Never, Concurrency::Serial)),
        ("par", traits(false, Approval::Policy, Concurrency::Parallel)),
        ("par2", traits(true, Approval::Never, Concurrency::Parallel)),
        ("guarded", traits(false, Approval::Always, Concurrency::Serial)),
        ("parguarded", traits(false, Approval::Always, Concurrency::Parallel)),
        ("changing", traits(true, Approval::Policy, Concurrency::Serial)),
    ];
    Rules {
        floor: vec!["*".into()],
        approvals: true,
        tools: tools.into_iter().map(|(name, traits)| (name.to_owned(), traits)).collect(),
        ..Rules::default()
    }
}

impl World {
    /// A new session.
    pub fn new(rules: Rules) -> World {
        let log = vec![NewEvent { id: EventId(1), body: Body::SessionCreated }];
        World {
            machine: load(&log, Vec::new()),
            rules,
            model: ModelSpec::parse("echo/echo").expect("a provider and a model"),
            hooks: Box::new(NoHooks),
            stopping: false,
            answer_begun: false,
            log,
            inbox_file: Vec::new(),
            asked: None,
            tools: Vec::new(),
            replies: Vec::new(),
            notes: Vec::new(),
            next_id: 1000,
        }
    }

    /// Hands the machine one input and does what it wants done. Returns the new events.
    pub fn input(&mut self, input: Input) -> &[NewEvent] {
        let (known, mut out) = (self.log.len(), Output::default());
        let next_id = &mut self.next_id;
        let mut ids = || {
            *next_id += 1;
            EventId(*next_id)
        };
        let mut ctx = Context {
            rules: &self.rules,
            hooks: &*self.hooks,
            model: &self.model,
            ids: &mut ids,
            stopping: self.stopping,
            answer_begun: self.answer_begun,
        };
        self.machine.input(input, &mut ctx, &mut out);
        self.inbox_file.extend(self.machine.unsaved_inbox().cloned());
        self.machine.mark_saved();
        self.log.append(&mut out.events);
        check_log(&self.log);
        for effect in out.effects {
            self.release(effect);
        }
        self.replies = out.replies.into_iter().map(|reply| (reply.code, reply.message)).collect();
        self.notes.append(&mut out.notes);
        self.check_machine();
        &self.log[known..]
    }

    fn release(&mut self, effect: Effect) {
        match effect {
            Effect::Ask { ask, step, model } => {
                assert!(self.asked.is_none(), "one request of an agent stands at a time");
                let messages = self.history();
                let fresh = self.machine.fresh_texts().to_vec();
                self.asked = Some(Asked { ask, step, model, messages, fresh });
            }
            Effect::StopAsking { ask } => {
                let stopped = self.asked.take().expect("only a request that stands is stopped");
                assert_eq!(stopped.ask, ask);
            }
            Effect::Run(runs) => {
                for run in &runs {
                    self.check_consent(&run.call);
                }
                self.tools.extend(runs);
            }
        }
    }

    /// A call that somebody was asked about in this step runs only after a yes for its id.
    fn check_consent(&self, call: &Call) {
        let of_step = self.log.iter().rev().map(|event| &event.body);
        let of_step = of_step.take_while(|body| !matches!(body, Body::StepStart { .. }));
        let (mut asked, mut approved) = (false, false);
        for body in of_step {
            match body {
                Body::ApprovalRequested(about) => asked |= about == call,
                Body::ApprovalResolved { call_id, verdict: Verdict::Approved, .. } => {
                    approved |= *call_id == call.id;
                }
                _ => {}
            }
        }
        assert!(approved || !asked, "a call runs without its verdict: {call:?}");
    }

    /// The machine knows what its log says, and runs what it says it runs.
    fn check_machine(&self) {
        let loaded = load(&self.log, Vec::new());
        assert_eq!(self.machine.log, loaded.log, "live and recovered state differ");
        let (open, asked) = (self.machine.has_open_turn(), self.asked.is_some());
        match self.machine.status() {
            Status::Idle => assert!(!open && !asked && self.tools.is_empty()),
            Status::Interrupted => assert!(open && !asked && self.tools.is_empty()),
            Status::Parked => {
                assert!(open && !asked && self.tools.is_empty());
                assert!(!self.machine.snapshot(&self.rules).pending.is_empty(), "parked on what?");
            }
            Status::Running => assert!(open && asked == self.tools.is_empty()),
        }
    }

    /// The history as a model would get it now.
    pub fn history(&self) -> Vec<Message> {
        let events = self.log.iter().enumerate();
        let messages = project(events.map(|(seq, event)| (seq as u64, event.body.clone())));
        strict::check(&messages);
        messages
    }

    /// The texts of the inbox file that are not spent.
    pub fn unspent(&self) -> Vec<InboxText> {
        let logged: BTreeSet<EventId> = self.log.iter().map(|event| event.id).collect();
        self.inbox_file.iter().filter(|text| !logged.contains(&text.id)).cloned().collect()
    }

    /// Another world in which the process dies at once; of this one's log only so many events had
    /// reached the disk, but every text of the inbox file.
    #[must_use]
    pub fn died_after(&self, events: usize) -> World {
        let mut world = World::new(self.rules.clone());
        world.log.clone_from(&self.log);
        world.inbox_file.clone_from(&self.inbox_file);
        world.next_id = self.next_id;
        world.restart_at(events);
        world
    }

    /// The process dies and another one loads the agent; only this many events had reached the
    /// disk.
    pub fn restart_at(&mut self, events: usize) {
        self.log.truncate(events);
        self.machine = load(&self.log, self.unspent());
        self.asked = None;
        self.tools.clear();
        self.check_machine();
    }
}

/// Loads a machine as the server does: what the segment header and the scan add up to, the events
/// of the open turn, the texts that are not spent.
pub fn load(log: &[NewEvent], inbox: Vec<InboxText>) -> Machine {
    let mut state = State::default();
    for (seq, NewEvent { body, .. }) in (0..).zip(log) {
        let mut payload = Vec::new();
        body.write_payload(&mut payload);
        state.apply(seq, body.kind(), &payload);
    }
    let open = state.turn.map_or(&[][..], |start| &log[start as usize..]);
    let session = SessionId::parse("s1").expect("a session id");
    Machine::load(&session, &state, open.iter().map(|event| event.body.clone()), inbox)
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

/// What must hold of any log at any moment, checked without the projection: ids are unique, turns
/// and steps nest and count, a call is taken up once and answered once, and a turn that ends owes
/// nothing.
pub fn check_log(log: &[NewEvent]) {
    let mut ids = BTreeSet::new();
    let (mut in_turn, mut step, mut in_step) = (false, 0, false);
    let mut calls: BTreeMap<&str, Calls> = BTreeMap::new();
    let settled = |calls: &BTreeMap<&str, Calls>| {
        calls.values().all(|calls| calls.made == calls.answered && calls.asked >= calls.decided)
    };
    for NewEvent { id, body } in log {
        assert!(ids.insert(id), "an id was given twice: {body:?}");
        match body {
            Body::TurnStart { agent } => {
                assert!(!in_turn && agent == "agent-s1", "a turn in a turn");
                (in_turn, step, in_step) = (true, 0, false);
            }
            Body::TurnEnd { .. } => {
                assert!(in_turn, "a turn ended twice");
                assert!(settled(&calls), "a turn ended and owes results");
                in_turn = false;
            }
            Body::StepStart { n, .. } => {
                assert!(in_turn && *n == step + 1 && *n <= 25, "steps count on, to 25");
                assert!(settled(&calls), "a step began and another owes results");
                (step, in_step) = (*n, true);
                calls.clear();
            }
            Body::StepEnd { n, .. } => {
                assert!(in_turn && in_step && *n == step, "a step ends once");
                assert!(settled(&calls), "a step ended and owes results");
                in_step = false;
            }
            Body::AssistantMessage { parts } => {
                assert!(in_turn && in_step && calls.is_empty(), "a step is answered once");
                for part in parts {
                    if let Part::ToolCall(call) = part {
                        calls.entry(&call.id).or_default().made += 1;
                    }
                }
            }
            Body::ToolCall(call) => {
                let calls = calls.get_mut(&*call.id).expect("the step made the call");
                calls.taken_up += 1;
                assert!(calls.taken_up <= calls.made, "a call was taken up twice");
            }
            Body::ToolResult { id, .. } => {
                let calls = calls.get_mut(&**id).expect("the step made the call");
                calls.answered += 1;
                assert!(calls.answered <= calls.taken_up, "a call has a second result");
            }
            Body::ApprovalRequested(call) => {
                let calls = calls.get_mut(&*call.id).expect("the step made the call");
                calls.asked += 1;
                assert!(calls.asked <= calls.taken_up, "one call asked twice");
            }
            Body::ApprovalResolved { call_id, .. } => {
                let calls = calls.get_mut(&**call_id).expect("the step made the call");
                calls.decided += 1;
                assert!(calls.decided <= calls.asked, "a verdict nobody asked for");
            }
            Body::UserMessage { .. }
            | Body::ContextInjected { .. }
            | Body::AssistantChunk { .. } => {
                assert!(in_turn && in_step && calls.is_empty(), "text outside of a step");
            }
            _ => {}
        }
    }
}
