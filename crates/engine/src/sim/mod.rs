//! The simulator as an engine.

mod build;
mod capture;
pub(crate) mod session;

use std::sync::atomic::{AtomicBool, Ordering};

use trunkline_sim::{LaneReport, NodeStats, Ran, SourceId, TrunkReport};
use trunkline_trunk::ClassId;
use trunkline_units::Instant;

use super::measure::{
    ClassCounters, Counters, LinkCounters, Network, SourceCounters, Transfer, TrunkCounters, measure,
};
use super::{Control, EngineError};
use crate::catalogue::measured::{
    self, ClassState, Disturbance, Lane, LaneCounts, LinkState, NodeCounts, QueueReading, Rtt, Sender, User,
};
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use build::{Built, build};

/// Events after which a run looks whether it is to stop: some milliseconds of this machine's time.
const EVENTS_BETWEEN_LOOKS: u32 = 4096;

/// A run that goes on.
struct Run<'a> {
    built: &'a mut Built,
    stop: &'a AtomicBool,
}

/// Whether the simulator has all of a scenario's parts.
pub(super) fn check(scenario: &Scenario) -> Result<(), EngineError> {
    if let Some(tunnel) = scenario.tunnels.first() {
        return Err(EngineError::Misfit {
            part: format!("trunks.{}.program", tunnel.name),
            problem: format!(
                "is {:?}; allowed on this engine: none (other programs need a kernel)",
                tunnel.program
            ),
        });
    }
    for link in &scenario.links {
        for (side, queue) in link.kernel_queues.iter().enumerate() {
            if let Some(queue) = queue {
                let back = if side == 1 { ".back" } else { "" };
                return Err(EngineError::Misfit {
                    part: format!("links.{}{back}.queue.kernel", link.name),
                    problem: format!("is {queue:?}; allowed on this engine: our own disciplines"),
                });
            }
        }
    }
    build::check_quic(scenario)
}

pub(super) fn run(scenario: &Scenario, seed: u64, control: Control<'_>) -> Result<Outcome, EngineError> {
    check(scenario)?;
    let mut built = build(scenario, seed)?;
    measure(scenario, &mut Run { built: &mut built, stop: control.stop }, control.watch)
}

pub(super) use capture::capture;

impl Run<'_> {
    fn report(&mut self, trunk: usize, side: usize) -> TrunkReport {
        self.built.network.trunk_report(self.built.trunks[trunk], side)
    }

    fn trunk(&mut self, trunk: usize, side: usize) -> TrunkCounters {
        let now = self.now();
        let report = self.report(trunk, side);
        let classes = report.classes.iter().map(|class| ClassCounters {
            queue: QueueReading::new(&class.queue, now),
            filtered: class.stats.filtered,
        });
        TrunkCounters {
            classes: classes.collect(),
            lanes: report.lanes.iter().map(lane_counts).collect(),
            delivered_bytes: report.receiver.bytes,
            refused: report.refused,
        }
    }

    fn source(&self, source: SourceId) -> SourceCounters {
        let network = &self.built.network;
        match network.datagrams(source) {
            Some(datagrams) => SourceCounters::Datagrams(Box::new(datagrams.clone())),
            None => SourceCounters::Transfers(network.transfers(source).iter().map(transfer).collect()),
        }
    }

    /// Bytes of data that arrived at a user of a source.
    fn received_by(&self, source: SourceId, user: u32) -> u64 {
        let network = &self.built.network;
        let datagrams = network.datagrams(source);
        datagrams
            .map_or_else(|| network.received_by(source, user), trunkline_workload::Datagrams::received_data)
    }
}

impl Network for Run<'_> {
    fn now(&self) -> Instant {
        self.built.network.now()
    }

    fn run_until(&mut self, at: Instant, awaited: &[usize]) -> Result<bool, EngineError> {
        let awaited: Vec<SourceId> = awaited.iter().map(|source| self.built.sources[*source]).collect();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(EngineError::Stopped);
            }
            match self.built.network.run_some(&awaited, at, EVENTS_BETWEEN_LOOKS) {
                Ran::On => {}
                Ran::ToItsEnd => return Ok(false),
                Ran::Over => return Ok(true),
            }
        }
    }

    fn reset_peaks(&mut self) {
        self.built.network.reset_peaks();
    }

    fn counters(&mut self) -> Result<Counters, EngineError> {
        let trunks = (0..self.built.trunks.len()).map(|trunk| [self.trunk(trunk, 0), self.trunk(trunk, 1)]);
        let trunks = trunks.collect();
        let Built { network, nodes, proxies, links, sources, .. } = &*self.built;
        let at = network.now();
        let link = |id| {
            let link = network.link_state(id);
            let queue = QueueReading::new(link.queue(), at);
            LinkCounters { queue, stats: *link.stats(), sent_for: link.busy_time(at) }
        };
        Ok(Counters {
            at,
            sources: sources.iter().map(|source| self.source(*source)).collect(),
            links: links.iter().map(|ways| ways.map(link)).collect(),
            trunks,
            proxies: proxies
                .iter()
                .map(|proxy| proxy.map(|proxy| *network.proxy_stats(proxy)).unwrap_or_default())
                .collect(),
            nodes: nodes.iter().map(|node| node_counts(network.node_stats(*node))).collect(),
        })
    }

    fn link_backlog(&self, link: usize, side: usize) -> u32 {
        self.built.network.link_state(self.built.links[link][side]).queue().backlog_segments as u32
    }

    fn class_backlog(&mut self, trunk: usize, side: usize, class: usize) -> u32 {
        let class = ClassId(class as u8);
        self.built.network.class_backlog(self.built.trunks[trunk], side, class).0 as u32
    }

    fn received(&self, source: usize) -> u64 {
        let source = self.built.sources[source];
        (0..self.built.network.users(source)).map(|user| self.received_by(source, user)).sum()
    }

    fn user(&self, source: usize, user: u32) -> User {
        let (network, source) = (&self.built.network, self.built.sources[source]);
        User {
            received: self.received_by(source, user),
            retransmissions: network.retransmissions_by(source, user),
            sender: network.sender(source, user).map(|sender| Sender {
                cwnd: sender.cwnd(),
                ssthresh: Some(sender.ssthresh()).filter(|ssthresh| *ssthresh != u32::MAX),
                in_flight: sender.in_flight(),
                srtt: sender.srtt(),
            }),
        }
    }

    fn link(&self, link: usize, side: usize) -> LinkState {
        let link = self.built.network.link_state(self.built.links[link][side]);
        LinkState {
            packets: link.queue().backlog_segments,
            bytes: link.queue().backlog_bytes,
            sent_for: link.busy_time(self.now()),
            delivered_bytes: link.stats().delivered_bytes,
            drops: link.queue().dropped_total(),
        }
    }

    fn class(&mut self, trunk: usize, side: usize, class: usize) -> ClassState {
        let id = ClassId(class as u8);
        let (packets, bytes) = self.built.network.class_backlog(self.built.trunks[trunk], side, id);
        let report = &self.report(trunk, side).classes[class];
        ClassState { packets, bytes, drops: report.queue.dropped_total(), filtered: report.stats.filtered }
    }

    fn lane(&mut self, trunk: usize, side: usize, lane: usize) -> Option<Lane> {
        let report = self.report(trunk, side);
        let lane = report.lanes.get(lane)?;
        Some(Lane { snapshot: lane.snapshot, max_pacing_rate: lane.pacing.and_then(|(_, max)| max) })
    }

    fn disturbance(&self) -> Option<Disturbance> {
        None
    }

    fn digest(&self) -> String {
        self.built.network.digest().to_string()
    }
}

fn node_counts(stats: &NodeStats) -> NodeCounts {
    NodeCounts {
        unreachable: Some(stats.unreachable),
        ttl_expired: Some(stats.ttl_expired),
        no_listener: Some(stats.no_listener),
        malformed: Some(stats.malformed),
        corrupted: Some(stats.corrupted),
        reassembly_failures: Some(stats.reassembly_failures),
    }
}

fn lane_counts(lane: &LaneReport) -> LaneCounts {
    let tcp = lane.tcp.unwrap_or_default();
    LaneCounts {
        retransmitted: Some(tcp.retransmitted_segments + lane.quic.map_or(0, |quic| quic.repaired)),
        timeouts: Some(tcp.timeouts + lane.quic.map_or(0, |quic| quic.timeouts)),
        rtt_samples: Some(tcp.rtt.samples),
        rtt_ns: Some(tcp.rtt.sum_ns),
        bytes: Some(lane.bytes),
    }
}

fn transfer(transfer: &trunkline_sim::Transfer) -> Transfer {
    let trunkline_sim::Transfer { user, started, connected, ended, bytes, sender, receiver, .. } = *transfer;
    Transfer {
        user,
        state: transfer.state,
        started,
        connected,
        ended,
        bytes,
        counts: measured::Counts {
            retransmitted: Some(sender.retransmitted_segments),
            retransmitted_bytes: Some(sender.retransmitted_bytes),
            spurious: Some(transfer.duplicates_delivered),
            timeouts: Some(sender.timeouts),
            data_segments: Some(sender.data_segments_sent),
            sent: Some(sender.segments_sent),
            answered: Some(receiver.segments_sent),
            bytes: Some(sender.bytes_sent),
            request_bytes: Some(receiver.bytes_sent - receiver.retransmitted_bytes),
            rtt_samples: Some(sender.rtt.samples),
            ack_gaps: Some(sender.ack_gaps.count),
            ack_gap_sum: Some(sender.ack_gaps.sum),
            ack_gap_squares: Some(sender.ack_gaps.squares),
        },
        rtt: transfer.mean_rtt().map(|mean| Rtt {
            mean: mean.as_secs_f64(),
            min: sender.rtt.min_ns as f64 / 1e9,
            max: sender.rtt.max_ns as f64 / 1e9,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant as Clock};

    use trunkline_link::LinkSettings;
    use trunkline_queue::{Limits, Settings as QueueSettings};
    use trunkline_sim::{LaneSocket, both};
    use trunkline_tcp::Preset;
    use trunkline_trunk::{ClassSettings, TrunkPlan};
    use trunkline_units::Rate;
    use trunkline_workload::{Distribution, Pattern};

    use super::*;
    use crate::scenario::{End, Family, Link, Load, Node, NodeKind, Traffic, Trunk};
    use crate::site::SiteTrunks;

    /// A network whose link has a rate, with so many flows over a trunk.
    fn scenario(rate: Rate, flows: u32, seconds: u64) -> Scenario {
        let tail_drop = |segments| QueueSettings::TailDrop(Limits { segments, bytes: u64::MAX });
        let link = |name: &str, ends, rate, delay, packets| {
            let way = LinkSettings::new(rate, Duration::from_millis(delay)).queue(tail_drop(packets));
            Link { name: name.to_owned(), ends, ways: [way.clone(), way], kernel_queues: [None, None] }
        };
        let node = |(name, kind): (&str, _)| Node { name: name.to_owned(), kind, proxy: None };
        let nodes = [
            ("a", NodeKind::Host),
            ("left", NodeKind::Gateway),
            ("right", NodeKind::Gateway),
            ("b", NodeKind::Host),
        ];
        let fast = Rate::from_mbit(1000.0);
        let tcp = Preset::Linux6.settings();
        let pattern = Pattern::Bulk { flows, bytes: None, stagger: Distribution::Uniform(0.0, 0.1) };
        Scenario {
            duration: Duration::from_secs(seconds),
            end: End::Duration,
            warm_up: Duration::from_secs(5),
            nodes: nodes.into_iter().map(node).collect(),
            links: vec![
                link("near", [0, 1], fast, 0, 1000),
                link("core", [1, 2], rate, 10, 160),
                link("far", [2, 3], fast, 0, 1000),
            ],
            traffic: vec![Traffic {
                name: "bulk".to_owned(),
                place: 0,
                group: "bulk".to_owned(),
                ends: [0, 3],
                port: 80,
                family: Family::Ipv4,
                dscp: 0,
                start: Duration::ZERO,
                stop: None,
                load: Load::Tcp { tcp: both(tcp.clone()), pattern },
            }],
            trunks: vec![Trunk {
                name: "site".to_owned(),
                place: 0,
                gateways: [1, 2],
                sites: [vec![0], vec![3]],
                family: Family::Ipv4,
                tcp: Arc::new(tcp),
                plan: TrunkPlan::one_lane_per_class(vec![ClassSettings::new(
                    "all",
                    Vec::new(),
                    tail_drop(1000),
                    0,
                )]),
                hosts: vec![Vec::new()],
                sealed: true,
                socket: LaneSocket::default(),
                path_links: Vec::new(),
                site: SiteTrunks::default(),
            }],
            tunnels: Vec::new(),
            disabled: Vec::new(),
            series: Some((
                Duration::from_secs(1),
                ["bulk.goodput", "core.queue.packets", "bulk.0.cwnd"].map(str::to_owned).to_vec(),
            )),
        }
    }

    #[test]
    fn a_session_that_only_looks_is_the_run_to_the_bit() {
        let scenario = scenario(Rate::from_mbit(10.0), 5, 12);
        let stop = AtomicBool::new(false);
        let outcome = run(&scenario, 7, Control::unwatched(&stop)).expect("an outcome");
        let mut session = session::Session::new(scenario.clone(), 7).expect("a session");
        let names = ["bulk.goodput", "core.queue.packets", "bulk.0.cwnd"];
        names.iter().try_for_each(|name| session.watch(name)).expect("known names");
        let series = outcome.series.expect("series");
        for (row, time) in series.times.iter().enumerate() {
            session.run_until(Duration::from_secs_f64(*time), &stop).expect("it runs");
            let recorded: Vec<_> = names.iter().map(|name| series.columns[*name][row]).collect();
            assert_eq!(session.read(), recorded);
        }
        assert_eq!((session.now(), session.digest()), (scenario.duration, outcome.digest.clone()));
        // What is changed is another run.
        let mut other = session::Session::new(scenario.clone(), 7).expect("a session");
        other.set_rate("core.back", Rate::from_mbit(9.0)).expect("a link");
        other.run_until(scenario.duration, &stop).expect("it runs");
        assert_ne!(other.digest(), outcome.digest);
        let refused = |result: Result<(), EngineError>| result.expect_err("an error").to_string();
        assert!(refused(other.watch("core.queue")).contains("links: near, core, far; traffic: bulk"));
        assert_eq!(
            refused(other.set_delay("cor", Duration::ZERO)),
            "\"cor\" is no link; allowed: near, core, far"
        );
        assert_eq!(
            refused(other.hold_window("bulk", 5, 1000).map(|_| ())),
            "traffic.bulk has no user 5; allowed: below 5"
        );
        stop.store(true, Ordering::Relaxed);
        assert_eq!(other.run_until(Duration::from_secs(1000), &stop), Err(EngineError::Stopped));
    }

    #[test]
    #[ignore = "takes time, and a quiet machine"]
    fn measuring_costs_less_than_a_tenth_of_a_run() {
        for (rate, flows, seconds) in [(100.0, 10, 60), (1.0, 100, 300)] {
            let scenario = scenario(Rate::from_mbit(rate), flows, seconds);
            let stop = AtomicBool::new(false);
            let (mut plain, mut measured) = (Vec::new(), Vec::new());
            for _ in 0..5 {
                let clock = Clock::now();
                let mut built = build(&scenario, 1).expect("a sound scenario");
                built.network.run_until(Instant::ZERO + scenario.duration);
                plain.push(clock.elapsed());
                let clock = Clock::now();
                let outcome = run(&scenario, 1, Control::unwatched(&stop)).expect("an outcome");
                measured.push(clock.elapsed());
                assert_eq!(outcome.digest, built.network.digest().to_string());
            }
            let [plain, measured] =
                [plain, measured].map(|times| times.into_iter().min().unwrap_or_default());
            println!("{rate} Mbit/s, {flows} flows, {seconds} s: {plain:?}, measured {measured:?}");
            assert!(measured.as_secs_f64() < 1.1 * plain.as_secs_f64(), "{measured:?} for {plain:?}");
        }
    }
}
