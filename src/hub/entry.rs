//! One session as the hub knows it: where its log ends, who listens, and where its agent is.

use crate::agent::Status;
use crate::conn::slab::Tag;
use crate::disk::Tip;
use crate::proto::ident::{ModelSpec, SessionId};
use crate::proto::time::Mono;
use crate::work::advance::Input;
use crate::work::agent::Agent;
use crate::work::{self, Unopened};
use std::collections::BTreeMap;

/// A session known to this process.
pub(super) struct Entry {
    pub(super) session: SessionId,
    pub(super) log: Log,
    pub(super) place: Place,
    /// The connected client.
    pub(super) client: Option<Tag>,
    /// HTTP requests that wait for the log to be looked up.
    pub(super) waiting: Vec<Tag>,
    /// What has arrived since the agent left.
    pub(super) mailbox: Vec<Input>,
    /// Bytes of client frames in the mailbox, with an allowance for each.
    pub(super) frame_bytes: usize,
    /// Bytes of the provider's answer in the mailbox.
    pub(super) upstream_bytes: usize,
    /// The place its model request has, or wants, with a provider that has a bound.
    pub(super) provider_place: Option<work::agent::Place>,
    /// It has, or is getting, a provider connection.
    pub(super) upstream: bool,
    /// When the agent wants to be looked at.
    pub(super) wake_at: Option<Mono>,
    /// A socket has asked for this session: it is made if there is none.
    pub(super) create: bool,
    /// It counts against `max_agents`.
    pub(super) pinned: bool,
    /// Its batch waits for the disk.
    pub(super) stalled: bool,
    /// It has been told to try again, and has not come home since.
    pub(super) retrying: bool,
    /// It was parked on a human's decision when it left memory: it is parked again before anything
    /// else happens to it, so that nobody can tell that it had left.
    pub(super) parked: bool,
    /// Why its last resume had failed when it left memory.
    pub(super) last_error: Option<Box<str>>,
    /// It is in memory only to lose its old segments.
    pub(super) called: bool,
    /// It stands in the queue of idle residents.
    pub(super) idle: bool,
    /// Grows each time it comes home with an open file; tells the newest place in that queue.
    pub(super) file_stamp: u32,
    /// What it was doing when it was last seen; nothing before its log was opened.
    pub(super) standing: Option<Standing>,
    /// Roles that a client of this agent has changed for it alone.
    pub(super) roles: BTreeMap<String, ModelSpec>,
}

/// What is known of a log.
#[derive(Clone)]
pub(super) enum Log {
    /// Nothing yet.
    Unknown,
    /// It ends here; everything up to it is published.
    At(Tip),
    /// It cannot be appended to, or is not there.
    Not(Unopened),
}

/// Where the agent is.
pub(super) enum Place {
    /// Nowhere: its log says all there is to it.
    Evicted,
    /// Here.
    Home(Box<Agent>),
    /// In a job.
    Out,
}

/// What an agent is doing, as the metrics count it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Idle,
    Running,
    Parked,
    Interrupted,
    Damaged,
}

impl Standing {
    pub(super) const ALL: [Self; 5] =
        [Self::Idle, Self::Running, Self::Parked, Self::Interrupted, Self::Damaged];

    /// As the agent's state spells it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Idle => Status::Idle.as_str(),
            Self::Running => Status::Running.as_str(),
            Self::Parked => Status::Parked.as_str(),
            Self::Interrupted => Status::Interrupted.as_str(),
            Self::Damaged => "damaged",
        }
    }
}

impl From<Status> for Standing {
    fn from(status: Status) -> Self {
        match status {
            Status::Idle => Self::Idle,
            Status::Running => Self::Running,
            Status::Parked => Self::Parked,
            Status::Interrupted => Self::Interrupted,
        }
    }
}

impl Entry {
    pub(super) fn new(session: SessionId) -> Self {
        Self {
            session,
            log: Log::Unknown,
            place: Place::Evicted,
            client: None,
            waiting: Vec::new(),
            mailbox: Vec::new(),
            frame_bytes: 0,
            upstream_bytes: 0,
            provider_place: None,
            upstream: false,
            wake_at: None,
            create: false,
            pinned: false,
            stalled: false,
            retrying: false,
            parked: false,
            last_error: None,
            called: false,
            idle: false,
            file_stamp: 0,
            standing: None,
            roles: BTreeMap::new(),
        }
    }

    /// The last event a reader may see.
    pub(super) fn tip(&self) -> Option<Tip> {
        match &self.log {
            Log::At(tip) | Log::Not(Unopened::Damaged { tip, .. }) => Some(*tip),
            Log::Unknown | Log::Not(_) => None,
        }
    }

    /// Whether a step runs, or something of it waits.
    pub(super) fn is_busy(&self) -> bool {
        match &self.place {
            Place::Evicted => false,
            Place::Home(agent) => agent.is_busy(),
            Place::Out => true,
        }
    }

    /// Whether a call of its may wait for a human. One in a job is not asked: it may come home with one.
    pub(super) fn may_have_parked_calls(&self) -> bool {
        match &self.place {
            Place::Evicted => self.parked,
            Place::Home(agent) => agent.has_parked_calls(),
            Place::Out => true,
        }
    }

    /// Lets an agent with nothing to do leave memory. Its log says all there is to it.
    pub(super) fn evict(&mut self) {
        if let Place::Home(body) = &self.place
            && !body.is_busy()
        {
            self.parked = body.is_parked();
            self.last_error = body.last_error().map(Into::into);
            self.place = Place::Evicted;
        }
    }

    /// Forgets what the provider sent: its connection was given up.
    pub(super) fn forget_upstream(&mut self) {
        self.mailbox.retain(|input| !matches!(input, Input::Net(_)));
        self.upstream_bytes = 0;
    }
}
