//! What the workers count and time, for `/metrics`: atomics that any thread may add to.
//!
//! It knows no text format, and nothing of who reads it. Each number is right by itself; two of them
//! read one after the other may belong to different moments.

use crate::disk::Stats;
use crate::proto::payload::TurnStatus;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The upper ends of the latency buckets, in microseconds: from a write into the page cache to a disk
/// that one should look at.
pub const LATENCY_BUCKETS_US: [u64; 14] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    5_000_000,
];

/// Counters and latencies of one server.
#[derive(Debug)]
pub struct Meter {
    store: Arc<Stats>,
    turns: [AtomicU64; TurnStatus::ALL.len()],
    /// From a batch's timestamp to its bytes in the log, synced where that is configured.
    pub append: Latency,
    /// From there to the sockets having been offered its frames.
    pub publish: Latency,
    providers: BTreeMap<String, ProviderMeter>,
}

/// What became of the requests to one provider.
#[derive(Debug, Default)]
pub struct ProviderMeter {
    /// Connections asked for: a request that is retried has several, one to a provider inside the
    /// process none.
    pub attempts: Counter,
    /// Requests that were answered to the end.
    pub answered: Counter,
    /// Requests that failed for good, all retries included.
    pub failed: Counter,
    /// Requests that a cancel or the end of their turn gave up.
    pub aborted: Counter,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// How long something took: a count for each bucket, and the sum.
#[derive(Debug, Default)]
pub struct Latency {
    /// Not cumulative. The last is for all that took longer than the last bucket.
    buckets: [AtomicU64; LATENCY_BUCKETS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Meter {
    /// A meter of a server with these providers on a store that counts in `store`.
    pub fn new(store: Arc<Stats>, providers: impl IntoIterator<Item = String>) -> Self {
        Self {
            store,
            turns: Default::default(),
            append: Latency::default(),
            publish: Latency::default(),
            providers: providers.into_iter().map(|name| (name, ProviderMeter::default())).collect(),
        }
    }

    /// What the store has counted.
    pub fn store(&self) -> &Stats {
        &self.store
    }

    /// A turn has ended.
    pub fn turn_ended(&self, status: TurnStatus) {
        self.turns[status as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Turns that ended so.
    pub fn turns(&self, status: TurnStatus) -> u64 {
        self.turns[status as usize].load(Ordering::Relaxed)
    }

    /// The meter of a provider; none for one that is not configured.
    pub fn provider(&self, name: &str) -> Option<&ProviderMeter> {
        self.providers.get(name)
    }

    /// Every provider with its meter, in order of name.
    pub fn providers(&self) -> impl Iterator<Item = (&str, &ProviderMeter)> {
        self.providers.iter().map(|(name, meter)| (name.as_str(), meter))
    }
}

impl Counter {
    /// One more.
    pub fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Latency {
    /// It took so many microseconds this time; less than none, when the clock was set back meanwhile,
    /// is none.
    pub fn observe(&self, us: i64) {
        let us = u64::try_from(us).unwrap_or(0);
        let bucket = LATENCY_BUCKETS_US.partition_point(|&end| end < us);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// How often it took at most so long, for each bucket, and then how often at all.
    pub fn cumulative(&self) -> [u64; LATENCY_BUCKETS_US.len() + 1] {
        let mut sum = 0;
        self.buckets.each_ref().map(|bucket| {
            sum += bucket.load(Ordering::Relaxed);
            sum
        })
    }

    /// How long it took in all, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_took_at_most_its_end() {
        let latency = Latency::default();
        for us in [-5, 0, 50, 51, 100, 5_000_000, 5_000_001, i64::MAX / 2] {
            latency.observe(us);
        }
        let cumulative = latency.cumulative();
        assert_eq!(cumulative[..3], [3, 5, 5], "50, 100 and 250 us");
        assert_eq!(cumulative[LATENCY_BUCKETS_US.len() - 1..], [6, 8], "5 s, and longer");
        assert_eq!(latency.sum_us(), 10_000_202 + (i64::MAX / 2) as u64);
    }
}
