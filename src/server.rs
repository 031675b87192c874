//! The embedding API: build a server from a configuration, run it on the calling thread, and talk
//! to it through a handle.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = terret_ws::config::Config::default();
//! let server = terret_ws::server::Builder::new(config).bind()?;
//! let handle = server.handle(); // inject, resume, reload, shutdown: from any thread
//! println!("listening on {}", server.local_addr());
//! server.run()?; // this thread becomes the reactor
//! # drop(handle);
//! # Ok(())
//! # }
//! ```

mod files;

use crate::agent::{Hooks, NoHooks};
use crate::config::{Config, ProviderConfig};
use crate::disk::inspect;
use crate::disk::real::RealDisk;
use crate::disk::{LogOptions, Store, StoreError};
use crate::hub::{Hub, Options};
use crate::limits::{DESCRIPTORS_RESERVED, OPEN_FILES_MAX, WORKERS_DEFAULT_MIN};
use crate::model::{Model, Provider};
use crate::net::ground::Ground;
use crate::net::reactor::{Ended, Reactor};
use crate::net::tls::Trust;
use crate::os;
use crate::proto::http_client::InvalidHeader;
use crate::proto::ident::SessionId;
use crate::proto::time::Wall;
use crate::tool::ClosureTool;
use crate::work::journal::{Journal, Sink};
use crate::work::launcher::Launcher;
use crate::work::meter::Meter;
use crate::work::names::Resolver;
use crate::work::note::{Level, Note};
use crate::work::pool::{Inbound, Pool};
use crate::work::settings::Settings;
use crate::work::{Control, Done, Job, Random, Worker};
use files::{ConfigFiles, TokensFile};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads the configuration anew, or says in one line each what is wrong with it.
pub type ReadConfig = Box<ReadConfigFn>;
type ReadConfigFn = dyn Fn() -> Result<Config, Vec<String>> + Send + Sync;

/// A server about to be.
pub struct Builder {
    config: Config,
    models: BTreeMap<String, Provider>,
    tools: Vec<ClosureTool>,
    hooks: Arc<dyn Hooks>,
    sink: Sink,
    read_config: Option<ReadConfig>,
}

/// Why a server could not be started.
#[derive(Debug)]
pub enum StartError {
    /// Somebody else listens there.
    AddressInUse(SocketAddr),
    /// It cannot listen there for another reason.
    Listen(SocketAddr, io::Error),
    /// Another process serves the data directory.
    Locked {
        /// The directory.
        data_dir: PathBuf,
        /// Its process id, as the lock file says.
        pid: Option<u32>,
    },
    /// The data directory cannot be used.
    DataDir(PathBuf, io::Error),
    /// A provider's header cannot be sent.
    Provider {
        /// The provider's name.
        provider: String,
        /// Which header, and what is wrong with it.
        error: InvalidHeader,
    },
    /// A provider's `base_url` is https, and nobody can be trusted.
    Tls {
        /// The provider's name.
        provider: String,
        /// Why, and what to do.
        problem: String,
    },
    /// A tool of the embedding program is not defined as it must be.
    Tool {
        /// Its name.
        tool: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// The system refused a thread or a descriptor.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressInUse(address) => {
                write!(f, "{address} is in use: stop what listens there, or choose another address")
            }
            Self::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
            Self::Locked { data_dir, pid } => {
                let who = pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
                let dir = data_dir.display();
                write!(f, "{dir} is served by {who}: stop it, or choose another data directory")
            }
            Self::DataDir(path, error) => {
                write!(f, "data directory {} cannot be used: {error}", path.display())
            }
            Self::Provider { provider, error } => {
                write!(f, "providers.{provider}.headers: {error}")
            }
            Self::Tls { provider, problem } => {
                write!(f, "providers.{provider}.base_url: {problem}")
            }
            Self::Tool { tool, problem } => write!(f, "tool {tool:?}: {problem}"),
            Self::System(error) => write!(f, "the system refused a resource: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Why a server ended otherwise than by being told to.
#[derive(Debug)]
pub enum RunError {
    /// The disk failed in a way that leaves it unknown what is stored. After a restart nothing that
    /// a client was sent is missing.
    DiskFailed(String),
    /// Told to stop a second time: nothing was waited for.
    AtOnce,
    /// The system's poll failed.
    System(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DiskFailed(reason) => {
                write!(f, "the disk failed: {reason}: check it, then start the server again")
            }
            Self::AtOnce => write!(f, "stopped at once"),
            Self::System(error) => write!(f, "waiting for sockets failed: {error}"),
        }
    }
}

impl std::error::Error for RunError {}

impl Builder {
    /// A server that goes by `config`.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            models: BTreeMap::new(),
            tools: Vec::new(),
            hooks: Arc::new(NoHooks),
            sink: Box::new(|_| {}),
            read_config: None,
        }
    }

    /// Sends the server's log to `sink`, which is called on a thread of its own with the lines that have
    /// gathered.
    #[must_use]
    pub fn log(mut self, sink: Sink) -> Self {
        self.sink = sink;
        self
    }

    /// Adds a provider of the embedding program under a name that roles may point at.
    #[must_use]
    pub fn model(mut self, name: &str, model: Arc<dyn Model>) -> Self {
        self.models.insert(name.to_owned(), Provider::Custom(model));
        self
    }

    /// Adds a tool of the embedding program. A configured tool of the same name takes its place.
    #[must_use]
    pub fn tool(mut self, tool: ClosureTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Lets the embedding program decide about steps and calls, in place of any hooks given before.
    #[must_use]
    pub fn hooks(mut self, hooks: impl Hooks + 'static) -> Self {
        self.hooks = Arc::new(hooks);
        self
    }

    /// Lets the server read its configuration anew, on SIGHUP or [`Handle::reload`].
    #[must_use]
    pub fn on_reload(mut self, read: ReadConfig) -> Self {
        self.read_config = Some(read);
        self
    }

    /// Takes the data directory, starts the workers and listens. Nothing is served before
    /// [`Server::run`].
    pub fn bind(self) -> Result<Server, StartError> {
        let Self { config, models, tools, hooks, sink, read_config } = self;
        let faulty = tools.iter().find_map(|tool| Some((tool.name(), tool.problem()?)));
        if let Some((tool, problem)) = faulty {
            return Err(StartError::Tool { tool: tool.to_owned(), problem });
        }
        let (trust, unread) = trust(&config)?;
        let descriptors = os::raise_fd_limit().map_err(StartError::System)?;
        let store = open_store(&config)?;
        let launcher = Arc::new(Launcher::new(&config.data_dir));
        let orphans = launcher
            .end_orphans()
            .map_err(|error| StartError::DataDir(config.data_dir.clone(), error))?;
        let ground = Ground::listen(config.listen, trust).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => StartError::AddressInUse(config.listen),
            _ => StartError::Listen(config.listen, error),
        })?;
        let address = ground.address().map_err(StartError::System)?;
        let inbound = ground.inbound().clone();
        let available = thread::available_parallelism().map_or(1, usize::from);
        let workers = config.workers.unwrap_or(available.max(WORKERS_DEFAULT_MIN));
        let settings = Settings::new(&config, models, tools)
            .map(|settings| Arc::new(settings.with_hooks(hooks)))
            .map_err(|(provider, error)| StartError::Provider { provider, error })?;
        let providers = settings.providers.keys().cloned();
        let meter = Arc::new(Meter::new(Arc::clone(store.stats()), providers));
        let pool = Pool::start(workers, &inbound, || {
            let (store, launcher) = (Arc::clone(&store), Arc::clone(&launcher));
            Worker::new(store, launcher, wall_clock, Random::new(os::random), Arc::clone(&meter))
        })
        .map_err(StartError::System)?;
        let resolver = Resolver::start(inbound.clone()).map_err(StartError::System)?;

        let (max_connections, open_files_max) = capacity(descriptors);
        let options = Options::new(&config, max_connections, open_files_max);
        let mut files = TokensFile::default();
        let (tokens, mut notes) = files.united(&config);
        if orphans > 0 {
            let note = Note::new(Level::Warn, "killed what an earlier server's tools had left");
            notes.push(note.with("groups", orphans));
        }
        notes.extend(without_effect(&config));
        notes.extend(unread);
        let hub = Hub::new(options, settings, tokens, config.roles.clone(), meter);
        if config.resume_on_start {
            pool.submit([recover_all(&config.data_dir, inbound.clone())]);
        }
        let chores = Box::new(ConfigFiles::new(config, files, read_config));
        let journal = Journal::start(sink).map_err(StartError::System)?;
        let signal_fd = ground.signal_fd();
        let mut reactor = Reactor::new(ground, hub, pool, resolver, chores, journal, wall_clock)
            .map_err(StartError::System)?;
        reactor.note(notes);
        Ok(Server { reactor, address, inbound, signal_fd })
    }
}

/// A server that listens and is about to serve.
pub struct Server {
    reactor: Reactor,
    address: SocketAddr,
    inbound: Inbound,
    signal_fd: RawFd,
}

impl Server {
    /// The address it listens on, with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// A way to talk to it from any thread.
    pub fn handle(&self) -> Handle {
        Handle { inbound: self.inbound.clone() }
    }

    /// A descriptor that takes signal numbers, one byte each: SIGTERM and SIGINT stop the server, at
    /// once the second time; SIGHUP reloads its configuration, or stops it too when there is none to
    /// read. Made for [`os::signals_to`].
    pub fn signal_fd(&self) -> RawFd {
        self.signal_fd
    }

    /// Serves on this thread until it is told to stop.
    pub fn run(self) -> Result<(), RunError> {
        match self.reactor.run() {
            Ok(Ended::Stopped) => Ok(()),
            Ok(Ended::AtOnce) => Err(RunError::AtOnce),
            Ok(Ended::DiskFailed(reason)) => Err(RunError::DiskFailed(reason)),
            Err(error) => Err(RunError::System(error)),
        }
    }
}

/// Talks to a running server, from any thread. What is said after it ended is dropped.
#[derive(Clone)]
pub struct Handle {
    inbound: Inbound,
}

impl Handle {
    /// Stops it: no new turns, a grace for running steps, clients closed with 1001. The second call
    /// ends it at once.
    pub fn shutdown(&self) {
        self.inbound.send(Done::Control(Control::Stop));
    }

    /// Reads the configuration anew, as SIGHUP does.
    pub fn reload(&self) {
        self.inbound.send(Done::Control(Control::ReadConfig));
    }

    /// Sends a text to a session, as a client's `inject` does; the session is made if there is none.
    pub fn inject(&self, session: SessionId, text: String, wake: bool) {
        self.inbound.send(Done::Control(Control::Inject { session, text, wake }));
    }

    /// Resumes the open turn of a session. An idle agent takes a turn with what waits in its inbox,
    /// which closes `empty` when nothing does; a running one is left alone.
    pub fn resume(&self, session: SessionId) {
        self.inbound.send(Done::Control(Control::Resume { session }));
    }
}

fn open_store(config: &Config) -> Result<Arc<Store>, StartError> {
    let options = LogOptions { sync: config.log.sync, segment_bytes: config.log.segment_bytes };
    let disk = Arc::new(RealDisk);
    Store::open(disk, &config.data_dir, options).map(Arc::new).map_err(|error| match error {
        StoreError::Locked { pid } => StartError::Locked { data_dir: config.data_dir.clone(), pid },
        StoreError::Io(error) => StartError::DataDir(config.data_dir.clone(), error),
    })
}

/// Whom connections to the providers trust, read only where one of them is https, and a line about what
/// could not be read.
fn trust(config: &Config) -> Result<(Trust, Option<Note>), StartError> {
    let is_https = |provider: &ProviderConfig| match provider {
        ProviderConfig::OpenAi(openai) => openai.base_url.https,
        ProviderConfig::Echo | ProviderConfig::Scripted(_) => false,
    };
    let Some((name, _)) = config.providers.iter().find(|(_, provider)| is_https(provider)) else {
        return Ok((Trust::default(), None));
    };
    let (trust, unread) = Trust::of_system()
        .map_err(|problem| StartError::Tls { provider: name.clone(), problem })?;
    let note =
        |unread| Note::new(Level::Warn, "a CA certificate was not read").with("cause", unread);
    Ok((trust, unread.map(note)))
}

/// Looks through the sessions on disk, beside everything else, and lets those go on that were left with
/// an open turn or with a waking text.
fn recover_all(data_dir: &Path, inbound: Inbound) -> Job {
    let data_dir = data_dir.to_owned();
    Job::Chore(Box::new(move || {
        let unread = |error: io::Error| {
            Note::new(Level::Warn, "open turns not looked for").with("cause", error)
        };
        let sessions = match inspect::session_ids(&RealDisk, &data_dir) {
            Ok(sessions) => sessions,
            Err(error) => return vec![Done::Notes(vec![unread(error)])],
        };
        let mut notes = Vec::new();
        for session in sessions {
            let goes_on = inspect::summary(&RealDisk, &data_dir, &session).and_then(|summary| {
                Ok(summary.open_turn || inspect::may_hold_wake(&RealDisk, &data_dir, &session)?)
            });
            match goes_on {
                Ok(true) => inbound.send(Done::Control(Control::Recover { session })),
                Ok(false) => {}
                Err(error) => notes.push(unread(error).about(&session)),
            }
        }
        vec![Done::Notes(notes)]
    }))
}

/// What the configuration asks for in vain.
fn without_effect(config: &Config) -> Vec<Note> {
    let mut notes = Vec::new();
    if !config.tools.is_empty() && config.policy.is_empty() {
        let note = Note::new(Level::Warn, "policy is empty, so every tool call is refused");
        notes.push(note.with("tools", config.tools.len()));
    }
    notes
}

/// How many connections and open logs a descriptor limit leaves room for: half of what is not
/// reserved may be connections, the rest is shared by logs and provider connections.
fn capacity(descriptors: u64) -> (usize, usize) {
    let free =
        usize::try_from(descriptors).unwrap_or(usize::MAX).saturating_sub(DESCRIPTORS_RESERVED);
    let connections = (free / 2).max(1);
    (connections, (free / 4).clamp(1, OPEN_FILES_MAX))
}

fn wall_clock() -> Wall {
    let now = SystemTime::now();
    match now.duration_since(UNIX_EPOCH) {
        Ok(since) => Wall(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)),
        Err(before) => Wall(-i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX)),
    }
}

#[cfg(test)]
mod tests;
