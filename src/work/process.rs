//! The process of a tool: a worker starts it, the reactor watches it, and either may end it.
//!
//! Knows no call and no pipe's content. Invariants: a process is recorded under `running/` before its
//! program runs and until nothing of its group is left; a group that nobody holds any more is killed.

use crate::config::ToolConfig;
pub use crate::disk::running::Record;
use crate::disk::running::Running;
use crate::os::{self, SIGKILL, SIGTERM};
use crate::proto::ident::SessionId;
use crate::tool::ending::Ending;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

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
    record: Option<Record>,
}

impl Process {
    /// Starts the program of `tool` in a group of its own, with nothing of this process but its
    /// directory. The thread that calls must live as long as the process: see [`os::bind_child`].
    ///
    /// # Errors
    /// What the system said: the program is not there or may not run, it cannot be recorded, or a
    /// resource is short.
    pub fn start(
        tool: &ToolConfig,
        session: &SessionId,
        call_id: &str,
        running: &Running,
        name: u64,
    ) -> io::Result<(Self, Pipes)> {
        let (program, args) = tool.command.split_first().expect("a configured command has words");
        let (record, file) = running.record(name)?;
        let mut command = Command::new(program);
        command.args(args).env_clear().process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let kept = KEPT.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
        command.envs(kept);
        command.envs(tool.env.iter().map(|(name, value)| (name, value.expose())));
        // Last: a configured variable must not pretend to be another call.
        command.env("TERRET_SESSION_ID", session.as_str());
        // A provider's id may hold anything, but no environment holds a NUL.
        command.env("TERRET_CALL_ID", call_id.replace('\0', ""));
        if let Some(dir) = &tool.cwd {
            command.current_dir(dir);
        }
        os::bind_child(&mut command, file.into());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                // The record names a process that ended before it ran anything; whether it can be
                // removed matters to nobody, for the next start removes it too.
                record.remove().ok();
                return Err(error);
            }
        };
        let number = i32::try_from(child.id()).expect("a process number is a positive i32");
        let group = Group { number, record: Some(record) };
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

    /// Its record, once nothing is left to look for: the group is not killed any more, for its number
    /// may be another's from here on.
    pub fn over(mut self) -> Record {
        self.record.take().expect("a group has its record until it is over")
    }

    fn signal(&self, signal: u8) {
        // An error says that nothing is left to get it.
        os::signal_group(self.number, signal).ok();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.record.is_some() {
            self.kill();
        }
    }
}

/// Kills what an earlier server left running of its tools: a call that is owed runs again, and must not
/// run beside itself. A process that was sent SIGKILL runs no instruction of its program any more.
///
/// # Errors
/// The records or the processes cannot be looked at, or a group may not be killed.
pub fn end_orphans(running: &Running) -> io::Result<()> {
    for number in running.orphans()? {
        if let Err(error) = os::signal_group(number, SIGKILL)
            && os::group_exists(number)
        {
            return Err(error);
        }
    }
    running.clear()
}

/// What a tool gets of this process's environment.
const KEPT: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;
    use std::io::Read;

    /// Runs a shell command as a tool, and calls `then` with its process and what it wrote.
    fn run(script: &str, then: impl FnOnce(Process, &Running, &str)) {
        let dir = tempfile::tempdir().expect("a directory");
        let running = Running::new(dir.path());
        let mut tool = ToolConfig::new("t", vec!["sh".into(), "-c".into(), script.into()]);
        tool.env = vec![
            ("KEY".to_owned(), Secret::new("value")),
            ("TERRET_CALL_ID".to_owned(), Secret::new("forged")),
        ];
        tool.cwd = Some(dir.path().to_owned());
        let session = SessionId::parse("s1").expect("a session id");
        let (process, mut pipes) =
            Process::start(&tool, &session, "c\0 1", &running, 7).expect("a shell");
        drop(pipes.stdin);
        let mut written = String::new();
        pipes.stdout.read_to_string(&mut written).expect("text");
        then(process, &running, &written);
    }

    fn ending(process: &mut Process) -> Ending {
        process.child.wait().expect("it was not waited for");
        process.reap().expect("it has ended")
    }

    #[test]
    fn a_process_has_its_own_environment_and_no_other() {
        run("env; pwd", |mut process, _, written| {
            assert_eq!(ending(&mut process), Ending::Exited(0));
            let names: Vec<&str> =
                written.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
            // A shell adds these by itself.
            let known =
                ["PWD", "OLDPWD", "SHLVL", "_", "KEY", "TERRET_SESSION_ID", "TERRET_CALL_ID"];
            assert!(
                names.iter().all(|name| KEPT.contains(name) || known.contains(name)),
                "{names:?}"
            );
            for line in ["KEY=value", "TERRET_SESSION_ID=s1", "TERRET_CALL_ID=c 1"] {
                assert!(written.lines().any(|l| l == line), "{line} in {written}");
            }
        });
    }

    #[test]
    fn a_process_is_recorded_before_its_program_runs_and_until_its_group_is_over() {
        // The shell shows its own record.
        run("cat running/*; sleep 1000 > /dev/null & exit 3", |mut process, running, written| {
            let number = process.group.number;
            assert!(written.starts_with(&format!("{number} (")), "{written}");
            assert_eq!(ending(&mut process), Ending::Exited(3));
            let group = process.into_group();
            assert!(group.exists(), "what it left behind may go on");
            assert_eq!(running.orphans().expect("records"), [number]);
            group.kill();
            group.over().remove().expect("the record is still there");
            assert_eq!(running.orphans().expect("records"), [0; 0]);
        });
    }

    #[test]
    fn a_process_that_nobody_holds_any_more_is_killed() {
        run("exec > /dev/null; sleep 1000", |process, _, _| {
            let Process { mut child, exit: _, group } = process;
            drop(group);
            let status = child.wait().expect("it was not waited for");
            assert_eq!(status.signal(), Some(i32::from(SIGKILL)));
        });
    }

    #[test]
    fn what_cannot_be_started_leaves_no_record() {
        let dir = tempfile::tempdir().expect("a directory");
        let running = Running::new(dir.path());
        let session = SessionId::parse("s1").expect("a session id");
        for program in ["/no/such", "/", "a\0b"] {
            let tool = ToolConfig::new("t", vec![program.into()]);
            Process::start(&tool, &session, "1", &running, 1).expect_err(program);
            running.record(1).expect("the name is free").0.remove().expect("it was just made");
        }
    }
}
