//! Trunks over several paths.

use std::sync::Arc;
use std::time::Duration;

use trunkline_link::{LinkChange, LinkSettings};
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_sim::{
    LinkId, Network, NodeId, SettingsError, SourceId, TcpTraffic, TrunkSettings, UdpTraffic,
};
use trunkline_tcp::Preset;
use trunkline_trunk::{ClassSettings, PathPolicy, PathSettings, TrunkPlan};
use trunkline_units::Rate;
use trunkline_workload::{Distribution, Pattern, Timing};

/// Two sites with two lines between them, of these rates and one-way delays: each begins and ends at an interface of a gateway.
struct Lines {
    network: Network,
    hosts: [NodeId; 2],
    ways: [[LinkId; 2]; 2],
}

fn plan(policy: PathPolicy) -> TrunkPlan {
    let mut class = ClassSettings::new("all", Vec::new(), QueueSettings::default(), 0);
    class.paths = policy;
    let mut plan = TrunkPlan::one_lane_per_class(vec![class]);
    plan.edge_pacing = true;
    plan.on_paths(["one", "two"].map(|name| PathSettings { name: name.into(), cost: 0 }).into())
}

fn link(mbit: f64, delay: Duration) -> LinkSettings {
    let rate = Rate::from_mbit(mbit);
    let limits = Limits { segments: u32::MAX, bytes: rate.bytes_in(Duration::from_millis(50)) };
    LinkSettings::new(rate, delay).queue(QueueSettings::TailDrop(limits))
}

impl Lines {
    fn new(policy: PathPolicy, lines: [(f64, u64); 2]) -> Self {
        Self::with(plan(policy), lines)
    }

    fn with(plan: TrunkPlan, lines: [(f64, u64); 2]) -> Self {
        let mut network = Network::new(5);
        let hosts = [network.host("a"), network.host("b")];
        let gateways = [network.gateway("left"), network.gateway("right")];
        let within = LinkSettings::new(Rate::MAX, Duration::ZERO);
        for side in 0..2 {
            let lan = link(1000.0, Duration::from_micros(5));
            network.connect(hosts[side], gateways[side], &lan, &lan);
        }
        let mut path_ends = Vec::new();
        let ways = lines.map(|(mbit, delay_ms)| {
            let ends = gateways.map(|gateway| {
                let interface = network.router("an interface");
                network.connect(gateway, interface, &within, &within);
                interface
            });
            path_ends.push(ends);
            let line = link(mbit, Duration::from_millis(delay_ms));
            network.connect(ends[0], ends[1], &line, &line)
        });
        let sites = hosts.map(|host| vec![host]);
        let settings =
            TrunkSettings { path_ends, ..TrunkSettings::new(sites, plan, Preset::Linux6.settings()) };
        network.trunk(gateways, settings);
        Lines { network, hosts, ways }
    }

    fn bulk(&mut self) -> SourceId {
        let tcp = Arc::new(Preset::Linux6.settings());
        self.network.tcp(TcpTraffic {
            client: self.hosts[0],
            server: self.hosts[1],
            port: 5001,
            dscp: 0,
            tcp: [tcp.clone(), tcp],
            start: Duration::ZERO,
            stop: None,
            pattern: Pattern::Bulk { flows: 1, bytes: None, stagger: Distribution::Uniform(0.0, 0.001) },
        })
    }

    /// A packet of a call each 10 ms.
    fn call(&mut self) -> SourceId {
        self.network.udp(UdpTraffic {
            from: self.hosts[0],
            to: self.hosts[1],
            port: 6000,
            dscp: 0,
            data: 160,
            start: Duration::from_secs(1),
            stop: Some(Duration::from_secs(9)),
            timing: Timing::Constant(Rate::from_bits_per_second(188 * 8 * 100)),
        })
    }

    fn received(&self, source: SourceId) -> u64 {
        self.network.transfers(source).iter().map(|transfer| transfer.bytes).sum()
    }

    /// Mbit/s of a bulk transfer from 4 s to 10 s.
    fn goodput(mut self) -> f64 {
        let bulk = self.bulk();
        self.network.run_for(Duration::from_secs(4));
        let before = self.received(bulk);
        self.network.run_for(Duration::from_secs(6));
        (self.received(bulk) - before) as f64 * 8e-6 / 6.0
    }

    /// Loses this part on both ways of a line from now on.
    fn lose(&mut self, line: usize, part: f64) {
        let impairments = trunkline_link::Impairments {
            loss: trunkline_link::Loss::Uniform(part),
            ..trunkline_link::Impairments::default()
        };
        for way in self.ways[line] {
            self.network.change_link(way, LinkChange::Impairments(impairments));
        }
    }
}

#[test]
fn one_flow_has_the_rates_of_both_lines_together_where_it_is_bonded_and_of_one_else() {
    let goodput = |policy| Lines::new(policy, [(50.0, 10), (50.0, 10)]).goodput();
    let (bonded, alone) = (goodput(PathPolicy::Bonded), goodput(PathPolicy::LowestDelay));
    assert!((40.0..50.0).contains(&alone), "{alone}");
    assert!(bonded > 1.85 * alone, "{bonded} against {alone}");
}

#[test]
fn a_second_line_that_is_slow_or_long_takes_nothing_from_the_first() {
    for second in [(2.0, 3), (5.0, 90), (2.0, 90), (45.0, 60)] {
        let bonded = Lines::new(PathPolicy::Bonded, [(50.0, 10), second]).goodput();
        let alone = Lines::new(PathPolicy::LowestDelay, [(50.0, 10), (1.0, 100)]).goodput();
        assert!(bonded > 0.96 * alone, "{second:?}: {bonded} against {alone}");
    }
}

#[test]
fn a_line_that_is_slower_by_more_than_reorder_wait_is_left_out() {
    let goodput = |wait_ms: u64| {
        let mut plan = plan(PathPolicy::Bonded);
        plan.classes[0].reorder_wait = Some(Duration::from_millis(wait_ms));
        Lines::with(plan, [(50.0, 10), (50.0, 40)]).goodput()
    };
    let (without, with) = (goodput(20), goodput(100));
    assert!((40.0..50.0).contains(&without) && with > 1.5 * without, "{with} against {without}");
}

#[test]
fn a_call_goes_on_over_the_other_line_when_one_is_cut_and_loses_little() {
    let mut lines = Lines::new(PathPolicy::LowestDelay, [(20.0, 10), (20.0, 12)]);
    let call = lines.call();
    lines.network.run_for(Duration::from_secs(5));
    lines.lose(0, 1.0);
    lines.network.run_for(Duration::from_secs(5));
    let got = lines.network.datagrams(call).expect("a source of datagrams");
    let lost = got.sent - got.received;
    assert!((1..=30).contains(&lost), "{lost} of {}", got.sent);
}

#[test]
fn a_call_that_is_bonded_or_duplicated_loses_nothing_when_lines_are_cut_and_nothing_comes_twice() {
    for policy in [PathPolicy::Bonded, PathPolicy::Duplicate] {
        for back_after_ms in [250, 700, 3000, 60_000] {
            let mut lines = Lines::new(policy.clone(), [(20.0, 10), (20.0, 12)]);
            let call = lines.call();
            lines.network.run_for(Duration::from_secs(5));
            lines.lose(0, 1.0);
            lines.network.run_for(Duration::from_millis(back_after_ms));
            lines.lose(0, 0.0);
            lines.network.run_for(Duration::from_secs(10));
            let got = lines.network.datagrams(call).expect("a source of datagrams");
            assert_eq!((got.sent, got.received), (800, 800), "{policy}, cut for {back_after_ms} ms");
        }
    }
}

#[test]
fn a_transfer_over_bonded_lines_sends_little_again_when_one_is_cut() {
    let mut lines = Lines::new(PathPolicy::Bonded, [(50.0, 10), (20.0, 15)]);
    let bulk = lines.bulk();
    lines.network.run_for(Duration::from_secs(5));
    let sent_again = |lines: &Lines| -> u64 {
        lines.network.transfers(bulk).iter().map(|transfer| transfer.sender.retransmitted_segments).sum()
    };
    let before = sent_again(&lines);
    lines.lose(0, 1.0);
    lines.network.run_for(Duration::from_secs(5));
    let (got, again) = (lines.received(bulk), sent_again(&lines) - before);
    lines.network.run_for(Duration::from_secs(5));
    println!("{again} segments sent again");
    assert!((lines.received(bulk) - got) as f64 * 8e-6 / 5.0 > 17.0);
}

#[test]
fn a_line_that_was_cut_is_used_again_when_it_is_back() {
    for (cut, back) in [(3, 5), (15, 20), (60, 60)] {
        let mut lines = Lines::new(PathPolicy::Bonded, [(50.0, 10), (50.0, 10)]);
        let bulk = lines.bulk();
        lines.network.run_for(Duration::from_secs(5));
        lines.lose(0, 1.0);
        lines.network.run_for(Duration::from_secs(cut));
        lines.lose(0, 0.0);
        // A connection that is opened anew while the line is cut asks more and more rarely.
        lines.network.run_for(Duration::from_secs(back));
        let before = lines.received(bulk);
        lines.network.run_for(Duration::from_secs(5));
        let goodput = (lines.received(bulk) - before) as f64 * 8e-6 / 5.0;
        assert!(goodput > 85.0, "after {cut} s: {goodput}");
    }
}

#[test]
fn a_path_that_leads_through_its_own_gateway_is_refused() {
    let mut network = Network::new(1);
    let hosts = [network.host("a"), network.host("b")];
    let gateways = [network.gateway("left"), network.gateway("right")];
    let interface = network.router("beside left");
    let line = link(10.0, Duration::from_millis(5));
    for (from, to) in [(hosts[0], gateways[0]), (gateways[0], gateways[1]), (gateways[1], hosts[1])] {
        network.connect(from, to, &line, &line);
    }
    network.connect(gateways[0], interface, &line, &line);
    let path_ends = vec![[gateways[0], gateways[1]], [interface, gateways[1]]];
    let settings = TrunkSettings {
        path_ends,
        ..TrunkSettings::new(
            hosts.map(|host| vec![host]),
            plan(PathPolicy::Spread),
            Preset::Linux6.settings(),
        )
    };
    network.trunk(gateways, settings.clone());
    let error = network.check().expect_err("the second path has no line of its own");
    assert!(matches!(error, SettingsError::Node { node, .. } if node == gateways[0]), "{error}");
    let error = TrunkSettings { path_ends: Vec::new(), ..settings }.check().expect_err("no ends");
    assert!(error.to_string().contains("path_ends"), "{error}");
}
