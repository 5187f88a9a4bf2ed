//! How long the rest of the tries will take.
//!
//! How many runs a try takes is known only when they tell: some are made again and again, and what gains is confirmed. So it is taken
//! from the tries so far, at first from what is usual; and so is how long a run takes. The network without a trunk, which comes first,
//! is run faster than any with one, and does not count as soon as there is another.

use std::time::Duration;

/// Of how many tries what is usual is worth.
const USUAL_TRIES: f64 = 10.0;

/// Runs for one that a try begins with, before anything is known of a network: the fewer these are, the less they tell. 3 of 2 and 1.8
/// of 5 are within a factor of two of what small and large networks took.
fn usual(runs: f64) -> f64 {
    1.0 + 4.0 / runs
}

#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    /// Runs that each try begins with.
    runs: usize,
    /// Tries to come, and those that have begun.
    tries: usize,
    begun: usize,
    /// Runs that were made.
    made: usize,
    /// Runs whose time counts, and that time.
    timed: usize,
    seconds: f64,
}

impl Pace {
    pub(super) fn new(runs: usize) -> Self {
        Pace { runs, ..Pace::default() }
    }

    /// So many tries are to come.
    pub(super) const fn expect(&mut self, tries: usize) {
        self.tries = tries;
    }

    /// A try begins.
    pub(super) const fn begin(&mut self) {
        self.begun += 1;
        self.tries = self.tries.saturating_sub(1);
    }

    /// So many runs were made.
    pub(super) fn count(&mut self, runs: usize, took: Duration) {
        if self.begun == 2 && self.timed == self.made {
            (self.timed, self.seconds) = (0, 0.0);
        }
        self.made += runs;
        self.timed += runs;
        self.seconds += took.as_secs_f64();
    }

    pub(super) const fn made(&self) -> usize {
        self.made
    }

    /// How long the rest will take; none before a trunk was tried.
    pub(super) fn left(&self) -> Option<Duration> {
        if self.timed == self.made {
            return None;
        }
        let runs = self.runs as f64;
        let least = self.begun as f64 * runs;
        let times = (self.made as f64 + usual(runs) * USUAL_TRIES * runs) / (least + USUAL_TRIES * runs);
        let rest = self.tries as f64 * runs * times;
        Duration::try_from_secs_f64(rest * self.seconds / self.timed as f64).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_network_without_a_trunk_says_nothing_of_how_long_those_with_one_take() {
        let mut pace = Pace::new(5);
        pace.expect(30);
        pace.begin();
        pace.count(5, SECOND / 10);
        assert_eq!(pace.left(), None);
        pace.begin();
        pace.count(5, SECOND);
        // 28 tries of 5 runs and more of a fifth of a second.
        let left = pace.left().expect("it is known");
        assert!((SECOND * 28..SECOND * 60).contains(&left), "{left:?}");
    }

    #[test]
    fn tries_whose_runs_do_not_tell_make_the_estimate_longer() {
        let left = |runs| {
            let mut pace = Pace::new(5);
            pace.expect(22);
            for _ in 0..12 {
                pace.begin();
                pace.count(runs, SECOND * runs as u32);
            }
            pace.left().expect("it is known").as_secs_f64()
        };
        let [clear, unclear] = [5, 20].map(left);
        assert!((50.0..80.0).contains(&clear), "{clear}");
        assert!((140.0..200.0).contains(&unclear), "{unclear}");
    }
}
