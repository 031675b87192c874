//! The one thread on which all waiting happens: it owns every socket, tells the hub what they read
//! and took, and does what the hub orders.
//!
//! A round: wait for readiness (not at all while somebody in the ready list is not done), hear the
//! workers, do what is due, accept, give each ready socket its share. It never blocks elsewhere and
//! never touches the disk.

mod clients;

use super::Chores;
use super::child::{ChildEvent, Children};
use super::ground::{Ground, LISTENER, SIGNALS, Source, WAKER, source};
use super::socket::{Sockets, may_read, may_write};
use super::upstream::Upstreams;
use crate::hub::{Hub, Stage, ToolOrder};
use crate::limits::{ROUND_BYTES, TOOLS_KILLED_MS};
use crate::os;
use crate::proto::time::{Mono, Wall};
use crate::work::journal::Journal;
use crate::work::note::Note;
use crate::work::pool::{Inbound, Pool};
use crate::work::{Control, Done};
use crossbeam_channel::Receiver;
use mio::event::Event;
use mio::net::TcpListener;
use mio::unix::pipe;
use mio::{Events, Poll};
use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};

/// Why the reactor ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to, and everything was left in order.
    Stopped,
    /// It was told to a second time: nothing was waited for.
    AtOnce,
    /// The disk failed in a way that leaves it unknown what is stored.
    DiskFailed(String),
}

/// The reactor. See the module's documentation.
pub struct Reactor {
    poll: Poll,
    listener: Option<TcpListener>,
    /// Connections wait to be accepted, as far as is known.
    acceptable: bool,
    /// Out of descriptors: accepting rests until one is closed or a second has passed.
    resting: bool,
    /// It has been said that accepting rests.
    said_resting: bool,
    signals: (pipe::Sender, pipe::Receiver),
    inbound: Inbound,
    answers: Receiver<Done>,
    pool: Pool,
    hub: Hub,
    sockets: Sockets,
    upstreams: Upstreams,
    children: Children,
    chores: Box<dyn Chores>,
    journal: Journal,
    clock: fn() -> Wall,
    buffer: Box<[u8]>,
    started: Instant,
    next_second: Mono,
    stops: u32,
}

impl Reactor {
    /// A reactor on this ground.
    pub fn new(
        ground: Ground,
        hub: Hub,
        pool: Pool,
        resolver: crate::work::names::Resolver,
        chores: Box<dyn Chores>,
        journal: Journal,
        clock: fn() -> Wall,
    ) -> io::Result<Self> {
        let Ground { poll, listener, signals, inbound, answers, trust } = ground;
        let upstreams = Upstreams::new(poll.registry().try_clone()?, resolver, trust);
        let children = Children::new(poll.registry().try_clone()?);
        Ok(Self {
            poll,
            listener: Some(listener),
            acceptable: true,
            resting: false,
            said_resting: false,
            signals,
            inbound,
            answers,
            pool,
            hub,
            sockets: Sockets::default(),
            upstreams,
            children,
            chores,
            journal,
            clock,
            buffer: vec![0; ROUND_BYTES].into_boxed_slice(),
            started: Instant::now(),
            next_second: Mono(0),
            stops: 0,
        })
    }

    /// Writes lines to the server's log.
    pub fn note(&mut self, notes: Vec<Note>) {
        for note in notes {
            self.journal.note(note);
        }
    }

    /// Serves until it is told to stop. Nothing of a tool is left then.
    pub fn run(mut self) -> io::Result<Ended> {
        let mut events = Events::with_capacity(1024);
        let ended = self.serve(&mut events);
        self.kill_tools(&mut events);
        ended
    }

    fn serve(&mut self, events: &mut Events) -> io::Result<Ended> {
        loop {
            if let Some(ended) = self.round(events)? {
                return Ok(ended);
            }
        }
    }

    /// A round by itself, for tests that count them.
    #[cfg(test)]
    pub(crate) fn one_round(&mut self) -> io::Result<Option<Ended>> {
        self.round(&mut Events::with_capacity(1024))
    }

    fn round(&mut self, events: &mut Events) -> io::Result<Option<Ended>> {
        let timeout = self.timeout();
        if let Err(error) = self.poll.poll(events, timeout)
            && error.kind() != ErrorKind::Interrupted
        {
            return Err(error);
        }
        let now = self.now();
        self.hub.set_now(now);
        for event in &*events {
            self.event(event);
        }
        if self.stops > 1 {
            return Ok(Some(Ended::AtOnce));
        }
        self.hear_answers();
        self.do_what_is_due(now);
        self.accept();
        self.serve_ready();
        if self.hub.is_stopping() {
            self.listener = None;
            self.hub.stage_tick();
            self.obey();
            if self.hub.stage() == Stage::Over {
                return Ok(Some(match self.hub.latched() {
                    Some(reason) => Ended::DiskFailed(reason.to_owned()),
                    None => Ended::Stopped,
                }));
            }
        }
        Ok(None)
    }

    /// Kills what runs and reaps it, which takes no time as a rule: a process that the kernel does not
    /// let go of is left to whoever waits for this one.
    fn kill_tools(&mut self, events: &mut Events) {
        let now = self.now();
        self.children.obey(ToolOrder::KillAll, now);
        let until = now.add_ms(TOOLS_KILLED_MS);
        while !self.children.is_empty() && self.now() < until {
            let left = Duration::from_millis(until.since(self.now()));
            if self.poll.poll(events, Some(left)).is_err() {
                return;
            }
            for event in &*events {
                self.event(event);
            }
            self.serve_tools();
        }
    }

    fn now(&self) -> Mono {
        Mono(self.started.elapsed().as_millis() as u64)
    }

    /// How long the next poll may wait.
    fn timeout(&self) -> Option<Duration> {
        let busy = self.sockets.ready_len() > 0
            || self.upstreams.ready_len() > 0
            || self.children.ready_len() > 0
            || (self.acceptable && !self.resting && self.listener.is_some())
            || !self.answers.is_empty();
        if busy {
            return Some(Duration::ZERO);
        }
        let second = (self.resting || self.chores.watches()).then_some(self.next_second);
        let hub = self.hub.next_deadline();
        let due = hub.into_iter().chain(self.children.next_deadline()).chain(second).min();
        due.map(|due| Duration::from_millis(due.since(self.now())))
    }

    fn event(&mut self, event: &Event) {
        match event.token() {
            LISTENER => self.acceptable = true,
            WAKER => {}
            SIGNALS => self.take_signals(),
            token => {
                let (source, slot) = source(token);
                match source {
                    Source::Client => self.sockets.hear(slot as usize, event),
                    Source::Provider => {
                        self.upstreams.event(slot, may_read(event), may_write(event));
                    }
                    Source::ToolPipes => self.children.moved(slot),
                    Source::ToolExit => self.children.ended(slot, self.now()),
                }
            }
        }
    }

    fn take_signals(&mut self) {
        let mut bytes = [0; 16];
        while let Ok(n @ 1..) = self.signals.1.read(&mut bytes) {
            for &byte in &bytes[..n] {
                let reload = if byte == os::SIGHUP { self.chores.reload() } else { None };
                match reload {
                    Some(job) => self.pool.submit([job]),
                    // With nothing to read anew, SIGHUP says that the terminal is gone.
                    None => self.stop(),
                }
            }
        }
    }

    fn stop(&mut self) {
        self.stops += 1;
        self.hub.stop();
    }

    /// Hears what workers have to say: what is there now, not what comes meanwhile.
    ///
    /// Published events are written before the next batch is heard: a ring overflows when a socket
    /// has refused them, not when several batches came at once.
    fn hear_answers(&mut self) {
        self.inbound.heard();
        for _ in 0..self.answers.len() {
            let Ok(done) = self.answers.try_recv() else { break };
            let stored = match &done {
                Done::Events(published) => Some(published.stored),
                _ => None,
            };
            match self.hub.done(done) {
                None => {}
                Some(Done::Control(control)) => self.control(control),
                Some(Done::Resolved(resolved)) => {
                    let now = self.now();
                    self.upstreams.resolved(resolved, now);
                    self.hear_upstreams();
                }
                Some(_) => unreachable!("the hub keeps everything else"),
            }
            self.obey();
            if let Some(stored) = stored {
                self.hub.meter().publish.observe((self.clock)().0 - stored.0);
            }
        }
    }

    fn control(&mut self, control: Control) {
        match control {
            Control::Stop => self.stop(),
            Control::Tokens(tokens) => self.hub.set_tokens(tokens),
            Control::Reload(reload) => self.hub.reload(*reload),
            Control::Inject { session, text, wake } => self.hub.inject(&session, text, wake),
            Control::Resume { session } => self.hub.resume_turn(&session),
            Control::Recover { session } => self.hub.recover(&session),
            Control::ReadConfig => {
                if let Some(job) = self.chores.reload() {
                    self.pool.submit([job]);
                }
            }
        }
    }

    fn do_what_is_due(&mut self, now: Mono) {
        self.children.tick(now);
        self.hear_children();
        for tag in self.hub.tick() {
            self.close(tag, "timed out");
        }
        if now >= self.next_second {
            self.next_second = now.add_s(1);
            self.resting = false;
            if let Some(job) = self.chores.every_second() {
                self.pool.submit([job]);
            }
        }
        self.obey();
    }

    /// Does what the hub orders; what that leads to is ordered and done as well.
    fn obey(&mut self) {
        while self.hub.has_orders() {
            let orders = self.hub.orders();
            for note in orders.notes {
                self.journal.note(note);
            }
            if !orders.jobs.is_empty() {
                self.pool.submit(orders.jobs);
            }
            for (agent, command) in orders.upstream {
                let now = self.now();
                self.upstreams.obey(agent, command, now);
            }
            for order in orders.tools {
                let now = self.now();
                self.children.obey(order, now);
            }
            for tag in orders.scrapes {
                self.hub.scrape(tag, self.pool.depth());
            }
            for agent in orders.thirsty {
                self.upstreams.thirsty(agent);
            }
            self.hear_upstreams();
            self.hear_children();
            for tag in orders.touched {
                self.write(tag);
                self.finish(tag);
            }
        }
    }

    fn hear_upstreams(&mut self) {
        for (agent, event) in self.upstreams.take_events() {
            self.hub.upstream(agent, event);
        }
    }

    fn hear_children(&mut self) {
        for event in self.children.take_events() {
            match event {
                ChildEvent::Ended { agent, tag, outcome } => {
                    self.hub.tool_ended(agent, tag, outcome);
                }
                ChildEvent::Over(trace) => self.hub.tool_over(trace),
            }
        }
    }

    /// Gives everybody who was ready when the round began one share.
    fn serve_ready(&mut self) {
        for _ in 0..self.sockets.ready_len() {
            let Some(tag) = self.sockets.next_ready() else { break };
            self.read(tag);
            self.obey();
            self.write(tag);
            self.finish(tag);
        }
        for _ in 0..self.upstreams.begin_round() {
            let hub = &self.hub;
            self.upstreams.serve_next(&mut self.buffer, |agent| hub.wants_upstream(agent));
            self.hear_upstreams();
        }
        self.serve_tools();
        self.obey();
    }

    fn serve_tools(&mut self) {
        for _ in 0..self.children.ready_len() {
            let now = self.now();
            self.children.serve_next(&mut self.buffer, now);
        }
        self.hear_children();
    }
}
