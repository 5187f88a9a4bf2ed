//! BBR, version 1 (Cardwell, Cheng, Gunn, Yeganeh and Jacobson 2016;
//! draft-cardwell-iccrg-bbr-congestion-control-00), as in the Linux kernel.
//!
//! A model of the path has its bandwidth (the largest delivery rate of ten round trips) and its round-trip time
//! (the smallest of ten seconds). The model sets the pacing rate and the bytes in flight; losses do not. *Startup*
//! doubles the rate until the bandwidth stops growing. *Drain* empties the queue that startup built. *Probe
//! bandwidth* sends a quarter more in one of eight round trips and a quarter less in the next. *Probe RTT* empties
//! the path to measure its round-trip time again.
//!
//! In the first round trip of a loss recovery the sender sends as much as is delivered (packet conservation). Then the window grows
//! towards its target again, less what is found lost; the recovery ends with the window of before at least.
//!
//! Deviation: there is no detection of policed rates. The kernel's random start of the cycle is a function of the time.

mod aggregation;
mod max_filter;

use std::time::Duration;

use trunkline_units::{Instant, Rate};

use crate::Ack;
use crate::window::Window;
use aggregation::Aggregation;
use max_filter::MaxFilter;

/// Gains are in 1/256.
const UNIT: u64 = 256;
/// 2/ln 2: doubles the rate each round trip.
const HIGH_GAIN: u64 = 739;
const DRAIN_GAIN: u64 = 88;
const PACING_GAIN_CYCLE: [u64; 8] = [320, 192, 256, 256, 256, 256, 256, 256];
const WINDOW_GAIN: u64 = 512;
const BANDWIDTH_ROUNDS: u32 = 10;
const RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT: Duration = Duration::from_millis(200);
/// The window in probe RTT, and the smallest window in any state, segments.
const MIN_WINDOW_SEGMENTS: u32 = 4;
/// Segments beyond the BDP, because segments are sent and acknowledged in groups.
const EXTRA_SEGMENTS: u32 = 6;
/// Segments beyond these in the round trip that sends more.
const PROBE_SEGMENTS: u32 = 2;
/// The pipe is full once the bandwidth has not grown by a quarter for this many rounds.
const FULL_ROUNDS: u8 = 3;

/// Bytes that a bandwidth, bit/s, delivers in a time, with a gain.
fn delivered(bandwidth: u64, time: Duration, gain: u64) -> u32 {
    let bits = u128::from(bandwidth) * time.as_nanos() * u128::from(gain);
    u32::try_from(bits / (u128::from(UNIT) * 8_000_000_000)).unwrap_or(u32::MAX)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth {
        phase: u8,
        since: Instant,
    },
    /// Lasts until `until`, which is set once the window is reached, and for a round.
    ProbeRtt {
        until: Option<Instant>,
        round_over: bool,
    },
}

/// The first round trip of a loss recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecoveryStart {
    /// It is over, or there is no recovery.
    Over,
    /// The loss has just been found.
    Due,
    /// Packet conservation.
    Conserving,
}

/// BBR's state.
#[derive(Debug, Clone)]
pub(crate) struct Bbr {
    mode: Mode,
    bandwidth: MaxFilter,
    round: u32,
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    full_bandwidth: u64,
    full_rounds: u8,
    /// A congestion signal came since the phase began.
    loss_in_phase: bool,
    aggregation: Aggregation,
    /// A loss recovery has begun, and its first round trip is not over.
    recovery: RecoveryStart,
    /// The window before probe RTT.
    prior_cwnd: u32,
    initial_window: u32,
    /// Bytes acknowledged, up to the initial window.
    acknowledged: u32,
    /// Bits a second.
    pacing: u64,
}

impl Bbr {
    pub(crate) fn new(initial_window: u32) -> Self {
        Bbr {
            mode: Mode::Startup,
            bandwidth: MaxFilter::default(),
            round: 0,
            min_rtt: None,
            min_rtt_at: Instant::ZERO,
            full_bandwidth: 0,
            full_rounds: 0,
            loss_in_phase: false,
            aggregation: Aggregation::default(),
            recovery: RecoveryStart::Over,
            prior_cwnd: 0,
            initial_window,
            acknowledged: 0,
            pacing: 0,
        }
    }

    /// The connection has delivered data before (`tp->delivered`): the window waits for the first sample.
    pub(crate) const fn handle_continued(&mut self) {
        self.acknowledged = self.initial_window;
    }

    /// Updates the model of the path, not the window.
    pub(crate) fn observe(&mut self, window: &mut Window, ack: &Ack) {
        self.acknowledged = self.acknowledged.saturating_add(ack.acked).min(self.initial_window);
        self.round = self.round.wrapping_add(u32::from(ack.round_ended));
        if let Some((rate, limited)) = ack.delivered
            && (!limited || rate.bits_per_second() >= self.bandwidth.best())
        {
            self.bandwidth.update(self.round, rate.bits_per_second(), BANDWIDTH_ROUNDS);
        }
        if ack.round_ended && self.recovery == RecoveryStart::Conserving {
            self.recovery = RecoveryStart::Over;
        }
        if ack.acked > 0 {
            let best = self.bandwidth.best();
            self.aggregation.update(ack.now, ack.acked, ack.round_ended, best, window.cwnd);
        }
        let in_flight = ack.in_flight.saturating_sub(ack.acked);
        self.update_cycle_phase(window, ack.now, in_flight);
        self.check_full_pipe(ack);
        if self.mode == Mode::Startup && self.is_pipe_full() {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && in_flight <= self.inflight_target(window, UNIT) {
            self.enter_probe_bandwidth(ack.now);
        }
        self.update_min_rtt(window, ack, in_flight);
        self.set_pacing(ack);
    }

    pub(crate) fn pacing_rate(&self, srtt: Option<Duration>) -> Rate {
        let rate = if self.pacing > 0 {
            self.pacing
        } else {
            // Before the first acknowledgement: the initial window in a round trip, of 1 ms if none is known.
            let rtt = srtt.unwrap_or(Duration::from_millis(1)).as_nanos().max(1);
            let bits = u128::from(self.initial_window) * 8_000_000_000 * u128::from(HIGH_GAIN);
            u64::try_from(bits / (u128::from(UNIT) * rtt)).unwrap_or(u64::MAX)
        };
        Rate::from_bits_per_second(rate)
    }

    /// A congestion signal leaves the window as it is; the recovery returns to it.
    pub(crate) fn reduce(&mut self, window: &Window) -> u32 {
        self.loss_in_phase = true;
        self.recovery = RecoveryStart::Due;
        window.cwnd
    }

    /// Sets the window after an acknowledgement during recovery, of which `in_flight` bytes are left and `lost` were found lost.
    pub(crate) fn set_window_in_recovery(
        &mut self,
        window: &mut Window,
        ack: &Ack,
        in_flight: u32,
        lost: u32,
    ) {
        let conserved = in_flight.saturating_add(ack.acked);
        let mut cwnd = window.cwnd.saturating_sub(lost).max(window.mss);
        if self.recovery == RecoveryStart::Due {
            self.recovery = RecoveryStart::Conserving;
            cwnd = conserved;
        }
        if self.recovery == RecoveryStart::Conserving {
            window.set(cwnd.max(conserved));
            if matches!(self.mode, Mode::ProbeRtt { .. }) {
                window.set(window.cwnd.min(MIN_WINDOW_SEGMENTS * window.mss));
            }
        } else {
            window.set(cwnd);
            self.set_window(window, ack);
        }
    }

    fn is_pipe_full(&self) -> bool {
        self.full_rounds >= FULL_ROUNDS
    }

    fn pacing_gain(&self) -> u64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => DRAIN_GAIN,
            Mode::ProbeBandwidth { phase, .. } => PACING_GAIN_CYCLE[usize::from(phase)],
            Mode::ProbeRtt { .. } => UNIT,
        }
    }

    /// Bandwidth × round-trip time × gain, bytes, and some more; the initial window while they are unknown.
    fn inflight_target(&self, window: &Window, gain: u64) -> u32 {
        self.inflight_with(window, gain, 0)
    }

    /// The same with an allowance, bytes.
    fn inflight_with(&self, window: &Window, gain: u64, allowance: u32) -> u32 {
        let Some(rtt) = self.min_rtt.filter(|_| self.bandwidth.best() > 0) else {
            return self.initial_window;
        };
        let bytes = delivered(self.bandwidth.best(), rtt, gain).saturating_add(allowance);
        let segments = bytes.div_ceil(window.mss).saturating_add(EXTRA_SEGMENTS);
        let probes = matches!(self.mode, Mode::ProbeBandwidth { phase: 0, .. });
        let segments = segments.saturating_add(segments % 2 + if probes { PROBE_SEGMENTS } else { 0 });
        segments.saturating_mul(window.mss)
    }

    fn enter_probe_bandwidth(&mut self, now: Instant) {
        // Any phase but the one that sends less, spread over flows by their times.
        let phase = match now.as_nanos().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 {
            mixed if mixed % 7 == 0 => 0,
            mixed => 1 + (mixed % 7) as u8,
        };
        self.mode = Mode::ProbeBandwidth { phase, since: now };
        self.loss_in_phase = false;
    }

    /// Enters the next phase of the cycle, if this one is complete.
    fn update_cycle_phase(&mut self, window: &Window, now: Instant, in_flight: u32) {
        let Mode::ProbeBandwidth { phase, since } = self.mode else { return };
        let long = now - since > self.min_rtt.unwrap_or_default();
        let over = match PACING_GAIN_CYCLE[usize::from(phase)] {
            gain if gain > UNIT => {
                long && (self.loss_in_phase || in_flight >= self.inflight_target(window, gain))
            }
            gain if gain < UNIT => long || in_flight <= self.inflight_target(window, UNIT),
            _ => long,
        };
        if over {
            self.mode =
                Mode::ProbeBandwidth { phase: (phase + 1) % PACING_GAIN_CYCLE.len() as u8, since: now };
            self.loss_in_phase = false;
        }
    }

    fn check_full_pipe(&mut self, ack: &Ack) {
        let limited = ack.delivered.is_some_and(|(_, limited)| limited);
        if self.is_pipe_full() || !ack.round_ended || limited {
            return;
        }
        let best = self.bandwidth.best();
        if best >= self.full_bandwidth.saturating_mul(5) / 4 {
            (self.full_bandwidth, self.full_rounds) = (best, 0);
        } else {
            self.full_rounds += 1;
        }
    }

    fn update_min_rtt(&mut self, window: &mut Window, ack: &Ack, in_flight: u32) {
        if self.min_rtt.is_none() && !ack.min_rtt.is_zero() {
            // That of the handshake too.
            (self.min_rtt, self.min_rtt_at) = (Some(ack.min_rtt), ack.now);
        }
        let expired = self.min_rtt.is_some() && ack.now - self.min_rtt_at > RTT_WINDOW;
        if let Some(rtt) = ack.rtt
            && (expired || self.min_rtt.is_none_or(|min_rtt| rtt <= min_rtt))
        {
            (self.min_rtt, self.min_rtt_at) = (Some(rtt), ack.now);
        }
        if expired && !matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.mode = Mode::ProbeRtt { until: None, round_over: false };
            self.prior_cwnd = window.cwnd;
        }
        let Mode::ProbeRtt { until, round_over } = &mut self.mode else { return };
        match until {
            None if in_flight <= MIN_WINDOW_SEGMENTS * window.mss => *until = Some(ack.now + PROBE_RTT),
            None => {}
            Some(until) => {
                *round_over |= ack.round_ended;
                if *round_over && ack.now > *until {
                    self.min_rtt_at = ack.now;
                    window.set(window.cwnd.max(self.prior_cwnd));
                    if self.is_pipe_full() {
                        self.enter_probe_bandwidth(ack.now);
                    } else {
                        self.mode = Mode::Startup;
                    }
                }
            }
        }
    }

    fn set_pacing(&mut self, ack: &Ack) {
        // Startup never goes below the rate that it began with.
        if self.pacing == 0 && !ack.srtt.is_zero() {
            self.pacing = self.pacing_rate(Some(ack.srtt)).bits_per_second();
        }
        if self.bandwidth.best() == 0 {
            return;
        }
        // A hundredth less, so that what is sent does not stay in the queue.
        let rate = u128::from(self.bandwidth.best()) * u128::from(self.pacing_gain()) * 99
            / (u128::from(UNIT) * 100);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        if self.is_pipe_full() || rate > self.pacing {
            self.pacing = rate.max(1);
        }
    }

    pub(crate) fn set_window(&self, window: &mut Window, ack: &Ack) {
        let gain = match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBandwidth { .. } | Mode::ProbeRtt { .. } => WINDOW_GAIN,
        };
        let full = self.is_pipe_full();
        let allowance = if full { self.aggregation.allowance(self.bandwidth.best()) } else { 0 };
        let target = self.inflight_with(window, gain, allowance);
        let grown = window.cwnd.saturating_add(ack.acked);
        if full {
            window.set(grown.min(target));
        } else if window.cwnd < target || self.acknowledged < self.initial_window {
            window.set(grown);
        }
        let min = MIN_WINDOW_SEGMENTS * window.mss;
        let max = if matches!(self.mode, Mode::ProbeRtt { .. }) { min } else { u32::MAX };
        window.set(window.cwnd.clamp(min, max));
    }
}

#[cfg(test)]
mod tests;
