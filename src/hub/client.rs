//! One connection as the hub sees it: the machine that speaks to the peer, and what the hub owes it.

use crate::config::Token;
use crate::conn::Conn;
use crate::conn::slab::Tag;
use crate::conn::subscription::{Mode, Subscription, Truncated};
use crate::disk::Cursor;
use crate::proto::time::Mono;

/// A connection and its place in the world.
pub(super) struct Client {
    pub(super) conn: Conn,
    /// Bytes the socket has given and the connection may not look at yet.
    pub(super) backlog: Box<[u8]>,
    /// What it is for, once its head was understood.
    pub(super) purpose: Purpose,
    /// What it reads of the log.
    pub(super) stream: Option<Stream>,
    /// Which subscription `stream` is; grows with each.
    pub(super) generation: u32,
    /// A piece of the log is being read for it, whichever subscription asked.
    pub(super) reading: bool,
    /// It stands in the gate's queue.
    pub(super) queued: bool,
    /// It stands in the list of connections to look after.
    pub(super) touched: bool,
    /// Heartbeats since it was last heard.
    pub(super) missed: u8,
    /// Its last bytes are an answer over HTTP: it may take them as slowly as it likes.
    pub(super) answered: bool,
    /// When its socket last took a byte, or its ring was last empty.
    pub(super) took: Mono,
    /// When it was accepted.
    pub(super) since: Mono,
    /// What its peer has sent.
    pub(super) received_bytes: u64,
    /// What its socket has taken.
    pub(super) sent_bytes: u64,
}

/// What a connection is for.
pub(super) enum Purpose {
    /// Its head is not known yet, or it is only there to be answered.
    None,
    /// The socket of an agent.
    Socket {
        /// The agent.
        agent: Tag,
        /// What it presented: when that is revoked, it goes.
        token: Token,
    },
    /// `GET /agents/{id}`.
    Snapshot { agent: Tag },
    /// `GET /agents/{id}/events`.
    Events(Box<History>),
}

/// A read of the log over HTTP.
pub(super) struct History {
    pub(super) agent: Tag,
    pub(super) from: u64,
    pub(super) limit: Option<u64>,
    /// The client knows the chunked coding.
    pub(super) chunked: bool,
    /// What it presented, as above.
    pub(super) token: Token,
}

/// A reader's place in the log, and how to get on from there.
pub(super) struct Stream {
    pub(super) place: Subscription,
    /// None of who is live, as most are.
    replay: Option<Box<Replay>>,
}

/// What a reader that is not live yet is at.
#[derive(Default)]
pub(super) struct Replay {
    /// Where the next event stands, when a piece has been read.
    pub(super) cursor: Option<Cursor>,
    /// The last piece ended at the tip it knew, and the tip had moved on: the next piece is read by
    /// the agent's own job, between its appends, so that no append can come between.
    pub(super) chases: bool,
    /// The tip the piece under way was asked with.
    pub(super) asked_tip: u64,
    /// What its reader is to be told before its first event.
    truncated: Option<Truncated>,
}

impl Stream {
    pub(super) fn new(place: Subscription) -> Self {
        Self { place, replay: None }
    }

    pub(super) fn replay(&mut self) -> &mut Replay {
        self.replay.get_or_insert_default()
    }

    /// Whether a piece has been read.
    pub(super) fn has_begun(&self) -> bool {
        self.replay.as_ref().is_some_and(|replay| replay.cursor.is_some())
    }

    /// Its beginning was moved, perhaps not for the first time.
    pub(super) fn moved(&mut self, moved: Truncated) {
        let truncated = &mut self.replay().truncated;
        let requested = truncated.map_or(moved.requested, |earlier| earlier.requested);
        *truncated = Some(Truncated { requested, ..moved });
    }

    /// What its reader is to be told, once.
    pub(super) fn take_truncated(&mut self) -> Option<Truncated> {
        let truncated = self.replay.as_mut()?.truncated.take();
        if self.place.mode() == Mode::Live {
            self.end_replay();
        }
        truncated
    }

    /// It is live: from here on nothing is read for it.
    pub(super) fn end_replay(&mut self) {
        self.replay = None;
    }
}

// One stands for every connection, idle or not.
const _: () = assert!(size_of::<Client>() <= 160);

impl Client {
    pub(super) fn new(now: Mono) -> Self {
        Self {
            conn: Conn::default(),
            backlog: Box::default(),
            purpose: Purpose::None,
            stream: None,
            generation: 0,
            reading: false,
            queued: false,
            touched: false,
            missed: 0,
            answered: false,
            took: now,
            since: now,
            received_bytes: 0,
            sent_bytes: 0,
        }
    }

    /// The agent it is concerned with.
    pub(super) fn agent(&self) -> Option<Tag> {
        match self.purpose {
            Purpose::None => None,
            Purpose::Socket { agent, .. } | Purpose::Snapshot { agent } => Some(agent),
            Purpose::Events(ref history) => Some(history.agent),
        }
    }

    /// The token it came with, and whose that is.
    pub(super) fn presented(&self) -> Option<(Tag, &Token)> {
        match &self.purpose {
            Purpose::None | Purpose::Snapshot { .. } => None,
            Purpose::Socket { agent, token } => Some((*agent, token)),
            Purpose::Events(history) => Some((history.agent, &history.token)),
        }
    }
}
