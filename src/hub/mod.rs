//! The reactor's mind: connections, agents and jobs brought together on one thread, with no socket,
//! no file and no clock.
//!
//! It is told what sockets read and took, what workers finished and what time it is; it answers with
//! jobs, with connections to look after, and with what to do about provider connections. All that
//! makes a client's stream exact is decided here: the published tip and every reader's mode change
//! on this thread only.
//!
//! Invariants: an agent is in at most one job; what is published to a reader continues exactly where
//! its last event ended; a connection is read only while all that its frames may cause is bounded.

mod answers;
mod client;
mod commands;
mod deadlines;
mod entry;
mod metrics;
mod options;
mod providers;
mod replay;
mod requests;
mod residents;
mod sessions;
mod stop;
mod sweep;
mod tools;

use crate::config::Tokens;
use crate::conn::gate::Gate;
use crate::conn::ring::SLICES_MAX;
use crate::conn::slab::{Slab, Tag};
use crate::conn::{Conn, Incoming};
use crate::limits::{
    CLOSE_S, HANDSHAKE_S, MAILBOX_FRAME_BYTES_MAX, PIECE_BYTES_MAX, SPARE_PIECES_MAX,
    UPSTREAM_BYTES_MAX,
};
use crate::proto::event::ErrorCode;
use crate::proto::http::{Status, write_response};
use crate::proto::ident::ModelSpec;
use crate::proto::time::Mono;
use crate::work::advance::{Input, NetEvent};
use crate::work::meter::Meter;
use crate::work::note::{Level, Note};
use crate::work::settings::Settings;
use crate::work::tools::Launched;
use crate::work::{Job, Upstream};
use client::{Client, Purpose};
use deadlines::Deadlines;
pub use options::Options;
use providers::Providers;
use residents::Residents;
use sessions::Sessions;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
pub use stop::Stage;
use sweep::Sweep;

#[cfg(test)]
mod tests;

/// What the hub wants done.
#[derive(Default)]
pub struct Orders {
    /// Jobs for the workers, in order.
    pub jobs: Vec<Job>,
    /// Connections with something to send, to read, or to end.
    pub touched: Vec<Tag>,
    /// Provider connections to open and to close, by agent, in order.
    pub upstream: Vec<(Tag, Upstream)>,
    /// What to do with processes of tools, in order.
    pub tools: Vec<ToolOrder>,
    /// Agents whose provider may be read again.
    pub thirsty: Vec<Tag>,
    /// Connections that want the metrics: see [`Hub::scrape`].
    pub scrapes: Vec<Tag>,
    /// Lines for the server's log.
    pub notes: Vec<Note>,
}

/// What is to be done with processes of tools.
pub enum ToolOrder {
    /// Watch one that was started.
    Watch(Box<Launched>),
    /// Kill those of an agent that is lost.
    Kill {
        /// The agent.
        agent: Tag,
    },
    /// End them all, and whatever starts from now on.
    EndAll,
    /// The same, and do not wait for any.
    KillAll,
}

/// What has happened since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Connections accepted.
    pub accepted: u64,
    /// Of these, answered 503.
    pub refused: u64,
    /// Client frames understood.
    pub frames: u64,
    /// Client frames answered with `bad_frame`.
    pub bad_frames: u64,
    /// Connections failed for a breach of RFC 6455.
    pub breaches: u64,
    /// Clients dropped with `lagged`.
    pub lagged: u64,
    /// Clients dropped with `superseded`.
    pub superseded: u64,
    /// Connections refused for a bad token, or dropped for a revoked one.
    pub unauthorized: u64,
}

/// The reactor's mind. See the module's documentation.
pub struct Hub {
    options: Options,
    settings: Arc<Settings>,
    tokens: Tokens,
    roles: BTreeMap<String, ModelSpec>,
    clients: Slab<Client>,
    agents: Sessions,
    gate: Gate,
    /// Of pieces that have left, for those to come.
    spaces: Vec<Vec<u8>>,
    deadlines: Deadlines,
    residents: Residents,
    providers: Providers,
    sweep: Sweep,
    /// Process groups of tools of which something is left.
    groups: usize,
    stage: Stage,
    latched: Option<String>,
    orders: Orders,
    counters: Counters,
    meter: Arc<Meter>,
    now: Mono,
}

impl Hub {
    /// A hub without connections that knows no session yet.
    pub fn new(
        options: Options,
        settings: Arc<Settings>,
        tokens: Tokens,
        roles: BTreeMap<String, ModelSpec>,
        meter: Arc<Meter>,
    ) -> Self {
        let gate = Gate::new(options.max_concurrent_replays);
        let mut hub = Self {
            options,
            settings,
            tokens,
            roles,
            clients: Slab::default(),
            agents: Sessions::default(),
            gate,
            spaces: Vec::new(),
            deadlines: Deadlines::default(),
            residents: Residents::default(),
            providers: Providers::default(),
            sweep: Sweep::default(),
            groups: 0,
            stage: Stage::Running,
            latched: None,
            orders: Orders::default(),
            counters: Counters::default(),
            meter,
            now: Mono(0),
        };
        hub.schedule_sweep();
        hub
    }

    /// Tells the time; everything told after it happens then.
    pub fn set_now(&mut self, now: Mono) {
        self.now = now;
    }

    /// Whether anything is to be done.
    pub fn has_orders(&self) -> bool {
        let Orders { jobs, touched, upstream, tools, thirsty, scrapes, notes } = &self.orders;
        let agents = upstream.len() + tools.len() + thirsty.len();
        jobs.len() + touched.len() + agents + scrapes.len() + notes.len() > 0
    }

    /// What is to be done; to be asked after each thing that was told.
    pub fn orders(&mut self) -> Orders {
        for &tag in &self.orders.touched {
            if let Some(client) = self.clients.get_mut(tag) {
                client.touched = false;
            }
        }
        std::mem::take(&mut self.orders)
    }

    /// A connection was accepted. `None`: it is to be closed at once, as even refusing it politely
    /// takes a place that is not there.
    pub fn accept(&mut self) -> Option<Tag> {
        if self.clients.len() >= self.options.sockets_max() {
            return None;
        }
        let full = self.clients.len() >= self.options.max_connections;
        let tag = self.clients.insert(Client::new(self.now));
        self.counters.accepted += 1;
        if full || self.stage != Stage::Running {
            self.counters.refused += 1;
            let why = if full { "connection limit reached" } else { "stopping" };
            self.respond(tag, Status::ServiceUnavailable, why);
        } else {
            self.deadlines.handshakes.push_back((self.now.add_s(HANDSHAKE_S), tag));
        }
        self.touch(tag);
        Some(tag)
    }

    /// Whether the connection's socket may be read.
    pub fn wants_read(&self, tag: Tag) -> bool {
        self.clients.get(tag).is_some_and(|client| client.backlog.is_empty() && self.takes(client))
    }

    /// Its peer sent these bytes.
    pub fn read(&mut self, tag: Tag, bytes: &mut [u8]) {
        let Some(client) = self.clients.get_mut(tag) else { return };
        client.missed = 0;
        client.received_bytes += bytes.len() as u64;
        self.feed(tag, bytes);
        self.touch(tag);
    }

    /// Its peer closed, or the socket broke: it is gone. Its agent goes on.
    pub fn gone(&mut self, tag: Tag, cause: &'static str) {
        self.detach(tag, cause);
        // A piece that is being read for it finds nobody, and gives the gate's slot back then.
        self.clients.remove(tag);
    }

    /// What is to be written to its socket. At most [`SLICES_MAX`] slices; none: nothing.
    pub fn slices<'a>(&'a self, tag: Tag, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> usize {
        self.clients.get(tag).map_or(0, |client| client.conn.slices(slices))
    }

    /// Its socket took `n` bytes.
    pub fn wrote(&mut self, tag: Tag, n: usize) {
        let Some(client) = self.clients.get_mut(tag) else { return };
        client.took = self.now;
        client.sent_bytes += n as u64;
        // One that a single large event needed is not for those to come: a slow reader may keep its space
        // for long.
        if let Some(space) = client.conn.advance(n)
            && self.spaces.len() < SPARE_PIECES_MAX
            && space.capacity() <= PIECE_BYTES_MAX
        {
            self.spaces.push(space);
        }
        self.drained(tag);
        self.resume(tag);
    }

    /// Its socket takes no more for now: what of the live tail waits here has been refused.
    pub fn blocked(&mut self, tag: Tag) {
        let Some(client) = self.clients.get(tag) else { return };
        let (frames, bytes) = client.conn.live();
        if frames > self.options.queue_limit || (bytes > self.options.queue_bytes && frames > 1) {
            self.counters.lagged += 1;
            self.fail(tag, ErrorCode::Lagged, "the outbound queue overflowed; resubscribe");
        }
    }

    /// Whether its last bytes are queued; once nothing is left to write, writing is shut down.
    pub fn is_ending(&self, tag: Tag) -> bool {
        self.clients.get(tag).is_none_or(|client| client.conn.is_ending())
    }

    /// Whether a peer that has sent its last byte is still to be answered: half a connection is
    /// enough for HTTP, and none for the socket protocol.
    pub fn answers_after_eof(&self, tag: Tag) -> bool {
        self.clients.get(tag).is_some_and(|client| {
            matches!(client.purpose, Purpose::Snapshot { .. } | Purpose::Events(_))
        })
    }

    /// Whether anything waits to be written.
    pub fn has_output(&self, tag: Tag) -> bool {
        self.clients.get(tag).is_some_and(|client| client.conn.has_output())
    }

    /// Whether the provider of `agent` may be read: not while what it sent waits for the agent, nor
    /// while the agent waits for the disk.
    pub fn wants_upstream(&self, agent: Tag) -> bool {
        self.agents
            .get(agent)
            .and_then(|entry| entry.stay.as_ref())
            .is_some_and(|stay| stay.upstream_bytes < UPSTREAM_BYTES_MAX && !stay.stalled)
    }

    /// Something happened on the provider connection of `agent`.
    pub fn upstream(&mut self, agent: Tag, event: NetEvent) {
        let Some(entry) = self.agents.get_mut(agent) else { return };
        let Some(stay) = entry.stay.as_mut().filter(|stay| stay.upstream) else { return };
        if let NetEvent::Bytes(bytes) = &event {
            stay.upstream_bytes += bytes.len();
        }
        self.post(agent, Input::Net(event));
    }

    /// Connections, the ones being refused included.
    pub fn connections(&self) -> usize {
        self.clients.len()
    }

    /// What has happened since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn takes(&self, client: &Client) -> bool {
        let room = match client.purpose {
            Purpose::Socket { agent, .. } => self
                .agents
                .get(agent)
                .and_then(|entry| entry.stay.as_ref())
                .is_none_or(|stay| stay.frame_bytes < MAILBOX_FRAME_BYTES_MAX),
            _ => true,
        };
        room && client.conn.takes_input()
    }

    /// Gives a connection its peer's bytes, as far as it may look at them; keeps the rest.
    fn feed(&mut self, tag: Tag, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let Some(client) = self.clients.get(tag) else { return };
            let incoming = if self.takes(client) {
                let client = self.clients.get_mut(tag).expect("it was there a line ago");
                client.conn.receive(&mut bytes)
            } else {
                None
            };
            match incoming {
                Some(incoming) => self.incoming(tag, incoming),
                None => {
                    if let Some(client) = self.clients.get_mut(tag) {
                        client.backlog = (&*bytes).into();
                    }
                    return;
                }
            }
        }
    }

    /// Looks at bytes that were kept, if more may be looked at. Otherwise it does not touch: a
    /// connection touched for what it was sent would be sent all rounds' shares in one.
    fn resume(&mut self, tag: Tag) {
        let Some(client) = self.clients.get(tag) else { return };
        if !client.backlog.is_empty() && self.takes(client) {
            let client = self.clients.get_mut(tag).expect("it was there a line ago");
            let mut backlog = std::mem::take(&mut client.backlog);
            self.feed(tag, &mut backlog);
            self.touch(tag);
        }
    }

    fn incoming(&mut self, tag: Tag, incoming: Incoming) {
        match incoming {
            Incoming::Request(head) => self.request(tag, &head),
            Incoming::BadRequest(error) => self.respond(tag, error.status(), &error.to_string()),
            Incoming::Command(command) => {
                self.counters.frames += 1;
                self.command(tag, command);
            }
            Incoming::BadFrame => self.counters.bad_frames += 1,
            Incoming::Closed(_) => self.ending(tag, "closed by the client"),
            Incoming::Breach(error) => {
                self.counters.breaches += 1;
                self.orders.notes.push(
                    Note::new(Level::Info, "breach of RFC 6455")
                        .with("cause", error)
                        .with("code", error.close_code().as_u16()),
                );
                self.ending(tag, "breach of RFC 6455");
            }
        }
    }

    /// Answers with a whole response of one line, and ends.
    fn respond(&mut self, tag: Tag, status: Status, line: &str) {
        let mut response = Vec::new();
        write_response(&mut response, status, &[], line);
        self.answer_with(tag, &response);
    }

    /// Answers with a whole response, and ends.
    fn answer_with(&mut self, tag: Tag, response: &[u8]) {
        if let Some(client) = self.clients.get_mut(tag) {
            client.conn.respond(response);
            client.answered = true;
            self.ending(tag, "answered");
        }
    }

    /// Sends an error frame that ends the connection.
    fn fail(&mut self, tag: Tag, code: ErrorCode, message: &str) {
        if let Some(client) = self.clients.get_mut(tag) {
            client.conn.fail(code, message);
            self.ending(tag, code.as_str());
        }
    }

    /// The last bytes of a connection are queued: it no longer concerns its agent, and has a time
    /// to be gone by.
    fn ending(&mut self, tag: Tag, cause: &'static str) {
        self.detach(tag, cause);
        self.deadlines.closes.push_back((self.now.add_s(CLOSE_S), tag));
        self.touch(tag);
    }

    /// Parts a connection from its agent.
    fn detach(&mut self, tag: Tag, cause: &'static str) {
        let Some(client) = self.clients.get_mut(tag) else { return };
        client.stream = None;
        client.backlog = Box::default();
        let purpose = std::mem::replace(&mut client.purpose, Purpose::None);
        if let Purpose::Socket { agent, .. } = purpose
            && let Some(entry) = self.agents.get_mut(agent)
        {
            if entry.client == Some(tag) {
                entry.client = None;
            }
            self.orders.notes.push(
                Note::new(Level::Info, "disconnected")
                    .about(&entry.session)
                    .with("cause", cause)
                    .with("received_bytes", client.received_bytes)
                    .with("sent_bytes", client.sent_bytes)
                    .with("ms", self.now.since(client.since)),
            );
            self.repin(agent);
        }
    }

    fn touch(&mut self, tag: Tag) {
        if let Some(client) = self.clients.get_mut(tag)
            && !client.touched
        {
            client.touched = true;
            self.orders.touched.push(tag);
        }
    }

    fn conn(&mut self, tag: Tag) -> Option<&mut Conn> {
        self.clients.get_mut(tag).map(|client| &mut client.conn)
    }

    /// Puts an input into an agent's mailbox, and sends the agent out if it is at home.
    fn post(&mut self, agent: Tag, input: Input) {
        if let Some(entry) = self.agents.get_mut(agent) {
            entry.stay().mailbox.push(input);
            self.dispatch(agent);
        }
    }

    /// Lets an idle agent leave memory, as [`Residents`] does when there are too many.
    #[cfg(test)]
    fn evict_idle_for_test(&mut self, client: Tag) {
        let agent = self.clients.get(client).and_then(Client::agent).expect("a connected client");
        let entry = self.agents.get_mut(agent).expect("an agent's entry stays");
        entry.evict();
        assert!(entry.agent().is_none() && !entry.is_out(), "it had nothing to do");
    }

    /// Logs of agents at home that hold a descriptor.
    #[cfg(test)]
    fn open_files_for_test(&self) -> usize {
        let agents = self.agents.iter().filter_map(|(_, entry)| entry.agent());
        agents.filter(|agent| agent.holds_file()).count()
    }
}
