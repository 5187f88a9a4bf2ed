//! `linux-6` beside a kernel: slow start into a short queue, recovery, and the window after it, sample by sample.
//!
//! Measured on Linux 6.18 (250 Hz) with
//! `cargo run --release -p trunkline-testbed --example dumbbell -- cubic 10 100 20 0 1 20`: CUBIC over 10 Mbit/s, 100 ms and 20
//! packets of queue. Three runs gave the same to a packet or two.

use crate::common::{self, End, Pair, PathAction};
use trunkline_tcp::{Preset, Settings};
use trunkline_units::{Instant, Rate};

const MSS: u32 = 1448;

/// Milliseconds since the SYN; cwnd and ssthresh in segments, 0: none yet; bytes not acknowledged; segments retransmitted.
const KERNEL: [(u64, u32, u32, u64, u64); 18] = [
    (141, 10, 0, 13_048, 0),
    (261, 20, 0, 28_960, 0),
    (321, 36, 0, 52_128, 0),
    (401, 40, 0, 57_920, 0),
    (421, 55, 0, 79_640, 0),
    (441, 71, 0, 102_808, 0),
    (481, 79, 0, 114_392, 0),
    (521, 74, 55, 127_424, 1),
    (541, 69, 55, 143_352, 1),
    (561, 56, 55, 153_488, 6),
    (581, 55, 55, 163_624, 20),
    (621, 55, 55, 118_736, 21),
    (661, 55, 55, 139_008, 21),
    (721, 55, 55, 79_640, 21),
    (781, 57, 55, 82_536, 21),
    (961, 60, 55, 86_880, 21),
    (1201, 64, 55, 92_672, 21),
    (1401, 66, 55, 95_568, 21),
];

/// A path whose bottleneck holds so many packets, with the one that is being sent.
fn over_a_queue(rate: Rate, round_trip: u64, packets: u32) -> Pair {
    let settings = Settings {
        send_buffer: 4 << 20,
        receive_buffer: 3 << 20,
        // The kernel had a buffer of fixed size.
        initial_receive_buffer: None,
        ..Preset::Linux6.settings()
    };
    let mut pair = Pair::new(settings.clone(), settings, common::ms(round_trip / 2));
    pair.keeps_trace = false;
    let each = rate.time_for(1500, &mut 0);
    let mut free = Instant::ZERO;
    pair.impair(move |trace| {
        if trace.from == End::Server || trace.segment.payload == 0 {
            return PathAction::Deliver;
        }
        let backlog = free.saturating_since(trace.at);
        if backlog >= each * packets {
            return PathAction::Drop;
        }
        free = free.max(trace.at) + each;
        PathAction::Delay(free - trace.at)
    });
    pair
}

fn run_until(pair: &mut Pair, until: Instant) {
    loop {
        pair.client.write(u64::MAX / 2);
        if !pair.step(until) {
            return;
        }
    }
}

#[test]
fn linux_6_goes_the_way_of_the_kernel_into_a_short_queue_and_out_of_it() {
    let mut pair = over_a_queue(Rate::from_mbit(10.0), 100, 20);
    for (millis, cwnd, ssthresh, unacknowledged, retransmissions) in KERNEL {
        run_until(&mut pair, Instant::from_millis(millis + 1));
        let client = &pair.client;
        let ours = (
            client.cwnd() / MSS,
            if client.ssthresh() == u32::MAX { 0 } else { client.ssthresh() / MSS },
            client.unacknowledged(),
            client.stats().retransmitted_segments,
        );
        let what = format!(
            "at {millis} ms: {ours:?}, the kernel {:?}",
            (cwnd, ssthresh, unacknowledged, retransmissions)
        );
        assert!(ours.0.abs_diff(cwnd) <= 4, "cwnd {what}");
        assert!(ours.1.abs_diff(ssthresh) <= 1, "ssthresh {what}");
        assert!(ours.2.abs_diff(unacknowledged) <= 5 * u64::from(MSS), "unacknowledged {what}");
        assert!(ours.3.abs_diff(retransmissions) <= 2, "retransmissions {what}");
    }
    // After 20 s the kernel had delivered 22.53 MB with 26 retransmissions and no timeout.
    run_until(&mut pair, Instant::from_millis(20_001));
    let stats = pair.client.stats();
    assert!((22_300_000..=22_800_000).contains(&pair.server.received()), "{}", pair.server.received());
    assert!((23..=29).contains(&stats.retransmitted_segments), "{}", stats.retransmitted_segments);
    assert_eq!(stats.timeouts, 0);
}
