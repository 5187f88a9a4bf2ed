//! What a sender reports about itself.

use std::time::Duration;

use trunkline_trunk::{ClassPathStatus, ClassReport, FlowReport, LaneId, LaneSnapshot, PathId, PathStatus};
use trunkline_units::Instant;

use super::Sender;
use super::watch::WatchedPath;
use crate::keys::PublicKey;
use crate::lane::LaneTxStats;
use crate::tcp_info::TcpInfo;

/// A flow is not named among the busiest if it has been silent for longer.
const LATELY: Duration = Duration::from_secs(10);

/// Counts of a sender.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DeviceReadStats {
    /// Packets read from the device; a super-packet counts once.
    pub(crate) packets: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Dropped: to no peer's routes.
    pub(crate) no_route: u64,
    /// Dropped: to multicast groups, which are in no peer's routes.
    pub(crate) multicast: u64,
    /// Dropped: no IP packet, or an offload request that does not fit.
    pub(crate) malformed: u64,
    /// Dropped: longer than a frame can carry.
    pub(crate) too_long: u64,
    /// Dropped: packet memory used up.
    pub(crate) no_memory: u64,
}

/// What the kernel says of a lane.
type Kernel = (TcpInfo, LaneSnapshot);

/// A sender's state at one instant.
#[derive(Debug)]
pub(crate) struct TxReport {
    pub(crate) device: DeviceReadStats,
    pub(crate) pool_bytes: usize,
    pub(crate) peers: Vec<PeerTxReport>,
    pub(crate) lanes: Vec<LaneTxReport>,
}

/// A lane's serial and what it does.
pub(crate) type LaneTxReport = (u64, LaneTxStats, Option<Kernel>);

/// What a sender does towards one peer.
#[derive(Debug)]
pub(crate) struct PeerTxReport {
    pub(crate) key: PublicKey,
    pub(crate) classes: Vec<ClassReport>,
    /// What path control knows of each path to it.
    pub(crate) paths: Vec<(PathId, PathStatus)>,
    /// The classes with a guarantee, where there are several paths.
    pub(crate) class_paths: Vec<ClassPathStatus>,
    /// The paths to it, where there are several.
    pub(crate) watched: Vec<WatchedPath>,
    /// Flows known, the maximum, and those forgotten to make room.
    pub(crate) flow_table: (usize, usize, u64),
    /// The busiest flows, if they were asked for.
    pub(crate) flows: Vec<FlowReport>,
}

impl Sender {
    /// What it has done so far, with the busiest flows if `flows` of them are wanted.
    pub(crate) fn report(&mut self, now: Instant, flows: usize) -> TxReport {
        let peers = self.peers.iter_mut().map(|peer| PeerTxReport {
            key: peer.key,
            classes: peer.transmitter.report(now),
            paths: peer.paths.status(),
            class_paths: peer.paths.class_paths(),
            watched: peer.watched_paths(now),
            flow_table: peer.transmitter.flow_table(),
            flows: if flows > 0 { peer.transmitter.busiest_flows(now, LATELY, flows) } else { Vec::new() },
        });
        let peers = peers.collect();
        let lanes = self.peers.iter().flat_map(|peer| {
            (0..).map(LaneId).zip(&peer.lanes).filter_map(|(id, slot)| {
                let lane = &slot.as_ref()?.lane;
                let stats = LaneTxStats { pacing: peer.paths.mode(id), ..lane.stats() };
                Some((lane.serial(), stats, lane.inspect().ok()))
            })
        });
        let lanes = lanes.collect();
        TxReport { device: self.stats, pool_bytes: self.pool.allocated_bytes(), peers, lanes }
    }
}
