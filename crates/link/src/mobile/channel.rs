//! The losses of a channel's blocks: one interval after the other, independently or in fades.

use std::collections::VecDeque;

use trunkline_units::Rng;

/// How likely a radio block is lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BlockErrors {
    /// Each with this probability.
    Independent(f64),
    /// In fades (Gilbert 1960, Elliott 1963): two states, each with a probability of loss, and a probability with each
    /// interval to go over to the other.
    Fading {
        /// From the good state to the bad.
        to_bad: f64,
        /// And back.
        to_good: f64,
        /// Of loss in the good state.
        good: f64,
        /// Of loss in the bad state.
        bad: f64,
    },
}

impl BlockErrors {
    /// The share of blocks that is lost in the long run.
    pub fn mean(&self) -> f64 {
        match *self {
            BlockErrors::Independent(p) => p,
            BlockErrors::Fading { good, bad, .. } => {
                let faded = self.faded();
                good * (1.0 - faded) + bad * faded
            }
        }
    }

    /// The share of time in the bad state.
    fn faded(&self) -> f64 {
        match *self {
            BlockErrors::Fading { to_bad, to_good, .. } if to_bad + to_good > 0.0 => {
                to_bad / (to_bad + to_good)
            }
            _ => 0.0,
        }
    }
}

/// The channel, interval by interval. Asked for intervals in any order, as long as none is before what was forgotten.
#[derive(Debug, Clone)]
pub(super) struct Channel {
    errors: BlockErrors,
    /// From interval `first` on: whether a block is lost in it.
    lost: VecDeque<bool>,
    first: u64,
    in_bad: bool,
}

impl Channel {
    pub(super) fn new(errors: BlockErrors) -> Self {
        Channel { errors, lost: VecDeque::new(), first: 0, in_bad: false }
    }

    /// Whether a block is lost in this interval.
    pub(super) fn loses(&mut self, interval: u64, rng: &mut Rng) -> bool {
        let at = interval.saturating_sub(self.first) as usize;
        while self.lost.len() <= at {
            let lost = self.next(rng);
            self.lost.push_back(lost);
        }
        self.lost[at]
    }

    /// Forgets what was before this interval. What was never asked for there is passed over in one step.
    pub(super) fn forget_before(&mut self, interval: u64, rng: &mut Rng) {
        let passed = interval.saturating_sub(self.first);
        let known = passed.min(self.lost.len() as u64);
        self.lost.drain(..known as usize);
        if passed > known {
            self.pass(passed - known, rng);
        }
        self.first += passed;
    }

    fn next(&mut self, rng: &mut Rng) -> bool {
        match self.errors {
            BlockErrors::Independent(p) => rng.chance(p),
            BlockErrors::Fading { to_bad, to_good, good, bad } => {
                if rng.chance(if self.in_bad { to_good } else { to_bad }) {
                    self.in_bad = !self.in_bad;
                }
                rng.chance(if self.in_bad { bad } else { good })
            }
        }
    }

    /// After k intervals the bad state has the probability π + (now − π) (1 − `to_bad` − `to_good`)^k.
    fn pass(&mut self, intervals: u64, rng: &mut Rng) {
        let BlockErrors::Fading { to_bad, to_good, .. } = self.errors else { return };
        let faded = self.errors.faded();
        let mut kept = 1.0;
        let (mut factor, mut left) = (1.0 - to_bad - to_good, intervals);
        while left > 0 {
            if left & 1 == 1 {
                kept *= factor;
            }
            factor *= factor;
            left >>= 1;
        }
        self.in_bad = rng.chance(faded + (f64::from(u8::from(self.in_bad)) - faded) * kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FADING: BlockErrors = BlockErrors::Fading { to_bad: 0.02, to_good: 0.1, good: 0.01, bad: 0.7 };

    #[test]
    fn losses_are_as_frequent_as_the_closed_form_says() {
        for errors in [BlockErrors::Independent(0.2), FADING] {
            let (mut channel, mut rng) = (Channel::new(errors), Rng::new(1, "channel"));
            let count = 500_000;
            let mut lost = 0;
            for interval in 0..count {
                channel.forget_before(interval, &mut rng);
                lost += u64::from(channel.loses(interval, &mut rng));
            }
            let share = lost as f64 / count as f64;
            assert!((share / errors.mean() - 1.0).abs() < 0.03, "{errors:?}: {share} {}", errors.mean());
        }
    }

    #[test]
    fn fades_last_as_long_as_they_should() {
        let errors = BlockErrors::Fading { to_bad: 0.02, to_good: 0.1, good: 0.0, bad: 1.0 };
        let (mut channel, mut rng) = (Channel::new(errors), Rng::new(2, "channel"));
        let lost: Vec<bool> = (0..300_000).map(|interval| channel.loses(interval, &mut rng)).collect();
        let fades = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let mean = lost.iter().filter(|lost| **lost).count() as f64 / fades as f64;
        assert!((9.5..10.5).contains(&mean), "{mean}");
    }

    #[test]
    fn what_is_asked_again_is_answered_the_same() {
        let (mut channel, mut rng) = (Channel::new(FADING), Rng::new(3, "channel"));
        let first: Vec<bool> = (0..100).rev().map(|interval| channel.loses(interval, &mut rng)).collect();
        channel.forget_before(50, &mut rng);
        assert!((50..100).all(|interval| channel.loses(interval, &mut rng) == first[99 - interval as usize]));
    }

    #[test]
    fn time_that_is_passed_over_changes_nothing_of_the_mean_and_keeps_the_memory() {
        let (mut channel, mut rng) = (Channel::new(FADING), Rng::new(4, "channel"));
        let mut after = |gap: u64| {
            let (mut bad, mut runs, mut interval) = (0, 0, channel.first);
            while runs < 60_000 {
                interval += gap;
                channel.forget_before(interval, &mut rng);
                let before = channel.in_bad;
                channel.forget_before(interval + 3, &mut rng);
                interval += 3;
                if before {
                    runs += 1;
                    bad += u32::from(channel.in_bad);
                }
            }
            f64::from(bad) / 60_000.0
        };
        // From the bad state, three intervals on: 1/6 + 5/6 · 0.88³.
        let expected = 1.0 / 6.0 + 5.0 / 6.0 * 0.88 * 0.88 * 0.88;
        for gap in [1, 1000] {
            let share = after(gap);
            assert!((share - expected).abs() < 0.01, "{gap}: {share} {expected}");
        }
    }
}
