use std::time::Duration;

/// A histogram of times with fixed bounds: a power of two of microseconds each, from 1 µs to 2^25 µs (33.6 s).
///
/// The bounds are the same everywhere, so histograms of several lanes, runs and sites can be added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    counts: [u64; Histogram::BUCKETS],
    sum_nanos: u64,
}

impl Histogram {
    /// Buckets: bucket `i` holds times of at most 2^i µs; the last one everything above as well.
    pub const BUCKETS: usize = 26;

    /// The upper bound of bucket `index`; `None` for the last bucket, which has none.
    pub const fn upper_bound(index: usize) -> Option<Duration> {
        if index + 1 < Self::BUCKETS { Some(Duration::from_micros(1 << index)) } else { None }
    }

    /// With so many events in each bucket, whose times have this sum: what another process has counted.
    pub fn from_counts(counts: [u64; Self::BUCKETS], sum: Duration) -> Self {
        Histogram { counts, sum_nanos: u64::try_from(sum.as_nanos()).unwrap_or(u64::MAX) }
    }

    /// Counts `weight` events that took `time`.
    pub fn record(&mut self, time: Duration, weight: u64) {
        let nanos = time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos().into());
        let micros = nanos.div_ceil(1000).max(1);
        let bucket = ((u64::BITS - (micros - 1).leading_zeros()) as usize).min(Self::BUCKETS - 1);
        self.counts[bucket] += weight;
        self.sum_nanos = self.sum_nanos.saturating_add(nanos.saturating_mul(weight));
    }

    /// Events in each bucket (not cumulative).
    pub const fn counts(&self) -> &[u64; Self::BUCKETS] {
        &self.counts
    }

    /// Events in all.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all times.
    pub const fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_nanos)
    }

    /// Adds what `other` counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
        self.sum_nanos = self.sum_nanos.saturating_add(other.sum_nanos);
    }

    /// The upper bound of the bucket that holds the `q` quantile (0 to 1); `None` while it is empty. The
    /// true quantile is at most a factor of two below; in the last bucket it may be above.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        let rank = ((q.clamp(0.0, 1.0) * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(Duration::from_micros(1 << index));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_lands_in_the_smallest_bucket_that_bounds_it() {
        for (nanos, bucket) in
            [(0, 0), (1_000, 0), (1_001, 1), (2_000, 1), (2_001, 2), (4_000, 2), (u64::MAX, 25)]
        {
            let mut histogram = Histogram::default();
            histogram.record(Duration::from_nanos(nanos), 3);
            assert_eq!(histogram.counts()[bucket], 3, "{nanos} ns");
        }
    }

    #[test]
    fn quantiles_are_upper_bounds_within_a_factor_of_two() {
        let mut histogram = Histogram::default();
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros), 1);
        }
        assert_eq!(histogram.quantile(0.5), Some(Duration::from_micros(512)));
        assert_eq!(histogram.quantile(1.0), Some(Duration::from_micros(1024)));
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
