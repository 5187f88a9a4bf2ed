//! What the workers need of a configuration: classes, peers, routes. Plain values, made anew at each reload.

use std::collections::HashMap;
use std::sync::Arc;

use trunkline_trunk::path::SharedPaths;
use trunkline_trunk::{PathSettings, PeerId, RouteTable, TrunkPlan};

use crate::config::{Config, PeerConfig};
use crate::keys::PublicKey;

/// The workers' view of a configuration.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) peers: Vec<PeerPlan>,
    /// To which peer each address belongs: where packets to it go, and the only peer they may come from.
    pub(crate) owners: Arc<RouteTable<PeerId>>,
    /// What the queues' chance and the key of the flows' hash follow from: another one in each process, which nobody is told.
    pub(crate) seed: u64,
}

/// One peer in a [`Plan`].
#[derive(Debug)]
pub(crate) struct PeerPlan {
    pub(crate) key: PublicKey,
    /// For the log.
    pub(crate) name: Arc<str>,
    /// Classes, the same towards every peer, and groups of lanes on the paths to this one.
    pub(crate) trunk: TrunkPlan,
    /// What all shards share of the paths to it.
    pub(crate) paths: Arc<SharedPaths>,
}

/// The paths to each peer, with what was learnt of them: they outlive a plan.
pub(crate) type KnownPaths = HashMap<PublicKey, Arc<SharedPaths>>;

impl Plan {
    /// The plan of a configuration, with the paths to each of its peers; none where there is one.
    pub(crate) fn new(
        config: &Config,
        seed: u64,
        known: &mut KnownPaths,
        paths: Vec<Vec<PathSettings>>,
    ) -> Arc<Plan> {
        known.retain(|key, _| config.peers.iter().any(|peer| peer.public_key == *key));
        let mut peer = |(peer, paths): (&PeerConfig, Vec<PathSettings>)| PeerPlan {
            key: peer.public_key,
            name: peer.name.as_str().into(),
            trunk: TrunkPlan { reserved: peer.reserved, ..config.trunk.on_paths(paths) },
            paths: Arc::clone(known.entry(peer.public_key).or_default()),
        };
        Arc::new(Plan {
            peers: config.peers.iter().zip(paths).map(&mut peer).collect(),
            owners: Arc::new(owners(config)),
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
