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

/// Where the server's log goes.
pub type Sink = Box<dyn FnMut(&Note) + Send>;

/// Lines that may wait to be written.
const LINES_MAX: usize = 4096;
/// How long the end of the server waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The way to the log's thread.
pub struct Journal {
    lines: Option<Sender<Note>>,
    /// Closed by the thread when it has written its last line.
    written: Receiver<()>,
    dropped: u64,
}

impl Journal {
    /// Starts the thread, which gives `sink` one note after the other.
    pub fn start(mut sink: Sink) -> io::Result<Self> {
        let (lines, taken) = unbounded::<Note>();
        let (done, written) = bounded::<()>(0);
        thread::Builder::new().name("log".to_owned()).spawn(move || {
            for note in taken {
                sink(&note);
            }
            drop(done);
        })?;
        Ok(Self { lines: Some(lines), written, dropped: 0 })
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
            move |note: &Note| {
                held.recv().ok();
                seen.lock().expect("no panic").push(note.clone());
            }
        };
        let mut journal = Journal::start(Box::new(sink)).expect("a thread");
        let extra = 10;
        for _ in 0..=LINES_MAX + extra {
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
