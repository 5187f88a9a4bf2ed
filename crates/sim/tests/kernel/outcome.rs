//! What a dumbbell did, in the terms that a kernel and a model share.

use serde::{Deserialize, Serialize};

use super::points::Point;

/// All flows of a run together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Bytes that the receivers' users got from the first flow's start to the end.
    pub(crate) bytes: u64,
    /// In the window alone.
    pub(crate) window_bytes: u64,
    /// Segments sent again, from the start.
    pub(crate) retransmissions: u64,
    /// In the window.
    pub(crate) window_retransmissions: u64,
    /// Retransmission timers that ran out, from the start.
    pub(crate) timeouts: u64,
    /// Packets that the queue refused.
    pub(crate) refused: u64,
    /// Packets that it marked.
    #[serde(default)]
    pub(crate) marks: u64,
    /// Packets lost behind the bottleneck.
    pub(crate) lost: u64,
    /// Mean over the samples of the window and the flows, ms.
    pub(crate) srtt_ms: f64,
    /// The same of the congestion window, segments.
    pub(crate) cwnd: f64,
    /// The smallest round trip of a datagram without load, ms; of a kernel's run.
    pub(crate) idle_round_trip_ms: f64,
    /// How late packets were on the emulated link at the worst and on average, ms; of a kernel's run.
    pub(crate) late_ms: (f64, f64),
}

/// What a lane snapshot reports, means over the samples of the window (`trunk::LaneSnapshot`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// Smoothed round-trip time.
    pub(crate) srtt_ms: f64,
    /// Smallest round-trip time.
    pub(crate) min_rtt_ms: f64,
    /// Congestion window, bytes.
    pub(crate) window: f64,
    /// Delivery rate.
    pub(crate) delivery_mbit: f64,
    /// Bytes sent and not acknowledged.
    pub(crate) unacknowledged: f64,
}

impl Snapshot {
    /// The mean of many.
    pub(crate) fn mean(all: &[Snapshot]) -> Self {
        let mean = |value: fn(&Snapshot) -> f64| all.iter().map(value).sum::<f64>() / all.len().max(1) as f64;
        Snapshot {
            srtt_ms: mean(|one| one.srtt_ms),
            min_rtt_ms: mean(|one| one.min_rtt_ms),
            window: mean(|one| one.window),
            delivery_mbit: mean(|one| one.delivery_mbit),
            unacknowledged: mean(|one| one.unacknowledged),
        }
    }
}

/// A point and the runs of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured<T> {
    /// What was run.
    pub(crate) point: Point,
    /// What came of it, a run each.
    pub(crate) runs: Vec<T>,
}

/// A file of measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recording<T> {
    /// Where and when.
    pub(crate) machine: String,
    /// Points.
    pub(crate) points: Vec<Measured<T>>,
}
