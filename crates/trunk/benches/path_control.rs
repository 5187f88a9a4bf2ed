//! The cost of path control: what a gateway pays for each snapshot of a busy lane, with the arrivals that it and the far end report.
//! `cargo bench -p trunkline-trunk --bench path_control`.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock; the crate under test does not"
)]

use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use trunkline_trunk::LaneId;
use trunkline_trunk::path::{Arrival, GroupShare, LaneDemand, PathControl, PathLane, PathMode, Signal};
use trunkline_units::{Instant, Rng};

/// From one snapshot of a lane to the next; the far end reports twice as often.
const STEP: Duration = Duration::from_millis(20);
/// 50 Mbit/s, shared by the lanes of a peer.
const BYTES_PER_STEP: u64 = 125_000;
const RTT: Duration = Duration::from_millis(30);
const STEPS: u64 = 250;

/// A peer whose lanes always have something to send.
struct Peer {
    control: PathControl,
    bytes: u64,
}

impl Peer {
    /// One snapshot of each lane. The least delay varies by the queue of a bottleneck.
    fn step(&mut self, now: Instant, lanes: u8, queue: Duration) {
        let part = BYTES_PER_STEP / u64::from(lanes);
        self.bytes += part;
        for number in 0..lanes {
            let lane = PathLane::new(0, LaneId(number));
            let demand = LaneDemand {
                waiting: true,
                busy: true,
                segment: 1448.0,
                min_rtt: Some(RTT),
                window_rate: None,
                segments_sent: (self.bytes / 1460) as u32,
                retransmissions: 0,
            };
            self.control.handle_demand(now, lane, GroupShare::weighted(number.into(), 1.0), demand);
            let half = (now - STEP / 2, self.bytes - part / 2);
            for (signal, (at, bytes), delay) in [
                (Signal::OneWay, half, RTT / 2),
                (Signal::OneWay, (now, self.bytes), RTT / 2),
                (Signal::RoundTrip, (now, self.bytes), RTT),
            ] {
                let delay = Some((delay + queue).as_micros() as u32);
                let arrival = Arrival { signal, at, bytes, delay, paced: Duration::ZERO, age: Some(RTT) };
                black_box(self.control.handle_arrival(now, lane, arrival));
            }
            black_box(self.control.grant(lane));
        }
    }
}

/// ns of a snapshot of a lane, with so many peers of so many lanes.
fn round(peers: usize, lanes: u8) -> f64 {
    let mut all: Vec<Peer> = (0..peers).map(|_| Peer { control: PathControl::default(), bytes: 0 }).collect();
    let mut rng = Rng::new(1, "queues");
    let start = Clock::now();
    for step in 1..=STEPS {
        // The first second has a queue, so that the path is held from then on.
        let most = if step < 50 { 40_000 } else { 4000 };
        for peer in &mut all {
            let queue = Duration::from_micros(rng.next_u64() % most);
            peer.step(Instant::ZERO + STEP * step as u32, lanes, queue);
        }
    }
    let elapsed = start.elapsed();
    let held = all.iter().filter(|peer| peer.control.mode() == PathMode::Held).count();
    assert!(held > peers / 2, "{held} of {peers} paths are held");
    elapsed.as_nanos() as f64 / (STEPS as f64 * peers as f64 * f64::from(lanes))
}

fn main() {
    println!("path control, ns for each snapshot of a busy lane with three arrivals; best of 5 rounds");
    println!("{:>8} {:>8} {:>8} {:>30}", "peers", "lanes", "ns", "of a core, all lanes busy, %");
    for (peers, lanes) in [(1, 1), (1, 3), (1, 32), (1000, 1), (1000, 3)] {
        let best = (0..5).map(|_| round(peers, lanes)).fold(f64::INFINITY, f64::min);
        let lanes_in_all = peers as f64 * f64::from(lanes);
        let part = 100.0 * best * 1e-9 * lanes_in_all / STEP.as_secs_f64();
        println!("{peers:>8} {lanes:>8} {best:>8.0} {part:>30.2}");
    }
}
