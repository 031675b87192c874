//! A WebSocket server on this crate's own `proto` and `net` that sends every message back: what the
//! Autobahn testsuite wants to talk to. It is no part of the product.
//!
//! `cargo run --example autobahn_echo` prints the address it listens on and serves until its standard
//! input ends. One thread waits for all sockets and gives each its share of a round, as the reactor
//! does. It knows no session and no agent: a peer's messages are its own affair.

use std::io::{self, ErrorKind, IoSlice, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use terret_ws::conn::ring::{Outbox, SLICES_MAX};
use terret_ws::conn::slab::{Slab, Tag};
use terret_ws::limits::{ROUND_BYTES, WRITE_BYTES};
use terret_ws::net::socket::{Socket, Sockets};
use terret_ws::proto::http::HeadParser;
use terret_ws::proto::upgrade::{accept, write_switching_protocols};
use terret_ws::proto::ws::{
    Assembler, Item, Role, write_binary, write_close, write_empty_close, write_pong, write_text,
};

/// The suite's largest messages have 16 MiB.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

const LISTENER: Token = Token(0);
const STOP: Token = Token(1);
/// Tokens from here on are slots.
const FIRST_SLOT: usize = 2;

fn main() -> io::Result<()> {
    let mut echo = Echo::listen()?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{}", echo.listener.local_addr()?)?;
    stdout.flush()?;
    let stop = Arc::new(Waker::new(echo.poll.registry(), STOP)?);
    let stopping = Arc::clone(&stop);
    thread::spawn(move || {
        io::copy(&mut io::stdin(), &mut io::sink()).and_then(|_| stopping.wake())
    });
    let mut events = Events::with_capacity(64);
    while echo.round(&mut events)? {}
    Ok(())
}

struct Echo {
    poll: Poll,
    listener: TcpListener,
    sockets: Sockets,
    peers: Slab<Peer>,
    buffer: Vec<u8>,
}

impl Echo {
    fn listen() -> io::Result<Echo> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind("127.0.0.1:0".parse().map_err(io::Error::other)?)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let (sockets, peers) = (Sockets::default(), Slab::default());
        Ok(Echo { poll, listener, sockets, peers, buffer: vec![0; ROUND_BYTES] })
    }

    /// False once it is to stop.
    fn round(&mut self, events: &mut Events) -> io::Result<bool> {
        let timeout = (self.sockets.ready_len() > 0).then_some(Duration::ZERO);
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &*events {
            match event.token() {
                LISTENER => self.accept()?,
                STOP => return Ok(false),
                token => self.sockets.hear(token.0 - FIRST_SLOT, event),
            }
        }
        for _ in 0..self.sockets.ready_len() {
            let Some(tag) = self.sockets.next_ready() else { break };
            // A peer that goes away in the middle is one of the suite's cases.
            if !self.serve(tag).unwrap_or(false) {
                self.peers.remove(tag);
                self.sockets.remove(tag);
            }
        }
        Ok(true)
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((mut stream, _)) => {
                    stream.set_nodelay(true)?;
                    let tag = self.peers.insert(Peer::default());
                    let token = Token(FIRST_SLOT + tag.slot as usize);
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    self.poll.registry().register(&mut stream, token, interest)?;
                    self.sockets.insert(Socket::new(tag, stream));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives one socket its share of a round; false once it is to be closed.
    fn serve(&mut self, tag: Tag) -> io::Result<bool> {
        let (Some(socket), Some(peer)) = (self.sockets.get(tag), self.peers.get_mut(tag)) else {
            return Ok(false);
        };
        // Who does not take its echoes is not listened to.
        let mut budget = ROUND_BYTES;
        while budget > 0 && socket.is_readable() && peer.outbox.is_empty() {
            let n = socket.read(&mut self.buffer[..budget])?;
            budget -= n;
            peer.hear(&mut self.buffer[..n])?;
        }
        let mut budget = WRITE_BYTES;
        while budget > 0 && socket.is_writable() && !peer.outbox.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = peer.outbox.slices(&mut slices);
            let n = socket.write(&slices[..count])?;
            budget = budget.saturating_sub(n);
            peer.outbox.advance(n);
        }
        let output = !peer.outbox.is_empty();
        if !output && socket.is_at_end() {
            return Ok(false);
        }
        if !output && matches!(peer.phase, Phase::Ending) {
            socket.end_writing()?;
        }
        if if output { socket.is_writable() } else { socket.is_readable() } {
            self.sockets.list(tag);
        }
        Ok(true)
    }
}

#[derive(Default)]
struct Peer {
    phase: Phase,
    outbox: Outbox,
}

enum Phase {
    Head(HeadParser),
    Open(Assembler),
    /// The close frame is the last thing sent; what still comes is discarded.
    Ending,
}

impl Default for Phase {
    fn default() -> Self {
        Phase::Head(HeadParser::default())
    }
}

impl Peer {
    fn hear(&mut self, mut input: &mut [u8]) -> io::Result<()> {
        if let Phase::Head(parser) = &mut self.phase {
            let head = parser.push(input).map_err(io::Error::other)?;
            let Some((head, used)) = head else { return Ok(()) };
            let key = accept(&head).map_err(|_| io::Error::other("no handshake"))?;
            let mut response = Vec::new();
            write_switching_protocols(&mut response, &key);
            self.outbox.push_raw(&response);
            self.phase = Phase::Open(Assembler::new(Role::Server, MESSAGE_BYTES_MAX));
            input = &mut input[used..];
        }
        while let Phase::Open(assembler) = &mut self.phase {
            let mut frame = Vec::new();
            let item = assembler.push(&mut input);
            let ends = matches!(item, Err(_) | Ok(Some(Item::Close(_))));
            match item {
                Ok(None) => break,
                Ok(Some(Item::Text(text))) => write_text(&mut frame, text.as_bytes()),
                Ok(Some(Item::Binary(bytes))) => write_binary(&mut frame, &bytes),
                Ok(Some(Item::Ping(payload))) => {
                    write_pong(&mut frame, &payload);
                    self.outbox.push_protocol(&frame);
                    continue;
                }
                Ok(Some(Item::Pong(_) | Item::TooLarge)) => continue,
                Ok(Some(Item::Close(Some((code, _))))) => write_close(&mut frame, code, ""),
                Ok(Some(Item::Close(None))) => write_empty_close(&mut frame),
                Err(error) => write_close(&mut frame, error.close_code(), ""),
            }
            // In order, the close frame too: the echoes before it are owed.
            self.outbox.push_event(&[&frame], false);
            if ends {
                self.phase = Phase::Ending;
            }
        }
        Ok(())
    }
}
