//! Shortest paths between the nodes of a network.

use std::collections::VecDeque;

use super::{Network, Source};
use crate::SettingsError;
use crate::node::{NO_ROUTE, NodeKind};

impl Network {
    /// Finds the path with the fewest links between all nodes; of equal ones, the path by the link that was added first.
    pub(super) fn find_routes(&mut self) {
        if std::mem::replace(&mut self.routed, true) {
            return;
        }
        let nodes = self.net.nodes.len();
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); nodes];
        for (number, link) in self.net.links.iter().enumerate() {
            into[link.to.index()].push(number as u32);
        }
        for node in &mut self.net.nodes {
            node.routes = vec![NO_ROUTE; nodes];
        }
        for destination in 0..nodes {
            let mut reached = VecDeque::from([destination]);
            while let Some(at) = reached.pop_front() {
                // A host forwards nothing.
                if at != destination && self.net.nodes[at].kind == NodeKind::Host {
                    continue;
                }
                for &link in &into[at] {
                    let from = self.net.links[link as usize].from.index();
                    let route = &mut self.net.nodes[from].routes[destination];
                    if from != destination && *route == NO_ROUTE {
                        *route = link;
                        reached.push_back(from);
                    }
                }
            }
        }
    }

    /// Checks that the packets of every source, their answers, and every trunk have a route. Routes that were set by hand
    /// may lead elsewhere.
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
        let trunks = self.trunks.ends().enumerate().flat_map(|(number, [near, far])| {
            [(near, far), (far, near)].map(|way| (format!("trunk {number}"), way))
        });
        for (place, (from, to)) in sources.chain(trunks) {
            if self.net.nodes[from.index()].routes[to.index()] == NO_ROUTE {
                let problem = "has no way to where it sends; allowed: nodes that links join";
                return Err(SettingsError::Node { place, node: from, problem });
            }
        }
        Ok(())
    }
}
