//! What a transfer takes where nothing else uses its path.

use std::collections::BTreeMap;

use crate::scenario::{Link, NodeKind, Scenario, Traffic};

/// The path of a source's transfers while it is idle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct IdlePath {
    /// Of the narrowest link in the direction of the data, bit/s.
    rate: f64,
    /// Propagation there and back, s.
    rtt: f64,
}

impl IdlePath {
    /// Seconds for so many bytes: their time at the narrowest link, and a round trip.
    pub(super) fn seconds(self, bytes: u64) -> f64 {
        bytes as f64 * 8.0 / self.rate + self.rtt
    }
}

/// The paths between nodes of a scenario, by its links as they are at the start.
pub(super) struct IdlePaths<'s> {
    scenario: &'s Scenario,
    /// Both ways of each link, there and back.
    ways: Vec<(usize, usize)>,
    /// The next way from each node, by destination.
    routes: BTreeMap<usize, Vec<Option<usize>>>,
}

impl<'s> IdlePaths<'s> {
    pub(super) fn new(scenario: &'s Scenario) -> Self {
        let both = |link: &Link| [(link.ends[0], link.ends[1]), (link.ends[1], link.ends[0])];
        let ways = scenario.links.iter().flat_map(both).collect();
        IdlePaths { scenario, ways, routes: BTreeMap::new() }
    }

    /// Of a source whose clients send the data (`upload`) or ask for it. `None` where no path leads, or a link has no rate.
    pub(super) fn of(&mut self, traffic: &Traffic, upload: bool) -> Option<IdlePath> {
        let [client, server] = traffic.ends;
        let (there_rate, there) = self.way(client, server)?;
        let (back_rate, back) = self.way(server, client)?;
        let rate = if upload { there_rate } else { back_rate };
        (rate > 0.0).then_some(IdlePath { rate, rtt: there + back })
    }

    /// The lowest rate on the way, bit/s, and its delay, s.
    fn way(&mut self, from: usize, to: usize) -> Option<(f64, f64)> {
        let IdlePaths { scenario, ways, routes } = self;
        let forwards = |node: usize| scenario.nodes[node].kind != NodeKind::Host;
        let next = routes
            .entry(to)
            .or_insert_with(|| trunkline_link::routes_to(to, scenario.nodes.len(), ways, forwards));
        let (mut rate, mut delay) = (f64::INFINITY, 0.0);
        let mut node = from;
        while node != to {
            let way = next[node]?;
            let settings = &scenario.links[way / 2].ways[way % 2];
            rate = rate.min(settings.rate.bits_per_second() as f64);
            delay += settings.delay.as_secs_f64();
            node = ways[way].1;
        }
        Some((rate, delay))
    }
}
