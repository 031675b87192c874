//! Name resolution, on a thread of its own: the system's resolver blocks for as long as it likes.
//!
//! Invariant: one answer for each question, in order; an address is never asked for.

use super::Done;
use super::pool::Inbound;
use crossbeam_channel::{Sender, unbounded};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread;

/// A name that was looked up.
pub struct Resolved {
    /// The name.
    pub host: Arc<str>,
    /// The port the addresses carry.
    pub port: u16,
    /// Its addresses, best first, or what the system said.
    pub outcome: Result<Vec<SocketAddr>, String>,
}

/// The way to the resolver's thread, which ends when this is dropped.
pub struct Resolver {
    questions: Sender<(Arc<str>, u16)>,
}

impl Resolver {
    /// Starts the thread; its answers go to `inbound`.
    pub fn start(inbound: Inbound) -> io::Result<Self> {
        let (questions, taken) = unbounded::<(Arc<str>, u16)>();
        thread::Builder::new().name("resolver".to_owned()).spawn(move || {
            for (host, port) in taken {
                let outcome = match (&*host, port).to_socket_addrs() {
                    Ok(found) => Ok(found.collect()),
                    Err(error) => Err(error.to_string()),
                };
                inbound.send(Done::Resolved(Resolved { host, port, outcome }));
            }
        })?;
        Ok(Self { questions })
    }

    /// Asks for the addresses of a name.
    pub fn ask(&self, host: Arc<str>, port: u16) {
        self.questions.send((host, port)).expect("the resolver's thread outlives its questions");
    }
}
