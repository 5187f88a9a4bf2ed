//! Shortest paths between the nodes of a network.

use trunkline_packet::Version;
use trunkline_units::check;

use super::{Network, Source};
use crate::node::{NO_ROUTE, NodeKind};
use crate::packet::MIN_MTU_IPV6;
use crate::{NodeId, SettingsError};

impl Network {
    /// Finds the path with the fewest links between all nodes; of equal ones, the path by the link that was added first.
    pub(super) fn find_routes(&mut self) {
        if std::mem::replace(&mut self.routed, true) {
            return;
        }
        let links = self.net.links.iter().map(|link| (link.from.index(), link.to.index()));
        let links: Vec<(usize, usize)> = links.collect();
        let nodes = &mut self.net.nodes;
        let routes = trunkline_link::routes(nodes.len(), &links, |node| nodes[node].kind != NodeKind::Host);
        for (node, routes) in nodes.iter_mut().zip(routes) {
            node.routes = routes.into_iter().map(|link| link.map_or(NO_ROUTE, |link| link as u32)).collect();
        }
    }

    /// The nodes that packets from one node to another come to, the last included, as far as there is a way.
    fn way(&self, from: NodeId, to: NodeId) -> impl Iterator<Item = NodeId> {
        let next = move |at: &NodeId| {
            let link = self.net.nodes[at.index()].routes.get(to.index()).copied()?;
            self.net.links.get(link as usize).filter(|_| *at != to).map(|link| link.to)
        };
        std::iter::successors(Some(from), next).skip(1).take(self.net.nodes.len())
    }

    /// Checks that the packets of every source, their answers, and every trunk have a route, and that links take what IPv6 needs where
    /// something sends it. Routes that were set by hand may lead elsewhere.
    pub fn check(&mut self) -> Result<(), SettingsError> {
        self.find_routes();
        let sources = self.sources.iter().enumerate().flat_map(|(number, source)| {
            let ways = match source {
                Source::Transfers(source) => {
                    let (client, server) = (source.traffic.client, source.traffic.server);
                    vec![(client, server), (server, client)]
                }
                Source::Datagrams(source) => vec![(source.traffic.from, source.traffic.to)],
            };
            ways.into_iter().map(move |way| (format!("source {number}"), way))
        });
        let trunks = self.trunks.path_ends().flat_map(|(number, _, [near, far])| {
            [(near, far), (far, near)].map(|way| (format!("trunk {number}"), way))
        });
        for (place, (from, to)) in sources.chain(trunks) {
            if self.net.nodes[from.index()].routes[to.index()] == NO_ROUTE {
                let problem = "has no way to where it sends; allowed: nodes that links join";
                return Err(SettingsError::Node { place, node: from, problem });
            }
        }
        for (number, gateways, [near, far]) in self.trunks.path_ends() {
            for (from, to) in [(near, far), (far, near)] {
                if let Some(node) = self.way(from, to).find(|node| *node != to && gateways.contains(node)) {
                    let place = format!("trunk {number}");
                    let problem = "is on the way between the ends of a path of its own trunk; allowed: paths that leave it by their own links";
                    return Err(SettingsError::Node { place, node, problem });
                }
            }
        }
        if self.sources.iter().any(|source| source.version() == Version::V6) || self.trunks.have_ipv6() {
            for (number, link) in self.net.links.iter().enumerate() {
                let (mtu, place) = (link.machine.mtu(), format!("link {number}.mtu"));
                let allowed = "1280 or more bytes where something sends IPv6 (RFC 8200 §5)";
                check::ensure(mtu >= MIN_MTU_IPV6, &place, mtu, allowed)?;
            }
        }
        Ok(())
    }
}
