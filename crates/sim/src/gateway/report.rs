//! What one side of a trunk reports about itself.

use trunkline_trunk::compress::CompressorStats;
use trunkline_trunk::{ClassReport, LaneSnapshot, PathId, PathMode, PathStatus, ReceiverStats};
use trunkline_units::Rate;

use super::QuicLaneStats;

/// One lane as one side of it sees it.
#[derive(Debug, Clone)]
pub struct LaneReport {
    /// What the side's transmitter was told last.
    pub snapshot: LaneSnapshot,
    /// What bounds its path, and its part of that rate, if its queue is kept at the edge.
    pub pacing: Option<(PathMode, Option<Rate>)>,
    /// The congestion control that it has chosen, if it goes by its path.
    pub chosen_congestion_control: Option<&'static str>,
    /// Packets that it was handed.
    pub frames: u64,
    /// Bytes that they took in its stream, heads and records and all; bytes of UDP data of a lane over QUIC.
    pub bytes: u64,
    /// What header compression did, over TCP since the lane was opened last.
    pub compression: CompressorStats,
    /// What its TCP did, over all its connections; `None` of a lane over QUIC.
    pub tcp: Option<trunkline_tcp::Stats>,
    /// What a lane over QUIC did.
    pub quic: Option<QuicLaneStats>,
    /// How often it broke and was opened again.
    pub broken: u64,
}

/// One side of a trunk at one instant.
#[derive(Debug, Clone)]
pub struct TrunkReport {
    /// Its classes.
    pub classes: Vec<ClassReport>,
    /// Its lanes.
    pub lanes: Vec<LaneReport>,
    /// The DSCP and the state of each path that its lanes take, if its queue is kept at the edge.
    pub paths: Vec<(PathId, PathStatus)>,
    /// What it got from the other side.
    pub receiver: ReceiverStats,
    /// Packets of flows that were refused.
    pub refused: u64,
}
