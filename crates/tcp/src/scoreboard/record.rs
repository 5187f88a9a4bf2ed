//! The record of a segment in flight, and the summary of one acknowledgement over many records.

use std::time::Duration;

use trunkline_units::Instant;

use crate::delivery::Stamp;
use crate::timers::Clock;

pub(super) const SACKED: u8 = 1;
pub(super) const LOST: u8 = 2;
/// A retransmission of it is in flight.
pub(super) const RETRANSMITTED: u8 = 4;
/// It was retransmitted at least once.
pub(super) const EVER_RETRANSMITTED: u8 = 8;
pub(super) const FIN: u8 = 16;

/// A segment in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) start: u64,
    /// When it was sent last.
    pub(crate) at: Instant,
    pub(super) stamp: Stamp,
    /// Bytes of data.
    pub(crate) len: u16,
    pub(super) marks: u8,
}

impl Sent {
    #[inline]
    pub(super) fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    #[inline]
    pub(crate) fn is_fin(&self) -> bool {
        self.has(FIN)
    }

    #[inline]
    pub(super) fn span(&self) -> u32 {
        u32::from(self.len) + u32::from(self.is_fin())
    }

    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.span())
    }
}

/// What an acknowledgement brought.
#[derive(Debug)]
pub(crate) struct Progress {
    now: Instant,
    min_rtt: Duration,
    recover: u64,
    /// A time stamp echoed, and what the clock of time stamps goes by.
    echo: Option<(u32, Clock)>,
    /// Bytes delivered that were not known to be before.
    pub(crate) delivered: u32,
    /// Of them, by SACK.
    pub(crate) sacked: u32,
    /// When the oldest and the newest segment acknowledged were sent, among those never retransmitted.
    pub(crate) oldest: Option<Instant>,
    pub(crate) newest_original: Option<Instant>,
    pub(crate) sacked_oldest: Option<Instant>,
    /// It acknowledges a segment that was retransmitted.
    pub(crate) retransmitted: bool,
    /// It acknowledges a segment that was never retransmitted and sent before the timeout.
    pub(crate) original: bool,
    /// A segment came after one that was sent later.
    pub(crate) reordered: bool,
    /// When the segment looked at last was sent: what SACK reports comes before what is acknowledged in order.
    pub(crate) last: Option<Instant>,
    /// The segment sent last among those delivered: time, end and stamp.
    pub(crate) newest: Option<(Instant, u64, Stamp)>,
}

impl Progress {
    #[inline]
    pub(crate) fn new(now: Instant, min_rtt: Duration, recover: u64, echo: Option<(u32, Clock)>) -> Self {
        Progress {
            now,
            min_rtt,
            recover,
            echo,
            delivered: 0,
            sacked: 0,
            oldest: None,
            newest_original: None,
            sacked_oldest: None,
            retransmitted: false,
            original: false,
            reordered: false,
            last: None,
            newest: None,
        }
    }

    /// What is acknowledged is not the retransmission of `retransmitted` but a transmission before it (RFC 8985 §6.2 step 2).
    fn answers_before(&self, retransmitted: Instant) -> bool {
        let Some((echo, clock)) = self.echo else { return false };
        echo.wrapping_sub(clock.timestamp(retransmitted)).cast_signed() < 0
    }

    #[inline]
    pub(super) fn take(&mut self, sent: &Sent, highest_sacked: u64) {
        self.delivered += sent.span();
        let (retransmitted, end) = (sent.has(EVER_RETRANSMITTED), sent.end());
        if !retransmitted {
            self.original |= end <= self.recover;
            self.reordered |= end < highest_sacked;
        } else if self.now - sent.at < self.min_rtt || self.answers_before(sent.at) {
            return;
        }
        self.last = Some(sent.at);
        if self.newest.is_none_or(|(at, other, _)| (sent.at, end) > (at, other)) {
            self.newest = Some((sent.at, end, sent.stamp));
        }
    }
}
