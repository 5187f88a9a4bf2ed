//! Statistics of values.

/// Summary statistics of delays, throughputs or counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Summary {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of all of them, not of a sample.
    pub deviation: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Summary {
    /// Of these; all zero if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut all = Summary::default();
        // Welford's sums, which lose nothing where the deviation is small beside the mean.
        let mut squares = 0.0;
        for value in values {
            if all.count == 0 {
                (all.min, all.max) = (value, value);
            }
            all.count += 1;
            let before = value - all.mean;
            all.mean += before / all.count as f64;
            squares += before * (value - all.mean);
            (all.min, all.max) = (all.min.min(value), all.max.max(value));
        }
        if all.count > 0 {
            all.deviation = (squares / all.count as f64).sqrt();
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_what_the_formulas_give() {
        let summary = Summary::of([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].map(|value| value + 1e9));
        assert_eq!((summary.count, summary.min, summary.max), (8, 1e9 + 2.0, 1e9 + 9.0));
        assert!((summary.mean - 1e9 - 5.0).abs() < 1e-6 && (summary.deviation - 2.0).abs() < 1e-6);
        assert_eq!(Summary::of([]), Summary::default());
    }
}
