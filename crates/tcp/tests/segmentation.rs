//! Segment scripts: super-packets of a sender, and a receiver that acknowledges several segments as one.

use std::time::Duration;

use crate::common::{MSS, Pair, PathAction, delayed, ms, plain};
use trunkline_tcp::{CongestionAlgorithm, Recovery, Settings};
use trunkline_units::{Instant, Rate};

const DELAY: Duration = Duration::from_millis(20);

fn offload() -> Settings {
    Settings {
        tso: true,
        recovery: Recovery::RackTlp,
        sack: true,
        delayed_ack: Some(delayed(40, 2, 0)),
        receive_buffer: 4 << 20,
        send_buffer: 4 << 20,
        ..plain()
    }
}

/// How many segments left at each instant, from `from` on.
fn bursts(pair: &Pair, from: Instant) -> Vec<u32> {
    let mut bursts: Vec<(Instant, u32)> = Vec::new();
    for (at, _) in pair.data_sent().into_iter().filter(|(at, _)| *at >= from) {
        match bursts.last_mut() {
            Some((last, count)) if *last == at => *count += 1,
            _ => bursts.push((at, 1)),
        }
    }
    bursts.into_iter().map(|(_, count)| count).collect()
}

/// A long transfer over a link of this rate, whose way back acknowledges each segment, after two seconds.
fn steady(settings: Settings, mbit: f64) -> (Vec<u32>, Pair) {
    let mut pair = Pair::connected(settings, DELAY);
    pair.rate = Some(Rate::from_mbit(mbit));
    let mut sent = 0;
    // One loss, so that slow start ends, and the recovery too.
    let lost = if mbit < 10.0 { 40 } else { 300 };
    pair.impair(move |trace| {
        sent += u32::from(trace.segment.payload > 0);
        if sent == lost { PathAction::Drop } else { PathAction::Deliver }
    });
    pair.client.write(4 << 20);
    let from = pair.now + ms(2000);
    while pair.now < from + ms(500) {
        pair.run_for(ms(1));
        pair.client.write(4 << 20);
    }
    (bursts(&pair, from), pair)
}

#[test]
fn super_packets_are_of_what_a_millisecond_sends_and_of_two_segments_at_least() {
    for mbit in [2.0, 100.0] {
        let (bursts, pair) = steady(offload(), mbit);
        let largest = bursts.iter().max().copied().unwrap_or(0);
        // Six fifths of what the window sends in a 1024th of a second.
        let srtt = pair.client.srtt().unwrap_or_default().as_secs_f64();
        let bytes = f64::from(pair.client.cwnd()) / srtt * 1.2 / 1024.0;
        let expected = ((bytes / f64::from(MSS)) as u32).max(2);
        assert!(largest.abs_diff(expected) <= 1, "{mbit} Mbit/s: {largest}, {expected}");
        assert_eq!(expected == 2, mbit < 10.0);
        let often = bursts.iter().filter(|burst| **burst >= largest - 1).count();
        assert!(often > bursts.len() / 2, "{mbit} Mbit/s: {bursts:?}");
        assert_eq!(pair.client.stats().timeouts, 0);
    }
    let (bursts, _) = steady(Settings { tso: false, ..offload() }, 100.0);
    assert!(bursts.iter().all(|burst| *burst <= 3), "an acknowledgement of two lets out two, or three");
}

#[test]
fn no_more_than_half_of_the_window_leaves_in_one_super_packet() {
    let mut pair = Pair::connected(Settings { initial_window: 20, ..offload() }, DELAY);
    let now = pair.now;
    pair.client.write(1 << 20);
    pair.run_for(ms(10));
    // Two of ten each follow each other at one instant: all of the window.
    assert_eq!(bursts(&pair, now), [20]);
    assert_eq!(pair.client.in_flight(), 20 * MSS);
}

#[test]
fn a_paced_sender_waits_for_the_time_of_the_whole_super_packet() {
    let settings = Settings { congestion_control: CongestionAlgorithm::Bbr, ..offload() };
    let (sizes, pair) = steady(settings, 50.0);
    let bytes: u32 = sizes.iter().sum::<u32>() * MSS;
    let mbit = f64::from(bytes) * 8.0 / 0.5 / 1e6;
    assert!(sizes.iter().all(|burst| (2..=9).contains(burst)), "{sizes:?}");
    assert!((40.0..65.0).contains(&mbit), "{mbit}");
    assert_eq!(pair.client.stats().timeouts, 0);
}

#[test]
fn a_receiver_that_gathers_acknowledges_as_one_what_comes_in_time() {
    let acks = |gro: Option<Duration>| {
        let settings = Settings { gro, tso: false, initial_window: 20, ..offload() };
        let mut pair = Pair::connected(settings, DELAY);
        // A segment in 83 µs.
        pair.rate = Some(Rate::from_mbit(100.0));
        pair.client.write(u64::from(20 * MSS));
        pair.run_for(ms(100));
        assert_eq!(pair.server.received(), u64::from(20 * MSS));
        pair.acks().len()
    };
    // The first read opens the window.
    assert_eq!(acks(None), 11);
    // From the second segment on, six of each seven more.
    let gathered = acks(Some(Duration::from_micros(500)));
    assert!((4..=5).contains(&gathered), "{gathered}");
    assert_eq!(acks(Some(Duration::from_micros(1))), 11);
}

#[test]
fn a_gap_is_reported_at_once_for_all_that_a_receiver_gathers() {
    let mut pair = Pair::connected(Settings { gro: Some(ms(5)), tso: false, ..offload() }, DELAY);
    let now = pair.now;
    pair.drop_data(&[3]);
    pair.client.write(u64::from(10 * MSS));
    pair.run_for(ms(22));
    let at: Vec<_> = pair.acks().into_iter().map(|(at, _)| (at - now).as_millis()).collect();
    assert_eq!(
        at, [20; 7],
        "one of the first read and for each segment beyond the gap, and none of 5 ms later"
    );
}
