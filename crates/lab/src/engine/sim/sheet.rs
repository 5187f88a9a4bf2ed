//! Metrics as they are written down.

use indexmap::IndexMap;
use trunkline_sim::Summary;

/// Metrics by name.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    pub(super) metrics: IndexMap<String, f64>,
}

/// Metrics of one subject.
pub(super) struct Page<'a> {
    sheet: &'a mut Sheet,
    subject: String,
}

impl Sheet {
    pub(super) fn page(&mut self, subject: impl Into<String>) -> Page<'_> {
        Page { sheet: self, subject: subject.into() }
    }
}

impl Page<'_> {
    /// Writes a value down, unless it is none.
    pub(super) fn put(&mut self, quantity: &str, value: f64) {
        if value.is_finite() {
            self.sheet.metrics.insert(format!("{}.{quantity}", self.subject), value);
        }
    }

    pub(super) fn count(&mut self, quantity: &str, count: u64) {
        self.put(quantity, count as f64);
    }

    /// One over the other, if there is the other.
    pub(super) fn ratio(&mut self, quantity: &str, part: f64, whole: f64) {
        if whole > 0.0 {
            self.put(quantity, part / whole);
        }
    }

    /// The figures of these that are asked for: `mean`, `std`, `min`, `max`. None of nothing.
    pub(super) fn summary(&mut self, quantity: &str, figures: &[&str], values: &[f64]) {
        if values.is_empty() {
            return;
        }
        let all = Summary::of(values.iter().copied());
        for figure in figures {
            let value = match *figure {
                "mean" => all.mean,
                "std" => all.deviation,
                "min" => all.least,
                _ => all.most,
            };
            self.put(&format!("{quantity}.{figure}"), value);
        }
    }
}

/// The value below or at which a share `q` of these are; `sorted` is not empty.
pub(super) fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Jain's index of fairness: 1 if all are equal, 1/n if one has everything. None of nothing.
pub(super) fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_of_equals_and_a_share_of_one_that_has_all() {
        assert_eq!(jain(&[5.0; 8]), Some(1.0));
        assert_eq!(jain(&[0.0, 9.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[0.0, 0.0]), None);
    }

    #[test]
    fn a_quantile_is_a_value_that_there_is() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        let quantiles = [0.0, 0.5, 0.99, 1.0].map(|q| quantile(&values, q) as u32);
        assert_eq!(quantiles, [1, 100, 198, 200]);
        assert_eq!(quantile(&[7.0], 0.5) as u32, 7);
    }
}
