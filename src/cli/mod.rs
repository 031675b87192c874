//! The command line: the only code that prints, exits or reads what a person types.
//!
//! [`run`] is the whole program as a function: its arguments, its environment and its three streams
//! come in as a [`World`], its exit status comes out.

mod args;
mod help;
mod output;
mod config_file;
mod note;
mod init;
mod serve;
mod demo;
mod attach;
mod log;
mod sessions;
mod check;
mod token;

use std::fmt;
use std::io::{self, BufRead};
use std::path::Path;
use std::sync::Arc;

use self::args::Command;
pub use self::output::Output;
use crate::disk::StoreError;
use crate::proto::ident::SessionId;

/// Looks up an environment variable.
pub type Env = dyn Fn(&str) -> Option<String> + Send + Sync;

/// What the program can see and touch of the process it runs in.
pub struct World {
    /// How it was called, to show commands that can be pasted.
    pub program: String,
    /// Its number; 1 in a container that has no other first process.
    pub process: u32,
    /// The environment.
    pub env: Arc<Env>,
    /// What is typed or piped in.
    pub stdin: Box<dyn BufRead + Send>,
    /// Whether a person types it, who already sees it.
    pub stdin_is_terminal: bool,
    /// What was asked for.
    pub stdout: Output,
    /// Whether colours can be shown there.
    pub stdout_is_terminal: bool,
    /// Everything else: errors, notices, the server's log.
    pub stderr: Output,
}

impl World {
    /// Whether what was asked for is shown in colours: on a terminal, unless `NO_COLOR` forbids it
    /// (<https://no-color.org>: any value but an empty one).
    fn shows_colours(&self) -> bool {
        let forbidden = (self.env)("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.stdout_is_terminal && !forbidden
    }
}

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// As it should.
    Fine,
    /// The thing asked about is bad.
    Bad,
    /// The command line cannot be understood.
    Usage,
    /// The address to listen on is in use.
    AddressInUse,
    /// The disk failed.
    DiskFailed,
    /// The data directory belongs to another process.
    Locked,
    /// As the server did, which ran as a process of its own.
    Server(u8),
}

impl Status {
    /// The exit status (design/interface, "Command line"; 64 and up follow BSD's `sysexits.h`).
    pub fn code(self) -> u8 {
        match self {
            Status::Fine => 0,
            Status::Bad => 1,
            Status::Usage => 2,
            Status::AddressInUse => 69,
            Status::DiskFailed => 74,
            Status::Locked => 75,
            Status::Server(code) => code,
        }
    }
}

/// Runs the program. `words` are its arguments without its name.
pub fn run(words: &[String], world: World) -> Status {
    let stderr = world.stderr.clone();
    let done = match args::parse(words.iter().cloned()) {
        Ok(Command::Serve(serve)) if world.process == init::FIRST_PROCESS => {
            match init::run(words) {
                Ok(status) => return status,
                Err(error) => {
                    // It serves all the same, without anybody to wait for what others leave behind.
                    let why = "the server cannot run as a process of its own";
                    let _told = stderr.print(format!("terret-ws: {why}: {error}\n"));
                    serve::run(serve, world)
                }
            }
        }
        Ok(command) => obey(command, world),
        Err(wrong) => Err(Failure::new(Status::Usage, wrong)),
    };
    let Err(failure) = done else { return Status::Fine };
    if let Some(message) = failure.message {
        // When nobody can be told why, the status is all that is left.
        let _told = stderr.print(format!("terret-ws: {message}\n"));
    }
    failure.status
}

fn obey(command: Command, world: World) -> Result<(), Failure> {
    match command {
        Command::Serve(serve) => serve::run(serve, world),
        Command::Demo => demo::run(&world),
        Command::Attach(attach) => attach::run(&attach, world),
        Command::Log(log) => log::run(&log, &world),
        Command::Verify { session, data_dir } => log::verify(session.as_ref(), &data_dir, &world),
        Command::Repair { session, data_dir, yes } => log::repair(&session, &data_dir, yes, world),
        Command::Sessions { data_dir } => sessions::list(&data_dir, &world),
        Command::Delete { session, data_dir, yes } => {
            sessions::delete(&session, &data_dir, yes, world)
        }
        Command::Check { config } => check::run(&config, &world),
        Command::Token { session } => token::run(&session, &world),
        Command::Help(topic) => Ok(world.stdout.print(topic.text())?),
        Command::Version => {
            Ok(world.stdout.print(concat!("terret-ws ", env!("CARGO_PKG_VERSION"), "\n"))?)
        }
    }
}

/// Why a command did not do what was asked, and the exit status.
#[derive(Debug)]
struct Failure {
    status: Status,
    /// One line that says what to do; none when everything has been said.
    message: Option<String>,
}

impl Failure {
    fn new(status: Status, message: impl fmt::Display) -> Failure {
        Failure { status, message: Some(message.to_string()) }
    }

    fn bad(message: impl fmt::Display) -> Failure {
        Failure::new(Status::Bad, message)
    }

    /// The thing asked about is bad, and how has been printed.
    fn shown() -> Failure {
        Failure { status: Status::Bad, message: None }
    }
}

impl From<io::Error> for Failure {
    /// An error of one of the three streams.
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            // `terret-ws log s1 | head` has got all it wants.
            return Failure { status: Status::Fine, message: None };
        }
        Failure::bad(format!("cannot print: {error}"))
    }
}

/// A place in the data directory that cannot be read, or a directory without one.
fn unreadable(what: &str, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::NotFound {
        return Failure::bad(format!(
            "{what} holds no sessions: name the directory of a server with --data-dir"
        ));
    }
    Failure::new(Status::DiskFailed, format!("{what} cannot be read: {error}"))
}

/// The same for one session.
fn unreadable_session(session: &SessionId, data_dir: &Path, error: &io::Error) -> Failure {
    unreadable(&format!("{session} in {}", data_dir.display()), error)
}

/// A session that cannot be had to change it.
fn unopened(session: &SessionId, data_dir: &Path, error: &StoreError) -> Failure {
    match error {
        StoreError::Locked { pid } => locked(data_dir, *pid),
        StoreError::Io(error) => unreadable_session(session, data_dir, error),
    }
}

fn no_session(session: &SessionId, data_dir: &Path) -> Failure {
    let data_dir = data_dir.display();
    Failure::bad(format!(
        "there is no session {session} in {data_dir}; \
         `terret-ws sessions --data-dir {data_dir}` lists them"
    ))
}

/// Another process has the data directory.
fn locked(data_dir: &Path, pid: Option<u32>) -> Failure {
    let who = pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
    let shown = data_dir.display();
    Failure::new(Status::Locked, format!("{shown} is served by {who}: stop it first"))
}

/// Asks before something is done that cannot be undone.
fn confirmed(question: &str, world: &mut World) -> io::Result<bool> {
    world.stderr.print(format!("{question} Type yes: "))?;
    let mut answer = String::new();
    world.stdin.read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}

fn in_lines(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests;
