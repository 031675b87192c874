//! Connections to model providers: at most one for each agent.
//!
//! Knows no HTTP: a request's bytes go out, the answer's bytes come in, and both ends are reported.
//! A provider whose agent is behind is not read; its readiness is remembered.

use super::ground::{Source, token};
use crate::conn::slab::{Slab, Tag};
use crate::limits::{NAME_CACHE_S, ROUND_BYTES};
use crate::model::{RequestBytes, Target};
use crate::proto::time::Mono;
use crate::work::Upstream;
use crate::work::advance::NetEvent;
use crate::work::names::{Resolved, Resolver};
use mio::net::TcpStream;
use mio::{Interest, Registry};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// All provider connections.
pub(super) struct Upstreams {
    registry: Registry,
    resolver: Resolver,
    links: Slab<Link>,
    by_agent: HashMap<Tag, Tag>,
    /// Names looked up lately, and until when that is believed.
    names: HashMap<(Arc<str>, u16), (Mono, Vec<SocketAddr>)>,
    /// Names that are being looked up: however many links wait, each is asked for once, and one
    /// that is slow to fail does not fill the resolver's queue.
    asked: HashSet<(Arc<str>, u16)>,
    ready: VecDeque<Tag>,
    /// What has happened, for the hub.
    events: Vec<(Tag, NetEvent)>,
}

struct Link {
    agent: Tag,
    request: RequestBytes,
    /// Bytes of the request that are out.
    sent: usize,
    state: State,
    listed: bool,
}

enum State {
    /// Its name is being looked up.
    Resolving(Target),
    /// The connection is being made; if it fails, the next address is tried.
    Connecting { stream: TcpStream, rest: VecDeque<SocketAddr> },
    /// Bytes pass.
    Open { stream: TcpStream, readable: bool, writable: bool },
}

impl Upstreams {
    pub(super) fn new(registry: Registry, resolver: Resolver) -> Self {
        Self {
            registry,
            resolver,
            links: Slab::default(),
            by_agent: HashMap::new(),
            names: HashMap::new(),
            asked: HashSet::new(),
            ready: VecDeque::new(),
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

    /// Does what an agent wants of its provider connection.
    pub(super) fn obey(&mut self, agent: Tag, command: Upstream, now: Mono) {
        if let Some(old) = self.by_agent.remove(&agent) {
            self.drop_link(old);
        }
        let Upstream::Connect { target, request } = command else { return };
        let state = State::Resolving(target.clone());
        let link = self.links.insert(Link { agent, request, sent: 0, state, listed: false });
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
        let waits = |link: &Link| matches!(&link.state, State::Resolving(target) if target.host == host && target.port == port);
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
                    self.fail(link, &format!("{host}: {reason}"));
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
        self.fail(tag, &last);
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
        if let State::Open { readable, writable, .. } = &mut link.state {
            *readable |= can_read;
            *writable |= can_write;
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
        if matches!(link.state, State::Connecting { .. }) {
            self.finish_connect(tag);
        }
        let Some(link) = self.links.get_mut(tag) else { return };
        let agent = link.agent;
        let outcome = link.exchange(buffer, wants(agent), &mut self.events);
        match outcome {
            Exchange::Waits => {}
            Exchange::Again => self.list(tag),
            Exchange::Eof => {
                self.events.push((agent, NetEvent::Eof));
                self.by_agent.remove(&agent);
                self.drop_link(tag);
            }
            Exchange::Failed(error) => self.fail(tag, &error.to_string()),
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
                self.fail(tag, &error.to_string());
            } else {
                self.connect(tag, rest);
            }
            return;
        }
        let placeholder = State::Resolving(Target { host: Arc::from(""), port: 0 });
        let State::Connecting { stream, .. } = std::mem::replace(&mut link.state, placeholder)
        else {
            unreachable!("matched above");
        };
        // Best effort: a request goes out in one write as a rule, and a late one is still right.
        stream.set_nodelay(true).ok();
        link.state = State::Open { stream, readable: true, writable: true };
        self.events.push((link.agent, NetEvent::Connected));
    }

    fn fail(&mut self, tag: Tag, reason: &str) {
        if let Some(link) = self.links.get(tag) {
            let agent = link.agent;
            self.events.push((agent, NetEvent::Failed(reason.to_owned())));
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
    Eof,
    Failed(io::Error),
}

impl Link {
    fn exchange(
        &mut self,
        buffer: &mut [u8],
        wants: bool,
        events: &mut Vec<(Tag, NetEvent)>,
    ) -> Exchange {
        let State::Open { stream, readable, writable } = &mut self.state else {
            return Exchange::Waits;
        };
        while *writable && self.sent < self.request.len() {
            match stream.write(&self.request[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => *writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A server may answer and close before it has read all; the answer counts.
                Err(_) => self.sent = self.request.len(),
            }
        }
        let mut budget = ROUND_BYTES;
        while *readable && wants && budget > 0 {
            let share = budget.min(buffer.len());
            match stream.read(&mut buffer[..share]) {
                Ok(0) => return Exchange::Eof,
                Ok(n) => {
                    budget -= n;
                    events.push((self.agent, NetEvent::Bytes(buffer[..n].to_vec())));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => *readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Exchange::Failed(error),
            }
        }
        if *readable && wants { Exchange::Again } else { Exchange::Waits }
    }
}
