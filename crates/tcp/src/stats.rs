//! The counters of a connection.

use std::time::Duration;

use trunkline_units::Instant;

/// Round-trip samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RttStats {
    /// Samples.
    pub samples: u64,
    /// Sum, ns.
    pub sum_ns: u64,
    /// Shortest, ns; 0 without a sample.
    pub min_ns: u64,
    /// Longest, ns.
    pub max_ns: u64,
}

/// How evenly acknowledgements of new data come: the times from each to the next, but for those of more than a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AckGaps {
    /// Gaps.
    pub count: u64,
    /// Their sum, in units of 10 µs.
    pub sum: u64,
    /// The sum of their squares, in such units.
    pub squares: u64,
}

/// The counters of a connection since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Segments handed out by `poll_transmit`.
    pub segments_sent: u64,
    /// Segments handed in.
    pub segments_received: u64,
    /// Segments sent with data, with retransmissions.
    pub data_segments_sent: u64,
    /// Segments received with data, with retransmissions.
    pub data_segments_received: u64,
    /// Segments sent that only acknowledge.
    pub acks_sent: u64,
    /// Bytes of data sent, with retransmissions.
    pub bytes_sent: u64,
    /// Segments retransmitted: data, SYN or FIN.
    pub retransmitted_segments: u64,
    /// Bytes of data retransmitted.
    pub retransmitted_bytes: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Recoveries of a loss without a timeout.
    pub fast_recoveries: u64,
    /// Tail loss probes sent.
    pub loss_probes: u64,
    /// Spurious reductions of the window that were undone.
    pub undone_reductions: u64,
    /// Data segments received of which every byte had arrived before.
    pub duplicates_received: u64,
    /// Their bytes.
    pub duplicate_bytes_received: u64,
    /// Data segments received beyond a gap.
    pub out_of_order_received: u64,
    /// Zero-window probes sent.
    pub window_probes: u64,
    /// Segments received with CE.
    pub ce_marks_received: u64,
    /// Reductions of the window by ECN.
    pub ecn_reductions: u64,
    /// Round-trip samples.
    pub rtt: RttStats,
    /// Acknowledgements of new data as they came.
    pub ack_gaps: AckGaps,
}

impl std::ops::AddAssign for AckGaps {
    fn add_assign(&mut self, other: AckGaps) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
    }
}

impl std::ops::AddAssign for RttStats {
    fn add_assign(&mut self, other: RttStats) {
        let min = |stats: &RttStats| (stats.samples > 0).then_some(stats.min_ns);
        self.min_ns = min(self).into_iter().chain(min(&other)).min().unwrap_or(0);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.samples += other.samples;
        self.sum_ns += other.sum_ns;
    }
}

/// What two connections counted together.
impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Stats) {
        let Stats {
            segments_sent,
            segments_received,
            data_segments_sent,
            data_segments_received,
            acks_sent,
            bytes_sent,
            retransmitted_segments,
            retransmitted_bytes,
            timeouts,
            fast_recoveries,
            loss_probes,
            undone_reductions,
            duplicates_received,
            duplicate_bytes_received,
            out_of_order_received,
            window_probes,
            ce_marks_received,
            ecn_reductions,
            rtt,
            ack_gaps,
        } = other;
        self.segments_sent += segments_sent;
        self.segments_received += segments_received;
        self.data_segments_sent += data_segments_sent;
        self.data_segments_received += data_segments_received;
        self.acks_sent += acks_sent;
        self.bytes_sent += bytes_sent;
        self.retransmitted_segments += retransmitted_segments;
        self.retransmitted_bytes += retransmitted_bytes;
        self.timeouts += timeouts;
        self.fast_recoveries += fast_recoveries;
        self.loss_probes += loss_probes;
        self.undone_reductions += undone_reductions;
        self.duplicates_received += duplicates_received;
        self.duplicate_bytes_received += duplicate_bytes_received;
        self.out_of_order_received += out_of_order_received;
        self.window_probes += window_probes;
        self.ce_marks_received += ce_marks_received;
        self.ecn_reductions += ecn_reductions;
        self.rtt += rtt;
        self.ack_gaps += ack_gaps;
    }
}

/// [`AckGaps`] as they are counted.
#[derive(Debug, Default)]
pub(crate) struct AckClock {
    sum: u64,
    squares: u64,
    count: u32,
    /// When the last one came, in units of 10 µs, modulo 2^32; 0 before the first.
    last: u32,
}

impl AckClock {
    const UNIT_NS: u64 = 10_000;
    const LONGEST: u32 = (1_000_000_000 / Self::UNIT_NS) as u32;

    /// An acknowledgement of new data came.
    #[inline]
    pub(crate) fn count(&mut self, now: Instant) {
        let now = ((now.as_nanos() / Self::UNIT_NS) as u32).max(1);
        let gap = now.wrapping_sub(self.last);
        if self.last > 0 && gap <= Self::LONGEST {
            self.count += 1;
            self.sum += u64::from(gap);
            self.squares += u64::from(gap) * u64::from(gap);
        }
        self.last = now;
    }

    pub(crate) fn gaps(&self) -> AckGaps {
        AckGaps { count: self.count.into(), sum: self.sum, squares: self.squares }
    }
}

/// [`Stats`] as it is kept: 10 000 flows have one each at both ends.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) bytes_sent: u64,
    pub(crate) retransmitted_bytes: u64,
    pub(crate) duplicate_bytes: u64,
    rtt_sum: u64,
    rtt_min: u64,
    rtt_max: u64,
    rtt_samples: u32,
    pub(crate) segments_sent: u32,
    pub(crate) segments_received: u32,
    pub(crate) data_segments_sent: u32,
    pub(crate) data_segments_received: u32,
    pub(crate) acks_sent: u32,
    pub(crate) retransmitted: u32,
    pub(crate) timeouts: u32,
    pub(crate) fast_recoveries: u32,
    pub(crate) loss_probes: u32,
    pub(crate) undone_reductions: u32,
    pub(crate) duplicates: u32,
    pub(crate) out_of_order: u32,
    pub(crate) window_probes: u32,
    pub(crate) ce_marks_received: u32,
    pub(crate) ecn_reductions: u32,
}

impl Counters {
    #[inline]
    pub(crate) fn sample(&mut self, rtt: Duration) {
        let ns = rtt.as_nanos() as u64;
        self.rtt_min = if self.rtt_samples == 0 { ns } else { self.rtt_min.min(ns) };
        self.rtt_max = self.rtt_max.max(ns);
        self.rtt_sum += ns;
        self.rtt_samples += 1;
    }

    pub(crate) fn stats(&self, ack_gaps: AckGaps) -> Stats {
        Stats {
            segments_sent: self.segments_sent.into(),
            segments_received: self.segments_received.into(),
            data_segments_sent: self.data_segments_sent.into(),
            data_segments_received: self.data_segments_received.into(),
            acks_sent: self.acks_sent.into(),
            bytes_sent: self.bytes_sent,
            retransmitted_segments: self.retransmitted.into(),
            retransmitted_bytes: self.retransmitted_bytes,
            timeouts: self.timeouts.into(),
            fast_recoveries: self.fast_recoveries.into(),
            loss_probes: self.loss_probes.into(),
            undone_reductions: self.undone_reductions.into(),
            duplicates_received: self.duplicates.into(),
            duplicate_bytes_received: self.duplicate_bytes,
            out_of_order_received: self.out_of_order.into(),
            window_probes: self.window_probes.into(),
            ce_marks_received: self.ce_marks_received.into(),
            ecn_reductions: self.ecn_reductions.into(),
            rtt: RttStats {
                samples: self.rtt_samples.into(),
                sum_ns: self.rtt_sum,
                min_ns: self.rtt_min,
                max_ns: self.rtt_max,
            },
            ack_gaps,
        }
    }
}
