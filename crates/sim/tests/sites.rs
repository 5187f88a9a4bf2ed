//! Many sites in regions, whose trunks a plan has admitted.

use std::collections::BTreeSet;
use std::time::Duration;

use trunkline_admission::{Demand, Link, Network as Planned, Priority, Rates, admit, least_rate};
use trunkline_link::{LinkChange, LinkSettings};
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_sim::{Network, NodeId, TrunkId};
use trunkline_units::{Bytes, Rate, Rng};

use crate::reserved::{Sends, packets, trunk};

const UPLINK_MBIT: f64 = 20.0;
const UPLINK: Duration = Duration::from_millis(2);
/// Of each trunk.
const ENDS: usize = 2;
/// How long trunks that all begin at once have until it is measured what they carry, and for how long that is, s.
const BEFORE: u64 = 40;
const MEASURED: u64 = 30;

/// Regions around one node, and trunks between sites of two of them.
struct Sites {
    regions: usize,
    /// Of each region.
    trunks: usize,
    seed: u64,
}

/// A trunk that is asked for: its regions and its rate.
struct Asked {
    regions: [usize; 2],
    rate: Rate,
}

/// How a region is joined to the others.
struct Region {
    rate: Rate,
    delay: Duration,
    buffer: Bytes,
}

impl Sites {
    /// Rates of 2 to 5 Mbit/s, of which the regions' links have room for about two thirds in each direction.
    fn draw(&self) -> (Vec<Region>, Vec<Asked>) {
        let mut rng = Rng::new(self.seed, "sites");
        let mut between = |low: f64, high: f64| low + (high - low) * rng.uniform();
        let regions = (0..self.regions)
            .map(|_| {
                let rate = Rate::from_mbit(self.trunks as f64 / 2.0 * 3.5 * between(0.6, 0.8));
                let delay = Duration::from_secs_f64(between(0.006, 0.02));
                let queue = (delay.as_secs_f64() + UPLINK.as_secs_f64()) * 4.0 * between(0.8, 1.5);
                Region { rate, delay, buffer: Bytes((rate.as_mbit() * 1e6 / 8.0 * queue) as u64) }
            })
            .collect();
        let trunks = self.regions * self.trunks / ENDS;
        let asked = (0..trunks)
            .map(|place| {
                let near = place % self.regions;
                let other = 1 + (between(0.0, 1.0) * (self.regions - 1) as f64) as usize;
                Asked {
                    regions: [near, (near + other) % self.regions],
                    rate: Rate::from_mbit(between(2.0, 5.0)),
                }
            })
            .collect();
        (regions, asked)
    }

    /// Which of them a plan admits.
    fn plan(regions: &[Region], asked: &[Asked]) -> Vec<bool> {
        let centre = regions.len();
        let mut links: Vec<Link> = Vec::new();
        let mut link = |ends: [usize; 2], rate: Rate, round_trip: Duration| {
            let reservable = Rates::both(Rate::from_mbit(rate.as_mbit() * 0.9));
            let least = Rates::both(least_rate(rate, round_trip, Bytes(0)));
            links.push(Link { ends, reservable, least, cost: 1 });
        };
        for (place, region) in regions.iter().enumerate() {
            link([place, centre], region.rate, (region.delay + UPLINK) * 4);
        }
        let sites = |place: usize| [0, 1].map(|side| centre + 1 + place * ENDS + side);
        for (place, trunk) in asked.iter().enumerate() {
            for (site, region) in sites(place).into_iter().zip(trunk.regions) {
                link([site, region], Rate::from_mbit(UPLINK_MBIT), (regions[region].delay + UPLINK) * 4);
            }
        }
        let passes = (0..=centre + asked.len() * ENDS).map(|node| node <= centre).collect();
        let network = Planned::new(passes, links).expect("a network");
        let demand = |(place, trunk): (usize, &Asked)| Demand {
            ends: sites(place),
            rates: Rates { forth: trunk.rate, back: Rate::ZERO },
            lanes: 1,
            priority: Priority::default(),
            backup: false,
            avoided: BTreeSet::new(),
        };
        let demands: Vec<Demand> = asked.iter().enumerate().map(demand).collect();
        let outcomes = admit(&network, &demands, &vec![None; demands.len()]);
        outcomes.iter().map(|outcome| outcome.placement().is_some()).collect()
    }

    /// Of each trunk that the plan admits, what it carries as a part of its rate, beside all the others, which send what they can; without
    /// `keeps` nothing is reserved for anybody.
    fn parts(&self, keeps: bool) -> Vec<f64> {
        let (regions, asked) = self.draw();
        let admitted = Self::plan(&regions, &asked);
        let mut network = Network::new(self.seed);
        let centre = network.router("centre");
        let nodes: Vec<NodeId> = regions
            .iter()
            .enumerate()
            .map(|(place, region)| {
                let limits = Limits { segments: u32::MAX, bytes: region.buffer.0 };
                let mut link =
                    LinkSettings::new(region.rate, region.delay).queue(QueueSettings::TailDrop(limits));
                // One of ten fails for a second, long before what is measured.
                if place % 10 == 0 {
                    let rate = |second, rate| (Duration::from_secs(second), LinkChange::Rate(rate));
                    link.changes = vec![rate(6, Rate::ZERO), rate(7, region.rate)];
                }
                let node = network.router(&format!("region-{place}"));
                network.connect(node, centre, &link, &link);
                node
            })
            .collect();
        let uplink = LinkSettings::new(Rate::from_mbit(UPLINK_MBIT), UPLINK).queue(packets(60));
        let trunks: Vec<TrunkId> = asked
            .iter()
            .zip(&admitted)
            .enumerate()
            .map(|(place, (asked, admitted))| {
                let sends = match place % 4 {
                    0 => Sends::Flood(15.0),
                    flows => Sends::Flows(1 << flows),
                };
                let reserved = keeps.then_some(if *admitted { asked.rate } else { Rate::ZERO });
                let core = asked.regions.map(|region| nodes[region]);
                trunk(&mut network, &place.to_string(), core, &uplink, reserved, sends)
            })
            .collect();
        let mut bytes = |seconds| {
            network.run_for(Duration::from_secs(seconds));
            trunks.iter().map(|trunk| network.trunk_report(*trunk, 0).lanes[0].bytes).collect::<Vec<_>>()
        };
        let (before, after) = (bytes(BEFORE), bytes(MEASURED));
        let carried = before.iter().zip(&after).map(|(before, after)| (after - before) as f64 * 8.0);
        let each = asked.iter().zip(&admitted).zip(carried).filter(|((_, admitted), _)| **admitted);
        each.map(|((asked, _), bits)| bits / MEASURED as f64 / 1e6 / asked.rate.as_mbit()).collect()
    }
}

/// How many trunks were admitted, how many of them carry 0.97 of their rates, and the least part.
fn outcome(parts: &[f64]) -> (usize, usize, f64) {
    let worst = parts.iter().copied().fold(f64::INFINITY, f64::min);
    (parts.len(), parts.iter().filter(|part| **part >= 0.97).count(), worst)
}

/// Nearly all have what they were promised, and nobody much less.
fn hold(sites: &Sites) -> (usize, usize, f64) {
    let kept @ (admitted, held, worst) = outcome(&sites.parts(true));
    let count = sites.regions * sites.trunks;
    println!("{count} sites: admitted, of those with 0.97 of their rates, the worst: {kept:?}");
    assert!(admitted * 4 > count, "most of what is asked for is admitted: {admitted}");
    assert!(held * 10 >= admitted * 9 && worst >= 0.85, "{kept:?}");
    kept
}

#[test]
fn sites_in_regions_have_what_a_plan_admits() {
    let sites = Sites { regions: 5, trunks: 20, seed: 1 };
    let (_, held, worst) = hold(&sites);
    let shared = outcome(&sites.parts(false));
    assert!(shared.1 * 2 < held && shared.2 < worst / 2.0, "without a plan many have not: {shared:?}");
}

#[test]
#[ignore = "takes minutes"]
fn a_thousand_sites_have_what_a_plan_admits() {
    let _ = hold(&Sites { regions: 20, trunks: 50, seed: 2 });
}
