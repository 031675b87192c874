//! The server process under load, and what the kernel says that it used.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A running server; dropping it kills it.
pub(crate) struct Server {
    child: Child,
    pub(crate) addr: SocketAddr,
    _folder: TempDir,
}

/// The name of the n-th agent. Its token is `token-of-` and the name.
pub(crate) fn agent(number: usize) -> String {
    format!("agent-{number}")
}

impl Server {
    /// A server with so many agents, whose model answers with `steps`, one after the other, over and
    /// over.
    pub(crate) fn start(agents: usize, steps: &[Value], more: &Value) -> Self {
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
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("config.json");
        fs::write(&path, config.to_string()).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_terret-ws"))
            .args(["serve", "--config"])
            .arg(&path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let addr = line.trim().strip_prefix("listening on ").expect("it says where it listens");
        Self { addr: addr.parse().unwrap(), child, _folder: folder }
    }

    /// CPU time of all its threads so far, in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
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

    /// What `/metrics` says under this name.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let mut stream = TcpStream::connect(self.addr).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: load\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.expect("it is there").parse().unwrap()
    }

    /// Its resident memory, in bytes.
    pub(crate) fn resident_bytes(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
