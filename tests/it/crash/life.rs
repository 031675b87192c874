//! The lives and deaths of one directory's servers, from the seed's first to its last.

use std::fmt;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::book::Book;
use super::last;
use super::plan::{Death, Plan};
use super::player::{Player, Shared};
use crate::harness::{Server, server};
use crate::sim::random::Random;

/// One seed.
pub(super) struct Run {
    plan: Plan,
    random: Random,
    folder: Arc<TempDir>,
    shared: Shared,
    tally: Tally,
}

/// How much has happened.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    pub(super) deaths: usize,
    pub(super) events: u64,
    pub(super) texts: usize,
    pub(super) turns: u64,
    /// Ends of logs that were torn.
    pub(super) torn: usize,
    /// Events that were too old to be kept.
    pub(super) removed: usize,
}

/// What makes a server process 1 of a namespace with a `/proc` of its own, and kills it with whoever
/// waits for it.
const UNSHARE: [&str; 4] = ["--pid", "--fork", "--mount-proc", "--kill-child"];

/// What follows a server's calls of these kinds, and kills it at the n-th that a thread of it makes.
const CALLS: &str = "pwrite64,fdatasync,fsync,ftruncate,rename,unlink";
/// Calls of one thread before its server may die: it must come to where clients can reach it.
const CALLS_MIN: usize = 6;
const CALLS_MAX: usize = 40;

/// Why servers cannot die like this here; nothing if they can.
pub(super) fn missing(death: Death) -> Option<String> {
    let mut command = match death {
        Death::Kill | Death::Term => return None,
        Death::ProcessOne => unshare(),
        Death::Call => strace(CALLS_MAX),
    };
    match command.arg("true").output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(UNSHARE);
    command
}

fn strace(call: usize) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qqq", "-o", "/dev/null"]);
    command.arg(format!("--trace={CALLS}"));
    command.arg(format!("--inject={CALLS}:signal=KILL:when={call}"));
    command
}

impl Run {
    pub(super) fn new(plan: Plan, random: Random) -> Self {
        let folder = Arc::new(TempDir::new().unwrap());
        let sessions: Vec<&str> = plan.sessions.iter().map(String::as_str).collect();
        let config = server::config(&sessions, &plan.config).to_string();
        fs::write(folder.path().join("config.json"), config).unwrap();
        let (shared, tally) = (Shared::default(), Tally::default());
        Self { plan, random, folder, shared, tally }
    }

    /// Lets clients talk while so many servers die, and then sees what has become of everything.
    pub(super) fn run(mut self, rounds: usize) -> Tally {
        let sessions = self.plan.sessions.clone();
        let books: Vec<Mutex<Book>> =
            sessions.iter().map(|session| Mutex::new(Book::new(session))).collect();
        let shared = std::mem::take(&mut self.shared);
        thread::scope(|scope| {
            // However this ends, the players do too.
            let over = Over(&shared);
            for book in &books {
                let random = self.random.fork();
                let player = Player { shared: &shared, book, random };
                scope.spawn(move || player.run());
            }
            for _ in 0..rounds {
                self.round(&shared, &books);
                if shared.broken.load(Ordering::Relaxed) {
                    break;
                }
            }
            drop(over);
        });
        let mut books: Vec<Book> =
            books.into_iter().map(|book| book.into_inner().unwrap()).collect();
        let command = match self.plan.death {
            // Nobody kills the last one.
            Death::Call => server::binary(),
            _ => self.command(),
        };
        self.tally.removed = last::life(&self.plan, self.start(command), &mut books);
        let overlaps = fs::read_to_string(self.folder.path().join("overlaps")).unwrap_or_default();
        assert_eq!(overlaps, "", "a call ran beside the orphan of a dead server");
        for book in &books {
            self.tally.events += book.next();
            self.tally.texts += book.texts();
            self.tally.turns += book.turns();
        }
        self.tally
    }

    /// One server's life.
    fn round(&mut self, shared: &Shared, books: &[Mutex<Book>]) {
        if self.random.chance(15) {
            self.stillbirth();
        }
        let command = self.command();
        let mut server = self.start(command);
        *shared.addr.lock().unwrap() = Some(server.addr());
        self.wait(&server, shared);
        self.end(&mut server);
        *shared.addr.lock().unwrap() = None;
        self.tally.deaths += 1;
        self.tally.torn += server.stderr().matches("torn").count();
        for book in books {
            // Whoever holds a broken book has said why.
            if let Ok(book) = book.lock() {
                book.check_survivors(&server.data_dir(), self.plan.keep_events);
            }
        }
    }

    /// The server, perhaps behind a program that runs it.
    fn command(&mut self) -> Command {
        let mut command = match self.plan.death {
            Death::Kill | Death::Term => return server::binary(),
            Death::ProcessOne => unshare(),
            Death::Call => strace(CALLS_MIN + self.random.below(CALLS_MAX - CALLS_MIN)),
        };
        command.arg(env!("CARGO_BIN_EXE_terret-ws")).stdin(Stdio::null());
        command
    }

    fn start(&self, mut command: Command) -> Server {
        command.args(["serve", "--config", "config.json"]);
        Server::launch(command, Arc::clone(&self.folder))
    }

    /// A server that dies before anybody could talk to it.
    fn stillbirth(&mut self) {
        let mut command = server::binary();
        command.args(["serve", "--config", "config.json"]).current_dir(self.folder.path());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_micros(self.random.below(15_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        self.tally.deaths += 1;
    }

    /// Waits for the moment: a time, or so many more events. However long it takes for these to
    /// come, it is not waited for long.
    fn wait(&mut self, server: &Server, shared: &Shared) {
        let start = Instant::now();
        if self.plan.death == Death::Call {
            // It dies of its own accord, unless so many calls take too long to come.
            while start.elapsed() < Duration::from_secs(2) && !server.children().is_empty() {
                thread::sleep(Duration::from_millis(1));
            }
            return;
        }
        let time = Duration::from_micros(self.random.below(250_000) as u64);
        let seen = shared.seen.load(Ordering::Relaxed);
        let (time, seen) = if self.random.chance(50) {
            (time, usize::MAX)
        } else {
            (Duration::from_millis(300), seen + self.random.below(150))
        };
        while start.elapsed() < time
            && shared.seen.load(Ordering::Relaxed) < seen
            && !shared.broken.load(Ordering::Relaxed)
        {
            thread::sleep(Duration::from_micros(50));
        }
    }

    fn end(&mut self, server: &mut Server) {
        let terminates = match self.plan.death {
            Death::Kill | Death::Call => false,
            Death::Term => true,
            Death::ProcessOne => self.random.chance(50),
        };
        let process = self.plan.death.process(server);
        if terminates {
            let process = process.expect("it runs");
            server::signal(process, "TERM");
            if self.random.chance(85) {
                assert_eq!(server.exit().code(), Some(0), "{}", server.stderr());
                return;
            }
            thread::sleep(Duration::from_micros(self.random.below(20_000) as u64));
        }
        match self.plan.death {
            Death::Kill | Death::Term => server.kill(),
            Death::ProcessOne | Death::Call => {
                if let Some(process) = process.filter(|it| server.children().contains(it)) {
                    // It may have ended by now, which kill then complains of.
                    let kill = format!("kill -KILL {process}");
                    Command::new("sh").arg("-c").arg(kill).output().unwrap();
                }
                server.exit();
            }
        }
    }
}

/// Lets the players stop when it goes.
struct Over<'a>(&'a Shared);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

impl Death {
    /// The number of the server's own process, not of whoever waits for it; nothing if it has ended.
    pub(super) fn process(self, server: &Server) -> Option<u32> {
        match self {
            Self::ProcessOne | Self::Call => server.children().first().copied(),
            Self::Kill | Self::Term => Some(server.pid()),
        }
    }
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.deaths += other.deaths;
        self.events += other.events;
        self.texts += other.texts;
        self.turns += other.turns;
        self.torn += other.torn;
        self.removed += other.removed;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deaths, events, texts, turns, torn, removed } = self;
        write!(
            f,
            "{deaths} deaths, {events} events ({removed} removed), {texts} texts, {turns} turns, \
             {torn} torn ends"
        )
    }
}
