//! When an acknowledgement that may wait is sent (RFC 1122 §4.2.3.2, RFC 5681 §4.2), and how Linux adapts that.
//!
//! With a fixed delay the timer runs `timeout` from the first segment that is not acknowledged. Adaptive delays are those of
//! Linux (`tcp_event_data_recv`, `tcp_event_data_sent`, `tcp_send_delayed_ack`, `tcp_delack_timer_handler`):
//!
//! - The delay follows the times between arrivals. It doubles when the timer runs out, up to the RTO, and begins anew with
//!   `timeout`, its minimum, when the quick acknowledgements have been used up.
//! - A side that sends data within the delay after an arrival is in ping-pong mode: its answers carry its acknowledgements, and
//!   quick ones wait too. The timer's running out ends the mode, and so does a duplicate.

use std::time::Duration;

use crate::settings::Settings;
use crate::timers::{MILLISECOND, nanos};

/// The longest delay (`TCP_DELACK_MAX`, less than the least RTO), ms.
const LONGEST: u64 = 199;

/// The longest delay of a full segment to a side that does not answer, ms.
const LONGEST_ONE_WAY: u64 = 500;

/// How many segments are still to be acknowledged at once, and whether the side is in ping-pong mode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quick(u8);

impl Quick {
    const PING_PONG: u8 = 1 << 7;

    pub(crate) fn new(settings: &Settings) -> Self {
        let mut quick = Quick(0);
        quick.begin(settings);
        quick
    }

    /// The next segments are acknowledged at once each.
    pub(crate) fn begin(&mut self, settings: &Settings) {
        self.at_least(settings.delayed_ack.map_or(0, |delayed| delayed.quick));
    }

    /// So many at least.
    pub(crate) fn at_least(&mut self, segments: u8) {
        self.0 = self.0 & Self::PING_PONG | self.left().max(segments.min(!Self::PING_PONG));
    }

    pub(crate) fn left(self) -> u8 {
        self.0 & !Self::PING_PONG
    }

    /// The next segment is acknowledged at once.
    #[inline]
    pub(crate) fn is_due(self) -> bool {
        (1..=!Self::PING_PONG).contains(&self.0)
    }

    /// One has been acknowledged. Returns whether it was the last.
    #[inline]
    pub(crate) fn take(&mut self) -> bool {
        self.0 -= u8::from(self.left() > 0);
        self.left() == 0
    }

    /// This side's answers carry its acknowledgements.
    #[inline]
    pub(crate) fn is_ping_pong(self) -> bool {
        self.0 & Self::PING_PONG != 0
    }

    #[inline]
    pub(crate) fn set_ping_pong(&mut self, on: bool) {
        self.0 = self.left() | if on { Self::PING_PONG } else { 0 };
    }
}

/// An adaptive delay, ms; 0 before the first data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AckDelay(pub(crate) u16);

impl AckDelay {
    /// Data has come `gap` ns after the last. Returns whether it is the first, or the peer has been silent for longer than the
    /// RTO.
    #[inline]
    pub(crate) fn arrival(&mut self, gap: u64, rto: impl Fn() -> u64, shortest: u16) -> bool {
        if self.0 == 0 {
            self.0 = shortest;
            return true;
        }
        if gap <= u64::from(shortest / 2) * MILLISECOND {
            self.0 = self.0 / 2 + shortest / 2;
            return false;
        }
        let delay = u64::from(self.0);
        if gap < delay * MILLISECOND {
            self.0 = (delay / 2 + gap / MILLISECOND).min(rto() / MILLISECOND) as u16;
            return false;
        }
        gap > rto()
    }

    /// The delay of a segment's acknowledgement, ns. A round trip bounds a delay beyond the shortest. `answers`: the side is in
    /// ping-pong mode, or the segment ends a write.
    pub(crate) fn delay(self, answers: bool, srtt: Option<Duration>, shortest: u16) -> u64 {
        let (mut delay, shortest) = (u64::from(self.0), u64::from(shortest));
        if delay > shortest {
            let longest = if answers { LONGEST } else { LONGEST_ONE_WAY };
            let trip = srtt.map_or(longest, |srtt| (nanos(srtt) / MILLISECOND).max(shortest));
            delay = delay.min(longest).min(trip);
        }
        delay.min(LONGEST) * MILLISECOND
    }

    /// The timer has run out.
    pub(crate) fn double(&mut self, rto: u64) {
        self.0 = (2 * u64::from(self.0)).min(rto / MILLISECOND).min(u64::from(u16::MAX)) as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    const RTO: u64 = 300 * MILLISECOND;

    #[test]
    fn the_delay_follows_the_times_between_arrivals() {
        let mut delay = AckDelay::default();
        assert!(delay.arrival(0, || RTO, 40), "the first segment begins the quick acknowledgements");
        let delays: Vec<u16> = [30, 35, 45, 5, 5, 5, 5, 5]
            .into_iter()
            .map(|gap| {
                delay.arrival(gap * MILLISECOND, || RTO, 40);
                delay.0
            })
            .collect();
        assert_eq!(delays, [50, 60, 75, 57, 48, 44, 42, 41]);
        assert!(delay.arrival(RTO + MILLISECOND, || RTO, 40), "a silence of more than an RTO");
        assert_eq!(delay, AckDelay(41));
    }

    #[test]
    fn a_timer_that_runs_out_doubles_the_delay_up_to_the_rto() {
        let mut delay = AckDelay(40);
        let delays: Vec<u16> = (0..4)
            .map(|_| {
                delay.double(RTO);
                delay.0
            })
            .collect();
        assert_eq!(delays, [80, 160, 300, 300]);
    }

    #[test]
    fn a_round_trip_bounds_a_long_delay() {
        let delay = |srtt: Option<u64>, delay| {
            AckDelay(delay).delay(false, srtt.map(Duration::from_millis), 40) / MILLISECOND
        };
        assert_eq!(delay(None, 400), 199);
        assert_eq!(delay(Some(90), 400), 90);
        assert_eq!(delay(Some(3), 400), 40);
        assert_eq!(delay(Some(3), 30), 30);
    }

    #[test]
    fn ping_pong_mode_holds_quick_acknowledgements_back_and_keeps_them() {
        let mut quick = Quick::new(&Preset::Linux6.settings());
        assert!(quick.is_due());
        quick.set_ping_pong(true);
        assert!(!quick.is_due() && quick.left() == 16);
        assert!(!quick.take());
        quick.set_ping_pong(false);
        assert!(quick.is_due() && quick.left() == 15);
        for _ in 0..14 {
            assert!(!quick.take());
        }
        assert!(quick.take() && !quick.is_due());
    }
}
