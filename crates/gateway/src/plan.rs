//! What the workers need of a configuration: classes, peers, routes. Plain values, made anew at each reload.

use std::sync::Arc;

use ipnet::IpNet;
use trunkline_queue::Share;
use trunkline_trunk::compress::Compression;
use trunkline_trunk::{
    AdmissionSettings, ClassId, ClassSettings, CongestionControl, LaneGroup, Over, PeerId, Protocol,
    RouteTable, Rule, TrunkPlan,
};

use crate::config::{
    self, Behaviour, ClassConfig, Config, LaneGroupConfig, PeerConfig, ProtocolMatch, RuleConfig,
};
use crate::keys::PublicKey;

/// The workers' view of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// Classes and groups of lanes, the same towards every peer.
    pub(crate) trunk: TrunkPlan,
    pub(crate) peers: Vec<PeerPlan>,
    /// To which peer each address belongs: where packets to it go, and the only peer they may come from.
    pub(crate) owners: Arc<RouteTable<PeerId>>,
    /// The addresses of the device.
    pub(crate) addresses: Vec<IpNet>,
    /// What the queues' chance and the key of the flows' hash follow from: another one in each process, which nobody is told.
    pub(crate) seed: u64,
}

/// One peer in a [`Plan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerPlan {
    pub(crate) key: PublicKey,
}

const _: () = assert!(config::MAX_CLASSES <= TrunkPlan::MAX_CLASSES);
const _: () = assert!(config::MAX_LANES <= TrunkPlan::MAX_LANES);

impl Plan {
    pub(crate) fn new(config: &Config, seed: u64) -> Arc<Plan> {
        Arc::new(Plan {
            trunk: TrunkPlan {
                classes: config.classes.iter().map(class).collect(),
                groups: config.lane_groups.iter().map(|group| lane_group(config, group)).collect(),
                edge_pacing: config.lanes.edge_pacing,
            },
            peers: config.peers.iter().map(|peer| PeerPlan { key: peer.public_key }).collect(),
            owners: Arc::new(owners(config)),
            addresses: config.tun.addresses.clone(),
            seed,
        })
    }
}

/// The lanes of a group.
pub(crate) fn lane_group(config: &Config, group: &LaneGroupConfig) -> LaneGroup {
    let congestion_control = if group.adapts_congestion_control() {
        CongestionControl::ByPath
    } else {
        CongestionControl::Named(group.congestion_control.as_str().into())
    };
    LaneGroup {
        name: group.name.as_str().into(),
        lanes: group.count,
        congestion_control,
        dscp: group.dscp,
        compression: compression(config, &group.name),
    }
}

/// The prefixes of all peers in one table, so that the longest prefix decides among peers too.
fn owners(config: &Config) -> RouteTable<PeerId> {
    let of = |(place, peer): (u32, &PeerConfig)| {
        config.prefixes_of(peer).into_iter().map(move |prefix| (prefix, PeerId(place)))
    };
    (0..).zip(&config.peers).flat_map(of).collect()
}

/// Whether the lanes of a group compress headers: unless a class that rides on them will not have it.
fn compression(config: &Config, group: &str) -> Compression {
    let mut classes = config.classes.iter().filter(|class| config.lane_group(class).name == group);
    if classes.all(|class| class.header_compression) { Compression::On } else { Compression::Off }
}

fn class(config: &ClassConfig) -> ClassSettings {
    ClassSettings {
        name: config.name.as_str().into(),
        rules: config.rules.iter().map(rule).collect(),
        queue: config.queue,
        group: config.lane_group,
        share: Share {
            weight: config.weight.into(),
            guarantee: config.guarantee,
            ceiling: config.ceiling,
            priority: config.priority,
        },
        admission: config.admission.map(|admission| AdmissionSettings {
            limit: admission.limit,
            over: match admission.over {
                config::Over::Refuse => Over::Refuse,
                config::Over::Class(index) => Over::Class(ClassId(index as u8)),
            },
        }),
        filters_retransmissions: config.repeat_filter,
    }
}

fn rule(config: &RuleConfig) -> Rule {
    Rule {
        protocol: config.protocol.map(|protocol| match protocol {
            ProtocolMatch::Number(number) => Protocol::Number(number),
            ProtocolMatch::Icmp => Protocol::AnyIcmp,
        }),
        dscp: (!config.dscp.is_empty()).then(|| config.dscp.iter().copied().collect()),
        source: config.source,
        destination: config.destination,
        source_ports: config.source_port.clone(),
        destination_ports: config.destination_port.clone(),
        either_ports: config.port.clone(),
        lengths: config.length.clone(),
        interactive: config.behaviour == Some(Behaviour::Interactive),
    }
}
