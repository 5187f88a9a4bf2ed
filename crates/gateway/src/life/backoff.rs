//! Exponential back-off with jitter, so that lanes do not dial at the same time.

use std::time::Duration;

use trunkline_units::Rng;

/// Exponential back-off with jitter: the n-th wait is between one half and all of `first` × 2^n, up to `max`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backoff {
    first: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) const fn new(first: Duration, max: Duration) -> Self {
        Backoff { first, max, failures: 0 }
    }

    /// The wait after one more failure.
    pub(super) fn next(&mut self, rng: &mut Rng) -> Duration {
        let longest = self.first.saturating_mul(1 << self.failures.min(16)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        longest.mul_f64(0.5 + rng.uniform() / 2.0)
    }

    /// Failures in a row.
    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }

    /// Starts again after a success.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_jitter_stays_within_half() {
        let mut rng = Rng::new(1, "backoff");
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        for expected in [200, 400, 800, 1600, 3200, 5000, 5000, 5000] {
            let wait = backoff.next(&mut rng).as_secs_f64() * 1e3;
            assert!(
                (f64::from(expected) / 2.0..=f64::from(expected)).contains(&wait),
                "{wait} of {expected}"
            );
        }
        backoff.reset();
        assert!(backoff.next(&mut rng) <= Duration::from_millis(200));
    }
}
