//! The congestion window and ssthresh, on which every algorithm and every slow start works.

use crate::custom::CustomWindow;

/// The largest window that RFC 7323 can offer.
const MAX_CWND: u32 = 1 << 30;

/// Congestion window and threshold, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: u32,
    pub(crate) mss: u32,
    /// Acknowledged bytes that have not yet grown the window.
    credit: u64,
}

impl Window {
    pub(crate) fn new(cwnd: u32, ssthresh: u32, mss: u32) -> Self {
        Window { cwnd: cwnd.clamp(mss, MAX_CWND), ssthresh, mss, credit: 0 }
    }

    pub(crate) const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// The window in whole segments, at least one.
    pub(crate) const fn segments(&self) -> u32 {
        let segments = self.cwnd / self.mss;
        if segments == 0 { 1 } else { segments }
    }

    pub(crate) fn set(&mut self, cwnd: u32) {
        self.cwnd = cwnd.clamp(self.mss, MAX_CWND);
    }

    /// Sets ssthresh to whole segments, at least two (RFC 5681 §3.1 equation 4).
    pub(crate) fn set_ssthresh(&mut self, bytes: u32) {
        self.ssthresh = (bytes / self.mss * self.mss).max(2 * self.mss);
    }

    pub(crate) fn grow(&mut self, bytes: u32) {
        self.set(self.cwnd.saturating_add(bytes));
    }

    /// Grows by one segment for each `count` acknowledged segments. Credit from a slower growth is worth at most one
    /// segment.
    pub(crate) fn grow_one_in(&mut self, count: u32, acked: u32) {
        let price = u64::from(count.max(1)) * u64::from(self.mss);
        if self.credit >= price {
            self.credit = 0;
            self.grow(self.mss);
        }
        self.credit += u64::from(acked);
        let segments = self.credit / price;
        self.credit %= price;
        self.grow((segments.min(u64::from(MAX_CWND)) as u32).saturating_mul(self.mss));
    }

    pub(crate) fn forget_credit(&mut self) {
        self.credit = 0;
    }

    pub(crate) fn view(&self) -> CustomWindow {
        CustomWindow { cwnd: self.cwnd, ssthresh: self.ssthresh, mss: self.mss }
    }

    /// Lets an algorithm change it.
    #[cold]
    #[inline(never)]
    pub(crate) fn lend(&mut self, change: impl FnOnce(&mut CustomWindow)) {
        let mut view = self.view();
        change(&mut view);
        self.set(view.cwnd);
        self.ssthresh = view.ssthresh;
    }
}

/// `bytes` × `numerator` / 1024.
pub(crate) fn scaled(bytes: u32, numerator: u32) -> u32 {
    (u64::from(bytes) * u64::from(numerator) / 1024) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_one_segment_for_the_segments_acknowledged_and_leaves_no_rest_behind() {
        let mut window = Window::new(10_000, u32::MAX, 1000);
        for _ in 0..9 {
            window.grow_one_in(10, 1000);
        }
        assert_eq!(window.cwnd, 10_000);
        window.grow_one_in(10, 1000);
        assert_eq!(window.cwnd, 11_000);
        window.grow_one_in(10, 35_000);
        assert_eq!((window.cwnd, window.credit), (14_000, 5000));
        window.grow_one_in(2, 0);
        assert_eq!((window.cwnd, window.credit), (15_000, 0), "old credit buys one");
    }

    #[test]
    fn the_window_stays_within_its_bounds() {
        let mut window = Window::new(0, u32::MAX, 1000);
        assert_eq!(window.cwnd, 1000);
        window.grow(u32::MAX);
        window.grow_one_in(1, u32::MAX);
        assert_eq!(window.cwnd, MAX_CWND);
        window.set_ssthresh(1999);
        assert_eq!(window.ssthresh, 2000);
        window.set_ssthresh(7999);
        assert_eq!(window.ssthresh, 7000);
    }

    #[test]
    fn what_an_algorithm_sets_is_brought_into_bounds() {
        let mut window = Window::new(20_000, 2000, 1000);
        window.lend(|lent| (lent.cwnd, lent.ssthresh, lent.mss) = (0, 7000, 1));
        assert_eq!((window.cwnd, window.ssthresh, window.mss), (1000, 7000, 1000));
        window.lend(|lent| lent.cwnd = u32::MAX);
        assert_eq!(window.cwnd, 1 << 30);
    }
}
