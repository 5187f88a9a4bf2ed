//! What an error says of a part that keeps time from going on.

use trunkline_trunk::TrunkPlan;
use trunkline_units::Instant;

use super::{Network, Source};
use crate::agenda::{Kind, Who};

impl Network {
    /// # Panics
    /// Always: only a mistake of the simulator leads here.
    #[cold]
    pub(super) fn stuck(&self, at: Instant, who: Who) -> ! {
        panic!("time stands still at {at:?}: no end of events of {}", self.describe(who));
    }

    /// A part of the network, and what it was called for.
    fn describe(&self, who: Who) -> String {
        let name = |node: crate::NodeId| self.net.nodes[node.index()].name.as_str();
        let index = who.index as usize;
        let link = |what: &str| {
            let link = &self.net.links[index];
            format!("the link from {} to {}: {what}", name(link.from), name(link.to))
        };
        match who.kind {
            Kind::Arrival => link("a packet arrives"),
            Kind::Free => link("it may send the next packet"),
            Kind::Change => link("it changes"),
            Kind::Connection => {
                let connection = &self.net.connections[index];
                format!("a connection of {}: a timer ({:?})", name(connection.node), connection.role)
            }
            Kind::Gateway => {
                let (half, lane) = (index / TrunkPlan::MAX_LANES, index % TrunkPlan::MAX_LANES);
                let ends = self.trunks.ends().nth(half / 2).map(|ends| ends[half % 2]);
                format!("gateway {}: the timer of its lane {lane}", ends.map_or("without a name", name))
            }
            Kind::Proxy => format!("proxy {}: its timer", name(self.proxies[index].node())),
            Kind::Source => match &self.sources[index] {
                Source::Transfers(source) => {
                    let traffic = &source.traffic;
                    format!(
                        "the transfers from {} to {}: the next begins",
                        name(traffic.client),
                        name(traffic.server)
                    )
                }
                Source::Datagrams(source) => {
                    let traffic = &source.traffic;
                    format!(
                        "the datagrams from {} to {}: the next leaves",
                        name(traffic.from),
                        name(traffic.to)
                    )
                }
            },
        }
    }
}
