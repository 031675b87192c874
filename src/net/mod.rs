//! Moves bytes and readiness, nothing else. What bytes mean is decided in `hub` and `conn`.
//!
//! Readiness is edge-triggered, as mio documents it: after an event a socket is used until it would
//! block, or it is remembered as ready. Nobody gets more than [`ROUND_BYTES`](crate::limits) of a
//! round; who is not done stands in the ready list, and while that list is not empty the next poll
//! does not wait.

pub mod ground;
pub mod reactor;
pub mod socket;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
pub mod tls;
mod child;
mod stream;
mod upstream;

use crate::work::Job;

/// Work beside the agents that the embedding program wants done now and then.
pub trait Chores: Send {
    /// The configuration is to be read anew.
    fn reload(&mut self) -> Option<Job>;
    /// Whether [`Chores::every_second`] is wanted: a server nobody talks to does not wake up.
    fn watches(&self) -> bool;
    /// A second has passed.
    fn every_second(&mut self) -> Option<Job>;
}
