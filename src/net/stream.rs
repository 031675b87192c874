//! A connection to a provider, plain or encrypted: plain bytes go in and come out, and what the socket
//! is ready for is remembered.
//!
//! Knows no request and no agent, and nothing of TLS but that its bytes pass through a [`Session`].

use super::tls::Session;
use mio::net::TcpStream;
use std::io::{ErrorKind, Read, Write};

/// A connection that stands; with TLS it may still be in its handshake.
pub(super) struct Stream {
    socket: TcpStream,
    /// None where nothing is encrypted.
    session: Option<Box<Session>>,
    /// A read would not block, as far as is known.
    readable: bool,
    /// A write would not block, as far as is known.
    writable: bool,
}

/// Why a stream is of no more use.
pub(super) enum Broken {
    /// It came to an end that was not one, or what came is no TLS.
    Lost(String),
    /// The peer did not prove who it is.
    Untrusted(String),
}

impl Stream {
    /// A socket that has just been connected.
    pub(super) fn new(socket: TcpStream, session: Option<Session>) -> Self {
        Self { socket, session: session.map(Box::new), readable: true, writable: true }
    }

    /// The poll says that something may be possible.
    pub(super) fn moved(&mut self, can_read: bool, can_write: bool) {
        self.readable |= can_read;
        self.writable |= can_write;
    }

    pub(super) fn is_readable(&self) -> bool {
        self.readable
    }

    /// Whether bytes may pass: the peer is who it should be, where that is asked.
    pub(super) fn is_established(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.is_established())
    }

    /// Sends what the socket takes, and before it what TLS has to say. How many of `bytes` need not
    /// be given again: all, once nobody reads them any more. A server may answer and close before it
    /// has read all, and the answer counts.
    pub(super) fn send(&mut self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        loop {
            let left = &bytes[sent..];
            let (sealed, wrote) = match &mut self.session {
                _ if !self.writable => return sent,
                None if left.is_empty() => return sent,
                None => (0, self.socket.write(left)),
                Some(session) => {
                    let sealed = session.seal(left);
                    if !session.has_output() {
                        return sent + sealed;
                    }
                    (sealed, session.write_to(&mut self.socket).map(|()| 0))
                }
            };
            sent += sealed;
            match wrote {
                Ok(n) => sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.writable = false;
                    return bytes.len();
                }
            }
        }
    }

    /// Reads once, at most what `buffer` holds, and appends what that brought to `plain`, also when it
    /// fails. How many bytes that took off the socket; none at the end.
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        plain: &mut Vec<u8>,
    ) -> Result<Option<usize>, Broken> {
        if self.session.as_ref().is_some_and(|session| session.is_ended()) {
            return Ok(None);
        }
        match (self.socket.read(buffer), &mut self.session) {
            (Ok(0), None) => Ok(None),
            (Ok(0), Some(session)) => Err(session.cut_off()),
            (Ok(n), None) => {
                plain.extend_from_slice(&buffer[..n]);
                Ok(Some(n))
            }
            (Ok(n), Some(session)) => {
                session.open(&buffer[..n], plain)?;
                Ok(Some(n))
            }
            (Err(error), _) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(Some(0))
            }
            (Err(error), _) if error.kind() == ErrorKind::Interrupted => Ok(Some(0)),
            (Err(error), _) => Err(Broken::Lost(error.to_string())),
        }
    }
}
