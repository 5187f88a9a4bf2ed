//! CUBIC (RFC 9438; Ha, Rhee and Xu 2008).
//!
//! After a reduction the window follows W(t) = C (t − K)³ + `W_max`: fast at first, flat near the window of the
//! last loss, then faster again. t is time and not round trips, so flows with unequal round-trip times grow alike.
//! Where Reno's window would be larger, CUBIC grows as Reno would (§4.3).
//!
//! Arithmetic is in whole segments and 1/1024 s, as in the Linux kernel, whose behaviour it follows.
//!
//! Deviation, as in Linux and not in the RFC: the curve is evaluated one smallest round-trip time ahead (§4.2: a
//! smoothed one). An update holds for 1/32 s while the window is the same. Before the first loss the window grows
//! by at least 5 % a round trip. Reno's estimate keeps its α (§4.3 raises it to 1 once `W_est` reaches the window
//! before the reduction). A loss leaves 0.7 of the window, not of the flight size (§4.6 allows it where the window
//! is validated).

use std::time::Duration;

use trunkline_units::Instant;

use crate::window::{Window, scaled};
use crate::{Ack, CongestionSignal};

/// 0.7 (§4.6).
const BETA: u32 = 717;
/// C = 0.4 (§5), also over 1024.
const C: u64 = 410;
/// The eighths of a window that must be acknowledged for one segment of Reno's estimate: 1/α (§4.3).
const RENO_ALPHA_INVERSE: u64 = 8 * (1024 + BETA as u64) / 3 / (1024 - BETA as u64);
/// How long an update holds while the window is the same.
const UPDATE_INTERVAL: Duration = Duration::from_micros(31_250);
const TICK: Duration = Duration::from_millis(1);
/// For this long after a reduction, round-trip times include a queue that drains.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Segments.
#[derive(Debug, Clone, Copy, Default)]
struct Curve {
    /// The window at the last loss; zero before the first.
    w_max: u32,
    epoch: Option<Epoch>,
    /// The window that Reno would have (`W_est`).
    w_est: u32,
    /// Bytes acknowledged towards its next segment.
    reno_acked: u64,
    /// Acknowledged segments for one segment of growth.
    count: u32,
    last_cwnd: u32,
    last_time: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Epoch {
    start: Instant,
    /// From the start to the plateau, 1/1024 s.
    k: u64,
    /// The window at the plateau.
    origin: u32,
}

/// CUBIC's state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cubic {
    curve: Curve,
    /// Before the last reduction (§4.9).
    saved: Curve,
    delay_min: Option<Duration>,
    last_ack: Instant,
}

impl Cubic {
    pub(crate) fn observe(&mut self, ack: &Ack) {
        let settled = self.curve.epoch.is_none_or(|epoch| ack.now - epoch.start >= DRAIN_TIME);
        if let Some(rtt) = ack.rtt.filter(|_| settled) {
            self.delay_min = Some(self.delay_min.map_or(rtt, |smallest| smallest.min(rtt)));
        }
    }

    pub(crate) fn on_congestion_avoidance(&mut self, window: &mut Window, now: Instant, acked: u32) {
        self.last_ack = now;
        let cwnd = window.segments();
        let curve = &mut self.curve;
        curve.reno_acked += u64::from(acked);
        let current = curve.last_cwnd == cwnd && now - curve.last_time <= UPDATE_INTERVAL;
        if curve.epoch.is_none() || !current {
            if curve.epoch.is_none() || now - curve.last_time >= TICK {
                curve.update(now, cwnd, acked, self.delay_min.unwrap_or_default());
            }
            curve.reno_friendly_window(cwnd, window.mss);
            curve.count = curve.count.max(2);
        }
        window.grow_one_in(curve.count, acked);
    }

    /// Application-limited time does not count on the curve (§5.8).
    pub(crate) fn on_app_limited(&mut self, now: Instant) {
        let gap = now - self.last_ack;
        self.last_ack = now;
        self.shift(now, gap);
    }

    pub(crate) fn on_idle(&mut self, now: Instant, idle: Duration) {
        self.last_ack = now;
        self.shift(now, idle);
    }

    fn shift(&mut self, now: Instant, by: Duration) {
        if let Some(epoch) = &mut self.curve.epoch {
            epoch.start = (epoch.start + by).min(now);
        }
    }

    /// §4.6; `W_max` with fast convergence (§4.7): a flow whose window shrinks leaves room for new flows.
    pub(crate) fn reduce(&mut self, window: &Window, signal: CongestionSignal) -> u32 {
        self.saved = self.curve;
        let cwnd = window.segments();
        if signal == CongestionSignal::Timeout {
            // §4.8: the curve begins anew, flat at the window that congestion avoidance begins with.
            self.curve = Curve::default();
            self.delay_min = None;
        } else {
            let w_max = if cwnd < self.curve.w_max { scaled(cwnd, u32::midpoint(1024, BETA)) } else { cwnd };
            self.curve.w_max = w_max;
            self.curve.epoch = None;
        }
        scaled(window.cwnd, BETA)
    }

    pub(crate) fn undo(&mut self) {
        self.curve = self.saved;
    }
}

impl Curve {
    fn update(&mut self, now: Instant, cwnd: u32, acked: u32, ahead: Duration) {
        self.last_cwnd = cwnd;
        self.last_time = now;
        let epoch = *self.epoch.get_or_insert_with(|| {
            self.reno_acked = u64::from(acked);
            self.w_est = cwnd;
            match self.w_max.checked_sub(cwnd) {
                Some(below @ 1..) => {
                    Epoch { start: now, k: cube_root((1 << 40) / C * u64::from(below)), origin: self.w_max }
                }
                _ => Epoch { start: now, k: 0, origin: cwnd },
            }
        });
        let time = ((now - epoch.start) + ahead).as_nanos() * 1024 / 1_000_000_000;
        let offset = time.abs_diff(u128::from(epoch.k)).min(1 << 32);
        let delta = u32::try_from((u128::from(C) * offset * offset * offset) >> 40).unwrap_or(u32::MAX);
        let target = if time < u128::from(epoch.k) {
            epoch.origin.saturating_sub(delta)
        } else {
            epoch.origin.saturating_add(delta)
        };
        self.count = match target.checked_sub(cwnd) {
            Some(above @ 1..) => cwnd / above,
            _ => cwnd.saturating_mul(100),
        };
        if self.w_max == 0 {
            self.count = self.count.min(20);
        }
    }

    fn reno_friendly_window(&mut self, cwnd: u32, mss: u32) {
        let price = (u64::from(cwnd) * RENO_ALPHA_INVERSE / 8).max(1) * u64::from(mss);
        let grown = self.reno_acked.saturating_sub(1) / price;
        self.reno_acked -= grown * price;
        self.w_est = self.w_est.saturating_add(grown as u32);
        if let Some(ahead @ 1..) = self.w_est.checked_sub(cwnd) {
            self.count = self.count.min(cwnd / ahead);
        }
    }
}

/// The integer cube root of `value`, rounded down, bit by bit.
fn cube_root(value: u64) -> u64 {
    let mut root = 0_u64;
    for bit in (0..22).rev() {
        let more = root | 1 << bit;
        if u128::from(more) * u128::from(more) * u128::from(more) <= u128::from(value) {
            root = more;
        }
    }
    root
}

#[cfg(test)]
mod tests;
