//! What the workers need of a configuration: classes, peers, routes. Plain values, made anew at each reload.

use std::sync::Arc;

use ipnet::IpNet;
use trunkline_trunk::{PeerId, RouteTable, TrunkPlan};

use crate::config::{Config, PeerConfig};
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

impl Plan {
    pub(crate) fn new(config: &Config, seed: u64) -> Arc<Plan> {
        Arc::new(Plan {
            trunk: config.trunk.clone(),
            peers: config.peers.iter().map(|peer| PeerPlan { key: peer.public_key }).collect(),
            owners: Arc::new(owners(config)),
            addresses: config.tun.addresses.clone(),
            seed,
        })
    }
}

/// The prefixes of all peers in one table, so that the longest prefix decides among peers too.
fn owners(config: &Config) -> RouteTable<PeerId> {
    let of = |(place, peer): (u32, &PeerConfig)| {
        config.prefixes_of(peer).into_iter().map(move |prefix| (prefix, PeerId(place)))
    };
    (0..).zip(&config.peers).flat_map(of).collect()
}
