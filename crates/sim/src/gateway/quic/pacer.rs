//! The pacing of a connection, as the gateway's library does it: a window in 4/5 of a round trip, in bursts of 2 ms and of ten
//! packets at least (RFC 9002 §7.7).
//!
//! A bucket of tokens fills at that rate. Once it holds no packet, the connection waits until it is full, so that timers are few.

use std::time::Duration;

use trunkline_units::Instant;

const BURST: Duration = Duration::from_millis(2);
/// The bounds of a burst, packets.
const MIN_BURST: f64 = 10.0;
const MAX_BURST: f64 = 256.0;
/// Windows in a round trip.
const SPEED: f64 = 1.25;

/// When a connection may send, by its pacing.
#[derive(Debug)]
pub(super) struct Pacer {
    /// Bytes of a full packet.
    packet: f64,
    capacity: f64,
    tokens: f64,
    window: u32,
    at: Instant,
}

impl Pacer {
    pub(super) fn new(packet: u32) -> Self {
        let packet = f64::from(packet);
        let capacity = packet * MIN_BURST;
        Pacer { packet, capacity, tokens: capacity, window: 0, at: Instant::ZERO }
    }

    /// A packet leaves.
    pub(super) fn take(&mut self, bytes: u32) {
        self.tokens = (self.tokens - f64::from(bytes)).max(0.0);
    }

    /// When the connection may send a full packet; `None` if it may now.
    pub(super) fn held_until(&mut self, now: Instant, window: u32, srtt: Duration) -> Option<Instant> {
        let per_second = f64::from(window) / srtt.max(Duration::from_nanos(1)).as_secs_f64();
        if window != self.window {
            self.window = window;
            let burst = per_second * BURST.as_secs_f64();
            self.capacity = burst.clamp(MIN_BURST * self.packet, MAX_BURST * self.packet);
            self.tokens = self.tokens.min(self.capacity);
        }
        if self.tokens >= self.packet {
            return None;
        }
        let elapsed = now.saturating_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + SPEED * per_second * elapsed).min(self.capacity);
        self.at = now;
        if self.tokens >= self.packet {
            return None;
        }
        let wait = (self.capacity - self.tokens) / (SPEED * per_second);
        Some(now + Duration::from_secs_f64(wait) + Duration::from_nanos(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets in each burst of a second, and the packets of all, at this window and a round trip of 50 ms.
    fn bursts(window: u32) -> (Vec<u32>, u32) {
        let (mut pacer, mut now) = (Pacer::new(1000), Instant::ZERO);
        let mut bursts = Vec::new();
        while now < Instant::from_millis(1000) {
            let mut packets = 0;
            now = loop {
                match pacer.held_until(now, window, Duration::from_millis(50)) {
                    Some(until) => break until,
                    None => pacer.take(1000),
                }
                packets += 1;
            };
            bursts.push(packets);
        }
        let all = bursts.iter().sum();
        (bursts, all)
    }

    #[test]
    fn a_window_and_a_quarter_leave_in_a_round_trip_in_bursts_of_ten_packets_and_more() {
        for window in [40_000, 4_000_000, 40_000_000] {
            let (bursts, all) = bursts(window);
            let expected = f64::from(window) * 1.25 * 20.0 / 1000.0;
            let ratio = f64::from(all) / expected;
            assert!((0.99..1.03).contains(&ratio), "{all} packets of {expected} at {window}");
            let size = (window / 25 / 1000).clamp(10, 256);
            // The first is as large as it may be before the window is known.
            assert!(bursts[1..].iter().all(|burst| (size - 1..=size).contains(burst)), "{window}");
        }
    }
}
