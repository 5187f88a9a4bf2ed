use std::time::Duration;

use trunkline_units::Instant;

/// A bound on the receive window of a lane's connection, near the window that its path needs (docs/decisions/0008).
///
/// Linux grows a receive window for as long as the sender fills it. So when the receiving site is the bottleneck, the
/// lane becomes a queue of megabytes: cold in the cache, and out of reach of the sender's edge queue, which is where a
/// backlog belongs. The bound is four times the arrival rate times the smallest round-trip time. It leaves the
/// sender's window free to grow fourfold between two updates, and no more.
#[derive(Debug, Clone, Default)]
pub struct ReceiveWindow {
    since: Option<Instant>,
    bytes: usize,
    peak_rate: f64,
    bound: usize,
}

impl ReceiveWindow {
    /// How often the bound of a busy lane is updated.
    pub const INTERVAL: Duration = Duration::from_millis(50);
    /// The smallest bound, bytes.
    pub const MIN: usize = 1 << 20;
    /// The largest bound, bytes: the kernel's own limit is lower.
    pub const MAX: usize = 1 << 30;

    /// Takes the number of bytes that arrived. The bound to set, if it is to be set now; `min_rtt` is called only when
    /// an update is due, and without a round-trip time the bound is [`ReceiveWindow::MAX`].
    pub fn handle_received(
        &mut self,
        now: Instant,
        bytes: usize,
        min_rtt: impl FnOnce() -> Option<Duration>,
    ) -> Option<usize> {
        self.bytes += bytes;
        let elapsed = now.saturating_since(*self.since.get_or_insert(now));
        if elapsed < Self::INTERVAL {
            return None;
        }
        let rate = self.bytes as f64 / elapsed.as_secs_f64();
        self.peak_rate = rate.max(self.peak_rate * 0.875);
        (self.since, self.bytes) = (Some(now), 0);
        let needed = match min_rtt() {
            Some(time) => (4.0 * self.peak_rate * time.as_secs_f64()) as usize,
            None => Self::MAX,
        };
        let bound = needed.clamp(Self::MIN, Self::MAX);
        let changed = bound.abs_diff(self.bound) > self.bound / 4;
        // Linux raises its bound whenever it grows the buffer, so the smallest one is set again each time.
        if changed || bound == Self::MIN {
            self.bound = bound;
            return Some(bound);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(
        window: &mut ReceiveWindow,
        millis: u64,
        bytes: usize,
        min_rtt: Option<Duration>,
    ) -> Option<usize> {
        window.handle_received(Instant::from_millis(millis), bytes, || min_rtt)
    }

    #[test]
    fn a_short_path_is_bounded_and_a_long_one_is_left_free_to_grow() {
        let (short, long) = (Some(Duration::from_micros(50)), Some(Duration::from_millis(100)));
        let mut window = ReceiveWindow::default();
        assert_eq!(after(&mut window, 0, 1000, short), None, "there is no rate yet");
        // 1 GB/s over 50 µs needs 50 kB, four times that 200 kB.
        assert_eq!(after(&mut window, 50, 50_000_000, short), Some(ReceiveWindow::MIN));
        assert_eq!(after(&mut window, 100, 50_000_000, short), Some(ReceiveWindow::MIN), "set again");
        let mut window = ReceiveWindow::default();
        assert_eq!(after(&mut window, 0, 0, long), None);
        // 100 MB/s over 100 ms is 10 MB.
        assert_eq!(after(&mut window, 50, 5_000_000, long), Some(40_000_000));
        assert_eq!(after(&mut window, 60, 5_000_000, long), None, "no update is due");
    }

    #[test]
    fn without_a_round_trip_time_nothing_is_bounded() {
        let mut window = ReceiveWindow::default();
        assert_eq!(after(&mut window, 0, 0, None), None);
        assert_eq!(after(&mut window, 50, 5_000_000, None), Some(ReceiveWindow::MAX));
        assert_eq!(after(&mut window, 100, 5_000_000, None), None, "nothing changed");
    }
}
