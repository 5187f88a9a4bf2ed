//! What lanes over TCP and over QUIC have in common besides their [pump](trunkline_trunk::LanePump).

use std::io;

use trunkline_trunk::compress::CompressorStats;
use trunkline_trunk::streams::StreamError;
use trunkline_trunk::{LaneSnapshot, PathMode};
use trunkline_units::Rate;

use crate::record::RecordError;
use crate::tcp_info::TcpInfo;

/// Why a lane ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaneError {
    #[error("{0}")]
    Network(#[from] io::Error),
    #[error("{0}")]
    Record(#[from] RecordError),
    #[error("{0}")]
    Stream(#[from] StreamError),
    #[error("the peer has taken nothing, or acknowledged nothing, for too long")]
    Lifeless,
}

/// What the circuit breaker of a lane without congestion control has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Circuit {
    /// Whether it is open: the lane has a congestion window now.
    pub(crate) is_open: bool,
    /// How often it has opened.
    pub(crate) trips: u32,
}

/// Counts of one lane's sending half.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LaneTxStats {
    /// Packets handed over.
    pub(crate) frames: u64,
    /// Bytes written to the socket, frame heads and TLS included.
    pub(crate) bytes: u64,
    /// Key updates sent.
    pub(crate) key_updates: u64,
    /// What header compression did.
    pub(crate) compression: CompressorStats,
    /// The bound on its path, if its queue is to be kept at the edge.
    pub(crate) pacing: Option<PathMode>,
    /// The congestion control chosen by its path, if it goes by its path.
    pub(crate) chosen: Option<&'static str>,
    /// What stands in for the congestion control of a lane that has none.
    pub(crate) circuit: Option<Circuit>,
}

/// A snapshot of a connection that holds `total` bytes, of which it has not sent `unsent`.
pub(crate) fn snapshot(info: &TcpInfo, unsent: usize, total: usize) -> LaneSnapshot {
    let unacknowledged = total.saturating_sub(unsent);
    LaneSnapshot {
        unsent,
        unacknowledged,
        srtt: info.srtt(),
        min_rtt: info.min_rtt(),
        window: info.cwnd as usize * info.snd_mss as usize,
        delivery_rate: (info.delivery_rate > 0)
            .then(|| Rate::from_bits_per_second(info.delivery_rate.saturating_mul(8))),
        app_limited: info.app_limited,
        segments_sent: info.data_segments_out,
        retransmissions: info.retransmits,
        out_of_order: (info.sacked as usize * info.snd_mss as usize).min(unacknowledged),
        lost_bytes: 0,
    }
}
