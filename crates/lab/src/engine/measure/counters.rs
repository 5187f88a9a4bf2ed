//! Every counter of a network at one instant, whichever engine runs it. What an experiment counts is the difference of two of these.

use std::time::Duration;

use trunkline_link::LinkStats;
use trunkline_queue::Stats;
use trunkline_sim::ProxyStats;
use trunkline_units::Instant;
use trunkline_workload::{Datagrams, TransferState};

use crate::catalogue::measured::{Counts, LaneCounts, NodeCounts, QueueReading, Rtt};

/// The counters of all parts of a scenario, in its order.
#[derive(Debug)]
pub(in crate::engine) struct Counters {
    pub(in crate::engine) at: Instant,
    pub(in crate::engine) sources: Vec<SourceCounters>,
    /// There and back.
    pub(in crate::engine) links: Vec<[LinkCounters; 2]>,
    /// At each side.
    pub(in crate::engine) trunks: Vec<[TrunkCounters; 2]>,
    /// For each node; zero of one that is no proxy.
    pub(in crate::engine) proxies: Vec<ProxyStats>,
    pub(in crate::engine) nodes: Vec<NodeCounts>,
}

/// Of a source.
#[derive(Debug, Clone)]
pub(in crate::engine) enum SourceCounters {
    Transfers(Vec<Transfer>),
    Datagrams(Datagrams),
}

/// Of one way of a link.
#[derive(Debug, Clone)]
pub(in crate::engine) struct LinkCounters {
    pub(in crate::engine) queue: QueueReading,
    pub(in crate::engine) stats: LinkStats,
    pub(in crate::engine) sent_for: Duration,
}

/// Of one side of a trunk.
#[derive(Debug, Clone)]
pub(in crate::engine) struct TrunkCounters {
    pub(in crate::engine) classes: Vec<ClassCounters>,
    /// Empty before the network has run.
    pub(in crate::engine) lanes: Vec<LaneCounts>,
    /// Bytes of user packets that came out of the trunk at this side.
    pub(in crate::engine) delivered_bytes: u64,
    /// Packets of flows that were refused.
    pub(in crate::engine) refused: u64,
}

/// Of a class at one side of a trunk.
#[derive(Debug, Clone)]
pub(in crate::engine) struct ClassCounters {
    pub(in crate::engine) queue: QueueReading,
    pub(in crate::engine) filtered: u64,
}

/// A bulk flow, an object of a web page, or a request and its answer.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct Transfer {
    /// The flow, user or connection that it belongs to, from 0.
    pub(in crate::engine) user: u32,
    pub(in crate::engine) state: TransferState,
    /// The opening of its connection, or its request.
    pub(in crate::engine) started: Instant,
    /// When its connection was open: `started` if it was open already.
    pub(in crate::engine) connected: Option<Instant>,
    pub(in crate::engine) ended: Option<Instant>,
    /// Bytes that its receiver had by then.
    pub(in crate::engine) bytes: u64,
    /// Counts of its connection so far, with those of earlier transfers on it.
    pub(in crate::engine) counts: Counts,
    /// Round-trip times of its connection, if its sender measured any.
    pub(in crate::engine) rtt: Option<Rtt>,
}

impl Transfer {
    /// Seconds that it took, or has taken.
    pub(super) fn seconds(&self, now: Instant) -> f64 {
        self.ended.unwrap_or(now).saturating_since(self.started).as_secs_f64()
    }
}

impl QueueReading {
    /// A queue's counters at `now`.
    pub(in crate::engine) fn new(stats: &Stats, now: Instant) -> Self {
        QueueReading { stats: stats.clone(), occupancy: stats.occupancy(now), has_peaks: true }
    }
}
