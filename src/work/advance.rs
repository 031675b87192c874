//! The job that moves one agent: its inputs go through the turn machine, what the machine decided
//! is appended to the log, and only then seen by anyone.
//!
//! It knows no socket and no other agent. Invariants: events are published after their append
//! succeeded and effects released after that; while a batch is held back for want of space, its
//! effects are held with it, and nothing else of this agent is appended.

use super::agent::Agent;
use super::note::{Level, Note};
use super::run::Run;
use super::settings::Settings;
use super::{Answers, Done, Home, Read, Unopened, Worker};
use crate::agent::{ConnTag, InboxText, Machine, Reply};
use crate::conn::slab::Tag;
use crate::disk::{OpenError, Opened, SessionLog, Store};
use crate::log::Shape;
use crate::proto::command::Command;
use crate::proto::event::ErrorCode;
use crate::proto::ident::{ModelSpec, SessionId};
use crate::proto::payload::{Body, Outcome};
use crate::proto::time::Mono;
use std::io::ErrorKind;
use std::sync::Arc;

/// What has arrived for an agent.
pub enum Input {
    /// A client frame, or the same from the embedding program.
    Command {
        /// The connection that is told of errors.
        from: Option<ConnTag>,
        /// The frame.
        command: Command,
    },
    /// Something happened on the provider connection.
    Net(NetEvent),
    /// The provider takes the request that was queued for it.
    Granted,
    /// A tool has ended.
    Tool {
        /// Which run.
        tag: u64,
        /// The call's result.
        outcome: Outcome,
    },
    /// Time has passed.
    Clock,
    /// A piece of the log, read between this agent's appends.
    Read(Box<Read>),
    /// `GET /agents/{id}` on this connection.
    Snapshot {
        /// The connection that asked.
        conn: Tag,
    },
    /// Resume an open turn.
    Resume,
    /// The configuration was read anew, and approvals are not mounted any more.
    Reloaded,
    /// Go on where the last server ended.
    Recover,
    /// The disk may have space again.
    Retry,
    /// Leave the log as a clean stop leaves it.
    Rest,
    /// Remove old segments.
    Trim,
}

/// What happens on a provider connection.
pub enum NetEvent {
    /// It stands.
    Connected,
    /// Bytes of the answer.
    Bytes(Vec<u8>),
    /// The provider has closed it.
    Eof,
    /// It could not be made, or broke.
    Failed(String),
    /// It was not made, because the provider did not prove who it is.
    Untrusted(String),
}

/// Advance one agent.
pub struct Advance {
    /// The reactor's name for it.
    pub agent: Tag,
    /// Whose session.
    pub session: SessionId,
    /// The agent; none when its log has to be opened first.
    pub body: Option<Box<Agent>>,
    /// Make the session when there is none.
    pub create: bool,
    /// Why its last resume had failed when it left memory.
    pub last_error: Option<Box<str>>,
    /// What has arrived, oldest first.
    pub inputs: Vec<Input>,
    /// What the service is configured to do.
    pub settings: Arc<Settings>,
    /// What the role `main` points at.
    pub model: ModelSpec,
    /// The time.
    pub now: Mono,
    /// The server is stopping: no new turn, no new step.
    pub stopping: bool,
}

impl Advance {
    /// The connections this job reads pieces for.
    pub(super) fn readers(&self) -> Vec<Tag> {
        let reader = |input: &Input| match input {
            Input::Read(read) => Some(read.conn),
            _ => None,
        };
        self.inputs.iter().filter_map(reader).collect()
    }
}

impl Worker {
    pub(super) fn advance(&mut self, mut job: Advance, answers: &mut dyn Answers) {
        let agent = job.agent;
        let body = match job.body.take() {
            Some(body) => Ok(body),
            None => self.open(&mut job, answers),
        };
        let home = match body {
            Ok(body) => {
                let inputs = std::mem::take(&mut job.inputs);
                let run = Run::new(&job, body, self, answers);
                run.run(inputs)
            }
            Err(why) => {
                answers.send(Done::Opened { agent, outcome: Err(why.clone()) });
                let inputs = std::mem::take(&mut job.inputs);
                self.refuse(agent, inputs, &why, answers);
                Home { agent, body: None, wake_at: None, again: false, emptied: Vec::new() }
            }
        };
        // Whichever call ran into it, here or in another job.
        if let Some(reason) = self.store.latched() {
            answers.send(Done::Latched { reason });
        }
        answers.send(Done::Home(home));
    }

    /// Opens the log and rebuilds from it what the agent is.
    fn open(
        &mut self,
        job: &mut Advance,
        answers: &mut dyn Answers,
    ) -> Result<Box<Agent>, Unopened> {
        let Self { store, clock, random, .. } = self;
        let create = job.create.then(|| (random.next_id(), clock()));
        let opened = store.open_session(&job.session, create).map_err(|error| match error {
            OpenError::Missing => Unopened::Missing,
            OpenError::Damaged { tip: Some(tip), place } => {
                Unopened::Damaged { tip, place: place.to_string() }
            }
            // Nothing of it can be served, so it is nothing that could be greeted.
            OpenError::Damaged { tip: None, .. } => Unopened::Failed { reason: error.to_string() },
            OpenError::Io(error) if error.kind() == ErrorKind::StorageFull => Unopened::Full,
            OpenError::Io(error) => Unopened::Failed { reason: error.to_string() },
        })?;
        let Opened { log, state, inbox, torn } = opened;
        let mut notes = Vec::new();
        if let Some(torn) = torn {
            notes.push(
                Note::new(Level::Warn, "log tail was torn and has been set aside")
                    .about(&job.session)
                    .with("kept", torn),
            );
        }
        let open_turn = match state.turn {
            Some(start) => read_open_turn(store, &job.session, start, &log)?,
            None => Vec::new(),
        };
        let inbox = inbox
            .into_iter()
            .map(|entry| InboxText { id: entry.id, wake: entry.wake, text: entry.text })
            .collect();
        let mut machine = Machine::load(&job.session, &state, open_turn, inbox);
        machine.remember(job.last_error.take());
        if !notes.is_empty() {
            answers.send(Done::Notes(notes));
        }
        answers.send(Done::Opened { agent: job.agent, outcome: Ok(log.tip()) });
        Ok(Box::new(Agent {
            machine,
            log,
            asking: None,
            held: None,
            deferred: Vec::new(),
            turn_since: None,
        }))
    }

    /// Answers the inputs of an agent whose log cannot be appended to.
    fn refuse(&self, agent: Tag, inputs: Vec<Input>, why: &Unopened, answers: &mut dyn Answers) {
        let message = match why {
            Unopened::Missing => "no such session".to_owned(),
            Unopened::Damaged { place, .. } => format!("the log is damaged: {place}"),
            Unopened::Full => "storage full".to_owned(),
            Unopened::Failed { reason } => format!("the log cannot be opened: {reason}"),
        };
        let mut replies = Vec::new();
        for input in inputs {
            match input {
                Input::Command { from: Some(to), .. } => {
                    let message = message.clone();
                    replies.push(Reply { to, code: ErrorCode::Internal, message });
                }
                Input::Snapshot { conn } => {
                    answers.send(Done::Snapshot { conn, agent, snapshot: None });
                }
                Input::Read(read) => {
                    let tip = read.tip;
                    answers.send(read.run(&self.store, tip));
                }
                _ => {}
            }
        }
        if !replies.is_empty() {
            answers.send(Done::Replies(replies));
        }
    }
}

/// Reads the events of the open turn, but for the chunks: a step that was cut off is asked again,
/// and one that was not has its text in its message.
fn read_open_turn(
    store: &Store,
    session: &SessionId,
    start: u64,
    log: &SessionLog,
) -> Result<Vec<Body>, Unopened> {
    let shape = Shape::new(session.clone());
    let failed = |reason: String| Unopened::Failed { reason };
    let mut pieces = store.events_from(session, start, log.tip());
    let mut bodies = Vec::new();
    while let Some(piece) = pieces.next_piece().map_err(|error| failed(error.to_string()))? {
        for event in piece.events(&shape).filter(|event| event.kind != "assistant/chunk") {
            let body = Body::parse(event.kind, event.payload)
                .map_err(|error| failed(format!("seq {}: {error}", event.seq)))?;
            bodies.extend(body);
        }
    }
    Ok(bodies)
}
