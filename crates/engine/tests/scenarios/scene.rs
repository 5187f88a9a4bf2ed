//! Scenarios by hand: hosts on both sides of one link.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use trunkline_engine::Engine;
use trunkline_engine::catalogue::{Present, known};
use trunkline_engine::outcome::Outcome;
use trunkline_engine::scenario::{End, Family, Link, Load, Node, NodeKind, Scenario, Traffic, Trunk};
use trunkline_engine::site::SiteTrunks;
use trunkline_link::LinkSettings;
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_sim::{LaneSocket, both};
use trunkline_tcp::{Preset, Settings};
use trunkline_trunk::{ClassSettings, TrunkPlan};
use trunkline_units::Rate;
use trunkline_workload::{Distribution, Pattern, Timing};

pub(crate) fn mbit(rate: f64) -> Rate {
    Rate::from_mbit(rate)
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn linux() -> Settings {
    Preset::Linux6.settings()
}

pub(crate) fn tail_drop(segments: u32) -> QueueSettings {
    QueueSettings::TailDrop(Limits { segments, bytes: u64::MAX })
}

/// `a0`, `a1` … – `left` – `core` – `right` – `b0`, `b1` …; gateways where the routers are.
pub(crate) fn scene(pairs: usize, core: &LinkSettings, seconds: u64) -> Scenario {
    let node = |name: &str, kind| Node { name: name.to_owned(), kind, proxy: None };
    let mut nodes = vec![node("left", NodeKind::Gateway), node("right", NodeKind::Gateway)];
    let ways = [core.clone(), core.clone()];
    let mut links = vec![Link { name: "core".to_owned(), ends: [0, 1], ways, kernel_queues: [None, None] }];
    let fast = LinkSettings::new(mbit(1000.0), ms(0)).queue(tail_drop(100_000));
    for pair in 0..pairs {
        for (side, letter) in ["a", "b"].into_iter().enumerate() {
            let name = format!("{letter}{pair}");
            links.push(Link {
                name: format!("to-{name}"),
                ends: [nodes.len(), side],
                ways: [fast.clone(), fast.clone()],
                kernel_queues: [None, None],
            });
            nodes.push(node(&name, NodeKind::Host));
        }
    }
    Scenario {
        duration: Duration::from_secs(seconds),
        end: End::Duration,
        warm_up: Duration::ZERO,
        nodes,
        links,
        traffic: Vec::new(),
        trunks: Vec::new(),
        tunnels: Vec::new(),
        disabled: Vec::new(),
        series: None,
    }
}

/// Traffic between the hosts of a pair, from left to right.
pub(crate) fn traffic(name: &str, pair: usize, load: Load) -> Traffic {
    Traffic {
        name: name.to_owned(),
        place: 0,
        group: name.to_owned(),
        ends: [2 + 2 * pair, 3 + 2 * pair],
        port: 80,
        family: Family::Ipv4,
        dscp: 0,
        start: Duration::ZERO,
        stop: None,
        load,
    }
}

pub(crate) fn tcp(settings: Settings, pattern: Pattern) -> Load {
    Load::Tcp { tcp: both(settings), pattern }
}

pub(crate) fn bulk(flows: u32, bytes: Option<u64>) -> Load {
    tcp(linux(), Pattern::Bulk { flows, bytes, stagger: Distribution::Uniform(0.0, 0.1) })
}

/// Packets of 1500 bytes.
pub(crate) fn udp(rate: f64) -> Load {
    Load::Udp { data: 1472, timing: Timing::Constant(mbit(rate)) }
}

/// A trunk between the gateways, with these classes on a lane each.
pub(crate) fn trunk(scenario: &Scenario, classes: Vec<ClassSettings>) -> Trunk {
    let hosts = classes.iter().map(|class| vec![[None, None]; class.rules.len()]).collect();
    let side = |side: usize| (2 + side..scenario.nodes.len()).step_by(2).collect();
    Trunk {
        name: "edge".to_owned(),
        place: 0,
        gateways: [0, 1],
        sites: [side(0), side(1)],
        family: Family::Ipv4,
        tcp: Arc::new(linux()),
        plan: TrunkPlan::one_lane_per_class(classes),
        hosts,
        sealed: false,
        socket: LaneSocket::default(),
        path_links: Vec::new(),
        site: SiteTrunks::default(),
    }
}

/// What comes of it, which is what was known to: no other names, and all that are always there.
pub(crate) fn run(scenario: &Scenario, seed: u64) -> Outcome {
    let outcome =
        trunkline_engine::run(&Engine::Sim, scenario, seed, &AtomicBool::new(false)).expect("an outcome");
    let known = known([scenario]);
    for name in outcome.metrics.keys() {
        assert!(known.metric(name).is_ok(), "{name} was not known");
    }
    for name in outcome.distributions.keys() {
        assert!(known.distribution(name).is_ok(), "{name} was not known");
    }
    for name in outcome.series.iter().flat_map(|series| series.columns.keys()) {
        assert!(known.series(name).is_ok(), "{name} was not known");
    }
    for (name, quantity) in known.metrics().filter(|(_, quantity)| quantity.present == Present::Always) {
        assert!(outcome.metrics.contains_key(name), "{name} is not there: {quantity:?}");
    }
    outcome
}

/// A metric that has to be there.
pub(crate) fn of(outcome: &Outcome, name: &str) -> f64 {
    let known = || outcome.metrics.keys().cloned().collect::<Vec<_>>().join(", ");
    *outcome.metrics.get(name).unwrap_or_else(|| panic!("no {name} among {}", known()))
}

/// Asserts that a metric is between the two.
#[track_caller]
pub(crate) fn within(outcome: &Outcome, name: &str, least: f64, most: f64) {
    let value = of(outcome, name);
    assert!((least..=most).contains(&value), "{name} is {value}, not {least} to {most}");
}
