//! Where jobs wait for workers: a queue for each class, and who sleeps.
//!
//! It knows ranks: a worker of a rank takes that class of jobs and those before it. One worker is woken
//! at a time, and wakes the next if it leaves work behind: a burst of short jobs then costs a few wakes
//! and not one a job, and jobs that wait for the disk still run side by side.
//!
//! Invariant: while a job waits, a worker that may take it is at work, or was called, or none sleeps.

use super::Job;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};

/// Classes, and so ranks.
const CLASSES: usize = 3;

/// The queues of all workers.
#[derive(Default)]
pub(super) struct Queues {
    state: Mutex<State>,
    /// By rank.
    beds: [Condvar; CLASSES],
}

#[derive(Default)]
struct State {
    jobs: [VecDeque<Job>; CLASSES],
    /// Workers that sleep and were not called, by rank.
    asleep: [usize; CLASSES],
    /// Workers that were called and have not looked since.
    called: [usize; CLASSES],
    /// Whose queue is looked at first, so that none starves.
    turn: usize,
    closed: bool,
}

impl Queues {
    pub(super) fn put(&self, jobs: impl IntoIterator<Item = Job>) {
        let mut state = self.lock();
        for job in jobs {
            state.jobs[job.class() as usize].push_back(job);
        }
        self.call_one(state);
    }

    /// The next job for a worker of this rank. None when there is none, or, if it `waits`, when none
    /// will come.
    pub(super) fn take(&self, rank: usize, waits: bool) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.next(rank) {
                self.call_one(state);
                return Some(job);
            }
            if !waits {
                return None;
            }
            state.asleep[rank] += 1;
            state = self.beds[rank].wait(state).expect(UNPOISONED);
            // One that woke by itself takes the call of another, which then finds itself awake for
            // nothing: the numbers are right either way.
            let count = if state.called[rank] > 0 { &mut state.called } else { &mut state.asleep };
            count[rank] -= 1;
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.lock().jobs.iter().map(VecDeque::len).sum()
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.beds.iter().for_each(Condvar::notify_all);
    }

    fn call_one(&self, mut state: MutexGuard<'_, State>) {
        let rank = state.call_one();
        drop(state);
        if let Some(rank) = rank {
            self.beds[rank].notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }
}

impl State {
    fn next(&mut self, rank: usize) -> Option<Job> {
        self.turn = self.turn.wrapping_add(1);
        let places = (0..=rank).map(|place| (place + self.turn) % (rank + 1));
        places.into_iter().find_map(|class| self.jobs[class].pop_front())
    }

    /// Calls a worker for a job that no called worker may take, and says of which rank it is.
    fn call_one(&mut self) -> Option<usize> {
        let Self { jobs, asleep, called, .. } = self;
        let rank = (0..CLASSES).find_map(|class| {
            let unattended = !jobs[class].is_empty() && called[class..].iter().all(|n| *n == 0);
            (class..CLASSES).find(|rank| unattended && asleep[*rank] > 0)
        })?;
        asleep[rank] -= 1;
        called[rank] += 1;
        Some(rank)
    }
}

const UNPOISONED: &str = "no job runs under the lock, so nobody panics there";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conn::slab::Tag;
    use crate::disk::Tip;
    use crate::proto::ident::SessionId;
    use crate::work::{Class, Read};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    fn read() -> Job {
        Job::Read(Box::new(Read {
            conn: Tag { slot: 0, generation: 0 },
            generation: 0,
            session: SessionId::parse("s1").expect("an id"),
            from: 0,
            frames: None,
            cursor: None,
            tip: Tip { seq: 0, base: 0, bytes: 0 },
            events_max: 1,
        }))
    }

    fn other() -> Job {
        Job::Close(Vec::new())
    }

    /// What a worker does that was called and finds a job.
    fn works(state: &mut State, rank: usize) -> Option<Class> {
        state.called[rank] -= 1;
        state.next(rank).map(|job| job.class())
    }

    #[test]
    fn a_worker_takes_jobs_of_its_class_and_those_before_it() {
        let queues = Queues::default();
        queues.put([other(), read(), other()]);
        let (reader, any) = (Class::Read as usize, Class::Foreign as usize);
        assert_eq!(queues.take(reader, false).map(|job| job.class()), Some(Class::Read));
        assert!(queues.take(reader, false).is_none(), "nothing that may sync");
        assert_eq!(queues.depth(), 2);
        assert_eq!(queues.take(any, false).map(|job| job.class()), Some(Class::Other));
        queues.close();
        assert!(queues.take(any, true).is_none(), "nobody waits for a job that was left");
    }

    #[test]
    fn no_class_starves_another() {
        let queues = Queues::default();
        queues.put((0..4).flat_map(|_| [read(), other()]));
        let taken = (0..4).filter_map(|_| queues.take(Class::Other as usize, false));
        let reads = taken.filter(|job| job.class() == Class::Read).count();
        assert_eq!(reads, 2);
    }

    #[test]
    fn a_burst_calls_one_worker_and_each_that_leaves_work_behind_calls_the_next() {
        let mut state = State { asleep: [1, 1, 1], ..State::default() };
        state.jobs[Class::Other as usize].extend([other(), other(), other()]);
        assert_eq!(state.call_one(), Some(1), "of those who may, the one who may least");
        assert_eq!(state.call_one(), None, "one is on its way");
        assert_eq!(works(&mut state, 1), Some(Class::Other));
        assert_eq!(state.call_one(), Some(2));
        assert_eq!(works(&mut state, 2), Some(Class::Other));
        assert_eq!(state.call_one(), None, "the one who is left may not take what is left");
        state.jobs[Class::Read as usize].push_back(read());
        assert_eq!(state.call_one(), Some(0));
        assert_eq!(works(&mut state, 0), Some(Class::Read));
        assert_eq!((state.asleep, state.called), ([0; 3], [0; 3]));
    }

    #[test]
    fn every_job_is_done_however_workers_fall_asleep_and_wake() {
        let (queues, done) = (Queues::default(), AtomicUsize::new(0));
        thread::scope(|scope| {
            for rank in [0, 1, 2, 2] {
                let (queues, done) = (&queues, &done);
                scope.spawn(move || {
                    while queues.take(rank, true).is_some() {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for number in 1..=2000 {
                queues.put([read(), other()]);
                // Now and then everybody has gone to sleep.
                while number % 50 == 0 && done.load(Ordering::Relaxed) < 2 * number {
                    thread::yield_now();
                }
            }
            queues.close();
        });
        assert_eq!(done.into_inner(), 4000);
    }
}
