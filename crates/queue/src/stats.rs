use crate::{Histogram, Item};

/// Why a queue dropped an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropReason {
    /// The queue held as many segments as it may.
    SegmentLimit,
    /// The queue held as many bytes as it may.
    ByteLimit,
    /// Its flow held its share of the queue.
    FlowShare,
    /// The queue was taken away with the item in it.
    Flushed,
}

impl DropReason {
    /// Every reason, in the order of [`Stats::dropped`].
    pub const ALL: [DropReason; 4] =
        [DropReason::SegmentLimit, DropReason::ByteLimit, DropReason::FlowShare, DropReason::Flushed];

    /// The name used in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::SegmentLimit => "segment_limit",
            DropReason::ByteLimit => "byte_limit",
            DropReason::FlowShare => "flow_share",
            DropReason::Flushed => "flushed",
        }
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
}

impl Stats {
    /// Segments dropped, for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }

    pub(crate) fn offered<T: Item>(&mut self, item: &T) {
        self.segments_in += u64::from(item.segments());
        self.bytes_in += item.bytes() as u64;
    }

    pub(crate) fn drop_counted(&mut self, reason: DropReason, segments: u32, bytes: usize) {
        self.dropped[reason as usize] += u64::from(segments);
        self.bytes_dropped += bytes as u64;
    }

    pub(crate) fn queued<T: Item>(&mut self, item: &T) {
        self.backlog_segments += u64::from(item.segments());
        self.backlog_bytes += item.bytes() as u64;
        self.peak_segments = self.peak_segments.max(self.backlog_segments);
        self.peak_bytes = self.peak_bytes.max(self.backlog_bytes);
    }

    pub(crate) fn unqueued<T: Item>(&mut self, item: &T) {
        self.backlog_segments -= u64::from(item.segments());
        self.backlog_bytes -= item.bytes() as u64;
    }

    pub(crate) fn left<T: Item>(&mut self, item: &T) {
        self.segments_out += u64::from(item.segments());
        self.bytes_out += item.bytes() as u64;
    }

    /// In = out + dropped + queued, for segments and for bytes.
    pub(crate) fn assert_conserved(&self) {
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
