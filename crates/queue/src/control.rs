use std::time::Duration;

use trunkline_units::Rate;

use crate::Limits;

/// What the owner of a queue knows about the path behind it. [`Settings::Trunk`](crate::Settings::Trunk) asks for all of it, `CoDel` and
/// FQ-CoDel for the round-trip time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conditions {
    /// `RTT_up`: an upper estimate of the round-trip times of the flows in the queue.
    pub rtt_up: Duration,
    /// The same, once the round trip of a flow has been measured; `None` of flows that are not acknowledged, such as voice.
    pub measured_rtt: Option<Duration>,
    /// What the queue is emptied at.
    pub bandwidth: Rate,
    /// W: the congestion window of the lane.
    pub window_bytes: u64,
    /// Mean length of a segment.
    pub segment_bytes: u32,
    /// N: active flows.
    pub flows: u32,
}

/// What a queue goes by at the moment, for metrics. A discipline leaves out what it has no notion of.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Control {
    /// Segments that may wait.
    pub capacity_segments: u32,
    /// Bytes that may wait.
    pub capacity_bytes: u64,
    /// Probability that an arriving segment is dropped or marked, before anything that is counted since the last.
    pub drop_probability: Option<f64>,
    /// The average queue, in the unit that the discipline averages.
    pub average: Option<f64>,
    /// Flows that hold a part of the queue, as far as the discipline can tell them apart; of `Trunk`, flows in the holdoff.
    pub flows: Option<u32>,
    /// K: segments of a flow that P2 lets pass after a drop.
    pub holdoff_segments: Option<u32>,
    /// Whether the control law is dropping; of several queues, whether one's is.
    pub dropping: Option<bool>,
    /// The delay that the discipline reckons with.
    pub delay: Option<Duration>,
}

impl Control {
    pub(crate) fn of(limits: Limits) -> Self {
        Control { capacity_segments: limits.segments, capacity_bytes: limits.bytes, ..Control::default() }
    }
}
