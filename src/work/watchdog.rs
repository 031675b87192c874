//! A small process that outlives this one by an instant, to kill what tools have left.
//!
//! The parent-death signal ends a tool when its server is killed, but not what the tool has started: no
//! signal of the kernel's reaches a whole group then. So while tools run, a shell waits at a pipe that
//! nobody ever writes to; it ends when this process does, even by SIGKILL, and the shell kills every
//! group that is recorded. With the last tool it is ended itself.
//!
//! Rejected: to fork without exec instead of starting a shell, which would keep this process's memory
//! and descriptors alive in a second one, and be unsafe code of some length.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The shell that waits. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Watchdog {
    child: Child,
}

impl Watchdog {
    /// Starts one that goes by the records in `dir`, the first word of each of which is the number of a
    /// group.
    pub(super) fn start(dir: &Path) -> io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "watchdog"]).arg(dir).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Keys of providers stand in this process's environment, and it needs none.
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        Ok(Self { child: command.spawn()? })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // It cannot have been waited for, and one that was killed is waited for in no time.
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

/// Whoever stops this server by signalling all it started must not stop this one: it ends with the
/// server anyway. A record without a whole line names nobody.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
read -r _
cd "$1" || exit
for record in *; do
    read -r group _ < "$record" && kill -s KILL -- "-$group"
done
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::process::ExitStatusExt;

    fn sleeper() -> Child {
        Command::new("sleep").arg("1000").process_group(0).spawn().expect("sleep is everywhere")
    }

    #[test]
    fn when_the_pipe_ends_every_recorded_group_is_killed_and_no_other() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut recorded, mut other, mut torn) = (sleeper(), sleeper(), sleeper());
        let record = |name: &str, text: String| {
            fs::write(dir.path().join(name), text).expect("it can be written");
        };
        record("a", format!("{} (sleep) S 1 2 3\n", recorded.id()));
        record("b", String::new());
        record("c", torn.id().to_string());
        let mut watchdog = Watchdog::start(dir.path()).expect("a shell");
        drop(watchdog.child.stdin.take());
        watchdog.child.wait().expect("it ends");
        assert_eq!(recorded.wait().expect("it was killed").signal(), Some(9));
        for child in [&mut other, &mut torn] {
            assert!(child.try_wait().expect("ours").is_none(), "it was not recorded");
            child.kill().expect("ours");
            child.wait().expect("ours");
        }
    }

    #[test]
    fn dropping_it_ends_it_and_nobody_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut recorded = sleeper();
        fs::write(dir.path().join("a"), format!("{} x\n", recorded.id())).expect("written");
        drop(Watchdog::start(dir.path()).expect("a shell"));
        assert!(recorded.try_wait().expect("ours").is_none());
        recorded.kill().expect("ours");
        recorded.wait().expect("ours");
    }
}
