//! One client's socket, and the list of those that have more to do.
//!
//! Knows no connection and nothing of what its bytes mean: whoever owns it decides whether it is read,
//! and for how long it is served.

use crate::conn::slab::Tag;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;

/// A client's socket with what is known of its readiness.
pub struct Socket {
    tag: Tag,
    stream: TcpStream,
    /// A read would not block, as far as is known.
    readable: bool,
    /// A write would not block, as far as is known.
    writable: bool,
    /// The peer has shut down its writing, as an event said: a short read is then no proof that
    /// nothing is left, for the end of the stream has no event of its own any more.
    closing: bool,
    /// The end of the peer's stream was read.
    eof: bool,
    /// Our writing is shut down.
    shut: bool,
    /// It stands in the ready list.
    listed: bool,
    /// The poll watches for room to write.
    watched: bool,
}

impl Socket {
    /// A stream that was just accepted and is watched, as the socket of the connection `tag`.
    pub fn new(tag: Tag, stream: TcpStream) -> Self {
        Self {
            tag,
            stream,
            // A new socket can be written; bytes that came with the handshake have an event.
            readable: false,
            writable: true,
            closing: false,
            eof: false,
            shut: false,
            listed: false,
            watched: false,
        }
    }

    /// Has the poll tell when a socket that takes no more takes something again. Most never come to
    /// that, and one that is watched from the start wakes the poll once to say that it may be written.
    pub fn watch_writing(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        if self.watched {
            return Ok(());
        }
        self.watched = true;
        registry.reregister(&mut self.stream, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Whether a read would not block, as far as is known, and the end is still to come.
    pub fn is_readable(&self) -> bool {
        self.readable && !self.eof
    }

    /// Whether a write would not block, as far as is known.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Whether the end of the peer's stream was read.
    pub fn is_at_end(&self) -> bool {
        self.eof
    }

    /// Reads once. 0 at the end, and where a read would block or was interrupted:
    /// [`Socket::is_readable`] says whether to go on.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(buffer) {
            Ok(n) => {
                self.eof = n == 0;
                // A short read has emptied a stream socket (epoll(7)), and what comes later has an
                // event of its own.
                self.readable = n == buffer.len() || self.closing;
                Ok(n)
            }
            Err(error) => {
                self.readable &= error.kind() != ErrorKind::WouldBlock;
                nothing_for_now(error)
            }
        }
    }

    /// Writes once. 0 where a write would block or was interrupted: [`Socket::is_writable`] says
    /// whether to go on.
    pub fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = match slices {
            // The kernel has less to look at than in a list of one.
            [one] => self.stream.write(one),
            list => self.stream.write_vectored(list),
        };
        written.or_else(|error| {
            self.writable &= error.kind() != ErrorKind::WouldBlock;
            nothing_for_now(error)
        })
    }

    /// Says that nothing more will be written, once. Whoever has said so discards what the peer still
    /// sends until it closes: closing now, with unread input, would reset the connection and lose
    /// the last bytes on their way.
    pub fn end_writing(&mut self) -> io::Result<()> {
        if self.shut {
            return Ok(());
        }
        self.shut = true;
        self.stream.shutdown(Shutdown::Write)
    }
}

fn nothing_for_now(error: io::Error) -> io::Result<usize> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(0),
        _ => Err(error),
    }
}

/// Whether a read has something to say: bytes, the end or an error.
pub(super) fn may_read(event: &Event) -> bool {
    event.is_readable() || event.is_read_closed() || event.is_error()
}

/// Whether a write has something to say, be it an error.
pub(super) fn may_write(event: &Event) -> bool {
    event.is_writable() || event.is_write_closed() || event.is_error()
}

/// Sockets by the slot of their connection.
#[derive(Default)]
pub struct Sockets {
    slots: Vec<Option<Socket>>,
    /// Those with something left to do this round, first come first served.
    ready: VecDeque<Tag>,
}

impl Sockets {
    /// Takes in a socket; its slot is free.
    pub fn insert(&mut self, socket: Socket) {
        let slot = socket.tag.slot as usize;
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(socket);
    }

    /// The poll says something about the socket in this slot, if there still is one: it has
    /// something to do.
    pub fn hear(&mut self, slot: usize, event: &Event) {
        let Some(socket) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        socket.readable |= may_read(event);
        socket.writable |= may_write(event);
        socket.closing |= event.is_read_closed() || event.is_error();
        let tag = socket.tag;
        self.list(tag);
    }

    /// The socket of a connection.
    pub fn get(&mut self, tag: Tag) -> Option<&mut Socket> {
        let socket = self.slots.get_mut(tag.slot as usize)?.as_mut()?;
        (socket.tag == tag).then_some(socket)
    }

    /// Takes a socket out. Dropping it closes it and takes it out of the poll.
    pub fn remove(&mut self, tag: Tag) -> Option<Socket> {
        self.get(tag)?;
        self.slots[tag.slot as usize].take()
    }

    /// Puts a socket into the ready list, once.
    pub fn list(&mut self, tag: Tag) {
        if let Some(socket) = self.get(tag)
            && !socket.listed
        {
            socket.listed = true;
            self.ready.push_back(tag);
        }
    }

    /// Takes one off the ready list.
    pub fn next_ready(&mut self) -> Option<Tag> {
        while let Some(tag) = self.ready.pop_front() {
            if let Some(socket) = self.get(tag) {
                socket.listed = false;
                return Some(tag);
            }
        }
        None
    }

    /// How many stand in the ready list, at most: some may be gone.
    pub fn ready_len(&self) -> usize {
        self.ready.len()
    }
}
