//! How long to wait before the next attempt to connect.

use std::time::Duration;

/// Doubles from attempt to attempt, with jitter: clients that a deploy has cut off must not come
/// back all at once.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// The next wait: from half of the step up to all of it, as `random` has it.
    pub(super) fn next(&mut self, random: u64) -> Duration {
        let step_ms = (FIRST_MS << self.attempts.min(16)).min(LONGEST_MS);
        self.attempts = self.attempts.saturating_add(1);
        Duration::from_millis(step_ms / 2 + random % (step_ms / 2 + 1))
    }

    /// The connection has been of use; the next wait is a short one.
    pub(super) fn reset(&mut self) {
        self.attempts = 0;
    }
}

const FIRST_MS: u64 = 500;
const LONGEST_MS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_start_over() {
        let mut backoff = Backoff::default();
        let longest: Vec<u128> = (0..9)
            .map(|_| {
                let step_ms = (FIRST_MS << backoff.attempts).min(LONGEST_MS);
                backoff.next(step_ms / 2).as_millis()
            })
            .collect();
        assert_eq!(longest, [500, 1000, 2000, 4000, 8000, 10000, 10000, 10000, 10000]);
        backoff.attempts = u32::MAX;
        assert_eq!(backoff.next(0).as_millis(), 5000);
        backoff.reset();
        assert_eq!(backoff.next(0).as_millis(), 250);
    }

    #[test]
    fn no_wait_is_shorter_than_half_its_step_or_longer_than_it() {
        for random in [0, 1, 249, 250, 251, u64::MAX] {
            let wait = Backoff::default().next(random).as_millis();
            assert!((250..=500).contains(&wait), "{wait}");
        }
    }
}
