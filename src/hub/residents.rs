//! Which agents are in memory, which of them hold a descriptor, and who has to make room.
//!
//! An agent without a running step is all in its log, so it may leave memory at any time; everything
//! appended is synced, so closing a log's file is free. Both go oldest first. The queues are cleaned
//! lazily: a place whose stamp is no longer the agent's own is skipped.

use super::Hub;
use super::entry::{Place, Standing};
use crate::conn::slab::Tag;
use crate::proto::ident::ModelSpec;
use crate::work::advance::{Advance, Input};
use crate::work::note::{Level, Note};
use crate::work::{Home, Job};
use std::collections::{BTreeMap, VecDeque};

/// The queues of those who would have to leave first.
#[derive(Default)]
pub(super) struct Residents {
    /// Agents at home with nothing to do.
    idle: VecDeque<Tag>,
    /// Agents at home whose log holds a descriptor, with the stamp of that stay.
    files: VecDeque<(Tag, u64)>,
    /// The newest of those stamps.
    file_stamp: u64,
    /// How many of `files` are not stale.
    open: usize,
    /// Agents that count against `max_agents`.
    pub(super) pinned: usize,
    /// Agents in a job.
    pub(super) out: usize,
    /// Sessions that were opened, by what their agents were last seen doing.
    pub(super) standings: [usize; Standing::ALL.len()],
    /// Agents whose batch waits for the disk and that were not told to try again.
    stalled: VecDeque<Tag>,
    /// How many were told to.
    retrying: usize,
    /// The log has said that the store is full, and not yet that it no longer is.
    said_full: bool,
}

impl Hub {
    /// Sends an agent out with what has arrived for it, if it is at home.
    pub(super) fn dispatch(&mut self, agent: Tag) {
        let stopping = self.is_stopping();
        let Some(entry) = self.agents.get_mut(agent) else { return };
        let Some(stay) = &mut entry.stay else { return };
        if stay.mailbox.is_empty() || matches!(stay.place, Place::Out) {
            return;
        }
        let body = match std::mem::replace(&mut stay.place, Place::Out) {
            Place::Home(body) => Some(body),
            Place::Evicted | Place::Out => None,
        };
        if body.as_ref().is_some_and(|body| body.holds_file()) {
            stay.file_stamp = NO_STAMP;
            self.residents.open -= 1;
        }
        stay.wake_at = None;
        let was_full = stay.frame_bytes > 0;
        stay.frame_bytes = 0;
        if stay.upstream_bytes > 0 {
            stay.upstream_bytes = 0;
            self.orders.thirsty.push(agent);
        }
        let mut inputs = std::mem::take(&mut stay.mailbox);
        if std::mem::take(&mut entry.parked) {
            inputs.insert(0, Input::Resume);
        }
        let model = main_model(Some(&stay.roles), &self.roles);
        let client = entry.client;
        self.orders.jobs.push(Job::Advance(Advance {
            agent,
            session: entry.session.clone(),
            body,
            create: stay.create,
            last_error: stay.last_error.take(),
            inputs,
            settings: self.settings.clone(),
            model,
            now: self.now,
            stopping,
        }));
        self.residents.out += 1;
        self.repin(agent);
        if was_full && let Some(client) = client {
            self.resume(client);
            self.touch(client);
        }
    }

    /// Takes an agent in after its job.
    pub(super) fn home(&mut self, home: Home) {
        let Home { agent, body, wake_at, again, emptied } = home;
        self.residents.out -= 1;
        let Some(entry) = self.agents.get_mut(agent) else { return };
        let (unknown, connected) = (entry.tip().is_none(), entry.client.is_some());
        let stay = entry.stay();
        let called = std::mem::take(&mut stay.called);
        let Some(body) = body else {
            stay.place = Place::Evicted;
            // Whoever came after the answer of that job waits for one of their own.
            if unknown && (connected || !stay.waiting.is_empty()) {
                stay.mailbox.push(Input::Clock);
            }
            self.set_provider_place(agent, None);
            self.repin(agent);
            // What came meanwhile is refused like the rest, or finds that the log opens by now.
            self.dispatch(agent);
            self.trimmed(agent);
            self.end_stay(agent);
            return;
        };
        stay.wake_at = wake_at;
        // An agent that waits for a human's next text keeps none.
        if (again || wake_at.is_some()) && stay.mailbox.capacity() == 0 {
            stay.mailbox = emptied;
        }
        let stalled = body.is_stalled();
        let was_stalled = std::mem::replace(&mut stay.stalled, stalled);
        let was_told = std::mem::take(&mut stay.retrying);
        let busy = body.is_busy();
        if body.holds_file() {
            self.residents.open += 1;
            self.residents.file_stamp += 1;
            stay.file_stamp = self.residents.file_stamp;
            self.residents.files.push_back((agent, stay.file_stamp));
        }
        let provider_place = body.provider_place();
        let standing = Standing::from(body.status());
        stay.place = Place::Home(body);
        if again {
            stay.mailbox.push(Input::Clock);
        }
        if called && !connected {
            self.evict(agent);
        } else if !busy && !stay.idle {
            stay.idle = true;
            self.residents.idle.push_back(agent);
        }
        if let Some(due) = wake_at {
            self.deadlines.wake(agent, due);
        }
        self.set_provider_place(agent, provider_place);
        self.set_standing(agent, Some(standing));
        self.repin(agent);
        self.dispatch(agent);
        self.trimmed(agent);
        self.make_room();
        if stalled || was_stalled {
            self.tried(agent, stalled, was_stalled, was_told);
        }
    }

    /// An agent died in its job. Its log says what it was.
    pub(super) fn lost(&mut self, agent: Tag) {
        self.residents.out -= 1;
        if let Some(entry) = self.agents.get_mut(agent) {
            entry.forget_log();
            let stay = entry.stay();
            stay.place = Place::Evicted;
            stay.called = false;
            let was_stalled = std::mem::take(&mut stay.stalled);
            let was_told = std::mem::take(&mut stay.retrying);
            stay.wake_at = None;
            stay.frame_bytes = 0;
            stay.upstream_bytes = 0;
            let mailbox = std::mem::take(&mut stay.mailbox);
            self.set_provider_place(agent, None);
            self.set_standing(agent, None);
            self.repin(agent);
            for input in mailbox {
                if let Input::Read(read) = input {
                    self.unread(read.conn);
                }
            }
            if was_stalled {
                // That says nothing of the disk, so nobody else is freed by it.
                if was_told {
                    self.residents.retrying -= 1;
                } else {
                    self.residents.stalled.retain(|other| *other != agent);
                }
                self.tell_of_space();
            }
        }
        self.trimmed(agent);
    }

    /// Lets an agent leave memory, if it has nothing to do.
    fn evict(&mut self, agent: Tag) {
        let Some(entry) = self.agents.get_mut(agent) else { return };
        if let Some(file) = entry.evict() {
            self.residents.open -= 1;
            self.orders.jobs.push(Job::Close(vec![file]));
        }
    }

    /// Gives back what an agent's stay needed, if it is over.
    fn end_stay(&mut self, agent: Tag) {
        if let Some(entry) = self.agents.get_mut(agent) {
            entry.end_stay();
        }
    }

    fn make_room(&mut self) {
        while self.residents.idle.len() > self.options.idle_residents_max {
            let Some(tag) = self.residents.idle.pop_front() else { break };
            let Some(entry) = self.agents.get_mut(tag) else { continue };
            entry.stay().idle = false;
            self.evict(tag);
            self.end_stay(tag);
        }
        let mut files = Vec::new();
        while self.residents.open > self.options.open_files_max {
            let Some((tag, stamp)) = self.residents.files.pop_front() else { break };
            if let Some(entry) = self.agents.get_mut(tag)
                && let Some(stay) = &mut entry.stay
                && stay.file_stamp == stamp
                && let Place::Home(body) = &mut stay.place
                && let Some(file) = body.take_file()
            {
                self.residents.open -= 1;
                files.push(file);
            }
        }
        if !files.is_empty() {
            self.orders.jobs.push(Job::Close(files));
        }
        if self.residents.files.len() > 2 * self.options.open_files_max + 64 {
            let agents = &self.agents;
            self.residents.files.retain(|(tag, stamp)| {
                let stay = agents.get(*tag).and_then(|entry| entry.stay.as_ref());
                stay.is_some_and(|stay| stay.file_stamp == *stamp)
            });
        }
    }

    /// Counts an agent as one that cannot be evicted, or no longer.
    pub(super) fn repin(&mut self, agent: Tag) {
        let Some(entry) = self.agents.get_mut(agent) else { return };
        let called = entry.stay.as_ref().is_some_and(|stay| stay.called);
        let pinned = entry.client.is_some() || (entry.is_busy() && !called);
        if pinned != entry.pinned {
            entry.pinned = pinned;
            if pinned {
                self.residents.pinned += 1;
            } else {
                self.residents.pinned -= 1;
            }
        }
    }

    /// An agent was seen doing this.
    pub(super) fn set_standing(&mut self, agent: Tag, standing: Option<Standing>) {
        let Some(entry) = self.agents.get_mut(agent) else { return };
        let old = std::mem::replace(&mut entry.standing, standing);
        if let Some(old) = old {
            self.residents.standings[old as usize] -= 1;
        }
        if let Some(new) = standing {
            self.residents.standings[new as usize] += 1;
        }
    }

    /// Tries the store again with one agent: one probe a second, however many wait.
    pub(super) fn probe_store(&mut self) {
        if let Some(agent) = self.residents.stalled.pop_front() {
            self.retry(agent);
        }
        self.tell_of_space();
    }

    fn retry(&mut self, agent: Tag) {
        let entry = self.agents.get_mut(agent).expect("an agent's entry stays");
        entry.stay().retrying = true;
        self.residents.retrying += 1;
        self.post(agent, Input::Retry);
    }

    /// After an agent whose batch waits, or waited, has come home: one whose batch went through frees
    /// all the others.
    fn tried(&mut self, agent: Tag, stalled: bool, was_stalled: bool, was_told: bool) {
        if was_told {
            self.residents.retrying -= 1;
        } else if was_stalled && !stalled {
            self.residents.stalled.retain(|other| *other != agent);
        }
        if stalled && (was_told || !was_stalled) {
            self.residents.stalled.push_back(agent);
        }
        if was_stalled && !stalled {
            for other in std::mem::take(&mut self.residents.stalled) {
                self.retry(other);
            }
        }
        self.tell_of_space();
    }

    fn tell_of_space(&mut self) {
        if self.is_storage_full() != self.residents.said_full {
            self.residents.said_full = self.is_storage_full();
            self.orders.notes.push(if self.residents.said_full {
                Note::new(Level::Error, "storage full, turns wait for space")
            } else {
                Note::new(Level::Info, "storage has space again")
            });
        }
        if self.residents.stalled.is_empty() {
            self.deadlines.probe = None;
        } else if self.deadlines.probe.is_none() {
            self.deadlines.probe = Some(self.now.add_s(1));
        }
    }

    /// How many agents' batches wait for the disk.
    pub(super) fn stalled(&self) -> usize {
        self.residents.stalled.len() + self.residents.retrying
    }

    /// Whether the store takes nothing for want of space.
    pub fn is_storage_full(&self) -> bool {
        self.stalled() > 0
    }
}

/// The stamp of who holds no descriptor.
const NO_STAMP: u64 = 0;

/// What the role `main` points at for one agent.
pub(super) fn main_model(
    own: Option<&BTreeMap<String, ModelSpec>>,
    service: &BTreeMap<String, ModelSpec>,
) -> ModelSpec {
    let main = crate::config::MAIN_ROLE;
    own.and_then(|own| own.get(main))
        .or_else(|| service.get(main))
        .cloned()
        .expect("a configuration always has a model for the main role")
}
