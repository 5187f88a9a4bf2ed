//! A metric over runs that differ by their seed: mean and 95 % interval.
//!
//! Few runs of a point are made, so that the interval is Student's: t of n − 1 degrees of freedom at 97.5 %, times the standard
//! error. It says how well the mean is known, not how far single runs lie apart.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::results::Estimate;

/// Mean, half of its 95 % interval (from two values on), median, minimum and maximum. The values are finite; of none at all, everything is 0.
pub fn estimate(values: &[f64]) -> Estimate {
    let Some((min, max)) = bounds(values.iter().copied()) else {
        return Estimate::alone(0.0);
    };
    let count = values.len() as f64;
    // Equal values have their own mean, whatever rounding would make of their sum.
    let mean = if min < max { (values.iter().sum::<f64>() / count).clamp(min, max) } else { min };
    let ci95 = (values.len() > 1).then(|| {
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        t_quantile(values.len() - 1) * (squares / (count - 1.0) / count).sqrt()
    });
    Estimate { ci95, median: median(values), min, max, ..Estimate::alone(mean) }
}

/// The middle value, or the mean of both in the middle.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [low, high] = [(sorted.len() - 1) / 2, sorted.len() / 2].map(|place| sorted[place]);
    low.midpoint(high)
}

/// Minimum and maximum; none of no values.
pub(crate) fn bounds(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let each = values.into_iter().map(|value| (value, value));
    each.reduce(|(min, max), (value, _)| (min.min(value), max.max(value)))
}

/// t at 97.5 % with so many degrees of freedom.
fn t_quantile(freedom: usize) -> f64 {
    // With at least one degree of freedom there is always a distribution.
    StudentsT::new(0.0, 1.0, freedom as f64).map_or(f64::NAN, |student| student.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 5e-4
    }

    #[test]
    fn the_quantile_is_that_of_the_printed_tables() {
        for (freedom, t) in [(1, 12.7062), (2, 4.3027), (4, 2.7764), (9, 2.2622), (29, 2.0452), (99, 1.9842)]
        {
            assert!(near(t_quantile(freedom), t), "{freedom}: {}", t_quantile(freedom));
        }
    }

    #[test]
    fn the_interval_is_t_times_the_standard_error() {
        let estimate = estimate(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((estimate.mean, estimate.min, estimate.max), (5.0, 2.0, 9.0));
        // Standard deviation 2.1381, standard error 0.7559, t of 7 degrees of freedom 2.3646.
        assert!(near(estimate.ci95.unwrap(), 1.7875), "{estimate:?}");
    }

    #[test]
    fn one_value_has_no_interval_and_equal_ones_have_one_of_nothing() {
        assert_eq!(estimate(&[3.0]), Estimate::alone(3.0));
        let equal = estimate(&[0.1; 7]);
        assert_eq!((equal.mean, equal.ci95), (0.1, Some(0.0)));
    }

    #[test]
    fn half_of_the_values_are_at_most_the_median() {
        for (values, median) in [(&[3.0][..], 3.0), (&[9.0, 1.0, 2.0], 2.0), (&[8.0, 1.0, 3.0, 2.0], 2.5)] {
            assert!(near(estimate(values).median, median), "{values:?}");
        }
    }

    #[test]
    fn the_interval_covers_the_truth_as_often_as_it_says() {
        let mut rng = trunkline_units::Rng::new(7, "statistics");
        // Sums of twelve uniform values less six: normal enough, with mean 0.
        let mut normal = || (0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0;
        let covers = (0..4000).filter(|_| {
            let estimate = estimate(&[normal(), normal(), normal(), normal(), normal()]);
            estimate.mean.abs() <= estimate.ci95.unwrap()
        });
        let ratio = covers.count() as f64 / 4000.0;
        assert!((0.935..0.965).contains(&ratio), "{ratio}");
    }
}
