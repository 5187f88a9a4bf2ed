//! Segment scripts: small segments, idle senders, marks and pacing.

use std::time::Duration;

use crate::common::{End, MSS, Pair, PathAction, ms, plain};
use trunkline_packet::TcpFlags;
use trunkline_tcp::{Event, Recovery, Settings, Wakeup};
use trunkline_units::Rate;

const DELAY: Duration = Duration::from_millis(50);

fn lengths_of_five_small_writes(settings: Settings) -> Vec<u32> {
    let mut pair = Pair::connected(settings, DELAY);
    for _ in 0..5 {
        pair.client.write(10);
        pair.run_for(ms(1));
    }
    pair.run_for(ms(500));
    pair.sent_by(End::Client).map(|trace| trace.segment.payload).filter(|payload| *payload > 0).collect()
}

#[test]
fn nagle_holds_small_segments_until_what_is_out_is_acknowledged() {
    assert_eq!(lengths_of_five_small_writes(Settings { nagle: true, ..plain() }), [10, 40]);
    assert_eq!(lengths_of_five_small_writes(plain()), [10; 5]);
}

#[test]
fn nagle_as_in_linux_lets_a_small_segment_follow_a_full_one() {
    let sent = |recovery, sack| {
        let mut pair = Pair::connected(Settings { nagle: true, recovery, sack, ..plain() }, DELAY);
        pair.client.write(1010);
        pair.run_for(ms(40));
        pair.data_sent().len()
    };
    assert_eq!(sent(Recovery::RackTlp, true), 2);
    assert_eq!(sent(Recovery::NewReno, false), 1);
}

#[test]
fn fin_does_not_wait_for_nagle() {
    let mut pair = Pair::connected(Settings { nagle: true, ..plain() }, DELAY);
    pair.client.write(10);
    pair.run_for(ms(1));
    pair.client.write(10);
    pair.client.close();
    pair.run_for(ms(1));
    let last = pair.sent_by(End::Client).last().unwrap().segment;
    assert!(last.flags.contains(TcpFlags::FIN));
    assert_eq!(last.payload, 10);
}

#[test]
fn a_sender_that_rested_begins_with_the_initial_window() {
    for (restart_after_idle, first_flight) in [(true, 10), (false, 40)] {
        let settings = Settings { restart_after_idle, receive_buffer: 1 << 20, ..plain() };
        let mut pair = Pair::connected(settings, DELAY);
        pair.client.write(200_000);
        pair.run_for(ms(2000));
        assert!(pair.client.cwnd() >= 100 * MSS);
        pair.trace.clear();
        pair.client.write(40_000);
        pair.run_for(ms(90));
        assert_eq!(pair.data_sent().len(), first_flight);
    }
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    for (cwnd_validation, grows) in [(true, false), (false, true)] {
        let mut pair = Pair::connected(Settings { cwnd_validation, ..plain() }, DELAY);
        for _ in 0..20 {
            pair.client.write(2000);
            pair.run_for(ms(120));
        }
        assert_eq!(pair.client.cwnd() > 11 * MSS, grows, "{}", pair.client.cwnd());
    }
}

#[test]
fn a_writer_is_told_when_there_is_room_again() {
    let mut pair = Pair::connected(Settings { send_buffer: 5000, ..plain() }, DELAY);
    assert_eq!((pair.client.write(8000), pair.client.send_room()), (5000, 0));
    assert_eq!(pair.client.write(1), 0);
    pair.run_for(ms(60));
    assert!(pair.events.is_empty() || pair.events.iter().all(|event| event.2 != Event::Writable));
    pair.run_for(ms(60));
    assert_eq!(
        pair.events.iter().filter(|event| event.1 == End::Client && event.2 == Event::Writable).count(),
        1
    );
    assert_eq!((pair.client.send_room(), pair.client.acknowledged()), (5000, 5000));
}

#[test]
fn marks_reduce_the_window_once_for_a_window_of_data() {
    for (recovery, sack) in [(Recovery::NewReno, false), (Recovery::Sack, true), (Recovery::RackTlp, true)] {
        let settings =
            Settings { ecn: true, recovery, sack, initial_window: 20, receive_buffer: 1 << 20, ..plain() };
        let mut pair = Pair::connected(settings, DELAY);
        let now = pair.now;
        // All of the first flight is marked.
        pair.impair(move |trace| {
            if trace.from == End::Client && trace.at < now + ms(10) {
                PathAction::Mark
            } else {
                PathAction::Deliver
            }
        });
        pair.client.write(200_000);
        pair.run_for(ms(190));
        let stats = pair.client.stats();
        assert_eq!((stats.ecn_reductions, stats.retransmitted_segments), (1, 0), "{recovery:?}");
        assert_eq!(pair.server.stats().ce_marks_received, 20);
        let ssthresh = pair.client.ssthresh();
        assert!((9 * MSS..=11 * MSS).contains(&ssthresh), "{recovery:?}: {ssthresh}");
        pair.run_for(ms(1000));
        assert_eq!(pair.client.stats().ecn_reductions, 1, "{recovery:?}: CWR ends the echo");
        let reduced =
            pair.sent_by(End::Client).filter(|trace| trace.segment.flags.contains(TcpFlags::CWR)).count();
        assert_eq!(reduced, 1, "{recovery:?}");
        // Data can be marked; acknowledgements cannot.
        assert!(
            pair.sent_by(End::Client).all(|trace| trace.segment.ecn_capable == (trace.segment.payload > 0))
        );
        assert!(pair.sent_by(End::Server).all(|trace| !trace.segment.ecn_capable));
    }
}

#[test]
fn retransmissions_cannot_be_marked() {
    let settings = Settings { ecn: true, recovery: Recovery::Sack, sack: true, ..plain() };
    let mut pair = Pair::connected(settings, DELAY);
    pair.drop_data(&[0]);
    pair.client.write(10_000);
    pair.run_for(ms(500));
    let capable: Vec<_> = pair
        .sent_by(End::Client)
        .filter(|trace| trace.segment.payload > 0)
        .map(|trace| trace.segment.ecn_capable)
        .collect();
    assert_eq!(capable.iter().filter(|capable| !**capable).count(), 1);
    assert_eq!(pair.server.received(), 10_000);
}

/// All but the first ten of a connection, as in Linux.
#[test]
fn a_maximum_pacing_rate_spaces_segments() {
    let mut pair = Pair::connected(Settings { initial_window: 30, ..plain() }, DELAY);
    pair.client.set_max_pacing_rate(Some(Rate::from_mbit(4.0)));
    let now = pair.now;
    pair.client.write(20_000);
    pair.flush();
    assert!(matches!(pair.client.next_wakeup(), Some((_, Wakeup::Pacing))));
    pair.run_for(ms(500));
    let times: Vec<_> = pair.data_sent().iter().map(|sent| (sent.0 - now).as_micros()).collect();
    assert_eq!(times, (0..20_u128).map(|n| n.saturating_sub(9) * 2000).collect::<Vec<_>>());
}

/// As in Linux: two windows in a round trip below half of the slow-start threshold (`tcp_pacing_ss_ratio`); and they
/// stay spaced after the maximum is removed.
#[test]
fn with_a_maximum_and_after_it_segments_are_spaced_over_the_round_trip() {
    let mut pair = Pair::connected(Settings { initial_window: 30, ..plain() }, DELAY);
    for (max, unpaced) in [(Some(Rate::MAX), 9), (None, 0)] {
        pair.trace.clear();
        pair.client.set_max_pacing_rate(max);
        let (now, window, srtt) = (pair.now, pair.client.cwnd(), pair.client.srtt().unwrap());
        pair.client.write(20_000);
        // Before the first acknowledgement comes.
        pair.run_for(DELAY);
        let times: Vec<_> = pair.data_sent().iter().map(|sent| sent.0 - now).collect();
        assert_eq!(times.len(), 20, "{times:?}");
        for (number, time) in times.iter().enumerate() {
            let expected = srtt * ((number as u32).saturating_sub(unpaced) * 1000) / (window * 2);
            assert!(
                time.abs_diff(expected) < Duration::from_micros(1),
                "{number}: {time:?}, not {expected:?}"
            );
        }
        // Until all is acknowledged, and no longer: a window that rests for a timeout begins anew.
        pair.run_for(DELAY * 2);
    }
}

#[test]
fn the_delivery_rate_is_that_of_the_bottleneck() {
    let mut pair = Pair::connected(
        Settings { recovery: Recovery::RackTlp, sack: true, receive_buffer: 1 << 20, ..plain() },
        DELAY,
    );
    pair.rate = Some(Rate::from_mbit(8.32));
    pair.client.write(1 << 20);
    pair.run_for(ms(900));
    let (rate, limited) = pair.client.delivery_rate().unwrap();
    assert!(!limited);
    assert!((7_800_000..=8_100_000).contains(&rate.bits_per_second()), "{rate}");
}

/// Bytes that are written one packet at a time come to be acknowledged as evenly as they were written.
#[test]
fn gaps_between_acknowledgements_are_counted() {
    let gaps = |pauses: [u64; 2]| {
        let mut pair = Pair::connected(plain(), DELAY);
        for round in 0..40 {
            pair.client.write(MSS.into());
            pair.run_for(ms(pauses[round % 2]));
        }
        pair.run_for(ms(500));
        pair.client.stats().ack_gaps
    };
    let variation = |pauses| {
        let gaps = gaps(pauses);
        let [count, sum, squares] = [gaps.count, gaps.sum, gaps.squares].map(|n| n as f64);
        assert!(count > 15.0, "{gaps:?}");
        (count * squares / (sum * sum) - 1.0).max(0.0).sqrt()
    };
    assert!(variation([20, 20]) < 0.1, "evenly");
    assert!(variation([1, 39]) > 0.5, "in clumps");
    assert_eq!(gaps([1500, 1500]).count, 0, "a pause is no gap");
}
