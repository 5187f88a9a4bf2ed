//! Trunks of several sites over one link, of which each has a part reserved.

use std::sync::Arc;
use std::time::Duration;

use trunkline_link::LinkSettings;
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_sim::{Network, NodeId, TcpTraffic, TrunkSettings, UdpTraffic};
use trunkline_tcp::Preset;
use trunkline_trunk::{ClassSettings, LaneGroup, TrunkPlan};
use trunkline_units::Rate;
use trunkline_workload::{Distribution, Pattern, Timing};

const LINK: f64 = 40.0;
const ONE_WAY: Duration = Duration::from_millis(20);
/// The part of the link of each site.
const PARTS: [f64; 4] = [0.5, 0.2, 0.1, 0.05];
/// Flows of each; none: a flood at the link's rate.
const FLOWS: [u32; 4] = [4, 2, 0, 16];

fn packets(segments: u32) -> QueueSettings {
    QueueSettings::TailDrop(Limits { segments, bytes: u64::MAX })
}

/// What arrives of each site's trunk over the link in a minute, as a part of what is reserved for it. `buffer` is in round trips.
fn carried(buffer: f64, reserves: bool) -> [f64; 4] {
    let mut network = Network::new(7);
    let lan = LinkSettings::new(Rate::from_mbit(1000.0), Duration::from_micros(50)).queue(packets(10_000));
    let waiting = LINK * 1e6 * 2.0 * ONE_WAY.as_secs_f64() * buffer / 12_000.0;
    let shared = LinkSettings::new(Rate::from_mbit(LINK), ONE_WAY).queue(packets(waiting as u32));
    let core = [network.router("near"), network.router("far")];
    network.connect(core[0], core[1], &shared, &lan);
    let mut site = |name: &str, core: NodeId| {
        let (host, gateway) = (network.host(&format!("{name}-host")), network.gateway(name));
        network.connect(host, gateway, &lan, &lan);
        network.connect(gateway, core, &lan, &lan);
        (host, gateway)
    };
    let sites = [0, 1, 2, 3]
        .map(|place| [site(&format!("near-{place}"), core[0]), site(&format!("far-{place}"), core[1])]);
    let trunks = [0, 1, 2, 3].map(|place| {
        let [(near, gateway), (far, other)] = sites[place];
        let class = ClassSettings::new("all", Vec::new(), packets(200), 0);
        let mut plan = TrunkPlan::new(vec![class], vec![LaneGroup::new("all", 1)]);
        plan.edge_pacing = true;
        plan.reserved = reserves.then(|| Rate::from_mbit(LINK * PARTS[place]));
        let settings = TrunkSettings::new([vec![near], vec![far]], plan, Preset::Linux6.settings());
        network.trunk([gateway, other], settings)
    });
    let tcp = Arc::new(Preset::Linux6.settings());
    for ([(near, _), (far, _)], flows) in sites.into_iter().zip(FLOWS) {
        let (start, stop) = (Duration::ZERO, None);
        if flows == 0 {
            let timing = Timing::Constant(Rate::from_mbit(LINK));
            network.udp(UdpTraffic {
                from: near,
                to: far,
                port: 9,
                dscp: 0,
                data: 1000,
                start,
                stop,
                timing,
            });
        } else {
            network.tcp(TcpTraffic {
                client: near,
                server: far,
                port: 5001,
                dscp: 0,
                tcp: [Arc::clone(&tcp), Arc::clone(&tcp)],
                start,
                stop,
                pattern: Pattern::Bulk { flows, bytes: None, stagger: Distribution::Fixed(0.02) },
            });
        }
    }
    let mut bytes = |time| {
        network.run_for(Duration::from_secs(time));
        trunks.map(|trunk| network.trunk_report(trunk, 0).lanes[0].bytes)
    };
    let (before, after) = (bytes(15), bytes(60));
    [0, 1, 2, 3].map(|place| {
        let rate = (after[place] - before[place]) as f64 * 8.0 / 60.0;
        rate / (LINK * 1e6 * PARTS[place])
    })
}

#[test]
fn each_trunk_has_what_is_reserved_for_it_whatever_the_others_send() {
    for buffer in [0.5, 1.0, 2.5] {
        let parts = carried(buffer, true);
        assert!(parts.iter().all(|part| *part >= 0.97), "a buffer of {buffer} round trips: {parts:?}");
    }
    // Else they share as lanes do: the largest has least of what it needs.
    let [first, .., last] = carried(1.0, false);
    assert!(first < 0.7 && last > 2.0, "{first} and {last} of what is reserved");
}
