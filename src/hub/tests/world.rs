//! A hub with workers, sockets and time played by the test: jobs run when it says so, a peer takes
//! as many bytes as it says, and the clock moves when it says so.

use crate::config::{Config, Script, ScriptEnd, ScriptStep, Token, Tokens};
use crate::conn::ring::SLICES_MAX;
use crate::conn::slab::Tag;
use crate::disk::sim::SimDisk;
use crate::disk::{LogOptions, Store, SyncMode};
use crate::hub::{Hub, Options};
use crate::model::Provider;
use crate::proto::event::Envelope;
use crate::proto::ident::{ModelSpec, SessionId};
use crate::proto::time::{Mono, Wall};
use crate::proto::ws::frame::Opcode;
use crate::proto::ws::{Assembler, Item, Role, write_masked, write_masked_close};
use crate::tool::ClosureTool;
use crate::work::launcher::Launcher;
use crate::work::meter::Meter;
use crate::work::note::Note;
use crate::work::settings::Settings;
use crate::work::{Job, Random, Upstream, Worker};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

pub(super) const SESSIONS: usize = 20;

pub(super) struct World {
    pub(super) hub: Hub,
    pub(super) now: Mono,
    pub(super) jobs: VecDeque<Job>,
    pub(super) notes: Vec<Note>,
    pub(super) upstream: Vec<(Tag, Upstream)>,
    pub(super) peers: HashMap<Tag, Peer>,
    pub(super) closed: Vec<Tag>,
    pub(super) worker: Worker,
    pub(super) disk: SimDisk,
    /// Inputs that jobs were given.
    pub(super) inputs: usize,
}

/// The other end of a connection.
#[derive(Default)]
pub(super) struct Peer {
    /// Bytes it takes before its socket would block.
    pub(super) takes: usize,
    raw: Vec<u8>,
    /// The answer's head, when there was one.
    pub(super) head: String,
    /// Text frames received, and not looked at yet.
    pub(super) frames: Vec<String>,
    pub(super) pings: usize,
    pub(super) close: Option<u16>,
    pub(super) ended: bool,
}

pub(super) fn session(number: usize) -> SessionId {
    SessionId::parse(&format!("s{number}")).expect("a valid id")
}

/// Every session `sN` has the token `tN`.
pub(super) fn tokens() -> Tokens {
    let mut tokens = Tokens::default();
    for number in 0..SESSIONS {
        let token = Token::parse(&format!("t{number}")).expect("a valid token");
        tokens.add(session(number), token);
    }
    tokens
}

pub(super) fn step(pieces: &[&str]) -> ScriptStep {
    ScriptStep {
        delay_ms: 0,
        chunk_delay_ms: 0,
        pieces: pieces.iter().map(ToString::to_string).collect(),
        end: ScriptEnd::Answer { calls: Vec::new(), usage: None },
    }
}

impl World {
    /// A world in which the model answers from `steps`, over and over.
    pub(super) fn new(steps: Vec<ScriptStep>, adjust: impl FnOnce(&mut Options)) -> Self {
        Self::with(Provider::Scripted(Arc::new(Script { steps, repeat: true })), adjust)
    }

    pub(super) fn with(provider: Provider, adjust: impl FnOnce(&mut Options)) -> Self {
        Self::configured(&Config::default(), provider, Vec::new(), adjust)
    }

    pub(super) fn configured(
        config: &Config,
        provider: Provider,
        tools: Vec<ClosureTool>,
        adjust: impl FnOnce(&mut Options),
    ) -> Self {
        let disk = SimDisk::new(1);
        let log = LogOptions { sync: SyncMode::Always, segment_bytes: 16 * 1024 };
        let store = Store::open(Arc::new(disk.clone()), Path::new("/data"), log).expect("a store");
        let mut seed = 7_u64;
        let random = Random::new(move |bytes| {
            for byte in bytes {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (seed >> 56) as u8;
            }
        });
        let launcher = Arc::new(Launcher::new(Path::new("/data")));
        let meter = Arc::new(Meter::new(Arc::clone(store.stats()), ["mine".to_owned()]));
        let clock = || Wall(1_700_000_000_000_000);
        let worker = Worker::new(Arc::new(store), launcher, clock, random, Arc::clone(&meter));
        let mut options = Options::new(config, 64, 8);
        adjust(&mut options);
        let models = BTreeMap::from([("mine".to_owned(), provider)]);
        let settings = Arc::new(Settings::new(config, models, tools).expect("no headers"));
        let main = ModelSpec::parse("mine/model").expect("a spec");
        let roles = BTreeMap::from([("main".to_owned(), main)]);
        Self {
            hub: Hub::new(options, settings, tokens(), roles, meter),
            now: Mono(0),
            jobs: VecDeque::new(),
            notes: Vec::new(),
            upstream: Vec::new(),
            peers: HashMap::new(),
            closed: Vec::new(),
            worker,
            disk,
            inputs: 0,
        }
    }

    /// A connection whose peer has sent `bytes` and takes all it is given.
    pub(super) fn dial(&mut self, bytes: &[u8]) -> Tag {
        let tag = self.hub.accept().expect("there is room");
        self.peers.insert(tag, Peer { takes: usize::MAX, ..Peer::default() });
        self.bytes(tag, bytes);
        tag
    }

    /// The agent of session `number`.
    pub(super) fn agent(&self, number: usize) -> Tag {
        self.hub.agents.find(&session(number)).expect("it is known")
    }

    /// A WebSocket connection for session `number`, up to and with its `hello`.
    pub(super) fn connect(&mut self, number: usize) -> Tag {
        let tag = self.dial(handshake(number, &format!("t{number}")).as_bytes());
        self.settle();
        let hello = self.peers.get_mut(&tag).expect("it is there").frames.remove(0);
        assert!(hello.starts_with("{\"type\":\"hello\",\"proto\":1,"), "{hello}");
        tag
    }

    pub(super) fn bytes(&mut self, tag: Tag, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        self.hub.read(tag, &mut bytes);
        self.obey();
    }

    pub(super) fn send(&mut self, tag: Tag, json: &str) {
        self.bytes(tag, &frame(json));
    }

    /// Runs jobs until none is left.
    pub(super) fn settle(&mut self) {
        while self.run_job() {}
    }

    /// Runs the oldest job.
    pub(super) fn run_job(&mut self) -> bool {
        let Some(job) = self.jobs.pop_front() else { return false };
        if let Job::Advance(advance) = &job {
            self.inputs += advance.inputs.len();
        }
        let mut done = Vec::new();
        self.worker.run(job, &mut |answer: crate::work::Done| done.push(answer));
        for answer in done {
            assert!(self.hub.done(answer).is_none(), "it is for the hub");
            self.obey();
        }
        true
    }

    /// Runs the oldest job, which panics, as the pool would.
    pub(super) fn run_job_that_panics(&mut self) {
        let job = self.jobs.pop_front().expect("a job");
        let mut done = Vec::new();
        assert!(
            self.worker
                .run_caught(job, &mut |answer: crate::work::Done| done.push(answer))
                .is_err()
        );
        for answer in done {
            self.hub.done(answer);
            self.obey();
        }
    }

    /// Lets time pass, and does what is due.
    pub(super) fn pass(&mut self, ms: u64) {
        self.now = self.now.add_ms(ms);
        self.hub.set_now(self.now);
        let dead = self.hub.tick();
        for tag in dead {
            self.hub.gone(tag, "timed out");
            self.closed.push(tag);
        }
        self.obey();
    }

    /// Does what the hub orders, as the reactor would.
    pub(super) fn obey(&mut self) {
        loop {
            let orders = self.hub.orders();
            self.jobs.extend(orders.jobs);
            self.notes.extend(orders.notes);
            self.upstream.extend(orders.upstream);
            if orders.touched.is_empty() {
                return;
            }
            for tag in orders.touched {
                self.write(tag);
            }
        }
    }

    /// Lets a peer take `n` more bytes.
    pub(super) fn take(&mut self, tag: Tag, n: usize) {
        self.peers.get_mut(&tag).expect("it is there").takes += n;
        self.write(tag);
        self.obey();
    }

    fn write(&mut self, tag: Tag) {
        let Some(peer) = self.peers.get_mut(&tag) else { return };
        loop {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.hub.slices(tag, &mut slices);
            if count == 0 {
                break;
            }
            let shown = slices[..count].iter().flat_map(|slice| slice.iter().copied());
            let taken: Vec<u8> = shown.take(peer.takes).collect();
            if taken.is_empty() {
                self.hub.blocked(tag);
                break;
            }
            peer.takes -= taken.len();
            peer.raw.extend(&taken);
            self.hub.wrote(tag, taken.len());
        }
        peer.ended |= self.hub.is_ending(tag) && !self.hub.has_output(tag);
        peer.look();
    }

    /// The events a peer has received since it was last asked, by seq; anything else fails.
    pub(super) fn seqs(&mut self, tag: Tag) -> Vec<u64> {
        let peer = self.peers.get_mut(&tag).expect("it is there");
        let frames = std::mem::take(&mut peer.frames);
        frames.iter().map(|frame| seq(frame)).collect()
    }

    pub(super) fn peer(&mut self, tag: Tag) -> &mut Peer {
        self.peers.get_mut(&tag).expect("it is there")
    }
}

pub(super) fn seq(frame: &str) -> u64 {
    Envelope::parse(frame.as_bytes()).unwrap_or_else(|| panic!("no event: {frame}")).seq
}

impl Peer {
    /// What it has received that is no frame: the head and body of an answer.
    pub(super) fn text(&self) -> String {
        format!("{}{}", self.head, String::from_utf8_lossy(&self.raw))
    }

    /// Takes apart what has come.
    fn look(&mut self) {
        if self.head.is_empty() {
            let Some(end) = self.raw.windows(4).position(|four| four == b"\r\n\r\n") else {
                return;
            };
            self.head = String::from_utf8(self.raw.drain(..end + 4).collect()).expect("a head");
        }
        if !self.head.starts_with("HTTP/1.1 101") {
            return;
        }
        // Frames are cut anywhere, so only whole ones are taken off.
        loop {
            let mut bytes = self.raw.clone();
            let mut assembler = Assembler::new(Role::Client, 1 << 24);
            let mut rest = &mut bytes[..];
            match assembler.push(&mut rest).expect("a server that keeps to RFC 6455") {
                None => return,
                Some(item) => {
                    assert!(self.close.is_none(), "nothing follows a close frame");
                    match item {
                        Item::Text(text) => self.frames.push(text.into_owned()),
                        Item::Ping(_) => self.pings += 1,
                        Item::Pong(_) => {}
                        Item::Close(Some((code, _))) => self.close = Some(code.as_u16()),
                        other => panic!("a server does not send {other:?}"),
                    }
                    let used = self.raw.len() - rest.len();
                    self.raw.drain(..used);
                }
            }
        }
    }
}

pub(super) fn handshake(number: usize, token: &str) -> String {
    format!(
        "GET /agents/s{number}/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\
         Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
}

/// A client's text frame.
pub(super) fn frame(json: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_masked(&mut bytes, Opcode::Text, json.as_bytes(), [1, 2, 3, 4]);
    bytes
}

pub(super) fn close_frame() -> Vec<u8> {
    let mut bytes = Vec::new();
    let code = crate::proto::ws::CloseCode::NORMAL;
    write_masked_close(&mut bytes, code, "", [1, 2, 3, 4]);
    bytes
}

pub(super) const WAKE: &str = r#"{"type":"inject","text":"go","wake":true}"#;

pub(super) fn subscribe(from: u64) -> String {
    format!(r#"{{"type":"subscribe","from_seq":{from}}}"#)
}
