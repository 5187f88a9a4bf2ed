//! What each discipline costs a packet: enqueue and dequeue, with few and with many flows, standing and overflowing.
//! `cargo bench -p trunkline-queue`.

#![allow(clippy::disallowed_types, reason = "a benchmark reads the clock; the crate under test does not")]

use std::hint::black_box;
use std::time::Instant as Clock;

use trunkline_queue::{Conditions, Item, Limits, Queue, Settings};
use trunkline_units::{Instant, Rate, Rng};

/// As large as the gateway's, so that moving it costs as much.
struct Packet {
    flow: u64,
    _buffers: [usize; 8],
}

impl Item for Packet {
    fn bytes(&self) -> usize {
        1500
    }
    fn flow(&self) -> u64 {
        self.flow
    }
}

/// A round is short, so that the best of many is one that nothing interrupted.
const PACKETS: u64 = 128_000;
const ROUNDS: usize = 30;
const BATCH: u64 = 64;
const FLOWS: [u64; 3] = [1, 1000, 100_000];

fn disciplines() -> [(&'static str, Settings); 8] {
    let limits = Limits { segments: 10_000, bytes: 1 << 30 };
    [
        ("tail-drop", Settings::TailDrop(limits)),
        ("fair-tail-drop", Settings::FairTailDrop(limits)),
        ("red", Settings::Red(trunkline_queue::RedSettings { limits, ..Default::default() })),
        ("fred", Settings::Fred(trunkline_queue::FredSettings { limits, ..Default::default() })),
        ("codel", Settings::CoDel(trunkline_queue::CoDelSettings { limits, ..Default::default() })),
        (
            "fq-codel",
            Settings::FqCoDel(trunkline_queue::FqCoDelSettings {
                codel: trunkline_queue::CoDelSettings { limits, ..Default::default() },
                ..Default::default()
            }),
        ),
        ("pie", Settings::Pie(trunkline_queue::PieSettings { limits, ..Default::default() })),
        ("trunk", Settings::Trunk(trunkline_queue::TrunkSettings { limits, ..Default::default() })),
    ]
}

fn main() {
    println!(
        "ns per packet offered, best of {ROUNDS} rounds; `pass`: as many leave as come, `over`: half as many leave"
    );
    println!("{:>16} {:>30} {:>30}", "flows", "pass", "over");
    let header = |n: u64| format!("{n:>9}");
    println!("{:>16} {} {}", "", FLOWS.map(header).join(" "), FLOWS.map(header).join(" "));
    for (name, settings) in disciplines() {
        let columns = |leave: u64| {
            FLOWS.map(|flows| {
                let best = (0..ROUNDS).map(|_| round(settings, flows, leave)).fold(f64::INFINITY, f64::min);
                format!("{best:>9.1}")
            })
        };
        println!("{name:>16} {} {}", columns(BATCH).join(" "), columns(BATCH / 2).join(" "));
    }
}

fn gone_is_used(packet: &Packet) {
    black_box(packet.flow);
}

/// Batches of arrivals, then of departures, as the gateway has them; 1.2 Gbit/s of arrivals.
fn round(settings: Settings, flows: u64, leave: u64) -> f64 {
    let mut queue = Queue::new(settings, 1);
    queue.observe(&Conditions {
        rtt_up: std::time::Duration::from_millis(20),
        measured_rtt: None,
        bandwidth: Rate::from_mbit(1000.0),
        window_bytes: 2_500_000,
        segment_bytes: 1500,
        flows: 1000,
    });
    let mut rng = Rng::new(1, "flows");
    let offer = |queue: &mut Queue<Packet>, rng: &mut Rng, now| {
        // Spread as a hash is.
        let flow = rng.below(flows).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let packet = Packet { flow, _buffers: [0; 8] };
        black_box(queue.enqueue(now, packet, &mut |gone, _| gone_is_used(&gone)));
    };
    // A standing queue, so that memory is as in use.
    for _ in 0..1000 {
        offer(&mut queue, &mut rng, Instant::ZERO);
    }
    let start = Clock::now();
    for batch in 0..PACKETS / BATCH {
        let now = Instant::from_nanos(batch * BATCH * 10_000);
        for _ in 0..BATCH {
            offer(&mut queue, &mut rng, now);
        }
        for _ in 0..leave {
            black_box(queue.dequeue(now, &mut |gone, _| gone_is_used(&gone)));
        }
    }
    start.elapsed().as_secs_f64() * 1e9 / PACKETS as f64
}
