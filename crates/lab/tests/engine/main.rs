//! What the simulator as an engine measures, by scenarios whose outcome is known beforehand.

mod scene;

use scene::{bulk, mbit, ms, of, run, scene, tail_drop, traffic, trunk, udp, within};
use trunkline_lab::scenario::End;
use trunkline_sim::LinkSettings;
use trunkline_trunk::{ClassSettings, Protocol, Rule};

#[test]
fn a_bulk_flow_has_the_links_rate_less_headers() {
    let mut scenario = scene(1, &LinkSettings::new(mbit(10.0), ms(10)), 20);
    scenario.warm_up = ms(5000);
    scenario.traffic.push(traffic("bulk", 0, bulk(1, None)));
    let outcome = run(&scenario, 1);
    // Of 1500 octets 52 are headers: 20 of IP, 32 of TCP with time stamps.
    let most = 10e6 * 1448.0 / 1500.0;
    within(&outcome, "bulk.goodput", most * 0.985, most * 1.001);
    within(&outcome, "core.utilisation", 0.99, 1.0);
    within(&outcome, "core.delivered", 9.9e6, 10e6);
    within(&outcome, "bulk.rtt.min", 0.020, 0.023);
    within(&outcome, "run.time", 20.0, 20.0);
    within(&outcome, "bulk.fairness", 1.0, 1.0);
}

#[test]
fn the_same_seed_gives_the_same_outcome_and_another_another() {
    let mut scenario = scene(2, &LinkSettings::new(mbit(5.0), ms(10)).queue(tail_drop(20)), 5);
    scenario.traffic.push(traffic("bulk", 0, bulk(3, None)));
    scenario.traffic.push(traffic("udp", 1, udp(1.0)));
    let [first, second, other] = [1, 1, 2].map(|seed| run(&scenario, seed));
    assert_eq!(first, second);
    assert_ne!(first.digest, other.digest);
}

#[test]
fn a_run_ends_with_the_last_transfer_that_has_an_end() {
    let mut scenario = scene(2, &LinkSettings::new(mbit(10.0), ms(10)), 1000);
    scenario.end = End::Transfers;
    scenario.traffic.push(traffic("files", 0, bulk(4, Some(1_000_000))));
    scenario.traffic.push(traffic("udp", 1, udp(2.0)));
    let outcome = run(&scenario, 1);
    // 4 MB of data at the 8 Mbit/s that the datagrams leave.
    within(&outcome, "run.time", 4.0 * 8.0 / 8.0 * 1.03, 5.0);
    within(&outcome, "files.transfers.completed", 4.0, 4.0);
    let (end, slowest) = (of(&outcome, "run.time"), of(&outcome, "files.delay.max"));
    assert!(slowest <= end && slowest > end - 0.5, "{slowest} s of {end} s");
    within(&outcome, "core.queue.packets.high95", 1.0, of(&outcome, "core.queue.packets.max"));
}

#[test]
fn a_trunk_keeps_drops_at_its_edge_and_says_so_by_class() {
    let mut scenario = scene(2, &LinkSettings::new(mbit(5.0), ms(10)).queue(tail_drop(50)), 20);
    scenario.warm_up = ms(2000);
    scenario.traffic.push(traffic("bulk", 0, bulk(5, None)));
    scenario.traffic.push(traffic("flood", 1, udp(8.0)));
    scenario.disabled.push(("edge".to_owned(), vec!["datagrams".to_owned(), "rest".to_owned()]));
    let without = run(&scenario, 1);
    scenario.disabled.clear();
    let udp = Rule { protocol: Some(Protocol::Number(17)), ..Rule::default() };
    let classes = vec![
        ClassSettings::new("datagrams", vec![udp], tail_drop(50), 0),
        ClassSettings::new("rest", Vec::new(), tail_drop(200), 0),
    ];
    scenario.trunks.push(trunk(&scenario, classes));
    let with = run(&scenario, 1);
    within(&without, "core.drops.percent", 0.3, 0.7);
    within(&without, "edge.drops", 0.0, 0.0);
    within(&with, "core.drops.percent", 0.0, 0.05);
    within(&with, "edge.datagrams.drops.percent", 0.5, 0.85);
    within(&without, "bulk.goodput", 0.0, 0.5e6);
    within(&with, "bulk.goodput", 1.5e6, 3.5e6);
    // Heads, TCP and IP around packets of 1500 octets.
    within(&with, "edge.lane.overhead", 1.001, 1.03);
    assert!(of(&with, "edge.delivered") > of(&with, "all.goodput"));
}
