//! Client connections from accept to close: what the reactor does with one socket in one round.
//!
//! Readiness is edge-triggered: a socket is read and written until it would block or its share of the
//! round is used up, and is listed again while anything is left to do.

use super::super::ground::{Source, is_exhausted, token};
use super::super::socket::Socket;
use super::Reactor;
use crate::conn::ring::SLICES_MAX;
use crate::conn::slab::Tag;
use crate::limits::{ACCEPTS_PER_ROUND, ROUND_BYTES, WRITE_BYTES};
use crate::work::note::{Level, Note};
use mio::Interest;
use std::io::{ErrorKind, IoSlice};

impl Reactor {
    /// Accepts until none waits, or enough for one round.
    pub(super) fn accept(&mut self) {
        let mut left = ACCEPTS_PER_ROUND;
        while let Some(listener) = &self.listener
            && self.acceptable
            && !self.resting
            && left > 0
        {
            left -= 1;
            match listener.accept() {
                Ok((mut stream, _)) => {
                    // Events are small and each is worth sending by itself; a socket that cannot
                    // be told so is slower, not wrong.
                    stream.set_nodelay(true).ok();
                    let Some(tag) = self.hub.accept() else { continue };
                    let (token, registry) = (token(Source::Client, tag), self.poll.registry());
                    if registry.register(&mut stream, token, Interest::READABLE).is_ok() {
                        self.sockets.insert(Socket::new(tag, stream));
                    } else {
                        self.hub.gone(tag, "could not be watched");
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.acceptable = false;
                    // Everybody who waited has been let in: a next time is another occasion.
                    self.said_resting = false;
                }
                Err(error) if is_exhausted(&error) => {
                    self.resting = true;
                    if !self.said_resting {
                        self.said_resting = true;
                        let note = Note::new(Level::Warn, "cannot accept for now");
                        self.journal.note(note.with("cause", error));
                    }
                }
                // The connection was gone before it was accepted; the next may be fine.
                Err(_) => {}
            }
        }
        self.obey();
    }

    pub(super) fn read(&mut self, tag: Tag) {
        let mut budget = ROUND_BYTES;
        while budget > 0 {
            let wanted = self.hub.wants_read(tag);
            let Some(socket) = self.sockets.get(tag) else { return };
            if !wanted || !socket.is_readable() {
                return;
            }
            let share = budget.min(self.buffer.len());
            match socket.read(&mut self.buffer[..share]) {
                Ok(0) => {}
                Ok(n) => {
                    budget -= n;
                    self.hub.read(tag, &mut self.buffer[..n]);
                }
                Err(_) => return self.close(tag, "connection lost"),
            }
        }
    }

    /// Writes what waits for a client: what one job can publish at once, at least, or else a ring
    /// could grow without its socket ever refusing anything.
    pub(super) fn write(&mut self, tag: Tag) {
        let mut budget = WRITE_BYTES;
        loop {
            let Some(socket) = self.sockets.get(tag) else { return };
            if !socket.is_writable() {
                let token = token(Source::Client, tag);
                if socket.watch_writing(self.poll.registry(), token).is_err() {
                    return self.close(tag, "could not be watched");
                }
                self.hub.blocked(tag);
                return;
            }
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.hub.slices(tag, &mut slices);
            if count == 0 || budget == 0 {
                return;
            }
            // A socket may take whatever has gathered, and then the share is all that bounds it.
            let (mut share, mut left) = ([IoSlice::new(&[]); SLICES_MAX], budget);
            for (cut, slice) in share.iter_mut().zip(&slices[..count]) {
                *cut = IoSlice::new(&slice[..slice.len().min(left)]);
                left -= cut.len();
            }
            match socket.write(&share[..count]) {
                Ok(0) => {}
                Ok(n) => {
                    budget = budget.saturating_sub(n);
                    self.hub.wrote(tag, n);
                }
                Err(_) => return self.close(tag, "connection lost"),
            }
        }
    }

    /// Ends a socket that has nothing left to do, or lists it while it has.
    pub(super) fn finish(&mut self, tag: Tag) {
        let (ending, output) = (self.hub.is_ending(tag), self.hub.has_output(tag));
        let wanted = self.hub.wants_read(tag);
        let answers = self.hub.answers_after_eof(tag);
        let Some(socket) = self.sockets.get(tag) else { return };
        if socket.is_at_end() && !output && (ending || !answers) {
            return self.close(tag, "closed by the peer");
        }
        if ending && !output && socket.end_writing().is_err() {
            return self.close(tag, "connection lost");
        }
        if (socket.is_readable() && wanted) || (socket.is_writable() && output) {
            self.sockets.list(tag);
        }
    }

    pub(super) fn close(&mut self, tag: Tag, cause: &'static str) {
        self.hub.gone(tag, cause);
        if self.sockets.remove(tag).is_some() {
            self.resting = false;
        }
    }
}
