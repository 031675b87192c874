//! One session as the hub knows it: where its log ends, who listens, and where its agent is.
//!
//! Invariant: what a session costs of which nothing goes on is [`ENTRY_BYTES_MAX`]; everything else is
//! there for a [`Stay`] and goes with it.

use crate::agent::Status;
use crate::conn::slab::Tag;
use crate::disk::{DiskFile, Tip};
use crate::proto::ident::{ModelSpec, SessionId};
use crate::proto::time::Mono;
use crate::work::advance::Input;
use crate::work::agent::Agent;
use crate::work::{self, Unopened};
use std::collections::BTreeMap;

/// A session known to this process.
pub(super) struct Entry {
    pub(super) session: SessionId,
    /// The last event a reader may see, once one is known.
    tip: Tip,
    has_tip: bool,
    /// The connected client.
    pub(super) client: Option<Tag>,
    /// It counts against `max_agents`.
    pub(super) pinned: bool,
    /// It was parked on a human's decision when it left memory: it is parked again before anything
    /// else happens to it, so that nobody can tell that it had left.
    pub(super) parked: bool,
    /// What it was doing when it was last seen; nothing before its log was opened.
    pub(super) standing: Option<Standing>,
    /// Nothing while its agent is not in memory and nothing waits for it.
    pub(super) stay: Option<Box<Stay>>,
}

/// What a session costs that is merely known. Its name may be longer than fits, and costs more then.
const ENTRY_BYTES_MAX: usize = 88;
const _: () = assert!(size_of::<Entry>() <= ENTRY_BYTES_MAX);

/// What there is to know of an agent that is in memory, or that is wanted there.
#[derive(Default)]
pub(super) struct Stay {
    pub(super) place: Place,
    /// Why its log cannot be appended to, or is not there.
    pub(super) unopened: Option<Unopened>,
    /// A socket has asked for this session: it is made if there is none.
    pub(super) create: bool,
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
    /// Its batch waits for the disk.
    pub(super) stalled: bool,
    /// It has been told to try again, and has not come home since.
    pub(super) retrying: bool,
    /// Why its last resume had failed when it left memory.
    pub(super) last_error: Option<Box<str>>,
    /// It is in memory only to lose its old segments.
    pub(super) called: bool,
    /// It stands in the queue of idle residents.
    pub(super) idle: bool,
    /// Its newest place in the queue of those that hold a descriptor.
    pub(super) file_stamp: u64,
    /// Roles that a client of this agent has changed for it alone.
    pub(super) roles: BTreeMap<String, ModelSpec>,
}

/// Where the agent is.
#[derive(Default)]
pub(super) enum Place {
    /// Nowhere: its log says all there is to it.
    #[default]
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
            tip: Tip { seq: 0, base: 0, bytes: 0 },
            has_tip: false,
            client: None,
            pinned: false,
            parked: false,
            standing: None,
            stay: None,
        }
    }

    /// The last event a reader may see; none while nothing is known of its log.
    pub(super) fn tip(&self) -> Option<Tip> {
        self.has_tip.then_some(self.tip)
    }

    /// Its log ends here, and everything up to it is published.
    pub(super) fn set_tip(&mut self, tip: Tip) {
        (self.tip, self.has_tip) = (tip, true);
        if let Some(stay) = &mut self.stay {
            stay.unopened = None;
        }
    }

    /// Its log cannot be opened, or only to be read.
    pub(super) fn set_unopened(&mut self, why: Unopened) {
        if let Unopened::Damaged { tip, .. } = why {
            self.set_tip(tip);
        }
        self.stay().unopened = Some(why);
    }

    /// What is known of its log may be wrong: it is to be opened anew.
    pub(super) fn forget_log(&mut self) {
        self.has_tip = false;
        if let Some(stay) = &mut self.stay {
            stay.unopened = None;
        }
    }

    /// Why its log cannot be appended to, or is not there.
    pub(super) fn unopened(&self) -> Option<&Unopened> {
        self.stay.as_ref()?.unopened.as_ref()
    }

    /// Where its log is damaged.
    pub(super) fn damage(&self) -> Option<&str> {
        match self.unopened()? {
            Unopened::Damaged { place, .. } => Some(place),
            Unopened::Missing | Unopened::Full | Unopened::Failed { .. } => None,
        }
    }

    /// The place its model request has, or wants, with a provider that has a bound.
    pub(super) fn provider_place(&self) -> Option<&work::agent::Place> {
        self.stay.as_ref()?.provider_place.as_ref()
    }

    /// Its stay, which begins now if there is none.
    pub(super) fn stay(&mut self) -> &mut Stay {
        self.stay.get_or_insert_default()
    }

    /// The agent, if it is here.
    pub(super) fn agent(&self) -> Option<&Agent> {
        match &self.stay.as_ref()?.place {
            Place::Home(agent) => Some(agent),
            Place::Evicted | Place::Out => None,
        }
    }

    /// Whether the agent is in a job.
    pub(super) fn is_out(&self) -> bool {
        self.stay.as_ref().is_some_and(|stay| matches!(stay.place, Place::Out))
    }

    /// Whether a step runs, or something of it waits.
    pub(super) fn is_busy(&self) -> bool {
        self.is_out() || self.agent().is_some_and(Agent::is_busy)
    }

    /// Whether a call of its may wait for a human. One in a job is not asked: it may come home with one.
    pub(super) fn may_have_parked_calls(&self) -> bool {
        self.is_out() || self.agent().map_or(self.parked, Agent::has_parked_calls)
    }

    /// Lets an agent with nothing to do leave memory, and gives its descriptor to be closed. Its log
    /// says all there is to it.
    pub(super) fn evict(&mut self) -> Option<Box<dyn DiskFile>> {
        let stay = self.stay.as_mut()?;
        let Place::Home(body) = &mut stay.place else { return None };
        if body.is_busy() {
            return None;
        }
        let file = body.take_file();
        self.parked = body.is_parked();
        stay.last_error = body.last_error().map(Into::into);
        stay.place = Place::Evicted;
        self.end_stay();
        file
    }

    /// Gives back what a stay needs, if nothing goes on any more.
    pub(super) fn end_stay(&mut self) {
        if self.stay.as_ref().is_some_and(|stay| stay.is_over(self.has_tip)) {
            self.stay = None;
        }
    }
}

impl Stay {
    /// Whether nothing is in it that is not as in a new one. That a session may be made says nothing
    /// any more once it is `there`, and a stamp that is gone makes a place stale.
    fn is_over(&self, there: bool) -> bool {
        let Self {
            place,
            unopened,
            create,
            waiting,
            mailbox,
            frame_bytes,
            upstream_bytes,
            provider_place,
            upstream,
            wake_at,
            stalled,
            retrying,
            last_error,
            called,
            idle,
            file_stamp: _,
            roles,
        } = self;
        let pending = *upstream || *stalled || *retrying || *called || *idle;
        matches!(place, Place::Evicted)
            && !pending
            && (there || !create)
            && (*frame_bytes, *upstream_bytes) == (0, 0)
            && (waiting.is_empty() && mailbox.is_empty() && roles.is_empty())
            && matches!(unopened, None | Some(Unopened::Missing))
            && provider_place.is_none()
            && (wake_at.is_none() && last_error.is_none())
    }

    /// Forgets what the provider sent: its connection was given up.
    pub(super) fn forget_upstream(&mut self) {
        self.mailbox.retain(|input| !matches!(input, Input::Net(_)));
        self.upstream_bytes = 0;
    }
}
