//! A receive buffer that grows with the rate of what is read: dynamic right-sizing (Fisk and Feng 2001), as Linux does it since
//! 6.18 (`tcp_rcv_space_adjust`, `tcp_rcvbuf_grow`).
//!
//! Once in each round trip the receiver compares what was read with the most that was read in a round trip before. If it is
//! more, the buffer grows to twice that, and by twice the relative growth on top: a sender in slow start doubles its rate.
//! The round trip is the receiver's own estimate: from the echo of its timestamps, or from the time in which a whole window
//! arrives.

use trunkline_units::Instant;

use crate::timers::since;

/// What the receiver has measured.
#[derive(Debug)]
pub(crate) struct Autotuning {
    /// The window that the buffer allows, bytes.
    limit: u64,
    /// The most that was read in a round trip, bytes.
    most: u64,
    /// The place and the time at which the measurement began.
    from: (u64, Instant),
    /// The round trip, ns; 0 before the first sample.
    rtt: u64,
    /// Without timestamps: the place at which the window that is being timed ends, and when it began.
    window: (u64, Instant),
    /// The timestamp that was echoed last.
    echo: u32,
}

/// What the receiver holds at the time of a measurement, as places in the stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// The next byte that the application reads.
    pub(crate) read: u64,
    /// The next byte wanted.
    pub(crate) next: u64,
    /// Behind the last byte that is held; more than `next` if there are gaps.
    pub(crate) end: u64,
}

impl Autotuning {
    /// A buffer that allows a window of `limit` bytes at first, of which the sender's first flight takes `first`.
    pub(crate) fn new(now: Instant, read: u64, limit: u64, first: u64) -> Self {
        Autotuning { limit, most: first.max(1), from: (read, now), rtt: 0, window: (0, now), echo: 0 }
    }

    /// The window that the buffer allows, bytes.
    #[inline]
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// A full segment has arrived with the echo of a timestamp that this side sent `age()` ns ago. The smallest sample counts at
    /// once; larger ones, which include what the sender waited for, are averaged in, and not while data waits to be read.
    #[inline]
    pub(crate) fn sample_echo(&mut self, echo: u32, age: impl Fn() -> u64, waits: bool) {
        if echo == self.echo {
            return;
        }
        self.echo = echo;
        let age = age();
        if age > 0 && (self.rtt == 0 || age < self.rtt) {
            self.rtt = age;
        } else if age > 0 && !waits {
            self.rtt = self.rtt - self.rtt / 8 + age / 8;
        }
    }

    /// Without timestamps: a round trip takes no longer than a whole window to arrive.
    pub(crate) fn sample_window(&mut self, now: Instant, next: u64, edge: u64) {
        let (end, began) = self.window;
        if end != 0 && next < end {
            return;
        }
        if end != 0 {
            let passed = since(now, began).max(1);
            self.rtt = if self.rtt == 0 { passed } else { self.rtt.min(passed) };
        }
        self.window = (edge, now);
    }

    /// The application has read. The window may grow up to `max` bytes.
    pub(crate) fn adjust(&mut self, now: Instant, held: Held, max: u64) {
        let (from, began) = self.from;
        if self.limit >= max || self.rtt == 0 || since(now, began) < self.rtt {
            return;
        }
        let copied = (held.read - from).saturating_sub(held.next - held.read);
        if copied > self.most {
            let double = 2 * copied;
            let growth = u128::from(double) * u128::from(copied - self.most) / u128::from(self.most);
            let growth = u64::try_from(2 * growth).unwrap_or(u64::MAX);
            let wanted = double.saturating_add(growth).saturating_add(held.end - held.next);
            self.limit = self.limit.max(wanted.min(max));
            self.most = copied;
        }
        self.from = (held.read, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: u64 = 100;

    fn read_all(place: u64) -> Held {
        Held { read: place, next: place, end: place }
    }

    fn tuned() -> Autotuning {
        let mut tuning = Autotuning::new(Instant::from_millis(0), 1, 81_920, 14_480);
        tuning.sample_echo(1, || RTT * 1_000_000, false);
        tuning
    }

    #[test]
    fn the_buffer_grows_ahead_of_a_sender_that_doubles_its_rate() {
        let mut tuning = tuned();
        let mut place = 1;
        for (trip, flight) in [14_480, 28_960, 57_920, 115_840].into_iter().enumerate() {
            assert!(flight <= tuning.limit(), "the window of {} holds a flight of {flight}", tuning.limit());
            place += flight;
            tuning.adjust(Instant::from_millis((trip as u64 + 1) * RTT), read_all(place), 6 << 20);
        }
        // 2 · 115 840, and twice as much again for a growth by 100 %.
        assert_eq!(tuning.limit(), 6 * 115_840);
    }

    #[test]
    fn a_steady_reader_and_a_slow_one_keep_their_buffer() {
        let mut tuning = tuned();
        for trip in 1..50 {
            tuning.adjust(Instant::from_millis(trip * RTT), read_all(1 + trip * 14_000), 6 << 20);
        }
        assert_eq!(tuning.limit(), 81_920);
        let mut slow = tuned();
        let held = Held { read: 40_001, next: 80_001, end: 80_001 };
        slow.adjust(Instant::from_millis(RTT), held, 6 << 20);
        assert_eq!(slow.limit(), 81_920, "what waits to be read is no reason for a larger buffer");
    }

    #[test]
    fn it_measures_once_in_a_round_trip_and_stays_within_its_maximum() {
        let mut tuning = tuned();
        tuning.adjust(Instant::from_millis(RTT - 1), read_all(500_001), 6 << 20);
        assert_eq!(tuning.limit(), 81_920);
        tuning.adjust(Instant::from_millis(RTT), read_all(500_001), 200_000);
        assert_eq!(tuning.limit(), 200_000);
    }

    #[test]
    fn without_timestamps_the_round_trip_is_the_least_time_of_a_window() {
        let mut tuning = Autotuning::new(Instant::from_millis(0), 1, 81_920, 14_480);
        tuning.sample_window(Instant::from_millis(0), 1, 60_001);
        tuning.sample_window(Instant::from_millis(20), 30_001, 90_001);
        assert_eq!(tuning.rtt, 0);
        tuning.sample_window(Instant::from_millis(50), 60_001, 120_001);
        tuning.sample_window(Instant::from_millis(130), 120_001, 180_001);
        assert_eq!(tuning.rtt, 50_000_000);
    }

    #[test]
    fn larger_samples_count_an_eighth_and_none_twice() {
        let mut tuning = tuned();
        tuning.sample_echo(2, || 2 * RTT * 1_000_000, true);
        assert_eq!(tuning.rtt, RTT * 1_000_000, "data waited to be read");
        tuning.sample_echo(3, || 2 * RTT * 1_000_000, false);
        assert_eq!(tuning.rtt, 112_500_000);
        tuning.sample_echo(3, || 9 * RTT * 1_000_000, false);
        assert_eq!(tuning.rtt, 112_500_000);
    }
}
