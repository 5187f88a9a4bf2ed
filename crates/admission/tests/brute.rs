//! The same questions answered by looking at every way there is.

use std::collections::BTreeSet;

use trunkline_admission::{Demand, Direction, Network, Placement, Way};

/// What is reserved, by link, direction along it and hold priority, counted anew from placements.
pub(crate) struct Taken {
    bits: Vec<[[u64; 8]; 2]>,
}

impl Taken {
    pub(crate) fn of<'a>(
        network: &Network,
        placed: impl Iterator<Item = (&'a Demand, &'a Placement)>,
    ) -> Self {
        let links = network.links().len();
        let mut taken = Taken { bits: vec![[[0; 8]; 2]; links] };
        for (demand, placement) in placed {
            let hold = usize::from(demand.priority.hold);
            for way in [Some(&placement.way), placement.backup.as_ref()].into_iter().flatten() {
                for (link, passed) in &way.links {
                    let [along, against] = along(demand, *passed);
                    taken.bits[*link][0][hold] += along;
                    taken.bits[*link][1][hold] += against;
                }
            }
        }
        taken
    }

    /// What is more than there is.
    pub(crate) fn excess(&self, network: &Network) -> Vec<usize> {
        let over = |(place, link): &(usize, &trunkline_admission::Link)| {
            let sum = |of: &[u64; 8]| of.iter().sum::<u64>();
            sum(&self.bits[*place][0]) > link.reservable.forth.bits_per_second()
                || sum(&self.bits[*place][1]) > link.reservable.back.bits_per_second()
        };
        network.links().iter().enumerate().filter(over).map(|(place, _)| place).collect()
    }

    pub(crate) fn fits(
        &self,
        network: &Network,
        demand: &Demand,
        link: usize,
        passed: Direction,
        priority: u8,
    ) -> bool {
        let priority = usize::from(priority);
        let Some(there) = network.links().get(link) else { return false };
        let [along, against] = along(demand, passed);
        let sum = |of: &[u64; 8]| of[..=priority].iter().sum::<u64>();
        sum(&self.bits[link][0]) + along <= there.reservable.forth.bits_per_second()
            && sum(&self.bits[link][1]) + against <= there.reservable.back.bits_per_second()
            && [(along, there.least.forth), (against, there.least.back)]
                .into_iter()
                .all(|(rate, least)| rate == 0 || rate / u64::from(demand.lanes) >= least.bits_per_second())
            && !demand.avoided.contains(&link)
    }
}

/// What a demand sends in the link's own directions, when it passes it in this one.
fn along(demand: &Demand, passed: Direction) -> [u64; 2] {
    let (forth, back) = (demand.rates.forth.bits_per_second(), demand.rates.back.bits_per_second());
    if passed == Direction::Forth { [forth, back] } else { [back, forth] }
}

/// Every way between two sites that visits no node twice and passes through no site.
pub(crate) fn all_ways(network: &Network, from: usize, to: usize) -> Vec<Way> {
    let mut ways = Vec::new();
    let mut visited = BTreeSet::from([from]);
    extend(network, from, to, &mut Way::default(), &mut visited, &mut ways);
    ways
}

fn extend(
    network: &Network,
    node: usize,
    to: usize,
    way: &mut Way,
    visited: &mut BTreeSet<usize>,
    ways: &mut Vec<Way>,
) {
    if node == to {
        ways.push(way.clone());
        return;
    }
    if !way.links.is_empty() && !network.passes(node) {
        return;
    }
    for (link, there) in network.links().iter().enumerate() {
        for (passed, tail, head) in [
            (Direction::Forth, there.ends[0], there.ends[1]),
            (Direction::Back, there.ends[1], there.ends[0]),
        ] {
            if tail == node && visited.insert(head) {
                way.links.push((link, passed));
                extend(network, head, to, way, visited, ways);
                way.links.pop();
                visited.remove(&head);
            }
        }
    }
}

/// The least cost of the way, or the pair of ways, that a demand may take; none if there is none.
pub(crate) fn least_cost(
    network: &Network,
    demand: &Demand,
    fits: impl Fn(usize, Direction) -> bool,
) -> Option<u64> {
    let ways: Vec<Way> = all_ways(network, demand.ends[0], demand.ends[1])
        .into_iter()
        .filter(|way| way.links.iter().all(|(link, passed)| fits(*link, *passed)))
        .collect();
    if !demand.backup {
        return ways.iter().map(|way| way.cost(network)).min();
    }
    let mut least = None;
    for (place, one) in ways.iter().enumerate() {
        for other in &ways[place + 1..] {
            if one.links.iter().all(|(link, _)| other.links.iter().all(|(theirs, _)| theirs != link)) {
                let cost = one.cost(network) + other.cost(network);
                least = Some(least.map_or(cost, |least: u64| least.min(cost)));
            }
        }
    }
    least
}
