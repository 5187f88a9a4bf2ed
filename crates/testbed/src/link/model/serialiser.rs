//! The transmitter: one packet at a time, at a rate.

use trunkline_units::{Instant, Rate};

/// Sends packets one after the other. The fraction of a nanosecond that a packet takes beyond a whole number is
/// carried to the next, so the long-run rate is exact.
#[derive(Debug, Clone)]
pub struct Serialiser {
    rate: Option<Rate>,
    free_at: Instant,
    carry: u64,
}

impl Serialiser {
    /// A free serialiser; without a rate it takes no time.
    pub fn new(rate: Option<Rate>) -> Self {
        Self { rate, free_at: Instant::ZERO, carry: 0 }
    }

    /// The rate.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Changes the rate for the packets that start from `now` on.
    pub fn set_rate(&mut self, now: Instant, rate: Option<Rate>) {
        if self.ready_at().is_none() {
            // What was held back starts now and not when it came.
            self.free_at = self.free_at.max(now);
        }
        self.rate = rate;
        self.carry = 0;
    }

    /// When the next packet may start; `None` while the rate is zero.
    pub fn ready_at(&self) -> Option<Instant> {
        (self.rate != Some(Rate::from_bits_per_second(0))).then_some(self.free_at)
    }

    /// Sends `bytes` that are ready at `at`: returns when the first bit leaves, and when the last.
    pub fn send(&mut self, at: Instant, bytes: usize) -> (Instant, Instant) {
        let start = at.max(self.free_at);
        if start > self.free_at {
            // After a pause there is nothing to be exact about.
            self.carry = 0;
        }
        if let Some(rate) = self.rate {
            self.free_at = start + rate.time_for(bytes as u64, &mut self.carry);
        } else {
            self.free_at = start;
        }
        (start, self.free_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_run_rate_is_exact_though_no_packet_takes_whole_nanoseconds() {
        // 1500 bytes at 7 Mbit/s take 1,714,285.714… ns.
        let mut serialiser = Serialiser::new(Some(Rate::from_bits_per_second(7_000_000)));
        let mut end = Instant::ZERO;
        for _ in 0..7_000 {
            (_, end) = serialiser.send(Instant::ZERO, 1500);
        }
        assert_eq!(end.as_nanos(), 12_000_000_000);
    }

    #[test]
    fn a_packet_starts_when_it_is_ready_and_the_predecessor_has_left() {
        let mut serialiser = Serialiser::new(Some(Rate::from_bits_per_second(8_000_000)));
        let at = Instant::from_nanos;
        assert_eq!(serialiser.send(at(500), 1), (at(500), at(1500)));
        assert_eq!(serialiser.send(at(600), 1), (at(1500), at(2500)));
        assert_eq!(serialiser.send(at(9000), 1), (at(9000), at(10_000)));
    }

    #[test]
    fn without_a_rate_nothing_takes_time_and_at_rate_zero_nothing_starts() {
        let mut serialiser = Serialiser::new(None);
        let now = Instant::from_millis(3);
        assert_eq!(serialiser.send(now, 65_000), (now, now));
        serialiser.set_rate(now, Some(Rate::from_bits_per_second(0)));
        assert_eq!(serialiser.ready_at(), None);
    }
}
