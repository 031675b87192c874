//! Jobs for the workers and their answers: the two enums that are all the threads exchange.
//!
//! A job carries what it works on and gives it back: an agent is either at home with the reactor or
//! in exactly one job, so no lock guards a session. Nothing here knows a socket.

pub mod advance;
mod asking;
pub mod agent;
pub mod journal;
pub mod launcher;
pub mod meter;
pub mod names;
pub mod note;
pub mod pool;
pub mod process;
mod queues;
mod run;
pub mod settings;
pub mod tools;
mod watchdog;

use crate::agent::{Reply, Snapshot};
use crate::config::{Config, Tokens};
use crate::conn::slab::Tag;
use crate::disk::{Cursor, DiskFile, Piece, ReadError, Retention, Store, Swept, Tip};
use crate::limits::{ANSWERS_UNHEARD_MAX, PIECE_BYTES_MAX};
use crate::model::{RequestBytes, Target};
use crate::proto::ident::{EventId, SessionId};
use crate::proto::payload::Outcome;
use crate::proto::time::{Mono, Wall};
use advance::{Advance, Input};
use agent::Agent;
use launcher::Launcher;
use meter::Meter;
use note::Note;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use tools::{Launched, ToolJob};

/// What a worker does.
pub enum Job {
    /// Advance one agent with the inputs that have arrived for it.
    Advance(Advance),
    /// Read one piece of a log for one reader.
    Read(Box<Read>),
    /// Run a tool that is code of the embedding program.
    Tool(Box<ToolJob>),
    /// Look at some sessions for old segments.
    Sweep {
        /// Those behind this one.
        after: Option<SessionId>,
        /// How much is kept.
        retention: Retention,
    },
    /// Close files: `close` may wait for the disk, so it is not for the reactor.
    Close(Vec<Box<dyn DiskFile>>),
    /// Something rare that may block: a look at a file, a name to resolve.
    Chore(Box<dyn FnOnce() -> Vec<Done> + Send>),
}

/// A piece of a log, wanted by one reader.
pub struct Read {
    /// The connection it is for.
    pub conn: Tag,
    /// The subscription it is for; a later one does not want it.
    pub generation: u32,
    /// Whose log.
    pub session: SessionId,
    /// The first seq wanted.
    pub from: u64,
    /// As frames, for a WebSocket, and with them the space to put them in; otherwise as lines.
    pub frames: Option<Vec<u8>>,
    /// Where it stands, when an earlier piece ended there.
    pub cursor: Option<Cursor>,
    /// The published tip: nothing beyond it exists for the reader.
    pub tip: Tip,
    /// How many events at most.
    pub events_max: u32,
}

impl Read {
    /// Reads the piece from a log whose tip is `tip`.
    fn run(self, store: &Store, tip: Tip) -> Done {
        let Self { session, from, cursor, events_max, .. } = self;
        let outcome = match self.frames {
            Some(space) => {
                let bounds = (events_max, PIECE_BYTES_MAX);
                store.read_frames(&session, from, cursor, tip, bounds, space)
            }
            None => store.read(&session, from, cursor, tip, events_max, PIECE_BYTES_MAX),
        };
        Done::Piece { conn: self.conn, generation: self.generation, outcome }
    }
}

/// Which workers may take a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Only reads: any worker.
    Read,
    /// May sync: any worker but the first.
    Other,
    /// Runs a tool of the embedding program, which may take as long as it likes: any worker but the
    /// first two; where there are only two, the second.
    Foreign,
}

/// What a worker has to say.
pub enum Done {
    /// An agent's log was opened, or was not.
    Opened {
        /// Whose.
        agent: Tag,
        /// Its tip, or why there is none to append to.
        outcome: Result<Tip, Unopened>,
    },
    /// Events are in the log, and may be seen.
    Events(Published),
    /// Error frames for the connections that asked.
    Replies(Vec<Reply>),
    /// The agent wants something of its provider connection.
    Upstream {
        /// Whose.
        agent: Tag,
        /// What.
        command: Upstream,
    },
    /// The agent wants this tool of the embedding program to run.
    Tool(Box<ToolJob>),
    /// The program of a tool was started.
    Launched(Box<Launched>),
    /// A tool of the embedding program has ended.
    ToolEnded {
        /// Whose.
        agent: Tag,
        /// Which run of its.
        tag: u64,
        /// The call's result.
        outcome: Outcome,
    },
    /// What `GET /agents/{id}` asked for; none for an agent that could not be opened.
    Snapshot {
        /// The connection that asked.
        conn: Tag,
        /// The agent.
        agent: Tag,
        /// What it is doing.
        snapshot: Option<Box<Snapshot>>,
    },
    /// A piece of a log, for one reader.
    Piece {
        /// The connection it is for.
        conn: Tag,
        /// The subscription it is for.
        generation: u32,
        /// The lines.
        outcome: Result<Piece, ReadError>,
    },
    /// Some sessions were looked at for old segments.
    Swept(Swept),
    /// An agent comes home from its job.
    Home(Home),
    /// A job died of a panic, and its agent with it.
    Panicked {
        /// The agent, or none when the job had none.
        agent: Option<Tag>,
        /// The connections the job was still to read for.
        readers: Vec<Tag>,
    },
    /// The disk failed in a way that leaves it unknown what is stored: nothing may be appended any
    /// more, anywhere.
    Latched {
        /// What the system said.
        reason: String,
    },
    /// A name was looked up.
    Resolved(names::Resolved),
    /// Lines for the server's log.
    Notes(Vec<Note>),
    /// A word from the embedding program, or from a chore it had done.
    Control(Control),
}

/// What the embedding program may ask of a running server.
pub enum Control {
    /// Stop; a second time: at once.
    Stop,
    /// Go by these tokens from now on.
    Tokens(Tokens),
    /// Go by this configuration from now on.
    Reload(Box<Reload>),
    /// A waking or steering text for a session, as a client's `inject`.
    Inject {
        /// Whose.
        session: SessionId,
        /// The text.
        text: String,
        /// Whether it starts a turn on an idle agent.
        wake: bool,
    },
    /// Resume the open turn of a session, if there is one.
    Resume {
        /// Whose.
        session: SessionId,
    },
    /// Go on with a session where the last server ended.
    Recover {
        /// Which.
        session: SessionId,
    },
    /// Read the configuration anew.
    ReadConfig,
}

/// A configuration that was read anew.
pub struct Reload {
    /// It.
    pub config: Config,
    /// The one that was in force until now.
    pub running: Arc<Config>,
    /// The tokens it names, those of its tokens file included.
    pub tokens: Tokens,
}

/// Events that were appended.
pub struct Published {
    /// Whose.
    pub agent: Tag,
    /// The log's lines, whole, events only.
    pub lines: Vec<u8>,
    /// The seq of the first.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// The tip behind them.
    pub tip: Tip,
    /// When they were in the log.
    pub stored: Wall,
}

/// An agent back from a job, and what it waits for.
pub struct Home {
    /// Whose.
    pub agent: Tag,
    /// The agent itself; none when it could not be opened.
    pub body: Option<Box<Agent>>,
    /// When it wants to be looked at next, whatever happens until then.
    pub wake_at: Option<Mono>,
    /// It has more to do at once: it goes to the back of the queue.
    pub again: bool,
    /// The list its inputs came in, empty, for the next.
    pub emptied: Vec<Input>,
}

/// Why an agent cannot append.
#[derive(Clone, Debug)]
pub enum Unopened {
    /// There is no such session, and none was to be made.
    Missing,
    /// Its log is damaged. Reads up to the damage and from beyond it are served.
    Damaged {
        /// The last valid line.
        tip: Tip,
        /// Segment, line and byte.
        place: String,
    },
    /// It was to be made, and there is no space for it.
    Full,
    /// The disk did not let it be opened: an error, never a verdict.
    Failed {
        /// What the system said.
        reason: String,
    },
}

/// What an agent wants of its provider connection. It has one at most.
pub enum Upstream {
    /// Connect, in place of any earlier connection, and send this.
    Connect {
        /// To whom.
        target: Target,
        /// The whole request.
        request: RequestBytes,
    },
    /// Close it.
    Disconnect,
}

impl Job {
    /// Which workers may take it.
    pub fn class(&self) -> Class {
        match self {
            Self::Read(_) => Class::Read,
            Self::Advance(_) | Self::Close(_) | Self::Chore(_) | Self::Sweep { .. } => Class::Other,
            Self::Tool(_) => Class::Foreign,
        }
    }

    /// Whether it is done in some microseconds, if nothing of it waits for the disk.
    fn is_short(&self) -> bool {
        matches!(self, Self::Advance(job) if job.body.is_some() && !job.settings.embeds_code)
    }

    /// What to answer when the job dies of a panic before it has said anything.
    pub fn on_panic(&self) -> Done {
        match self {
            Self::Advance(job) => Done::Panicked { agent: Some(job.agent), readers: job.readers() },
            Self::Tool(job) => job.panicked(),
            Self::Read(read) => Done::Panicked { agent: None, readers: vec![read.conn] },
            Self::Close(_) | Self::Chore(_) | Self::Sweep { .. } => {
                Done::Panicked { agent: None, readers: Vec::new() }
            }
        }
    }
}

/// Who hears what a worker has to say.
pub trait Answers {
    /// Takes one answer.
    fn send(&mut self, done: Done);

    /// What was sent is not to wait until the job has ended.
    fn hurry(&mut self) {}
}

impl<F: FnMut(Done)> Answers for F {
    fn send(&mut self, done: Done) {
        self(done);
    }
}

/// Passes answers on, and takes note of what is left to be said if the job dies.
struct Watched<'a> {
    answers: &'a mut dyn Answers,
    on_panic: Done,
}

impl Answers for Watched<'_> {
    fn send(&mut self, done: Done) {
        if let (Done::Panicked { readers, .. }, Done::Piece { conn, .. }) =
            (&mut self.on_panic, &done)
        {
            readers.retain(|reader| reader != conn);
        }
        self.answers.send(done);
    }

    fn hurry(&mut self) {
        self.answers.hurry();
    }
}

/// What a worker has at hand: the store, what starts tools, the wall clock, a source of random numbers,
/// and what counts.
pub struct Worker {
    store: Arc<Store>,
    launcher: Arc<Launcher>,
    clock: fn() -> Wall,
    random: Random,
    meter: Arc<Meter>,
}

/// Fills a slice with random bytes.
type Fill = dyn FnMut(&mut [u8]) + Send;

/// Random numbers, drawn from their source a few hundred bytes at a time.
pub struct Random {
    fill: Box<Fill>,
    pool: [u8; 512],
    used: usize,
}

impl Random {
    /// Numbers made of what `fill` fills in: the operating system's source, or a seeded one.
    pub fn new(fill: impl FnMut(&mut [u8]) + Send + 'static) -> Self {
        Self { fill: Box::new(fill), pool: [0; 512], used: 512 }
    }

    /// The next one.
    pub fn next_u64(&mut self) -> u64 {
        if self.used == self.pool.len() {
            (self.fill)(&mut self.pool);
            self.used = 0;
        }
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.pool[self.used..self.used + 8]);
        self.used += 8;
        u64::from_le_bytes(bytes)
    }

    /// The next event's id.
    pub fn next_id(&mut self) -> EventId {
        EventId(self.next_u64())
    }
}

impl Worker {
    /// A worker on `store`.
    pub fn new(
        store: Arc<Store>,
        launcher: Arc<Launcher>,
        clock: fn() -> Wall,
        random: Random,
        meter: Arc<Meter>,
    ) -> Self {
        Self { store, launcher, clock, random, meter }
    }

    /// How many answers may wait when a job has ended for those of the next to be announced together.
    fn patience(&self, job: &Job) -> usize {
        if job.is_short() && !self.store.syncs_always() { ANSWERS_UNHEARD_MAX } else { 0 }
    }

    /// Runs one job to its end, and says what becomes of it if it dies of a panic. Who reads a log
    /// through it is answered once: a place at the gate that was given back is somebody else's.
    ///
    /// # Errors
    /// What it panicked with.
    pub fn run_caught(&mut self, job: Job, answers: &mut dyn Answers) -> thread::Result<()> {
        let mut watched = Watched { answers, on_panic: job.on_panic() };
        // Unwind safe: what the job held is dropped with it, and the worker keeps nothing of it.
        let ran = catch_unwind(AssertUnwindSafe(|| self.run(job, &mut watched)));
        let Watched { answers, on_panic } = watched;
        if ran.is_err() {
            answers.send(on_panic);
        }
        ran
    }

    /// Runs one job to its end. Answers go up as soon as they stand, in order.
    pub fn run(&mut self, job: Job, answers: &mut dyn Answers) {
        match job {
            Job::Advance(job) => self.advance(job, answers),
            Job::Read(read) => {
                let tip = read.tip;
                answers.send(read.run(&self.store, tip));
            }
            Job::Tool(job) => answers.send(job.run()),
            Job::Close(files) => drop(files),
            Job::Sweep { after, retention } => {
                let swept = self.store.sweep(after.as_ref(), &retention, (self.clock)());
                // The next look tells more; this round is over.
                answers.send(Done::Swept(swept.unwrap_or_default()));
            }
            Job::Chore(chore) => chore().into_iter().for_each(|done| answers.send(done)),
        }
    }
}
