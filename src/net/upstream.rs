//! Connections to model providers: at most one for each agent.
//!
//! Knows no HTTP: a request's bytes go out, the answer's bytes come in, and both ends are reported.
//! A provider whose agent is behind is not read; its readiness is remembered. With TLS a connection
//! stands when its handshake is over.

use super::ground::{Source, token};
use super::stream::{Broken, Stream};
use super::tls::Trust;
use crate::conn::slab::{Slab, Tag};
use crate::limits::{HANDSHAKES_PER_ROUND, NAME_CACHE_S, ROUND_BYTES};
use crate::model::{RequestBytes, Target};
use crate::proto::time::Mono;
use crate::work::Upstream;
use crate::work::advance::NetEvent;
use crate::work::names::{Resolved, Resolver};
use mio::net::TcpStream;
use mio::{Interest, Registry};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// All provider connections.
pub(super) struct Upstreams {
    registry: Registry,
    resolver: Resolver,
    trust: Trust,
    links: Slab<Link>,
    by_agent: HashMap<Tag, Tag>,
    /// Names looked up lately, and until when that is believed.
    names: HashMap<(Arc<str>, u16), (Mono, Vec<SocketAddr>)>,
    /// Names that are being looked up: however many links wait, each is asked for once, and one
    /// that is slow to fail does not fill the resolver's queue.
    asked: HashSet<(Arc<str>, u16)>,
    ready: VecDeque<Tag>,
    /// TLS handshakes that may still be moved on in this round; further ones wait for the next.
    handshakes_left: usize,
    /// What has happened, for the hub.
    events: Vec<(Tag, NetEvent)>,
}

struct Link {
    agent: Tag,
    target: Target,
    request: RequestBytes,
    /// Bytes of the request that are out.
    sent: usize,
    state: State,
    listed: bool,
}

enum State {
    /// Its name is being looked up.
    Resolving,
    /// The connection is being made; if it fails, the next address is tried.
    Connecting { stream: TcpStream, rest: VecDeque<SocketAddr> },
    /// Bytes pass, and once they may be the request's, its agent is `told`.
    Open { stream: Stream, told: bool },
}

impl Upstreams {
    pub(super) fn new(registry: Registry, resolver: Resolver, trust: Trust) -> Self {
        Self {
            registry,
            resolver,
            trust,
            links: Slab::default(),
            by_agent: HashMap::new(),
            names: HashMap::new(),
            asked: HashSet::new(),
            ready: VecDeque::new(),
            handshakes_left: 0,
            events: Vec::new(),
        }
    }

    /// What has happened since it was last asked.
    pub(super) fn take_events(&mut self) -> Vec<(Tag, NetEvent)> {
        std::mem::take(&mut self.events)
    }

    pub(super) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// A round begins, in which as many links as this are to be served.
    pub(super) fn begin_round(&mut self) -> usize {
        self.handshakes_left = HANDSHAKES_PER_ROUND;
        self.ready.len()
    }

    /// Does what an agent wants of its provider connection.
    pub(super) fn obey(&mut self, agent: Tag, command: Upstream, now: Mono) {
        if let Some(old) = self.by_agent.remove(&agent) {
            self.drop_link(old);
        }
        let Upstream::Connect { target, request } = command else { return };
        let state = State::Resolving;
        let link = Link { agent, target: target.clone(), request, sent: 0, state, listed: false };
        let link = self.links.insert(link);
        self.by_agent.insert(agent, link);
        let host = target.host.trim_matches(['[', ']']);
        if let Ok(address) = host.parse::<IpAddr>() {
            self.connect(link, VecDeque::from([SocketAddr::new(address, target.port)]));
            return;
        }
        match self.names.get(&(target.host.clone(), target.port)) {
            Some((until, addresses)) if *until > now => {
                let addresses = addresses.iter().copied().collect();
                self.connect(link, addresses);
            }
            _ => {
                if self.asked.insert((target.host.clone(), target.port)) {
                    self.resolver.ask(target.host, target.port);
                }
            }
        }
    }

    /// A name was looked up.
    pub(super) fn resolved(&mut self, resolved: Resolved, now: Mono) {
        let Resolved { host, port, outcome } = resolved;
        self.asked.remove(&(host.clone(), port));
        let waits = |link: &Link| {
            let Target { host: wanted, port: wanted_port, .. } = &link.target;
            matches!(link.state, State::Resolving) && *wanted == host && *wanted_port == port
        };
        let waiting: Vec<Tag> =
            self.links.iter().filter(|(_, link)| waits(link)).map(|(tag, _)| tag).collect();
        match outcome {
            Ok(addresses) => {
                for link in waiting {
                    self.connect(link, addresses.iter().copied().collect());
                }
                self.names.retain(|_, (until, _)| *until > now);
                self.names.insert((host, port), (now.add_s(NAME_CACHE_S), addresses));
            }
            Err(reason) => {
                for link in waiting {
                    self.end(link, NetEvent::Failed(format!("{host}: {reason}")));
                }
            }
        }
    }

    /// Connects to the first address that can be tried.
    fn connect(&mut self, tag: Tag, mut addresses: VecDeque<SocketAddr>) {
        let mut last = "the name has no address".to_owned();
        while let Some(address) = addresses.pop_front() {
            match self.start(tag, address) {
                Ok(stream) => {
                    if let Some(link) = self.links.get_mut(tag) {
                        link.state = State::Connecting { stream, rest: addresses };
                    }
                    return;
                }
                Err(error) => last = format!("{address}: {error}"),
            }
        }
        self.end(tag, NetEvent::Failed(last));
    }

    fn start(&self, tag: Tag, address: SocketAddr) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(address)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.registry.register(&mut stream, token(Source::Provider, tag), interest)?;
        Ok(stream)
    }

    /// The poll says that something may be possible on a link.
    pub(super) fn event(&mut self, slot: u32, can_read: bool, can_write: bool) {
        let Some(tag) = self.links.tag_at(slot) else { return };
        let Some(link) = self.links.get_mut(tag) else { return };
        if let State::Open { stream, .. } = &mut link.state {
            stream.moved(can_read, can_write);
        }
        self.list(tag);
    }

    /// The agent has room for more of the answer.
    pub(super) fn thirsty(&mut self, agent: Tag) {
        if let Some(&tag) = self.by_agent.get(&agent) {
            self.list(tag);
        }
    }

    fn list(&mut self, tag: Tag) {
        if let Some(link) = self.links.get_mut(tag)
            && !link.listed
        {
            link.listed = true;
            self.ready.push_back(tag);
        }
    }

    /// Gives the next ready link its share of a round. `wants` says whether an agent has room.
    pub(super) fn serve_next(&mut self, buffer: &mut [u8], wants: impl Fn(Tag) -> bool) {
        let Some(tag) = self.ready.pop_front() else { return };
        let Some(link) = self.links.get_mut(tag) else { return };
        link.listed = false;
        if link.shakes_hands() {
            if self.handshakes_left == 0 {
                return self.list(tag);
            }
            self.handshakes_left -= 1;
        }
        if matches!(link.state, State::Connecting { .. }) {
            self.finish_connect(tag);
        }
        let Some(link) = self.links.get_mut(tag) else { return };
        let agent = link.agent;
        let outcome = link.exchange(buffer, wants(agent), &mut self.events);
        match outcome {
            Exchange::Waits => {}
            Exchange::Again => self.list(tag),
            Exchange::Over(event) => self.end(tag, event),
        }
    }

    fn finish_connect(&mut self, tag: Tag) {
        let Some(link) = self.links.get_mut(tag) else { return };
        let State::Connecting { stream, rest } = &mut link.state else { return };
        let error = match stream.take_error() {
            Ok(None) => match stream.peer_addr() {
                Ok(_) => None,
                Err(error) if error.kind() == ErrorKind::NotConnected => return,
                Err(error) => Some(error),
            },
            Ok(Some(error)) | Err(error) => Some(error),
        };
        let rest = std::mem::take(rest);
        if let Some(error) = error {
            if rest.is_empty() {
                self.end(tag, NetEvent::Failed(error.to_string()));
            } else {
                self.connect(tag, rest);
            }
            return;
        }
        let connecting = std::mem::replace(&mut link.state, State::Resolving);
        let State::Connecting { stream, .. } = connecting else { unreachable!("matched above") };
        // Best effort: a request goes out in one write as a rule, and a late one is still right.
        stream.set_nodelay(true).ok();
        let Target { tls, host, .. } = &link.target;
        match tls.then(|| self.trust.session(host)).transpose() {
            Ok(session) => {
                link.state = State::Open { stream: Stream::new(stream, session), told: false };
            }
            Err(broken) => self.end(tag, broken.into()),
        }
    }

    /// A link is over: its agent hears how, and nothing more.
    fn end(&mut self, tag: Tag, event: NetEvent) {
        if let Some(link) = self.links.get(tag) {
            let agent = link.agent;
            self.events.push((agent, event));
            self.by_agent.remove(&agent);
            self.drop_link(tag);
        }
    }

    /// Closes a link; dropping the stream takes it out of the poll too.
    fn drop_link(&mut self, tag: Tag) {
        self.links.remove(tag);
    }
}

/// What came of one link's share of a round.
enum Exchange {
    Waits,
    Again,
    Over(NetEvent),
}

impl From<Broken> for NetEvent {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Lost(reason) => Self::Failed(reason),
            Broken::Untrusted(reason) => Self::Untrusted(reason),
        }
    }
}

impl Link {
    /// Whether its next step is one of a TLS handshake, the making of its first message included.
    fn shakes_hands(&self) -> bool {
        match &self.state {
            State::Resolving => false,
            State::Connecting { .. } => self.target.tls,
            State::Open { stream, .. } => !stream.is_established(),
        }
    }

    fn exchange(
        &mut self,
        buffer: &mut [u8],
        wants: bool,
        events: &mut Vec<(Tag, NetEvent)>,
    ) -> Exchange {
        let State::Open { stream, told } = &mut self.state else { return Exchange::Waits };
        let (mut budget, mut received, mut over) = (ROUND_BYTES, Vec::new(), None);
        loop {
            // With TLS also what it has to say by itself, an alert about what was just received for one.
            self.sent += stream.send(&self.request[self.sent..]);
            if stream.is_established() && !std::mem::replace(told, true) {
                events.push((self.agent, NetEvent::Connected));
            }
            if !received.is_empty() {
                events.push((self.agent, NetEvent::Bytes(std::mem::take(&mut received))));
            }
            if let Some(event) = over {
                return Exchange::Over(event);
            }
            // A handshake brings the agent no bytes, so there is always room for it.
            if !stream.is_readable() || (*told && !wants) {
                return Exchange::Waits;
            }
            if budget == 0 {
                return Exchange::Again;
            }
            let share = budget.min(buffer.len());
            match stream.receive(&mut buffer[..share], &mut received) {
                Ok(Some(n)) => budget -= n,
                Ok(None) => over = Some(NetEvent::Eof),
                Err(broken) => over = Some(broken.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
