//! What a daemon says of itself: one value, from which `trunkline status`, its `--json` and the metrics are made.
//!
//! Times are in seconds unless the name says otherwise, sizes in bytes, rates in bits per second. Packets are
//! counted in segments, as the network behind the trunk sees them, unless the name says `super`.

use serde::{Deserialize, Serialize};
use trunkline_queue::{DropReason, Histogram, Stats};

/// The state of a daemon at one instant.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
    pub strangers: Strangers,
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
    /// UDP datagrams that were merged into super-packets for writing.
    pub coalesced: u64,
    /// Packets the kernel refused to take.
    pub write_refused: u64,
    /// Read and dropped: to no peer's routes.
    pub dropped_no_route: u64,
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
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Its public key.
    pub public_key: String,
    /// Where it is dialled, if it is.
    pub endpoint: Option<String>,
    /// What lies behind it.
    pub routes: Vec<String>,
    /// `tls` or `none`.
    pub encryption: String,
    /// What came from it.
    pub received: Received,
    /// The classes, in the order of the file.
    pub classes: Vec<Class>,
}

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
}

/// One class towards one peer, over all its shards.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Packets offered to the edge queue.
    pub packets: u64,
    /// Bytes offered.
    pub bytes: u64,
    /// Packets handed to lanes.
    pub packets_sent: u64,
    /// Bytes handed to lanes.
    pub bytes_sent: u64,
    /// Drops at the edge by reason.
    pub drops: Drops,
    /// Packets waiting.
    pub backlog_packets: u64,
    /// Bytes waiting.
    pub backlog_bytes: u64,
    /// The most packets that ever waited.
    pub peak_packets: u64,
    /// The most bytes that ever waited.
    pub peak_bytes: u64,
    /// Time spent in the edge queue.
    pub sojourn: Sojourn,
    /// Its lanes, one a shard.
    pub lanes: Vec<Lane>,
}

/// Packets dropped at the edge, by reason.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Drops {
    /// The queue held as many packets as it may.
    pub segment_limit: u64,
    /// The queue held as many bytes as it may.
    pub byte_limit: u64,
    /// Its flow held its share of the queue.
    #[serde(default)]
    pub flow_share: u64,
    /// The class or peer was taken away.
    pub flushed: u64,
}

impl Drops {
    /// For any reason.
    pub const fn total(&self) -> u64 {
        self.segment_limit + self.byte_limit + self.flow_share + self.flushed
    }
}

/// A histogram of sojourn times, with bounds a power of two of microseconds apart.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
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

/// One lane.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Lane {
    /// Which shard it serves.
    pub shard: u16,
    /// `up`, `dialling`, `waiting` (to dial again) or `listening` (for the peer to dial).
    pub state: String,
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
    /// Its congestion control.
    pub congestion_control: String,
    /// Frames sent and received.
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
    /// Smoothed round-trip time, µs.
    pub rtt_us: u32,
    /// Smallest round-trip time, µs.
    pub min_rtt_us: Option<u32>,
    /// Rate at which bytes were lately delivered, bit/s.
    pub delivery_rate: u64,
    /// Segments retransmitted: losses in the core.
    pub retransmits: u64,
    /// Segments sent.
    pub segments_sent: u64,
    /// Bytes in the kernel and not yet sent.
    pub unsent_bytes: u64,
    /// Bytes sent and not yet acknowledged.
    pub unacked_bytes: u64,
}

/// Connections that never became lanes, since the start.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Strangers {
    /// Handshakes of accepted connections under way now.
    pub half_open: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Closed at once: too many half-open connections from that address.
    pub over_address_limit: u64,
    /// Closed to make room: too many half-open connections in all.
    pub over_total_limit: u64,
    /// Said too little for too long.
    pub timed_out: u64,
    /// Had a key that is no peer's.
    pub unknown_key: u64,
    /// Failed the handshake in another way.
    pub failed: u64,
}

impl Class {
    pub(crate) fn add(&mut self, stats: &Stats) {
        self.packets += stats.segments_in;
        self.bytes += stats.bytes_in;
        self.packets_sent += stats.segments_out;
        self.bytes_sent += stats.bytes_out;
        self.drops.segment_limit += stats.dropped[DropReason::SegmentLimit as usize];
        self.drops.byte_limit += stats.dropped[DropReason::ByteLimit as usize];
        self.drops.flow_share += stats.dropped[DropReason::FlowShare as usize];
        self.drops.flushed += stats.dropped[DropReason::Flushed as usize];
        self.backlog_packets += stats.backlog_segments;
        self.backlog_bytes += stats.backlog_bytes;
        self.peak_packets = self.peak_packets.max(stats.peak_segments);
        self.peak_bytes = self.peak_bytes.max(stats.peak_bytes);
    }
}

impl From<&Histogram> for Sojourn {
    fn from(histogram: &Histogram) -> Self {
        let micros = |q| histogram.quantile(q).map(|time| time.as_micros() as u64);
        Sojourn {
            count: histogram.count(),
            sum_s: histogram.sum().as_secs_f64(),
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            buckets: histogram.counts().to_vec(),
        }
    }
}
