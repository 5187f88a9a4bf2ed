//! How much there is to do in a run, before it is run: packets that cross links, about.
//!
//! A source offers its rate, or, if it is TCP, its part of the link that leaves it least, and no more than its windows and losses let
//! it: all such sources of a link have equal parts of what datagrams leave. A link carries what is offered to it, up to its rate, and
//! offers no more to the next. It is an estimate for the order of runs, for how many there is room at a time, and for the time left,
//! nothing else.

use std::sync::Arc;

use trunkline_engine::Engine;
use trunkline_engine::scenario::{End, Link, Load, NodeKind, Scenario};
use trunkline_tcp::{CongestionAlgorithm, Settings};
use trunkline_workload::{Pattern, Timing};

/// Bits of a packet, as far as the estimate goes.
const PACKET: f64 = 8.0 * 1000.0;
/// Of a run that sends nothing.
const MIN_WORK: f64 = 100.0;
/// The part of a link that TCP has beside datagrams that fill it.
const LEFT_BY_FLOODS: f64 = 0.1;
/// Of a path without delays, seconds.
const MIN_RTT: f64 = 1e-3;

/// Packets times links; of an engine in real time, the seconds.
pub fn work(scenario: &Scenario, engine: &Engine) -> f64 {
    match engine {
        Engine::Sim => packets(scenario),
        Engine::Testbed { .. } => seconds(scenario),
    }
}

/// Packets times links.
pub(super) fn packets(scenario: &Scenario) -> f64 {
    let rates: Vec<f64> = scenario.links.iter().map(slower).collect();
    let routes = routes(scenario);
    let ways: Vec<Vec<usize>> =
        scenario.traffic.iter().map(|source| way(scenario, &routes, source.ends)).collect();
    let mut offered = vec![0.0; rates.len()];
    let offer = |offered: &mut [f64], way: &[usize], rate: f64| {
        way.iter().fold(rate, |arrives, link| {
            offered[*link] += arrives;
            arrives.min(rates[*link])
        });
    };
    let mut sharing = vec![0.0; rates.len()];
    for (source, way) in scenario.traffic.iter().zip(&ways) {
        match &source.load {
            Load::Tcp { .. } => way.iter().for_each(|link| sharing[*link] += 1.0),
            Load::Udp { timing, .. } => offer(&mut offered, way, average(timing)),
        }
    }
    let left: Vec<f64> =
        offered.iter().zip(&rates).map(|(taken, rate)| (rate - taken).max(LEFT_BY_FLOODS * rate)).collect();
    for (source, way) in scenario.traffic.iter().zip(&ways) {
        if let Load::Tcp { tcp, pattern } = &source.load {
            let part = way.iter().map(|link| left[*link] / sharing[*link]).fold(f64::INFINITY, f64::min);
            let links = || way.iter().map(|link| &scenario.links[*link]);
            let able = f64::from(connections(pattern)) * able(tcp, links());
            offer(&mut offered, way, part.min(wanted(pattern, seconds(scenario))).min(able));
        }
    }
    let carried: f64 = offered.iter().zip(&rates).map(|(offered, rate)| offered.min(*rate)).sum();
    (carried * seconds(scenario) / PACKET).max(MIN_WORK)
}

/// Bits a second of the slower of its ways.
fn slower(link: &Link) -> f64 {
    link.ways[0].rate.min(link.ways[1].rate).bits_per_second() as f64
}

/// Bits a second. No experiment has a recording of datagrams.
fn average(timing: &Timing) -> f64 {
    match timing {
        Timing::Constant(rate) | Timing::Poisson(rate) => rate.bits_per_second() as f64,
        Timing::OnOff { rate, .. } => rate.bits_per_second() as f64 / 2.0,
        Timing::Trace { .. } => 0.0,
    }
}

fn connections(pattern: &Pattern) -> u32 {
    match pattern {
        Pattern::Bulk { flows, .. } => *flows,
        Pattern::Web { users, .. } => *users,
        Pattern::RequestResponse { connections, .. } | Pattern::Arrivals { connections, .. } => *connections,
    }
}

/// What these connections would send on an empty path in a run of so many seconds, bits a second.
fn wanted(pattern: &Pattern, seconds: f64) -> f64 {
    match pattern {
        Pattern::Bulk { flows, bytes: Some(bytes), .. } => 8.0 * f64::from(*flows) * *bytes as f64 / seconds,
        Pattern::RequestResponse { connections, request, response, interval } => {
            // A request, its answer, and an acknowledgement at the least.
            let bits = (8.0 * (*request + *response) as f64).max(3.0 * PACKET);
            f64::from(*connections) * bits / interval.mean()
        }
        Pattern::Arrivals { response, interval, .. } => response.mean() * 8.0 / interval.mean(),
        Pattern::Bulk { .. } | Pattern::Web { .. } => f64::INFINITY,
    }
}

/// What one connection can send, bits a second: a window in each round trip, and one between losses (Mathis et al. 1997) unless
/// its congestion control does not go by them.
fn able<'l>(tcp: &[Arc<Settings>; 2], links: impl Iterator<Item = &'l Link>) -> f64 {
    let [sender, receiver] = tcp;
    let (rtt, loss) = links.fold((MIN_RTT, 0.0), |(rtt, loss), link| {
        let delays: f64 = link.ways.iter().map(|way| way.delay.as_secs_f64()).sum();
        let [there, back] = [&link.ways[0], &link.ways[1]].map(|way| way.impairments.loss.mean());
        (rtt + delays, loss + there.max(back))
    });
    let window = sender.send_buffer.min(receiver.receive_buffer) as f64;
    let between_losses = match sender.congestion_control {
        CongestionAlgorithm::Bbr => f64::INFINITY,
        _ => 1.3 * f64::from(sender.mss) / loss.sqrt(),
    };
    8.0 * window.min(between_losses) / rtt
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

/// The links between two nodes, in order.
fn way(scenario: &Scenario, routes: &[Vec<Option<usize>>], [mut node, to]: [usize; 2]) -> Vec<usize> {
    let next = || {
        let way = routes[node][to]?;
        node = scenario.links[way / 2].ends[1 - way % 2];
        Some(way / 2)
    };
    std::iter::from_fn(next).collect()
}

/// For each node and destination, twice the number of the next link, and one more if its way back leads there.
fn routes(scenario: &Scenario) -> Vec<Vec<Option<usize>>> {
    let ways =
        scenario.links.iter().flat_map(|link| [(link.ends[0], link.ends[1]), (link.ends[1], link.ends[0])]);
    trunkline_link::routes(scenario.nodes.len(), &ways.collect::<Vec<_>>(), |node| {
        scenario.nodes[node].kind != NodeKind::Host
    })
}
