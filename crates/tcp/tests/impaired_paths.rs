//! Random connections of every kind: what they must never do, whatever the path does.

use std::time::Duration;

use crate::common::{End, Pair, PathAction, delayed, ms, plain};
use trunkline_tcp::{
    CongestionAlgorithm, Counting, Preset, Recovery, Settings, SlowStart, SpuriousDetection, State,
};
use trunkline_units::{Instant, Rate, Rng};

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}

fn random_settings(rng: &mut Rng) -> Settings {
    if rng.chance(0.2) {
        let mut settings = pick(rng, &Preset::ALL).settings();
        settings.timers.max_retransmissions = 15;
        return settings;
    }
    Settings {
        recovery: pick(rng, &Recovery::ALL),
        congestion_control: pick(rng, &CongestionAlgorithm::ALL),
        slow_start: pick(
            rng,
            &[
                SlowStart::Classic,
                SlowStart::Limited { max_ssthresh: 20 },
                SlowStart::HyStart,
                SlowStart::HyStartPlusPlus,
            ],
        ),
        spurious: pick(rng, &[SpuriousDetection::None, SpuriousDetection::FRto, SpuriousDetection::Eifel]),
        delayed_ack: pick(rng, &[None, Some(delayed(40, 2, 16)), Some(delayed(200, 2, 0))]),
        mss: pick(rng, &[536, 1000, 1460]),
        initial_window: pick(rng, &[1, 2, 10]),
        limited_transmit: rng.chance(0.5),
        counting: pick(
            rng,
            &[Counting::Acks, Counting::Bytes { limit: Some(2) }, Counting::Bytes { limit: None }],
        ),
        cwnd_validation: rng.chance(0.5),
        sack: rng.chance(0.6),
        timestamps: rng.chance(0.5),
        window_scaling: rng.chance(0.5),
        ecn: rng.chance(0.5),
        nagle: rng.chance(0.5),
        tso: rng.chance(0.5),
        gro: pick(rng, &[None, Some(Duration::from_micros(50)), Some(ms(5))]),
        send_buffer: pick(rng, &[3000, 20_000, 300_000]),
        receive_buffer: pick(rng, &[1500, 20_000, 300_000]),
        ..plain()
    }
}

struct Outcome {
    digest: u64,
    spurious: u64,
}

fn run(seed: u64) -> Outcome {
    let mut rng = Rng::new(seed, "commotion");
    let (client, server) = (random_settings(&mut rng), random_settings(&mut rng));
    let what = format!("seed {seed}: {client:?} to {server:?}");
    let buffers = [server.receive_buffer, client.receive_buffer];
    let mut pair = Pair::new(client, server, ms(1 + rng.below(60)));
    pair.rate = Some(Rate::from_mbit(pick(&mut rng, &[0.5, 5.0, 50.0])));
    pair.keeps_trace = false;
    pair.reads = rng.chance(0.5);
    let (loss, late, twice) =
        (pick(&mut rng, &[0.0, 0.01, 0.05, 0.12]), rng.uniform() * 0.1, rng.uniform() * 0.03);
    let jitter = 1 + rng.below(80);
    let mut path = Rng::new(seed, "path");
    pair.impair(move |_| match path.uniform() {
        draw if draw < loss => PathAction::Drop,
        draw if draw < loss + late => PathAction::Delay(ms(path.below(jitter))),
        draw if draw < loss + late + twice => PathAction::Duplicate,
        draw if draw < loss + late + twice + 0.02 => PathAction::Mark,
        _ => PathAction::Deliver,
    });
    if rng.chance(0.2) {
        pair.client.set_max_pacing_rate(Some(Rate::from_mbit(4.0)));
    }
    let total = [rng.below(120_000), rng.below(60_000)];
    let mut left = total;
    let mut closed = [false; 2];
    let mut digest = 0_u64;
    let until = Instant::from_millis(4_000_000);
    while pair.step(until) {
        let now = pair.now;
        for end in [End::Client, End::Server] {
            let index = end as usize;
            let reads = !pair.reads && rng.chance(0.3);
            let endpoint = pair.end(end);
            let state = endpoint.state();
            if left[index] > 0 && matches!(state, State::Established | State::CloseWait) {
                let chunk = left[index].min(1 + rng.below(8000));
                left[index] -= endpoint.write(chunk);
            } else if left[index] == 0 && !closed[index] && state != State::Listen {
                endpoint.close();
                closed[index] = true;
            }
            if reads {
                endpoint.read(1 + rng.below(6000));
            }
            // What is sent and not acknowledged fits what was offered, and what is unread fits the buffer.
            let (held, buffer) = (endpoint.readable(), buffers[1 - index]);
            assert!(held <= buffer + 128, "{held} bytes in a buffer of {buffer}: {what}");
            assert!(endpoint.in_flight() <= endpoint.unacknowledged() as u32 * 2 + 2, "{what}");
            let stuck = endpoint.unacknowledged() > 0 && endpoint.next_wakeup().is_none();
            assert!(!stuck, "bytes in flight and no timer: {what}");
            digest = digest.wrapping_mul(31).wrapping_add(u64::from(endpoint.cwnd()) ^ now.as_nanos());
        }
        if !pair.reads
            && pair.client.unsent() + pair.server.unsent() + pair.client.readable() + pair.server.readable()
                > 0
        {
            // Somebody reads in the end, even if nothing else happens.
            if rng.chance(0.05) {
                pair.client.read(u64::MAX);
                pair.server.read(u64::MAX);
            }
        }
        if pair.client.state() == State::Closed && pair.server.state() == State::Closed {
            break;
        }
    }
    assert_eq!((pair.server.received(), pair.client.received()), (total[0], total[1]), "{what}");
    assert_eq!((pair.client.state(), pair.server.state()), (State::Closed, State::Closed), "{what}");
    assert_eq!((pair.client.acknowledged(), pair.server.acknowledged()), (total[0], total[1]), "{what}");
    let mut spurious = 0;
    for (from, to) in [(&pair.client, &pair.server), (&pair.server, &pair.client)] {
        let (sent, got) = (from.stats(), to.stats());
        assert_eq!(sent.bytes_sent, from.acknowledged() + sent.retransmitted_bytes, "{what}");
        assert!(
            got.duplicate_bytes_received <= 2 * sent.retransmitted_bytes + sent.bytes_sent / 5 + 10_000,
            "{what}"
        );
        spurious += got.duplicates_received;
    }
    Outcome { digest, spurious }
}

#[test]
fn whatever_the_path_does_every_byte_arrives_once_and_both_close() {
    let spurious: u64 = (0..2000).map(|seed| run(seed).spurious).sum();
    assert!(spurious > 100, "the path was too quiet to show anything: {spurious}");
}

#[test]
fn the_same_seed_does_the_same() {
    for seed in [3, 77, 410] {
        assert_eq!(run(seed).digest, run(seed).digest);
    }
    assert_ne!(run(3).digest, run(4).digest);
}
