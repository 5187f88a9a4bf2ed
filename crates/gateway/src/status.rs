//! What a daemon says of itself: one value, from which `trunkline status`, its `--json` and the metrics are made.
//!
//! Times are in seconds unless the name says otherwise, sizes in bytes, rates in bits per second. Packets are
//! counted in segments, as the network behind the trunk sees them, unless the name says `super`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use trunkline_queue::{DropReason, Histogram, Stats};
use trunkline_units::Instant;

use trunkline_schema::Encryption;

/// The state of a daemon at one instant.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Status {
    /// The site's name.
    pub name: String,
    /// Version of the software.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_s: f64,
    /// Our public key.
    pub public_key: String,
    /// The TUN device.
    pub tun: Tun,
    /// The peers, in the order of the file.
    pub peers: Vec<Peer>,
    /// Connections that never became lanes.
    pub callers: Callers,
    /// Numbers of the workers that do not respond.
    #[serde(default)]
    pub unresponsive_workers: Vec<usize>,
    /// Lines of the log that were lost.
    #[serde(default)]
    pub log: LogStatus,
    /// The transparent proxies beside the trunks, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxies: Option<trunkline_proxy::Status>,
}

/// Lines of the log that were lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogStatus {
    /// The queue was full: nobody reads the log, or not fast enough.
    pub lost_queue_full: u64,
    /// They could not be written: the reader is gone, or the disk is full.
    pub lost_failed: u64,
}

/// The TUN device.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Tun {
    /// Its name.
    pub name: String,
    /// Its MTU.
    pub mtu: u32,
    /// Its queues, which is also the lanes per class and peer.
    pub queues: u16,
    /// Offloads the kernel granted: `checksum`, `tcp`, `udp`.
    pub offloads: Vec<String>,
    /// Packets and super-packets read.
    pub super_read: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Packets and super-packets written.
    pub super_written: u64,
    /// Packets that were merged into super-packets for writing.
    pub coalesced: u64,
    /// Packets the kernel refused to take.
    pub write_refused: u64,
    /// Read and dropped: to no peer's routes.
    pub dropped_no_route: u64,
    /// Read and dropped: to multicast groups, which are in no peer's routes. The kernel sends a few out of each new device.
    #[serde(default)]
    pub dropped_multicast: u64,
    /// Read and dropped: no IP packet, or an offload request that does not fit it.
    pub dropped_malformed: u64,
    /// Read and dropped: longer than a frame can carry.
    pub dropped_too_long: u64,
    /// Read and dropped: packet memory used up.
    pub dropped_no_memory: u64,
    /// Dropped by the kernel before we read them: the device's own queue was full.
    pub dropped_device_queue: u64,
    /// Memory in packet blocks.
    pub pool_bytes: u64,
}

/// One peer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Its public key.
    pub public_key: String,
    /// Where it is dialled, if it is.
    pub endpoint: Option<String>,
    /// What lies behind it.
    pub routes: Vec<String>,
    /// What protects its data.
    pub encryption: Encryption,
    /// What came from it.
    pub received: Received,
    /// The classes, in the order of the file.
    pub classes: Vec<Class>,
    /// What is known of flows, of all classes together.
    #[serde(default)]
    pub flow_table: FlowTable,
    /// The lanes, by lane group and shard. Several classes may ride on one.
    #[serde(default)]
    pub lanes: Vec<Lane>,
    /// What path control knows of the paths that its lanes take, each once for each DSCP; none without edge pacing.
    #[serde(default)]
    pub paths: Vec<Path>,
    /// The paths to it, if there are several, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uplinks: Vec<Uplink>,
    /// The busiest flows towards it, at most [`FLOWS`], those that have sent most first; empty unless asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<Flow>,
}

impl Peer {
    /// The lanes that `class` rides on.
    pub fn lanes_of(&self, class: &Class) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().filter(|lane| lane.lane_group == class.lane_group)
    }
}

/// The maximum number of flows that a status has for each peer.
pub const FLOWS: usize = 32;

/// What came from a peer, over all lanes.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Received {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Refused: no IP packet.
    pub refused_malformed: u64,
    /// Refused: an offload request that does not fit the packet.
    pub refused_bad_offload: u64,
    /// Refused: a source address that is not among the peer's routes.
    pub refused_forged_source: u64,
    /// Not passed on: another lane had brought them.
    pub duplicates: u64,
}

/// One class towards one peer.
///
/// Over several shards counts, sizes and rates are sums; times, probabilities and K are the largest.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// The lane group it rides on: [`Lane::lane_group`].
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

/// How full the tables of flows are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowTable {
    /// Flows in it.
    pub known: u64,
    /// Flows it has room for.
    pub limit: u64,
    /// Flows that were forgotten before their time, to make room.
    pub forgotten: u64,
}

/// One flow towards a peer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flow {
    /// Its class.
    pub class: String,
    /// `tcp`, `udp`, `icmp`, or the number of the protocol above IP.
    pub protocol: String,
    /// Source address, and port where it has one.
    pub source: String,
    /// Destination address, and port where it has one.
    pub destination: String,
    /// Bytes offered. Of two readings, the difference over the time between is its rate.
    pub bytes: u64,
    /// Repeats not carried; no more than 255 are counted.
    pub filtered: u64,
    /// Its last measured round-trip time, µs, where it could be measured; what waits at the edge is not in it.
    pub rtt_us: Option<u64>,
    /// Seconds since its last packet.
    pub idle_s: f64,
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

/// How far the connection of a lane is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaneState {
    /// It carries packets.
    Up,
    /// This site dials the peer.
    Dialling,
    /// This site waits until it dials again.
    Waiting,
    /// This site waits for the peer to dial.
    #[default]
    Listening,
}

impl fmt::Display for LaneState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Up => "up",
            Self::Dialling => "dialling",
            Self::Waiting => "waiting",
            Self::Listening => "listening",
        })
    }
}

/// How well one of several paths to a peer works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UplinkState {
    /// It works.
    Up,
    /// Its lanes hold data, and nothing is heard of the peer: flows take other paths.
    Silent,
    /// It has no lane.
    #[default]
    Down,
}

impl fmt::Display for UplinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Up => "up",
            Self::Silent => "silent",
            Self::Down => "down",
        })
    }
}

/// One of several paths to a peer, over all shards and lane groups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Uplink {
    /// Its name; its number from 1, if the peer dials it and this site has no name for it.
    pub name: String,
    /// Where this site dials the peer on it, if it does.
    pub endpoint: Option<String>,
    /// What its connections are bound to, if anything: interface, address, mark.
    pub via: Option<String>,
    /// Whether it is used while no other works.
    pub backup: bool,
    /// How well it works.
    pub state: UplinkState,
    /// Lanes on it.
    pub lanes: u32,
    /// Those of them that are up.
    pub lanes_up: u32,
    /// Flows that take it from this site.
    pub flows: u32,
    /// The shortest smoothed round-trip time of its lanes, µs, of those that have sent something in the last ten seconds.
    pub rtt_us: Option<u64>,
    /// How often it has become silent; of several shards the one that has seen it most often.
    pub silences: u64,
}

/// A path to a peer for packets of one DSCP, which all shards share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Path {
    /// Its name, if there are several.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The DSCP of its lanes' packets.
    pub dscp: u8,
    /// What bounds it.
    pub mode: EdgePacing,
    /// What the lanes on it may send together, bit/s, while it is held.
    pub rate: Option<u64>,
    /// The estimated capacity for these lanes, bit/s, once the core has had a queue.
    pub capacity: Option<u64>,
    /// The standing queue in the core, µs, once its delay has been measured.
    pub queue_us: Option<u64>,
    /// The queue that is let stand, µs.
    pub target_us: u64,
    /// Whether the queue is measured by the far gateway's reports, or else by round-trip times, which also have the queue on the way
    /// back.
    pub reported: bool,
    /// The part of the packets that it loses while it is not full, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// What was found out last, in words.
    pub cause: Option<String>,
    /// How long measurements were left out in all, µs: nothing arrived though the lanes were busy, since a machine or the network stood
    /// still.
    pub left_out_us: u64,
    /// What each lane group has of it.
    pub lane_groups: Vec<PathShare>,
}

/// What a lane group has of a path, over all shards.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathShare {
    /// The lane group.
    pub lane_group: String,
    /// What its lanes may send together, bit/s, while the path is held and packets wait for them.
    pub granted: Option<u64>,
    /// What arrives of them, bit/s.
    pub delivered: u64,
}

/// What edge pacing does to a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EdgePacing {
    /// It is switched off, or the lane is down.
    #[default]
    Off,
    /// It sets no bound.
    Free,
    /// A rate near the capacity keeps the queue at the edge.
    Held,
    /// Its rate varies from moment to moment: what is in flight is held to what has just arrived.
    Varying,
    /// It sets no bound, because others keep a queue in the core.
    Competing,
}

/// One lane.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lane {
    /// The lane group it belongs to: [`Class::lane_group`].
    pub lane_group: String,
    /// The name of its path, if there are several.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Its place among the lanes of its lane group on its path and shard, from 0.
    pub index: u16,
    /// Which shard it serves.
    pub shard: u16,
    /// How far its connection is.
    pub state: LaneState,
    /// Seconds in this state.
    pub for_s: f64,
    /// The peer's address, while up.
    pub remote: Option<String>,
    /// Whether we dialled it.
    pub dialled: bool,
    /// Times it came up.
    pub established: u64,
    /// Why it last ended, or could not be made.
    pub last_error: Option<String>,
    /// What it is: `tcp` or `quic`.
    #[serde(default)]
    pub transport: String,
    /// How it delivers, while up over QUIC: `datagram` or `reliable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
    /// Its congestion control.
    pub congestion_control: String,
    /// Of a lane without congestion control (`none`): whether its circuit breaker has opened, and it has a congestion window now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circuit_open: Option<bool>,
    /// How often it has opened.
    #[serde(default)]
    pub circuit_trips: u64,
    /// DSCP of its packets.
    pub dscp: u8,
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames received.
    pub frames_received: u64,
    /// Bytes written to the connection, framing and TLS included.
    pub bytes_sent: u64,
    /// Bytes read from the connection.
    pub bytes_received: u64,
    /// TLS key updates, both ways.
    pub key_updates: u64,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments.
    pub ssthresh: u32,
    /// Sender's segment size.
    pub mss: u32,
    /// Smoothed round-trip time, µs; `None` if it has not been measured for ten seconds, since the lane sent nothing.
    pub rtt_us: Option<u32>,
    /// Smallest round-trip time, µs.
    pub min_rtt_us: Option<u32>,
    /// Time its packets wait between the sites, µs: the smoothed round-trip time above the smallest, as long as there
    /// is one. Of a lane that sends little it tells of delayed acknowledgements.
    pub queue_in_core_us: Option<u32>,
    /// Rate of delivery that the kernel last measured (`tcpi_delivery_rate`), bit/s. It is that of a few flights, and stays
    /// while the lane is idle: the rate of traffic is the difference of [`bytes_sent`](Self::bytes_sent) over time.
    pub delivery_rate: u64,
    /// Rate the kernel paces it to, or would where it does not pace, bit/s; `None` without bound.
    pub pacing_rate: Option<u64>,
    /// What edge pacing does to its path.
    pub edge_pacing: EdgePacing,
    /// Segments retransmitted: losses in the core.
    pub retransmits: u64,
    /// Segments sent.
    pub segments_sent: u64,
    /// Bytes in the kernel and not yet sent.
    pub unsent_bytes: u64,
    /// Bytes sent and not yet acknowledged.
    pub unacked_bytes: u64,
    /// Packets sent with a compressed header.
    pub compressed: u64,
    /// Packets that travelled singly and were sent with their whole header.
    pub uncompressed: u64,
    /// Header bytes of those that were compressed or made a context, as they were.
    pub headers_in_bytes: u64,
    /// Header bytes of the same as they were sent.
    pub headers_out_bytes: u64,
    /// Packets received with a compressed header.
    #[serde(default)]
    pub restored: u64,
}

/// Counts of connections of callers that did not become lanes, since the start.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Callers {
    /// Accepted connections without a completed handshake.
    pub half_open: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Evicted, because their address had the largest number of connections.
    pub over_address_limit: u64,
    /// Evicted as the oldest, when each connection had another address.
    pub over_total_limit: u64,
    /// Exceeded the time limit.
    pub timed_out: u64,
    /// Claimed a key that belongs to no peer.
    pub unknown_key: u64,
    /// Failed the handshake for another reason.
    pub failed: u64,
    /// The last rejected callers, the latest first; at most 32.
    #[serde(default)]
    pub rejected: Vec<Rejected>,
}

/// A caller whose handshakes failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rejected {
    /// Its address.
    pub address: String,
    /// The key it claimed, if that is no peer's; not proven.
    pub public_key: Option<String>,
    /// Why, the last time.
    pub reason: String,
    /// How often.
    pub count: u64,
    /// Seconds since the last time.
    pub last_s: f64,
}

impl Class {
    /// Packets dropped at the edge, for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }

    /// Adds what one shard's queue has counted as far as `now`.
    pub(crate) fn add(&mut self, now: Instant, stats: &Stats) {
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
}

impl From<&Histogram> for Sojourn {
    fn from(histogram: &Histogram) -> Self {
        Sojourn::of(histogram.counts().to_vec(), histogram.sum().as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
}
