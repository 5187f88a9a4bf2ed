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
pub(crate) struct Counters {
    pub(crate) at: Instant,
    pub(crate) sources: Vec<SourceCounters>,
    /// There and back.
    pub(crate) links: Vec<[LinkCounters; 2]>,
    /// At each side.
    pub(crate) trunks: Vec<[TrunkCounters; 2]>,
    /// For each node; zero of one that is no proxy.
    pub(crate) proxies: Vec<ProxyStats>,
    pub(crate) nodes: Vec<NodeCounts>,
}

/// Of a source.
#[derive(Debug, Clone)]
pub(crate) enum SourceCounters {
    Transfers(Vec<Transfer>),
    Datagrams(Box<Datagrams>),
}

/// Of one way of a link.
#[derive(Debug, Clone)]
pub(crate) struct LinkCounters {
    pub(crate) queue: QueueReading,
    pub(crate) stats: LinkStats,
    pub(crate) sent_for: Duration,
}

/// Of one side of a trunk.
#[derive(Debug, Clone)]
pub(crate) struct TrunkCounters {
    pub(crate) classes: Vec<ClassCounters>,
    /// Empty before the network has run.
    pub(crate) lanes: Vec<LaneCounts>,
    /// Bytes of user packets that came out of the trunk at this side.
    pub(crate) delivered_bytes: u64,
    /// Packets of flows that were refused.
    pub(crate) refused: u64,
}

/// Of a class at one side of a trunk.
#[derive(Debug, Clone)]
pub(crate) struct ClassCounters {
    pub(crate) queue: QueueReading,
    pub(crate) filtered: u64,
}

/// A bulk flow, an object of a web page, or a request and its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transfer {
    /// The flow, user or connection that it belongs to, from 0.
    pub(crate) user: u32,
    pub(crate) state: TransferState,
    /// The opening of its connection, or its request.
    pub(crate) started: Instant,
    /// When its connection was open: `started` if it was open already.
    pub(crate) connected: Option<Instant>,
    pub(crate) ended: Option<Instant>,
    /// Bytes that its receiver had by then.
    pub(crate) bytes: u64,
    /// Counts of its connection so far, with those of earlier transfers on it.
    pub(crate) counts: Counts,
    /// Round-trip times of its connection, if its sender measured any.
    pub(crate) rtt: Option<Rtt>,
}

impl Transfer {
    /// Seconds that it took, or has taken.
    pub(super) fn seconds(&self, now: Instant) -> f64 {
        self.ended.unwrap_or(now).saturating_since(self.started).as_secs_f64()
    }
}

impl QueueReading {
    /// A queue's counters at `now`.
    pub(crate) fn new(stats: &Stats, now: Instant) -> Self {
        QueueReading { stats: stats.clone(), occupancy: Some(stats.occupancy(now)), has_peaks: true }
    }
}
