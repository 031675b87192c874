//! The server's log, written on a thread of its own: standard error may be a pipe that nobody reads,
//! and the reactor waits for no one.
//!
//! Invariant: making a note never blocks. Lines that find the queue full are counted and the count is
//! written in their place.

use super::note::{Level, Note};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use std::io;
use std::thread;
use std::time::Duration;

/// Where the server's log goes: lines in order, those that have gathered together.
pub type Sink = Box<dyn FnMut(&[Note]) + Send>;

/// Lines that may wait to be written.
const LINES_MAX: usize = 4096;
/// Lines that are written together, at most.
const LINES_AT_ONCE: usize = 256;
/// How long lines gather after some were written. The first after a rest goes out at once; without a
/// rest each line of a busy server would wake the thread and be a write by itself.
const GATHERING: Duration = Duration::from_millis(2);
/// How long the end of the server waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The way to the log's thread.
pub struct Journal {
    lines: Option<Sender<Note>>,
    /// Closed when no line comes any more.
    ending: Option<Sender<()>>,
    /// Closed by the thread when it has written its last line.
    written: Receiver<()>,
    dropped: u64,
}

impl Journal {
    /// Starts the thread, which gives `sink` one batch after the other.
    pub fn start(mut sink: Sink) -> io::Result<Self> {
        let (lines, taken) = unbounded::<Note>();
        let (ending, ended) = bounded::<()>(0);
        let (done, written) = bounded::<()>(0);
        thread::Builder::new().name("log".to_owned()).spawn(move || {
            let mut notes = Vec::new();
            while let Ok(first) = taken.recv() {
                notes.push(first);
                notes.extend(taken.try_iter().take(LINES_AT_ONCE - 1));
                sink(&notes);
                if notes.len() < LINES_AT_ONCE {
                    // The end of the server waits for the last lines, and they for nothing.
                    ended.recv_timeout(GATHERING).ok();
                }
                notes.clear();
            }
            drop(done);
        })?;
        Ok(Self { lines: Some(lines), ending: Some(ending), written, dropped: 0 })
    }

    /// Has a line written.
    pub fn note(&mut self, note: Note) {
        let Some(lines) = &self.lines else { return };
        // The queue is bounded here and not by its kind: one that is made for so many lines takes
        // their memory at the start.
        if lines.len() >= LINES_MAX {
            self.dropped += 1;
            return;
        }
        if self.dropped > 0 {
            let gap = Note::new(Level::Warn, "log lines dropped").with("count", self.dropped);
            self.dropped = 0;
            // It fails only when the sink has panicked; then there is no log any more.
            lines.send(gap).ok();
        }
        lines.send(note).ok();
    }
}

impl Drop for Journal {
    /// Waits a moment for what was noted to be written.
    fn drop(&mut self) {
        self.lines = None;
        self.ending = None;
        // Either the thread is done, and has closed its end, or the time is over.
        self.written.recv_timeout(LAST_LINES).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_sink_that_hangs_holds_nobody_and_the_gap_is_told() {
        let (release, held) = bounded::<()>(0);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = {
            let seen = Arc::clone(&seen);
            move |notes: &[Note]| {
                held.recv().ok();
                seen.lock().expect("no panic").extend_from_slice(notes);
            }
        };
        let mut journal = Journal::start(Box::new(sink)).expect("a thread");
        let extra = 10;
        for _ in 0..LINES_MAX + LINES_AT_ONCE + extra {
            journal.note(Note::new(Level::Info, "line"));
        }
        assert!(journal.dropped >= extra as u64, "{} dropped", journal.dropped);
        let dropped = journal.dropped;
        drop(release);
        while seen.lock().expect("no panic").len() < LINES_MAX {
            thread::yield_now();
        }
        journal.note(Note::new(Level::Info, "last"));
        drop(journal);
        let seen = seen.lock().expect("no panic");
        let gap = Note::new(Level::Warn, "log lines dropped").with("count", dropped);
        assert_eq!(seen[seen.len() - 2..], [gap, Note::new(Level::Info, "last")]);
    }
}
