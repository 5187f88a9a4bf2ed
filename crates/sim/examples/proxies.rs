//! Proxies before a mobile network side by side, in the setting of bosau2004 §4, where one packet in seven needs half a second of
//! repairs: `cargo run --release -p trunkline-sim --example proxies`.

use std::time::Duration;

use trunkline_link::LinkSettings;
use trunkline_link::mobile::{Mobile, Pareto};
use trunkline_sim::{Cell, Network, ProxyMode, ProxySettings, Recorder, TcpTraffic, both};
use trunkline_tcp::{Preset, Settings};
use trunkline_trunk::path_tail::{CellLink, Estimate};
use trunkline_units::{Instant, Rate};
use trunkline_workload::{Distribution, Pattern, TransferState};

const RADIO: Pareto = Pareto { mean: Duration::from_millis(500), shape: 1.5, share: 0.15 };
const BYTES: u64 = 2_000_000;
const SEEDS: u64 = 9;

fn modes(tcp: &Settings, node: trunkline_sim::NodeId) -> Vec<(&'static str, ProxyMode)> {
    let large = both(Settings { send_buffer: 1 << 20, receive_buffer: 1 << 20, ..tcp.clone() });
    let estimate = Estimate { rate: Rate::from_mbit(1.0), recovery: RADIO.mean.mul_f64(RADIO.share) };
    let cell = Cell {
        nodes: vec![node],
        link: CellLink { estimate: Some(estimate), queue: Some(u64::MAX), packets: Some(1000) },
        buffer: u64::MAX,
        each_alone: false,
    };
    vec![
        ("none", ProxyMode::ClampWindow(u64::MAX)),
        ("split", ProxyMode::Split(large.clone())),
        ("path tail", ProxyMode::PathTail(large, vec![cell])),
        ("clamp 5 kB", ProxyMode::ClampWindow(5_000)),
        ("freeze 1 s", ProxyMode::Freeze { after: Duration::from_secs(1) }),
        ("regulate 10", ProxyMode::RegulateAcks { room: 10 }),
    ]
}

/// Seconds, time-outs of the sender, its spurious retransmissions, its mean window, and what the proxy held at its peak.
fn run(seed: u64, mode: usize) -> [f64; 5] {
    let tcp = Preset::Ns2Reno.settings();
    let mut network = Network::new(seed);
    let (client, server) = (network.host("sender"), network.host("mobile"));
    let mode = modes(&tcp, server).swap_remove(mode).1;
    let (node, proxy) = network.proxy("proxy", ProxySettings { behind: vec![server], mode });
    let internet = LinkSettings::new(Rate::from_mbit(0.1), Duration::from_millis(50));
    network.connect(client, node, &internet, &internet);
    let back = LinkSettings::new(Rate::from_mbit(1.0), Duration::from_millis(1));
    network.connect(
        node,
        server,
        &LinkSettings { mobile: Some(Mobile::Pareto(RADIO)), ..back.clone() },
        &back,
    );
    let pattern = Pattern::Bulk { flows: 1, bytes: Some(BYTES), stagger: Distribution::Fixed(0.0) };
    let (start, stop) = (Duration::ZERO, None);
    let traffic = TcpTraffic { client, server, port: 80, dscp: 0, tcp: both(tcp), start, stop, pattern };
    let source = network.tcp(traffic);
    let mut recorder = Recorder::new(Duration::from_secs(1));
    recorder.user(source, 0);
    while network.transfers(source).first().is_none_or(|one| one.state == TransferState::Running)
        && network.now() < Instant::from_millis(10_000_000)
    {
        let next = network.now() + Duration::from_secs(10);
        recorder.run_until(&mut network, next);
    }
    let transfer = network.transfers(source)[0];
    let cwnd = recorder.column("flow0.0.cwnd").map_or(&[][..], |column| &column.values);
    let known: Vec<f64> = cwnd.iter().copied().filter(|cwnd| !cwnd.is_nan()).collect();
    [
        transfer.duration(network.now()).as_secs_f64(),
        transfer.sender.timeouts as f64,
        transfer.sender.retransmitted_segments as f64,
        known.iter().sum::<f64>() / known.len() as f64,
        network.proxy_stats(proxy).peak_buffered as f64,
    ]
}

fn main() {
    println!("proxy        seconds (min, max)    time-outs  retransmissions  mean cwnd  held at most");
    for (mode, name) in
        ["none", "split", "path tail", "clamp 5 kB", "freeze 1 s", "regulate 10"].iter().enumerate()
    {
        let runs: Vec<[f64; 5]> = (0..SEEDS).map(|seed| run(seed, mode)).collect();
        let sorted = |figure: usize| {
            let mut all: Vec<f64> = runs.iter().map(|run| run[figure]).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let time = sorted(0);
        let middle: Vec<f64> = (1..5).map(|figure| sorted(figure)[SEEDS as usize / 2]).collect();
        println!(
            "{name:12} {:7.0} ({:.0}–{:.0})   {:9.0} {:8.0} {:10.0} {:13.0}",
            time[SEEDS as usize / 2],
            time[0],
            time[SEEDS as usize - 1],
            middle[0],
            middle[1],
            middle[2],
            middle[3]
        );
    }
}
