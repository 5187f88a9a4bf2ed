//! What a gateway reports of a class, and of the queue it waits in.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use trunkline_queue::{DropReason, Histogram, Occupancy, Stats};
use trunkline_units::Instant;

/// One class towards one peer.
///
/// Over several shards counts, sizes and rates are sums; times, probabilities and K are the largest.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// The lane group it rides on: [`Lane::lane_group`](crate::Lane::lane_group).
    pub lane_group: String,
    /// The discipline of its edge queue, by the name it has in the file.
    pub discipline: String,
    /// Its lanes in each shard, and how many of them take its packets, in the shard in which these are most.
    pub lanes: u64,
    /// See `lanes`.
    pub lanes_in_use: u64,
    /// Its share of the lanes, relative to the other classes on them.
    pub weight: u32,
    /// The rate it is promised.
    pub guarantee: Option<u64>,
    /// The rate it never goes above.
    pub ceiling: Option<u64>,
    /// Of a class with a guarantee to a peer with several paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handover: Option<ClassHandover>,
    /// Packets offered to the edge queue.
    pub packets: u64,
    /// Bytes offered.
    pub bytes: u64,
    /// Packets handed to lanes.
    pub packets_sent: u64,
    /// Bytes handed to lanes.
    pub bytes_sent: u64,
    /// Packets dropped at the edge, for every reason there is.
    pub drops: BTreeMap<String, u64>,
    /// Packets that were marked (CE) instead of dropped.
    pub marked: u64,
    /// Drops of P2 that P3's drop holdoff prevented.
    pub held_off: u64,
    /// Retransmissions dropped, because the original is in transit in the trunk.
    pub filtered: u64,
    /// Bytes of these retransmissions.
    pub filtered_bytes: u64,
    /// Copies of packets that another lane carries too, which `packets` counts as well.
    pub copies: u64,
    /// Packets over bonded paths that left again over another lane, which `packets` counts once.
    pub resent: u64,
    /// Packets of flows over the limit of another class.
    pub admission_fallback: u64,
    /// Packets of refused flows, which were over the limit.
    pub refused: u64,
    /// Active flows: N.
    pub flows: u64,
    /// Packets waiting.
    pub backlog_packets: u64,
    /// Bytes waiting.
    pub backlog_bytes: u64,
    /// Maximum of the backlog, packets.
    pub peak_packets: u64,
    /// Maximum of the backlog, bytes.
    pub peak_bytes: u64,
    /// The integral of the packets waiting over time, packet-seconds. Of two readings: their difference over the time between
    /// is the mean backlog.
    pub backlog_packet_seconds: f64,
    /// The same of the bytes waiting, byte-seconds.
    pub backlog_byte_seconds: f64,
    /// Mean backlog since the daemon started, packets.
    pub mean_backlog_packets: f64,
    /// What may wait now, bytes.
    pub capacity_bytes: u64,
    /// What may wait now, packets.
    pub capacity_packets: u64,
    /// Probability with which the discipline drops or marks now, where it has one.
    pub drop_probability: Option<f64>,
    /// `RTT_up`: an upper estimate of its flows' round-trip times, µs.
    pub rtt_up_us: Option<u64>,
    /// K: packets for which P3 spares a flow after a drop.
    pub k_packets: Option<u64>,
    /// W: the window its lanes give it.
    pub window_bytes: Option<u64>,
    /// Rate its lanes give it.
    pub bandwidth: Option<u64>,
    /// Time spent in the edge queue.
    pub sojourn: Sojourn,
}

/// What becomes of the guarantee of a class on several paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassHandover {
    /// Whether it misses its guarantee: over the last seconds less left, though packets waited.
    pub missed: bool,
    /// The path that it is handed to, since those of its policy did not hold the guarantee.
    pub path: Option<String>,
    /// How often it was handed to another path for that.
    pub count: u64,
}

/// A histogram of sojourn times, with bounds a power of two of microseconds apart.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sojourn {
    /// Packets measured.
    pub count: u64,
    /// Sum of their times.
    pub sum_s: f64,
    /// Median, µs, as the upper bound of its bucket.
    pub p50_us: Option<u64>,
    /// 99th percentile, µs, as the upper bound of its bucket.
    pub p99_us: Option<u64>,
    /// Packets per bucket, not cumulative; bucket `i` holds times up to 2^i µs, the last one all above too.
    pub buckets: Vec<u64>,
}

impl Class {
    /// Packets dropped at the edge, for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }

    /// Adds what one shard's queue has counted as far as `now`.
    pub fn add(&mut self, now: Instant, stats: &Stats) {
        self.packets += stats.segments_in;
        self.bytes += stats.bytes_in;
        self.packets_sent += stats.segments_out;
        self.bytes_sent += stats.bytes_out;
        for (reason, count) in DropReason::ALL.iter().zip(stats.dropped) {
            *self.drops.entry(reason.name().to_owned()).or_default() += count;
        }
        self.marked += stats.marked_total();
        self.held_off += stats.held_off;
        self.backlog_packets += stats.backlog_segments;
        self.backlog_bytes += stats.backlog_bytes;
        self.peak_packets = self.peak_packets.max(stats.peak_segments);
        self.peak_bytes = self.peak_bytes.max(stats.peak_bytes);
        let occupancy = stats.occupancy(now);
        self.backlog_packet_seconds += occupancy.segment_nanos as f64 / 1e9;
        self.backlog_byte_seconds += occupancy.byte_nanos as f64 / 1e9;
    }

    /// The counters of its queue, as [`add`](Self::add) takes them. It does not know why a packet was marked: all marks are of
    /// [`DropReason::Early`].
    pub fn queue(&self) -> Stats {
        let mut stats = Stats::default();
        stats.segments_in = self.packets;
        stats.bytes_in = self.bytes;
        stats.segments_out = self.packets_sent;
        stats.bytes_out = self.bytes_sent;
        for (reason, count) in DropReason::ALL.iter().zip(&mut stats.dropped) {
            *count = self.drops.get(reason.name()).copied().unwrap_or_default();
        }
        stats.marked[DropReason::Early as usize] = self.marked;
        stats.held_off = self.held_off;
        stats.backlog_segments = self.backlog_packets;
        stats.backlog_bytes = self.backlog_bytes;
        stats.bytes_dropped = self.bytes.saturating_sub(self.bytes_sent + self.backlog_bytes);
        stats.peak_segments = self.peak_packets;
        stats.peak_bytes = self.peak_bytes;
        stats.sojourn = self.sojourn.histogram();
        stats
    }

    /// The integral of its backlog, as [`Stats::occupancy`] has it.
    pub fn occupancy(&self) -> Occupancy {
        let nanos = |seconds: f64| (seconds * 1e9) as u128;
        Occupancy {
            segment_nanos: nanos(self.backlog_packet_seconds),
            byte_nanos: nanos(self.backlog_byte_seconds),
        }
    }
}

impl Sojourn {
    /// Of packets per bucket, as [`Sojourn::buckets`], and the sum of their times.
    fn of(buckets: Vec<u64>, sum_s: f64) -> Self {
        let count = buckets.iter().sum();
        let quantile = |q: f64| {
            let rank = ((q * count as f64).ceil() as u64).max(1);
            let mut seen = 0;
            buckets.iter().position(|packets| {
                seen += packets;
                seen >= rank
            })
        };
        let [p50_us, p99_us] = [0.5, 0.99].map(|q| quantile(q).map(|bucket| 1 << bucket));
        Sojourn { count, sum_s, p50_us, p99_us, buckets }
    }

    /// What was measured since `earlier`; all of it if `earlier` is of another queue.
    #[must_use]
    pub fn since(&self, earlier: &Sojourn) -> Sojourn {
        if self.buckets.len() != earlier.buckets.len() {
            return self.clone();
        }
        let differences = self.buckets.iter().zip(&earlier.buckets).map(|(now, then)| now.checked_sub(*then));
        match differences.collect::<Option<Vec<u64>>>() {
            Some(buckets) => Sojourn::of(buckets, (self.sum_s - earlier.sum_s).max(0.0)),
            None => self.clone(),
        }
    }

    /// The histogram that it was made of.
    pub fn histogram(&self) -> Histogram {
        let mut counts = [0; Histogram::BUCKETS];
        for (count, packets) in counts.iter_mut().zip(&self.buckets) {
            *count = *packets;
        }
        Histogram::from_counts(counts, Duration::try_from_secs_f64(self.sum_s).unwrap_or_default())
    }
}

impl From<&Histogram> for Sojourn {
    fn from(histogram: &Histogram) -> Self {
        Sojourn::of(histogram.counts().to_vec(), histogram.sum().as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(millis: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        for millis in millis {
            histogram.record(Duration::from_millis(*millis), 1);
        }
        histogram
    }

    #[test]
    fn quantiles_are_those_of_the_histogram() {
        let histogram = histogram(&[1, 1, 1, 1, 3, 3, 40]);
        let sojourn = Sojourn::from(&histogram);
        let micros = |q| histogram.quantile(q).map(|time| time.as_micros() as u64);
        assert_eq!((sojourn.p50_us, sojourn.p99_us), (Some(1 << 10), Some(1 << 16)));
        assert_eq!((sojourn.p50_us, sojourn.p99_us), (micros(0.5), micros(0.99)));
        assert_eq!(Sojourn::from(&Histogram::default()).p50_us, None);
    }

    #[test]
    fn an_interval_has_quantiles_of_its_own() {
        let then = histogram(&[40; 100]);
        let mut now = then.clone();
        now.merge(&histogram(&[1, 1, 1]));
        let (then, now) = (Sojourn::from(&then), Sojourn::from(&now));
        let between = now.since(&then);
        assert_eq!((between.count, between.p50_us, between.p99_us), (3, Some(1 << 10), Some(1 << 10)));
        assert!((between.sum_s - 0.003).abs() < 1e-9, "{}", between.sum_s);
        assert_eq!(now.since(&now).p99_us, None);
    }

    #[test]
    fn a_queue_that_starts_anew_counts_from_nothing() {
        let (old, new) = (Sojourn::from(&histogram(&[40; 100])), Sojourn::from(&histogram(&[1])));
        assert_eq!(new.since(&old), new);
        assert_eq!(new.since(&Sojourn::default()), new);
    }

    #[test]
    fn every_reason_for_a_drop_is_named() {
        let mut class = Class::default();
        let mut stats = Stats::default();
        stats.dropped = [2; DropReason::ALL.len()];
        stats.marked[DropReason::Early as usize] = 5;
        class.add(Instant::ZERO, &stats);
        stats.dropped = [1; DropReason::ALL.len()];
        class.add(Instant::ZERO, &stats);
        assert_eq!(class.marked, 10);
        assert_eq!(class.drops.len(), DropReason::ALL.len());
        assert_eq!(class.dropped(), 3 * DropReason::ALL.len() as u64);
    }

    #[test]
    fn the_backlog_is_summed_over_time_as_far_as_the_report() {
        let mut stats = Stats::default();
        (stats.backlog_segments, stats.backlog_bytes) = (40, 48_000);
        let mut class = Class::default();
        class.add(Instant::from_nanos(2_500_000_000), &stats);
        assert!((class.backlog_packet_seconds - 100.0).abs() < 1e-9, "{}", class.backlog_packet_seconds);
        assert!((class.backlog_byte_seconds - 120_000.0).abs() < 1e-6, "{}", class.backlog_byte_seconds);
    }

    #[test]
    fn counters_of_a_queue_come_back_from_a_class() {
        let mut stats = Stats::default();
        (stats.segments_in, stats.bytes_in, stats.segments_out, stats.bytes_out) = (9, 9000, 5, 5000);
        stats.dropped[DropReason::Early as usize] = 1;
        (stats.bytes_dropped, stats.marked[DropReason::Early as usize], stats.held_off) = (1000, 4, 2);
        (stats.backlog_segments, stats.backlog_bytes) = (3, 3000);
        (stats.peak_segments, stats.peak_bytes) = (7, 7000);
        stats.sojourn = histogram(&[1, 3, 40]);
        let mut class = Class::default();
        let at = Instant::from_nanos(1_500_000_000);
        class.add(at, &stats);
        class.sojourn = Sojourn::from(&stats.sojourn);
        assert_eq!(class.occupancy(), stats.occupancy(at));
        assert_eq!(format!("{:?}", class.queue()), format!("{stats:?}"));
    }
}
