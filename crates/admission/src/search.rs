//! Ways of least cost: one, or two that share no link.
//!
//! Two ways are a flow of two units of least cost, one unit on a link (Suurballe 1974, with the potentials of Suurballe and Tarjan 1984):
//! the second search may pass a link of the first way backwards, which takes the link out of both.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::network::{Direction, Network};

/// Costs are counted in parts of this, so that of ways of one cost the one with fewer links is less.
const PARTS: u64 = 1 << 24;
const UNREACHED: u64 = u64::MAX;

/// A way from one site to another: its links in order, each with the direction in which it is passed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Way {
    /// Its links.
    pub links: Vec<(usize, Direction)>,
}

impl Way {
    /// What it costs.
    pub fn cost(&self, network: &Network) -> u64 {
        self.links.iter().map(|(link, _)| u64::from(network.links()[*link].cost)).sum()
    }
}

/// A search, with the memory that each search uses again.
#[derive(Debug)]
pub(crate) struct Search<'n> {
    network: &'n Network,
    distance: Vec<u64>,
    /// The link by which a node is reached at that distance, and in which direction.
    by: Vec<Option<(usize, Direction)>>,
    /// The nodes that have a distance.
    reached: Vec<usize>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<'n> Search<'n> {
    pub(crate) fn new(network: &'n Network) -> Self {
        let nodes = network.nodes();
        Search {
            network,
            distance: vec![UNREACHED; nodes],
            by: vec![None; nodes],
            reached: Vec::new(),
            heap: BinaryHeap::new(),
        }
    }

    /// The cheapest way over links that `fits` allows in the direction in which they are passed.
    pub(crate) fn one(&mut self, ends: [usize; 2], fits: &impl Fn(usize, Direction) -> bool) -> Option<Way> {
        let network = self.network;
        self.run(ends, true, |_, link, direction, _| fits(link, direction).then(|| cost(network, link)))
    }

    /// The two ways of least total cost that share no link, the cheaper one first.
    pub(crate) fn two(
        &mut self,
        ends: [usize; 2],
        fits: &impl Fn(usize, Direction) -> bool,
    ) -> Option<[Way; 2]> {
        let network = self.network;
        let first = self
            .run(ends, false, |_, link, direction, _| fits(link, direction).then(|| cost(network, link)))?;
        let mut used: BTreeMap<usize, Direction> = first.links.iter().copied().collect();
        let potential = self.distance.clone();
        let second = self.run(ends, true, |node, link, direction, head| match used.get(&link) {
            Some(taken) if *taken == direction => None,
            // Backwards along a cheapest way: nothing, by these potentials.
            Some(_) => Some(0),
            None => fits(link, direction).then(|| cost(network, link) + potential[node] - potential[head]),
        })?;
        for (link, direction) in second.links {
            if used.remove(&link).is_none() {
                used.insert(link, direction);
            }
        }
        let mut ways = [(); 2].map(|()| self.take_way(ends, &mut used));
        ways.sort_by_key(|way| (way.cost(network), way.links.len()));
        Some(ways)
    }

    /// Dijkstra from the first end: until the second has its distance, or until all nodes have.
    fn run(
        &mut self,
        [from, to]: [usize; 2],
        stops: bool,
        cost: impl Fn(usize, usize, Direction, usize) -> Option<u64>,
    ) -> Option<Way> {
        for node in self.reached.drain(..) {
            self.distance[node] = UNREACHED;
            self.by[node] = None;
        }
        self.heap.clear();
        self.reach(from, 0, None);
        while let Some(Reverse((distance, node))) = self.heap.pop() {
            if node == to && stops {
                break;
            }
            if node == to || distance > self.distance[node] {
                continue;
            }
            for (link, direction) in self.network.leaving(node) {
                let head = self.network.head(link, direction);
                if head != to && !self.network.passes(head) {
                    continue;
                }
                if let Some(cost) = cost(node, link, direction, head) {
                    self.reach(head, distance + cost, Some((link, direction)));
                }
            }
        }
        self.trace([from, to])
    }

    fn reach(&mut self, node: usize, distance: u64, by: Option<(usize, Direction)>) {
        if distance < self.distance[node] {
            if self.distance[node] == UNREACHED {
                self.reached.push(node);
            }
            self.distance[node] = distance;
            self.by[node] = by;
            self.heap.push(Reverse((distance, node)));
        }
    }

    fn trace(&self, [from, to]: [usize; 2]) -> Option<Way> {
        let mut links = Vec::new();
        let mut node = to;
        while node != from {
            let (link, direction) = self.by[node]?;
            links.push((link, direction));
            node = self.network.head(link, direction.reversed());
        }
        links.reverse();
        Some(Way { links })
    }

    /// Takes a way out of the links of a flow.
    fn take_way(&self, [from, to]: [usize; 2], flow: &mut BTreeMap<usize, Direction>) -> Way {
        let mut way = Way::default();
        let mut node = from;
        while node != to {
            let leaving =
                self.network.leaving(node).find(|(link, direction)| flow.get(link) == Some(direction));
            let Some((link, direction)) = leaving else {
                unreachable!("what flows into a node flows out of it")
            };
            flow.remove(&link);
            way.links.push((link, direction));
            node = self.network.head(link, direction);
        }
        way
    }
}

fn cost(network: &Network, link: usize) -> u64 {
    u64::from(network.links()[link].cost) * PARTS + 1
}
