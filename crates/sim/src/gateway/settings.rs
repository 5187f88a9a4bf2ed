//! The settings of a trunk.

use std::sync::Arc;

use trunkline_tcp::Settings;
use trunkline_trunk::{LaneId, Transport, TrunkPlan};

use crate::NodeId;

/// What a trunk is.
#[derive(Debug, Clone)]
pub struct TrunkSettings {
    /// The nodes behind each gateway. Packets from those of one to those of the other go through the trunk.
    pub sites: [Vec<NodeId>; 2],
    /// Classes and lanes of each direction; both have the same lanes. Every path carries UDP: [`Transport::Auto`] is QUIC.
    pub plans: [TrunkPlan; 2],
    /// TCP of its lanes: the first gateway's, which opens them, and the second's. Of these settings lanes over QUIC have the
    /// congestion control, unless the plan names one.
    pub tcp: [Arc<Settings>; 2],
    /// Whether the bytes of TLS records are added to what a TCP lane carries.
    pub sealed: bool,
    /// The sockets of its lanes over TCP.
    pub socket: LaneSocket,
    /// Flows that each side remembers.
    pub flows: usize,
    /// Of plans with several paths: the nodes at which the lanes of each path end. Each is the gateway or a router beside it: an
    /// interface of the gateway, by whose link they leave.
    pub path_ends: Vec<[NodeId; 2]>,
}

/// How a gateway's program uses the sockets of its lanes over TCP. By default as our gateway does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneSocket {
    /// Whether Nagle's algorithm is on, where the lanes' TCP has it.
    pub nagle: bool,
    /// Unsent bytes that wait in the socket, behind the edge queue; as many as the lane needs to keep its path busy.
    pub unsent: Option<usize>,
}

impl TrunkSettings {
    /// In the place of the last lane, which a trunk with several paths does not have here: their timer.
    pub(super) const PATHS: LaneId = LaneId(TrunkPlan::MAX_LANES as u8 - 1);

    /// A trunk with the same TCP and plan on both sides, not sealed. With a plan whose groups are as
    /// [`LaneGroup::new`](trunkline_trunk::LaneGroup::new) makes them, it is what the founding papers describe, but for the
    /// retransmission filter, which the plan's classes may switch off.
    pub fn new(sites: [Vec<NodeId>; 2], plan: TrunkPlan, tcp: Settings) -> Self {
        let tcp = Arc::new(tcp);
        TrunkSettings {
            sites,
            plans: [plan.clone(), plan],
            tcp: [tcp.clone(), tcp],
            sealed: false,
            socket: LaneSocket::default(),
            flows: 1 << 12,
            path_ends: Vec::new(),
        }
    }

    /// What a lane is, in both directions.
    pub(super) fn transport(&self, lane: LaneId) -> Transport {
        self.plans[0].group_of(lane).0.transport
    }

    /// Where a lane ends, if the gateways of the trunk are these.
    pub(super) fn ends(&self, lane: LaneId, gateways: [NodeId; 2]) -> [NodeId; 2] {
        let path = self.plans[0].path_of(lane).0;
        self.path_ends.get(usize::from(path)).copied().unwrap_or(gateways)
    }

    /// DSCP of the packets of a lane in each direction.
    pub(super) fn dscp(&self, lane: LaneId) -> [u8; 2] {
        self.plans.each_ref().map(|plan| plan.group_of(lane).0.dscp)
    }
}
