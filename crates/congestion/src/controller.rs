//! The congestion controller: the window, a slow start and a congestion control algorithm.

use std::time::Duration;

use trunkline_units::{Instant, Rate, Region};

use crate::algorithm::Algorithm;
use crate::custom::CustomCongestion;
use crate::slow_start::SlowStartState;
use crate::window::Window;
use crate::{CongestionAlgorithm, Counting, Settings};

/// An acknowledgement of new data.
#[derive(Debug, Clone, Copy)]
pub struct Ack {
    /// When it came.
    pub now: Instant,
    /// Bytes that it acknowledges for the first time, by SACK too.
    pub acked: u32,
    /// The round-trip sample that it gives.
    pub rtt: Option<Duration>,
    /// Smoothed, with that sample.
    pub srtt: Duration,
    /// The smallest round-trip time seen.
    pub min_rtt: Duration,
    /// Bytes in flight before it came.
    pub in_flight: u32,
    /// It acknowledges something that was sent after the first acknowledgement of the round: a round trip is over, and
    /// this is the first of the next.
    pub round_ended: bool,
    /// The window is in use: it kept the sender from sending more in the last round trip or, in slow start, more than
    /// half of it was in flight (RFC 7661 §4.3 in the form that Linux gives it).
    pub window_limited: bool,
    /// Delivery rate, as BBR's rate sampling has it, and whether the sender's lack of data bounded it.
    pub delivered: Option<(Rate, bool)>,
}

/// The congestion signal that reduces the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CongestionSignal {
    /// A segment was lost and is repaired without a timeout.
    Loss,
    /// A segment was marked.
    EcnMark,
    /// The retransmission timer ran out.
    Timeout,
}

/// The congestion window of one sender.
#[derive(Debug, Clone)]
pub struct Congestion {
    window: Window,
    algorithm: Algorithm,
    start: SlowStartState,
    /// cwnd and ssthresh before the last reduction; zero if there is none to take back.
    prior: (u32, u32),
    counting: Counting,
    restart_after_idle: bool,
    cwnd_validation: bool,
}

impl Congestion {
    /// The window of a connection with segments of at most `mss` bytes of data.
    pub fn new(settings: &Settings, mss: u32) -> Self {
        let mss = mss.max(1);
        let ssthresh =
            settings.initial_ssthresh.map_or(u32::MAX, |segments| segments.saturating_mul(mss).max(2 * mss));
        let initial_window = settings.initial_window.saturating_mul(mss);
        Congestion {
            window: Window::new(initial_window, ssthresh, mss),
            algorithm: Algorithm::new(settings.algorithm, initial_window),
            start: SlowStartState::new(settings.slow_start),
            prior: (0, 0),
            counting: settings.counting,
            restart_after_idle: settings.restart_after_idle,
            cwnd_validation: settings.cwnd_validation,
        }
    }

    /// Replaces the algorithm, as `tcp_reinit_congestion_control` of Linux does: cwnd stays, and the new algorithm knows
    /// nothing of the path. A reduction of before cannot be taken back. An algorithm with a model of the path leaves
    /// no threshold behind (`bbr_init`).
    pub fn set_algorithm(&mut self, algorithm: CongestionAlgorithm) {
        self.algorithm = Algorithm::new(algorithm, self.window.cwnd);
        self.algorithm.handle_continued();
        self.start.restart();
        self.prior = (0, 0);
        if self.models_path() {
            self.window.ssthresh = u32::MAX;
        }
        self.hold(self.window.cwnd);
    }

    /// Gives a new sender an algorithm that is not of this crate in place of its own.
    pub fn set_custom(&mut self, custom: &CustomCongestion) {
        self.algorithm = Algorithm::Custom(Box::new(custom.make(self.window.mss)));
    }

    /// Sets the window of [`CongestionAlgorithm::Held`], bytes; without effect on others. Acknowledgements and losses leave it as it is. A
    /// timeout leaves one segment, from which slow start leads back to it.
    pub fn hold(&mut self, cwnd: u32) {
        if matches!(self.algorithm, Algorithm::Held) {
            self.window.set(cwnd);
            self.window.set_ssthresh(self.window.cwnd);
        }
    }

    /// Changes the bytes of data in a segment.
    pub fn set_mss(&mut self, mss: u32) {
        self.window.mss = mss.max(1);
    }

    /// Changes the bytes of data in a segment during a connection, for a path that takes shorter ones: the window and the threshold
    /// stay as many segments, as in Linux (`tcp_simple_retransmit`).
    pub fn rescale(&mut self, mss: u32) {
        let (old, new) = (self.window.mss, mss.max(1));
        let scaled = |bytes: u32| (u64::from(bytes) * u64::from(new) / u64::from(old)) as u32;
        self.window.mss = new;
        self.window.set(scaled(self.window.cwnd));
        if self.window.ssthresh != u32::MAX {
            self.window.ssthresh = scaled(self.window.ssthresh).max(2 * new);
        }
        self.prior = (0, 0);
    }

    /// Has the state of the algorithm loaded into the processor's caches.
    #[inline]
    pub fn prefetch(&self, load: impl Fn(Region)) {
        self.algorithm.prefetch(load);
    }

    /// Congestion window, bytes.
    #[inline]
    pub const fn cwnd(&self) -> u32 {
        self.window.cwnd
    }

    /// Slow-start threshold, bytes; `u32::MAX` before the first loss.
    #[inline]
    pub const fn ssthresh(&self) -> u32 {
        self.window.ssthresh
    }

    /// Whether the window is below the threshold.
    #[inline]
    pub const fn in_slow_start(&self) -> bool {
        self.window.in_slow_start()
    }

    /// The window before the last reduction, bytes, from which proportional rate reduction begins. `None` before the
    /// first reduction and once it was undone.
    #[inline]
    pub const fn prior_cwnd(&self) -> Option<u32> {
        if self.prior.0 == 0 { None } else { Some(self.prior.0) }
    }

    /// Grows the window by an acknowledgement outside of recovery.
    pub fn handle_ack(&mut self, ack: &Ack) {
        self.algorithm.observe(&mut self.window, ack);
        if self.models_path() {
            self.algorithm.on_congestion_avoidance(&mut self.window, ack, ack.acked);
            return;
        }
        if self.window.in_slow_start() {
            self.start.observe(&mut self.window, ack);
        }
        if self.cwnd_validation && !ack.window_limited {
            self.algorithm.on_app_limited(ack.now);
            return;
        }
        let mut acked = self.counting.of(ack.acked, self.window.mss);
        if self.window.in_slow_start() {
            let counted = self.counting.in_slow_start(acked, self.window.mss);
            acked = self.start.grow(&mut self.window, counted);
            if acked == 0 {
                return;
            }
        }
        self.algorithm.on_congestion_avoidance(&mut self.window, ack, acked);
    }

    /// Whether the window follows a model of the path, as BBR's does. Such a controller also learns from the
    /// acknowledgements of a recovery ([`Congestion::handle_recovery_ack`]) and has a window of its own in it, and
    /// [`Ack::delivered`] is its input.
    #[inline]
    pub fn models_path(&self) -> bool {
        self.algorithm.models_path()
    }

    /// Whether [`Ack::delivered`] is looked at.
    #[inline]
    pub fn asks_delivery_rate(&self) -> bool {
        matches!(self.algorithm, Algorithm::Bbr(_) | Algorithm::Custom(_))
    }

    /// Updates the model of the path during recovery, if there is one, and its window: `in_flight` bytes are left after the
    /// acknowledgement, and `lost` were found lost by it. Other algorithms leave the window to the recovery.
    pub fn handle_recovery_ack(&mut self, ack: &Ack, in_flight: u32, lost: u32) {
        if self.models_path() {
            self.algorithm.observe(&mut self.window, ack);
            self.algorithm.on_recovery(&mut self.window, ack, in_flight, lost);
        }
    }

    /// Reduces ssthresh, and the window to ssthresh; a timeout reduces the window to one segment. [`Congestion::undo`]
    /// can restore both.
    ///
    /// `in_flight` is RFC 5681's `FlightSize`: bytes sent and not cumulatively acknowledged. Call it once for each
    /// event: not again when the timer runs out for the same segment a second time (RFC 5681 §3.1).
    pub fn reduce(&mut self, in_flight: u32, signal: CongestionSignal) {
        self.prior = (self.window.cwnd, self.window.ssthresh);
        let left = self.algorithm.reduce(&self.window, in_flight, signal);
        self.window.set_ssthresh(left);
        self.window.forget_credit();
        if signal == CongestionSignal::Timeout {
            self.window.set(self.window.mss);
            self.start.restart();
        } else {
            let before = self.window.cwnd.max(2 * self.window.mss);
            self.window.set(self.window.ssthresh.min(before));
        }
    }

    /// Undoes the last reduction, which was spurious. A window that has grown beyond the old one stays.
    pub fn undo(&mut self) {
        let (cwnd, ssthresh) = std::mem::take(&mut self.prior);
        if cwnd != 0 {
            self.window.set(self.window.cwnd.max(cwnd));
            self.window.ssthresh = self.window.ssthresh.max(ssthresh);
            self.algorithm.undo();
        }
    }

    /// The last reduction stands: [`Congestion::undo`] restores nothing.
    pub fn confirm_reduction(&mut self) {
        self.prior = (0, 0);
    }

    /// Sets the window, during loss recovery.
    #[inline]
    pub fn set_cwnd(&mut self, cwnd: u32) {
        self.window.set(cwnd);
    }

    /// The sender sent nothing for `idle`, which is `rto` or longer. If the settings ask for a restart, the window
    /// shrinks towards `initial_window` (bytes): at once (RFC 5681 §4.1) or, for a sender that validates its window, by
    /// half for each `rto` (RFC 2861 §3.1).
    pub fn handle_idle(&mut self, now: Instant, idle: Duration, rto: Duration, initial_window: u32) {
        self.algorithm.on_idle(now, idle);
        if !self.restart_after_idle {
            return;
        }
        let floor = initial_window.min(self.window.cwnd);
        if !self.cwnd_validation {
            self.window.set(floor);
            return;
        }
        let reached = self.window.cwnd - self.window.cwnd / 4;
        self.window.ssthresh = self.window.ssthresh.max(reached);
        let halvings = idle
            .saturating_sub(rto)
            .as_nanos()
            .checked_div(rto.as_nanos())
            .map_or(31, |timeouts| timeouts.min(30) as u32 + 1);
        self.window.set((self.window.cwnd >> halvings.min(31)).max(floor));
    }

    /// The pacing rate, if the algorithm paces.
    #[inline]
    pub fn pacing_rate(&self, srtt: Option<Duration>) -> Option<Rate> {
        self.algorithm.pacing_rate(srtt)
    }
}

#[cfg(test)]
mod tests;
