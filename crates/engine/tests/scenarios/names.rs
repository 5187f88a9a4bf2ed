//! Names: what is known before a run, and what is recorded during one.

use trunkline_engine::catalogue::{known, unit};
use trunkline_link::{LinkSettings, Loss};
use trunkline_trunk::ClassSettings;
use trunkline_workload::{Distribution, Pattern};

use crate::scene::{bulk, linux, mbit, ms, of, run, scene, tail_drop, tcp, traffic, trunk, udp, within};

#[test]
fn a_name_that_nothing_has_comes_with_those_that_are_near() {
    let mut scenario = scene(2, &LinkSettings::new(mbit(5.0), ms(10)), 1);
    scenario.traffic.push(traffic("bulk", 0, bulk(2, None)));
    scenario.traffic.push(traffic("voice", 1, udp(0.1)));
    scenario.disabled.push("edge".to_owned());
    let without = known([&scenario]);
    let error = without.metric("bulk.godput").unwrap_err();
    assert_eq!(error.near[0], "bulk.goodput");
    assert!(error.to_string().contains("did you mean bulk.goodput"), "{error}");
    assert!(without.metric("core.drops.sojourn").is_err(), "tail drop knows no sojourn");
    assert!(without.metric("voice.timeouts").is_err() && without.metric("all.timeouts").is_ok());
    assert!(without.metric("voice.delay.mean").is_ok() && without.metric("voice.delay.std").is_err());
    assert!(without.metric("edge.drops").is_ok() && without.metric("edge.all.drops").is_err());
    assert!(without.metric("xyzzy").unwrap_err().near.is_empty());
    for (theirs, ours) in [
        ("bulk.delay.median", "bulk.delay.p50"),
        ("bulk.latency.avg", "bulk.delay.mean"),
        ("core.utilization", "core.utilisation"),
        ("voice.loss.ratio", "voice.lost.ratio"),
    ] {
        let error = without.metric(theirs).unwrap_err().to_string();
        assert!(error.ends_with(&format!(", did you mean {ours}?")), "{error}");
    }
    let error = without.metric("core.back.drops.percent").unwrap_err();
    assert!(error.to_string().ends_with("; it is called core.back.drops.ratio now"), "{error}");
    let error = without.series("bulk.1.repeats").unwrap_err();
    assert!(error.to_string().ends_with("; it is called bulk.1.retransmissions now"), "{error}");

    let mut with = scenario.clone();
    with.disabled.clear();
    with.trunks.push(trunk(&with, vec![ClassSettings::new("all", Vec::new(), tail_drop(9), 0)]));
    let both = known([&scenario, &with]);
    for name in
        ["edge.all.drops", "edge.back.all.sojourn.mean", "edge.back.lane.rtt.mean", "left.unreachable"]
    {
        assert!(both.metric(name).is_ok(), "{name}");
    }
    for (name, there) in [
        ("bulk.1.cwnd", true),
        ("bulk.2.cwnd", false),
        ("voice.0.goodput", true),
        ("voice.0.cwnd", false),
        ("edge.back.lane0.srtt", true),
        ("edge.lane1.srtt", false),
        ("edge.all.queue.bytes", true),
        ("core.back.utilisation", true),
        ("all.goodput", true),
        ("bulk.throughput", false),
    ] {
        assert_eq!(both.series(name).is_ok(), there, "{name}");
        assert!(!there || unit(name).is_some(), "{name}");
    }
    assert!(
        both.distribution("bulk.transfer.delay").is_ok()
            && both.distribution("voice.transfer.delay").is_err()
    );
}

#[test]
fn series_add_up_to_what_the_metrics_say() {
    let mut scenario = scene(2, &LinkSettings::new(mbit(5.0), ms(10)).queue(tail_drop(30)), 20);
    scenario.traffic.push(traffic("bulk", 0, bulk(3, None)));
    scenario.traffic.push(traffic("web", 1, tcp(linux(), Pattern::surge(2))));
    scenario.traffic.push(traffic("udp", 1, udp(1.0)));
    scenario.trunks.push(trunk(&scenario, vec![ClassSettings::new("all", Vec::new(), tail_drop(40), 0)]));
    let without = run(&scenario, 1);
    let names = [
        "all.goodput",
        "bulk.goodput",
        "bulk.0.goodput",
        "bulk.1.goodput",
        "bulk.2.goodput",
        "bulk.0.cwnd",
        "bulk.0.ssthresh",
        "bulk.0.srtt",
        "bulk.0.in_flight",
        "bulk.0.retransmissions",
        "web.0.cwnd",
        "udp.0.goodput",
        "core.queue.packets",
        "core.queue.bytes",
        "core.utilisation",
        "core.delivered",
        "core.drops",
        "edge.all.queue.packets",
        "edge.all.drops",
        "edge.all.filtered",
        "edge.back.all.queue.bytes",
        "edge.lane0.window",
        "edge.lane0.unsent",
        "edge.lane0.unacknowledged",
        "edge.lane0.srtt",
        "edge.lane0.delivery_rate",
        "edge.lane0.max_pacing_rate",
        "gone.all.drops",
    ];
    scenario.series = Some((ms(100), names.map(str::to_owned).to_vec()));
    let outcome = run(&scenario, 1);
    assert_eq!(outcome.digest, without.digest, "to record changes nothing");
    assert_eq!(outcome.metrics, without.metrics);
    let series = outcome.series.as_ref().expect("what was recorded");
    assert_eq!(series.times.len(), 200);
    assert_eq!(series.columns.len(), names.len() - 1, "what is not there is left out");
    let sum = |name: &str| series.columns[name].iter().flatten().sum::<f64>();
    for (name, metric) in [
        ("all.goodput", "all.goodput"),
        ("bulk.goodput", "bulk.goodput"),
        ("udp.0.goodput", "udp.goodput"),
        ("core.utilisation", "core.utilisation"),
        ("core.delivered", "core.delivered"),
    ] {
        let (mean, value) = (sum(name) / 200.0, of(&outcome, metric));
        assert!((mean / value - 1.0).abs() < 1e-3, "{name}: {mean} for {value}");
    }
    let each = sum("bulk.0.goodput") + sum("bulk.1.goodput") + sum("bulk.2.goodput");
    assert!((each / sum("bulk.goodput") - 1.0).abs() < 1e-9);
    for name in ["core.drops", "edge.all.drops", "edge.all.filtered"] {
        within(&outcome, name, sum(name), sum(name));
    }
    assert!(sum("bulk.0.retransmissions") > 0.0 && sum("edge.all.drops") > 0.0);
    let most = |name: &str| series.columns[name].iter().flatten().copied().fold(0.0, f64::max);
    assert!(most("core.queue.packets") <= of(&outcome, "core.queue.packets.max"));
    assert!(most("edge.all.queue.packets") <= 40.0 && most("edge.all.queue.packets") > 10.0);
    assert!((0.02..1.0).contains(&most("edge.lane0.srtt")), "{}", most("edge.lane0.srtt"));
    assert!(
        series.columns["edge.lane0.max_pacing_rate"].iter().all(Option::is_none),
        "nothing paces this lane"
    );
    assert!(series.columns["web.0.cwnd"].iter().any(Option::is_none), "a user who thinks has no connection");
}

#[test]
fn repeats_of_every_connection_are_in_the_series_of_its_user() {
    let mut scenario = scene(2, &LinkSettings::new(mbit(10.0), ms(20)).loss(Loss::Uniform(0.03)), 60);
    let gap = Distribution::Fixed(0.1);
    let web = Pattern::Web {
        users: 4,
        request: 300,
        response: Distribution::Fixed(8000.0),
        objects: Distribution::Fixed(10.0),
        gap: gap.clone(),
        think: gap.clone(),
    };
    let asks = Pattern::RequestResponse { connections: 3, request: 300, response: 8000, interval: gap };
    scenario.traffic.push(traffic("web", 0, tcp(linux(), web)));
    scenario.traffic.push(traffic("ask", 1, tcp(linux(), asks)));
    // A web user's connections come and go between two values.
    let names: Vec<String> = (0..4)
        .map(|user| format!("web.{user}.retransmissions"))
        .chain((0..3).map(|user| format!("ask.{user}.retransmissions")))
        .collect();
    scenario.series = Some((ms(2000), names));
    let outcome = run(&scenario, 1);
    let columns = &outcome.series.as_ref().expect("what was recorded").columns;
    for group in ["web", "ask"] {
        let own = columns.iter().filter(|(name, _)| name.starts_with(group));
        let sum: f64 = own.flat_map(|(_, values)| values.iter().flatten()).sum();
        within(&outcome, &format!("{group}.retransmitted.packets"), sum, sum);
        assert!(sum > 20.0, "{group}: {sum}");
    }
}
