//! Every counter of a network at one instant. What an experiment counts is the difference of two readings.

use std::time::Duration;

use trunkline_queue::Stats;
use trunkline_sim::{Datagrams, LinkId, LinkStats, Network, NodeStats, ProxyStats, Transfer, TrunkReport};
use trunkline_units::Instant;

use super::build::Built;
use crate::catalogue::measured::QueueReading;

/// A link's, one way.
#[derive(Debug, Clone)]
pub(super) struct LinkReading {
    pub(super) queue: QueueReading,
    pub(super) stats: LinkStats,
    pub(super) sent_for: Duration,
}

/// A source's.
#[derive(Debug, Clone)]
pub(super) enum SourceReading {
    Transfers(Vec<Transfer>),
    Datagrams(Datagrams),
}

#[derive(Debug)]
pub(super) struct Reading {
    pub(super) at: Instant,
    pub(super) sources: Vec<SourceReading>,
    pub(super) links: Vec<[LinkReading; 2]>,
    pub(super) trunks: Vec<[TrunkReport; 2]>,
    /// For each node.
    pub(super) proxies: Vec<ProxyStats>,
    pub(super) nodes: Vec<NodeStats>,
}

impl Reading {
    pub(super) fn take(built: &mut Built) -> Self {
        let Built { network, nodes, proxies, links, sources, trunks } = built;
        let at = network.now();
        Reading {
            at,
            sources: sources
                .iter()
                .map(|source| match network.datagrams(*source) {
                    Some(datagrams) => SourceReading::Datagrams(*datagrams),
                    None => SourceReading::Transfers(network.transfers(*source)),
                })
                .collect(),
            links: links.iter().map(|ways| ways.map(|way| link(network, way))).collect(),
            trunks: trunks
                .iter()
                .map(|trunk| [0, 1].map(|side| network.trunk_report(*trunk, side)))
                .collect(),
            proxies: proxies
                .iter()
                .map(|proxy| proxy.map_or_else(ProxyStats::default, |proxy| *network.proxy_stats(proxy)))
                .collect(),
            nodes: nodes.iter().map(|node| *network.node_stats(*node)).collect(),
        }
    }
}

fn link(network: &Network, id: LinkId) -> LinkReading {
    let (state, now) = (network.link_state(id), network.now());
    LinkReading { queue: queue(state.queue(), now), stats: *state.stats(), sent_for: state.busy_time(now) }
}

pub(super) fn queue(stats: &Stats, now: Instant) -> QueueReading {
    QueueReading { stats: stats.clone(), occupancy: stats.occupancy(now) }
}
