//! Starting the programs of tools, each in a group of its own and recorded before it runs.
//!
//! Knows no call's outcome and watches nothing. Invariant: while a group that was started here may have a
//! process, it is recorded, and a watchdog runs that goes by the records.

use super::process::{Pipes, Process, Trace};
use super::watchdog::Watchdog;
use crate::config::ToolConfig;
use crate::disk::running::Running;
use crate::os::{self, SIGKILL};
use crate::proto::ident::SessionId;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, Weak};

/// Starts the programs of tools; shared by the workers.
#[derive(Debug)]
pub struct Launcher {
    running: Running,
    watchdog: Mutex<Weak<Watchdog>>,
}

impl Launcher {
    /// Keeps its records under `data_dir`, whose lock this process holds.
    pub fn new(data_dir: &Path) -> Self {
        Self { running: Running::new(data_dir), watchdog: Mutex::default() }
    }

    /// Kills what an earlier server left running of its tools, and says how many groups that were: a
    /// call that is owed runs again, and must not run beside itself. A process that was sent SIGKILL
    /// runs no instruction of its program any more.
    ///
    /// # Errors
    /// The records or the processes cannot be looked at, or a group may not be killed.
    pub fn end_orphans(&self) -> io::Result<usize> {
        let orphans = self.running.orphans()?;
        for &number in &orphans {
            if let Err(error) = os::signal_group(number, SIGKILL)
                && os::group_exists(number)
            {
                return Err(error);
            }
        }
        self.running.clear()?;
        Ok(orphans.len())
    }

    /// Starts the program of `tool` in a group of its own, with nothing of this process but its
    /// directory. `name` is used once. The thread that calls must live as long as the process: see
    /// [`os::bind_child`].
    ///
    /// # Errors
    /// What the system said: the program is not there or may not run, it cannot be recorded, or a
    /// resource is short.
    pub fn start(
        &self,
        tool: &ToolConfig,
        session: &SessionId,
        call_id: &str,
        name: u64,
    ) -> io::Result<(Process, Pipes)> {
        let (record, file) = self.running.record(name)?;
        let trace = Trace { record, _watchdog: self.watchdog() };
        let mut command = command(tool, session, call_id);
        os::bind_child(&mut command, file.into());
        match command.spawn() {
            Ok(child) => Process::new(child, trace),
            Err(error) => {
                // The record names a process that ended before it ran anything; whether it can be
                // removed matters to nobody, for the next start removes it too.
                trace.remove().ok();
                Err(error)
            }
        }
    }

    /// The watchdog that runs, or a new one. None where there is no shell: then what outlives this
    /// process is killed when the next one starts.
    fn watchdog(&self) -> Option<Arc<Watchdog>> {
        let mut watchdog = self.watchdog.lock().expect("nothing panics while it is held");
        if let Some(running) = watchdog.upgrade() {
            return Some(running);
        }
        let started = Arc::new(Watchdog::start(self.running.own_dir()).ok()?);
        *watchdog = Arc::downgrade(&started);
        Some(started)
    }
}

/// The program of a tool with all it gets of this process.
fn command(tool: &ToolConfig, session: &SessionId, call_id: &str) -> Command {
    let (program, args) = tool.command.split_first().expect("a configured command has words");
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
    command
}

/// What a tool gets of this process's environment.
const KEPT: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;
    use crate::tool::ending::Ending;
    use std::io::Read;
    use std::{fs, thread};

    /// Runs a shell command as a tool, and calls `then` with its process and what it wrote.
    fn run(script: &str, then: impl FnOnce(Process, &Launcher, &str)) {
        let dir = tempfile::tempdir().expect("a directory");
        let launcher = Launcher::new(dir.path());
        let mut tool = ToolConfig::new("t", vec!["sh".into(), "-c".into(), script.into()]);
        tool.env = vec![
            ("KEY".to_owned(), Secret::new("value")),
            ("TERRET_CALL_ID".to_owned(), Secret::new("forged")),
        ];
        tool.cwd = Some(dir.path().to_owned());
        let session = SessionId::parse("s1").expect("a session id");
        let (process, mut pipes) = launcher.start(&tool, &session, "c\0 1", 7).expect("a shell");
        drop(pipes.stdin);
        let mut written = String::new();
        pipes.stdout.read_to_string(&mut written).expect("text");
        then(process, &launcher, &written);
    }

    fn ending(process: &mut Process) -> Ending {
        loop {
            if let Some(ending) = process.reap() {
                return ending;
            }
            thread::yield_now();
        }
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
        let script = "echo $$; cat running/*/*; sleep 1000 > /dev/null & exit 3";
        run(script, |mut process, launcher, written| {
            let (number, record) = written.split_once('\n').expect("two lines");
            assert!(record.starts_with(&format!("{number} (")), "{written}");
            assert_eq!(ending(&mut process), Ending::Exited(3));
            let group = process.into_group();
            assert!(group.exists(), "what it left behind may go on");
            let number: i32 = number.parse().expect("a number");
            assert_eq!(launcher.running.orphans().expect("records"), [number]);
            group.kill();
            group.over().remove().expect("the record is still there");
            assert_eq!(launcher.running.orphans().expect("records"), [0; 0]);
        });
    }

    #[test]
    fn what_an_earlier_server_left_is_killed_and_forgotten() {
        run("exec > /dev/null; sleep 1000", |mut process, launcher, _| {
            assert_eq!(launcher.end_orphans().expect("records"), 1);
            assert_eq!(ending(&mut process), Ending::Killed(i32::from(SIGKILL)));
            assert_eq!(launcher.end_orphans().expect("no records"), 0);
        });
    }

    #[test]
    fn a_process_that_nobody_holds_any_more_is_killed() {
        run("echo $$; exec > /dev/null; sleep 1000", |process, _, number| {
            drop(process);
            // Nobody can wait for it any more, so it stays what is left of a process that was killed.
            let stat = format!("/proc/{}/stat", number.trim());
            while !fs::read_to_string(&stat).expect("it is not waited for").contains(") Z ") {
                thread::yield_now();
            }
        });
    }

    #[test]
    fn the_watchdog_ends_with_the_last_tool() {
        run("exec > /dev/null; sleep 1000", |process, launcher, _| {
            let watchdog = launcher.watchdog.lock().expect("no panic").clone();
            assert!(watchdog.upgrade().is_some());
            drop(process);
            assert!(watchdog.upgrade().is_none());
        });
    }

    #[test]
    fn what_cannot_be_started_leaves_no_record() {
        let dir = tempfile::tempdir().expect("a directory");
        let launcher = Launcher::new(dir.path());
        let session = SessionId::parse("s1").expect("a session id");
        for program in ["/no/such", "/", "a\0b"] {
            let tool = ToolConfig::new("t", vec![program.into()]);
            launcher.start(&tool, &session, "1", 1).expect_err(program);
            let (record, _) = launcher.running.record(1).expect("the name is free");
            record.remove().expect("it was just made");
        }
    }
}
