//! The worker threads: a fixed number, each takes one job, runs it to its end, and takes the next.
//!
//! It knows jobs as values of three classes and nothing of what they do. Jobs that may sync occupy all
//! workers but one, so that a slow disk never stops a replay: the first worker takes reads only. Tools
//! of the embedding program occupy all workers but two, where there are that many, so that one that
//! takes its time stops no append either.
//!
//! Invariant: a panic ends the job it happened in, never the worker.

use super::queues::Queues;
use super::{Answers, Class, Done, Job, Worker};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Wakes the reactor, at most once for each time it looks.
#[derive(Clone)]
pub struct Doorbell {
    rung: Arc<AtomicBool>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Doorbell {
    /// A doorbell that calls `wake` when it is rung and was not yet heard.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { rung: Arc::default(), wake: Arc::new(wake) }
    }

    /// Called after something was put where the reactor will find it.
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            (self.wake)();
        }
    }

    /// Called by the reactor before it looks: what comes after rings again.
    pub fn heard(&self) {
        // A swap and not a store: it takes over what was put in the queue before the last ring.
        self.rung.swap(false, Ordering::AcqRel);
    }
}

/// The way up: answers from workers, the resolver and handles, and the bell that announces them.
#[derive(Clone)]
pub struct Inbound {
    sender: Sender<Done>,
    bell: Doorbell,
}

impl Inbound {
    /// A way up whose bell calls `wake`, and its other end.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> (Self, Receiver<Done>) {
        let (sender, receiver) = unbounded();
        (Self { sender, bell: Doorbell::new(wake) }, receiver)
    }

    /// Sends `done` up.
    pub fn send(&self, done: Done) {
        self.put(done);
        self.ring();
    }

    /// Puts `done` where the reactor finds it when it is next woken. After the reactor has ended, it is
    /// dropped: nobody is left to hear it.
    fn put(&self, done: Done) {
        drop(self.sender.send(done));
    }

    fn ring(&self) {
        self.bell.ring();
    }

    /// See [`Doorbell::heard`].
    pub fn heard(&self) {
        self.bell.heard();
    }
}

/// The pool. Dropping it lets every worker finish the job it is at; nobody waits for them.
pub struct Pool {
    queues: Arc<Queues>,
}

impl Pool {
    /// Starts `count` workers, at least two.
    pub fn start(count: usize, inbound: &Inbound, worker: impl Fn() -> Worker) -> io::Result<Self> {
        // Dropped where a thread cannot be started: those that were end.
        let pool = Self { queues: Arc::default() };
        let count = count.max(2);
        for number in 0..count {
            let last = match number {
                0 => Class::Read,
                1 if count > 2 => Class::Other,
                _ => Class::Foreign,
            };
            let (queues, inbound, worker) = (Arc::clone(&pool.queues), inbound.clone(), worker());
            thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || work(&queues, last as usize, worker, &inbound))?;
        }
        Ok(pool)
    }

    /// Queues jobs, each behind the others of its class.
    pub fn submit(&self, jobs: impl IntoIterator<Item = Job>) {
        self.queues.put(jobs);
    }

    /// Jobs that wait for a worker.
    pub fn depth(&self) -> usize {
        self.queues.depth()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queues.close();
    }
}

fn work(queues: &Queues, rank: usize, mut worker: Worker, up: &Inbound) {
    let mut voice = Voice { up, unheard: 0 };
    loop {
        let taken = queues.take(rank, false).or_else(|| {
            voice.hurry();
            queues.take(rank, true)
        });
        let Some(job) = taken else { return };
        let patience = worker.patience(&job);
        voice.ring_beyond(patience);
        // The panic has been told of on standard error, and what it cost is on its way up.
        worker.run_caught(job, &mut voice).ok();
        voice.ring_beyond(patience);
    }
}

/// One worker's answers. Those of short jobs are announced together while more work waits: whoever wakes
/// the reactor for each makes it come round for each.
struct Voice<'a> {
    up: &'a Inbound,
    /// Answers that were not announced.
    unheard: usize,
}

impl Voice<'_> {
    fn ring_beyond(&mut self, patience: usize) {
        if self.unheard > patience {
            self.unheard = 0;
            self.up.ring();
        }
    }
}

impl Answers for Voice<'_> {
    fn send(&mut self, done: Done) {
        self.unheard += 1;
        self.up.put(done);
    }

    fn hurry(&mut self) {
        self.ring_beyond(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn a_burst_wakes_the_reactor_once_and_the_next_burst_again() {
        let wakes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&wakes);
        let bell = Doorbell::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        for burst in 1..=3 {
            for _ in 0..5 {
                bell.ring();
            }
            assert_eq!(wakes.load(Ordering::Relaxed), burst);
            bell.heard();
        }
    }
}
