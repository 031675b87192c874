//! The server as its users have it: the binary, a config file, a folder, signals and exit codes.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Client, PATIENCE, eventually, http};

/// The token a test's config gives a session unless it says otherwise.
pub(crate) fn token(session: &str) -> String {
    format!("token-of-{session}")
}

/// A configuration that listens on a free port and has a token for each of `sessions`; the keys of
/// `more` are laid over it.
pub(crate) fn config(sessions: &[&str], more: &Value) -> Value {
    let tokens: serde_json::Map<String, Value> =
        sessions.iter().map(|id| ((*id).to_owned(), json!(token(id)))).collect();
    let mut config = json!({"listen": "127.0.0.1:0", "tokens": tokens});
    let keys = config.as_object_mut().unwrap();
    keys.extend(more.as_object().unwrap().clone());
    config
}

/// The binary under test.
pub(crate) fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terret-ws"));
    command.stdin(Stdio::null());
    command
}

/// The binary under a limit that a shell sets, such as `ulimit -n 64`.
pub(crate) fn limited(limit: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{limit} && exec \"$0\" \"$@\""));
    command.arg(env!("CARGO_BIN_EXE_terret-ws")).stdin(Stdio::null());
    command
}

/// Runs the binary to its end in `folder`.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    let child = binary()
        .args(arguments)
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    finish(child)
}

/// Waits for a process that ends by itself, and kills it by its id where it does not.
pub(crate) fn finish(child: Child) -> Output {
    let id = child.id();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(PATIENCE) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            signal(id, "KILL");
            panic!("process {id} did not end; the output it had: {:?}", receiver.recv());
        }
    }
}

/// Sends a signal by name; std has no call for it, and tests hold no unsafe code.
pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("sh").arg("-c").arg(format!("kill -{name} {pid}")).status().unwrap();
    assert!(status.success(), "kill -{name} {pid}");
}

/// A running server; dropping it kills exactly this process.
pub(crate) struct Server {
    child: Child,
    addr: SocketAddr,
    folder: Arc<TempDir>,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
}

impl Server {
    /// Starts in a folder of its own; see [`config`] for what `sessions` and `more` become.
    pub(crate) fn start(sessions: &[&str], more: &Value) -> Self {
        Self::start_in(Arc::new(TempDir::new().unwrap()), sessions, more)
    }

    /// Starts in a folder that may hold what an earlier server left.
    pub(crate) fn start_in(folder: Arc<TempDir>, sessions: &[&str], more: &Value) -> Self {
        let path = folder.path().join("config.json");
        fs::write(&path, config(sessions, more).to_string()).unwrap();
        let mut command = binary();
        command.args(["serve", "--config", "config.json"]);
        Self::launch(command, folder)
    }

    /// Runs `command` in `folder` and waits for its `listening on` line.
    pub(crate) fn launch(command: Command, folder: Arc<TempDir>) -> Self {
        let (mut server, pipe) = Self::launch_unread(command, folder);
        server.stderr = collect(pipe);
        server
    }

    /// The same, with nobody to read what it writes to standard error but the caller.
    pub(crate) fn launch_unread(mut command: Command, folder: Arc<TempDir>) -> (Self, ChildStderr) {
        let mut child = command
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = collect(child.stdout.take().unwrap());
        let mut stderr = child.stderr.take().unwrap();
        let first_line = eventually("the `listening on` line", || {
            let text = stdout.lock().unwrap();
            let line = text.lines().next().filter(|_| text.contains('\n')).map(str::to_owned);
            line.or_else(|| child.try_wait().unwrap().map(|status| status.to_string()))
        });
        let Some(addr) = first_line.strip_prefix("listening on ").and_then(|s| s.parse().ok())
        else {
            let mut said = String::new();
            stderr.read_to_string(&mut said).unwrap();
            panic!("the server did not say where it listens: {first_line:?}\n{said}");
        };
        (Self { child, addr, folder, stdout, stderr: Arc::default() }, stderr)
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The folder the server runs in, for a successor or for the command line.
    pub(crate) fn folder(&self) -> Arc<TempDir> {
        Arc::clone(&self.folder)
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.folder.path().join("terret-data")
    }

    /// What the server has written to standard output so far.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.lock().unwrap().clone()
    }

    /// What the server has written to standard error so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Connects with the session's own token and takes the `hello`.
    pub(crate) fn connect(&self, session: &str) -> Client {
        Client::connect(self.addr, session, &token(session))
    }

    /// Connects, subscribes from 0 and takes the events up to the tip.
    pub(crate) fn subscribed(&self, session: &str) -> Client {
        let mut client = self.connect(session);
        client.subscribe(0);
        client.events_to(client.last_seq());
        client
    }

    /// What `GET /agents/{session}` says.
    pub(crate) fn state(&self, session: &str) -> Value {
        http::get(self.addr, &format!("/agents/{session}"), Some(&token(session))).json()
    }

    /// Waits until a client of `session` is connected, or is not.
    pub(crate) fn expect_connected(&self, session: &str, connected: bool) {
        eventually("a client to come or go", || {
            let path = format!("/agents/{session}");
            let answer = http::get(self.addr, &path, Some(&token(session)));
            // There is no such session before its first connection.
            let found = answer.status == 200 && answer.json()["connected"] == true;
            (found == connected).then_some(())
        });
    }

    /// The highest seq once the agent is idle and its log has grown beyond `above`.
    pub(crate) fn idle_tip(&self, session: &str, above: u64) -> u64 {
        eventually("an idle agent", || {
            let state = self.state(session);
            let tip = state["last_seq"].as_u64().unwrap();
            (state["status"] == "idle" && tip > above).then_some(tip)
        })
    }

    /// Waits until the server's log, in answer to `cause`, has named `word` once more.
    pub(crate) fn expect_complaint(&self, word: &str, cause: impl FnOnce()) {
        let before = self.stderr().matches(word).count();
        cause();
        eventually("a complaint in the server's log", || {
            (self.stderr().matches(word).count() > before).then_some(())
        });
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// The end of a process that has been told to end.
    pub(crate) fn exit(&mut self) -> ExitStatus {
        eventually("the server's exit", || self.child.try_wait().unwrap())
    }

    /// SIGTERM, which `client` is told of and which ends the process in order.
    pub(crate) fn stop(&mut self, mut client: Client) {
        self.signal("TERM");
        client.expect_close(1001);
        drop(client);
        assert_eq!(self.exit().code(), Some(0));
    }

    /// `kill -9`, reaped, so that what follows finds the process gone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Resident memory in KiB, as the kernel counts it.
    pub(crate) fn resident_kib(&self) -> u64 {
        self.counted("status", "VmRSS:")
    }

    /// The most that it ever was.
    pub(crate) fn peak_resident_kib(&self) -> u64 {
        self.counted("status", "VmHWM:")
    }

    /// Bytes that it has read so far, of whatever.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.counted("io", "rchar:")
    }

    fn counted(&self, file: &str, key: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let ended = matches!(self.child.try_wait(), Ok(Some(_)));
        if !ended {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
        if thread::panicking() {
            eprintln!("-- the server's log:\n{}", self.stderr());
        }
    }
}

/// Gathers a pipe as it comes, so that the process never blocks on it.
pub(crate) fn collect(pipe: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&text);
    thread::spawn(move || {
        let mut lines = BufReader::new(pipe);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
            sink.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
    text
}
