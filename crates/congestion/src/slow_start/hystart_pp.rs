//! `HyStart++` (RFC 9406).
//!
//! When the smallest round-trip time of a round exceeds that of the last round, slow start continues at a quarter
//! of its pace for up to five rounds (conservative slow start, CSS). If the round-trip time falls again, slow start
//! resumes; otherwise congestion avoidance begins. This holds only for the first slow start of a connection (§4.3):
//! later ones have a threshold.

use std::time::Duration;

use crate::Ack;
use crate::window::Window;

const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u32 = 4;
const CSS_ROUNDS: u32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Standard,
    Conservative {
        /// Smallest round-trip time of the round that it began in.
        baseline: Duration,
        rounds: u32,
    },
    Done,
}

/// What it has seen of this round and the last.
#[derive(Debug, Clone, Default)]
pub(crate) struct HyStartPp {
    phase: Phase,
    last_round: Option<Duration>,
    this_round: Option<Duration>,
    samples: u32,
}

impl HyStartPp {
    pub(super) fn observe(&mut self, window: &mut Window, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.this_round = Some(self.this_round.map_or(rtt, |smallest| smallest.min(rtt)));
            self.samples += 1;
        }
        if self.samples >= N_RTT_SAMPLE {
            self.check_rtt();
        }
        if ack.round_ended {
            self.last_round = self.this_round.take();
            self.samples = 0;
            if let Phase::Conservative { rounds, .. } = &mut self.phase {
                *rounds += 1;
                if *rounds >= CSS_ROUNDS {
                    self.phase = Phase::Done;
                    window.ssthresh = window.cwnd;
                }
            }
        }
    }

    fn check_rtt(&mut self) {
        let (Some(this), last) = (self.this_round, self.last_round) else { return };
        match (self.phase, last) {
            (Phase::Standard, Some(last)) => {
                let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if this >= last + threshold {
                    self.phase = Phase::Conservative { baseline: this, rounds: 0 };
                }
            }
            (Phase::Conservative { baseline, .. }, _) if this < baseline => self.phase = Phase::Standard,
            _ => {}
        }
    }

    pub(super) fn scaled_growth(&self, acked: u32) -> u32 {
        if matches!(self.phase, Phase::Conservative { .. }) { acked / CSS_GROWTH_DIVISOR } else { acked }
    }

    pub(super) fn restart(&mut self) {
        self.phase = Phase::Done;
    }
}

#[cfg(test)]
mod tests {
    use trunkline_units::Instant;

    use super::*;

    const MSS: u32 = 1000;

    fn round(start: &mut HyStartPp, window: &mut Window, millis: u64) {
        for number in 1..=20 {
            let rtt = Duration::from_millis(millis);
            start.observe(
                window,
                &Ack {
                    now: Instant::ZERO,
                    acked: MSS,
                    rtt: Some(rtt),
                    srtt: rtt,
                    min_rtt: rtt,
                    in_flight: 0,
                    round_ended: number == 20,
                    window_limited: true,
                    delivered: None,
                },
            );
        }
    }

    fn after(rounds: &[u64]) -> (HyStartPp, Window) {
        let (mut start, mut window) = (HyStartPp::default(), Window::new(20 * MSS, u32::MAX, MSS));
        for millis in rounds {
            round(&mut start, &mut window, *millis);
        }
        (start, window)
    }

    fn conservative(start: &HyStartPp) -> bool {
        matches!(start.phase, Phase::Conservative { .. })
    }

    #[test]
    fn a_rise_of_an_eighth_within_4_and_16_ms_slows_it_down() {
        for (base, rise) in [(10, 4), (80, 10), (400, 16)] {
            assert!(conservative(&after(&[base, base + rise]).0), "{base} + {rise}");
            assert!(!conservative(&after(&[base, base + rise - 1]).0), "{base} + {rise} - 1");
        }
    }

    #[test]
    fn conservative_slow_start_grows_by_a_quarter() {
        assert_eq!(after(&[100, 112]).0.scaled_growth(4000), 4000);
        assert_eq!(after(&[100, 113]).0.scaled_growth(4000), 1000);
    }

    #[test]
    fn five_rounds_of_it_end_slow_start() {
        // The round that it begins in is one of them.
        let (_, window) = after(&[100, 120, 120, 120, 120]);
        assert_eq!(window.ssthresh, u32::MAX);
        let (_, window) = after(&[100, 120, 120, 120, 120, 120]);
        assert_eq!(window.ssthresh, window.cwnd);
    }

    #[test]
    fn a_rise_that_passes_is_taken_back() {
        let (start, window) = after(&[100, 120, 119]);
        assert!(!conservative(&start));
        assert_eq!(start.scaled_growth(4000), 4000);
        assert_eq!(window.ssthresh, u32::MAX);
    }

    #[test]
    fn fewer_than_eight_samples_say_nothing() {
        let (mut start, mut window) = after(&[100]);
        for samples in 1..=8 {
            start.observe(
                &mut window,
                &Ack {
                    now: Instant::ZERO,
                    acked: MSS,
                    rtt: Some(Duration::from_millis(150)),
                    srtt: Duration::ZERO,
                    min_rtt: Duration::ZERO,
                    in_flight: 0,
                    round_ended: false,
                    window_limited: true,
                    delivered: None,
                },
            );
            assert_eq!(conservative(&start), samples == 8);
        }
    }

    #[test]
    fn a_second_slow_start_is_classic() {
        let (mut start, mut window) = after(&[100]);
        start.restart();
        round(&mut start, &mut window, 200);
        assert!(!conservative(&start));
    }
}
