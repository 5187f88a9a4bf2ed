//! Small networks and demands, drawn.

use std::collections::BTreeSet;

use trunkline_admission::{Demand, Link, Network, Priority, Rates};
use trunkline_units::{Rate, Rng};

pub(crate) struct Sampled {
    pub(crate) network: Network,
    pub(crate) demands: Vec<Demand>,
}

pub(crate) fn rate(bits: u64) -> Rate {
    Rate::from_bits_per_second(bits)
}

/// A part of such a rate by another, and half of it, are whole numbers.
fn units(units: u64) -> Rate {
    rate(units * 120)
}

/// Three to five sites at one to four nodes of the core, some at two of them, and up to fourteen demands. Rates are small numbers, so that
/// links are often exactly full.
pub(crate) fn sample(seed: u64) -> Sampled {
    let mut rng = Rng::new(seed, "network");
    let sites = 3 + rng.below(3) as usize;
    let core = 1 + rng.below(4) as usize;
    let mut links = Vec::new();
    for site in 0..sites {
        for _ in 0..=rng.below(2) {
            let node = sites + rng.below(core as u64) as usize;
            links.push(link(&mut rng, [site, node]));
        }
    }
    for node in 1..core {
        let other = sites + rng.below(node as u64) as usize;
        links.push(link(&mut rng, [sites + node, other]));
    }
    for _ in 0..rng.below(3) {
        let ends = [sites + rng.below(core as u64) as usize, sites + rng.below(core as u64) as usize];
        if ends[0] != ends[1] {
            links.push(link(&mut rng, ends));
        }
    }
    let passes = (0..sites + core).map(|node| node >= sites).collect();
    let count = links.len();
    let network = Network::new(passes, links).expect("a network");
    let demands = (0..=rng.below(14)).map(|_| demand(&mut rng, sites, count)).collect();
    Sampled { network, demands }
}

fn link(rng: &mut Rng, mut ends: [usize; 2]) -> Link {
    if rng.chance(0.5) {
        ends.reverse();
    }
    let forth = rng.below(12);
    Link {
        ends,
        reservable: Rates {
            forth: units(forth),
            back: units(if rng.chance(0.7) { forth } else { rng.below(12) }),
        },
        least: Rates { forth: least(rng), back: least(rng) },
        cost: 1 + rng.below(3) as u32,
    }
}

/// Mostly nothing.
fn least(rng: &mut Rng) -> Rate {
    units(if rng.chance(0.2) { rng.below(4) } else { 0 })
}

pub(crate) fn demand(rng: &mut Rng, sites: usize, links: usize) -> Demand {
    let from = rng.below(sites as u64) as usize;
    let to = (from + 1 + rng.below(sites as u64 - 1) as usize) % sites;
    let setup = rng.below(8) as u8;
    let forth = rng.below(6);
    let avoided =
        if rng.chance(0.2) { BTreeSet::from([rng.below(links as u64) as usize]) } else { BTreeSet::new() };
    Demand {
        ends: [from, to],
        rates: Rates { forth: units(forth), back: units(if rng.chance(0.7) { forth } else { rng.below(6) }) },
        lanes: 1 + rng.below(3) as u32,
        priority: Priority { setup, hold: rng.below(u64::from(setup) + 1) as u8 },
        backup: rng.chance(0.25),
        avoided,
    }
}
