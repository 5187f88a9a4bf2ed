//! Segment scripts: how losses are found and repaired, one rule each.

use std::time::Duration;

use crate::common::{self, End, MSS, Pair, PathAction, ms, plain};
use trunkline_tcp::{Counting, Preset, Recovery, RtoRule, Settings, SpuriousDetection};
use trunkline_units::{Rate, Rng, Seq};

/// Round trip of all scripts: 100 ms.
const DELAY: Duration = Duration::from_millis(50);

fn with(recovery: Recovery) -> Settings {
    let sack = matches!(recovery, Recovery::Sack | Recovery::RackTlp);
    let mut settings = Settings { recovery, sack, ..plain() };
    if recovery == Recovery::RackTlp {
        settings.timers.rto = RtoRule::Linux;
    }
    settings
}

/// Writes so many segments, drops those numbered, and runs for a while.
fn script(settings: Settings, segments: u32, dropped: &[u64], run: u64) -> Pair {
    let mut pair = Pair::connected(settings, DELAY);
    pair.drop_data(dropped);
    pair.client.write(u64::from(segments * MSS));
    pair.run_for(ms(run));
    pair
}

fn millis_since_first(pair: &Pair, index: usize) -> u128 {
    let sent = pair.data_sent();
    (sent[index].0 - sent[0].0).as_millis()
}

#[test]
fn the_third_duplicate_and_not_the_second_retransmissions_a_segment() {
    // Segments 3 to 5 make three duplicates of what 2 leaves open; 3 and 4 alone make two.
    let three = script(with(Recovery::NewReno), 6, &[2], 150);
    assert_eq!(three.data_sent().last().unwrap().1, 2);
    assert_eq!(millis_since_first(&three, 6), 100);
    assert_eq!(three.client.stats().fast_recoveries, 1);

    let two = script(with(Recovery::NewReno), 5, &[2], 150);
    assert_eq!(two.data_sent().len(), 5);
    let mut two = two;
    two.run_for(ms(1000));
    assert_eq!((two.client.stats().fast_recoveries, two.client.stats().timeouts), (0, 1));
    assert_eq!(two.server.received(), 5000);
}

#[test]
fn limited_transmit_sends_one_new_segment_for_each_of_two_duplicates() {
    let order = |limited_transmit| {
        let pair = script(Settings { limited_transmit, ..with(Recovery::NewReno) }, 40, &[0], 120);
        pair.data_sent()[10..].iter().map(|sent| sent.1).take(3).collect::<Vec<_>>()
    };
    assert_eq!(order(true), [10, 11, 0]);
    assert_eq!(order(false)[0], 0);
}

#[test]
fn a_fast_retransmit_halves_the_flight() {
    let pair = script(with(Recovery::NewReno), 40, &[0], 120);
    assert_eq!(pair.client.ssthresh(), 5 * MSS);
    // Nine segments came after the first: ssthresh, three and six more.
    assert_eq!(pair.client.cwnd(), (5 + 9) * MSS);
    let new = pair.data_sent()[10..].iter().filter(|sent| sent.1 >= 10).count();
    assert_eq!(new, 4);
}

#[test]
fn a_partial_acknowledgement_retransmissions_the_next_hole_at_once() {
    let pair = script(with(Recovery::NewReno), 10, &[1, 4, 7], 600);
    let retransmissions: Vec<_> = pair.data_sent()[10..].iter().map(|sent| sent.1).collect();
    assert_eq!(retransmissions, [1, 4, 7]);
    assert_eq!([10, 11, 12].map(|index| millis_since_first(&pair, index)), [100, 200, 300]);
    let stats = pair.client.stats();
    assert_eq!((stats.fast_recoveries, stats.timeouts), (1, 0));
    // RFC 6582 §3.2 step 3: min(ssthresh, max(flight, one segment) + one segment).
    assert_eq!(pair.client.cwnd(), 2 * MSS);
}

#[test]
fn only_the_first_partial_acknowledgement_puts_the_timer_off() {
    // With ten losses and one repeat a round trip, the timer of 300 ms runs out before the end.
    let losses: Vec<u64> = (0..10).map(|n| 2 * n).collect();
    let settings = Settings { initial_window: 24, ..with(Recovery::NewReno) };
    let pair = script(settings, 24, &losses, 3000);
    let stats = pair.client.stats();
    assert_eq!((stats.fast_recoveries, stats.timeouts), (1, 1));
    assert_eq!(pair.server.received(), 24_000);
}

#[test]
fn reno_leaves_recovery_with_the_first_new_acknowledgement() {
    let pair = script(with(Recovery::Reno), 10, &[1, 4], 150);
    let mut pair = pair;
    pair.run_for(ms(80));
    // The hole at 4 is open, but the window is ssthresh and nothing retransmissions it.
    assert_eq!((pair.client.cwnd(), pair.data_sent().len()), (pair.client.ssthresh(), 11));
    pair.run_for(ms(1000));
    assert_eq!((pair.client.stats().fast_recoveries, pair.client.stats().timeouts), (1, 1));
    assert_eq!(pair.server.received(), 10_000);
}

#[test]
fn tahoe_begins_again_from_one_segment() {
    let settings = Settings { counting: Counting::Acks, ..with(Recovery::Tahoe) };
    let pair = script(settings, 40, &[2], 120);
    assert_eq!((pair.client.cwnd(), pair.client.ssthresh()), (MSS, 6 * MSS));
    assert_eq!(pair.data_sent().last().unwrap().1, 2);
    let sent = pair.data_sent().len();
    let mut pair = pair;
    pair.run_for(ms(100));
    // Slow start: the acknowledgement of all allows two.
    assert_eq!(pair.client.cwnd(), 2 * MSS);
    assert_eq!(pair.data_sent().len() - sent, 2);
}

#[test]
fn duplicates_of_what_a_timeout_retransmitted_mean_no_loss() {
    // The acknowledgements come 500 ms late, so everything is sent again and answered by duplicates.
    let mut pair = Pair::connected(with(Recovery::NewReno), DELAY);
    let end = pair.now + ms(500);
    pair.impair(move |trace| {
        if trace.from == End::Server && trace.at < end {
            PathAction::Delay(ms(500))
        } else {
            PathAction::Deliver
        }
    });
    pair.client.write(10_000);
    pair.run_for(ms(3000));
    let stats = pair.client.stats();
    assert_eq!((stats.fast_recoveries, stats.timeouts), (0, 1));
    assert!(pair.server.stats().duplicates_received >= 4);
}

#[test]
fn what_is_in_flight_by_the_scoreboard_keeps_to_the_window() {
    for recovery in [Recovery::Sack, Recovery::RackTlp] {
        let settings = Settings { initial_window: 40, ..with(recovery) };
        let mut pair = Pair::connected(settings, DELAY);
        pair.rate = Some(Rate::from_mbit(8.0));
        pair.drop_data(&[3, 5, 7, 20]);
        let now = pair.now;
        pair.client.write(400_000);
        let mut recovered = false;
        while pair.step(now + ms(2000)) {
            if pair.client.stats().fast_recoveries > 0 && pair.client.ssthresh() < u32::MAX {
                recovered |= pair.client.in_flight() <= pair.client.cwnd();
                // By the end of the halving nothing is above it any more.
                if pair.now > now + ms(320) {
                    let (flight, cwnd) = (pair.client.in_flight(), pair.client.cwnd());
                    assert!(flight <= cwnd, "{recovery:?}: {flight} in flight of {cwnd}");
                }
            }
        }
        assert!(recovered);
        let stats = pair.client.stats();
        let got = (stats.retransmitted_segments, stats.timeouts, stats.fast_recoveries);
        assert_eq!(got, (4, 0, 1), "{recovery:?}");
    }
}

#[test]
fn the_scoreboard_repairs_many_losses_in_one_round_trip() {
    for recovery in [Recovery::Sack, Recovery::RackTlp] {
        let settings = Settings { initial_window: 30, ..with(recovery) };
        let pair = script(settings, 30, &[0, 3, 6, 9, 12], 400);
        let retransmissions: Vec<_> = pair.data_sent()[30..]
            .iter()
            .map(|sent| (sent.1, (sent.0 - pair.data_sent()[0].0).as_millis()))
            .collect();
        assert_eq!(retransmissions, [0, 3, 6, 9, 12].map(|number| (number, 100)), "{recovery:?}");
        assert_eq!(pair.server.received(), 30_000);
    }
}

#[test]
fn the_last_segment_is_rescued_once() {
    // Nothing lies above 9, so no count of what is above can show its loss (RFC 6675 §4 NextSeg rule 4).
    let pair = script(with(Recovery::Sack), 10, &[0, 9], 290);
    let retransmissions: Vec<_> = pair.data_sent()[10..].iter().map(|sent| sent.1).collect();
    assert_eq!(retransmissions, [0, 9]);
    assert_eq!(pair.client.stats().timeouts, 0);
    assert_eq!(pair.server.received(), 10_000);
}

#[test]
fn the_window_after_recovery_by_the_scoreboard_is_ssthresh() {
    for recovery in [Recovery::Sack, Recovery::RackTlp] {
        let settings = Settings { initial_window: 20, ..with(recovery) };
        let mut pair = Pair::connected(settings, DELAY);
        pair.drop_data(&[0]);
        pair.client.write(1_000_000);
        pair.run_for(ms(195));
        assert_eq!(pair.client.ssthresh(), 10 * MSS, "{recovery:?}");
        // The acknowledgement that ends it comes at 200 ms.
        pair.run_for(ms(6));
        let cwnd = pair.client.cwnd();
        assert!((10 * MSS..=11 * MSS).contains(&cwnd), "{recovery:?}: {cwnd}");
    }
}

#[test]
fn rack_finds_a_loss_by_time_with_one_segment_delivered_after_it() {
    let pair = script(with(Recovery::RackTlp), 2, &[0], 400);
    assert_eq!(pair.data_sent()[2].1, 0);
    // A round trip, a quarter of it, and two ticks of the kernel's clock.
    let at = millis_since_first(&pair, 2);
    assert!((125..=134).contains(&at), "{at}");
    assert_eq!((pair.client.stats().timeouts, pair.client.stats().loss_probes), (0, 0));
    assert_eq!(pair.server.received(), 2000);
}

#[test]
fn rack_needs_no_time_once_three_segments_are_delivered() {
    let pair = script(with(Recovery::RackTlp), 4, &[0], 400);
    assert_eq!((pair.data_sent()[4].1, millis_since_first(&pair, 4)), (0, 100));
}

#[test]
fn rack_finds_a_retransmission_that_was_lost() {
    let settings = Settings { initial_window: 20, ..with(Recovery::RackTlp) };
    let mut pair = Pair::connected(settings, DELAY);
    let mut count = 0;
    pair.impair(move |trace| {
        let first = trace.from == End::Client
            && trace.segment.payload > 0
            && trace.segment.seq == common::CLIENT_ISS + 1;
        count += u32::from(first);
        if first && count <= 2 { PathAction::Drop } else { PathAction::Deliver }
    });
    let now = pair.now;
    pair.client.write(200_000);
    pair.run_for(ms(4000));
    let stats = pair.client.stats();
    assert_eq!((stats.retransmitted_segments, stats.timeouts), (2, 0));
    assert_eq!(pair.server.received(), 200_000);
    let firsts: Vec<_> =
        pair.data_sent().iter().filter(|sent| sent.1 == 0).map(|sent| (sent.0 - now).as_millis()).collect();
    assert!(firsts[1] == 100 && (200..=235).contains(&firsts[2]), "{firsts:?}");
}

/// One of the client's first transmissions from here on comes late.
#[test]
fn a_segment_a_little_late_is_not_retransmitted() {
    let mut pair = Pair::connected(with(Recovery::RackTlp), DELAY);
    pair.delay_next(ms(20));
    pair.client.write(2000);
    pair.run_for(ms(500));
    assert_eq!(pair.client.stats().retransmitted_segments, 0);
}

#[test]
fn the_reordering_window_widens_with_each_reported_duplicate() {
    let mut pair = Pair::connected(with(Recovery::RackTlp), DELAY);
    let mut retransmissions = Vec::new();
    for _ in 0..3 {
        // A quarter of the round trip and two ticks are 33 ms; half of it 58.
        pair.delay_next(ms(45));
        let before = pair.client.stats().retransmitted_segments;
        pair.client.write(2000);
        pair.run_for(ms(600));
        retransmissions.push(pair.client.stats().retransmitted_segments - before);
    }
    assert_eq!(retransmissions, [1, 0, 0]);
    assert_eq!(pair.server.stats().duplicates_received, 1);
}

/// Ten losses of one window take ten round trips to repair without SACK. With samples of every acknowledgement the
/// variance has decayed by then, so RFC 6298's timeout is hardly more than a round trip, and a timer that only the first partial
/// acknowledgement restarts runs out. Linux restarts it each time, and adds its floor to the round trip.
#[test]
fn a_recovery_without_sack_lasts_many_round_trips_without_a_timeout_by_linux_rule() {
    let lost: Vec<u64> = (100..120).step_by(2).collect();
    let timeouts = |rto, timestamps| {
        let mut settings = Settings { timestamps, initial_window: 40, ..with(Recovery::NewReno) };
        settings.timers.rto = rto;
        settings.receive_buffer = 1 << 20;
        settings.window_scaling = true;
        let pair = script(settings, 200, &lost, 6000);
        assert_eq!(pair.server.received(), u64::from(200 * MSS), "{rto:?}");
        pair.client.stats().timeouts
    };
    for timestamps in [false, true] {
        assert_eq!(timeouts(RtoRule::Linux, timestamps), 0, "timestamps {timestamps}");
    }
    assert!(timeouts(RtoRule::Rfc6298, true) > 0, "the script no longer shows the difference");
}

#[test]
fn a_tail_loss_probe_goes_before_the_timeout() {
    let pair = script(with(Recovery::RackTlp), 5, &[4], 500);
    assert_eq!(pair.data_sent()[5].1, 4);
    // Two round trips and two ticks after the acknowledgement of the others.
    let at = millis_since_first(&pair, 5);
    // One segment is left then: Linux allows its smallest RTO, and no more than the RTO itself.
    assert!((390..=410).contains(&at), "{at}");
    let stats = pair.client.stats();
    assert_eq!((stats.loss_probes, stats.timeouts), (1, 0));
}

#[test]
fn a_probe_of_several_segments_waits_two_round_trips() {
    // A short path: the timeout must not come before the answer to the probe.
    let mut pair = Pair::connected(with(Recovery::RackTlp), ms(20));
    pair.drop_data(&[0, 1, 2, 3, 4]);
    pair.client.write(5000);
    pair.run_for(ms(500));
    // The timer is set by the last transmission: 2·srtt and two ticks.
    assert_eq!(millis_since_first(&pair, 5), 88);
    assert_eq!(pair.data_sent()[5].1, 4);
    let stats = pair.client.stats();
    assert_eq!((stats.loss_probes, stats.timeouts), (1, 0), "its SACK shows the others lost");
    assert_eq!(pair.server.received(), 5000);
}

#[test]
fn a_loss_that_a_probe_repaired_shrinks_the_window() {
    let mut pair = script(with(Recovery::RackTlp), 5, &[4], 600);
    assert_eq!(pair.client.ssthresh(), u32::MAX);
    pair.client.write(1000);
    pair.run_for(ms(200));
    assert!(pair.client.ssthresh() <= 8 * MSS, "{}", pair.client.ssthresh());
    assert_eq!(pair.client.stats().fast_recoveries, 1);
}

#[test]
fn proportional_reduction_sends_by_what_is_delivered() {
    // 60 segments in flight, one a millisecond; one is lost. The window goes from 60 to 30 over a round trip: one
    // segment out for two delivered, never a burst.
    let settings = Settings { initial_window: 60, receive_buffer: 1 << 20, ..with(Recovery::RackTlp) };
    let mut pair = Pair::connected(settings, ms(20));
    pair.rate = Some(Rate::from_mbit(8.32));
    pair.drop_data(&[0]);
    let now = pair.now;
    pair.client.write(1_000_000);
    pair.run_for(ms(100));
    let sent = pair.data_sent();
    let during = &sent[60..];
    assert_eq!(during[0].1, 0, "the retransmission goes first, whatever the window");
    assert!((28..=32).contains(&during.len()), "{}", during.len());
    for three in during.windows(3) {
        assert!(three[2].0 > three[0].0, "three at once");
    }
    // Spread over all of it.
    let early = during.iter().filter(|sent| sent.0 < now + ms(74)).count();
    assert!((14..=18).contains(&early), "{early}");
}

#[test]
fn proportional_reduction_below_ssthresh_sends_no_more_than_is_delivered() {
    // Forty of sixty are lost: what is in flight falls below ssthresh, and is not filled up at once.
    let losses: Vec<u64> = (0..40).collect();
    let settings = Settings {
        initial_window: 60,
        receive_buffer: 1 << 20,
        spurious: SpuriousDetection::None,
        ..with(Recovery::RackTlp)
    };
    let mut pair = Pair::connected(settings, ms(20));
    pair.rate = Some(Rate::from_mbit(8.32));
    pair.drop_data(&losses);
    pair.client.write(1_000_000);
    pair.run_for(ms(104));
    let sent = pair.data_sent();
    // Twenty arrive, and nothing is acknowledged: Linux lets no more go than they.
    let round = sent[60..].len();
    assert!((17..=20).contains(&round), "{round}");
    pair.run_for(ms(1000));
    assert_eq!(pair.client.stats().timeouts, 0);
}

#[test]
fn a_retransmission_is_counted_with_its_bytes() {
    let pair = script(with(Recovery::Sack), 12, &[1, 2], 500);
    let stats = pair.client.stats();
    assert_eq!((stats.retransmitted_segments, stats.retransmitted_bytes), (2, 2000));
    assert_eq!((stats.data_segments_sent, stats.bytes_sent), (14, 14_000));
    assert_eq!(pair.server.stats().duplicates_received, 0);
}

#[test]
fn sequence_numbers_wrap_during_recovery() {
    // CLIENT_ISS is 5000 below the end of the space.
    let pair = script(with(Recovery::Sack), 30, &[3, 4, 5, 6], 900);
    assert!(Seq::before(common::CLIENT_ISS, common::CLIENT_ISS + 30_000));
    assert_eq!(pair.server.received(), 30_000);
    assert_eq!(pair.client.stats().retransmitted_segments, 4);
}

#[test]
fn an_acknowledgement_in_order_and_by_sack_goes_by_the_round_trip_of_what_is_in_order() {
    let settings = Settings { delayed_ack: Some(common::delayed(200, 2, 0)), ..with(Recovery::RackTlp) };
    let mut pair = Pair::connected(settings, ms(50));
    pair.drop_data(&[1]);
    let begin = pair.now;
    for (at, segments) in [(0, 2), (30, 1), (40, 1)] {
        pair.run_until(begin + ms(at));
        pair.client.write(u64::from(segments * MSS));
    }
    pair.run_for(ms(300));
    // 0 is kept back and acknowledged with the report of 2, which left 30 ms after 1: more than the reordering window of 25 ms.
    // But 0 took the 30 ms longer too. The report of 3, by itself, shows the loss.
    let retransmissions: Vec<_> =
        pair.data_sent().iter().filter(|sent| sent.1 == 1).map(|sent| sent.0 - begin).collect();
    assert_eq!(retransmissions, [ms(0), ms(140)]);
}

/// Nothing is delayed or reordered, so every loss is one, and no reduction is to be taken back: not either when a recovery begins
/// with retransmissions of the one before in flight.
#[test]
fn no_reduction_is_spurious_on_a_path_that_only_loses() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed, "losses");
        let settings = Settings { initial_receive_buffer: None, ..Preset::Linux6Reno.settings() };
        let mut pair = Pair::connected(settings, ms(40));
        pair.keeps_trace = false;
        pair.rate = Some(Rate::from_mbit(10.0));
        pair.impair(move |trace| {
            let data = trace.from == End::Client && trace.segment.payload > 0;
            if data && rng.below(25) == 0 { PathAction::Drop } else { PathAction::Deliver }
        });
        for _ in 0..500 {
            pair.client.write(u64::MAX / 2);
            pair.run_for(ms(10));
        }
        let stats = pair.client.stats();
        assert!(stats.fast_recoveries > 5, "seed {seed}: {}", stats.fast_recoveries);
        assert_eq!(stats.undone_reductions, 0, "seed {seed}");
    }
}
