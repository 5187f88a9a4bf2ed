//! Repairs as in bosau2004 §4: a Pareto distributed time, mostly short and at times very long, lengthens the
//! serialisation of a packet, so packets stay in order.

use std::time::Duration;

use trunkline_units::{Rng, random};

/// The longest time that is drawn.
const MAX_TIME: Duration = Duration::from_secs(1_000_000);

/// Times for repairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pareto {
    /// Of the time of a packet that needs repairs.
    pub mean: Duration,
    /// Above 1: the smaller, the heavier the tail. At 2 and below the variance is infinite.
    pub shape: f64,
    /// Share of packets that need repairs.
    pub share: f64,
}

impl Pareto {
    /// A mean time for each packet. bosau2004 does not state the shape: 1.5 is ns-2's, which it used.
    pub const fn of_mean(mean: Duration) -> Self {
        Pareto { mean, shape: 1.5, share: 1.0 }
    }

    /// The shortest time that is drawn.
    pub fn min(&self) -> Duration {
        self.mean.mul_f64(((self.shape - 1.0) / self.shape).clamp(0.0, 1.0))
    }

    pub(super) fn draw(&self, rng: &mut Rng) -> Duration {
        if self.share < 1.0 && !rng.chance(self.share) {
            return Duration::ZERO;
        }
        let seconds = random::pareto(rng, self.min().as_secs_f64(), self.shape);
        Duration::try_from_secs_f64(seconds).map_or(MAX_TIME, |time| time.min(MAX_TIME))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(pareto: Pareto, count: u32) -> Vec<f64> {
        let mut rng = Rng::new(11, "pareto");
        (0..count).map(|_| pareto.draw(&mut rng).as_secs_f64()).collect()
    }

    #[test]
    fn mean_and_variance_are_those_of_the_closed_forms() {
        let pareto = Pareto { mean: Duration::from_millis(500), shape: 5.0, share: 1.0 };
        let times = sample(pareto, 400_000);
        let n = times.len() as f64;
        let mean = times.iter().sum::<f64>() / n;
        let variance = times.iter().map(|time| (time - mean) * (time - mean)).sum::<f64>() / n;
        // least² a / ((a − 1)² (a − 2)) with least = 0.4.
        let expected = 0.4 * 0.4 * 5.0 / (16.0 * 3.0);
        assert!((mean - 0.5).abs() < 0.002, "{mean}");
        assert!((variance / expected - 1.0).abs() < 0.1, "{variance} {expected}");
    }

    #[test]
    fn the_tail_falls_by_the_shape_and_nothing_is_below_the_least() {
        let pareto = Pareto::of_mean(Duration::from_millis(500));
        let least = 0.5 / 3.0;
        let times = sample(pareto, 400_000);
        assert!(times.iter().all(|time| *time >= least - 1e-9));
        // P(X > 4 least) = 4^-1.5 = 1/8, P(X > 100 least) = 1/1000.
        for (factor, expected) in [(4.0, 0.125), (100.0, 0.001)] {
            let share = times.iter().filter(|time| **time > factor * least).count() as f64 / 400_000.0;
            assert!((share / expected - 1.0).abs() < 0.1, "{factor}: {share}");
        }
    }

    #[test]
    fn the_share_is_of_packets() {
        let times = sample(Pareto { share: 0.1, ..Pareto::of_mean(Duration::from_secs(1)) }, 100_000);
        let share = times.iter().filter(|time| **time > 0.0).count() as f64 / 100_000.0;
        assert!((0.095..0.105).contains(&share), "{share}");
    }
}
