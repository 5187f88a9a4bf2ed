//! Proxies: each mode does what it is there for, and says so.

use trunkline_engine::scenario::{Cell, Node, NodeKind, Proxy, ProxyMode, Scenario};
use trunkline_link::LinkSettings;
use trunkline_sim::both;
use trunkline_tcp::{Preset, Settings};
use trunkline_trunk::path_tail::{CellLink, Estimate};

use crate::scene::{bulk, linux, mbit, ms, of, run, scene, tail_drop, traffic, within};

/// `a0` – `left` – `core` – `right`, a proxy – a slow link – `b0`.
fn mobile(mode: ProxyMode) -> Scenario {
    let mut scenario = scene(1, &LinkSettings::new(mbit(20.0), ms(20)), 20);
    let proxy = Some(Proxy { behind: vec![3], mode });
    scenario.nodes[1] = Node { name: "proxy".to_owned(), kind: NodeKind::Proxy, proxy };
    let slow = LinkSettings::new(mbit(1.0), ms(5)).queue(tail_drop(200));
    scenario.links[2].ways = [slow.clone(), slow];
    scenario.traffic.push(traffic("bulk", 0, bulk(1, None)));
    scenario
}

#[test]
fn each_mode_does_what_it_is_there_for() {
    let estimate = Estimate { rate: mbit(1.0), recovery: ms(0) };
    let cell = Cell {
        hosts: vec![3],
        link: CellLink { estimate: Some(estimate), queue: Some(u64::MAX), packets: Some(50) },
        buffer: u64::MAX,
        each_alone: false,
    };
    let facing = Settings { receive_buffer: 120_000, ..Preset::Linux6.settings() };
    let none = run(&mobile(ProxyMode::None), 1);
    for name in ["flows", "dropped", "held", "released", "clamped", "frozen", "buffered.max"] {
        within(&none, &format!("proxy.{name}"), 0.0, 0.0);
    }
    within(&none, "to-b0.back.queue.packets.max", 150.0, 200.0);

    let split = run(&mobile(ProxyMode::Split(both(linux()))), 1);
    within(&split, "proxy.flows", 1.0, 1.0);
    within(&split, "proxy.buffered.max", 100_000.0, 1e8);
    // The sender's round trip ends at the proxy.
    within(&split, "bulk.rtt.min_of_all", 0.040, 0.042);
    within(&none, "bulk.rtt.min_of_all", 0.050, 0.07);

    let emulated = run(&mobile(ProxyMode::PathTail(both(facing), vec![cell])), 1);
    within(&emulated, "proxy.released", 100.0, 1e5);
    within(&emulated, "bulk.goodput", 0.7e6, 1.0e6);
    assert!(of(&emulated, "proxy.buffered.max") < of(&split, "proxy.buffered.max"));

    let clamped = run(&mobile(ProxyMode::ClampWindow(20_000)), 1);
    within(&clamped, "proxy.clamped", 100.0, 1e5);
    within(&clamped, "to-b0.back.queue.packets.max", 1.0, 16.0);

    let frozen = run(&mobile(ProxyMode::Freeze(ms(100))), 1);
    within(&frozen, "proxy.held", 100.0, 1e5);

    let regulated = run(&mobile(ProxyMode::RegulateAcks(20)), 1);
    within(&regulated, "proxy.held", 10.0, 1e5);
    within(&regulated, "to-b0.back.queue.packets.max", 1.0, 60.0);
    for outcome in [&none, &split, &emulated, &clamped, &frozen, &regulated] {
        within(outcome, "bulk.goodput", 0.7e6, 1e6);
    }
}
