//! Compound TCP (Tan, Song, Zhang and Sridharan, INFOCOM 2006; draft-sridharan-tcpm-ctcp-02).
//!
//! The window is the sum of Reno's window and a delay-based one (`dwnd`). `dwnd` grows as a power of the sum while
//! the path holds no queue of this flow, and shrinks as a queue builds up. So Compound fills a fast path in few
//! round trips, and once there is a queue it is as friendly to Reno flows as one of them.
//!
//! Each round trip diff = win · (1 − `base_rtt` / rtt) segments are queued. Below γ, dwnd grows by α win^k − 1;
//! otherwise it shrinks by ζ diff. A loss leaves (1 − β) of the sum; Reno's part halves.
//!
//! Deviation: γ is 30 segments, without the draft's tuning. The round-trip time is the mean of the round.

use std::time::Duration;

use crate::window::Window;
use crate::{Ack, CongestionSignal, reno};

/// Segments queued at which the path counts as full.
const GAMMA: u64 = 30;
/// 1/α.
const ALPHA: u64 = 8;
const ZETA: u64 = 1;

/// Compound's state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Compound {
    /// The delay window, bytes: a part of cwnd.
    dwnd: u32,
    saved: u32,
    base_rtt: Option<Duration>,
    /// Of the round: nanoseconds and samples.
    rtt_sum: u64,
    rtt_count: u32,
}

impl Compound {
    pub(crate) fn observe(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
            self.rtt_sum = self.rtt_sum.saturating_add(rtt.as_nanos().min(u128::from(u64::MAX)) as u64);
            self.rtt_count += 1;
        }
    }

    pub(crate) fn on_congestion_avoidance(&mut self, window: &mut Window, ack: &Ack, acked: u32) {
        reno::on_congestion_avoidance(window, acked);
        if !ack.round_ended {
            return;
        }
        let rtt =
            std::mem::take(&mut self.rtt_sum).checked_div(u64::from(std::mem::take(&mut self.rtt_count)));
        let (Some(base), Some(rtt)) = (self.base_rtt, rtt) else { return };
        let base = base.as_nanos() as u64;
        let dwnd = self.dwnd.min(window.cwnd - window.mss);
        let loss_window = window.cwnd - dwnd;
        let queued = queued(window.segments(), base, rtt);
        self.dwnd = if queued < GAMMA {
            dwnd.saturating_add(increase(window.segments()).saturating_mul(window.mss))
        } else {
            dwnd.saturating_sub((ZETA * queued).min(1 << 20) as u32 * window.mss)
        };
        window.set(loss_window.saturating_add(self.dwnd));
    }

    pub(crate) fn reduce(&mut self, window: &Window, in_flight: u32, signal: CongestionSignal) -> u32 {
        self.saved = self.dwnd;
        // β is a half, as Reno's: what the whole keeps less what Reno's keeps.
        self.dwnd =
            if signal == CongestionSignal::Timeout { 0 } else { self.dwnd.min(window.cwnd - window.mss) / 2 };
        (self.rtt_sum, self.rtt_count) = (0, 0);
        reno::ssthresh(window, in_flight)
    }

    pub(crate) fn undo(&mut self) {
        self.dwnd = self.saved;
    }
}

/// Segments of a window that wait in queues.
fn queued(segments: u32, base_rtt: u64, rtt: u64) -> u64 {
    (u128::from(segments) * u128::from(rtt.saturating_sub(base_rtt)) / u128::from(rtt.max(1))) as u64
}

/// α win^k − 1 for k = 3/4, rounded down: two square roots of the cube.
fn increase(segments: u32) -> u32 {
    let power = (u128::from(segments).pow(3) << 16).isqrt().isqrt() as u64; // 16 times win^(3/4)
    (power / (16 * ALPHA)).saturating_sub(1) as u32
}

#[cfg(test)]
mod tests {
    use trunkline_units::Instant;

    use super::*;

    const MSS: u32 = 1000;
    const BASE: Duration = Duration::from_millis(100);

    fn ack(rtt: Duration, round_ended: bool) -> Ack {
        Ack {
            now: Instant::ZERO,
            acked: MSS,
            rtt: Some(rtt),
            srtt: rtt,
            min_rtt: BASE,
            in_flight: 0,
            round_ended,
            window_limited: true,
            delivered: None,
        }
    }

    fn round(compound: &mut Compound, window: &mut Window, rtt: Duration) {
        let segments = window.segments();
        for number in 1..=segments {
            let ack = ack(rtt, number == segments);
            compound.observe(&ack);
            compound.on_congestion_avoidance(window, &ack, MSS);
        }
    }

    #[test]
    fn the_increase_is_an_eighth_of_the_three_quarter_power_less_one() {
        // 256^0.75 = 64, 4096^0.75 = 512, 65536^0.75 = 4096.
        for (segments, expected) in [(16, 0), (17, 0), (256, 7), (4096, 63), (65_536, 511), (1 << 20, 4095)] {
            assert_eq!(increase(segments), expected, "{segments}");
        }
    }

    #[test]
    fn without_a_queue_a_round_adds_renos_segment_and_the_power() {
        let (mut compound, mut window) = (Compound::default(), Window::new(256 * MSS, 2 * MSS, MSS));
        round(&mut compound, &mut window, BASE);
        assert_eq!(window.cwnd, (256 + 1 + 7) * MSS);
        assert_eq!(compound.dwnd, 7 * MSS);
    }

    #[test]
    fn with_a_queue_of_gamma_the_delay_window_gives_way_and_renos_does_not() {
        let (mut compound, mut window) = (Compound::default(), Window::new(256 * MSS, 2 * MSS, MSS));
        compound.observe(&ack(BASE, false));
        while compound.dwnd < 200 * MSS {
            round(&mut compound, &mut window, BASE);
        }
        let (before, dwnd) = (window.cwnd, compound.dwnd);
        // A ninth of the round trip is a queue: as much of the window waits.
        round(&mut compound, &mut window, BASE * 9 / 8);
        let waiting = window.segments() / 9;
        assert!(waiting >= 30);
        let lost = (dwnd - compound.dwnd) / MSS;
        assert!(lost.abs_diff(waiting) <= waiting / 5, "{lost} of {waiting}");
        assert_eq!(before + MSS - window.cwnd, dwnd - compound.dwnd);
        for _ in 0..100 {
            round(&mut compound, &mut window, BASE * 2);
        }
        assert_eq!(compound.dwnd, 0);
        assert!(window.cwnd > 300 * MSS, "Reno's goes on: {}", window.cwnd);
    }

    #[test]
    fn a_queue_below_gamma_does_not_matter() {
        assert_eq!(queued(300, 100, 110), 27);
        assert_eq!(queued(300, 100, 112), 32);
    }

    #[test]
    fn a_loss_halves_both_and_a_timeout_leaves_renos() {
        let window = Window::new(400 * MSS, 2 * MSS, MSS);
        let mut compound = Compound { dwnd: 100 * MSS, ..Compound::default() };
        assert_eq!(compound.reduce(&window, u32::MAX, CongestionSignal::Loss), 200 * MSS);
        assert_eq!(compound.dwnd, 50 * MSS);
        compound.undo();
        assert_eq!(compound.dwnd, 100 * MSS);
        compound.reduce(&window, u32::MAX, CongestionSignal::Timeout);
        assert_eq!(compound.dwnd, 0);
    }
}
