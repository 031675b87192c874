//! What one connection must receive of its session's log: from the seq it asked for on, or from the
//! one it was told instead, every event once and in order (contract, "subscribe").
//!
//! A client may subscribe again while events are on their way. Which of the two subscriptions a frame
//! belongs to follows from where it begins in the connection's bytes: nothing that begins behind what
//! the socket had taken when the server read the second belongs to the first.

use std::collections::VecDeque;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Stream {
    active: Option<Subscription>,
    /// Sent, and not known to be in force.
    pending: VecDeque<Pending>,
    /// How many are in force or have been, because the server has read them.
    read: u32,
}

#[derive(Clone, Copy, Debug)]
struct Subscription {
    from: u64,
    /// The last published seq when the server read it, or one before.
    tip: u64,
    /// The seq it was told to begin at instead.
    truncated_to: Option<u64>,
    /// The seq that comes next, once one has come.
    next: Option<u64>,
}

#[derive(Debug)]
struct Pending {
    subscription: Subscription,
    /// Bytes the client had sent when the frame was whole.
    sent: u64,
    /// Bytes the client had been given when the server may first have read it.
    earliest: Option<u64>,
    /// Likewise, when it had certainly read it.
    latest: Option<u64>,
}

impl Stream {
    /// The client asks; its frame is whole when it has sent so many bytes.
    pub(super) fn subscribe(&mut self, from: u64, sent: u64) {
        let subscription = Subscription { from, tip: 0, truncated_to: None, next: None };
        self.pending.push_back(Pending { subscription, sent, earliest: None, latest: None });
    }

    /// The server was given `passed` bytes of the client, which had been given `taken` bytes, and has
    /// looked at all of them if so.
    pub(super) fn passed(&mut self, passed: u64, all: bool, taken: u64, tip: u64) {
        for pending in self.pending.iter_mut().filter(|pending| pending.sent <= passed) {
            if pending.earliest.is_none() {
                pending.earliest = Some(taken);
                pending.subscription.tip = tip;
            }
            if all && pending.latest.is_none() {
                pending.latest = Some(taken);
                self.read += 1;
            }
        }
    }

    /// How many subscriptions the server has certainly read.
    pub(super) fn read(&self) -> u32 {
        self.read
    }

    /// An event has come, in a frame that begins at byte `at`.
    pub(super) fn event(&mut self, seq: u64, at: u64, replay_limit: u64) -> Result<(), String> {
        self.force(at);
        if !self.active.is_some_and(|active| active.wants(seq)) {
            self.activate(at, |subscription| subscription.wants(seq));
        }
        let Some(active) = self.active.as_mut().filter(|active| active.wants(seq)) else {
            return Err(format!("event {seq} came, {self:?}"));
        };
        let window = (active.tip + 1).saturating_sub(replay_limit);
        if active.next.is_none() && seq < window {
            return Err(format!("a replay began {seq}, before its window: {active:?}"));
        }
        active.next = Some(seq + 1);
        Ok(())
    }

    /// `replay_truncated` has come; the last published seq is `tip`.
    pub(super) fn truncated(
        &mut self,
        (requested, from): (u64, u64),
        at: u64,
        tip: u64,
        replay_limit: u64,
    ) -> Result<(), String> {
        self.force(at);
        if !self.active.is_some_and(|active| active.may_be_told(requested)) {
            self.activate(at, |subscription| subscription.may_be_told(requested));
        }
        let Some(active) = self.active.as_mut().filter(|active| active.may_be_told(requested))
        else {
            return Err(format!("told of {requested}, {self:?}"));
        };
        active.truncated_to = Some(from);
        let earliest = (active.tip + 1).saturating_sub(replay_limit);
        if from <= requested || from < earliest || from + replay_limit > tip + 1 {
            return Err(format!("moved to {from} with the tip at {tip}: {active:?}"));
        }
        Ok(())
    }

    /// Once nothing is on its way: everything up to `tip` has come.
    pub(super) fn is_complete(&self, tip: u64) -> Result<(), String> {
        if let Some(pending) = self.pending.back() {
            let waits = pending.subscription.from > tip;
            return if waits { Ok(()) } else { Err(format!("never served: {pending:?}")) };
        }
        match self.active {
            Some(active) if active.next.unwrap_or(active.from) <= tip => {
                Err(format!("stopped before {tip}: {active:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Puts in force what must be by now.
    fn force(&mut self, at: u64) {
        while let Some(first) = self.pending.front()
            && first.latest.is_some_and(|latest| latest <= at)
        {
            self.active = self.pending.pop_front().map(|pending| pending.subscription);
        }
    }

    /// Puts in force what may be by now and explains what came.
    fn activate(&mut self, at: u64, explains: impl Fn(&Subscription) -> bool) {
        let may = |pending: &Pending| {
            pending.earliest.is_some_and(|earliest| earliest <= at)
                && explains(&pending.subscription)
        };
        if let Some(place) = self.pending.iter().position(may) {
            self.active = self.pending.drain(..=place).next_back().map(|last| last.subscription);
        }
    }
}

impl Subscription {
    fn wants(&self, seq: u64) -> bool {
        seq == self.next.or(self.truncated_to).unwrap_or(self.from)
    }

    fn may_be_told(&self, requested: u64) -> bool {
        self.from == requested && self.truncated_to.is_none() && self.next.is_none()
    }
}
