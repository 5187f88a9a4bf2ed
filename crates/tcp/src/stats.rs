//! What a connection counts.

use std::time::Duration;

/// Round trips that were measured.
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

/// What a connection counted since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Segments handed out by `poll_transmit`.
    pub segments_sent: u64,
    /// Segments handed in.
    pub segments_received: u64,
    /// Segments sent with data, repeats too.
    pub data_segments_sent: u64,
    /// Segments received with data, repeats too.
    pub data_segments_received: u64,
    /// Segments sent that only acknowledge.
    pub acks_sent: u64,
    /// Octets of data sent, repeats too.
    pub octets_sent: u64,
    /// Segments sent again: data, SYN or FIN.
    pub retransmitted_segments: u64,
    /// Octets of data sent again.
    pub retransmitted_octets: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Times that a loss was repaired without a timeout.
    pub fast_recoveries: u64,
    /// Tail loss probes sent.
    pub loss_probes: u64,
    /// Reductions of the window that were taken back.
    pub undone: u64,
    /// Data segments received of which every octet had come before.
    pub duplicates_received: u64,
    /// Their octets.
    pub duplicate_octets_received: u64,
    /// Data segments received beyond a gap.
    pub out_of_order_received: u64,
    /// Zero-window probes sent.
    pub window_probes: u64,
    /// Segments received with a congestion mark.
    pub marks_received: u64,
    /// Reductions of the window by ECN.
    pub mark_reductions: u64,
    /// Round trips measured.
    pub rtt: RttStats,
}

impl std::ops::AddAssign for RttStats {
    fn add_assign(&mut self, other: RttStats) {
        let least = |stats: &RttStats| (stats.samples > 0).then_some(stats.min_ns);
        self.min_ns = least(self).into_iter().chain(least(&other)).min().unwrap_or(0);
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
            octets_sent,
            retransmitted_segments,
            retransmitted_octets,
            timeouts,
            fast_recoveries,
            loss_probes,
            undone,
            duplicates_received,
            duplicate_octets_received,
            out_of_order_received,
            window_probes,
            marks_received,
            mark_reductions,
            rtt,
        } = other;
        self.segments_sent += segments_sent;
        self.segments_received += segments_received;
        self.data_segments_sent += data_segments_sent;
        self.data_segments_received += data_segments_received;
        self.acks_sent += acks_sent;
        self.octets_sent += octets_sent;
        self.retransmitted_segments += retransmitted_segments;
        self.retransmitted_octets += retransmitted_octets;
        self.timeouts += timeouts;
        self.fast_recoveries += fast_recoveries;
        self.loss_probes += loss_probes;
        self.undone += undone;
        self.duplicates_received += duplicates_received;
        self.duplicate_octets_received += duplicate_octets_received;
        self.out_of_order_received += out_of_order_received;
        self.window_probes += window_probes;
        self.marks_received += marks_received;
        self.mark_reductions += mark_reductions;
        self.rtt += rtt;
    }
}

/// [`Stats`] as it is kept: 10 000 flows have one each at both ends.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) octets_sent: u64,
    pub(crate) retransmitted_octets: u64,
    pub(crate) duplicate_octets: u64,
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
    pub(crate) undone: u32,
    pub(crate) duplicates: u32,
    pub(crate) out_of_order: u32,
    pub(crate) window_probes: u32,
    pub(crate) marks_received: u32,
    pub(crate) mark_reductions: u32,
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

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            segments_sent: self.segments_sent.into(),
            segments_received: self.segments_received.into(),
            data_segments_sent: self.data_segments_sent.into(),
            data_segments_received: self.data_segments_received.into(),
            acks_sent: self.acks_sent.into(),
            octets_sent: self.octets_sent,
            retransmitted_segments: self.retransmitted.into(),
            retransmitted_octets: self.retransmitted_octets,
            timeouts: self.timeouts.into(),
            fast_recoveries: self.fast_recoveries.into(),
            loss_probes: self.loss_probes.into(),
            undone: self.undone.into(),
            duplicates_received: self.duplicates.into(),
            duplicate_octets_received: self.duplicate_octets,
            out_of_order_received: self.out_of_order.into(),
            window_probes: self.window_probes.into(),
            marks_received: self.marks_received.into(),
            mark_reductions: self.mark_reductions.into(),
            rtt: RttStats {
                samples: self.rtt_samples.into(),
                sum_ns: self.rtt_sum,
                min_ns: self.rtt_min,
                max_ns: self.rtt_max,
            },
        }
    }
}
