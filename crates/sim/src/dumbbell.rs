//! The dumbbell: pairs of hosts on both sides of one bottleneck.

use std::sync::Arc;
use std::time::Duration;

use trunkline_link::LinkSettings;
use trunkline_queue::Settings as QueueSettings;
use trunkline_tcp::Settings;
use trunkline_trunk::{ClassSettings, TrunkPlan};
use trunkline_units::Rate;

use crate::{LinkId, Network, NodeId, SourceId, TcpTraffic, TrunkId, TrunkSettings};
use trunkline_workload::{Distribution, Pattern};

/// Senders, a router, the bottleneck, a router, receivers:
///
/// ```text
/// sender 0 ──┐                               ┌── receiver 0
/// sender 1 ──┼── [left] ── bottleneck ── [right] ──┼── receiver 1
///   ...      │                               │     ...
/// ```
///
/// With a trunk, a gateway stands between the hosts and the router on each side.
#[derive(Debug)]
pub struct Dumbbell {
    /// The network.
    pub network: Network,
    /// Senders.
    pub senders: Vec<NodeId>,
    /// Receivers.
    pub receivers: Vec<NodeId>,
    /// The routers at the ends of the bottleneck.
    pub routers: [NodeId; 2],
    /// The bottleneck: towards the receivers, and back.
    pub bottleneck: [LinkId; 2],
    /// The trunk and its gateways, if there is one.
    pub trunk: Option<(TrunkId, [NodeId; 2])>,
}

/// What a trunk across the bottleneck is like.
#[derive(Debug, Clone)]
pub struct AcrossTrunk {
    /// Classes and lanes, the same both ways.
    pub plan: TrunkPlan,
    /// Of the lanes.
    pub tcp: Settings,
}

impl AcrossTrunk {
    /// One class with this queue on one lane.
    pub fn single(queue: QueueSettings, tcp: Settings) -> Self {
        let plan = TrunkPlan::one_lane_per_class(vec![ClassSettings::new("all", Vec::new(), queue, 0)]);
        AcrossTrunk { plan, tcp }
    }
}

impl Dumbbell {
    /// The rate of the links beside the bottleneck, as a multiple of its rate.
    const FASTER: u64 = 10;

    /// A dumbbell with so many pairs of hosts. The `bottleneck` is the same in both directions, queue and impairments and all: the two
    /// are alike. The links beside it have no delay to speak of, no loss, and room for all.
    pub fn new(seed: u64, pairs: usize, bottleneck: &LinkSettings) -> Self {
        Self::build(seed, pairs, bottleneck, None)
    }

    /// The same with a trunk across the bottleneck.
    pub fn with_trunk(seed: u64, pairs: usize, bottleneck: &LinkSettings, trunk: AcrossTrunk) -> Self {
        Self::build(seed, pairs, bottleneck, Some(trunk))
    }

    fn build(seed: u64, pairs: usize, bottleneck: &LinkSettings, trunk: Option<AcrossTrunk>) -> Self {
        let mut network = Network::new(seed);
        let routers = [network.router("left"), network.router("right")];
        let bottleneck_ids = network.connect(routers[0], routers[1], bottleneck, bottleneck);
        let fast = Rate::from_bits_per_second(bottleneck.rate.bits_per_second().saturating_mul(Self::FASTER));
        let limits = trunkline_queue::Limits { segments: u32::MAX, bytes: u64::MAX };
        let beside = LinkSettings {
            mtu: bottleneck.mtu.max(1500),
            ..LinkSettings::new(fast, Duration::from_micros(5)).queue(QueueSettings::TailDrop(limits))
        };
        let mut ends = routers;
        let mut gateways = None;
        if trunk.is_some() {
            ends = [network.gateway("left gateway"), network.gateway("right gateway")];
            for side in 0..2 {
                network.connect(ends[side], routers[side], &beside, &beside);
            }
            gateways = Some(ends);
        }
        let (mut senders, mut receivers) = (Vec::with_capacity(pairs), Vec::with_capacity(pairs));
        for pair in 0..pairs {
            let sender = network.host(&format!("sender {pair}"));
            network.connect(sender, ends[0], &beside, &beside);
            senders.push(sender);
            let receiver = network.host(&format!("receiver {pair}"));
            network.connect(ends[1], receiver, &beside, &beside);
            receivers.push(receiver);
        }
        let trunk = trunk.zip(gateways).map(|(across, gateways)| {
            let sites = [senders.clone(), receivers.clone()];
            let settings = TrunkSettings::new(sites, across.plan, across.tcp);
            (network.trunk(gateways, settings), gateways)
        });
        Dumbbell { network, senders, receivers, routers, bottleneck: bottleneck_ids, trunk }
    }

    /// Bulk flows between a pair of hosts, from `start` on and without an end, each a while after the one before,
    /// evenly distributed up to `stagger`.
    pub fn bulk(
        &mut self,
        pair: usize,
        flows: u32,
        tcp: &Arc<Settings>,
        (start, stagger): (Duration, Duration),
    ) -> SourceId {
        self.network.tcp(TcpTraffic {
            client: self.senders[pair],
            server: self.receivers[pair],
            port: 5001,
            dscp: 0,
            tcp: [tcp.clone(), tcp.clone()],
            start,
            stop: None,
            pattern: Pattern::Bulk {
                flows,
                bytes: None,
                stagger: Distribution::Uniform(0.0, stagger.as_secs_f64()),
            },
        })
    }

    /// Bytes of data that the receivers of a source have got.
    pub fn received(&self, source: SourceId) -> u64 {
        self.network.transfers(source).iter().map(|transfer| transfer.bytes).sum()
    }
}
