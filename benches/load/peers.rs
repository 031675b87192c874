//! Many clients on one thread, each of which checks its stream as it arrives.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde_json::Value;
use terret_ws::proto::event::Envelope;
use terret_ws::proto::ws::frame::Opcode;
use terret_ws::proto::ws::{Assembler, Item, Role, write_masked};

use crate::server::agent;

/// How long nothing may happen before it is called a hang.
const PATIENCE: Duration = Duration::from_secs(60);
/// Ours need not be unpredictable.
const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// All clients of one scenario.
pub(crate) struct Peers {
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    pub(crate) list: Vec<Peer>,
}

/// One client.
pub(crate) struct Peer {
    stream: TcpStream,
    assembler: Assembler,
    /// Bytes of the answer to the handshake, until it is whole.
    head: Option<Vec<u8>>,
    unsent: Vec<u8>,
    writable: bool,
    readable: bool,
    /// It takes what comes; otherwise it lets it lie.
    reads: bool,
    opened: Instant,
    /// The seq that must come next.
    next: Option<u64>,
    /// Every event is held against it.
    checks: bool,
    /// What `hello` said, and how long that took.
    pub(crate) hello: Option<(u64, Duration)>,
    /// How long it took until everything that `hello` knew of had come.
    pub(crate) caught_up: Option<Duration>,
    pub(crate) events: u64,
    pub(crate) turns_ended: u64,
    /// Texts that the session took in.
    pub(crate) texts: Vec<String>,
    pub(crate) error: Option<String>,
    pub(crate) close: Option<u16>,
    pub(crate) gone: bool,
}

impl Peers {
    pub(crate) fn new() -> Self {
        Self {
            poll: Poll::new().unwrap(),
            events: Events::with_capacity(1024),
            buffer: vec![0; 256 * 1024],
            list: Vec::new(),
        }
    }

    /// Begins to connect a client to the n-th agent, and says its index.
    pub(crate) fn connect(&mut self, addr: SocketAddr, number: usize) -> usize {
        let index = self.list.len();
        let mut stream = TcpStream::connect(addr).unwrap();
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(index), interest).unwrap();
        let name = agent(number);
        let handshake = format!(
            "GET /agents/{name}/ws HTTP/1.1\r\nHost: load\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Authorization: Bearer token-of-{name}\r\n\r\n"
        );
        self.list.push(Peer {
            stream,
            assembler: Assembler::new(Role::Client, 16 << 20),
            head: Some(Vec::new()),
            unsent: handshake.into_bytes(),
            writable: false,
            readable: false,
            reads: true,
            opened: Instant::now(),
            next: None,
            checks: true,
            hello: None,
            caught_up: None,
            events: 0,
            turns_ended: 0,
            texts: Vec::new(),
            error: None,
            close: None,
            gone: false,
        });
        index
    }

    /// Connects one client to each of the first agents, and lets them all follow their logs from
    /// where these are.
    pub(crate) fn following(addr: SocketAddr, agents: usize) -> Self {
        let mut peers = Self::new();
        for number in 0..agents {
            peers.connect(addr, number);
        }
        peers.run("every hello", |peers| peers.iter().all(|peer| peer.hello.is_some()));
        for peer in &mut peers.list {
            let (tip, _) = peer.hello.unwrap();
            peer.subscribe(tip + 1);
        }
        peers
    }

    /// Reads and writes until `done`; `what` is waited for then.
    pub(crate) fn run(&mut self, what: &str, mut done: impl FnMut(&[Peer]) -> bool) {
        let mut heard = Instant::now();
        loop {
            let mut moved = false;
            for peer in &mut self.list {
                moved |= peer.turn(&mut self.buffer);
            }
            if done(&self.list) {
                return;
            }
            if moved {
                heard = Instant::now();
            }
            assert!(heard.elapsed() < PATIENCE, "still waiting for {what}");
            let timeout = if moved { Duration::ZERO } else { Duration::from_millis(100) };
            match self.poll.poll(&mut self.events, Some(timeout)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other.unwrap(),
            }
            for event in &self.events {
                let peer = &mut self.list[event.token().0];
                peer.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
                peer.writable |= event.is_writable();
            }
        }
    }

    /// Writes what was said.
    pub(crate) fn flush(&mut self) {
        self.run("every word to be written", |peers| {
            peers.iter().all(|peer| peer.unsent.is_empty())
        });
    }

    /// Lets every client say that nothing comes any more, and waits until the server has closed.
    pub(crate) fn part(&mut self) {
        for peer in &self.list {
            peer.stream.shutdown(Shutdown::Write).unwrap();
        }
        self.run("every close", |peers| peers.iter().all(|peer| peer.gone));
        self.list.clear();
    }

    /// Lets every client go without a word.
    pub(crate) fn cut(&mut self) {
        self.list.clear();
    }
}

impl Peer {
    /// Asks for the log from `seq` on.
    pub(crate) fn subscribe(&mut self, seq: u64) {
        self.next = Some(seq);
        self.say(&format!("{{\"type\":\"subscribe\",\"from_seq\":{seq}}}"));
    }

    /// Events are only counted from now on: the server makes up what it sends.
    pub(crate) fn only_counts(&mut self) {
        self.checks = false;
    }

    pub(crate) fn wake(&mut self, text: &str) {
        self.say(&format!("{{\"type\":\"inject\",\"text\":\"{text}\",\"wake\":true}}"));
    }

    fn say(&mut self, json: &str) {
        write_masked(&mut self.unsent, Opcode::Text, json.as_bytes(), KEY);
    }

    /// Whether what the server sends is taken from now on.
    pub(crate) fn reads(&mut self, reads: bool) {
        self.reads = reads;
    }

    /// Writes what it can and reads one buffer; says whether anything moved.
    fn turn(&mut self, buffer: &mut [u8]) -> bool {
        let mut moved = false;
        while self.writable && !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(n) => {
                    self.unsent.drain(..n);
                    moved = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(_) => self.unsent.clear(),
            }
        }
        if self.gone || !self.reads || !self.readable {
            return moved;
        }
        match self.stream.read(buffer) {
            Ok(0) => self.gone = true,
            Ok(n) => self.hear(&mut buffer[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                return moved;
            }
            Err(_) => self.gone = true,
        }
        true
    }

    fn hear(&mut self, mut input: &mut [u8]) {
        if let Some(head) = &mut self.head {
            let before = head.len();
            head.extend_from_slice(input);
            let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") else {
                return;
            };
            assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(head));
            input = &mut input[end + 4 - before..];
            self.head = None;
        }
        loop {
            match self.assembler.push(&mut input).expect("the server's frames are valid") {
                None => return,
                Some(Item::Text(text)) => {
                    let text = text.into_owned();
                    self.frame(text.as_bytes());
                }
                Some(Item::Ping(payload)) => {
                    write_masked(&mut self.unsent, Opcode::Pong, &payload, KEY);
                }
                Some(Item::Close(close)) => self.close = close.map(|(code, _)| code.as_u16()),
                Some(other) => panic!("the server never sends {other:?}"),
            }
        }
    }

    fn frame(&mut self, text: &[u8]) {
        if let Some(event) = Envelope::parse(text) {
            assert!(
                !self.checks || Some(event.seq) == self.next,
                "{} comes where {:?} has to: neither a gap nor a duplicate",
                event.seq,
                self.next
            );
            self.next = Some(event.seq + 1);
            self.events += 1;
            let (tip, _) = self.hello.expect("hello comes first");
            if event.seq == tip {
                self.caught_up = Some(self.opened.elapsed());
            }
            match event.kind {
                "turn/end" => self.turns_ended += 1,
                "user/message" | "context/injected" => {
                    let payload: Value = serde_json::from_slice(event.payload).unwrap();
                    self.texts.push(payload["text"].as_str().unwrap().to_owned());
                }
                _ => {}
            }
            return;
        }
        let frame: Value = serde_json::from_slice(text).expect("a protocol frame");
        match frame["type"].as_str() {
            Some("hello") => {
                self.hello = Some((frame["last_seq"].as_u64().unwrap(), self.opened.elapsed()));
            }
            Some("error") => self.error = Some(frame["code"].as_str().unwrap().to_owned()),
            other => panic!("{other:?}"),
        }
    }
}
