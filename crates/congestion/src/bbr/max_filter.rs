//! The largest value of a window of rounds, kept as the best values of three parts of it (Nichols; the kernel's
//! `win_minmax`).

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MaxFilter {
    /// Round and value: the best, the best since, the best since that.
    best: [(u32, u64); 3],
}

impl MaxFilter {
    pub(super) fn best(&self) -> u64 {
        self.best[0].1
    }

    /// A value of round `round`; those more than `window` rounds old are forgotten.
    pub(super) fn update(&mut self, round: u32, value: u64, window: u32) {
        let this = (round, value);
        if value >= self.best[0].1 || round.wrapping_sub(self.best[2].0) > window {
            self.best = [this; 3];
            return;
        }
        if value >= self.best[1].1 {
            (self.best[1], self.best[2]) = (this, this);
        } else if value >= self.best[2].1 {
            self.best[2] = this;
        }
        let age = round.wrapping_sub(self.best[0].0);
        if age > window {
            self.best = [self.best[1], self.best[2], this];
            if round.wrapping_sub(self.best[0].0) > window {
                self.best = [self.best[1], self.best[2], this];
            }
        } else if self.best[1].0 == self.best[0].0 && age > window / 4 {
            (self.best[1], self.best[2]) = (this, this);
        } else if self.best[2].0 == self.best[1].0 && age > window / 2 {
            self.best[2] = this;
        }
    }
}

#[cfg(test)]
mod tests {
    use trunkline_units::Rng;

    use super::*;

    #[test]
    fn it_is_between_the_largest_of_the_window_and_that_of_its_newest_part() {
        let mut rng = Rng::new(3, "filter");
        let mut filter = MaxFilter::default();
        let mut values: Vec<u64> = Vec::new();
        for round in 0..2000_u32 {
            values.push(1 + rng.below(1000));
            filter.update(round, values[round as usize], 10);
            let largest = |rounds: usize| values.iter().rev().take(rounds).max().copied().unwrap();
            assert!(filter.best() <= largest(11) && filter.best() >= largest(2), "{round}");
        }
    }

    #[test]
    fn a_value_is_forgotten_after_the_window_and_not_before() {
        let mut filter = MaxFilter::default();
        filter.update(0, 100, 10);
        for round in 1..=10 {
            filter.update(round, 50, 10);
            assert_eq!(filter.best(), 100, "{round}");
        }
        filter.update(11, 50, 10);
        assert_eq!(filter.best(), 50);
    }
}
