//! Distributions of the sizes and times of traffic.

use trunkline_units::Rng;

use trunkline_units::random;

/// A distribution of positive numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Always this.
    Fixed(f64),
    /// Evenly between the two.
    Uniform(f64, f64),
    /// Exponential.
    Exponential {
        /// Its mean.
        mean: f64,
    },
    /// Pareto.
    Pareto {
        /// Its smallest value.
        min: f64,
        /// The smaller, the heavier the tail.
        shape: f64,
    },
    /// Weibull.
    Weibull {
        /// Scale.
        scale: f64,
        /// Below 1: a heavier tail than an exponential one.
        shape: f64,
    },
    /// The logarithm is normal.
    LogNormal {
        /// Mean of the logarithm.
        mean: f64,
        /// Standard deviation of the logarithm.
        deviation: f64,
    },
    /// The sizes of files on a web server (Barford and Crovella 1998): a log-normal body and a Pareto tail.
    WebFile {
        /// Mean of the body's logarithm.
        mean: f64,
        /// Standard deviation of the body's logarithm.
        deviation: f64,
        /// Share of the body.
        body: f64,
        /// Smallest value of the tail.
        min: f64,
        /// Shape of the tail.
        shape: f64,
    },
}

impl Distribution {
    /// File sizes as Barford and Crovella (1998, table 1) fitted them, bytes.
    pub const SURGE_FILE: Distribution =
        Distribution::WebFile { mean: 9.357, deviation: 1.318, body: 0.93, min: 133_000.0, shape: 1.1 };
    /// Embedded objects of a page, by the same.
    pub const SURGE_OBJECTS: Distribution = Distribution::Pareto { min: 1.0, shape: 2.43 };
    /// Seconds between the objects of a page, by the same.
    pub const SURGE_ACTIVE_OFF: Distribution = Distribution::Weibull { scale: 1.46, shape: 0.382 };
    /// Seconds between pages, by the same.
    pub const SURGE_INACTIVE_OFF: Distribution = Distribution::Pareto { min: 1.0, shape: 1.5 };

    /// A number.
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        match *self {
            Distribution::Fixed(value) => value,
            Distribution::Uniform(low, high) => low + (high - low) * rng.uniform(),
            Distribution::Exponential { mean } => random::exponential(rng, mean),
            Distribution::Pareto { min, shape } => random::pareto(rng, min, shape),
            Distribution::Weibull { scale, shape } => {
                scale * random::power(random::exponential(rng, 1.0).max(1e-300), 1.0 / shape)
            }
            Distribution::LogNormal { mean, deviation } => random::log_normal(rng, mean, deviation),
            Distribution::WebFile { mean, deviation, body, min, shape } => {
                if rng.chance(body) {
                    random::log_normal(rng, mean, deviation)
                } else {
                    random::pareto(rng, min, shape)
                }
            }
        }
    }

    /// Its mean; infinite where there is none.
    pub fn mean(&self) -> f64 {
        let pareto = |min: f64, shape: f64| {
            if shape > 1.0 { min * shape / (shape - 1.0) } else { f64::INFINITY }
        };
        let log_normal = |mean: f64, deviation: f64| random::exp(mean + deviation * deviation / 2.0);
        match *self {
            Distribution::Fixed(value) => value,
            Distribution::Uniform(low, high) => f64::midpoint(low, high),
            Distribution::Exponential { mean } => mean,
            Distribution::Pareto { min, shape } => pareto(min, shape),
            Distribution::Weibull { scale, shape } => scale * gamma(1.0 + 1.0 / shape),
            Distribution::LogNormal { mean, deviation } => log_normal(mean, deviation),
            Distribution::WebFile { mean, deviation, body, min, shape } => {
                body * log_normal(mean, deviation) + (1.0 - body) * pareto(min, shape)
            }
        }
    }
}

/// The gamma function for arguments from 1 on, by Stirling's series.
fn gamma(x: f64) -> f64 {
    let mut shift = 1.0;
    let mut at = x;
    while at < 10.0 {
        shift *= at;
        at += 1.0;
    }
    let series = 1.0 / (12.0 * at) - 1.0 / (360.0 * at * at * at) + 1.0 / (1260.0 * random::power(at, 5.0));
    let log = (at - 0.5) * random::ln(at) - at + 0.5 * random::ln(2.0 * std::f64::consts::PI) + series;
    random::exp(log) / shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_has_the_mean_that_is_stated() {
        let mut rng = Rng::new(4, "distributions");
        for distribution in [
            Distribution::Fixed(3.0),
            Distribution::Uniform(1.0, 4.0),
            Distribution::Exponential { mean: 0.2 },
            Distribution::Pareto { min: 2.0, shape: 3.5 },
            Distribution::Weibull { scale: 1.5, shape: 0.7 },
            Distribution::LogNormal { mean: 1.0, deviation: 0.6 },
            Distribution::WebFile { mean: 2.0, deviation: 0.5, body: 0.9, min: 30.0, shape: 3.5 },
        ] {
            let n = 300_000;
            let mean = (0..n).map(|_| distribution.draw(&mut rng)).sum::<f64>() / f64::from(n);
            assert!((mean / distribution.mean() - 1.0).abs() < 0.02, "{distribution:?}: {mean}");
        }
    }

    #[test]
    fn a_tail_without_a_mean_says_so() {
        assert!(Distribution::Pareto { min: 1.0, shape: 1.0 }.mean().is_infinite());
        assert!((gamma(5.0) - 24.0).abs() < 1e-6);
    }
}
