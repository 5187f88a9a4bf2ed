//! Each way to grow in whole endpoints, on a link with a bounded queue and on one that loses.

use crate::common::{End, Pair, PathAction, ms};
use trunkline_tcp::{CongestionAlgorithm, Preset, Settings, SlowStart};
use trunkline_units::{Instant, Rate, Rng};

const MBIT: f64 = 10.0;

/// Bytes that arrive within `seconds` after the first two, over 10 Mbit/s and 40 ms with a queue of `queue` ms and
/// independent losses, and the client's timeouts.
fn goodput(settings: &Settings, queue: u64, loss: f64, seconds: u64) -> (f64, u64) {
    let mut pair = Pair::connected(settings.clone(), ms(20));
    let rate = Rate::from_mbit(MBIT);
    pair.rate = Some(rate);
    pair.keeps_trace = false;
    let mut rng = Rng::new(7, "loss");
    let mut free = Instant::ZERO;
    pair.impair(move |trace| {
        if trace.from == End::Server {
            return PathAction::Deliver;
        }
        if rng.chance(loss) || free - trace.at > ms(queue) {
            return PathAction::Drop;
        }
        free = free.max(trace.at) + rate.time_for(40 + u64::from(trace.segment.payload), &mut 0);
        PathAction::Deliver
    });
    let mut run = |until: Instant| {
        loop {
            pair.client.write(u64::MAX / 2);
            if !pair.step(until) {
                return (pair.server.received(), pair.client.stats().timeouts);
            }
        }
    };
    let start = Instant::from_millis(2000);
    let before = run(start).0;
    let (after, timeouts) = run(start + ms(1000 * seconds));
    ((after - before) as f64 * 8.0 / seconds as f64 / 1e6, timeouts)
}

fn linux(congestion_control: CongestionAlgorithm) -> Settings {
    Preset::Linux6.settings().with_congestion_control(congestion_control)
}

#[test]
fn every_way_fills_a_link_with_a_queue_of_its_product() {
    // 1448 of 1500 bytes in 10 Mbit/s, without what our link leaves out of its headers.
    for growth in CongestionAlgorithm::ALL {
        let (mbit, timeouts) = goodput(&linux(growth), 40, 0.0, 20);
        assert!((9.2..9.75).contains(&mbit), "{growth:?}: {mbit} Mbit/s");
        assert_eq!(timeouts, 0, "{growth:?}");
    }
}

#[test]
fn reno_under_independent_losses_is_what_mathis_says() {
    // MSS/RTT √(3/2p), with an acknowledgement for every segment or every other, growing by bytes in both.
    for loss in [0.005_f64, 0.01, 0.02] {
        let expected = 1448.0 * 8.0 / 0.041 * (1.5 / loss).sqrt() / 1e6;
        let (mbit, _) = goodput(&Preset::Linux6Reno.settings(), 200, loss, 60);
        assert!((0.75..1.15).contains(&(mbit / expected)), "{loss}: {mbit} of {expected} Mbit/s");
    }
}

#[test]
fn bbr_does_not_mind_the_losses_that_hold_others_back() {
    let at = |growth| goodput(&linux(growth), 200, 0.02, 30).0;
    let (reno, cubic, bbr) =
        (at(CongestionAlgorithm::Reno), at(CongestionAlgorithm::Cubic), at(CongestionAlgorithm::Bbr));
    assert!(reno < 4.0 && cubic < 5.0, "{reno} {cubic}");
    assert!((8.0..9.7).contains(&bbr), "{bbr}");
}

#[test]
fn hystart_leaves_slow_start_before_it_overshoots() {
    let lost = |slow_start, queue| {
        let settings = Preset::Linux6.settings().with_slow_start(slow_start);
        let mut pair = Pair::connected(settings, ms(20));
        let rate = Rate::from_mbit(MBIT);
        pair.rate = Some(rate);
        let mut free = Instant::ZERO;
        pair.impair(move |trace| {
            if trace.from == End::Server {
                return PathAction::Deliver;
            }
            if free - trace.at > ms(queue) {
                return PathAction::Drop;
            }
            free = free.max(trace.at) + rate.time_for(40 + u64::from(trace.segment.payload), &mut 0);
            PathAction::Deliver
        });
        pair.client.write(1_000_000);
        pair.run_for(ms(2000));
        let lost = pair.trace.iter().filter(|trace| trace.action == PathAction::Drop).count();
        (lost, pair.client.ssthresh() / 1448)
    };
    // 34 segments fill the path; with acknowledgements for every other segment there are no trains at this rate, and
    // the delay needs the queue of a round trip to show.
    for (queue, most) in [(60, 20), (120, 0)] {
        let (classic, early) = (lost(SlowStart::Classic, queue), lost(SlowStart::HyStart, queue));
        assert!(classic.0 > 80 && classic.1 > 110, "{queue}: {classic:?}");
        assert!(early.0 <= most && (34..100).contains(&early.1), "{queue}: {early:?}");
        let gradual = lost(SlowStart::HyStartPlusPlus, queue);
        assert!(gradual.0 * 2 < classic.0, "{queue}: {gradual:?}");
    }
}
