//! A machine in a world made of values: a log, an inbox file, at most one model request and the
//! tools that run.
//!
//! Whatever the machine appends is checked at once against what must hold of any log, and the
//! machine itself is held to what one freshly loaded from that log would know.

use super::audit::Audit;
use super::strict;
use crate::agent::history::project;
use crate::agent::machine::Machine;
use crate::agent::{
    Approval, Concurrency, Context, Effect, Hooks, InboxText, Input, Message, NoHooks, Note,
    Output, Rules, Status, ToolRun, ToolTraits,
};
use crate::proto::event::{ErrorCode, NewEvent};
use crate::proto::ident::{EventId, ModelSpec};
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
    /// What the log adds up to.
    audit: Audit,
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
        let audit = Audit::of(&log);
        World {
            machine: audit.load(&log, Vec::new()),
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
            audit,
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
        for event in out.events {
            self.audit.append(&event);
            self.log.push(event);
        }
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
                let begun = self.tools.len();
                self.tools.extend(runs);
                for run in &self.tools[begun..] {
                    self.check_consent(&run.call);
                }
            }
        }
    }

    /// A call that somebody was asked about runs only after a yes. Calls may be equal to the last
    /// letter; then each request belongs to one of them, and is spent by its result: no more of them
    /// run than there are without a request or with a yes.
    fn check_consent(&self, call: &Call) {
        let is_start = |event: &NewEvent| matches!(event.body, Body::StepStart { .. });
        let step = self.log.iter().rposition(is_start).expect("calls belong to a step");
        let mut owed: Vec<&Call> = Vec::new();
        let mut requests: Vec<(&Call, Option<Verdict>)> = Vec::new();
        for NewEvent { body, .. } in &self.log[step..] {
            match body {
                Body::AssistantMessage { parts } => {
                    owed.extend(parts.iter().filter_map(|part| match part {
                        Part::ToolCall(call) => Some(call),
                        Part::Text(_) => None,
                    }));
                }
                Body::ApprovalRequested(about) => requests.push((about, None)),
                Body::ApprovalResolved { call_id, verdict, .. } => {
                    let mut standing = requests.iter_mut().filter(|(_, given)| given.is_none());
                    if let Some((_, given)) = standing.find(|(about, _)| about.id == *call_id) {
                        *given = Some(*verdict);
                    }
                }
                Body::ToolResult { id, .. } => {
                    let place = owed.iter().position(|call| call.id == *id);
                    let settled = owed.remove(place.expect("only what is owed is answered"));
                    if let Some(spent) = requests.iter().position(|(about, _)| *about == settled) {
                        requests.remove(spent);
                    }
                }
                _ => {}
            }
        }
        let equal = owed.iter().filter(|owed| **owed == call).count();
        let refused =
            |(about, given): &&(&Call, _)| *about == call && *given != Some(Verdict::Approved);
        let may_run = equal - requests.iter().filter(refused).count();
        let running = self.tools.iter().filter(|run| run.call == *call).count();
        assert!(running <= may_run, "a call runs without its verdict: {call:?}");
    }

    /// The machine knows what its log says, and runs what it says it runs.
    fn check_machine(&self) {
        let loaded = self.audit.load(&self.log, Vec::new());
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
        self.inbox_file.iter().filter(|text| !self.audit.holds(text.id)).cloned().collect()
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
        self.audit = Audit::of(&self.log);
        self.machine = self.audit.load(&self.log, self.unspent());
        self.asked = None;
        self.tools.clear();
        self.check_machine();
    }
}
