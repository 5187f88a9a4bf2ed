//! The sending half of an endpoint, which is small until it has sent more than its SYN.
//!
//! Most of a sender's state describes the segments in flight. An end that only receives never has any; of the 20
//! 000 ends of 10 000 flows that is half. So the first byte or FIN to send creates the [`Sender`], from the state
//! agreed in the handshake.

use std::time::Duration;

use trunkline_units::{Instant, Rate, Seq};

use crate::sender::Sender;
use crate::stream::Origin;
use crate::{Recovery, Settings};

/// A maximum pacing rate, or none, in eight bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MaxPacingRate(u64);

impl MaxPacingRate {
    pub(crate) fn new(rate: Option<Rate>) -> Self {
        MaxPacingRate(rate.map_or(0, |rate| rate.bits_per_second().max(1)))
    }

    #[inline]
    pub(crate) fn rate(self) -> Option<Rate> {
        (self.0 > 0).then_some(Rate::from_bits_per_second(self.0))
    }
}

#[derive(Debug)]
pub(crate) struct IdleSender {
    pub(crate) origin: Origin,
    /// Behind the last byte written.
    pub(crate) end: u64,
    pub(crate) edge: u64,
    pub(crate) max_pacing_rate: MaxPacingRate,
    /// When SYN was sent first.
    pub(crate) syn_sent: Instant,
    /// What its round trip took, ns, if it was not retransmitted.
    pub(crate) syn_rtt: u64,
    pub(crate) window_from: (Seq, Seq),
    pub(crate) largest_window: u32,
    pub(crate) mss: u16,
    pub(crate) shift: u8,
    pub(crate) kind: Recovery,
    /// SYNs retransmitted.
    pub(crate) syn_retransmissions: u8,
    /// Its SYN answers that of the peer.
    pub(crate) answers: bool,
    pub(crate) fin_written: bool,
    pub(crate) ecn: bool,
}

/// The sending direction of an endpoint.
#[derive(Debug)]
pub(crate) enum SendHalf {
    Idle(IdleSender),
    Active(Box<Sender>),
}

impl IdleSender {
    pub(crate) fn new(settings: &Settings, iss: Seq) -> Self {
        IdleSender {
            origin: Origin(iss),
            end: 1,
            edge: 0,
            max_pacing_rate: MaxPacingRate::default(),
            syn_sent: Instant::ZERO,
            syn_rtt: 0,
            window_from: (Seq(0), Seq(0)),
            largest_window: 0,
            mss: settings.mss,
            shift: 0,
            kind: settings.recovery,
            syn_retransmissions: 0,
            answers: false,
            fin_written: false,
            ecn: false,
        }
    }

    /// The timeout of a SYN, or of a SYN-ACK.
    pub(crate) fn rto(&self, settings: &Settings) -> Duration {
        let timers = &settings.timers;
        let linear = if self.answers { 0 } else { timers.linear_syn_retransmissions };
        let doubled = self.syn_retransmissions.saturating_sub(linear).min(16);
        (timers.initial_rto * (1 << doubled)).min(timers.max_rto)
    }

    /// RFC 9293 §3.10.7.4.
    pub(crate) fn update_window(&mut self, (seq, ack): (Seq, Seq), window: u32) {
        let (from, by) = self.window_from;
        if !(seq.before(from) || (seq == from && ack.before(by))) {
            self.window_from = (seq, ack);
            self.edge = 1 + u64::from(window);
            self.largest_window = self.largest_window.max(window);
        }
    }
}

impl SendHalf {
    /// Something has been sent.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        matches!(self, SendHalf::Active(_))
    }

    #[inline]
    pub(crate) fn origin(&self) -> Origin {
        match self {
            SendHalf::Idle(idle) => idle.origin,
            SendHalf::Active(sender) => sender.origin,
        }
    }

    /// The place of the next byte, SYN being sent.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        match self {
            SendHalf::Idle(_) => 1,
            SendHalf::Active(sender) => sender.next,
        }
    }

    /// The oldest place not acknowledged, SYN being so.
    #[inline]
    pub(crate) fn una(&self) -> u64 {
        match self {
            SendHalf::Idle(_) => 1,
            SendHalf::Active(sender) => sender.una,
        }
    }

    /// Behind the last byte written.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        match self {
            SendHalf::Idle(idle) => idle.end,
            SendHalf::Active(sender) => sender.end,
        }
    }

    #[inline]
    pub(crate) fn edge(&self) -> u64 {
        match self {
            SendHalf::Idle(idle) => idle.edge,
            SendHalf::Active(sender) => sender.edge,
        }
    }

    #[inline]
    pub(crate) fn mss(&self) -> u32 {
        match self {
            SendHalf::Idle(idle) => u32::from(idle.mss),
            SendHalf::Active(sender) => sender.mss(),
        }
    }

    #[inline]
    pub(crate) fn shift(&self) -> u8 {
        match self {
            SendHalf::Idle(idle) => idle.shift,
            SendHalf::Active(sender) => sender.shift,
        }
    }

    #[inline]
    pub(crate) fn ecn(&self) -> bool {
        match self {
            SendHalf::Idle(idle) => idle.ecn,
            SendHalf::Active(sender) => sender.ecn,
        }
    }

    #[inline]
    pub(crate) fn fin_written(&self) -> bool {
        match self {
            SendHalf::Idle(idle) => idle.fin_written,
            SendHalf::Active(sender) => sender.fin_written,
        }
    }

    #[inline]
    pub(crate) fn rto(&self, settings: &Settings) -> Duration {
        match self {
            SendHalf::Idle(idle) if idle.syn_rtt == 0 => idle.rto(settings),
            SendHalf::Idle(idle) => (Duration::from_nanos(idle.syn_rtt) * 3).max(settings.timers.min_rto),
            SendHalf::Active(sender) => sender.rto(settings),
        }
    }

    #[inline]
    pub(crate) fn sender(&self) -> Option<&Sender> {
        match self {
            SendHalf::Idle(_) => None,
            SendHalf::Active(sender) => Some(sender),
        }
    }
}
