//! How much there is to do in a run, before it is run: packets that cross links, about.
//!
//! A source offers its rate, or, if it is TCP and has none, what the narrowest link on its way carries. A link carries what is offered to it, up to its
//! rate. It is an estimate for the order of runs and the time left, nothing else.

use trunkline_engine::Engine;
use trunkline_engine::scenario::{End, Link, Load, NodeKind, Scenario};
use trunkline_workload::{Pattern, Timing};

/// Bits of a packet, as far as the estimate goes.
const PACKET: f64 = 8.0 * 1000.0;
/// Of a run that sends nothing.
const MIN_WORK: f64 = 100.0;

/// Packets times links; of an engine in real time, the seconds.
pub fn work(scenario: &Scenario, engine: &Engine) -> f64 {
    match engine {
        Engine::Sim => packets(scenario),
        Engine::Testbed { .. } => seconds(scenario),
    }
}

/// Packets times links.
pub(super) fn packets(scenario: &Scenario) -> f64 {
    let slower = |link: &Link| link.ways[0].rate.min(link.ways[1].rate).bits_per_second() as f64;
    let rates: Vec<f64> = scenario.links.iter().map(slower).collect();
    let mut offered = vec![0.0; rates.len()];
    let routes = routes(scenario);
    for source in &scenario.traffic {
        let [mut node, to] = source.ends;
        let next = || {
            let way = routes[node][to]?;
            node = scenario.links[way / 2].ends[1 - way % 2];
            Some(way / 2)
        };
        let way: Vec<usize> = std::iter::from_fn(next).collect();
        let narrowest = way.iter().map(|link| rates[*link]).fold(f64::INFINITY, f64::min);
        let rate = match &source.load {
            Load::Tcp { pattern: Pattern::Arrivals { response, interval, .. }, .. } => {
                (response.mean() * 8.0 / interval.mean()).min(narrowest)
            }
            Load::Tcp { .. } => narrowest,
            Load::Udp { timing, .. } => match timing {
                Timing::Constant(rate) | Timing::Poisson(rate) => rate.bits_per_second() as f64,
                Timing::OnOff { rate, .. } => rate.bits_per_second() as f64 / 2.0,
                // No experiment has one.
                Timing::Trace { .. } => narrowest,
            },
        };
        for link in way {
            offered[link] += rate;
        }
    }
    let carried: f64 = offered.iter().zip(&rates).map(|(offered, rate)| offered.min(*rate)).sum();
    (carried * seconds(scenario) / PACKET).max(MIN_WORK)
}

/// How long it runs, about: if it ends with its transfers, their bytes over the narrowest link, and as long again for what is in
/// their way.
pub(super) fn seconds(scenario: &Scenario) -> f64 {
    let max = scenario.duration.as_secs_f64();
    if scenario.end != End::Transfers {
        return max;
    }
    let bits = scenario.traffic.iter().map(|source| match &source.load {
        Load::Tcp { pattern: Pattern::Bulk { flows, bytes: Some(bytes), .. }, .. } => {
            8.0 * f64::from(*flows) * *bytes as f64
        }
        _ => 0.0,
    });
    let bits: f64 = bits.sum();
    let rates = scenario.links.iter().flat_map(|link| &link.ways).map(|way| way.rate.bits_per_second());
    (2.0 * bits / rates.min().unwrap_or(u64::MAX) as f64).min(max)
}

/// For each node and destination, twice the number of the next link, and one more if its way back leads there.
fn routes(scenario: &Scenario) -> Vec<Vec<Option<usize>>> {
    let ways =
        scenario.links.iter().flat_map(|link| [(link.ends[0], link.ends[1]), (link.ends[1], link.ends[0])]);
    trunkline_link::routes(scenario.nodes.len(), &ways.collect::<Vec<_>>(), |node| {
        scenario.nodes[node].kind != NodeKind::Host
    })
}
