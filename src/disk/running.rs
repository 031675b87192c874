//! `<data_dir>/running/`: which process groups of tools run, so that a server that was killed leaves
//! none behind for good (design/log-format, "Tool processes and death").
//!
//! A record is one file, in a directory for each server, and holds the line of `/proc/PID/stat` that the
//! process itself wrote there before it became its program: its number, its group and its start time
//! are right, and there before anything of the tool runs. Nothing is synced: a record has to outlive
//! this process, not the machine.
//!
//! Knows no tool and ends nothing. Invariant: a group is an orphan only if its number, its session and
//! the start times of what runs in it say that it is the one that was recorded; a number that was given
//! away again never is.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The directory of the records.
#[derive(Debug)]
pub struct Running {
    dir: PathBuf,
    /// Where those of this process lie.
    own: PathBuf,
}

/// One record. It stays when this is dropped: somebody may still have to look for that group.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
}

impl Running {
    /// The records under a data directory. The directories for them are made with the first one.
    pub fn new(data_dir: &Path) -> Self {
        let dir = data_dir.join(RUNNING);
        Self { own: dir.join(std::process::id().to_string()), dir }
    }

    /// Where the records of this process lie; their first word is the number of a group.
    pub fn own_dir(&self) -> &Path {
        &self.own
    }

    /// Makes an empty record under a name of its own, and the file for the process to write to.
    pub fn record(&self, name: u64) -> io::Result<(Record, File)> {
        let path = self.own.join(format!("{name:016x}"));
        let new = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = match new() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().mode(0o700).recursive(true).create(&self.own)?;
                new()
            }
            opened => opened,
        }?;
        Ok((Record { path }, file))
    }

    /// The groups of an earlier server that are still there. To be asked under the lock.
    pub fn orphans(&self) -> io::Result<Vec<i32>> {
        let mut records = Vec::new();
        for server in entries(&self.dir)? {
            let lines = entries(&server)?.into_iter().filter_map(|r| fs::read_to_string(r).ok());
            records.extend(lines.filter_map(|line| Stat::parse(&line)));
        }
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let processes = processes()?;
        Ok(records.iter().filter(|record| record.lives_in(&processes)).map(|r| r.group).collect())
    }

    /// Removes every record.
    pub fn clear(&self) -> io::Result<()> {
        entries(&self.dir)?.iter().try_for_each(fs::remove_dir_all)
    }
}

impl Record {
    /// Removes it: nothing of its group is left.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// What a line of `/proc/PID/stat` says (proc(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    process: i32,
    /// One letter, such as `R`, or `Z` for a zombie.
    state: char,
    group: i32,
    session: i32,
    /// In clock ticks since the machine started.
    start: u64,
}

impl Stat {
    fn parse(line: &str) -> Option<Self> {
        let process = line.split(' ').next()?.parse().ok()?;
        // The program's name, in parentheses, may hold anything, parentheses too.
        let (_, rest) = line.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let state = fields.next()?.parse().ok()?;
        let group = fields.nth(GROUP - STATE - 1)?.parse().ok().filter(|group| *group > 1)?;
        let session = fields.next()?.parse().ok()?;
        let start = fields.nth(START - SESSION - 1)?.parse().ok()?;
        Some(Self { process, state, group, session, start })
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Whether the group of this record is among these processes. Its leader may be gone, and the
    /// group lives on; but while it does, no other process gets its number.
    fn lives_in(&self, processes: &HashMap<i32, Stat>) -> bool {
        match processes.get(&self.process) {
            Some(leader) => leader.start == self.start,
            None => processes.values().any(|member| {
                member.group == self.group
                    && member.session == self.session
                    && member.start >= self.start
            }),
        }
    }
}

/// Whether a process runs: one that has ended and was not waited for does not.
pub(super) fn runs(process: u32) -> bool {
    fs::read(format!("/proc/{process}/stat")).is_ok_and(|line| {
        match Stat::parse(&String::from_utf8_lossy(&line)) {
            Some(stat) => !stat.has_ended(),
            None => true,
        }
    })
}

/// What a directory holds; nothing if there is none.
fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Every process that can be seen, but for those that have ended and that nobody has waited for yet.
fn processes() -> io::Result<HashMap<i32, Stat>> {
    let mut processes = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let is_process = path.file_name().and_then(|name| name.to_str()?.parse::<i32>().ok());
        // A process may end between the listing and the reading.
        if is_process.is_some()
            && let Ok(line) = fs::read(path.join("stat"))
            && let Some(stat) = Stat::parse(&String::from_utf8_lossy(&line))
            && !stat.has_ended()
        {
            processes.insert(stat.process, stat);
        }
    }
    Ok(processes)
}

const RUNNING: &str = "running";
/// Fields of a stat line, counted from the one after the name.
const STATE: usize = 0;
const GROUP: usize = 2;
const SESSION: usize = 3;
const START: usize = 19;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_stat_line_is_read_whatever_the_program_is_called() {
        let rest = "S 1 77 5 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 367348 17326080 3462";
        let stat = Stat { process: 77, state: 'S', group: 77, session: 5, start: 367_348 };
        for name in ["cat", "a b", "x) S 1 2 3", "(", ""] {
            assert_eq!(Stat::parse(&format!("77 ({name}) {rest}\n")), Some(stat), "{name:?}");
        }
        for line in [
            "",
            "77",
            "77 (cat) S 1 77",
            "x (cat) S 1 77 5 0",
            &format!("77 (cat) {}", rest.replacen("77", "1", 1)),
            "77 (cat S 1 77 5 0",
        ] {
            assert_eq!(Stat::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn only_the_group_that_was_recorded_is_an_orphan() {
        let stat =
            |process, group, session, start| Stat { process, state: 'S', group, session, start };
        let record = stat(70, 70, 5, 1000);
        for (processes, lives, why) in [
            (vec![], false, "nothing is left"),
            (vec![stat(70, 70, 5, 1000)], true, "the leader itself"),
            (vec![stat(70, 70, 5, 1000), stat(71, 70, 5, 1001)], true, "leader and member"),
            (vec![stat(71, 70, 5, 1001)], true, "a member outlived its leader"),
            (vec![stat(70, 70, 5, 2000)], false, "the number was given away again"),
            (vec![stat(70, 70, 5, 2000), stat(71, 70, 5, 2001)], false, "and has a group again"),
            (vec![stat(71, 70, 6, 1001)], false, "a group of another session"),
            (vec![stat(71, 70, 5, 999)], false, "older than what was recorded"),
            (vec![stat(71, 71, 5, 1001)], false, "another group"),
        ] {
            let processes = processes.into_iter().map(|stat| (stat.process, stat)).collect();
            assert_eq!(record.lives_in(&processes), lives, "{why}");
        }
    }

    #[test]
    fn a_record_of_what_runs_is_found_until_it_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let running = Running::new(dir.path());
        assert_eq!(running.orphans().expect("no records"), [0; 0]);
        let (record, mut file) = running.record(7).expect("a record");
        let (_, mut other) = running.record(8).expect("another");
        running.record(7).expect_err("a name is used once");
        assert_eq!(running.orphans().expect("empty records"), [0; 0]);
        let line = fs::read_to_string("/proc/self/stat").expect("procfs");
        file.write_all(line.as_bytes()).expect("it can be written");
        other.write_all(b"77 (ca").expect("it can be written");
        let own = Stat::parse(&line).expect("a stat line");
        assert_eq!(running.orphans().expect("records"), [own.group]);
        record.remove().expect("it is there");
        assert_eq!(running.orphans().expect("records"), [0; 0]);
        running.clear().expect("it can be cleared");
        assert!(entries(&running.dir).expect("a directory").is_empty());
    }
}
