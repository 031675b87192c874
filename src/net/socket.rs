//! One client's socket, and the list of those that have more to do.

use crate::conn::slab::Tag;
use mio::net::TcpStream;
use std::collections::VecDeque;

/// A client's socket with what is known of its readiness.
pub(super) struct Socket {
    pub(super) tag: Tag,
    pub(super) stream: TcpStream,
    /// A read would not block, as far as is known.
    pub(super) readable: bool,
    /// A write would not block, as far as is known.
    pub(super) writable: bool,
    /// The peer has shut down its writing, as an event said: a short read is then no proof that
    /// nothing is left, for the end of the stream has no event of its own any more.
    pub(super) closing: bool,
    /// The end of the peer's stream was read.
    pub(super) eof: bool,
    /// Our writing is shut down.
    pub(super) shut: bool,
    /// It stands in the ready list.
    pub(super) listed: bool,
}

impl Socket {
    pub(super) fn new(tag: Tag, stream: TcpStream) -> Self {
        Self {
            tag,
            stream,
            // A new socket can be written; bytes that came with the handshake have an event.
            readable: true,
            writable: true,
            closing: false,
            eof: false,
            shut: false,
            listed: false,
        }
    }
}

/// Sockets by the slot of their connection.
#[derive(Default)]
pub(super) struct Sockets {
    slots: Vec<Option<Socket>>,
    /// Those with something left to do this round, first come first served.
    ready: VecDeque<Tag>,
}

impl Sockets {
    pub(super) fn insert(&mut self, socket: Socket) {
        let slot = socket.tag.slot as usize;
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(socket);
    }

    pub(super) fn at(&mut self, slot: usize) -> Option<&mut Socket> {
        self.slots.get_mut(slot)?.as_mut()
    }

    pub(super) fn get(&mut self, tag: Tag) -> Option<&mut Socket> {
        self.at(tag.slot as usize).filter(|socket| socket.tag == tag)
    }

    pub(super) fn remove(&mut self, tag: Tag) -> Option<Socket> {
        self.get(tag)?;
        self.slots[tag.slot as usize].take()
    }

    /// Puts a socket into the ready list, once.
    pub(super) fn list(&mut self, tag: Tag) {
        if let Some(socket) = self.get(tag)
            && !socket.listed
        {
            socket.listed = true;
            self.ready.push_back(tag);
        }
    }

    /// Takes one off the ready list.
    pub(super) fn next_ready(&mut self) -> Option<Tag> {
        while let Some(tag) = self.ready.pop_front() {
            if let Some(socket) = self.get(tag) {
                socket.listed = false;
                return Some(tag);
            }
        }
        None
    }

    pub(super) fn ready_len(&self) -> usize {
        self.ready.len()
    }
}
