//! How long admission takes: 1000 sites at 100 nodes, 10 000 trunks of which some are refused, then one trunk more.
//!
//! `cargo bench -p trunkline-admission --bench scale`

#![expect(clippy::disallowed_types, reason = "a benchmark reads the clock; the crate under test does not")]

use std::collections::BTreeSet;
use std::time::Instant;

use trunkline_admission::{Demand, Held, Link, Network, Outcome, Priority, Rates, admit};
use trunkline_units::{Rate, Rng};

const SITES: usize = 1000;
const CORE: usize = 100;
const TRUNKS: usize = 10_000;

fn main() {
    let mut rng = Rng::new(1, "scale");
    let mut links = Vec::new();
    for site in 0..SITES {
        for _ in 0..=rng.below(2) {
            let node = SITES + rng.below(CORE as u64) as usize;
            links.push(link([site, node], 100 + rng.below(900), 1));
        }
    }
    for node in 0..CORE {
        links.push(link([SITES + node, SITES + (node + 1) % CORE], 20_000, 1 + rng.below(20) as u32));
    }
    for _ in 0..CORE {
        let ends = [SITES + rng.below(CORE as u64) as usize, SITES + rng.below(CORE as u64) as usize];
        if ends[0] != ends[1] {
            links.push(link(ends, 10_000, 1 + rng.below(20) as u32));
        }
    }
    let passes = (0..SITES + CORE).map(|node| node >= SITES).collect();
    let network = Network::new(passes, links).expect("a network");
    let demands: Vec<Demand> = (0..TRUNKS).map(|_| demand(&mut rng)).collect();
    let outcomes = timed("10 000 trunks", &network, &demands, &vec![None; TRUNKS]);
    let mut held: Vec<Option<Held>> = demands
        .iter()
        .zip(&outcomes)
        .map(|(demand, outcome)| Some(Held { placement: outcome.placement()?.clone(), rates: demand.rates }))
        .collect();
    held.push(None);
    let more = [demands, vec![demand(&mut rng)]].concat();
    timed("one trunk more", &network, &more, &held);
}

fn link(ends: [usize; 2], mbit: u64, cost: u32) -> Link {
    let rate = Rate::from_bits_per_second(mbit * 1_000_000);
    Link {
        ends,
        reservable: Rates::both(rate),
        least: Rates::both(Rate::from_bits_per_second(300_000)),
        cost,
    }
}

fn demand(rng: &mut Rng) -> Demand {
    let from = rng.below(SITES as u64) as usize;
    let to = (from + 1 + rng.below(SITES as u64 - 1) as usize) % SITES;
    let setup = rng.below(8) as u8;
    Demand {
        ends: [from, to],
        rates: Rates::both(Rate::from_bits_per_second((1 + rng.below(60)) * 1_000_000)),
        lanes: 3,
        priority: Priority { setup, hold: setup },
        backup: rng.chance(0.1),
        avoided: BTreeSet::new(),
    }
}

fn timed(what: &str, network: &Network, demands: &[Demand], held: &[Option<Held>]) -> Vec<Outcome> {
    let begin = Instant::now();
    let outcomes = admit(network, demands, held);
    let took = begin.elapsed();
    let admitted = outcomes.iter().filter(|outcome| outcome.placement().is_some()).count();
    println!(
        "{what}: {admitted} admitted, {} refused, {:.3} s",
        outcomes.len() - admitted,
        took.as_secs_f64()
    );
    outcomes
}
