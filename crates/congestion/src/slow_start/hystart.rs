//! `HyStart` (Ha and Rhee 2008), as in the Linux kernel's CUBIC.
//!
//! Either of two signs that the window fills the path ends slow start at once, from 16 segments on. Train: since
//! the round began, acknowledgements have come closely spaced for half of the smallest round-trip time, so segments
//! cover that much of the path. Delay: the smallest of more than eight round-trip samples of a round exceeds the
//! smallest of all by an eighth (4 to 16 ms).

use std::time::Duration;

use trunkline_units::Instant;

use crate::Ack;
use crate::window::Window;

/// Segments.
const LOW_WINDOW: u32 = 16;
/// Acknowledgements further apart are no train.
const TRAIN_SPACING: Duration = Duration::from_millis(2);
const MIN_RISE: Duration = Duration::from_millis(4);
const MAX_RISE: Duration = Duration::from_millis(16);
const SAMPLES: u32 = 8;
/// Four of the largest bursts that the kernel hands to a device: what their sending takes is no delay of the path.
const BURSTS: u128 = 4 * 65_536;
const MAX_BURSTS: Duration = Duration::from_millis(1);

/// What it has seen of the round, and of the connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct HyStart {
    found: bool,
    began: bool,
    round_start: Instant,
    last_ack: Instant,
    delay_min: Option<Duration>,
    round_rtt: Option<Duration>,
    samples: u32,
}

impl HyStart {
    pub(super) fn observe(&mut self, window: &mut Window, ack: &Ack) {
        let Some(rtt) = ack.rtt.filter(|_| !self.found) else { return };
        let delay_min = self.delay_min.map_or(rtt, |smallest| smallest.min(rtt));
        self.delay_min = Some(delay_min);
        if ack.round_ended || !self.began {
            self.began = true;
            (self.round_start, self.last_ack) = (ack.now, ack.now);
            (self.round_rtt, self.samples) = (None, 0);
        }
        if window.segments() < LOW_WINDOW {
            return;
        }
        let train = self.train(window, ack, delay_min);
        let round_rtt = self.round_rtt.map_or(rtt, |smallest| smallest.min(rtt));
        self.round_rtt = Some(round_rtt);
        let rise = (delay_min / 8).clamp(MIN_RISE, MAX_RISE);
        let late = self.samples >= SAMPLES && round_rtt > delay_min + rise;
        self.samples = (self.samples + 1).min(SAMPLES);
        if train || late {
            self.found = true;
            window.ssthresh = window.cwnd.max(2 * window.mss);
        }
    }

    fn train(&mut self, window: &Window, ack: &Ack, delay_min: Duration) -> bool {
        if ack.now - self.last_ack > TRAIN_SPACING {
            return false;
        }
        self.last_ack = ack.now;
        // At the rate of two windows a round trip, at which the kernel reckons that slow start sends.
        let bursts = BURSTS * ack.srtt.as_nanos() / (2 * u128::from(window.cwnd));
        let bursts = Duration::from_nanos(bursts.min(MAX_BURSTS.as_nanos()) as u64);
        ack.now - self.round_start > (delay_min + bursts) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;
    const BASE: u64 = 100;

    /// `acks` acknowledgements of a round, `spacing` µs apart, each with `rtt` ms; how many until slow start ended.
    fn round(
        start: &mut HyStart,
        window: &mut Window,
        from: u64,
        acks: u64,
        spacing: u64,
        rtt: u64,
    ) -> Option<u64> {
        (0..acks).find(|number| {
            start.observe(
                window,
                &Ack {
                    now: Instant::from_millis(from) + Duration::from_micros(number * spacing),
                    acked: MSS,
                    rtt: Some(Duration::from_millis(rtt)),
                    srtt: Duration::from_millis(rtt),
                    min_rtt: Duration::from_millis(BASE),
                    in_flight: 0,
                    round_ended: *number == 0,
                    window_limited: true,
                    delivered: None,
                },
            );
            !window.in_slow_start()
        })
    }

    fn fresh(segments: u32) -> (HyStart, Window) {
        (HyStart::default(), Window::new(segments * MSS, u32::MAX, MSS))
    }

    #[test]
    fn a_train_of_half_the_round_trip_ends_it() {
        let (mut start, mut window) = fresh(100);
        // (100 ms + 1 ms for bursts) / 2 at 1 ms spacing.
        assert_eq!(round(&mut start, &mut window, 0, 100, 1000, BASE), Some(51));
        assert_eq!(window.ssthresh, window.cwnd);
        let (mut start, mut window) = fresh(100);
        assert_eq!(round(&mut start, &mut window, 0, 100, 500, BASE), None, "49.5 ms");
    }

    #[test]
    fn acknowledgements_further_apart_than_2_ms_are_no_train() {
        let (mut start, mut window) = fresh(100);
        assert_eq!(round(&mut start, &mut window, 0, 100, 2001, BASE), None);
    }

    #[test]
    fn a_rise_of_an_eighth_within_4_and_16_ms_ends_it_with_the_ninth_sample() {
        for (base, rise) in [(10, 4), (80, 10), (400, 16)] {
            for (more, expected) in [(0, None), (1, Some(8))] {
                let (mut start, mut window) = fresh(100);
                assert_eq!(round(&mut start, &mut window, 0, 20, 0, base), None);
                let ended = round(&mut start, &mut window, 1000, 20, 0, base + rise + more);
                assert_eq!(ended, expected, "{base} + {rise} + {more}");
            }
        }
    }

    #[test]
    fn a_window_of_less_than_16_segments_is_left_alone() {
        for (segments, ends) in [(15, false), (16, true)] {
            let (mut start, mut window) = fresh(segments);
            assert_eq!(round(&mut start, &mut window, 0, 100, 1000, BASE).is_some(), ends);
        }
    }

    #[test]
    fn it_ends_slow_start_once() {
        let (mut start, mut window) = fresh(100);
        round(&mut start, &mut window, 0, 100, 1000, BASE);
        window.ssthresh = u32::MAX;
        assert_eq!(round(&mut start, &mut window, 1000, 100, 1000, BASE * 3), None);
    }
}
