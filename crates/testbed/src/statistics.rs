//! Percentiles, and series over time.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

/// The `p`-quantile (0 to 1) of `samples` by the nearest-rank method: the smallest sample that is not smaller
/// than a share `p` of them. `None` without samples.
pub fn percentile<T: Copy + Ord>(samples: &[T], p: f64) -> Option<T> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let rank = (p.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// An amount that grows, by time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    begin: Instant,
    bin: Duration,
    bins: Vec<u64>,
}

impl Series {
    /// More bins than this are not kept: what comes later counts in the last.
    const LIMIT: usize = 1 << 20;

    /// An empty series from `begin` on in steps of `bin`, which must not be zero.
    pub fn new(begin: Instant, bin: Duration) -> Self {
        Self { begin, bin: bin.max(Duration::from_nanos(1)), bins: Vec::new() }
    }

    /// Adds to the bin of `at`. What is before the beginning counts in the first bin.
    pub fn add(&mut self, at: Instant, amount: u64) {
        let index = (at.saturating_since(self.begin).as_nanos() / self.bin.as_nanos()) as usize;
        let index = index.min(Self::LIMIT - 1);
        if self.bins.len() <= index {
            self.bins.resize(index + 1, 0);
        }
        self.bins[index] += amount;
    }

    /// Adds the amounts of a series with the same beginning and step.
    ///
    /// # Panics
    ///
    /// If it has others.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!((self.begin, self.bin), (other.begin, other.bin), "the series must have the same bins");
        self.bins.resize(self.bins.len().max(other.bins.len()), 0);
        for (sum, amount) in self.bins.iter_mut().zip(&other.bins) {
            *sum += amount;
        }
    }

    /// When the first bin begins.
    pub fn begin(&self) -> Instant {
        self.begin
    }

    /// The width of a bin.
    pub fn bin(&self) -> Duration {
        self.bin
    }

    /// The amounts, the first bin first.
    pub fn bins(&self) -> &[u64] {
        &self.bins
    }

    /// Everything that was added.
    pub fn total(&self) -> u64 {
        self.bins.iter().sum()
    }

    /// The sum of the bins that lie wholly in `from..to`, and the time they cover.
    pub fn sum(&self, from: Instant, to: Instant) -> (u64, Duration) {
        let bin = self.bin.as_nanos() as u64;
        let first = (from - self.begin).as_nanos().div_ceil(u128::from(bin)) as usize;
        let end = ((to - self.begin).as_nanos() / u128::from(bin)) as usize;
        let bins = end.saturating_sub(first);
        let sum = self.bins.iter().skip(first).take(bins).sum();
        (sum, Duration::from_nanos(bin.saturating_mul(bins as u64)))
    }

    /// If the amounts are bytes: their rate in `from..to`, in whole bins. Zero if no bin lies in it.
    pub fn rate(&self, from: Instant, to: Instant) -> Rate {
        let (bytes, time) = self.sum(from, to);
        if time.is_zero() {
            return Rate::ZERO;
        }
        Rate::from_bits_per_second((u128::from(bytes) * 8_000_000_000 / time.as_nanos()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_by_nearest_rank() {
        let samples = [5, 1, 4, 2, 3];
        assert_eq!(percentile(&samples, 0.5), Some(3));
        assert_eq!(percentile(&samples, 0.99), Some(5));
        assert_eq!(percentile(&samples, 0.0), Some(1));
        assert_eq!(percentile::<u64>(&[], 0.5), None);
    }

    #[test]
    fn a_rate_is_taken_over_whole_bins_only() {
        let mut series = Series::new(Instant::from_millis(1000), Duration::from_millis(10));
        series.add(Instant::from_millis(1000), 1_000_000);
        series.add(Instant::from_millis(1015), 1250);
        series.add(Instant::from_millis(1029), 1250);
        assert_eq!(series.total(), 1_002_500);
        let rate = series.rate(Instant::from_millis(1003), Instant::from_millis(1034));
        assert_eq!(rate.bits_per_second(), 1_000_000);
        assert_eq!(series.rate(Instant::from_millis(1003), Instant::from_millis(1006)).bits_per_second(), 0);
    }
}
