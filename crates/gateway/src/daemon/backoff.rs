//! When to dial again: soon at first, then less and less often, never all at once.

use std::time::Duration;

use trunkline_units::Rng;

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(5);

/// Exponential back-off with jitter: the n-th wait is between one half and all of `FIRST` × 2^n, up to `LONGEST`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The wait after another failure.
    pub(super) fn next(&mut self, rng: &mut Rng) -> Duration {
        let longest = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        longest.mul_f64(0.5 + rng.uniform() / 2.0)
    }

    /// Starts over after a success.
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
        let mut backoff = Backoff::default();
        for expected in [200, 400, 800, 1600, 3200, 5000, 5000, 5000] {
            let wait = backoff.next(&mut rng).as_secs_f64() * 1e3;
            assert!(
                (f64::from(expected) / 2.0..=f64::from(expected)).contains(&wait),
                "{wait} of {expected}"
            );
        }
        backoff.reset();
        assert!(backoff.next(&mut rng) <= FIRST);
    }
}
