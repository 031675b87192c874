//! The sweep: sessions that nobody opens lose their old segments too.
//!
//! Once in a while one job looks at some sessions, in order of their ids; those that hold more than is
//! to be kept are trimmed one after the other, each in a job of its agent's own, so nobody else has it
//! then. Knows no file; what may be removed is decided there.
//!
//! Invariant: at most one worker is at it, and an agent that was only called for this leaves memory
//! again and counts against no bound.

use super::Hub;
use crate::conn::slab::Tag;
use crate::disk::Swept;
use crate::limits::{SWEEP_ROUND_S, SWEEP_S};
use crate::proto::ident::SessionId;
use crate::work::Job;
use crate::work::advance::Input;

/// How far the sweep is.
#[derive(Default)]
pub(super) struct Sweep {
    /// A job looks at some sessions.
    looking: bool,
    /// The last one looked at in this round.
    after: Option<SessionId>,
    /// Those that hold too much and have not had their turn.
    due: Vec<SessionId>,
    /// The agent whose turn it is.
    trimming: Option<Tag>,
}

impl Hub {
    /// Begins or ends sweeping, as the settings say.
    pub(super) fn schedule_sweep(&mut self) {
        if self.settings.retention.is_off() {
            self.deadlines.sweep = None;
            self.sweep.due.clear();
        } else if self.deadlines.sweep.is_none() {
            self.deadlines.sweep = Some(self.now.add_s(SWEEP_S));
        }
    }

    /// Looks at the next sessions, unless the last ones are not done yet.
    pub(super) fn sweep_on(&mut self) {
        self.deadlines.sweep = Some(self.now.add_s(SWEEP_S));
        if self.is_stopping() || self.sweep.looking || self.sweep.trimming.is_some() {
            return;
        }
        self.sweep.looking = true;
        let (after, retention) = (self.sweep.after.clone(), self.settings.retention);
        self.orders.jobs.push(Job::Sweep { after, retention });
    }

    /// Some sessions were looked at.
    pub(super) fn swept(&mut self, swept: Swept) {
        let Swept { due, more_after } = swept;
        self.sweep.looking = false;
        if more_after.is_none() && self.deadlines.sweep.is_some() {
            self.deadlines.sweep = Some(self.now.add_s(SWEEP_ROUND_S));
        }
        (self.sweep.due, self.sweep.after) = (due, more_after);
        self.trim_next();
    }

    /// A job that looked at sessions died.
    pub(super) fn sweep_lost(&mut self) {
        self.sweep.looking = false;
    }

    /// An agent is home: if it was its turn to be trimmed, the next one's has come.
    pub(super) fn trimmed(&mut self, agent: Tag) {
        let waits = self.agents.get(agent).is_some_and(|entry| {
            let mut mailbox = entry.stay.iter().flat_map(|stay| &stay.mailbox);
            entry.is_out() || mailbox.any(|input| matches!(input, Input::Trim))
        });
        if self.sweep.trimming == Some(agent) && !waits {
            self.sweep.trimming = None;
            self.trim_next();
        }
    }

    fn trim_next(&mut self) {
        if self.is_stopping() || self.settings.retention.is_off() {
            self.sweep.due.clear();
        }
        let Some(session) = self.sweep.due.pop() else { return };
        let agent = self.agents.find_or_insert(&session);
        let entry = self.agents.get_mut(agent).expect("an agent's entry stays");
        let elsewhere = entry.agent().is_none() && !entry.is_out() && entry.client.is_none();
        entry.stay().called = elsewhere;
        self.sweep.trimming = Some(agent);
        self.post(agent, Input::Trim);
    }
}
