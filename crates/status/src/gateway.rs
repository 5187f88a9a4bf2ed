//! What a gateway reports of itself.

use serde::{Deserialize, Serialize};

use crate::{Peer, ProxiesStatus};

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
    pub proxies: Option<ProxiesStatus>,
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
