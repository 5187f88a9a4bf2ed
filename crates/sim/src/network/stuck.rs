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

#[cfg(test)]
mod tests {
    use trunkline_link::LinkSettings;
    use trunkline_units::Rate;

    use super::*;

    fn network() -> Network {
        let mut network = Network::new(1);
        let (a, b) = (network.host("a"), network.host("b"));
        let link = LinkSettings::new(Rate::from_mbit(1.0), std::time::Duration::ZERO);
        network.connect(a, b, &link, &link);
        network
    }

    #[test]
    fn the_part_is_named_by_its_ends_and_what_it_was_called_for() {
        let told = [Kind::Arrival, Kind::Free].map(|kind| network().describe(Who { kind, index: 1 }));
        assert_eq!(
            told,
            ["the link from b to a: a packet arrives", "the link from b to a: it may send the next packet"]
        );
    }

    #[test]
    #[should_panic(
        expected = "time stands still at 2.000000000s: no end of events of the link from a to b: it changes"
    )]
    fn a_part_that_is_called_at_the_present_time_for_ever_ends_the_run_with_its_name() {
        let mut network = network();
        let at = Instant::from_millis(2000);
        loop {
            network.net.agenda.set(Kind::Change, 0, at);
            network.run_some(&[], at, 1);
        }
    }
}
