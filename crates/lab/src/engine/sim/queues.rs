//! What a queue did between two readings: of a link, or of a class at the edge of a trunk.

use std::time::Duration;

use trunkline_queue::{Histogram, Settings};

use super::reading::QueueReading;
use super::sheet::{Page, quantile};

/// The same queue twice, and what was seen of it in between.
pub(super) struct Span<'a> {
    pub(super) settings: &'a Settings,
    pub(super) from: &'a QueueReading,
    pub(super) to: &'a QueueReading,
    pub(super) time: Duration,
    /// Packets that waited at equally spaced instants.
    pub(super) samples: &'a [u32],
}

impl Span<'_> {
    pub(super) fn offered(&self) -> u64 {
        self.to.stats.segments_in - self.from.stats.segments_in
    }

    pub(super) fn drops(&self) -> u64 {
        self.to.stats.dropped_total() - self.from.stats.dropped_total()
    }

    pub(super) fn bytes_out(&self) -> u64 {
        self.to.stats.bytes_out - self.from.stats.bytes_out
    }

    pub(super) fn mean_packets(&self) -> f64 {
        self.to.occupancy.mean_since(self.from.occupancy, self.time).0
    }

    pub(super) fn write(&self, page: &mut Page<'_>) {
        let (from, to) = (&self.from.stats, &self.to.stats);
        page.count("offered.packets", self.offered());
        page.count("drops", self.drops());
        page.ratio("drops.percent", self.drops() as f64, self.offered() as f64);
        for reason in self.settings.description().reasons {
            let drops = to.dropped_for(*reason) - from.dropped_for(*reason);
            page.count(&format!("drops.{}", reason.name()), drops);
        }
        page.count("drops.bytes", to.bytes_dropped - from.bytes_dropped);
        page.count("marks", to.marked_total() - from.marked_total());
        let (packets, bytes) = self.to.occupancy.mean_since(self.from.occupancy, self.time);
        page.put("queue.packets.mean", packets);
        page.count("queue.packets.max", to.peak_segments);
        self.write_range(page);
        page.put("queue.bytes.mean", bytes);
        page.count("queue.bytes.max", to.peak_bytes);
        self.write_sojourn(page);
    }

    fn write_range(&self, page: &mut Page<'_>) {
        if self.samples.is_empty() {
            return;
        }
        let mut sorted: Vec<f64> = self.samples.iter().map(|packets| f64::from(*packets)).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        page.put("queue.packets.low95", quantile(&sorted, 0.025));
        page.put("queue.packets.high95", quantile(&sorted, 0.975));
    }

    fn write_sojourn(&self, page: &mut Page<'_>) {
        let (from, to) = (&self.from.stats.sojourn, &self.to.stats.sojourn);
        let mut counts = *to.counts();
        counts.iter_mut().zip(from.counts()).for_each(|(to, from)| *to -= from);
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return;
        }
        let time = to.sum().saturating_sub(from.sum());
        page.put("sojourn.mean", time.as_secs_f64() / total as f64);
        for (name, q) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
            page.put(&format!("sojourn.{name}"), bound(&counts, q * total as f64));
        }
    }
}

/// The upper bound of the bucket in which so many are reached.
fn bound(counts: &[u64; Histogram::BUCKETS], rank: f64) -> f64 {
    let mut seen = 0;
    let bucket = counts.iter().position(|count| {
        seen += count;
        seen as f64 >= rank
    });
    let last = Histogram::BUCKETS - 2;
    let bound = Histogram::upper_bound(bucket.unwrap_or(last).min(last));
    bound.map_or(f64::NAN, |bound| bound.as_secs_f64())
}
