//! Distributions of the sizes and times of traffic.

use std::sync::Arc;

use trunkline_units::check::{ensure, probability};
use trunkline_units::{Rng, SettingsError, random};

/// A distribution of positive numbers.
#[derive(Debug, Clone, PartialEq)]
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
    /// By points of its cumulative distribution function, a value and the probability of it and of all below it each, and linear
    /// between them.
    Cdf(Arc<[(f64, f64)]>),
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
        match self {
            Distribution::Cdf(points) => draw_between(points, rng.uniform()),
            &Distribution::Fixed(value) => value,
            &Distribution::Uniform(low, high) => low + (high - low) * rng.uniform(),
            &Distribution::Exponential { mean } => random::exponential(rng, mean),
            &Distribution::Pareto { min, shape } => random::pareto(rng, min, shape),
            &Distribution::Weibull { scale, shape } => {
                scale * random::power(random::exponential(rng, 1.0).max(1e-300), 1.0 / shape)
            }
            &Distribution::LogNormal { mean, deviation } => random::log_normal(rng, mean, deviation),
            &Distribution::WebFile { mean, deviation, body, min, shape } => {
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
        match self {
            Distribution::Cdf(points) => mean_between(points),
            &Distribution::Fixed(value) => value,
            &Distribution::Uniform(low, high) => f64::midpoint(low, high),
            &Distribution::Exponential { mean } => mean,
            &Distribution::Pareto { min, shape } => pareto(min, shape),
            &Distribution::Weibull { scale, shape } => scale * gamma(1.0 + 1.0 / shape),
            &Distribution::LogNormal { mean, deviation } => log_normal(mean, deviation),
            &Distribution::WebFile { mean, deviation, body, min, shape } => {
                body * log_normal(mean, deviation) + (1.0 - body) * pareto(min, shape)
            }
        }
    }

    /// Whether there is such a distribution, of numbers that are not negative.
    pub fn check(&self) -> Result<(), SettingsError> {
        let positive =
            |place, value: f64| ensure(value > 0.0 && value.is_finite(), place, value, "a number above 0");
        let log_normal = |mean: f64, deviation: f64| {
            ensure((-700.0..=700.0).contains(&mean), "mean", mean, "-700 to 700: it is of the logarithm")?;
            ensure(
                (0.0..=100.0).contains(&deviation),
                "deviation",
                deviation,
                "0 to 100: it is of the logarithm",
            )
        };
        match self {
            Distribution::Cdf(points) => check_cdf(points),
            &Distribution::Fixed(value) => {
                ensure(value >= 0.0 && value.is_finite(), "", value, "a number from 0 on")
            }
            &Distribution::Uniform(low, high) => {
                let holds = low >= 0.0 && low <= high && high.is_finite();
                ensure(holds, "", (low, high), "two numbers from 0 on, the lower first")
            }
            &Distribution::Exponential { mean } => positive("mean", mean),
            &Distribution::Pareto { min, shape } => {
                positive("min", min)?;
                positive("shape", shape)
            }
            &Distribution::Weibull { scale, shape } => {
                positive("scale", scale)?;
                positive("shape", shape)
            }
            &Distribution::LogNormal { mean, deviation } => log_normal(mean, deviation),
            &Distribution::WebFile { mean, deviation, body, min, shape } => {
                log_normal(mean, deviation)?;
                probability("body", body)?;
                positive("min", min)?;
                positive("shape", shape)
            }
        }
    }
}

/// The value up to which the part `u` lies, 0 to 1.
fn draw_between(points: &[(f64, f64)], u: f64) -> f64 {
    let above = points.partition_point(|(_, probability)| *probability <= u);
    match (above.checked_sub(1).and_then(|below| points.get(below)), points.get(above)) {
        (Some((low, from)), Some((high, to))) => low + (high - low) * (u - from) / (to - from),
        (Some((only, _)), None) | (None, Some((only, _))) => *only,
        (None, None) => 0.0,
    }
}

fn mean_between(points: &[(f64, f64)]) -> f64 {
    let between = |pair: &[(f64, f64)]| (pair[1].1 - pair[0].1) * f64::midpoint(pair[0].0, pair[1].0);
    points.first().map_or(0.0, |(low, from)| low * from) + points.windows(2).map(between).sum::<f64>()
}

fn check_cdf(points: &[(f64, f64)]) -> Result<(), SettingsError> {
    let last = points.last().map(|(_, probability)| *probability);
    ensure(last == Some(1.0), "points", last, "points of which the last has the probability 1")?;
    let mut before = (0.0, 0.0);
    for (number, point) in points.iter().copied().enumerate() {
        let place = format!("points[{number}]");
        probability(&place, point.1)?;
        let rises = point.0 >= before.0 && point.0.is_finite() && point.1 >= before.1;
        ensure(rises, &place, point, "a value and a probability, neither less than in the point before")?;
        before = point;
    }
    Ok(())
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
            Distribution::Cdf([(1.0, 0.2), (3.0, 0.9), (50.0, 1.0)].into()),
        ] {
            let n = 300_000;
            let mean = (0..n).map(|_| distribution.draw(&mut rng)).sum::<f64>() / f64::from(n);
            assert!((mean / distribution.mean() - 1.0).abs() < 0.02, "{distribution:?}: {mean}");
        }
    }

    #[test]
    fn a_cdf_is_met_at_its_points_and_straight_between_them() {
        let cdf = Distribution::Cdf([(0.0, 0.0), (10.0, 0.9), (10.0, 0.95), (100.0, 1.0)].into());
        let mut rng = Rng::new(6, "cdf");
        let n = 200_000;
        let drawn: Vec<f64> = (0..n).map(|_| cdf.draw(&mut rng)).collect();
        let part = |most: f64| drawn.iter().filter(|value| **value <= most).count() as f64 / f64::from(n);
        for (value, expected) in [(5.0, 0.45), (9.99, 0.9), (10.0, 0.95), (55.0, 0.975), (100.0, 1.0)] {
            assert!((part(value) - expected).abs() < 0.004, "{value}: {}", part(value));
        }
        // A first point with a probability is a value that is drawn so often.
        let first = Distribution::Cdf([(7.0, 0.5), (9.0, 1.0)].into());
        let sevens = (0..n).filter(|_| first.draw(&mut rng) <= 7.0).count();
        assert!((sevens as f64 / f64::from(n) - 0.5).abs() < 0.01, "{sevens}");
    }

    #[test]
    fn a_tail_without_a_mean_says_so() {
        assert!(Distribution::Pareto { min: 1.0, shape: 1.0 }.mean().is_infinite());
        assert!((gamma(5.0) - 24.0).abs() < 1e-6);
    }

    #[test]
    fn distributions_are_checked() {
        let refused = |checked: Result<(), SettingsError>, by: &str| {
            let error = checked.expect_err(by).to_string();
            assert!(error.starts_with(by), "{error}");
        };
        refused(Distribution::Fixed(-1.0).check(), " is -1.0");
        refused(Distribution::Fixed(f64::INFINITY).check(), " is inf");
        refused(Distribution::Uniform(2.0, 1.0).check(), " is (2.0, 1.0)");
        refused(Distribution::Exponential { mean: f64::NAN }.check(), "mean is NaN");
        refused(Distribution::Pareto { min: 0.0, shape: 1.0 }.check(), "min is 0.0");
        refused(Distribution::Weibull { scale: 1.0, shape: -1.0 }.check(), "shape is -1.0");
        refused(Distribution::LogNormal { mean: 800.0, deviation: 1.0 }.check(), "mean is 800.0");
        let cdf = |points: &[(f64, f64)]| Distribution::Cdf(points.into()).check();
        refused(cdf(&[]), "points is None");
        refused(cdf(&[(0.0, 0.0), (5.0, 0.9)]), "points is Some(0.9)");
        refused(cdf(&[(0.0, 0.5), (5.0, 0.4), (6.0, 1.0)]), "points[1] is (5.0, 0.4)");
        refused(cdf(&[(4.0, 0.5), (3.0, 1.0)]), "points[1] is (3.0, 1.0)");
        refused(cdf(&[(-1.0, 0.5), (3.0, 1.0)]), "points[0] is (-1.0, 0.5)");
        refused(cdf(&[(1.0, f64::NAN), (3.0, 1.0)]), "points[0] is NaN");
        assert_eq!(cdf(&[(0.0, 0.0), (10.0, 0.9), (10.0, 1.0)]), Ok(()));
        for distribution in [
            Distribution::SURGE_FILE,
            Distribution::SURGE_OBJECTS,
            Distribution::SURGE_ACTIVE_OFF,
            Distribution::SURGE_INACTIVE_OFF,
            Distribution::Uniform(0.0, 0.0),
        ] {
            assert_eq!(distribution.check(), Ok(()));
        }
    }
}
