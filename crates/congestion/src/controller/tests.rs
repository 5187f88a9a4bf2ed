use trunkline_units::Rng;

use super::*;
use crate::{BicVersion, CongestionAlgorithm, SlowStart};

const MSS: u32 = 1448;

fn settings() -> Settings {
    Settings::new(CongestionAlgorithm::Reno)
}

fn ack(now: Instant, acked: u32, congestion: &Congestion) -> Ack {
    let rtt = Duration::from_millis(50);
    Ack {
        now,
        acked,
        rtt: Some(rtt),
        srtt: rtt,
        min_rtt: rtt,
        in_flight: congestion.cwnd(),
        round_ended: false,
        window_limited: true,
        delivered: None,
    }
}

#[test]
fn an_endpoint_has_room_for_it() {
    assert!(size_of::<Congestion>() <= 96, "{}", size_of::<Congestion>());
}

#[test]
fn a_timeout_leaves_a_segment_and_a_loss_the_threshold() {
    let mut congestion = Congestion::new(&settings(), MSS);
    congestion.set_cwnd(41 * MSS);
    congestion.reduce(41 * MSS, CongestionSignal::Loss);
    assert_eq!((congestion.cwnd(), congestion.ssthresh()), (20 * MSS, 20 * MSS));
    congestion.reduce(3 * MSS, CongestionSignal::Timeout);
    assert_eq!((congestion.cwnd(), congestion.ssthresh()), (MSS, 2 * MSS));
    assert_eq!(congestion.prior_cwnd(), Some(20 * MSS));
}

#[test]
fn undo_restores_what_was_once_and_keeps_what_has_grown_since() {
    for growth in CongestionAlgorithm::ALL {
        let mut congestion = Congestion::new(&settings().with_congestion_control(growth), MSS);
        congestion.set_cwnd(100 * MSS);
        congestion.reduce(100 * MSS, CongestionSignal::Loss);
        let most = match growth {
            CongestionAlgorithm::Bbr => 100,
            CongestionAlgorithm::Bic(BicVersion::Original | BicVersion::Linux266) => 88,
            _ => 80,
        };
        assert!(congestion.cwnd() <= most * MSS, "{growth:?}");
        congestion.undo();
        assert_eq!((congestion.cwnd(), congestion.ssthresh()), (100 * MSS, u32::MAX), "{growth:?}");
        congestion.set_cwnd(10 * MSS);
        congestion.undo();
        assert_eq!(congestion.cwnd(), 10 * MSS, "{growth:?}: there is nothing left to take back");
    }
}

#[test]
fn bytes_count_in_full_up_to_their_limit_and_acknowledgements_as_one() {
    let grown = |counting| {
        let mut congestion = Congestion::new(&Settings { counting, ..settings() }, MSS);
        let before = congestion.cwnd();
        congestion.handle_ack(&ack(Instant::ZERO, 5 * MSS, &congestion));
        (congestion.cwnd() - before) / MSS
    };
    assert_eq!(grown(Counting::Acks), 1);
    assert_eq!(grown(Counting::Bytes { limit: Some(2) }), 2);
    assert_eq!(grown(Counting::Bytes { limit: None }), 5);
}

#[test]
fn a_window_that_is_not_in_use_does_not_grow() {
    for growth in CongestionAlgorithm::ALL.into_iter().filter(|growth| *growth != CongestionAlgorithm::Bbr) {
        for ssthresh in [20 * MSS, u32::MAX] {
            let after = |cwnd_validation| {
                let settings = Settings { cwnd_validation, ..settings().with_congestion_control(growth) };
                let mut congestion = Congestion::new(&settings, MSS);
                congestion.window.ssthresh = ssthresh;
                congestion.set_cwnd(40 * MSS);
                for number in 1..=800 {
                    let now = Instant::from_millis(number);
                    let round_ended = number % 40 == 0;
                    let ack = Ack { window_limited: false, round_ended, ..ack(now, MSS, &congestion) };
                    congestion.handle_ack(&ack);
                }
                congestion.cwnd()
            };
            assert_eq!(after(true), 40 * MSS, "{growth:?}");
            assert!(after(false) > 45 * MSS, "{growth:?}");
        }
    }
}

#[test]
fn idle_halves_the_window_for_each_timeout_down_to_the_initial_one() {
    let after = |seconds: u64| {
        let mut congestion = Congestion::new(&settings(), MSS);
        congestion.set_cwnd(100 * MSS);
        let idle = Duration::from_secs(seconds) + Duration::from_millis(1);
        congestion.handle_idle(Instant::ZERO, idle, Duration::from_secs(1), 10 * MSS);
        (congestion.cwnd() / MSS, congestion.ssthresh())
    };
    assert_eq!([1, 2, 3, 4, 9].map(|seconds| after(seconds).0), [50, 25, 12, 10, 10]);
    let mut old = Congestion::new(&Settings { cwnd_validation: false, ..settings() }, MSS);
    old.set_cwnd(100 * MSS);
    old.reduce(100 * MSS, CongestionSignal::Loss);
    old.handle_idle(Instant::ZERO, Duration::from_secs(1), Duration::ZERO, 2 * MSS);
    assert_eq!((old.cwnd(), old.ssthresh()), (2 * MSS, 50 * MSS), "RFC 5681 at once");
    let mut never = Congestion::new(&Settings { restart_after_idle: false, ..settings() }, MSS);
    never.set_cwnd(100 * MSS);
    never.handle_idle(Instant::ZERO, Duration::from_secs(9), Duration::ZERO, 10 * MSS);
    assert_eq!(never.cwnd(), 100 * MSS);
}

#[test]
fn idle_leaves_a_threshold_of_three_quarters_to_come_back_to() {
    let mut congestion = Congestion::new(&settings(), MSS);
    congestion.set_cwnd(100 * MSS);
    congestion.reduce(60 * MSS, CongestionSignal::Loss);
    congestion.set_cwnd(100 * MSS);
    congestion.handle_idle(Instant::ZERO, Duration::from_secs(9), Duration::ZERO, 10 * MSS);
    assert_eq!((congestion.cwnd(), congestion.ssthresh()), (10 * MSS, 75 * MSS));
}

/// Whatever happens, in whatever order.
#[test]
fn every_controller_keeps_its_bounds_under_any_operations() {
    for growth in CongestionAlgorithm::ALL {
        for slow_start in SlowStart::ALL {
            for seed in 0..12 {
                operations(&settings().with_congestion_control(growth).with_slow_start(slow_start), seed);
            }
        }
    }
}

fn operations(settings: &Settings, seed: u64) {
    let by_loss = !matches!(
        settings.algorithm,
        CongestionAlgorithm::Vegas | CongestionAlgorithm::Compound | CongestionAlgorithm::Bbr
    );
    let mut rng = Rng::new(seed, "congestion");
    let mss = [1, 536, 1448, 65_000][rng.below(4) as usize];
    let mut congestion = Congestion::new(settings, mss);
    let mut now = Instant::ZERO;
    for _ in 0..4000 {
        now += Duration::from_micros(1 << rng.below(24));
        let before = congestion.cwnd();
        match rng.below(100) {
            0 => {
                congestion.reduce(rng.below(u64::from(before) * 2) as u32, CongestionSignal::Loss);
                assert!(congestion.cwnd() >= 2 * mss);
                assert!(congestion.cwnd() <= before.max(2 * mss), "{settings:?}: a loss made it larger");
            }
            1 => {
                congestion.reduce(rng.below(u64::from(before) * 2) as u32, CongestionSignal::Timeout);
                assert_eq!(congestion.cwnd(), mss);
            }
            2 => congestion.undo(),
            3 => {
                let idle = Duration::from_millis(rng.below(100_000));
                congestion.handle_idle(now, idle, Duration::ZERO, 10 * mss);
                assert!(congestion.cwnd() <= before);
            }
            4 => congestion.set_cwnd(rng.next_u64() as u32),
            _ => {
                let rtt = Duration::from_micros(1 + (rng.next_u64() >> (40 + rng.below(24))));
                congestion.handle_ack(&Ack {
                    now,
                    acked: (rng.next_u64() >> (34 + rng.below(30))) as u32,
                    rtt: rng.chance(0.8).then_some(rtt),
                    srtt: rtt,
                    min_rtt: rtt,
                    in_flight: rng.below(u64::from(before)) as u32,
                    round_ended: rng.chance(0.1),
                    window_limited: rng.chance(0.8),
                    delivered: rng.chance(0.7).then(|| {
                        (Rate::from_bits_per_second(rng.next_u64() >> (10 + rng.below(50))), rng.chance(0.2))
                    }),
                });
                if let Some(rate) = congestion.pacing_rate(None) {
                    assert!(rate.bits_per_second() > 0);
                }
                if by_loss {
                    assert!(congestion.cwnd() >= before, "{settings:?}: an acknowledgement made it smaller");
                }
            }
        }
        assert!(congestion.cwnd() >= mss && congestion.cwnd() <= (1 << 30));
        assert!(congestion.ssthresh() >= 2 * mss);
    }
}

#[test]
fn another_algorithm_begins_with_the_window_of_the_one_before() {
    let mut congestion = Congestion::new(&settings(), MSS);
    congestion.set_cwnd(40 * MSS);
    congestion.reduce(40 * MSS, CongestionSignal::Loss);
    congestion.set_algorithm(CongestionAlgorithm::Cubic);
    assert_eq!((congestion.cwnd(), congestion.ssthresh()), (20 * MSS, 20 * MSS));
    congestion.undo();
    assert_eq!(congestion.cwnd(), 20 * MSS, "a reduction of the one before stays");
    congestion.set_algorithm(CongestionAlgorithm::Bbr);
    assert_eq!((congestion.cwnd(), congestion.ssthresh()), (20 * MSS, u32::MAX));
    // 2/ln 2 windows of 20 segments in a round trip of 50 ms.
    let rate = congestion.pacing_rate(Some(Duration::from_millis(50))).expect("BBR paces").as_mbit();
    assert!((13.0..14.0).contains(&rate), "{rate}");
    congestion.set_algorithm(CongestionAlgorithm::Reno);
    assert_eq!((congestion.cwnd(), congestion.pacing_rate(None)), (20 * MSS, None));
}

#[test]
fn a_path_of_shorter_segments_leaves_the_window_as_many_segments() {
    let mut congestion = Congestion::new(&settings(), MSS);
    congestion.reduce(20 * MSS, CongestionSignal::Loss);
    let before = (congestion.cwnd() / MSS, congestion.ssthresh() / MSS);
    congestion.rescale(MSS / 2);
    assert_eq!((congestion.cwnd() / (MSS / 2), congestion.ssthresh() / (MSS / 2)), before);
    congestion.undo();
    assert_eq!(congestion.cwnd() / (MSS / 2), before.0, "what was before is of other segments");
}

#[test]
fn a_held_window_is_what_its_owner_sets() {
    let mut congestion = Congestion::new(&settings(), MSS);
    congestion.hold(30 * MSS);
    assert_eq!(congestion.cwnd(), 10 * MSS, "Reno has its own");
    congestion.set_algorithm(CongestionAlgorithm::Held);
    assert_eq!(congestion.cwnd(), 10 * MSS);
    for window in [30 * MSS, 2 * MSS, 5 * MSS / 2] {
        congestion.hold(window);
        for millis in 0..50 {
            congestion.handle_ack(&ack(Instant::from_millis(millis), MSS, &congestion));
        }
        assert_eq!(congestion.cwnd(), window, "acknowledgements leave it");
    }
    congestion.hold(30 * MSS);
    congestion.reduce(30 * MSS, CongestionSignal::Loss);
    assert_eq!((congestion.cwnd(), congestion.ssthresh()), (30 * MSS, 30 * MSS), "and losses");
    congestion.reduce(30 * MSS, CongestionSignal::Timeout);
    assert_eq!((congestion.cwnd(), congestion.ssthresh()), (MSS, 30 * MSS));
    for millis in 0..100 {
        congestion.handle_ack(&ack(Instant::from_millis(millis), MSS, &congestion));
    }
    assert_eq!(congestion.cwnd(), 30 * MSS, "slow start leads back to it");
}
