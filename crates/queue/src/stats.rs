use std::time::Duration;

use trunkline_units::Instant;

use crate::fifo::Held;
use crate::{Histogram, Item};

/// Why a queue dropped or marked a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropReason {
    /// The queue held as many segments as it may.
    SegmentLimit,
    /// The queue held as many bytes as it may.
    ByteLimit,
    /// Its flow held its share of the queue.
    DynamicThreshold,
    /// At random, before the queue was full.
    Early,
    /// The average was above its maximum, or the flow had not given way to earlier drops.
    Forced,
    /// What left the queue had waited too long for too long.
    Sojourn,
    /// The queue was taken away with the item in it.
    Flushed,
    /// It had waited too long for a way out that was not there.
    Expired,
    /// Memory was short, and its queue held most.
    Memory,
}

impl DropReason {
    /// Every reason, in the order of [`Stats::dropped`].
    pub const ALL: [DropReason; 9] = [
        DropReason::SegmentLimit,
        DropReason::ByteLimit,
        DropReason::DynamicThreshold,
        DropReason::Early,
        DropReason::Forced,
        DropReason::Sojourn,
        DropReason::Flushed,
        DropReason::Expired,
        DropReason::Memory,
    ];

    /// The name used in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::SegmentLimit => "segment_limit",
            DropReason::ByteLimit => "byte_limit",
            DropReason::DynamicThreshold => "dynamic_threshold",
            DropReason::Early => "early",
            DropReason::Forced => "forced",
            DropReason::Sojourn => "sojourn",
            DropReason::Flushed => "flushed",
            DropReason::Expired => "expired",
            DropReason::Memory => "memory",
        }
    }
}

/// How much waited for how long, summed since the queue was made. The difference of two readings over the time
/// between them is the mean queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Segments times nanoseconds.
    pub segment_nanos: u128,
    /// Bytes times nanoseconds.
    pub byte_nanos: u128,
}

impl Occupancy {
    /// Mean segments and bytes over the `time` since the reading `earlier`; zero if none has passed.
    pub fn mean_since(self, earlier: Occupancy, time: Duration) -> (f64, f64) {
        if time.is_zero() {
            return (0.0, 0.0);
        }
        let nanos = time.as_nanos() as f64;
        let mean = |now: u128, then: u128| now.saturating_sub(then) as f64 / nanos;
        (mean(self.segment_nanos, earlier.segment_nanos), mean(self.byte_nanos, earlier.byte_nanos))
    }
}

/// What a queue has seen since it was made. Packets are counted in segments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Segments offered.
    pub segments_in: u64,
    /// Bytes offered.
    pub bytes_in: u64,
    /// Segments that left by the front.
    pub segments_out: u64,
    /// Bytes that left by the front.
    pub bytes_out: u64,
    /// Segments dropped, by reason, in the order of [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Bytes dropped, for any reason.
    pub bytes_dropped: u64,
    /// Segments marked instead of dropped, by the reason a drop would have had.
    pub marked: [u64; DropReason::ALL.len()],
    /// Segments that would have been dropped early but for what their flow had lost before (P3).
    pub held_off: u64,
    /// Segments waiting now.
    pub backlog_segments: u64,
    /// Bytes waiting now.
    pub backlog_bytes: u64,
    /// The most segments that ever waited.
    pub peak_segments: u64,
    /// The most bytes that ever waited.
    pub peak_bytes: u64,
    /// Sojourn times of what left by the front, weighted by segments.
    pub sojourn: Histogram,
    occupancy: Occupancy,
    integrated_until: Instant,
}

impl Stats {
    /// Segments dropped, for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Segments marked, for any reason.
    pub fn marked_total(&self) -> u64 {
        self.marked.iter().sum()
    }

    /// Segments dropped for this reason.
    pub const fn dropped_for(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// The occupancy as far as `now`, which must not be before the last operation.
    pub fn occupancy(&self, now: Instant) -> Occupancy {
        let nanos = now.as_nanos().saturating_sub(self.integrated_until.as_nanos());
        let area = |waits: u64| u128::from(waits) * u128::from(nanos);
        Occupancy {
            segment_nanos: self.occupancy.segment_nanos + area(self.backlog_segments),
            byte_nanos: self.occupancy.byte_nanos + area(self.backlog_bytes),
        }
    }

    /// Adds what another queue has seen. The peaks are summed, as if both had been reached at once: an upper bound.
    pub fn merge(&mut self, other: &Stats) {
        let until = self.integrated_until.max(other.integrated_until);
        let (mine, theirs) = (self.occupancy(until), other.occupancy(until));
        self.occupancy = Occupancy {
            segment_nanos: mine.segment_nanos + theirs.segment_nanos,
            byte_nanos: mine.byte_nanos + theirs.byte_nanos,
        };
        self.integrated_until = until;
        for (sum, more) in [
            (&mut self.segments_in, other.segments_in),
            (&mut self.bytes_in, other.bytes_in),
            (&mut self.segments_out, other.segments_out),
            (&mut self.bytes_out, other.bytes_out),
            (&mut self.bytes_dropped, other.bytes_dropped),
            (&mut self.held_off, other.held_off),
            (&mut self.backlog_segments, other.backlog_segments),
            (&mut self.backlog_bytes, other.backlog_bytes),
            (&mut self.peak_segments, other.peak_segments),
            (&mut self.peak_bytes, other.peak_bytes),
        ] {
            *sum += more;
        }
        for reason in 0..DropReason::ALL.len() {
            self.dropped[reason] += other.dropped[reason];
            self.marked[reason] += other.marked[reason];
        }
        self.sojourn.merge(&other.sojourn);
    }

    pub(crate) fn integrate(&mut self, now: Instant) {
        // Calls come in batches at one time.
        if now > self.integrated_until {
            self.occupancy = self.occupancy(now);
            self.integrated_until = now;
        }
    }

    pub(crate) fn count_offer<T: Item>(&mut self, item: &T) {
        self.segments_in += u64::from(item.segments());
        self.bytes_in += item.bytes() as u64;
    }

    /// An item leaves that is offered elsewhere. What was cut off it or dropped for it here stays counted here.
    pub(crate) fn count_withdrawn<T: Item>(&mut self, item: &T) {
        self.segments_in -= u64::from(item.segments());
        self.bytes_in -= item.bytes() as u64;
    }

    pub(crate) fn count_drop(&mut self, reason: DropReason, segments: u32, bytes: usize) {
        self.dropped[reason as usize] += u64::from(segments);
        self.bytes_dropped += bytes as u64;
    }

    pub(crate) fn count_out<T: Item>(&mut self, item: &T, sojourn: Duration) {
        self.segments_out += u64::from(item.segments());
        self.bytes_out += item.bytes() as u64;
        self.sojourn.record(sojourn, item.segments().into());
    }

    /// Takes over what the discipline holds, and holds it against what came and went.
    pub(crate) fn settle(&mut self, held: Held) {
        self.backlog_segments = held.segments;
        self.backlog_bytes = held.bytes;
        self.peak_segments = self.peak_segments.max(held.segments);
        self.peak_bytes = self.peak_bytes.max(held.bytes);
        debug_assert_eq!(
            self.segments_in,
            self.segments_out + self.dropped_total() + self.backlog_segments,
            "segments are not conserved: {self:?}"
        );
        debug_assert_eq!(
            self.bytes_in,
            self.bytes_out + self.bytes_dropped + self.backlog_bytes,
            "bytes are not conserved: {self:?}"
        );
    }
}
