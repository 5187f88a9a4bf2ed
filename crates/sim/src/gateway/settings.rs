//! The settings of a trunk.

use std::sync::Arc;

use trunkline_tcp::Settings;
use trunkline_trunk::{LaneId, TrunkPlan};

use super::DatagramLaneSettings;
use crate::NodeId;

/// What carries the lanes of a trunk.
#[derive(Debug, Clone)]
pub enum Lanes {
    /// TCP: the first gateway's, which opens them, and the second's.
    Tcp([Arc<Settings>; 2]),
    /// Datagrams under congestion control, which are never retransmitted.
    Datagrams(DatagramLaneSettings),
}

/// What a trunk is.
#[derive(Debug, Clone)]
pub struct TrunkSettings {
    /// The nodes behind each gateway. Packets from those of one to those of the other go through the trunk.
    pub sites: [Vec<NodeId>; 2],
    /// Classes and lanes of each direction; both have the same lanes. Lanes of datagrams have neither header compression nor edge
    /// pacing.
    pub plans: [TrunkPlan; 2],
    /// What carries them.
    pub lanes: Lanes,
    /// Whether the bytes of TLS records are added to what a TCP lane carries.
    pub sealed: bool,
    /// Flows that each side remembers.
    pub flows: usize,
}

impl TrunkSettings {
    /// A trunk over TCP lanes with the same TCP and plan on both sides, not sealed. With a plan whose groups are as
    /// [`LaneGroup::new`](trunkline_trunk::LaneGroup::new) makes them, it is what the founding papers describe, but for the retransmission filter,
    /// which the plan's classes may switch off.
    pub fn new(sites: [Vec<NodeId>; 2], plan: TrunkPlan, tcp: Settings) -> Self {
        let tcp = Arc::new(tcp);
        TrunkSettings {
            sites,
            plans: [plan.clone(), plan],
            lanes: Lanes::Tcp([tcp.clone(), tcp]),
            sealed: false,
            flows: 1 << 12,
        }
    }

    /// DSCP of the packets of a lane in each direction.
    pub(super) fn dscp(&self, lane: LaneId) -> [u8; 2] {
        self.plans.each_ref().map(|plan| plan.group_of(lane).0.dscp)
    }
}
