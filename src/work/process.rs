//! The process of a tool: a worker starts it, the reactor watches it, and either may end it.
//!
//! Knows no call and no pipe's content. Invariants: a process is recorded under `running/` before its
//! program runs and until nothing of its group is left; a group that nobody holds any more is killed,
//! and all that are recorded when this process dies, however it dies.

use super::watchdog::Watchdog;
use crate::disk::running::Record;
use crate::os::{self, SIGKILL, SIGTERM};
use crate::tool::ending::Ending;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use std::sync::Arc;

/// The process of a tool that was started.
#[derive(Debug)]
pub struct Process {
    child: Child,
    exit: OwnedFd,
    group: Group,
}

/// Our ends of its standard streams.
#[derive(Debug)]
pub struct Pipes {
    /// What it reads.
    pub stdin: ChildStdin,
    /// What it writes.
    pub stdout: ChildStdout,
    /// What it complains about.
    pub stderr: ChildStderr,
}

/// A process group of a tool. Dropping it kills what is left of it.
#[derive(Debug)]
pub struct Group {
    number: i32,
    /// None once it is over.
    trace: Option<Trace>,
}

/// What a process group leaves when it is over.
#[derive(Debug)]
pub struct Trace {
    pub(super) record: Record,
    /// It ends with the last of them.
    pub(super) _watchdog: Option<Arc<Watchdog>>,
}

impl Process {
    /// Of a child that leads its own group and has pipes for its standard streams.
    pub(super) fn new(mut child: Child, trace: Trace) -> io::Result<(Self, Pipes)> {
        let number = i32::try_from(child.id()).expect("a process number is a positive i32");
        let group = Group { number, trace: Some(trace) };
        let exit = match os::pidfd_open(child.id()) {
            Ok(exit) => exit,
            Err(error) => {
                group.kill();
                // A process that was killed is waited for in no time; nothing else could reap it.
                child.wait()?;
                group.over().remove().ok();
                return Err(error);
            }
        };
        let taken = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = taken else {
            unreachable!("all three were asked for as pipes")
        };
        Ok((Self { child, exit, group }, Pipes { stdin, stdout, stderr }))
    }

    /// A descriptor that becomes readable when the process has ended.
    pub fn exit_fd(&self) -> RawFd {
        self.exit.as_raw_fd()
    }

    /// Asks everything in the group to end.
    pub fn end(&self) {
        self.group.signal(SIGTERM);
    }

    /// Ends everything in the group, and the process itself wherever it went.
    pub fn kill(&mut self) {
        self.group.signal(SIGKILL);
        // It fails when the process was waited for; then there is nothing to kill.
        self.child.kill().ok();
    }

    /// How it ended, if it has. It is no zombie afterwards, and what is left is its group.
    pub fn reap(&mut self) -> Option<Ending> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(match (status.code(), status.signal()) {
                (Some(code), _) => Ending::Exited(code),
                (None, Some(signal)) => Ending::Killed(signal),
                (None, None) => Ending::Unknown,
            }),
            Err(_) => Some(Ending::Unknown),
        }
    }

    /// What may be left of a process that was reaped.
    pub fn into_group(self) -> Group {
        self.group
    }
}

impl Group {
    /// Asks everything in it to end.
    pub fn end(&self) {
        self.signal(SIGTERM);
    }

    /// Ends everything in it.
    pub fn kill(&self) {
        self.signal(SIGKILL);
    }

    /// Whether a process is left in it.
    pub fn exists(&self) -> bool {
        os::group_exists(self.number)
    }

    /// Its trace, once nothing is left to look for: the group is not killed any more, for its number
    /// may be another's from here on.
    pub fn over(mut self) -> Trace {
        self.trace.take().expect("a group has its trace until it is over")
    }

    fn signal(&self, signal: u8) {
        // An error says that nothing is left to get it.
        os::signal_group(self.number, signal).ok();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.trace.is_some() {
            self.kill();
        }
    }
}

impl Trace {
    /// Removes it. To be called where a file may be touched and a process waited for.
    pub fn remove(self) -> io::Result<()> {
        self.record.remove()
    }
}
