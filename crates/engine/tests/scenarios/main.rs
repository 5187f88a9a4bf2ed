//! What the simulator as an engine measures, by scenarios whose outcome is known beforehand.

mod links;
mod names;
mod proxies;
mod scene;
mod sources;
mod trunks;

use std::sync::atomic::AtomicBool;
use trunkline_link::LinkSettings;

use scene::{bulk, mbit, ms, of, run, scene, tail_drop, traffic, udp, within};
use trunkline_engine::scenario::End;
use trunkline_engine::{Engine, EngineError};

#[test]
fn a_bulk_flow_has_the_links_rate_less_headers() {
    let mut scenario = scene(1, &LinkSettings::new(mbit(10.0), ms(10)), 20);
    scenario.warm_up = ms(5000);
    scenario.traffic.push(traffic("bulk", 0, bulk(1, None)));
    let outcome = run(&scenario, 1);
    // Of 1500 bytes 52 are headers: 20 of IP, 32 of TCP with time stamps.
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
    // The digest begins with the seed, so that it says nothing.
    let [one, two] = [&first, &other].map(|outcome| of(outcome, "bulk.goodput"));
    assert!((one - two).abs() > 1.0, "{one} twice");
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
    within(&outcome, "core.queue.packets.p97_5", 1.0, of(&outcome, "core.queue.packets.max"));
}

#[test]
fn what_was_before_the_warm_up_is_not_counted() {
    // A flood of five seconds that fills the queue, then nothing but a trickle.
    let mut scenario = scene(2, &LinkSettings::new(mbit(2.0), ms(10)).queue(tail_drop(100)), 20);
    let mut flood = traffic("flood", 0, udp(10.0));
    flood.stop = Some(ms(5000));
    scenario.traffic.push(flood);
    scenario.traffic.push(traffic("trickle", 1, udp(0.5)));
    let mut short = traffic("short", 1, bulk(1, Some(20_000)));
    short.start = ms(12_000);
    scenario.traffic.push(short);
    let all = run(&scenario, 1);
    scenario.warm_up = ms(10_000);
    let late = run(&scenario, 1);
    assert_eq!(all.digest, late.digest, "looking changes nothing");
    within(&all, "core.drops", 3000.0, 4000.0);
    within(&all, "core.queue.packets.max", 100.0, 100.0);
    within(&all, "trickle.delay.max", 0.55, 0.65);
    for name in
        ["core.drops", "core.drops.segment_limit", "core.drops.bytes", "flood.goodput", "flood.sent.packets"]
    {
        within(&late, name, 0.0, 0.0);
        assert!(of(&all, name) > 0.0, "{name}");
    }
    within(&late, "core.queue.packets.max", 1.0, 20.0);
    within(&late, "core.queue.packets.p97_5", 0.0, 1.0);
    within(&late, "core.sojourn.p99", 0.0, 0.1);
    within(&late, "trickle.goodput", 0.48e6, 0.5e6);
    within(&late, "trickle.delay.max", 0.016, 0.1);
    within(&late, "trickle.lost.ratio", 0.0, 0.01);
    // 0.5 Mbit/s of the link's 2, and 20 kB once.
    within(&late, "core.utilisation", 0.25, 0.27);
    within(&late, "short.transfers.completed", 1.0, 1.0);
}

#[test]
fn a_transfer_is_counted_whole_unless_it_was_over_before_the_warm_up() {
    let mut scenario = scene(2, &LinkSettings::new(mbit(10.0), ms(10)), 20);
    scenario.traffic.push(traffic("early", 0, bulk(3, Some(10_000))));
    scenario.traffic.push(traffic("long", 1, bulk(1, Some(10_000_000))));
    scenario.warm_up = ms(5000);
    let outcome = run(&scenario, 1);
    within(&outcome, "early.transfers.total", 0.0, 0.0);
    within(&outcome, "early.goodput", 0.0, 0.0);
    // It began before: 80 Mbit at nearly 10 Mbit/s from the start.
    within(&outcome, "long.delay.max", 8.2, 9.0);
    within(&outcome, "long.transfer.throughput.mean", 8.8e6, 9.7e6);
    // Of the 15 s that are counted it took less than 4.
    within(&outcome, "long.goodput", 1.8e6, 2.5e6);
    assert_eq!(outcome.distributions["long.transfer.delay"].len(), 1);
}

#[test]
fn a_run_that_is_told_to_stop_has_no_outcome() {
    let mut scenario = scene(1, &LinkSettings::new(mbit(10.0), ms(10)), 20);
    scenario.traffic.push(traffic("bulk", 0, bulk(1, None)));
    let stopped = trunkline_engine::run(&Engine::Sim, &scenario, 1, &AtomicBool::new(true));
    assert_eq!(stopped, Err(EngineError::Stopped));
    assert_eq!("sim".parse(), Ok(Engine::Sim));
    assert_eq!("testbed".parse(), Ok(Engine::TESTBED));
    for other in ["ns3", "Sim"] {
        assert!(other.parse::<Engine>().unwrap_err().to_string().contains("allowed: sim, testbed"));
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_part_that_it_is() {
    let mut scenario = scene(1, &LinkSettings::new(mbit(10.0), ms(10)), 1);
    scenario.traffic.push(traffic("bulk", 0, bulk(30_000, None)));
    scenario.traffic.push(traffic("more", 0, bulk(30_000, None)));
    let refused = |scenario: &_| {
        trunkline_engine::run(&Engine::Sim, scenario, 1, &AtomicBool::new(false)).unwrap_err().to_string()
    };
    let error = refused(&scenario);
    assert!(error.starts_with("traffic.more makes 60000 connections"), "{error}");
    scenario.traffic[1].port = 81;
    scenario.links[0].ways[1].mtu = 20;
    let error = refused(&scenario);
    assert!(error.starts_with("links.core.back: mtu is 20"), "{error}");
    scenario.links.remove(0);
    let error = refused(&scenario);
    assert!(error.contains("has no way"), "{error}");
}
