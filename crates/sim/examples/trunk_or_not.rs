//! What a trunk does for ten downloads beside a flood, in virtual time: `cargo run --release -p trunkline-sim --example trunk_or_not`.
//!
//! Two sites share a link of 20 Mbit/s with 30 ms of round trip. At one of them ten TCP flows and 30 Mbit/s of UDP begin. Without
//! a trunk the flood takes the link; with one, and a class for each, it gets its half.

use std::sync::Arc;
use std::time::Duration;

use trunkline_link::LinkSettings;
use trunkline_queue::{CoDelSettings, Limits, Settings as QueueSettings};
use trunkline_sim::{AcrossTrunk, Dumbbell, UdpTraffic};
use trunkline_tcp::Preset;
use trunkline_trunk::{ClassSettings, Protocol, Rule, TrunkPlan};
use trunkline_units::{Instant, Rate};
use trunkline_workload::Timing;

const SECONDS: u64 = 60;
const FLOWS: usize = 10;

fn class(name: &str, protocol: u8, queue: QueueSettings) -> ClassSettings {
    let rule = Rule { protocol: Some(Protocol::Number(protocol)), ..Rule::default() };
    ClassSettings::new(name, vec![rule], queue, 0)
}

fn run(with_trunk: bool) {
    let buffer = QueueSettings::TailDrop(Limits { segments: 100, bytes: u64::MAX });
    let link = LinkSettings::new(Rate::from_mbit(20.0), Duration::from_millis(15)).queue(buffer);
    let tcp = Preset::Linux6.settings();
    let mut dumbbell = if with_trunk {
        let codel = QueueSettings::CoDel(CoDelSettings::default());
        let mut plan = TrunkPlan::one_lane_per_class(vec![class("udp", 17, buffer), class("tcp", 6, codel)]);
        plan.edge_pacing = true;
        Dumbbell::with_trunk(1, FLOWS + 1, &link, AcrossTrunk { plan, tcp: tcp.clone() })
    } else {
        Dumbbell::new(1, FLOWS + 1, &link)
    };
    let tcp = Arc::new(tcp);
    let flows: Vec<_> = (0..FLOWS)
        .map(|pair| dumbbell.bulk(pair, 1, &tcp, (Duration::from_millis(pair as u64 * 100), Duration::ZERO)))
        .collect();
    let flood = dumbbell.network.udp(UdpTraffic {
        from: dumbbell.senders[FLOWS],
        to: dumbbell.receivers[FLOWS],
        port: 9,
        dscp: 0,
        data: 1200,
        start: Duration::from_secs(2),
        stop: None,
        timing: Timing::Constant(Rate::from_mbit(30.0)),
    });
    dumbbell.network.run_until(Instant::from_millis(SECONDS * 1000));

    let tcp_bits: u64 = flows.iter().map(|flow| dumbbell.received(*flow) * 8).sum();
    let udp_bits = dumbbell.network.datagrams(flood).map_or(0, |flow| flow.received_bytes * 8);
    let rtt = flows
        .iter()
        .filter_map(|flow| dumbbell.network.endpoints(*flow, 0)?[0].srtt())
        .max()
        .unwrap_or_default();
    let core = dumbbell.network.link_state(dumbbell.bottleneck[0]).queue();
    println!(
        "{:14} {:8.2} {:8.2} {:10.0} {:10}   {}",
        if with_trunk { "with a trunk" } else { "without" },
        tcp_bits as f64 / SECONDS as f64 / 1e6,
        udp_bits as f64 / SECONDS as f64 / 1e6,
        rtt.as_secs_f64() * 1e3,
        core.dropped_total(),
        dumbbell.network.digest()
    );
}

fn main() {
    println!("{:14} {:>8} {:>8} {:>10} {:>10}   digest", "", "TCP", "UDP", "worst RTT", "drops in");
    println!("{:14} {:>8} {:>8} {:>10} {:>10}", "", "Mbit/s", "Mbit/s", "ms", "the core");
    run(false);
    run(true);
    println!("\nThe TCP of hosts and lanes:");
    for (key, value) in Preset::Linux6.settings().describe() {
        println!("  {key} = {value}");
    }
}
