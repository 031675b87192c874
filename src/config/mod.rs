//! What an operator can set: plain structs read from one JSON object.
//!
//! Reads every key, checks it, and reports all problems with their JSON path and line. Opens no file
//! and no environment itself (both come as closures in [`Surroundings`]) and knows nothing of what
//! the values do.
//!
//! Invariant: a `Config` that `parse` returned is consistent. Every role names a provider that exists,
//! every number is in its range, no tool has another's name.

mod node;
mod problem;
mod provider;
mod script;
mod secret;
mod tool;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use self::node::{Node, Source};
pub use self::problem::Problem;
pub use self::provider::{IdStyle, OpenAiConfig, ProviderConfig};
pub use self::script::{Script, ScriptCall, ScriptEnd, ScriptStep};
pub use self::secret::{Secret, Token, Tokens};
pub use self::tool::{ApprovalNeed, Concurrency, ToolConfig, is_tool_name};
use crate::limits::{POLICY_PATTERN_CHARS_MAX, POLICY_PATTERNS_MAX, WAIT_S_MAX};
use crate::proto::ident::ModelSpec;

/// Everything that can be configured, with the defaults of a server without a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Address and port; port 0 picks one.
    pub listen: SocketAddr,
    /// Where the sessions lie.
    pub data_dir: PathBuf,
    /// Which tokens open which session.
    pub tokens: Tokens,
    /// A file with further tokens, read again when it changed.
    pub tokens_file: Option<PathBuf>,
    /// Live events that may wait in one connection's ring.
    pub queue_limit: usize,
    /// Bytes of them.
    pub queue_bytes: usize,
    /// Seconds between two pings of one connection.
    pub heartbeat_s: u64,
    /// Events one subscribe may replay.
    pub replay_limit: u64,
    /// Log reads for replays at once.
    pub max_concurrent_replays: usize,
    /// Connections at once; none means what the descriptor limit allows.
    pub max_connections: Option<usize>,
    /// Agents that cannot be evicted; none means as many as connections.
    pub max_agents: Option<usize>,
    /// Threads of the pool; none means one a core, at least four.
    pub workers: Option<usize>,
    /// Bytes of a session that a model request carries, beside the open turn.
    pub history_bytes: usize,
    /// Whether the approvals row is mounted.
    pub approvals: bool,
    /// The policy floor: globs of tool names, in force until a session's first `set_policy`.
    pub policy: Vec<String>,
    /// Which model plays which role; `main` is always there.
    pub roles: BTreeMap<String, ModelSpec>,
    /// How far a `set_model` reaches.
    pub roles_scope: RolesScope,
    /// What a cancel does to an answer that is streaming.
    pub cancel_stream: CancelStream,
    /// Sent as the system message.
    pub system_prompt: Option<String>,
    /// Where models are asked; `echo` is always there.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// The programs a model may call.
    pub tools: Vec<ToolConfig>,
    /// Browser origins that may connect, in lower case.
    pub allowed_origins: Vec<String>,
    /// Seconds a running step is given when the server stops.
    pub stop_grace_s: u64,
    /// Whether open turns resume when the server starts.
    pub resume_on_start: bool,
    /// How the server's own log is written.
    pub log_format: LogFormat,
    /// How sessions are stored.
    pub log: LogConfig,
}

/// How sessions are stored: the key `log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// What "written" means before an event is published.
    pub sync: SyncMode,
    /// Bytes after which a segment rolls.
    pub segment_bytes: u64,
    /// Events kept of a session; none means all.
    pub keep_events: Option<u64>,
    /// Days an event is kept; none means for ever.
    pub keep_days: Option<u64>,
}

/// What "written" means before an event is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// On stable storage: survives the death of the machine.
    Always,
    /// With the operating system: survives the death of the process.
    Os,
}

/// How far a `set_model` reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolesScope {
    /// To every agent of the server.
    Service,
    /// To the agent whose client sent it.
    Agent,
}

/// What a cancel does to an answer that is streaming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelStream {
    /// The request is aborted.
    Abort,
    /// A stream that has begun is heard to its end.
    Finish,
}

/// How the server's own log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people and grep.
    Text,
    /// For machines.
    Json,
}

/// What a configuration refers to outside itself.
pub struct Surroundings<'a> {
    /// What relative paths start from: the directory of the configuration file.
    pub base_dir: &'a Path,
    /// Reads a file the configuration names.
    pub read: &'a dyn Fn(&Path) -> io::Result<String>,
    /// Looks up an environment variable the configuration names.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

impl Default for Config {
    fn default() -> Config {
        let echo = ModelSpec::parse("echo/echo").expect("a provider and a model");
        Config {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7700)),
            data_dir: PathBuf::from("terret-data"),
            tokens: Tokens::default(),
            tokens_file: None,
            queue_limit: 256,
            queue_bytes: 4 << 20,
            heartbeat_s: 20,
            replay_limit: 10_000,
            max_concurrent_replays: 4,
            max_connections: None,
            max_agents: None,
            workers: None,
            history_bytes: 1 << 20,
            approvals: false,
            policy: Vec::new(),
            roles: BTreeMap::from([(MAIN_ROLE.to_owned(), echo)]),
            roles_scope: RolesScope::Service,
            cancel_stream: CancelStream::Abort,
            system_prompt: None,
            providers: BTreeMap::from([("echo".to_owned(), ProviderConfig::Echo)]),
            tools: Vec::new(),
            allowed_origins: Vec::new(),
            stop_grace_s: 0,
            resume_on_start: false,
            log_format: LogFormat::Text,
            log: LogConfig {
                sync: SyncMode::Always,
                segment_bytes: 4 << 20,
                keep_events: None,
                keep_days: None,
            },
        }
    }
}

/// The role that answers a turn.
pub const MAIN_ROLE: &str = "main";

impl Config {
    /// Reads a configuration; the error holds every problem, in the order of the lines.
    pub fn parse(text: &str, around: &Surroundings<'_>) -> Result<Config, Vec<Problem>> {
        let source = Source::new(text);
        let config = source.root().and_then(|root| read(&root, around));
        match (config, source.into_problems()) {
            (Some(config), problems) if problems.is_empty() => Ok(config),
            (_, problems) => Err(problems),
        }
    }

    /// The keys that differ from `running` and take effect only after a restart.
    pub fn warnings_against(&self, running: &Config) -> Vec<&'static str> {
        [
            ("listen", self.listen == running.listen),
            ("data_dir", self.data_dir == running.data_dir),
            ("workers", self.workers == running.workers),
            ("providers", self.providers == running.providers),
        ]
        .into_iter()
        .filter_map(|(key, same)| (!same).then_some(key))
        .collect()
    }
}

/// Reads `listen` and `--listen`: an address and a port, or `localhost` for 127.0.0.1.
pub fn parse_listen(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?))),
        None => text.parse().ok(),
    }
}

fn read(root: &Node<'_>, around: &Surroundings<'_>) -> Option<Config> {
    let mut fields = root.fields()?;
    let mut config = Config::default();
    let path = |node: &Node<'_>| {
        node.parsed("a path", |text| (!text.is_empty()).then(|| around.base_dir.join(text)))
    };
    let seconds = |node: &Node<'_>| node.whole(1..=WAIT_S_MAX);
    let count = |node: &Node<'_>| node.whole(1..=COUNT_MAX);

    config.data_dir = around.base_dir.join(config.data_dir);
    fields.set("listen", &mut config.listen, |node| {
        node.parsed("an address and a port such as \"127.0.0.1:7700\"", parse_listen)
    });
    fields.set("data_dir", &mut config.data_dir, path);
    fields.set("tokens", &mut config.tokens, Tokens::read);
    fields.set_nullable("tokens_file", &mut config.tokens_file, path);
    fields.set("queue_limit", &mut config.queue_limit, count);
    fields.set("queue_bytes", &mut config.queue_bytes, count);
    fields.set("heartbeat_s", &mut config.heartbeat_s, seconds);
    fields.set("replay_limit", &mut config.replay_limit, |node| node.whole(1..=u64::MAX));
    fields.set("max_concurrent_replays", &mut config.max_concurrent_replays, count);
    fields.set_nullable("max_connections", &mut config.max_connections, count);
    fields.set_nullable("max_agents", &mut config.max_agents, count);
    fields.set_nullable("workers", &mut config.workers, |node| node.whole(2..=WORKERS_MAX));
    fields.set("history_bytes", &mut config.history_bytes, |node| node.whole(0..=COUNT_MAX));
    fields.set("approvals", &mut config.approvals, Node::boolean);
    fields.set("policy", &mut config.policy, read_policy);
    fields.set("roles_scope", &mut config.roles_scope, |node| {
        node.one_of(&[("service", RolesScope::Service), ("agent", RolesScope::Agent)])
    });
    fields.set("cancel_stream", &mut config.cancel_stream, |node| {
        node.one_of(&[("abort", CancelStream::Abort), ("finish", CancelStream::Finish)])
    });
    fields.set_nullable("system_prompt", &mut config.system_prompt, Node::string);
    let named_providers = fields.optional("providers").and_then(|node| node.entries());
    for (name, node) in named_providers.iter().flatten() {
        if name.is_empty() || name.contains('/') {
            node.problem("the name of a provider is not empty and holds no `/`");
        }
        if let Some(provider) = ProviderConfig::read(node, around) {
            config.providers.insert(name.clone(), provider);
        }
    }
    let is_provider = |name: &str| {
        // One with a problem of its own is named nonetheless.
        name == "echo" || named_providers.iter().flatten().any(|(named, _)| named == name)
    };
    fields.set("roles", &mut config.roles, |node| read_roles(node, is_provider));
    fields.set("tools", &mut config.tools, |node| read_tools(node, around));
    fields.set("allowed_origins", &mut config.allowed_origins, |node| {
        node.list(|item| item.parsed(ORIGIN, read_origin))
    });
    fields.set("stop_grace_s", &mut config.stop_grace_s, |node| node.whole(0..=WAIT_S_MAX));
    fields.set("resume_on_start", &mut config.resume_on_start, Node::boolean);
    fields.set("log_format", &mut config.log_format, |node| {
        node.one_of(&[("text", LogFormat::Text), ("json", LogFormat::Json)])
    });
    if let Some(log) = fields.optional("log") {
        read_log(&log, &mut config.log);
    }
    fields.finish();
    Some(config)
}

const ORIGIN: &str = "an origin such as \"https://example.com\": scheme, host and port, no path";
/// Counts and sizes beyond this are slips; it fits a `usize` everywhere.
const COUNT_MAX: usize = u32::MAX as usize;
const WORKERS_MAX: usize = 1024;

fn read_log(node: &Node<'_>, log: &mut LogConfig) {
    let Some(mut fields) = node.fields() else { return };
    fields.set("sync", &mut log.sync, |node| {
        node.one_of(&[("always", SyncMode::Always), ("os", SyncMode::Os)])
    });
    let count = |node: &Node<'_>| node.whole(1..=u64::MAX);
    fields.set("segment_bytes", &mut log.segment_bytes, count);
    fields.set_nullable("keep_events", &mut log.keep_events, count);
    fields.set_nullable("keep_days", &mut log.keep_days, count);
    fields.finish();
}

fn read_policy(node: &Node<'_>) -> Option<Vec<String>> {
    let patterns = node.list(|item| {
        item.parsed("a glob of at most 256 characters", |text| {
            (text.chars().count() <= POLICY_PATTERN_CHARS_MAX).then(|| text.to_owned())
        })
    })?;
    if patterns.len() > POLICY_PATTERNS_MAX {
        node.problem(format!("expected at most {POLICY_PATTERNS_MAX} globs"));
        return None;
    }
    Some(patterns)
}

fn read_roles(
    node: &Node<'_>,
    is_provider: impl Fn(&str) -> bool,
) -> Option<BTreeMap<String, ModelSpec>> {
    let mut roles = BTreeMap::new();
    let entries = node.entries()?;
    if !entries.iter().any(|(role, _)| role == MAIN_ROLE) {
        node.problem(format!("`{MAIN_ROLE}` is missing"));
    }
    for (role, value) in entries {
        if role.is_empty() {
            value.problem("the name of a role is not empty");
        }
        let Some(spec) = value.parsed("\"PROVIDER/MODEL\"", ModelSpec::parse) else { continue };
        if !is_provider(&spec.provider) {
            value.problem("names a provider that is not configured");
        }
        roles.insert(role, spec);
    }
    Some(roles)
}

fn read_tools(node: &Node<'_>, around: &Surroundings<'_>) -> Option<Vec<ToolConfig>> {
    let mut tools: Vec<ToolConfig> = Vec::new();
    for item in node.items()? {
        let Some(tool) = ToolConfig::read(&item, around) else { continue };
        if tools.iter().any(|earlier| earlier.name == tool.name) {
            item.problem("a tool of this name is here already");
        }
        tools.push(tool);
    }
    Some(tools)
}

fn read_origin(text: &str) -> Option<String> {
    let (scheme, host) = text.split_once("://")?;
    let plain = |c: char| c.is_ascii_graphic() && !"/?#@*".contains(c);
    let valid =
        !scheme.is_empty() && !host.is_empty() && (scheme.chars().chain(host.chars())).all(plain);
    valid.then(|| text.to_ascii_lowercase())
}

#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(test)]
mod tests;
