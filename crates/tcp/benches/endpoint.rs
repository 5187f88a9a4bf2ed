//! The cost of a data segment with what acknowledges it, through both endpoints. It must not grow with the window.
//! `cargo bench -p trunkline-tcp`; a word of its arguments picks the rows with that word in them.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and its arguments; the crate under test does not"
)]

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use trunkline_tcp::{Endpoint, Event, Preset, Segment, Settings};
use trunkline_units::{Instant, Seq};

const SEGMENTS: u64 = 2_000_000;
const SPACING: Duration = Duration::from_micros(12);

fn main() {
    let only = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    println!("endpoint, ns per data segment and its acknowledgement: best of 5 rounds");
    println!("{:>14} {:>8} {:>8} {:>10} {:>8}", "preset", "window", "loss", "ns", "acks");
    for preset in Preset::ALL {
        for window in [10, 100, 1000, 10_000] {
            for loss in [0, 1000] {
                let row = format!("{:>14} {window:>8} {loss:>8}", preset.name());
                if only.as_ref().is_some_and(|only| !row.contains(only.as_str())) {
                    continue;
                }
                let settings = Settings {
                    send_buffer: 100_000_000,
                    receive_buffer: window * 1460,
                    window_scaling: true,
                    ..preset.settings()
                };
                let (ns, acks) = (0..5)
                    .map(|_| round(&settings, loss))
                    .fold((f64::INFINITY, 0.0), |best, round| if round.0 < best.0 { round } else { best });
                println!("{row} {ns:>10.1} {acks:>8.2}");
            }
        }
    }
}

/// Two ends and what flies between them; every `loss`-th data segment is dropped, 0: none.
struct Path {
    now: Instant,
    client: Endpoint,
    server: Endpoint,
    forth: VecDeque<Segment>,
    back: VecDeque<Segment>,
    count: u64,
}

impl Path {
    fn step(&mut self, loss: u64) {
        self.now += SPACING;
        let now = self.now;
        if self.client.next_wakeup().is_some_and(|(at, _)| at <= now) {
            self.client.handle_timeout(now);
        }
        if self.server.next_wakeup().is_some_and(|(at, _)| at <= now) {
            self.server.handle_timeout(now);
        }
        if let Some(segment) = self.forth.pop_front() {
            self.count += 1;
            if loss == 0 || !self.count.is_multiple_of(loss) {
                self.server.handle_segment(now, &segment);
            }
        }
        while let Some(segment) = self.server.poll_transmit(now) {
            self.back.push_back(segment);
        }
        while let Some(event) = self.server.poll_event() {
            if event == Event::Readable {
                self.server.read(u64::MAX);
            }
        }
        if let Some(segment) = self.back.pop_front() {
            self.client.handle_segment(now, &segment);
        }
        while let Some(segment) = self.client.poll_transmit(now) {
            self.forth.push_back(segment);
        }
        while let Some(event) = self.client.poll_event() {
            if event == Event::Writable {
                self.client.write(u64::MAX / 2);
            }
        }
    }
}

fn round(settings: &Settings, loss: u64) -> (f64, f64) {
    let settings = Arc::new(settings.clone());
    let now = Instant::from_millis(1);
    let mut path = Path {
        now,
        client: Endpoint::connect(&settings, now, Seq(1)),
        server: Endpoint::accept(&settings, Seq(2)),
        forth: VecDeque::new(),
        back: VecDeque::new(),
        count: 0,
    };
    path.client.write(u64::MAX / 2);
    while path.count < SEGMENTS / 4 {
        path.step(loss);
    }
    let (sent, acks) = (path.count, path.server.stats().acks_sent);
    let start = Clock::now();
    while path.count < sent + SEGMENTS {
        path.step(loss);
    }
    let elapsed = start.elapsed();
    black_box(&path.client);
    let acks = path.server.stats().acks_sent - acks;
    (elapsed.as_nanos() as f64 / SEGMENTS as f64, acks as f64 / SEGMENTS as f64)
}
