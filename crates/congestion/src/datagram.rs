//! The window of a sender of datagrams, which are congestion-controlled and never retransmitted (RFC 9221, RFC 9002).
//!
//! The owner numbers datagrams, measures round trips and finds losses. It reports them here as [`Feedback`], and asks
//! whether the window has room. The window is reduced at most once for each round trip (RFC 9002 §7.3.2): a loss or a
//! mark of what left before the last reduction is no reason for another.
//!
//! After a reduction more is under way than the window allows. Until that has drained, datagrams leave in proportion
//! to those that arrive or are lost (RFC 6937), so that half a round trip of silence is not followed by a half at the old
//! rate.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

use crate::{Ack, Congestion, CongestionAlgorithm, CongestionSignal, Settings};

/// A packet of a lane that later ones have overtaken counts as lost after so many round trips: its own, and as a reordering window
/// the longest that RFC 8985 §6.2 lets one grow to. The gateway's library has one threshold for all of a connection, and does not
/// tell that a packet came after it counted as lost, so the window cannot begin small and adapt.
pub const TIME_THRESHOLD: u32 = 2;

/// Packets of a lane that may overtake one before it counts as lost, whatever the time.
/// RFC 9002 §6.1.1 recommends no fewer than three. Batches of a machine with several processors overtake each other, and three
/// packets are a part of a batch. The receiver of the gateway's library does not take a packet that 128 have overtaken.
pub const PACKET_THRESHOLD: u32 = 128;

/// What the control has to know of a datagram again when it is acknowledged or lost. The owner keeps it beside the
/// datagram's number.
#[derive(Debug, Clone, Copy)]
pub struct Departure {
    /// When it left.
    pub at: Instant,
    /// How many had left before it.
    order: u64,
    /// Bytes that had been delivered by then.
    delivered: u64,
}

/// What an acknowledgement says, or a timer found out.
#[derive(Debug, Clone, Copy)]
pub struct Feedback {
    /// When it came.
    pub now: Instant,
    /// Bytes that it acknowledges for the first time, and the latest datagram among them.
    pub acked: Option<(u32, Departure)>,
    /// Bytes that it shows to be lost, and the latest datagram among them.
    pub lost: Option<(u32, Departure)>,
    /// A datagram that it acknowledges was marked as having met congestion (RFC 3168).
    pub marked: bool,
    /// The smoothed round-trip time, with the sample of this acknowledgement.
    pub srtt: Duration,
    /// The smallest round-trip time seen.
    pub min_rtt: Duration,
}

/// A reduction that is not over: bytes that were under way, that have arrived or were lost since, and that were sent
/// since.
#[derive(Debug, Clone, Copy)]
struct Reduction {
    flight: u32,
    settled: u32,
    sent: u32,
}

/// The window of a sender of datagrams, and what it has under way.
#[derive(Debug, Clone)]
pub struct DatagramControl {
    congestion: Congestion,
    in_flight: u32,
    /// Datagrams sent.
    next: u64,
    /// What `next` was at the last reduction, and at the end of the last round trip.
    recovered: u64,
    round: u64,
    delivered: u64,
    rate: Option<Rate>,
    /// The window has kept a datagram back since the last acknowledgement.
    limited: bool,
    reduction: Option<Reduction>,
    /// The maximum of bytes in flight in this round trip.
    peak: u32,
}

impl DatagramControl {
    /// The control of a sender whose largest datagrams have `segment` bytes; the window counts in these.
    pub fn new(settings: &Settings, segment: u32) -> Self {
        DatagramControl {
            congestion: Congestion::new(settings, segment),
            in_flight: 0,
            next: 0,
            recovered: 0,
            round: 0,
            delivered: 0,
            rate: None,
            limited: false,
            reduction: None,
            peak: 0,
        }
    }

    /// Replaces the algorithm; the window stays.
    pub fn set_algorithm(&mut self, algorithm: CongestionAlgorithm) {
        self.congestion.set_algorithm(algorithm);
    }

    /// Congestion window, bytes.
    pub const fn cwnd(&self) -> u32 {
        self.congestion.cwnd()
    }

    /// Bytes sent, and neither acknowledged nor lost.
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Corrects the bytes in flight, for an owner that keeps count itself.
    pub const fn set_in_flight(&mut self, bytes: u32) {
        self.in_flight = bytes;
    }

    /// Changes the bytes of the largest datagrams: the path's MTU is another.
    pub fn set_segment(&mut self, bytes: u32) {
        self.congestion.set_mss(bytes);
    }

    /// Delivery rate of the last acknowledgement's datagrams, over the time since the latest of them left.
    pub const fn delivery_rate(&self) -> Option<Rate> {
        self.rate
    }

    /// The pacing rate, if the algorithm paces.
    pub fn pacing_rate(&self, srtt: Option<Duration>) -> Option<Rate> {
        self.congestion.pacing_rate(srtt)
    }

    /// How many bytes may be in flight now: the window, or more while what a reduction left in flight drains.
    pub fn send_window(&self) -> u32 {
        let cwnd = self.congestion.cwnd();
        let allowance = self.reduction.map_or(0, |reduction| {
            let due = u64::from(reduction.settled) * u64::from(cwnd) / u64::from(reduction.flight.max(1));
            due.saturating_sub(reduction.sent.into()) as u32
        });
        if allowance == 0 { cwnd } else { cwnd.max(self.in_flight.saturating_add(allowance)) }
    }

    /// Whether a datagram of `bytes` may leave. One may whenever none is under way.
    pub fn has_room(&self, bytes: u32) -> bool {
        self.in_flight == 0 || self.in_flight + bytes <= self.send_window()
    }

    /// A datagram waits because the window has no room: the window is in use and may grow.
    pub const fn handle_blocked(&mut self) {
        self.limited = true;
    }

    /// A datagram of `bytes` leaves.
    pub fn handle_sent(&mut self, now: Instant, bytes: u32) -> Departure {
        let departure = Departure { at: now, order: self.next, delivered: self.delivered };
        self.next += 1;
        self.in_flight += bytes;
        if let Some(reduction) = &mut self.reduction {
            reduction.sent += bytes;
        }
        self.peak = self.peak.max(self.in_flight);
        departure
    }

    /// Takes what an acknowledgement says out of the window, and grows or reduces the window. Returns whether it reduced it.
    pub fn handle_feedback(&mut self, feedback: &Feedback) -> bool {
        let before = self.in_flight;
        let bytes = |of: Option<(u32, Departure)>| of.map_or(0, |(bytes, _)| bytes);
        // An owner may report more than was counted here: see `set_in_flight`.
        self.in_flight = before.saturating_sub(bytes(feedback.acked) + bytes(feedback.lost));
        if let Some((acked, newest)) = feedback.acked {
            self.delivered += u64::from(acked);
            let elapsed = feedback.now.saturating_since(newest.at).as_nanos().max(1);
            let bits = u128::from(self.delivered - newest.delivered) * 8_000_000_000 / elapsed;
            self.rate = Some(Rate::from_bits_per_second(bits as u64));
        }
        let after_reduction =
            |of: Option<(u32, Departure)>| of.is_some_and(|(_, newest)| newest.order >= self.recovered);
        let (acked_since, lost_since) = (after_reduction(feedback.acked), after_reduction(feedback.lost));
        if lost_since || (feedback.marked && acked_since) {
            let signal = if lost_since { CongestionSignal::Loss } else { CongestionSignal::EcnMark };
            self.congestion.reduce(before, signal);
            self.recovered = self.next;
            self.reduction = Some(Reduction { flight: before, settled: before - self.in_flight, sent: 0 });
            return true;
        }
        match feedback.acked {
            Some(acked) if acked_since => self.grow(feedback, acked, before),
            _ => {
                if let Some(reduction) = &mut self.reduction {
                    reduction.settled += before - self.in_flight;
                }
            }
        }
        false
    }

    fn grow(&mut self, feedback: &Feedback, (acked, newest): (u32, Departure), before: u32) {
        self.reduction = None;
        let round_ended = newest.order >= self.round;
        // In slow start a window of twice what is used is no more than the next round trip may need.
        let slow_start =
            self.congestion.in_slow_start() && self.congestion.cwnd() < self.peak.saturating_mul(2);
        let limited = std::mem::take(&mut self.limited) || slow_start;
        if round_ended {
            self.round = self.next;
            self.peak = self.in_flight;
        }
        self.congestion.handle_ack(&Ack {
            now: feedback.now,
            acked,
            rtt: Some(feedback.now.saturating_since(newest.at)),
            srtt: feedback.srtt,
            min_rtt: feedback.min_rtt,
            in_flight: before,
            round_ended,
            window_limited: limited,
            delivered: self.rate.map(|rate| (rate, !limited)),
        });
    }

    /// Nothing was heard for a timeout: all that is under way counts as lost.
    pub fn handle_timeout(&mut self) {
        self.congestion.reduce(self.in_flight, CongestionSignal::Timeout);
        self.in_flight = 0;
        self.recovered = self.next;
        self.reduction = None;
    }
}

#[cfg(test)]
mod tests;
