//! The worker threads: a fixed number, each takes one job, runs it to its end, and takes the next.
//!
//! It knows jobs as values of three classes and nothing of what they do. Jobs that may sync occupy all
//! workers but one, so that a slow disk never stops a replay: the first worker takes reads only. Tools
//! of the embedding program occupy all workers but two, where there are that many, so that one that
//! takes its time stops no append either.
//!
//! Invariant: a panic ends the job it happened in, never the worker.

use super::{Class, Done, Job, Worker};
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

    /// Sends `done` up. After the reactor has ended, it is dropped: nobody is left to hear it.
    pub fn send(&self, done: Done) {
        if self.sender.send(done).is_ok() {
            self.bell.ring();
        }
    }

    /// See [`Doorbell::heard`].
    pub fn heard(&self) {
        self.bell.heard();
    }
}

/// The pool. Dropping it lets every worker finish the job it is at; nobody waits for them.
pub struct Pool {
    reads: Sender<Job>,
    others: Sender<Job>,
    foreign: Sender<Job>,
}

impl Pool {
    /// Starts `count` workers, at least two.
    pub fn start(count: usize, inbound: &Inbound, worker: impl Fn() -> Worker) -> io::Result<Self> {
        let (reads, reads_taken) = unbounded();
        let (others, others_taken) = unbounded();
        let (foreign, foreign_taken) = unbounded();
        let count = count.max(2);
        for number in 0..count {
            let (inbound, worker) = (inbound.clone(), worker());
            let reads = reads_taken.clone();
            let others = (number > 0).then(|| others_taken.clone());
            let foreign = (number > 1 || count == 2 && number > 0).then(|| foreign_taken.clone());
            let queues = Queues { reads, others, foreign };
            thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || work(&queues, worker, &inbound))?;
        }
        Ok(Self { reads, others, foreign })
    }

    /// Queues a job behind the others of its class.
    pub fn submit(&self, job: Job) {
        let queue = match job.class() {
            Class::Read => &self.reads,
            Class::Other => &self.others,
            Class::Foreign => &self.foreign,
        };
        queue.send(job).expect("workers live as long as the pool, so the queue has a taker");
    }

    /// Jobs that wait for a worker.
    pub fn depth(&self) -> usize {
        self.reads.len() + self.others.len() + self.foreign.len()
    }
}

/// The queues one worker takes from.
struct Queues {
    reads: Receiver<Job>,
    others: Option<Receiver<Job>>,
    foreign: Option<Receiver<Job>>,
}

fn work(queues: &Queues, mut worker: Worker, up: &Inbound) {
    let never = crossbeam_channel::never();
    let reads = &queues.reads;
    let others = queues.others.as_ref().unwrap_or(&never);
    let foreign = queues.foreign.as_ref().unwrap_or(&never);
    loop {
        let taken = crossbeam_channel::select! {
            recv(reads) -> job => job,
            recv(others) -> job => job,
            recv(foreign) -> job => job,
        };
        let Ok(job) = taken else { return };
        // The panic has been told of on standard error, and what it cost is on its way up.
        worker.run_caught(job, &mut |done| up.send(done)).ok();
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
