//! Vegas (Brakmo and Peterson 1995), as in the Linux kernel.
//!
//! Once a round trip it compares the window with the segments that the path holds without a queue: diff = cwnd ·
//! (rtt − `base_rtt`) / `base_rtt` segments are queued. It keeps between α and β of them in the queue, by one
//! segment a round trip, and leaves slow start when there are more than γ.
//!
//! Deviation: slow start doubles each round trip, where the paper doubles every other. A round of fewer than three
//! samples grows as Reno does, because they are too few to tell delay from noise. A loss leaves half, without the
//! paper's finer timeouts.

use std::time::Duration;

use crate::window::Window;
use crate::{Ack, reno};

/// Segments queued below which the window grows, and above which it shrinks.
const ALPHA: u128 = 2;
const BETA: u128 = 4;
/// Segments queued above which slow start is over.
const GAMMA: u128 = 1;
const SAMPLES: u32 = 3;

/// The result of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum RoundOutcome {
    /// The round continues, or the result was used.
    #[default]
    None,
    /// The round is over, and so many segments are queued.
    Excess(u128),
    /// The round is over, with too few samples.
    Unknown,
}

/// Vegas's state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vegas {
    base_rtt: Option<Duration>,
    /// Smallest of the round.
    round_rtt: Option<Duration>,
    samples: u32,
    outcome: RoundOutcome,
}

impl Vegas {
    pub(crate) fn observe(&mut self, window: &mut Window, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
            self.round_rtt = Some(self.round_rtt.map_or(rtt, |smallest| smallest.min(rtt)));
            self.samples += 1;
        }
        self.outcome = RoundOutcome::None;
        if !ack.round_ended {
            return;
        }
        self.outcome = match (self.base_rtt, self.round_rtt.take(), std::mem::take(&mut self.samples)) {
            (Some(base), Some(rtt), SAMPLES..) => {
                let base = base.as_nanos().max(1);
                let excess = u128::from(window.segments()) * (rtt.as_nanos().saturating_sub(base)) / base;
                if excess > GAMMA && window.in_slow_start() {
                    let fits = u128::from(window.cwnd) * base / rtt.as_nanos();
                    window.set((fits as u32).saturating_add(window.mss).min(window.cwnd).max(2 * window.mss));
                    window.set_ssthresh(window.cwnd - window.mss);
                    self.outcome = RoundOutcome::None;
                    return;
                }
                RoundOutcome::Excess(excess)
            }
            _ => RoundOutcome::Unknown,
        };
    }

    pub(crate) fn on_congestion_avoidance(&mut self, window: &mut Window, acked: u32) {
        match std::mem::take(&mut self.outcome) {
            RoundOutcome::Unknown => reno::on_congestion_avoidance(window, acked),
            RoundOutcome::Excess(excess) if excess > BETA => {
                window.set((window.cwnd - window.mss).max(2 * window.mss));
                // So that slow start does not begin again below the threshold.
                window.set_ssthresh(window.ssthresh.min(window.cwnd.saturating_sub(window.mss)));
            }
            RoundOutcome::Excess(excess) if excess < ALPHA => window.grow(window.mss),
            RoundOutcome::None | RoundOutcome::Excess(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use trunkline_units::Instant;

    use super::*;

    const MSS: u32 = 1000;
    const BASE: Duration = Duration::from_millis(100);

    fn round(vegas: &mut Vegas, window: &mut Window, rtt: Duration) {
        let segments = window.segments();
        for number in 1..=segments {
            let ack = Ack {
                now: Instant::ZERO,
                acked: MSS,
                rtt: Some(rtt),
                srtt: rtt,
                min_rtt: BASE,
                in_flight: 0,
                round_ended: number == segments,
                window_limited: true,
                delivered: None,
            };
            vegas.observe(window, &ack);
            if !window.in_slow_start() {
                vegas.on_congestion_avoidance(window, MSS);
            }
        }
    }

    fn vegas() -> Vegas {
        Vegas { base_rtt: Some(BASE), ..Vegas::default() }
    }

    #[test]
    fn it_keeps_two_to_four_segments_in_the_queue() {
        // Of 50 segments, one per 2 ms of delay is queued: 102 is 1, 106 is 3, 110 is 5.
        for (millis, expected) in
            [(100, 51), (102, 51), (104, 50), (106, 50), (108, 50), (110, 49), (150, 49)]
        {
            let (mut vegas, mut window) = (vegas(), Window::new(50 * MSS, 2 * MSS, MSS));
            round(&mut vegas, &mut window, Duration::from_millis(millis));
            assert_eq!(window.cwnd, expected * MSS, "{millis} ms");
        }
    }

    #[test]
    fn it_shrinks_to_two_segments_at_the_least() {
        let (mut vegas, mut window) = (vegas(), Window::new(5 * MSS, 2 * MSS, MSS));
        for _ in 0..10 {
            round(&mut vegas, &mut window, BASE * 4);
        }
        assert_eq!(window.cwnd, 2 * MSS);
        assert!(!window.in_slow_start());
    }

    #[test]
    fn slow_start_ends_with_more_than_gamma_queued() {
        let (mut vegas, mut window) = (vegas(), Window::new(50 * MSS, u32::MAX, MSS));
        round(&mut vegas, &mut window, Duration::from_millis(102));
        assert!(window.in_slow_start());
        round(&mut vegas, &mut window, Duration::from_millis(125));
        assert!(!window.in_slow_start());
        assert_eq!(window.cwnd, 41 * MSS, "what fits, and one");
    }

    #[test]
    fn too_few_samples_grow_as_reno_does() {
        let (mut vegas, mut window) = (vegas(), Window::new(2 * MSS, 2 * MSS, MSS));
        for _ in 0..4 {
            round(&mut vegas, &mut window, BASE * 2);
        }
        assert!(window.cwnd > 2 * MSS);
    }
}
