//! The gateway's control of a lane in virtual time: the congestion control by the path, and lanes that stall.

use std::sync::Arc;
use std::time::Duration;

use trunkline_link::{Impairments, Jitter, LinkChange, LinkSettings, Loss};
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_sim::gateway::LaneReport;
use trunkline_sim::{Network, NodeId, SourceId, TcpTraffic, TrunkId, TrunkSettings};
use trunkline_tcp::{CongestionAlgorithm, Preset, Settings};
use trunkline_trunk::{ClassSettings, CongestionControl, Delivery, Transport, TrunkPlan};
use trunkline_units::{Instant, Rate};
use trunkline_workload::{Distribution, Pattern};

const SECOND: Duration = Duration::from_secs(1);

fn linux(congestion_control: CongestionAlgorithm) -> Settings {
    Preset::Linux6.settings().with_congestion_control(congestion_control)
}

fn path() -> LinkSettings {
    let queue = QueueSettings::TailDrop(Limits { segments: 200, bytes: u64::MAX });
    LinkSettings::new(Rate::from_mbit(20.0), Duration::from_millis(30)).queue(queue)
}

struct Scene {
    network: Network,
    trunk: TrunkId,
    source: SourceId,
}

impl Scene {
    /// Four flows from one site to the other over a lane on this path.
    fn new(path: &LinkSettings, congestion_control: CongestionControl, quic: Option<Delivery>) -> Self {
        let mut network = Network::new(1);
        let hosts = [network.host("a"), network.host("b")];
        let gateways = [network.gateway("left"), network.gateway("right")];
        let lan = LinkSettings::new(Rate::from_mbit(1000.0), Duration::from_micros(50));
        for side in 0..2 {
            network.connect(hosts[side], gateways[side], &lan, &lan);
        }
        network.connect(gateways[0], gateways[1], path, path);
        let queue = QueueSettings::TailDrop(Limits { segments: 400, bytes: u64::MAX });
        let class = ClassSettings {
            filters_retransmissions: quic != Some(Delivery::Datagram),
            ..ClassSettings::new("all", Vec::new(), queue, 0)
        };
        let mut plan = TrunkPlan::one_lane_per_class(vec![class]);
        plan.groups[0].congestion_control = congestion_control;
        let tcp = linux(CongestionAlgorithm::Cubic);
        if let Some(delivery) = quic {
            (plan.groups[0].transport, plan.groups[0].delivery) = (Transport::Quic, delivery);
        }
        let settings = TrunkSettings::new(hosts.map(|host| vec![host]), plan, tcp.clone());
        let trunk = network.trunk(gateways, settings);
        let source = network.tcp(bulk(hosts, &Arc::new(tcp)));
        Scene { network, trunk, source }
    }

    fn lane(&mut self) -> LaneReport {
        self.network.trunk_report(self.trunk, 0).lanes.remove(0)
    }

    fn received(&self) -> u64 {
        (0..4).map(|user| self.network.received_by(self.source, user)).sum()
    }

    /// Goodput over so many seconds, Mbit/s.
    fn mbit(&mut self, seconds: u32) -> f64 {
        let before = self.received();
        self.network.run_for(SECOND * seconds);
        (self.received() - before) as f64 * 8.0 / f64::from(seconds) / 1e6
    }
}

fn bulk([client, server]: [NodeId; 2], tcp: &Arc<Settings>) -> TcpTraffic {
    TcpTraffic {
        client,
        server,
        port: 80,
        dscp: 0,
        tcp: [Arc::clone(tcp), Arc::clone(tcp)],
        start: Duration::ZERO,
        stop: None,
        pattern: Pattern::Bulk { flows: 4, bytes: None, stagger: Distribution::Fixed(0.1) },
    }
}

#[test]
fn a_lane_by_its_path_goes_to_bbr_where_packets_are_lost_and_nowhere_else() {
    let lossy = path().loss(Loss::Uniform(0.01));
    let run = |path: &LinkSettings, control: CongestionControl| {
        let mut scene = Scene::new(path, control, None);
        scene.network.run_for(SECOND * 10);
        let rate = scene.mbit(40);
        (rate, scene.lane().chosen_congestion_control)
    };
    let (named, none) = run(&lossy, CongestionControl::Named("cubic".into()));
    let (by_path, chosen) = run(&lossy, CongestionControl::ByPath);
    assert_eq!((none, chosen), (None, Some("bbr")));
    assert!(by_path > 2.0 * named && by_path > 14.0, "{by_path} and {named} Mbit/s");
    let (full, chosen) = run(&path(), CongestionControl::ByPath);
    assert_eq!(chosen, Some("cubic"));
    assert!(full > 17.0, "{full} Mbit/s");
}

#[test]
fn a_plan_that_names_what_the_lanes_were_opened_with_changes_nothing() {
    let digest = |control: CongestionControl| {
        let mut scene = Scene::new(&path().loss(Loss::Uniform(0.001)), control, None);
        scene.network.run_for(SECOND * 5);
        scene.network.digest()
    };
    let as_opened = digest(CongestionControl::AsOpened);
    assert_eq!(digest(CongestionControl::Named("cubic".into())), as_opened);
    assert_ne!(digest(CongestionControl::Named("vegas".into())), as_opened);
}

#[test]
fn lanes_over_quic_go_by_their_path_too() {
    let lossy = path().loss(Loss::Uniform(0.02));
    let run = |path: &LinkSettings, control, delivery| {
        let mut scene = Scene::new(path, control, Some(delivery));
        scene.network.run_for(SECOND * 20);
        (scene.lane().chosen_congestion_control, scene.mbit(20))
    };
    for delivery in [Delivery::Reliable, Delivery::Datagram] {
        let (chosen, rate) = run(&lossy, CongestionControl::ByPath, delivery);
        assert_eq!(chosen, Some("bbr"));
        let (_, named) = run(&lossy, CongestionControl::Named("cubic".into()), delivery);
        assert!(rate > 1.5 * named, "{delivery}: {rate} and {named} Mbit/s");
        // The users of a lane of datagrams see the losses themselves.
        assert!(delivery == Delivery::Datagram || rate > 12.0, "{rate} Mbit/s of 20");
        assert_eq!(run(&path(), CongestionControl::ByPath, delivery).0, Some("cubic"));
    }
}

/// What is overtaken by less than a round trip is no loss (RFC 8985 §6.2).
#[test]
fn lanes_over_quic_keep_their_rate_where_packets_overtake_each_other() {
    let ms = Duration::from_millis;
    for jitter in [
        Jitter::Exponential { mean: ms(4), reorders: true },
        Jitter::Uniform { max: ms(20), reorders: true },
        Jitter::Uniform { max: ms(45), reorders: true },
    ] {
        let mut path = path();
        path.impairments.jitter = jitter;
        for delivery in [Delivery::Datagram, Delivery::Reliable] {
            let mut scene = Scene::new(&path, CongestionControl::ByPath, Some(delivery));
            scene.network.run_for(SECOND * 5);
            let rate = scene.mbit(15);
            assert!(rate > 14.0, "{delivery}, {jitter:?}: {rate} Mbit/s of 20");
        }
    }
}

/// A path that is down between these times.
fn cut(from: Duration, until: Duration) -> LinkSettings {
    let down = Impairments { loss: Loss::Uniform(1.0), ..Impairments::default() };
    let changes =
        vec![(from, LinkChange::Impairments(down)), (until, LinkChange::Impairments(Impairments::default()))];
    LinkSettings { changes, ..path() }
}

/// What a lane holds when its path fails may be lost with it, so users may send that again; the rest waits at the edge.
#[test]
fn a_lane_whose_path_fails_takes_nothing_more_and_lets_retransmissions_wait_at_the_edge() {
    let path = cut(SECOND * 5, SECOND * 12);
    let mut scene = Scene::new(&path, CongestionControl::AsOpened, None);
    let at = |scene: &mut Scene, ms: u64| {
        scene.network.run_until(Instant::from_millis(ms));
        let report = scene.network.trunk_report(scene.trunk, 0);
        let class = &report.classes[0];
        (class.stats.filtered, class.queue.segments_in, report.lanes[0].frames)
    };
    let (filtered, queued, frames) = at(&mut scene, 6100);
    assert!(filtered > 0, "until the lane stalls, a retransmission of what it holds is filtered");
    assert_eq!(at(&mut scene, 8000), (filtered, queued + 4, frames), "then one of each flow may wait");
    let (again, still, held) = at(&mut scene, 12_000);
    assert!(again > filtered && (still, held) == (queued + 4, frames), "and no other, while it waits");
    assert!(at(&mut scene, 40_000).2 > frames + 1000, "the lane goes on when its path does");
}

/// As in the gateway: a lane over TCP ends six seconds after it has stalled, one of streams after eight. What a lane of datagrams
/// sends need not arrive.
#[test]
fn a_lane_that_delivers_nothing_for_long_ends_and_is_opened_again() {
    let path = cut(SECOND * 5, SECOND * 25);
    for (quic, ends) in
        [(None, Some(12)), (Some(Delivery::Reliable), Some(14)), (Some(Delivery::Datagram), None)]
    {
        let mut scene = Scene::new(&path, CongestionControl::AsOpened, quic);
        if let Some(ends) = ends {
            scene.network.run_until(Instant::ZERO + SECOND * ends);
            assert_eq!(scene.lane().broken, 0, "{quic:?}");
            scene.network.run_until(Instant::ZERO + SECOND * (ends + 1));
            assert_eq!(scene.lane().broken, 1, "{quic:?}");
        }
        scene.network.run_until(Instant::ZERO + SECOND * 25);
        let frames = scene.lane().frames;
        scene.network.run_until(Instant::ZERO + SECOND * 60);
        assert!(scene.mbit(10) > 15.0, "{quic:?}");
        let LaneReport { broken, frames: all, bytes, .. } = scene.lane();
        assert_eq!(broken, u64::from(ends.is_some()), "{quic:?}: once");
        assert!(all > frames + 10_000 && bytes > all * 1000, "{quic:?}: what it did before counts too");
    }
}
