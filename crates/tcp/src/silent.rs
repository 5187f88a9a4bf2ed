//! The sending direction of an end that has sent nothing but its SYN.
//!
//! Most of what a sender keeps is about what it has in flight. An end that only receives has nothing in flight, for as
//! long as it lives; of 20 000 ends of 10 000 flows that is the half. So a [`Sender`] comes to be with the first octet or FIN
//! that is to be sent, from what was agreed on at the handshake and is kept here.

use std::time::Duration;

use trunkline_units::{Instant, Rate, Seq};

use crate::sender::Sender;
use crate::stream::Origin;
use crate::{Recovery, Settings};

/// A pacing ceiling, or none, in eight octets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ceiling(u64);

impl Ceiling {
    pub(crate) fn new(rate: Option<Rate>) -> Self {
        Ceiling(rate.map_or(0, |rate| rate.bits_per_second().max(1)))
    }

    #[inline]
    pub(crate) fn rate(self) -> Option<Rate> {
        (self.0 > 0).then_some(Rate::from_bits_per_second(self.0))
    }
}

#[derive(Debug)]
pub(crate) struct Silent {
    pub(crate) origin: Origin,
    /// Behind the last octet written.
    pub(crate) end: u64,
    pub(crate) edge: u64,
    pub(crate) ceiling: Ceiling,
    /// When SYN was sent first.
    pub(crate) syn_sent: Instant,
    /// What its round trip took, ns, if it was not repeated.
    pub(crate) syn_rtt: u64,
    pub(crate) window_from: (Seq, Seq),
    pub(crate) largest_window: u32,
    pub(crate) mss: u16,
    pub(crate) shift: u8,
    pub(crate) kind: Recovery,
    /// SYNs sent again.
    pub(crate) repeats: u8,
    pub(crate) fin_written: bool,
    pub(crate) ecn: bool,
}

/// The sending direction of an endpoint.
#[derive(Debug)]
pub(crate) enum Sending {
    Silent(Silent),
    Speaking(Box<Sender>),
}

impl Silent {
    pub(crate) fn new(settings: &Settings, iss: Seq) -> Self {
        Silent {
            origin: Origin(iss),
            end: 1,
            edge: 0,
            ceiling: Ceiling::default(),
            syn_sent: Instant::ZERO,
            syn_rtt: 0,
            window_from: (Seq(0), Seq(0)),
            largest_window: 0,
            mss: settings.mss,
            shift: 0,
            kind: settings.recovery,
            repeats: 0,
            fin_written: false,
            ecn: false,
        }
    }

    /// The timeout of a SYN.
    pub(crate) fn rto(&self, settings: &Settings) -> Duration {
        let timers = &settings.timers;
        (timers.initial_rto * (1 << self.repeats.min(16))).min(timers.max_rto)
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

impl Sending {
    /// Something has been sent.
    #[inline]
    pub(crate) fn speaks(&self) -> bool {
        matches!(self, Sending::Speaking(_))
    }

    #[inline]
    pub(crate) fn origin(&self) -> Origin {
        match self {
            Sending::Silent(silent) => silent.origin,
            Sending::Speaking(sender) => sender.origin,
        }
    }

    /// The place of the next octet, SYN being sent.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        match self {
            Sending::Silent(_) => 1,
            Sending::Speaking(sender) => sender.next,
        }
    }

    /// The oldest place not acknowledged, SYN being so.
    #[inline]
    pub(crate) fn una(&self) -> u64 {
        match self {
            Sending::Silent(_) => 1,
            Sending::Speaking(sender) => sender.una,
        }
    }

    /// Behind the last octet written.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        match self {
            Sending::Silent(silent) => silent.end,
            Sending::Speaking(sender) => sender.end,
        }
    }

    #[inline]
    pub(crate) fn edge(&self) -> u64 {
        match self {
            Sending::Silent(silent) => silent.edge,
            Sending::Speaking(sender) => sender.edge,
        }
    }

    #[inline]
    pub(crate) fn mss(&self) -> u32 {
        match self {
            Sending::Silent(silent) => u32::from(silent.mss),
            Sending::Speaking(sender) => sender.mss(),
        }
    }

    #[inline]
    pub(crate) fn shift(&self) -> u8 {
        match self {
            Sending::Silent(silent) => silent.shift,
            Sending::Speaking(sender) => sender.shift,
        }
    }

    #[inline]
    pub(crate) fn ecn(&self) -> bool {
        match self {
            Sending::Silent(silent) => silent.ecn,
            Sending::Speaking(sender) => sender.ecn,
        }
    }

    #[inline]
    pub(crate) fn fin_written(&self) -> bool {
        match self {
            Sending::Silent(silent) => silent.fin_written,
            Sending::Speaking(sender) => sender.fin_written,
        }
    }

    #[inline]
    pub(crate) fn rto(&self, settings: &Settings) -> Duration {
        match self {
            Sending::Silent(silent) if silent.syn_rtt == 0 => silent.rto(settings),
            Sending::Silent(silent) => {
                (Duration::from_nanos(silent.syn_rtt) * 3).max(settings.timers.min_rto)
            }
            Sending::Speaking(sender) => sender.rto(settings),
        }
    }

    #[inline]
    pub(crate) fn sender(&self) -> Option<&Sender> {
        match self {
            Sending::Silent(_) => None,
            Sending::Speaking(sender) => Some(sender),
        }
    }
}
