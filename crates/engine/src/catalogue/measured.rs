//! What an engine measures of each kind of subject in the time counted: plain values, from which the [tables](super::table) read metrics.

use std::ops::RangeInclusive;
use std::time::Duration;

use trunkline_link::LinkStats;
use trunkline_queue::{DropReason, Histogram, Occupancy, Stats};
use trunkline_sim::ProxyStats;
use trunkline_trunk::LaneSnapshot;
use trunkline_units::Rate;
use trunkline_workload::{Delays, Summary};

/// Counters at the beginning and at the end.
#[derive(Debug)]
pub(crate) struct Span<S> {
    pub(crate) from: S,
    pub(crate) to: S,
}

impl<S> Span<S> {
    fn difference(&self, of: impl Fn(&S) -> u64) -> u64 {
        of(&self.to) - of(&self.from)
    }
}

/// Some sources of traffic together.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) tcp: Option<Tcp>,
    pub(crate) udp: Option<Udp>,
    /// Seconds.
    pub(crate) time: f64,
}

impl Group {
    pub(crate) fn add(&mut self, other: &Group) {
        if let Some(tcp) = &other.tcp {
            self.tcp.get_or_insert_default().add(tcp);
        }
        if let Some(udp) = &other.udp {
            self.udp.get_or_insert_default().add(udp);
        }
        self.time = other.time;
    }

    /// Bytes of data that each flow's receiver got.
    pub(crate) fn flows(&self) -> Vec<f64> {
        let tcp = self.tcp.iter().flat_map(|tcp| &tcp.users);
        tcp.chain(self.udp.iter().flat_map(|udp| &udp.flows)).copied().collect()
    }

    /// Bytes that TCP senders sent, and of datagrams that arrived.
    pub(super) fn carried(&self) -> Count {
        let tcp = self.tcp.as_ref().map_or(Some(0), |tcp| tcp.counts.bytes);
        sum(tcp, self.udp.as_ref().map(|udp| udp.bytes).or(Some(0)))
    }

    pub(super) fn rate(&self, bytes: f64) -> Option<f64> {
        (self.time > 0.0).then(|| bytes * 8.0 / self.time)
    }

    /// A figure of the flows' goodputs.
    pub(super) fn goodput(&self, figure: fn(&Summary) -> f64) -> Option<f64> {
        let rates: Option<Vec<f64>> = self.flows().into_iter().map(|bytes| self.rate(bytes)).collect();
        summary(&rates?, figure)
    }
}

/// All groups: the bytes of data that each got.
#[derive(Debug)]
pub(crate) struct All {
    pub(crate) goodputs: Vec<f64>,
}

/// A count; `None` if the engine cannot give it.
pub(crate) type Count = Option<u64>;

/// Both together.
pub(crate) fn sum(a: Count, b: Count) -> Count {
    Some(a? + b?)
}

/// Makes a struct of [`Count`]s that are added and subtracted field by field, and zero by default.
macro_rules! counts {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub(crate) $field: Count,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: Some(0)),* }
            }
        }

        impl $name {
            /// What was counted since `earlier`.
            pub(crate) fn since(self, earlier: Self) -> Self {
                $name { $($field: self.$field.zip(earlier.$field).map(|(now, then)| now.saturating_sub(then))),* }
            }

            #[allow(dead_code, reason = "not all of them are added up")]
            pub(crate) fn add(&mut self, other: Self) {
                $(self.$field = sum(self.$field, other.$field);)*
            }
        }
    };
}

counts! {
    /// Counters of both ends of connections.
    Counts {
        retransmitted,
        retransmitted_bytes,
        /// Retransmissions of what the receiver had already.
        spurious,
        timeouts,
        /// Segments with data that the sender of the data sent.
        data_segments,
        /// All that it sent.
        sent,
        /// All that the other side sent.
        answered,
        /// Data that it sent, with retransmissions.
        bytes,
        /// New data of the side that receives the transfer.
        request_bytes,
        rtt_samples,
        /// Gaps between acknowledgements of new data at the sender, their sum and that of their squares, by 10 µs.
        ack_gaps,
        ack_gap_sum,
        ack_gap_squares,
    }
}

counts! {
    /// Packets that a node neither forwarded nor delivered.
    NodeCounts {
        unreachable,
        ttl_expired,
        no_listener,
        malformed,
        corrupted,
        reassembly_failures,
    }
}

impl Counts {
    /// A segment that is sent before a reading and arrives after it counts on one side only, so that there may be one more spurious
    /// retransmission than retransmissions.
    pub(super) fn spurious(&self) -> Count {
        Some(self.spurious?.min(self.retransmitted?))
    }

    /// The standard deviation of the gaps over their mean.
    pub(super) fn ack_gap_variation(&self) -> Option<f64> {
        let [count, sum, squares] =
            [self.ack_gaps?, self.ack_gap_sum?, self.ack_gap_squares?].map(|n| n as f64);
        ratio(count * squares, sum * sum).map(|second| (second - 1.0).max(0.0).sqrt())
    }

    pub(super) fn needed(&self) -> Count {
        Some(self.retransmitted? - self.spurious()?)
    }
}

/// Round-trip times of a connection, s.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rtt {
    pub(crate) mean: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// Of a completed transfer: how many times as long it took as on an idle path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slowdown {
    pub(crate) bytes: u64,
    pub(crate) factor: f64,
}

impl Slowdown {
    /// Bytes of data of small, of medium and of large transfers, and of all.
    pub(super) const SMALL: RangeInclusive<u64> = 1..=10_000;
    pub(super) const MEDIUM: RangeInclusive<u64> = 10_001..=1_000_000;
    pub(super) const LARGE: RangeInclusive<u64> = 1_000_001..=u64::MAX;
    pub(super) const ALL: RangeInclusive<u64> = 1..=u64::MAX;
}

/// Sources of TCP.
#[derive(Debug, Clone)]
pub(crate) struct Tcp {
    /// Bytes that each user's receiver got in the time counted.
    pub(crate) users: Vec<f64>,
    /// In the time counted.
    pub(crate) counts: Counts,
    /// Of transfers, whole.
    pub(crate) total: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    /// Of completed ones, s.
    pub(crate) delays: Vec<f64>,
    /// The same, where the path has a rate and a delay.
    pub(crate) slowdowns: Vec<Slowdown>,
    /// Of each, bit/s.
    pub(crate) throughputs: Vec<f64>,
    /// The same from the client, and from the server.
    pub(crate) forward: [Vec<f64>; 2],
    /// Packets from the clients, and from the servers.
    pub(crate) packets: [Count; 2],
    /// Of all transfers, whole.
    pub(crate) whole: Counts,
    /// Of each connection that measured any.
    pub(crate) rtt: Vec<Rtt>,
}

impl Default for Tcp {
    fn default() -> Self {
        Tcp {
            users: Vec::new(),
            counts: Counts::default(),
            total: 0,
            completed: 0,
            failed: 0,
            delays: Vec::new(),
            slowdowns: Vec::new(),
            throughputs: Vec::new(),
            forward: [Vec::new(), Vec::new()],
            packets: [Some(0); 2],
            whole: Counts::default(),
            rtt: Vec::new(),
        }
    }
}

impl Tcp {
    fn add(&mut self, other: &Tcp) {
        self.users.extend(&other.users);
        self.counts.add(other.counts);
        self.whole.add(other.whole);
        self.total += other.total;
        self.completed += other.completed;
        self.failed += other.failed;
        for side in 0..2 {
            self.packets[side] = sum(self.packets[side], other.packets[side]);
            self.forward[side].extend(&other.forward[side]);
        }
        self.delays.extend(&other.delays);
        self.slowdowns.extend(&other.slowdowns);
        self.throughputs.extend(&other.throughputs);
        self.rtt.extend(&other.rtt);
    }

    /// The slowdowns of transfers of so many bytes.
    pub(super) fn slowdowns(&self, bytes: RangeInclusive<u64>) -> Vec<f64> {
        let own = self.slowdowns.iter().filter(|one| bytes.contains(&one.bytes));
        own.map(|one| one.factor).collect()
    }

    /// The mean over transfers.
    pub(super) fn each(&self, count: Count) -> Option<f64> {
        ratio(count? as f64, self.total as f64)
    }

    /// The mean rate over transfers from the client (0) or the server (1).
    pub(super) fn rate_of(&self, side: usize) -> Option<f64> {
        let rates = &self.forward[side];
        ratio(rates.iter().sum(), self.total as f64).filter(|_| rates.len() as u64 == self.total)
    }

    /// The mean over connections.
    pub(super) fn mean_of(&self, figure: fn(&Rtt) -> f64) -> Option<f64> {
        ratio(self.rtt.iter().map(figure).sum(), self.rtt.len() as f64)
    }
}

/// Sources of datagrams.
#[derive(Debug, Default, Clone)]
pub(crate) struct Udp {
    /// Bytes of data that arrived of each source.
    pub(crate) flows: Vec<f64>,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Of those, sent before the time counted.
    pub(crate) sent_before_reset: u64,
    /// With headers.
    pub(crate) bytes: u64,
    /// Of all that arrived.
    pub(crate) delay: Duration,
    pub(crate) delay_min: Option<Duration>,
    pub(crate) delay_max: Duration,
    /// Of the time counted.
    pub(crate) delays: Delays,
    pub(crate) variation: Duration,
    /// Differences of which that is the sum.
    pub(crate) variations: u64,
}

impl Udp {
    fn add(&mut self, other: &Udp) {
        self.flows.extend(&other.flows);
        self.sent += other.sent;
        self.received += other.received;
        self.sent_before_reset += other.sent_before_reset;
        self.bytes += other.bytes;
        self.delay += other.delay;
        self.delay_min = self.delay_min.into_iter().chain(other.delay_min).min();
        self.delay_max = self.delay_max.max(other.delay_max);
        self.delays.add(&other.delays);
        self.variation += other.variation;
        self.variations += other.variations;
    }

    pub(super) fn quantile(&self, part: f64) -> Option<f64> {
        self.delays.quantile(part).map(|delay| delay.as_secs_f64())
    }

    pub(super) fn of_some(&self, time: Duration) -> Option<f64> {
        (self.received > 0).then_some(time.as_secs_f64())
    }
}

/// One way of a link.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) stats: Span<LinkStats>,
    pub(crate) sent_for: Duration,
    pub(crate) time: Duration,
}

impl Link {
    pub(super) fn count(&self, of: fn(&LinkStats) -> u64) -> u64 {
        self.stats.difference(of)
    }

    pub(super) fn per_second(&self, amount: f64) -> Option<f64> {
        ratio(amount, self.time.as_secs_f64())
    }
}

/// A queue's counters.
#[derive(Debug, Clone)]
pub(crate) struct QueueReading {
    pub(crate) stats: Stats,
    /// None of a kernel's discipline, which counts no more than packets, and bytes that it sent.
    pub(crate) occupancy: Option<Occupancy>,
    /// Whether the peaks are those of the time counted.
    pub(crate) has_peaks: bool,
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) reasons: &'static [DropReason],
    pub(crate) from: QueueReading,
    pub(crate) to: QueueReading,
    pub(crate) time: Duration,
    /// Packets in it at equally spaced instants.
    pub(crate) samples: Vec<f64>,
}

impl Queue {
    fn difference(&self, of: impl Fn(&Stats) -> u64) -> u64 {
        of(&self.to.stats) - of(&self.from.stats)
    }

    pub(crate) fn offered(&self) -> u64 {
        self.difference(|stats| stats.segments_in)
    }

    pub(crate) fn drops(&self) -> u64 {
        self.difference(Stats::dropped_total)
    }

    pub(crate) fn bytes_out(&self) -> u64 {
        self.difference(|stats| stats.bytes_out)
    }

    /// None if its discipline drops for other reasons only.
    pub(super) fn dropped_for(&self, reason: DropReason) -> Option<f64> {
        self.reasons.contains(&reason).then(|| self.difference(|stats| stats.dropped_for(reason)) as f64)
    }

    /// The peak of packets and bytes in it, if it is that of the time counted.
    pub(super) fn peak(&self, of: fn(&Stats) -> u64) -> Option<f64> {
        self.to.has_peaks.then(|| of(&self.to.stats) as f64)
    }

    /// Packets in it, averaged over time, or over the samples if that is all there is.
    pub(crate) fn mean_packets(&self) -> Option<f64> {
        let samples = || ratio(self.samples.iter().sum(), self.samples.len() as f64);
        self.occupied().map_or_else(samples, |(packets, _)| Some(packets))
    }

    /// Bytes in it, averaged over time.
    pub(super) fn mean_bytes(&self) -> Option<f64> {
        self.occupied().map(|(_, bytes)| bytes)
    }

    fn occupied(&self) -> Option<(f64, f64)> {
        Some(self.to.occupancy?.mean_since(self.from.occupancy?, self.time))
    }

    /// What only our own disciplines count.
    pub(super) fn own_count(&self, of: fn(&Stats) -> u64) -> Option<f64> {
        self.to.occupancy.and(count(self.difference(of)))
    }

    pub(super) fn sojourn_mean(&self) -> Option<f64> {
        let (from, to) = (&self.from.stats.sojourn, &self.to.stats.sojourn);
        ratio(to.sum().saturating_sub(from.sum()).as_secs_f64(), self.sojourns().iter().sum::<u64>() as f64)
    }

    /// The upper bound of the bucket with this percentile.
    pub(super) fn sojourn_percentile(&self, percentile: f64) -> Option<f64> {
        let counts = self.sojourns();
        let total = counts.iter().sum::<u64>();
        let mut seen = 0;
        let bucket = counts.iter().position(|count| {
            seen += count;
            seen as f64 >= percentile * total as f64
        });
        let last = Histogram::BUCKETS - 2;
        let bound = Histogram::upper_bound(bucket.unwrap_or(last).min(last));
        bound.filter(|_| total > 0).map(|bound| bound.as_secs_f64())
    }

    fn sojourns(&self) -> [u64; Histogram::BUCKETS] {
        let mut counts = *self.to.stats.sojourn.counts();
        counts.iter_mut().zip(self.from.stats.sojourn.counts()).for_each(|(to, from)| *to -= from);
        counts
    }
}

/// A class at the edge, besides its queue.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) filtered: u64,
    pub(crate) drop_holdoffs: u64,
}

/// One way of a trunk.
#[derive(Debug, Default)]
pub(crate) struct Trunk {
    pub(crate) offered: u64,
    pub(crate) drops: u64,
    pub(crate) filtered: u64,
    pub(crate) refused: u64,
    /// Packets in its edge queues, averaged over time.
    pub(crate) waiting: f64,
    /// Bytes of user packets that left the edge queues.
    pub(crate) carried_bytes: u64,
    /// Bytes of user packets that left the trunk.
    pub(crate) delivered_bytes: u64,
    pub(crate) time: Duration,
    pub(crate) lanes: LaneCounts,
}

counts! {
    /// Counters of lanes of both kinds.
    LaneCounts {
        retransmitted,
        timeouts,
        rtt_samples,
        rtt_ns,
        /// Bytes that it was given, framing and all.
        bytes,
    }
}

/// A proxy.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) stats: Span<ProxyStats>,
    /// Damaged packets that its node found before it.
    pub(crate) corrupted_at_node: Count,
}

impl Proxy {
    pub(super) fn count(&self, of: fn(&ProxyStats) -> u64) -> Option<f64> {
        count(self.stats.difference(of))
    }
}

/// The run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) time: Duration,
    /// Of a run in real time.
    pub(crate) disturbance: Option<Disturbance>,
}

/// How much of what happened in a run was the machine's doing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Disturbance {
    /// Packets that links delivered.
    pub(crate) delivered: u64,
    /// Of those, more than 1 ms after their time.
    pub(crate) late: u64,
    pub(crate) late_max: Duration,
    /// Part of the CPU time, 0 to 1.
    pub(crate) stolen: f64,
    /// Runs that were made again.
    pub(crate) discarded: u32,
}

/// A value of a series.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reading {
    /// As it is.
    Level(f64),
    /// A counter: the difference from the last reading.
    Count(u64),
    /// A time: its increase as a part of the interval.
    Busy(Duration),
    /// Bytes: their increase as bit/s over the interval.
    Bytes(u64),
    /// It has no value now.
    None,
}

impl Reading {
    pub(super) fn level(value: Option<f64>) -> Self {
        value.map_or(Reading::None, Reading::Level)
    }

    pub(super) fn rate(rate: Option<Rate>) -> Self {
        Self::level(rate.map(|rate| rate.bits_per_second() as f64))
    }
}

/// A user of a source at an instant.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct User {
    /// Bytes.
    pub(crate) received: u64,
    pub(crate) retransmissions: u64,
    /// While there is a connection.
    pub(crate) sender: Option<Sender>,
}

/// The end of a connection that sends the data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender {
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: Option<u32>,
    pub(crate) in_flight: u32,
    pub(crate) srtt: Option<Duration>,
}

/// One way of a link at an instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkState {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) sent_for: Duration,
    pub(crate) delivered_bytes: u64,
    pub(crate) drops: u64,
}

/// A class at the edge at an instant.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClassState {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) drops: u64,
    pub(crate) filtered: u64,
}

/// A lane at an instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lane {
    pub(crate) snapshot: LaneSnapshot,
    pub(crate) max_pacing_rate: Option<Rate>,
}

/// As a metric.
pub(super) fn count(count: impl Into<Count>) -> Option<f64> {
    count.into().map(|count| count as f64)
}

/// One count over another, if there are both and the other is not zero.
pub(super) fn count_ratio(part: Count, whole: Count) -> Option<f64> {
    ratio(part? as f64, whole? as f64)
}

/// One over the other, if there is the other.
pub(super) fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// A figure of these values; none if there are none.
pub(super) fn summary(values: &[f64], figure: fn(&Summary) -> f64) -> Option<f64> {
    (!values.is_empty()).then(|| figure(&Summary::of(values.iter().copied())))
}

/// The value below or at which the part `q` of these lies.
pub(super) fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
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
    fn jains_index_is_one_of_equals_and_a_part_of_one_that_has_all() {
        assert_eq!(jain(&[5.0; 8]), Some(1.0));
        assert_eq!(jain(&[0.0, 9.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[0.0, 0.0]), None);
    }

    #[test]
    fn a_quantile_is_a_value_that_there_is() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let quantiles = [0.0, 0.5, 0.99, 1.0].map(|q| quantile(&values, q).map(|value| value as u32));
        assert_eq!(quantiles, [Some(1), Some(100), Some(198), Some(200)]);
        assert_eq!(quantile(&[7.0], 0.5), Some(7.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
