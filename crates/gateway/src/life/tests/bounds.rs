//! Bounds under failures: dials per second, and work per wake-up.

use std::time::Duration;

use trunkline_units::{Instant, Rng};

use super::super::*;
use super::{SHARDS, key_of, wanted};
use trunkline_schema::Encryption;

/// The outcome of a dial, which follows at once.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    Unreachable,
    Refused,
    EndsAtOnce,
}

fn life(peers: usize, lanes: u8) -> Life {
    let mut life = Life::new(Site { key: key_of(0), shards: SHARDS, seed: 1 });
    life.reload(Instant::ZERO, &wanted((1..=peers).map(key_of), lanes, true));
    life
}

/// Dials in each second, with every dial ending at once as `outcome` says.
fn dials(life: &mut Life, seconds: u64, mut outcome: impl FnMut() -> Outcome) -> Vec<usize> {
    let mut now = Instant::ZERO;
    let mut counts = vec![0; seconds as usize];
    let mut turns = 0;
    while now < Instant::from_millis(seconds * 1000) {
        turns += 1;
        assert!(turns < 1_000_000, "it spins at {now:?}");
        while let Some(dial) = life.poll_dial(now) {
            counts[now.as_secs_f64() as usize] += 1;
            match outcome() {
                Outcome::Unreachable => {
                    life.handle_dial_failed(now, dial.attempt, Failure::Path, "unreachable");
                }
                Outcome::Refused => {
                    life.handle_connected(now, dial.attempt);
                    life.handle_dial_failed(now, dial.attempt, Failure::Lane, "refused");
                }
                Outcome::EndsAtOnce => {
                    life.handle_connected(now, dial.attempt);
                    let serial = life.next_serial();
                    let candidate = Candidate {
                        key: dial.key,
                        serial,
                        dialled: true,
                        attempt: Some(dial.attempt),
                        instance: 1,
                        encryption: Encryption::Tls,
                    };
                    assert_eq!(life.handle_up(now, candidate), Ok(Installed { replaced: None }));
                    assert!(life.handle_ended(now, serial, "ended").is_some());
                }
            }
        }
        now = life.poll_timeout().map_or(Instant::FAR_FUTURE, |(at, _)| at.max(now));
    }
    counts
}

#[test]
fn a_peer_that_cannot_be_reached_is_tried_each_second_by_one_lane() {
    let counts = dials(&mut life(1, 4), 60, || Outcome::Unreachable);
    assert!(counts[0] <= 8, "the maximum of concurrent dials, and a few more: {counts:?}");
    assert!(counts[5..].iter().all(|count| (1..=2).contains(count)), "{counts:?}");
}

#[test]
fn lanes_that_are_refused_or_end_at_once_back_off() {
    for outcome in [Outcome::Refused, Outcome::EndsAtOnce] {
        let counts = dials(&mut life(1, 4), 60, || outcome);
        // 8 lanes, each about every 4 s in the end.
        assert!(counts[0] <= 40, "{outcome:?}: {counts:?}");
        let later: usize = counts[30..].iter().sum();
        assert!((30..=120).contains(&later), "{outcome:?}: {later} in 30 s: {counts:?}");
    }
}

#[test]
fn no_mix_of_outcomes_makes_a_peer_be_dialled_without_bound() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed, "outcomes");
        let weights = [rng.below(10) + 1, rng.below(10), rng.below(10)];
        let mut draw = move || {
            let place = rng.below(weights.iter().sum());
            if place < weights[0] {
                Outcome::Unreachable
            } else if place < weights[0] + weights[1] {
                Outcome::Refused
            } else {
                Outcome::EndsAtOnce
            }
        };
        let counts = dials(&mut life(1, 4), 60, &mut draw);
        assert!(counts.iter().all(|count| *count <= 45), "seed {seed}: {counts:?}");
        assert!(counts[10..].iter().all(|count| *count <= 20), "seed {seed}: {counts:?}");
    }
}

#[test]
fn a_thousand_absent_peers_are_dialled_a_hundred_times_a_second_together() {
    let counts = dials(&mut life(1000, 2), 60, || Outcome::Unreachable);
    assert!(counts[0] <= 1000 * 4 + 100, "all lanes of each once: {}", counts[0]);
    let steady = &counts[20..];
    assert!(steady.iter().all(|count| (30..=130).contains(count)), "{steady:?}");
}

#[test]
fn a_wake_up_costs_the_same_with_ten_absent_peers_and_with_ten_thousand() {
    let cost = |peers: usize| {
        let mut life = life(peers, 4);
        let mut now = Instant::from_millis(1);
        while let Some(dial) = life.poll_dial(now) {
            life.handle_dial_failed(now, dial.attempt, Failure::Path, "unreachable");
        }
        // The best of several: what else the machine does adds to all of them.
        let turns = (0..5).map(|_| {
            let start = std::time::Instant::now();
            for _ in 0..20_000 {
                now += Duration::from_nanos(1);
                assert!(life.poll_dial(now).is_none());
                assert!(life.poll_timeout().is_some());
            }
            start.elapsed()
        });
        turns.min().unwrap_or_default()
    };
    let (few, many) = (cost(10), cost(10_000));
    assert!(many < few * 20 + Duration::from_millis(1), "{few:?} for 20 000 with 10, {many:?} with 10 000");
}
