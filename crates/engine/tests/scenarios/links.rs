//! Links and their queues: everything that was offered is somewhere, and every option does something.

use std::time::Duration;

use trunkline_link::mobile::{Mobile, Pareto};
use trunkline_link::{Jitter, LinkChange, LinkSettings, Loss};
use trunkline_queue::{
    CoDelSettings, DropReason, FqCoDelSettings, FredSettings, Limits, PieSettings, RedSettings,
    Settings as QueueSettings, TrunkSettings,
};
use trunkline_units::Rate;

use crate::scene::{bulk, mbit, ms, of, run, scene, tail_drop, traffic, udp, within};

fn core() -> LinkSettings {
    LinkSettings::new(mbit(5.0), ms(10)).queue(tail_drop(50))
}

#[test]
fn what_is_offered_is_delivered_dropped_or_waiting() {
    let limits = Limits { segments: 60, bytes: u64::MAX };
    let red = RedSettings { limits, min: 20_000, max: 60_000, ..RedSettings::default() };
    for (queue, early) in [
        (QueueSettings::TailDrop(limits), None),
        (QueueSettings::FairTailDrop(limits), Some(DropReason::DynamicThreshold)),
        (QueueSettings::Red(red), Some(DropReason::Early)),
        (
            QueueSettings::Fred(FredSettings { limits, max: 50, ..FredSettings::default() }),
            Some(DropReason::Early),
        ),
        (
            QueueSettings::CoDel(CoDelSettings { limits, ..CoDelSettings::default() }),
            Some(DropReason::Sojourn),
        ),
        (QueueSettings::FqCoDel(FqCoDelSettings::default()), Some(DropReason::Sojourn)),
        (QueueSettings::Pie(PieSettings { limits, ..PieSettings::default() }), Some(DropReason::Early)),
        (QueueSettings::Trunk(TrunkSettings { limits, ..TrunkSettings::default() }), Some(DropReason::Early)),
    ] {
        let mut scenario = scene(2, &core().queue(queue), 10);
        scenario.traffic.push(traffic("bulk", 0, bulk(20, None)));
        scenario.traffic.push(traffic("udp", 1, udp(1.0)));
        let outcome = run(&scenario, 1);
        let [offered, drops] = ["core.offered.packets", "core.drops"].map(|name| of(&outcome, name));
        let delivered = of(&outcome, "core.delivered.packets");
        // The queue holds up to a thousand, the wire ten.
        let left = offered - drops - delivered;
        assert!((0.0..1010.0).contains(&left), "{queue:?}: {offered} - {drops} - {delivered}");
        let waiting = of(&outcome, "core.queue.packets.max");
        assert!(left <= waiting + 10.0 && waiting >= 5.0, "{left} left, {waiting} at the most");
        within(&outcome, "core.drops.ratio", drops / offered, drops / offered);
        let by_reason = outcome.metrics.iter().filter(|(name, _)| {
            DropReason::ALL.iter().any(|reason| **name == format!("core.drops.{}", reason.name()))
        });
        let sum: f64 = by_reason.map(|(_, drops)| drops).sum();
        within(&outcome, "core.drops", sum, sum);
        assert!(sum > 0.0, "{queue:?} dropped nothing");
        if let Some(reason) = early {
            assert!(of(&outcome, &format!("core.drops.{}", reason.name())) > 0.0, "{queue:?}: no {reason:?}");
        }
        within(&outcome, "core.utilisation", 0.9, 1.0);
        let [low, mean, high] =
            ["p2_5", "mean", "p97_5"].map(|at| of(&outcome, &format!("core.queue.packets.{at}")));
        assert!(low <= mean && mean <= high && high <= waiting, "{queue:?}: {low} {mean} {high} {waiting}");
        // Little's law: the queue is what came in the time it stayed. What CoDel drops has waited too, and longer.
        if early != Some(DropReason::Sojourn) {
            let little = of(&outcome, "core.sojourn.mean") * (offered - drops) / 10.0;
            assert!((little / mean - 1.0).abs() < 0.05, "{queue:?}: {little} for {mean}");
        }
        assert!(of(&outcome, "core.sojourn.p99") * 1.01 >= of(&outcome, "core.sojourn.p50"));
    }
}

#[test]
fn every_option_of_a_link_has_the_effect_it_should() {
    let outcome = |change: &dyn Fn(&mut LinkSettings)| {
        let mut link = core();
        change(&mut link);
        let mut scenario = scene(1, &link, 20);
        scenario.links[0].ways[1] = core();
        scenario.traffic.push(traffic("udp", 0, udp(2.0)));
        run(&scenario, 1)
    };
    let plain = outcome(&|_| {});
    within(&plain, "udp.lost.ratio", 0.0, 0.001);
    within(&plain, "udp.jitter", 0.0, 1e-6);
    within(&plain, "core.back.utilisation", 0.0, 0.0);
    let lossy = outcome(&|link| link.impairments.loss = Loss::Uniform(0.05));
    within(&lossy, "udp.lost.ratio", 0.04, 0.06);
    let lost = of(&lossy, "udp.sent.packets") - of(&lossy, "udp.received.packets");
    within(&lossy, "core.lost", lost - 10.0, lost);
    let corrupting = outcome(&|link| link.impairments.corruption = 0.05);
    within(&corrupting, "udp.lost.ratio", 0.04, 0.06);
    within(&corrupting, "core.corrupted", 100.0, 250.0);
    let corrupted = of(&corrupting, "core.corrupted");
    within(&corrupting, "b0.corrupted", corrupted - 1.0, corrupted);
    let doubling = outcome(&|link| link.impairments.duplication = 0.05);
    assert!(of(&doubling, "to-b0.back.offered.packets") > 1.03 * of(&doubling, "core.delivered.packets"));
    let sent = of(&doubling, "udp.sent.packets");
    within(&doubling, "udp.received.packets", sent - 10.0, sent);
    within(&doubling, "udp.goodput", 0.98 * of(&plain, "udp.goodput"), 1.001 * of(&plain, "udp.goodput"));
    let both = outcome(&|link| {
        link.impairments.loss = Loss::Uniform(0.05);
        link.impairments.duplication = 0.05;
    });
    for name in ["udp.lost.ratio", "udp.received.packets", "udp.goodput", "core.lost"] {
        within(&both, name, of(&lossy, name), of(&lossy, name));
    }
    let jitter = Jitter::Uniform { max: ms(9), reorders: true };
    let wobbling = outcome(&|link| link.impairments.jitter = jitter);
    within(&wobbling, "udp.jitter", 0.0028, 0.0032);
    let slow = outcome(&|link| link.rate = mbit(1.0));
    within(&slow, "udp.goodput", 0.95e6, 1e6);
    let far = outcome(&|link| link.delay = ms(100));
    within(&far, "udp.delay.min", 0.100, 0.105);
    let narrow = outcome(&|link| link.mtu = 600);
    let sent = of(&narrow, "udp.sent.packets");
    within(&narrow, "core.fragmented", sent - 2.0, sent);
    let radio = outcome(&|link| link.mobile = Some(Mobile::Pareto(Pareto::of_mean(ms(1)))));
    assert!(of(&radio, "udp.jitter") > 1e-4);
    let changing = outcome(&|link| {
        link.changes = vec![(ms(10_000), LinkChange::Rate(Rate::ZERO))];
    });
    within(&changing, "udp.goodput", 0.45 * 1.96e6, 0.55 * 1.96e6);
    let blinking = outcome(&|link| {
        link.changes = vec![(ms(1000), LinkChange::Delay(ms(60))), (ms(2000), LinkChange::Delay(ms(10)))];
        link.repeat = Some(ms(2000));
    });
    within(&blinking, "udp.delay.mean", 0.033, 0.042);
    within(&blinking, "udp.delay.max", 0.060, 0.065);
}

#[test]
fn a_link_may_be_another_on_its_way_back() {
    let mut scenario = scene(1, &core(), 20);
    scenario.links[0].ways[1] = LinkSettings::new(mbit(50.0), Duration::from_millis(40));
    let mut back = traffic("back", 0, bulk(1, None));
    back.ends.reverse();
    scenario.traffic.push(back);
    let outcome = run(&scenario, 1);
    within(&outcome, "back.rtt.min_of_all", 0.050, 0.053);
    within(&outcome, "back.goodput", 20e6, 50e6);
    assert!(of(&outcome, "core.back.utilisation") > 3.0 * of(&outcome, "core.utilisation"));
}
