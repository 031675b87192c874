//! The server processes under load, and what the kernel says that they used.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Names a server to measure in place of the one that is built for it.
const BINARY: &str = "TERRET_BENCH_BIN";
/// Where things are compared, the core that every server runs on, and nothing else of ours.
const SERVER_CORE: usize = 0;
/// How long a server has to come to rest before its time is read.
const REST: Duration = Duration::from_millis(20);

/// A process that serves; dropping it kills it.
pub(crate) struct Process {
    child: Child,
    pub(crate) addr: SocketAddr,
}

/// A running server of ours.
pub(crate) struct Server {
    process: Process,
    _folder: Option<TempDir>,
}

/// The name of the n-th agent. Its token is `token-of-` and the name.
pub(crate) fn agent(number: usize) -> String {
    format!("agent-{number}")
}

/// The server that is measured: the one of the variable, or what `cargo build --release` makes. With
/// `short` the one that cargo has just built beside this bench, which is the same but for its profile.
pub(crate) fn binary(short: bool) -> PathBuf {
    if let Some(path) = env::var_os(BINARY) {
        return path.into();
    }
    let beside = PathBuf::from(env!("CARGO_BIN_EXE_terret-ws"));
    if short {
        return beside;
    }
    // Both profiles build into one folder under one name, so this takes the place of the other.
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--bin", "terret-ws"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(built.success(), "cargo build --release failed");
    beside
}

/// The program, to be run on the servers' core.
pub(crate) fn on_server_core(program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &SERVER_CORE.to_string()]).arg(program);
    command
}

/// Keeps this process, which is all the clients, off the core of the servers.
pub(crate) fn leave_the_server_core() {
    let cores = thread::available_parallelism().unwrap().get();
    if cores > 1 {
        let others = format!("{}-{}", SERVER_CORE + 1, cores - 1);
        let own = std::process::id().to_string();
        let pinned = Command::new("taskset").args(["-apc", &others, &own]).output();
        assert!(pinned.is_ok_and(|output| output.status.success()), "util-linux has taskset");
    }
}

impl Process {
    /// Starts a program whose first line says where it listens.
    pub(crate) fn start(program: &mut Command) -> Self {
        let mut child = program.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let addr = line.trim().strip_prefix("listening on ").expect("it says where it listens");
        Self { addr: addr.parse().unwrap(), child }
    }

    /// CPU time of all its threads so far, in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        // Of a thread that runs, the kernel counts the time only now and then.
        thread::sleep(REST);
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let mut sum_ns = 0_u64;
        for task in tasks {
            // A thread that has ended meanwhile counts no more.
            let Ok(stat) = fs::read_to_string(task.unwrap().path().join("schedstat")) else {
                continue;
            };
            sum_ns += stat.split(' ').next().unwrap().parse::<u64>().unwrap();
        }
        sum_ns as f64 / 1e3
    }

    /// Its resident memory, in bytes.
    pub(crate) fn resident_bytes(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Server {
    /// A server with so many agents, whose model answers with `steps`, one after the other, over and
    /// over.
    pub(crate) fn start(binary: &Path, agents: usize, steps: &[Value], more: &Value) -> Self {
        let folder = TempDir::new().unwrap();
        let process = Self::run(Command::new(binary), folder.path(), agents, steps, more);
        Self { process, _folder: Some(folder) }
    }

    /// The same on the servers' core, in a folder with what is there; the caller keeps it.
    pub(crate) fn start_in(
        folder: &Path,
        binary: &Path,
        agents: usize,
        steps: &[Value],
        more: &Value,
    ) -> Self {
        let process = Self::run(on_server_core(binary), folder, agents, steps, more);
        Self { process, _folder: None }
    }

    fn run(
        mut program: Command,
        folder: &Path,
        agents: usize,
        steps: &[Value],
        more: &Value,
    ) -> Process {
        let tokens: serde_json::Map<String, Value> = (0..agents)
            .map(|number| (agent(number), format!("token-of-{}", agent(number)).into()))
            .collect();
        let mut config = json!({
            "listen": "127.0.0.1:0",
            "tokens": tokens,
            // What is measured is the server and not the disk, which has a bench of its own.
            "log": {"sync": "os"},
            "providers": {"script": {"kind": "scripted", "steps": steps, "repeat": true}},
            "roles": {"main": "script/m"},
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let path = folder.join("config.json");
        fs::write(&path, config.to_string()).unwrap();
        Process::start(program.args(["serve", "--config"]).arg(&path))
    }

    /// What `/metrics` says under this name.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let mut stream = TcpStream::connect(self.addr).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: load\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.expect("it is there").parse().unwrap()
    }
}

impl Deref for Server {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}
