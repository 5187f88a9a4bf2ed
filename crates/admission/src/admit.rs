//! Who is admitted, on which way, and who gives way to whom.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::demand::{Demand, Held, Placement, Priority};
use crate::network::{Direction, Network};
use crate::refusal::{Refusal, explain};
use crate::room::{LAST, Room};
use crate::search::{Search, Way};

/// What becomes of a demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It has the guaranteed rate on this way.
    Admitted(Placement),
    /// It has no guarantee.
    Refused(Refusal),
}

impl Outcome {
    /// Where it is carried, if it is.
    pub fn placement(&self) -> Option<&Placement> {
        match self {
            Outcome::Admitted(placement) => Some(placement),
            Outcome::Refused(_) => None,
        }
    }
}

/// Admits demands to a network. `held` has for each what it had before, if it had anything; what is no way of this network is not used.
///
/// First everyone keeps its place who can, by hold priority; those that ask for more than they had come after those of their priority
/// that do not. Then the others are placed, by setup priority, and those of one priority in their order.
///
/// # Panics
/// If there are not as many `held` as `demands`, or if a demand's ends are no nodes, are the same, or a priority is after 7 or holds worse
/// than it is set up.
pub fn admit(network: &Network, demands: &[Demand], held: &[Option<Held>]) -> Vec<Outcome> {
    assert_eq!(demands.len(), held.len(), "each demand has something before, or nothing");
    for demand in demands {
        let Priority { setup, hold } = demand.priority;
        assert!(hold <= setup && setup <= LAST, "hold is not after setup, and setup not after 7");
        assert!(demand.ends.iter().all(|end| *end < network.nodes()), "ends are nodes");
        assert_ne!(demand.ends[0], demand.ends[1], "a trunk joins two sites");
    }
    let mut admission = Admission {
        network,
        demands,
        room: Room::new(network),
        search: Search::new(network),
        placed: vec![None; demands.len()],
        on: vec![BTreeSet::new(); network.links().len()],
        waiting: (0..demands.len()).map(|demand| (demands[demand].priority.setup, demand)).collect(),
        gave_way: vec![None; demands.len()],
    };
    admission.keep(held);
    while let Some((_, demand)) = admission.waiting.pop_first() {
        admission.place(demand);
    }
    admission.outcomes()
}

struct Admission<'a> {
    network: &'a Network,
    demands: &'a [Demand],
    room: Room<'a>,
    search: Search<'a>,
    placed: Vec<Option<Placement>>,
    /// Who is on each link.
    on: Vec<BTreeSet<usize>>,
    /// Who has no place yet, by setup priority.
    waiting: BTreeSet<(u8, usize)>,
    /// For whom a demand gave way.
    gave_way: Vec<Option<usize>>,
}

impl Admission<'_> {
    /// Leaves in their places those that can stay.
    fn keep(&mut self, held: &[Option<Held>]) {
        let grows = |demand: usize, held: &Held| {
            Direction::BOTH.iter().any(|way| self.demands[demand].rates[*way] > held.rates[*way])
        };
        let mut there: Vec<(usize, &Held)> =
            held.iter().enumerate().filter_map(|(demand, held)| Some((demand, held.as_ref()?))).collect();
        there.retain(|(demand, held)| is_placement(self.network, &self.demands[*demand], &held.placement));
        there.sort_by_key(|(demand, held)| {
            (self.demands[*demand].priority.hold, grows(*demand, held), *demand)
        });
        for (demand, Held { placement, .. }) in there {
            let Priority { setup, hold } = self.demands[demand].priority;
            if self.fits(demand, placement, hold) {
                self.waiting.remove(&(setup, demand));
                self.put(demand, placement.clone());
            }
        }
    }

    fn fits(&self, demand: usize, placement: &Placement, priority: u8) -> bool {
        placement.links().all(|(link, passed)| self.room.fits(&self.demands[demand], link, passed, priority))
    }

    /// Places a demand: where it takes nobody's room, or else where it takes that of others.
    fn place(&mut self, demand: usize) {
        let setup = self.demands[demand].priority.setup;
        let found = self.find(demand, LAST).or_else(|| self.find(demand, setup));
        let Some(placement) = found else { return };
        let given = self.give_way(demand, &placement);
        self.put(demand, placement);
        // Who gives way no more than has to: what still fits stays.
        for (other, placement) in given.into_iter().rev() {
            if self.fits(other, &placement, LAST) {
                self.put(other, placement);
            } else {
                self.gave_way[other] = Some(demand);
                self.waiting.insert((self.demands[other].priority.setup, other));
            }
        }
    }

    fn find(&mut self, demand: usize, priority: u8) -> Option<Placement> {
        let Admission { demands, room, search, .. } = self;
        let demand = &demands[demand];
        let fits = |link, passed| room.fits(demand, link, passed, priority);
        if demand.backup {
            let [way, backup] = search.two(demand.ends, &fits)?;
            Some(Placement { way, backup: Some(backup) })
        } else {
            let way = search.one(demand.ends, &fits)?;
            Some(Placement { way, backup: None })
        }
    }

    /// Takes from their places those who must leave for this one: of the last hold priority first, and of those the last.
    fn give_way(&mut self, demand: usize, placement: &Placement) -> Vec<(usize, Placement)> {
        let mut given = Vec::new();
        for (link, passed) in placement.links() {
            while !self.room.fits(&self.demands[demand], link, passed, LAST) {
                let last = self.on[link]
                    .iter()
                    .copied()
                    .max_by_key(|other| (self.demands[*other].priority.hold, *other));
                let Some(other) = last else { unreachable!("others have the room that is not there") };
                given.extend(self.lift(other).map(|placement| (other, placement)));
            }
        }
        given.sort_by_key(|(other, _)| Reverse((self.demands[*other].priority.hold, *other)));
        given
    }

    fn put(&mut self, demand: usize, placement: Placement) {
        self.room.take(&self.demands[demand], &placement);
        for (link, _) in placement.links() {
            self.on[link].insert(demand);
        }
        self.gave_way[demand] = None;
        self.placed[demand] = Some(placement);
    }

    fn lift(&mut self, demand: usize) -> Option<Placement> {
        let placement = self.placed[demand].take()?;
        self.room.give_back(&self.demands[demand], &placement);
        for (link, _) in placement.links() {
            self.on[link].remove(&demand);
        }
        Some(placement)
    }

    fn outcomes(self) -> Vec<Outcome> {
        let Admission { network, demands, room, mut search, placed, gave_way, .. } = self;
        let mut refused = |demand: usize| {
            let refusal = explain(&demands[demand], network, &room, &mut search);
            Outcome::Refused(Refusal { gave_way_to: gave_way[demand], ..refusal })
        };
        placed
            .into_iter()
            .enumerate()
            .map(|(demand, placement)| placement.map_or_else(|| refused(demand), Outcome::Admitted))
            .collect()
    }
}

/// Whether a placement is one of this network for this demand: ways that join its ends, as many as it asks for, over links that it may
/// take, none twice.
fn is_placement(network: &Network, demand: &Demand, placement: &Placement) -> bool {
    let mut links = BTreeSet::new();
    demand.backup == placement.backup.is_some()
        && placement.ways().all(|way| joins(network, demand, way))
        && placement.links().all(|(link, _)| links.insert(link))
}

fn joins(network: &Network, demand: &Demand, way: &Way) -> bool {
    let [from, to] = demand.ends;
    let mut node = from;
    for (place, (link, passed)) in way.links.iter().enumerate() {
        let leaves = network.links().get(*link).is_some() && network.head(*link, passed.reversed()) == node;
        if !leaves || !demand.may_pass(*link) || (place > 0 && !network.passes(node)) {
            return false;
        }
        node = network.head(*link, *passed);
    }
    node == to
}
