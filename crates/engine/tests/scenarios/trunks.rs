//! Trunks: what is dropped, filtered, shared and refused at the edge.

use std::sync::Arc;

use trunkline_engine::scenario::Load;
use trunkline_link::{Impairments, LinkChange, LinkSettings, Loss};
use trunkline_queue::{Settings as QueueSettings, TrunkSettings};
use trunkline_tcp::Preset;
use trunkline_trunk::compress::Compression;
use trunkline_trunk::{
    AdmissionSettings, ClassSettings, Delivery, LaneGroup, Over, Protocol, Rule, Transport, TrunkPlan,
};
use trunkline_workload::{Distribution, Pattern, Timing};

use crate::scene::{bulk, mbit, ms, of, run, scene, tail_drop, tcp, traffic, trunk, udp, within};

fn datagrams() -> Rule {
    Rule { protocol: Some(Protocol::Number(17)), ..Rule::default() }
}

#[test]
fn a_trunk_keeps_drops_at_its_edge_and_says_so_by_class() {
    let mut scenario = scene(2, &LinkSettings::new(mbit(5.0), ms(10)).queue(tail_drop(50)), 20);
    scenario.warm_up = ms(2000);
    scenario.traffic.push(traffic("bulk", 0, bulk(5, None)));
    scenario.traffic.push(traffic("flood", 1, udp(8.0)));
    scenario.disabled.push("edge".to_owned());
    let without = run(&scenario, 1);
    scenario.disabled.clear();
    let classes = vec![
        ClassSettings::new("datagrams", vec![datagrams()], tail_drop(50), 0),
        ClassSettings::new("rest", Vec::new(), tail_drop(200), 0),
    ];
    scenario.trunks.push(trunk(&scenario, classes));
    let with = run(&scenario, 1);
    within(&without, "core.drops.ratio", 0.3, 0.7);
    within(&without, "edge.drops", 0.0, 0.0);
    within(&with, "core.drops.ratio", 0.0, 0.05);
    within(&with, "edge.datagrams.drops.ratio", 0.5, 0.85);
    within(&without, "bulk.goodput", 0.0, 0.5e6);
    within(&with, "bulk.goodput", 1.5e6, 3.5e6);
    // Heads, TCP and IP around packets of 1500 bytes.
    within(&with, "edge.lane.overhead", 1.001, 1.03);
    assert!(of(&with, "edge.delivered") > of(&with, "all.goodput"));
}

#[test]
fn the_edge_conserves_packets_in_both_directions() {
    let mut scenario = scene(2, &LinkSettings::new(mbit(5.0), ms(10)).queue(tail_drop(50)), 10);
    scenario.traffic.push(traffic("bulk", 0, bulk(5, None)));
    let mut back = traffic("back", 1, udp(8.0));
    back.ends.reverse();
    scenario.traffic.push(back);
    let classes = vec![
        ClassSettings::new("datagrams", vec![datagrams()], tail_drop(50), 0),
        ClassSettings::new("rest", Vec::new(), QueueSettings::Trunk(TrunkSettings::default()), 0),
    ];
    scenario.trunks.push(trunk(&scenario, classes));
    let outcome = run(&scenario, 1);
    let sent = of(&outcome, "back.sent.packets");
    within(&outcome, "edge.back.datagrams.offered.packets", sent - 10.0, sent);
    within(&outcome, "edge.datagrams.offered.packets", 0.0, 0.0);
    let dropped = of(&outcome, "edge.back.datagrams.drops");
    // What is not dropped arrives, but for what waits or is under way.
    within(&outcome, "back.received.packets", sent - dropped - 200.0, sent - dropped);
    let classes = of(&outcome, "edge.rest.drops") + of(&outcome, "edge.datagrams.drops");
    within(&outcome, "edge.drops", classes, classes);
    within(&outcome, "edge.back.delivered", 4.0e6, 5.0e6);
    within(&outcome, "edge.rest.drops.early", 1.0, classes);
    within(&outcome, "edge.rest.queue.packets.max", 2.0, 1000.0);
}

#[test]
fn weights_share_a_lane_as_they_say() {
    let mut scenario = scene(2, &LinkSettings::new(mbit(10.0), ms(10)).queue(tail_drop(100)), 30);
    scenario.warm_up = ms(5000);
    scenario.traffic.push(traffic("a", 0, bulk(4, None)));
    scenario.traffic.push(traffic("b", 1, bulk(4, None)));
    let mut classes = vec![
        ClassSettings::new("a", vec![Rule::default()], tail_drop(100), 0),
        ClassSettings::new("b", Vec::new(), tail_drop(100), 0),
    ];
    classes[0].share.weight = 30;
    classes[1].share.weight = 70;
    let mut own = trunk(&scenario, classes.clone());
    own.plan = TrunkPlan::new(classes, vec![LaneGroup::new("both", 1)]);
    // The rule names a host.
    own.hosts = vec![vec![[Some(2), None]], Vec::new()];
    scenario.trunks.push(own);
    let outcome = run(&scenario, 1);
    let (a, b) = (of(&outcome, "a.goodput"), of(&outcome, "b.goodput"));
    assert!((0.28..0.32).contains(&(a / (a + b))), "{a} and {b}");
    within(&outcome, "all.goodput", 8.5e6, 9.7e6);
    within(&outcome, "edge.back.a.offered.packets", 0.0, 0.0);
}

#[test]
fn flows_beyond_what_is_admitted_are_refused_and_fail() {
    let mut scenario = scene(1, &LinkSettings::new(mbit(10.0), ms(10)), 10);
    let pattern = Pattern::Bulk { flows: 12, bytes: None, stagger: Distribution::Fixed(0.05) };
    scenario.traffic.push(traffic("bulk", 0, tcp(Preset::Linux6.settings(), pattern)));
    let mut class = ClassSettings::new("all", Vec::new(), tail_drop(200), 0);
    class.admission = Some(AdmissionSettings { limit: 5, over: Over::Refuse });
    scenario.trunks.push(trunk(&scenario, vec![class]));
    let outcome = run(&scenario, 1);
    within(&outcome, "bulk.transfers.failed", 7.0, 7.0);
    within(&outcome, "edge.refused", 7.0, 100.0);
    within(&outcome, "bulk.goodput", 8.5e6, 9.7e6);
}

#[test]
fn lanes_of_datagrams_repeat_nothing_and_lanes_of_tcp_do() {
    let lossy = LinkSettings::new(mbit(10.0), ms(40)).loss(Loss::Uniform(0.01));
    let mut scenario = scene(1, &lossy, 30);
    // What is under way of it fits into the smallest window of a lane.
    let voice = Load::Udp { data: 472, timing: Timing::Constant(mbit(0.1)) };
    scenario.traffic.push(traffic("voice", 0, voice));
    let mut class = ClassSettings::new("all", Vec::new(), tail_drop(200), 0);
    class.filters_retransmissions = false;
    scenario.trunks.push(trunk(&scenario, vec![class]));
    let reliable = run(&scenario, 1);
    scenario.trunks[0].plan.groups[0].transport = Transport::Quic;
    let plain = run(&scenario, 1);
    scenario.trunks[0].plan.groups[0].delivery = Delivery::Reliable;
    let streams = run(&scenario, 1);
    within(&streams, "voice.lost.ratio", 0.0, 0.005);
    within(&streams, "edge.lane.retransmitted.packets", 3.0, 100.0);
    within(&streams, "voice.delay.max", 0.115, 1.0);
    within(&reliable, "voice.lost.ratio", 0.0, 0.005);
    within(&plain, "voice.lost.ratio", 0.004, 0.02);
    within(&reliable, "edge.lane.retransmitted.packets", 3.0, 100.0);
    within(&plain, "edge.lane.retransmitted.packets", 0.0, 0.0);
    // A repair takes a round trip and holds up what is behind.
    within(&reliable, "voice.delay.max", 0.125, 1.0);
    within(&plain, "voice.delay.max", 0.040, 0.120);
    let [held, free] = [&reliable, &plain].map(|outcome| of(outcome, "voice.jitter"));
    assert!(held > 1.1 * free, "{held} s and {free} s");
    within(&reliable, "edge.lane.rtt.mean", 0.080, 0.2);
    assert!(!plain.metrics.contains_key("edge.lane.rtt.mean"));
}

#[test]
fn every_setting_of_a_trunk_has_an_effect() {
    let mut scenario = scene(1, &LinkSettings::new(mbit(5.0), ms(10)).queue(tail_drop(300)), 10);
    scenario.traffic.push(traffic("bulk", 0, bulk(4, None)));
    let class = ClassSettings::new("all", Vec::new(), tail_drop(200), 0);
    scenario.trunks.push(trunk(&scenario, vec![class]));
    let plain = run(&scenario, 1);
    let other = |change: fn(&mut trunkline_engine::scenario::Trunk)| {
        let mut other = scenario.clone();
        change(&mut other.trunks[0]);
        let outcome = run(&other, 1);
        assert_ne!(outcome.digest, plain.digest, "{:?}", other.trunks);
        outcome
    };
    let compressed = other(|trunk| trunk.plan.groups[0].compression = Compression::On);
    assert!(of(&compressed, "edge.lane.overhead") < 0.99 && of(&plain, "edge.lane.overhead") > 1.0);
    let sealed = other(|trunk| trunk.sealed = true);
    assert!(of(&sealed, "edge.lane.overhead") > of(&plain, "edge.lane.overhead") + 0.0005);
    let paced = other(|trunk| trunk.plan.edge_pacing = true);
    assert!(of(&paced, "core.queue.packets.mean") < 0.5 * of(&plain, "core.queue.packets.mean"));
    let era = other(|trunk| trunk.tcp = Arc::new(Preset::Linux22.settings()));
    assert!(of(&era, "core.queue.packets.max") < of(&plain, "core.queue.packets.max"));
    let lanes = other(|trunk| trunk.plan.groups[0].lanes = 3);
    // Each lane has a queue of its own.
    within(&lanes, "edge.all.queue.packets.max", 201.0, 600.0);
    within(&plain, "edge.all.queue.packets.max", 150.0, 200.0);
}

#[test]
fn repeats_are_filtered_unless_a_class_says_otherwise() {
    let lossy = LinkSettings::new(mbit(5.0), ms(50)).queue(tail_drop(300)).loss(Loss::Uniform(0.05));
    let mut scenario = scene(1, &lossy, 30);
    scenario.traffic.push(traffic("bulk", 0, bulk(4, None)));
    let class = ClassSettings::new("all", Vec::new(), tail_drop(1000), 0);
    scenario.trunks.push(trunk(&scenario, vec![class]));
    let filtered = run(&scenario, 1);
    scenario.trunks[0].plan.classes[0].filters_retransmissions = false;
    let carried = run(&scenario, 1);
    within(&carried, "edge.filtered", 0.0, 0.0);
    within(&filtered, "edge.filtered", 1.0, 1e4);
    within(&filtered, "edge.all.filtered", of(&filtered, "edge.filtered"), of(&filtered, "edge.filtered"));
    assert!(of(&filtered, "bulk.retransmitted.spurious") < of(&carried, "bulk.retransmitted.spurious"));
}

#[test]
fn a_lane_that_breaks_keeps_what_it_counted() {
    let change = |second: u64, loss| {
        let impairments = Impairments { loss, ..Impairments::default() };
        (ms(1000 * second), LinkChange::Impairments(impairments))
    };
    let mut link = LinkSettings::new(mbit(5.0), ms(10)).queue(tail_drop(50));
    link.changes = vec![change(30, Loss::Uniform(1.0)), change(60, Loss::None)];
    let mut scenario = scene(1, &link, 90);
    scenario.warm_up = ms(2000);
    scenario.traffic.push(traffic("udp", 0, udp(2.0)));
    let mut own = trunk(&scenario, vec![ClassSettings::new("all", Vec::new(), tail_drop(200), 0)]);
    let mut impatient = Preset::Linux6.settings();
    impatient.timers.max_retransmissions = 4;
    own.tcp = Arc::new(impatient);
    scenario.trunks.push(own);
    let outcome = run(&scenario, 1);
    // It broke after so many, and until it was open again there was no round trip.
    within(&outcome, "edge.lane.timeouts", 5.0, 30.0);
    within(&outcome, "edge.lane.retransmitted.packets", 4.0, 500.0);
    within(&outcome, "edge.lane.rtt.mean", 0.020, 0.2);
    // All that was handed to it, before and after.
    within(&outcome, "edge.lane.overhead", 0.99, 1.03);
    // 88 s less 30 s without a path, and less what it takes to open a lane again.
    within(&outcome, "udp.received.packets", 0.75 * 58.0 * 166.7, 58.0 * 166.7 + 300.0);
}
