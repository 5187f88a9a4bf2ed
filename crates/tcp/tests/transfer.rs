//! Whole connections: what is written arrives once and in order, and both ends close.

use crate::common::{self, End, Pair, PathAction, ms, plain};
use trunkline_tcp::{Event, Recovery, Settings, State, Wakeup};
use trunkline_units::{Instant, Rate, Rng};

#[test]
fn a_connection_opens_carries_data_both_ways_and_closes() {
    let mut pair = Pair::connected(plain(), ms(20));
    assert_eq!(pair.client.write(50_000), 50_000);
    assert_eq!(pair.server.write(7_000), 7_000);
    pair.run_for(ms(500));
    assert_eq!((pair.server.received(), pair.client.received()), (50_000, 7_000));
    pair.client.close();
    pair.run_for(ms(100));
    assert_eq!((pair.client.state(), pair.server.state()), (State::FinWait2, State::CloseWait));
    pair.server.close();
    pair.run_for(ms(100));
    assert_eq!((pair.client.state(), pair.server.state()), (State::TimeWait, State::Closed));
    assert!(matches!(pair.client.next_wakeup(), Some((_, Wakeup::TimeWait))));
    pair.run_for(ms(60_000));
    assert_eq!(pair.client.state(), State::Closed);
    for end in [End::Client, End::Server] {
        let heard: Vec<_> = pair.events.iter().filter(|event| event.1 == end).map(|event| event.2).collect();
        assert!(heard.contains(&Event::RemoteClosed) && heard.contains(&Event::Closed), "{heard:?}");
    }
    assert_eq!(pair.client.stats().retransmitted_segments, 0);
}

#[test]
fn a_transfer_fills_its_link() {
    for recovery in [Recovery::Tahoe, Recovery::Reno, Recovery::NewReno] {
        let mut pair = Pair::connected(Settings { recovery, ..plain() }, ms(20));
        pair.rate = Some(Rate::from_mbit(10.0));
        pair.keeps_trace = false;
        let until = pair.now + ms(10_000);
        while pair.now < until {
            pair.client.write(u64::MAX / 2);
            pair.step(until);
        }
        let bytes = pair.server.received();
        assert!((11_500_000..=12_500_000).contains(&bytes), "{recovery:?}: {bytes}");
    }
}

fn storm(recovery: Recovery, sack: bool, timestamps: bool, seed: u64) {
    let settings =
        Settings { recovery, sack, timestamps, delayed_ack: Some(common::delayed(40, 2, 4)), ..plain() };
    let what = format!("{recovery:?} sack {sack} timestamps {timestamps} seed {seed}");
    let mut pair = Pair::new(settings.clone(), settings, ms(15));
    pair.rate = Some(Rate::from_mbit(20.0));
    pair.keeps_trace = false;
    let mut rng = Rng::new(seed, "storm");
    let loss = [0.01, 0.05, 0.15][(seed % 3) as usize];
    pair.impair(move |_| match rng.uniform() {
        draw if draw < loss => PathAction::Drop,
        draw if draw < loss + 0.03 => PathAction::Delay(ms(rng.below(40))),
        draw if draw < loss + 0.05 => PathAction::Duplicate,
        _ => PathAction::Deliver,
    });
    let mut left = [150_000_u64, 60_000];
    let mut closed = [false; 2];
    let until = Instant::from_millis(4_000_000);
    while pair.step(until) {
        for end in [End::Client, End::Server] {
            let index = end as usize;
            let endpoint = pair.end(end);
            let flight = endpoint.unacknowledged();
            assert!(flight <= 1 << 20, "{what}: {flight} bytes in flight beyond the window");
            if !matches!(endpoint.state(), State::SynSent | State::Listen) && left[index] > 0 {
                left[index] -= endpoint.write(left[index]);
            } else if left[index] == 0 && !closed[index] {
                endpoint.close();
                closed[index] = true;
            }
        }
        if pair.client.state() == State::Closed && pair.server.state() == State::Closed {
            break;
        }
    }
    assert_eq!((pair.server.received(), pair.client.received()), (150_000, 60_000), "{what}");
    assert_eq!((pair.client.state(), pair.server.state()), (State::Closed, State::Closed), "{what}");
    assert!(pair.now < Instant::from_millis(2_000_000), "{what}: {:?}", pair.now);
    for end in [&pair.client, &pair.server] {
        let stats = end.stats();
        assert!(stats.bytes_sent >= end.acknowledged() + stats.retransmitted_bytes, "{what}");
    }
}

#[test]
fn every_byte_arrives_once_and_in_order_through_loss_reordering_and_duplication() {
    for recovery in [Recovery::Tahoe, Recovery::Reno, Recovery::NewReno, Recovery::Sack, Recovery::RackTlp] {
        for (sack, timestamps) in [(false, false), (false, true), (true, false), (true, true)] {
            for seed in 0..12 {
                storm(recovery, sack, timestamps, seed);
            }
        }
    }
}
