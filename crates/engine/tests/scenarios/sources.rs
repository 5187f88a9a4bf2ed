//! Sources of traffic: each kind's figures, and what must add up.

use trunkline_engine::outcome::Outcome;
use trunkline_engine::scenario::{Node, NodeKind, Proxy, ProxyMode};
use trunkline_link::{Impairments, Jitter, LinkChange, LinkSettings, Loss};
use trunkline_sim::both;
use trunkline_tcp::Preset;
use trunkline_workload::{Assignment, Distribution, Pattern, Timing};

use crate::scene::{bulk, linux, mbit, ms, of, run, scene, tail_drop, tcp, traffic, udp, within};
use trunkline_engine::scenario::Load;

#[test]
fn equal_flows_share_equally_and_unequal_groups_do_not() {
    let mut scenario = scene(2, &LinkSettings::new(mbit(20.0), ms(10)).queue(tail_drop(60)), 60);
    scenario.warm_up = ms(10_000);
    scenario.traffic.push(traffic("few", 0, bulk(2, None)));
    scenario.traffic.push(traffic("many", 1, bulk(6, None)));
    let outcome = run(&scenario, 3);
    within(&outcome, "all.fairness", 0.9, 1.0);
    within(&outcome, "all.fairness.groups", 0.72, 0.88);
    let [few, many, all] = ["few", "many", "all"].map(|group| of(&outcome, &format!("{group}.goodput")));
    assert!((few + many - all).abs() < 1.0, "{few} + {many} is not {all}");
    let mean = of(&outcome, "many.flow.goodput.mean");
    within(&outcome, "many.goodput", 5.999 * mean, 6.001 * mean);
    within(&outcome, "many.flow.goodput.min", 0.3 * mean, mean);
    within(&outcome, "many.flow.goodput.max", mean, 2.0 * mean);
    assert!(of(&outcome, "all.throughput") > all);
}

/// What a group sent again: all, what was needed of it, and what was not.
fn sent_again(outcome: &Outcome, group: &str) -> [f64; 3] {
    let of = |what| of(outcome, &format!("{group}.retransmitted.{what}"));
    let [all, needed, spurious] = ["packets", "needed", "spurious"].map(of);
    assert!((needed + spurious - all).abs() < 0.5, "{needed} + {spurious} is not {all}");
    [all, needed, spurious]
}

/// What did not come over the core, in whatever way.
fn lost(outcome: &Outcome) -> f64 {
    of(outcome, "core.drops") + of(outcome, "core.lost")
}

#[test]
fn what_is_sent_again_was_needed_or_spurious() {
    for lossy in [false, true] {
        // Nothing is lost on the way back, so that each loss is one of data.
        let way = LinkSettings::new(mbit(5.0), ms(20)).queue(tail_drop(30));
        let mut scenario = scene(1, &way, 30);
        if lossy {
            scenario.links[0].ways[0] = way.loss(Loss::Uniform(0.01));
        }
        scenario.traffic.push(traffic("tcp", 0, tcp(Preset::Bsd44.settings(), bulk_pattern(8))));
        let outcome = run(&scenario, 1);
        let [all, needed, spurious] = sent_again(&outcome, "tcp");
        let data = of(&outcome, "tcp.segments.data");
        within(&outcome, "tcp.retransmitted.ratio", all / data, all / data);
        within(&outcome, "tcp.segments.total", data + of(&outcome, "tcp.segments.ack"), data * 2.0);
        // What came is what was sent, less what was sent again, in segments of 1460 bytes.
        let sent = of(&outcome, "tcp.throughput") - of(&outcome, "tcp.retransmitted.bytes") * 8.0 / 30.0;
        let goodput = of(&outcome, "tcp.goodput");
        assert!((sent / goodput - 1.0).abs() < 0.02, "{sent} for {goodput}");
        // Each loss was repaired, but for those of the last window; and there is no other reason to need a repeat.
        let lost = lost(&outcome);
        assert!(lost > 50.0 && needed <= lost && needed >= lost - 30.0, "{lost} lost, {needed} needed");
        assert!(spurious > 0.0, "those that follow a timeout had come");
    }
}

#[test]
fn behind_a_proxy_a_repeat_was_needed_if_the_proxy_had_not_got_it() {
    let wired = LinkSettings::new(mbit(10.0), ms(20));
    let mut scenario = scene(1, &wired.clone().loss(Loss::Uniform(0.01)), 20);
    scenario.links[0].ways[1] = wired;
    let proxy = Proxy { behind: vec![3], mode: ProxyMode::Split(both(linux())) };
    scenario.nodes[1] = Node { name: "proxy".to_owned(), kind: NodeKind::Proxy, proxy: Some(proxy) };
    // The air reorders, so that the proxy repeats much of what the mobile node had: its repeats, not the sender's.
    let jitter = Jitter::Uniform { max: ms(40), reorders: true };
    let air = LinkSettings::new(mbit(20.0), ms(5)).queue(tail_drop(1000));
    let impairments = Impairments { jitter, ..Impairments::default() };
    scenario.links[2].ways = [air.clone(), LinkSettings { impairments, ..air }];
    scenario.traffic.push(traffic("tcp", 0, bulk(1, None)));
    let outcome = run(&scenario, 1);
    let [_, needed, spurious] = sent_again(&outcome, "tcp");
    let lost = lost(&outcome);
    assert!(lost > 30.0 && needed <= lost && needed >= lost - 3.0, "{lost} lost, {needed} needed");
    assert!(spurious <= 0.05 * lost, "{spurious} had come, {lost} were lost");
}

#[test]
fn a_packet_that_a_link_doubled_was_not_sent_again() {
    for (loss, duplication) in [(0.0, 0.02), (0.01, 0.02), (0.01, 0.3)] {
        let plain = LinkSettings::new(mbit(10.0), ms(20));
        let impairments = Impairments { loss: Loss::Uniform(loss), duplication, ..Impairments::default() };
        let mut scenario = scene(1, &LinkSettings { impairments, ..plain.clone() }, 30);
        scenario.links[0].ways[1] = plain;
        // It ends, so that all that was lost is repaired.
        let mut bulk = traffic("tcp", 0, bulk(1, None));
        bulk.stop = Some(ms(25_000));
        scenario.traffic.push(bulk);
        let outcome = run(&scenario, 1);
        let [_, needed, spurious] = sent_again(&outcome, "tcp");
        let lost = lost(&outcome);
        assert!(lost > 50.0, "{lost}");
        assert!(needed <= lost && needed >= lost - 3.0, "{lost} lost, {needed} needed");
        assert!(spurious <= 0.1 * lost, "{spurious} had come, {lost} were lost");
    }
}

fn bulk_pattern(flows: u32) -> Pattern {
    Pattern::Bulk { flows, bytes: None, stagger: Distribution::Uniform(0.0, 0.2) }
}

#[test]
fn a_web_user_waits_for_the_answer_and_is_counted_by_object() {
    let mut scenario = scene(1, &LinkSettings::new(mbit(10.0), ms(50)), 60);
    let pattern = Pattern::Web {
        users: 4,
        request: 300,
        response: Distribution::Fixed(8000.0),
        objects: Distribution::Fixed(2.0),
        gap: Distribution::Fixed(0.5),
        think: Distribution::Exponential { mean: 3.0 },
    };
    scenario.traffic.push(traffic("web", 0, tcp(linux(), pattern)));
    let outcome = run(&scenario, 1);
    // The connection and the question take a round trip each.
    within(&outcome, "web.delay.min", 0.200, 0.215);
    within(&outcome, "web.delay.p99", 0.200, 0.3);
    let (total, done) = (of(&outcome, "web.transfers.total"), of(&outcome, "web.transfers.completed"));
    assert!(total - done <= 4.0 && done > 60.0, "{done} of {total}");
    within(&outcome, "web.transfers.completed.ratio", done / total, done / total);
    assert_eq!(outcome.distributions["web.transfer.delay"].len(), done as usize);
    assert_eq!(outcome.distributions["web.transfer.throughput"].len(), total as usize);
    // SYN, the question, acknowledgements; and six segments of the answer.
    within(&outcome, "web.transfer.forward.packets", 4.0, 10.0);
    within(&outcome, "web.transfer.reverse.packets", 6.5, 10.0);
    let (forward, reverse) =
        (of(&outcome, "web.transfer.forward.throughput"), of(&outcome, "web.transfer.reverse.throughput"));
    assert!((forward / reverse / (300.0 / 8000.0) - 1.0).abs() < 0.02, "{forward} and {reverse}");
    within(&outcome, "web.goodput", 8000.0 * 8.0 * (done - 4.0) / 60.0, 8000.0 * 8.0 * total / 60.0);
}

#[test]
fn requests_on_one_connection_have_each_their_own_counts() {
    let mut scenario = scene(1, &LinkSettings::new(mbit(10.0), ms(50)), 60);
    let pattern = Pattern::RequestResponse {
        connections: 3,
        request: 200,
        response: 1000,
        interval: Distribution::Fixed(1.0),
    };
    scenario.traffic.push(traffic("ask", 0, tcp(linux(), pattern)));
    let outcome = run(&scenario, 1);
    within(&outcome, "ask.transfers.total", 178.0, 184.0);
    // Summed over transfers, an answer's segment would be counted sixty times if each had what its connection counted.
    within(&outcome, "ask.segments.data", 160.0, 200.0);
    within(&outcome, "ask.transfer.segments.data", 0.98, 1.2);
    within(&outcome, "ask.delay.p50", 0.100, 0.106);
    within(&outcome, "ask.delay.max", 0.200, 0.21);
    within(&outcome, "ask.rtt.mean", 0.100, 0.15);
    within(&outcome, "ask.retransmitted.packets", 0.0, 0.0);
}

/// Requests for answers of so many bytes.
fn arrivals(connections: u32, response: Distribution, interval: Distribution) -> Load {
    let assignment = Assignment::LongestIdle;
    tcp(linux(), Pattern::Arrivals { connections, assignment, request: 100, response, interval })
}

#[test]
fn a_slowdown_is_one_on_an_idle_path_and_two_on_a_new_connection() {
    let mut scenario = scene(1, &LinkSettings::new(mbit(96.0), ms(25)), 30);
    let sizes = Distribution::Cdf([(5_000.0, 0.9), (5_000.0, 0.9), (60_000.0, 1.0)].into());
    scenario.traffic.push(traffic("web", 0, arrivals(4, sizes, Distribution::Fixed(0.2))));
    let outcome = run(&scenario, 1);
    within(&outcome, "web.transfers.total", 149.0, 150.0);
    within(&outcome, "web.slowdown.small.p50", 1.0, 1.05);
    let connecting = outcome.metrics["web.slowdown.small.p99"];
    assert!((1.9..2.1).contains(&connecting), "four requests open a connection: {connecting}");
    // Windows have to grow first.
    within(&outcome, "web.slowdown.medium.p50", 1.0, 3.0);
    let groups =
        ["small", "medium", "large"].map(|group| of(&outcome, &format!("web.slowdown.{group}.transfers")));
    assert!((groups[0] - 0.9 * 150.0).abs() < 12.0 && groups[2] < 0.5, "{groups:?}");
    within(&outcome, "web.transfers.completed", groups.iter().sum(), groups.iter().sum());
    assert!(!outcome.metrics.contains_key("web.slowdown.large.p50"), "there is no large one");
}

#[test]
fn requests_arrive_though_others_wait_and_their_waiting_counts() {
    // An answer takes a round trip, 0.1 s, and a little; there are three in a tenth of a second, and two connections.
    let mut scenario = scene(1, &LinkSettings::new(mbit(96.0), ms(50)), 10);
    let load = arrivals(2, Distribution::Fixed(5_000.0), Distribution::Fixed(1.0 / 30.0));
    scenario.traffic.push(traffic("web", 0, load));
    let outcome = run(&scenario, 1);
    // Of 300 that arrive, 20 a second get their answer; the last waits for a third of the time.
    within(&outcome, "web.transfers.completed", 190.0, 200.0);
    within(&outcome, "web.delay.max", 3.2, 3.5);
    within(&outcome, "web.slowdown.p99", 31.0, 35.0);
    scenario.traffic[0].load = arrivals(4, Distribution::Fixed(5_000.0), Distribution::Fixed(1.0 / 30.0));
    let outcome = run(&scenario, 1);
    within(&outcome, "web.transfers.completed", 290.0, 300.0);
    within(&outcome, "web.slowdown.p50", 1.0, 1.05);
}

#[test]
fn the_idle_path_is_that_of_the_data() {
    // Ten times as fast for the request as for the answer.
    let mut scenario = scene(1, &LinkSettings::new(mbit(100.0), ms(20)), 10);
    scenario.links[0].ways[1].rate = mbit(10.0);
    let load = arrivals(1, Distribution::Fixed(12_500.0), Distribution::Fixed(0.5));
    scenario.traffic.push(traffic("web", 0, load));
    scenario.traffic.push(traffic("bulk", 0, bulk(1, Some(12_500))));
    let outcome = run(&scenario, 1);
    let ideal = |metric: &str, slowdown: &str| of(&outcome, metric) / of(&outcome, slowdown);
    let web = ideal("web.delay.p50", "web.slowdown.p50");
    assert!((web - 0.050).abs() < 1e-9, "10 ms of data and 40 ms of delay: {web}");
    let bulk = ideal("bulk.delay.p50", "bulk.slowdown.p50");
    assert!((bulk - 0.041).abs() < 1e-9, "{bulk}");
}

#[test]
fn datagrams_leave_at_their_rate_whatever_their_timing() {
    let timings = [
        Timing::Constant(mbit(2.0)),
        Timing::Poisson(mbit(2.0)),
        Timing::OnOff { rate: mbit(4.0), on: Distribution::Fixed(0.1), off: Distribution::Fixed(0.1) },
    ];
    for timing in timings {
        let mut scenario = scene(1, &LinkSettings::new(mbit(10.0), ms(10)), 30);
        scenario.traffic.push(traffic("udp", 0, Load::Udp { data: 472, timing }));
        let outcome = run(&scenario, 1);
        within(&outcome, "udp.throughput", 1.9e6, 2.1e6);
        let ratio = of(&outcome, "udp.goodput") / of(&outcome, "udp.throughput");
        assert!((ratio - 472.0 / 500.0).abs() < 1e-6, "{ratio}");
        within(&outcome, "udp.delay.min", 0.0104, 0.0105);
        within(&outcome, "udp.delay.mean", 0.0104, 0.012);
    }
}

#[test]
fn of_datagrams_that_leave_in_the_time_counted_those_that_never_came_are_lost() {
    // What was under way at its start, a second's worth, arrives in it; of what leaves in it as much is under way at its end.
    let mut scenario = scene(1, &LinkSettings::new(mbit(10.0), ms(1000)), 10);
    scenario.warm_up = ms(5000);
    scenario.traffic.push(traffic("udp", 0, udp(1.2)));
    let sound = run(&scenario, 1);
    within(&sound, "udp.sent.packets", 499.0, 501.0);
    within(&sound, "udp.received.packets", 499.0, 501.0);
    within(&sound, "udp.lost.ratio", 0.198, 0.204);
    // Two and no more leave, one of which comes: what came from before does not make up for the other.
    scenario.traffic[0].stop = Some(ms(5025));
    scenario.links[0].ways[0].changes = vec![(ms(6015), LinkChange::Impairments(all_lost()))];
    let cut = run(&scenario, 1);
    within(&cut, "udp.sent.packets", 2.0, 2.0);
    within(&cut, "udp.received.packets", 90.0, 110.0);
    within(&cut, "udp.lost.ratio", 0.5, 0.5);
}

fn all_lost() -> Impairments {
    Impairments { loss: Loss::Uniform(1.0), ..Impairments::default() }
}

#[test]
fn jitter_is_the_mean_of_the_differences_that_there_are() {
    // Two datagrams of 1500 and of 500 bytes: one difference, of 8 ms on the narrow link and next to nothing on the fast ones.
    let datagrams = [(ms(0), 1472), (ms(100), 472)].into();
    let timing = Timing::Trace { datagrams, repeat: None };
    let mut scenario = scene(1, &LinkSettings::new(mbit(1.0), ms(10)), 1);
    scenario.traffic.push(traffic("pair", 0, Load::Udp { data: 1472, timing }));
    within(&run(&scenario, 1), "pair.jitter", 0.008, 0.0081);
    let datagrams = [(ms(0), 1472)].into();
    let timing = Timing::Trace { datagrams, repeat: None };
    scenario.traffic[0].load = Load::Udp { data: 1472, timing };
    assert!(!run(&scenario, 1).metrics.contains_key("pair.jitter"), "there is no difference");
}

#[test]
fn what_is_random_in_a_source_does_not_depend_on_the_others() {
    let poisson = || Load::Udp { data: 472, timing: Timing::Poisson(mbit(2.0)) };
    let mut scenario = scene(2, &LinkSettings::new(mbit(10.0), ms(10)), 10);
    scenario.traffic.push(traffic("first", 0, poisson()));
    scenario.traffic.push(traffic("second", 1, poisson()));
    scenario.traffic[1].place = 1;
    let both = run(&scenario, 1);
    scenario.traffic.remove(0);
    let alone = run(&scenario, 1);
    scenario.traffic[0].place = 0;
    let first = run(&scenario, 1);
    let sent = |outcome: &Outcome| of(outcome, "second.sent.packets");
    within(&alone, "second.sent.packets", sent(&both), sent(&both));
    within(&first, "second.sent.packets", of(&both, "first.sent.packets"), of(&both, "first.sent.packets"));
    assert!((sent(&both) - sent(&first)).abs() > 0.5, "each draws its own");
}

#[test]
fn a_group_has_the_figures_of_both_kinds_of_its_sources() {
    let mut scenario = scene(2, &LinkSettings::new(mbit(10.0), ms(10)), 10);
    for (name, load) in [("flow", bulk(1, Some(100_000))), ("stream", udp(1.0))] {
        let mut source = traffic(name, 0, load);
        source.group = "mixed".to_owned();
        scenario.traffic.push(source);
    }
    scenario.traffic.push(traffic("alone", 1, udp(1.0)));
    let outcome = run(&scenario, 1);
    let sent = of(&outcome, "mixed.sent.packets") + of(&outcome, "alone.sent.packets");
    within(&outcome, "all.sent.packets", sent, sent);
    // Of the transfer, not of the datagrams.
    within(&outcome, "mixed.delay.mean", 0.1, 0.5);
    within(&outcome, "alone.delay.mean", 0.011, 0.02);
    within(&outcome, "mixed.transfers.total", 1.0, 1.0);
    assert!(
        !outcome.metrics.contains_key("alone.transfers.total")
            && !outcome.metrics.contains_key("flow.goodput")
    );
}
