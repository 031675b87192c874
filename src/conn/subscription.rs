//! One reader's place in a session's log: replay, then tail, with no gap and no duplicate.
//!
//! A subscription is one number, the next seq its reader wants, and the mode it is in. It knows
//! neither files nor sockets: it is told where the tip is and what was read, and says what to do.
//! It is exact because the tip and the mode change on one thread, and because live events are
//! ignored until the log itself has been read up to the tip.
//!
//! Invariant: every event handed to the reader has `seq == next`, and `next` only grows.

/// What a reader asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Replay at most so many events, then tail (contract, "subscribe"); no log read was granted yet.
    New,
    /// The same, once the first one was.
    Tail {
        /// Last seq of the replay window.
        window_end: u64,
    },
    /// Read up to this seq, then end: the history read over HTTP.
    History { until: u64 },
}

/// Where the reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Waits for the gate.
    Waiting,
    /// A piece of the log is being read for it.
    Reading,
    /// Has been given what was read and drains it.
    Draining,
    /// At the tip: live events go straight to it.
    Live,
    /// A history read that has all it asked for.
    Ended,
}

/// What a reader missed because its replay was capped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The seq it asked for.
    pub requested: u64,
    /// The seq its replay begins at.
    pub from: u64,
}

/// The reader of the live tail has fallen a whole replay window behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lagged;

/// A reader's place in the log. See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub struct Subscription {
    next: u64,
    kind: Kind,
    mode: Mode,
}

impl Subscription {
    /// A subscription from `from` on a log whose last published seq is `tip`.
    ///
    /// A `from` beyond the tip needs no log: it is live at once, and waits for that seq to exist.
    pub fn tail(from: u64, tip: u64) -> Self {
        let mode = if from > tip { Mode::Live } else { Mode::Waiting };
        Self { next: from, kind: Kind::New, mode }
    }

    /// A read of the events from `from` on, at most `limit` of them, none beyond `tip`.
    pub fn history(from: u64, limit: Option<u64>, tip: u64) -> Self {
        let until = match limit {
            Some(limit) => tip.min(from.saturating_add(limit).saturating_sub(1)),
            None => tip,
        };
        let empty = from > until || limit == Some(0);
        let mode = if empty { Mode::Ended } else { Mode::Waiting };
        Self { next: from, kind: Kind::History { until }, mode }
    }

    /// The next seq this reader wants.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Where the reader stands.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The gate let this reader in: a piece is read from [`Subscription::next`] on.
    ///
    /// The first time round the replay window is fixed: at most `replay_limit` events, ending at
    /// the tip of this moment. Returns what the reader must be told when that moved its start.
    pub fn begin_read(&mut self, tip: u64, replay_limit: u64) -> Option<Truncated> {
        assert!(self.mode == Mode::Waiting, "only who waits at the gate is let in");
        self.mode = Mode::Reading;
        if self.kind != Kind::New {
            return None;
        }
        self.kind = Kind::Tail { window_end: tip };
        let earliest = (tip + 1).saturating_sub(replay_limit);
        if self.next >= earliest {
            return None;
        }
        let truncated = Truncated { requested: self.next, from: earliest };
        self.next = earliest;
        Some(truncated)
    }

    /// What was to be read has been removed; the log begins with `first`, and ends with `tip`.
    ///
    /// The reader goes on from there. Returns what it must be told.
    pub fn skip_to(&mut self, first: u64, tip: u64) -> Truncated {
        assert!(self.mode == Mode::Reading && first > self.next, "a reader never goes back");
        let skipped = Truncated { requested: self.next, from: first };
        self.mode = if first > tip { Mode::Live } else { Mode::Waiting };
        match &mut self.kind {
            Kind::New | Kind::Tail { .. } => self.kind = Kind::New,
            Kind::History { until } => {
                *until = tip.min(until.saturating_add(first - self.next));
                if first > *until {
                    self.mode = Mode::Ended;
                }
            }
        }
        self.next = first;
        skipped
    }

    /// A piece of `count` events from [`Subscription::next`] on was read and goes to the reader.
    ///
    /// # Errors
    /// [`Lagged`] when the replay window is behind the reader and the tip has run a whole
    /// `replay_limit` ahead of it: it is a slow reader of the live tail.
    pub fn end_read(&mut self, count: u64, tip: u64, replay_limit: u64) -> Result<(), Lagged> {
        assert!(self.mode == Mode::Reading, "a piece answers a read");
        self.next += count;
        self.mode = match self.kind {
            Kind::History { until } if self.next > until => Mode::Ended,
            Kind::New | Kind::Tail { .. } if self.next > tip => Mode::Live,
            Kind::Tail { window_end }
                if self.next > window_end && tip + 1 - self.next > replay_limit =>
            {
                return Err(Lagged);
            }
            _ => Mode::Draining,
        };
        Ok(())
    }

    /// The reader has drained what it was given and waits at the gate again.
    pub fn wait(&mut self) {
        assert!(self.mode == Mode::Draining, "only who drains goes back to the gate");
        self.mode = Mode::Waiting;
    }

    /// How many events a read may still hand over.
    pub fn wanted(&self) -> u64 {
        match self.kind {
            Kind::New | Kind::Tail { .. } => u64::MAX,
            Kind::History { until } => (until + 1).saturating_sub(self.next),
        }
    }

    /// The events `first..first + count` were published. Returns how many of them, from the
    /// front, are not for this reader; it takes the others.
    pub fn publish(&mut self, first: u64, count: u64) -> u64 {
        if self.mode != Mode::Live {
            return count;
        }
        let skip = self.next.saturating_sub(first).min(count);
        if skip < count {
            assert!(first + skip == self.next, "the tail of a live reader has no gap");
            self.next = first + count;
        }
        skip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a log of `0..=tip` to a reader in pieces of `piece`, then publishes up to `end`.
    fn received(
        from: u64,
        tip: u64,
        limit: u64,
        piece: u64,
        end: u64,
    ) -> (Option<Truncated>, Vec<u64>) {
        let mut reader = Subscription::tail(from, tip);
        let (mut got, mut told) = (Vec::new(), None);
        while reader.mode() != Mode::Live {
            if reader.mode() == Mode::Draining {
                reader.wait();
            }
            told = reader.begin_read(tip, limit).or(told);
            let count = piece.min(tip + 1 - reader.next());
            got.extend(reader.next()..reader.next() + count);
            reader.end_read(count, tip, limit).expect("the tip stands still");
        }
        for first in (tip + 1..=end).step_by(3) {
            let count = 3.min(end + 1 - first);
            let skip = reader.publish(first, count);
            got.extend(first + skip..first + count);
        }
        (told, got)
    }

    #[test]
    fn every_from_seq_gives_exactly_the_rest() {
        for from in [0, 1, 9, 10, 11, 12, 15, 40, 1 << 63, u64::MAX] {
            for piece in [1, 2, 3, 100] {
                let (told, got) = received(from, 10, 10_000, piece, 40);
                let want: Vec<u64> = (from..=40).collect();
                assert_eq!((told, got), (None, want), "from {from} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_replay_is_capped_at_the_limit_and_the_reader_is_told() {
        // (from, tip, limit, what it is told)
        let table = [
            (0, 9, 10, None),
            (0, 10, 10, Some(Truncated { requested: 0, from: 1 })),
            (1, 10, 10, None),
            (0, 99, 10, Some(Truncated { requested: 0, from: 90 })),
            (89, 99, 10, Some(Truncated { requested: 89, from: 90 })),
            (90, 99, 10, None),
            (99, 99, 1, None),
            (100, 99, 1, None),
        ];
        for (from, tip, limit, want) in table {
            let (told, got) = received(from, tip, limit, 4, tip + 5);
            assert_eq!(told, want, "from {from}, tip {tip}, limit {limit}");
            let start = want.map_or(from, |truncated| truncated.from);
            assert_eq!(got, (start..=tip + 5).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_window_ends_at_the_tip_of_its_first_read() {
        let mut reader = Subscription::tail(0, 99);
        assert_eq!(reader.begin_read(99, 100), None);
        // The tip runs far ahead while the reader is inside its window: that is no lag.
        assert_eq!(reader.end_read(50, 100_000, 100), Ok(()));
        reader.wait();
        assert_eq!(reader.begin_read(100_000, 100), None, "the window is not moved again");
        // Beyond its window it reads the live tail, and is a whole limit behind.
        assert_eq!(reader.end_read(50, 100_000, 100), Err(Lagged));
    }

    #[test]
    fn live_events_are_ignored_while_the_log_is_read() {
        let mut reader = Subscription::tail(0, 4);
        reader.begin_read(4, 100);
        assert_eq!(reader.publish(5, 2), 2);
        reader.end_read(5, 6, 100).expect("close to the tip");
        assert_eq!(reader.mode(), Mode::Draining);
        reader.wait();
        reader.begin_read(6, 100);
        reader.end_read(2, 6, 100).expect("at the tip");
        assert_eq!((reader.mode(), reader.publish(7, 3)), (Mode::Live, 0));
    }

    #[test]
    fn a_reader_beyond_the_tip_drops_what_comes_before_it() {
        let mut reader = Subscription::tail(12, 4);
        assert_eq!(reader.mode(), Mode::Live);
        assert_eq!(reader.publish(5, 5), 5);
        assert_eq!(reader.publish(10, 5), 2);
        assert_eq!(reader.publish(15, 1), 0);
    }

    #[test]
    fn a_history_read_ends_at_its_limit_or_at_the_tip() {
        // (from, limit, tip, events)
        let table = [
            (0, None, 9, 10),
            (0, Some(3), 9, 3),
            (8, Some(3), 9, 2),
            (9, Some(u64::MAX), 9, 1),
            (10, None, 9, 0),
            (0, Some(0), 9, 0),
            (u64::MAX, Some(u64::MAX), 9, 0),
        ];
        for (from, limit, tip, events) in table {
            let mut reader = Subscription::history(from, limit, tip);
            let mut got = 0;
            while reader.mode() != Mode::Ended {
                if reader.mode() == Mode::Draining {
                    reader.wait();
                }
                reader.begin_read(tip, 1);
                let count = reader.wanted().min(2);
                got += count;
                reader.end_read(count, tip, 1).expect("a history read never lags");
            }
            assert_eq!(got, events, "from {from}, limit {limit:?}, tip {tip}");
        }
    }
}
