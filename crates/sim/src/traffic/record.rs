//! The record of each transfer.

use std::time::Duration;

use trunkline_tcp::Stats;
use trunkline_units::Instant;
use trunkline_workload::TransferState;

/// One transfer: a bulk flow, an object of a web page, a request and its answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    /// The flow, user or connection it belongs to, from 0.
    pub user: u32,
    /// When it began: with the opening of its connection, or with its request. A request that waited for a connection of its source
    /// began when it arrived there.
    pub started: Instant,
    /// When its connection was open.
    pub connected: Option<Instant>,
    /// When it was over.
    pub ended: Option<Instant>,
    /// Bytes that its receiver had by then.
    pub bytes: u64,
    /// How far it has come.
    pub state: TransferState,
    /// The side that sends the data, as its TCP counts: the client of a bulk flow, else the server. Of requests on one
    /// connection: all of them so far.
    pub sender: Stats,
    /// The side that receives it.
    pub receiver: Stats,
    /// Data segments of the sender that the receiver had already: the other side, or a proxy that splits the connection.
    /// Copies that a link made do not count. Of requests on one connection: all so far.
    pub duplicates_delivered: u64,
}

impl Transfer {
    /// How long it took, or takes until `now`, the opening of its connection included: the request delay of kung1998.
    pub fn duration(&self, now: Instant) -> Duration {
        self.ended.unwrap_or(now).saturating_since(self.started)
    }

    /// Its data's rate over its duration, bit/s; 0 if no time has passed.
    pub fn throughput(&self, now: Instant) -> f64 {
        let time = self.duration(now).as_secs_f64();
        if time > 0.0 { self.bytes as f64 * 8.0 / time } else { 0.0 }
    }

    /// Mean of the round trips that the sender measured; `None` if it measured none.
    pub fn mean_rtt(&self) -> Option<Duration> {
        let rtt = &self.sender.rtt;
        rtt.sum_ns.checked_div(rtt.samples).map(Duration::from_nanos)
    }

    /// Spurious retransmissions: nothing was lost.
    pub fn spurious_retransmissions(&self) -> u64 {
        self.duplicates_delivered.min(self.sender.retransmitted_segments)
    }

    /// Retransmissions of lost segments, and those that were lost themselves.
    pub fn needed_retransmissions(&self) -> u64 {
        self.sender.retransmitted_segments - self.spurious_retransmissions()
    }

    /// Segments of both sides, as lee2002 counts a flow's.
    pub fn segments(&self) -> u64 {
        self.sender.segments_sent + self.receiver.segments_sent
    }
}

/// What both ends of a transfer counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) sender: Stats,
    pub(super) receiver: Stats,
    pub(super) duplicates_delivered: u64,
}

/// A [`Transfer`] as it is kept: counts are copied from the endpoints at its end.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) user: u32,
    pub(super) state: TransferState,
    pub(super) started: Instant,
    pub(super) connected: Option<Instant>,
    pub(super) ended: Option<Instant>,
    pub(super) bytes: u64,
    pub(super) counts: Option<Box<Counts>>,
}

impl Record {
    pub(super) fn begun(user: u32, started: Instant) -> Self {
        let state = TransferState::Running;
        Record { user, state, started, connected: None, ended: None, bytes: 0, counts: None }
    }

    pub(super) fn transfer(&self) -> Transfer {
        let Counts { sender, receiver, duplicates_delivered } =
            self.counts.as_deref().copied().unwrap_or_default();
        let Record { user, state, started, connected, ended, bytes, .. } = *self;
        Transfer { user, started, connected, ended, bytes, state, sender, receiver, duplicates_delivered }
    }
}
