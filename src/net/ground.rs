//! What the reactor stands on: the poll, the sockets and pipes that are there before anything is served,
//! whom its connections trust, and which token means whom.

use super::tls::Trust;
use crate::conn::slab::Tag;
use crate::limits::LISTEN_BACKLOG;
use crate::os;
use crate::work::Done;
use crate::work::pool::Inbound;
use crossbeam_channel::Receiver;
use mio::net::TcpListener;
use mio::unix::pipe;
use mio::{Interest, Poll, Token, Waker};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

pub(super) const LISTENER: Token = Token(0);
pub(super) const WAKER: Token = Token(1);
pub(super) const SIGNALS: Token = Token(2);
/// Tokens from here on: four to a slot, one for each kind of source.
const FIRST_SLOT: usize = 4;

/// What a token that names a slot is about.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// A client's socket.
    Client,
    /// A connection to a provider.
    Provider,
    /// The pipes of a tool's process.
    ToolPipes,
    /// The end of a tool's process.
    ToolExit,
}

const SOURCES: [Source; 4] =
    [Source::Client, Source::Provider, Source::ToolPipes, Source::ToolExit];

/// The token of a source of this kind in this slot.
pub(super) fn token(source: Source, tag: Tag) -> Token {
    Token(FIRST_SLOT + SOURCES.len() * tag.slot as usize + source as usize)
}

/// Which source a token names, and in which slot; `token` is none of the three above.
pub(super) fn source(token: Token) -> (Source, u32) {
    let number = token.0 - FIRST_SLOT;
    (SOURCES[number % SOURCES.len()], (number / SOURCES.len()) as u32)
}

/// What must exist before workers do: the poll, its waker, the listening socket.
pub struct Ground {
    pub(super) poll: Poll,
    pub(super) listener: TcpListener,
    pub(super) signals: (pipe::Sender, pipe::Receiver),
    pub(super) inbound: Inbound,
    pub(super) answers: Receiver<Done>,
    pub(super) trust: Trust,
}

impl Ground {
    /// Listens on `address`; connections to providers will trust whom `trust` does.
    pub fn listen(address: SocketAddr, trust: Trust) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let mut listener = TcpListener::bind(address)?;
        os::set_backlog(listener.as_raw_fd(), LISTEN_BACKLOG)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let (sender, mut receiver) = pipe::new()?;
        poll.registry().register(&mut receiver, SIGNALS, Interest::READABLE)?;
        let (inbound, answers) = Inbound::new(move || {
            // It fails only when the eventfd is gone, and then so is the reactor.
            waker.wake().ok();
        });
        Ok(Self { poll, listener, signals: (sender, receiver), inbound, answers, trust })
    }

    /// The address it listens on, with its real port.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Where workers, the resolver and handles send what they have to say.
    pub fn inbound(&self) -> &Inbound {
        &self.inbound
    }

    /// A descriptor that takes signal numbers, one byte each: SIGTERM and SIGINT stop the server,
    /// SIGHUP reloads its configuration, or stops it too if there is none. Open for as long as the
    /// reactor lives.
    pub fn signal_fd(&self) -> RawFd {
        self.signals.0.as_raw_fd()
    }
}

/// Whether an accept failed for want of descriptors or memory, which others may give back.
pub(super) fn is_exhausted(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ENOBUFS: i32 = 105;
    const ENOMEM: i32 = 12;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE | ENOBUFS | ENOMEM))
}
