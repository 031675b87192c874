//! What is due when. Waits of one duration each are first-in first-out queues; agents' own
//! deadlines sit in a heap with lazy deletion: an entry whose agent has another date is skipped.

use super::Hub;
use super::client::{Client, Purpose};
use crate::conn::slab::Tag;
use crate::limits::{CLOSE_S, HEARTBEATS_MISSED_MAX, STALLED_READER_S};
use crate::proto::time::Mono;
use crate::work::advance::Input;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Everything that is due some time.
#[derive(Default)]
pub(super) struct Deadlines {
    pub(super) handshakes: VecDeque<(Mono, Tag)>,
    pub(super) closes: VecDeque<(Mono, Tag)>,
    pub(super) heartbeats: VecDeque<(Mono, Tag)>,
    pub(super) agents: BinaryHeap<Reverse<(Mono, u32, u32)>>,
    /// When a stalled store is tried again.
    pub(super) probe: Option<Mono>,
    /// When the next sessions are looked at for old segments.
    pub(super) sweep: Option<Mono>,
}

impl Deadlines {
    fn next(&self) -> Option<Mono> {
        let fronts = [&self.handshakes, &self.closes, &self.heartbeats].map(VecDeque::front);
        let fronts = fronts.into_iter().flatten().map(|(due, _)| *due);
        let agent = self.agents.peek().map(|Reverse((due, ..))| *due);
        fronts.chain(agent).chain(self.probe).chain(self.sweep).min()
    }

    /// From now on nobody waits longer than `heartbeat_s` for its next heartbeat. The queue stays in
    /// order: what is cut is cut to one and the same time, behind all that is due before.
    pub(super) fn hasten_heartbeats(&mut self, now: Mono, heartbeat_s: u64) {
        let latest = now.add_s(heartbeat_s);
        for (due, _) in &mut self.heartbeats {
            *due = (*due).min(latest);
        }
    }

    pub(super) fn wake(&mut self, agent: Tag, due: Mono) {
        self.agents.push(Reverse((due, agent.slot, agent.generation)));
    }
}

impl Hub {
    /// When [`Hub::tick`] wants to be called next.
    pub fn next_deadline(&self) -> Option<Mono> {
        match (self.deadlines.next(), self.stage_deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Does what is due. Returns the connections whose sockets are to be closed at once.
    pub fn tick(&mut self) -> Vec<Tag> {
        let mut dead = Vec::new();
        while let Some(tag) = due(&mut self.deadlines.handshakes, self.now) {
            if self.clients.get(tag).is_some_and(|client| !client.conn.has_asked()) {
                dead.push(tag);
            }
        }
        while let Some(tag) = due(&mut self.deadlines.closes, self.now) {
            let Some(client) = self.clients.get(tag) else { continue };
            if client.answered && client.conn.has_output() && !self.has_stalled(client) {
                self.deadlines.closes.push_back((self.now.add_s(CLOSE_S), tag));
            } else if client.conn.is_ending() {
                dead.push(tag);
            }
        }
        while let Some(tag) = due(&mut self.deadlines.heartbeats, self.now) {
            if self.heartbeat(tag) {
                dead.push(tag);
            }
        }
        while let Some(&Reverse((when, slot, generation))) = self.deadlines.agents.peek() {
            if when > self.now {
                break;
            }
            self.deadlines.agents.pop();
            let agent = Tag { slot, generation };
            if let Some(entry) = self.agents.get_mut(agent)
                && let Some(stay) = &mut entry.stay
                && stay.wake_at == Some(when)
            {
                stay.wake_at = None;
                self.post(agent, Input::Clock);
            }
        }
        if self.deadlines.probe.is_some_and(|when| when <= self.now) {
            self.deadlines.probe = None;
            self.probe_store();
        }
        if self.deadlines.sweep.is_some_and(|when| when <= self.now) {
            self.sweep_on();
        }
        self.stage_tick();
        dead
    }

    /// Whether a peer with something to take has taken nothing for too long.
    fn has_stalled(&self, client: &Client) -> bool {
        self.now.since(client.took) >= STALLED_READER_S * 1000
    }

    /// Pings a peer, and says whether it is to be given up.
    fn heartbeat(&mut self, tag: Tag) -> bool {
        let listens = self.wants_read(tag);
        let stalled = self.clients.get(tag).is_some_and(|client| self.has_stalled(client));
        let Some(client) = self.clients.get_mut(tag) else { return false };
        let in_use = client.conn.is_open() || matches!(client.purpose, Purpose::Events(_));
        if !in_use {
            return false;
        }
        if client.conn.has_output() {
            // It has something to take: silence means nothing while it does not.
            client.missed = 0;
            if stalled {
                return true;
            }
        } else {
            client.took = self.now;
            if listens {
                client.missed += 1;
            }
        }
        if u64::from(client.missed) > HEARTBEATS_MISSED_MAX {
            return true;
        }
        client.conn.ping();
        self.deadlines.heartbeats.push_back((self.now.add_s(self.options.heartbeat_s), tag));
        self.touch(tag);
        false
    }
}

/// Places that an empty queue keeps.
const QUEUE_KEPT: usize = 64;

/// The tag at the front, if its time has come.
fn due(queue: &mut VecDeque<(Mono, Tag)>, now: Mono) -> Option<Tag> {
    match queue.front() {
        Some((when, _)) if *when <= now => queue.pop_front().map(|(_, tag)| tag),
        Some(_) => None,
        None => {
            // After a storm of connections nobody waits for long in two of the three.
            queue.shrink_to(QUEUE_KEPT);
            None
        }
    }
}
