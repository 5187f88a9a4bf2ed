//! The growth of the window below ssthresh.
//!
//! - Classic: the acknowledged bytes (RFC 5681 §3.1).
//! - Limited (RFC 3742): above `max_ssthresh`, half of it each round trip.
//! - `hystart_pp` (RFC 9406) and `hystart` (Ha and Rhee 2008) end slow start before a loss.

mod hystart;
mod hystart_pp;

use crate::window::Window;
use crate::{Ack, SlowStart};
use hystart::HyStart;
use hystart_pp::HyStartPp;

#[derive(Debug, Clone)]
pub(crate) enum SlowStartState {
    Classic,
    Limited { max_ssthresh: u32 },
    HyStartPp(Box<HyStartPp>),
    HyStart(Box<HyStart>),
}

impl SlowStartState {
    pub(crate) fn new(kind: SlowStart) -> Self {
        match kind {
            SlowStart::Classic => SlowStartState::Classic,
            SlowStart::Limited { max_ssthresh } => SlowStartState::Limited { max_ssthresh },
            SlowStart::HyStartPlusPlus => SlowStartState::HyStartPp(Box::default()),
            SlowStart::HyStart => SlowStartState::HyStart(Box::default()),
        }
    }

    /// Updates the state by an acknowledgement; may lower ssthresh to the window.
    pub(crate) fn observe(&mut self, window: &mut Window, ack: &Ack) {
        match self {
            SlowStartState::Classic | SlowStartState::Limited { .. } => {}
            SlowStartState::HyStartPp(start) => start.observe(window, ack),
            SlowStartState::HyStart(start) => start.observe(window, ack),
        }
    }

    /// Grows the window by `acked` bytes up to ssthresh, and returns the bytes beyond it.
    pub(crate) fn grow(&mut self, window: &mut Window, acked: u32) -> u32 {
        let wanted = match self {
            SlowStartState::Classic | SlowStartState::HyStart(_) => acked,
            SlowStartState::Limited { max_ssthresh } => limited(window, acked, *max_ssthresh),
            SlowStartState::HyStartPp(start) => start.scaled_growth(acked),
        };
        let room = window.ssthresh - window.cwnd;
        window.grow(wanted.min(room));
        wanted.saturating_sub(room)
    }

    /// A timeout: slow start begins again.
    pub(crate) fn restart(&mut self) {
        match self {
            SlowStartState::Classic | SlowStartState::Limited { .. } => {}
            SlowStartState::HyStartPp(start) => start.restart(),
            SlowStartState::HyStart(start) => **start = HyStart::default(),
        }
    }
}

/// RFC 3742 §2: K = cwnd / (`max_ssthresh` / 2), and a Kth of what is acknowledged.
fn limited(window: &Window, acked: u32, max_ssthresh: u32) -> u32 {
    let half = (u64::from(max_ssthresh) * u64::from(window.mss) / 2).max(1);
    if u64::from(window.cwnd) <= 2 * half {
        return acked;
    }
    (u64::from(acked) / (u64::from(window.cwnd) / half).max(1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    fn round(start: &mut SlowStartState, window: &mut Window) -> u32 {
        let before = window.cwnd;
        for _ in 0..window.segments() {
            start.grow(window, MSS);
        }
        (window.cwnd - before) / MSS
    }

    #[test]
    fn classic_doubles_each_round_and_stops_at_the_threshold() {
        let mut window = Window::new(10 * MSS, 50 * MSS, MSS);
        let mut start = SlowStartState::new(SlowStart::Classic);
        assert_eq!(round(&mut start, &mut window), 10);
        assert_eq!(round(&mut start, &mut window), 20);
        assert_eq!(start.grow(&mut window, 15 * MSS), 5 * MSS);
        assert_eq!(window.cwnd, 50 * MSS);
    }

    #[test]
    fn limited_adds_no_more_than_half_of_max_ssthresh_a_round() {
        let mut window = Window::new(10 * MSS, u32::MAX, MSS);
        let mut start = SlowStartState::new(SlowStart::Limited { max_ssthresh: 100 });
        for expected in [10, 20, 40] {
            assert_eq!(round(&mut start, &mut window), expected);
        }
        while window.cwnd <= 100 * MSS {
            start.grow(&mut window, MSS);
        }
        for _ in 0..40 {
            let added = round(&mut start, &mut window);
            assert!((33..=51).contains(&added), "{added} at {}", window.cwnd);
        }
    }
}
