//! How long datagrams took: percentiles.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Delays, to within a hundredth of each.
#[derive(Debug, Clone, PartialEq)]
pub struct Delays(Histogram<u32>);

impl Default for Delays {
    fn default() -> Self {
        Delays(Histogram::new(Self::DIGITS).expect("one to five digits are allowed"))
    }
}

impl Delays {
    const DIGITS: u8 = 2;
    /// Microseconds: 12 days.
    const MAX: u64 = 1 << 40;

    pub(crate) fn record(&mut self, delay: Duration) {
        let micros = u64::try_from(delay.as_micros()).map_or(Self::MAX, |micros| micros.min(Self::MAX));
        self.0.record(micros).expect("it grows");
    }

    pub(crate) fn clear(&mut self) {
        self.0.reset();
    }

    /// Adds those of another flow.
    pub fn add(&mut self, other: &Delays) {
        self.0.add(&other.0).expect("it grows");
    }

    /// The delay that this part of all (0 to 1) do not exceed; none of none.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        (!self.0.is_empty()).then(|| Duration::from_micros(self.0.value_at_quantile(part)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_hundredth_and_those_of_two_flows_are_of_both() {
        let of = |from: u64| {
            let mut delays = Delays::default();
            (from..from + 1000).for_each(|ms| delays.record(Duration::from_millis(ms)));
            delays
        };
        let (mut delays, late) = (of(1), of(1001));
        let close = |delays: &Delays, part: f64, ms: f64| {
            let found = delays.quantile(part).expect("there are some").as_secs_f64() * 1e3;
            assert!((found / ms - 1.0).abs() <= 0.01, "{part}: {found} and {ms} ms");
        };
        close(&delays, 0.5, 500.0);
        close(&delays, 0.99, 990.0);
        delays.add(&late);
        close(&delays, 0.95, 1900.0);
        delays.clear();
        assert_eq!(delays.quantile(0.5), None);
        delays.record(Duration::MAX);
        assert!(delays.quantile(1.0) > Some(Duration::from_hours(24)));
    }
}
