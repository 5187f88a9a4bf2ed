//! The retransmission filter: where each byte of a user's TCP stream is.
//!
//! What makes TCP over TCP melt down is that the user's TCP repeats segments that are not lost, only waiting: at
//! the edge, or in a reliable lane that is repairing a loss of its own. The trunk knows where each byte is. A
//! segment all of whose bytes are *in its custody*, that is in an edge queue or handed to a reliable lane and not
//! yet acknowledged by its far end, will arrive; a repeat of it is dropped. Once the original has left the trunk,
//! a repeat passes: it may have been lost behind it.
//!
//! # Why the only copy is never dropped
//!
//! A flow's custody is one range of sequence numbers, `[low, high)`, with the invariant that *every* byte in it is
//! in custody. All doubt shrinks it:
//!
//! - It grows at `high` by a segment that was queued and begins at or before `high`, and at `low` by a segment that
//!   was queued and ends there. A segment beyond `high`, with a gap between, starts it over.
//! - A segment that leaves (acknowledged by the lane, dropped from the queue, lost with a lane) moves `low` behind
//!   its end, and with it gives up all that is older. Segments of a flow leave in the order they were queued, so
//!   little is given up for nothing.
//! - Segments that are cut off a super-packet where it waits move `low` behind them too.
//! - What the flow's own receiver reports moves `low` as well: packets of a flow stay in order within a lane, so
//!   when a byte has been received, everything handed over before it has left the trunk, whatever the lane has
//!   acknowledged so far. That is how a repeat asked for by SACK or by duplicate acknowledgements always passes.
//! - Without SACK a duplicate acknowledgement may be all that tells that something behind its number has arrived: then at
//!   least the first segment behind the number has left. A receiver that knows SACK says it by a block (RFC 2018 §4); its
//!   duplicates without one answer segments that came twice, and tell nothing.
//!
//! A repeat that carries news for the other direction (another acknowledgement number or window) passes too.

use trunkline_units::Seq;

use crate::segment::later;

/// The bytes of one flow that are in the trunk for certain: `[low, high)`, empty if they are equal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Custody {
    low: Seq,
    high: Seq,
}

impl Custody {
    pub(crate) fn is_empty(self) -> bool {
        self.low == self.high
    }

    /// How much of `[seq, end)` is not in custody: bytes at its front, up to all of it. What is above `high` makes
    /// all of it count as missing.
    #[inline]
    pub(crate) fn missing(self, seq: Seq, end: Seq) -> u32 {
        if self.is_empty() || self.high.before(end) || !self.low.before(end) {
            return end - seq;
        }
        if seq.before(self.low) { self.low - seq } else { 0 }
    }

    /// `[seq, end)` was queued.
    #[inline]
    pub(crate) fn take(&mut self, seq: Seq, end: Seq) {
        if self.is_empty() || self.high.before(seq) || end.before(self.low) {
            // Nothing, or a gap on one side: of two stretches the newer stays longer.
            *self = Custody { low: seq, high: end };
            return;
        }
        if end == self.low || seq.before(self.low) {
            // It ends at or beyond `low`, so the two stretches touch.
            self.low = seq;
        }
        self.high = later(self.high, end);
    }

    /// Everything before `end` has left, or may have.
    #[inline]
    pub(crate) fn release(&mut self, end: Seq) {
        if self.low.before(end) {
            self.low = if self.high.before(end) { self.high } else { end };
        }
    }

    /// `[seq, end)` was cut off a packet that waits. What is not in custody is left alone: a packet that loses its end as it comes
    /// gives up nothing of those before it.
    pub(crate) fn cut(&mut self, seq: Seq, end: Seq) {
        if !self.is_empty() && seq.before(self.high) && self.low.before(end) {
            self.release(end);
        }
    }

    /// Nothing is certain any more.
    pub(crate) fn clear(&mut self) {
        self.low = self.high;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn custody(low: u32, high: u32) -> Custody {
        Custody { low: Seq(low), high: Seq(high) }
    }

    fn missing(custody: Custody, seq: u32, end: u32) -> u32 {
        custody.missing(Seq(seq), Seq(end))
    }

    #[test]
    fn a_segment_wholly_inside_is_covered_and_the_uncovered_front_is_counted() {
        let c = custody(100, 200);
        assert_eq!(missing(c, 100, 200), 0);
        assert_eq!(missing(c, 150, 160), 0);
        assert_eq!(missing(c, 90, 150), 10);
        assert_eq!(missing(c, 150, 201), 51);
        assert_eq!(missing(c, 80, 100), 20);
        assert_eq!(missing(c, 200, 210), 10);
        assert_eq!(missing(custody(100, 100), 100, 101), 1);
    }

    #[test]
    fn it_grows_at_both_ends_and_starts_over_behind_a_gap() {
        let mut c = Custody::default();
        c.take(Seq(100), Seq(200));
        c.take(Seq(200), Seq(300));
        assert_eq!(c, custody(100, 300));
        c.take(Seq(50), Seq(100));
        assert_eq!(c, custody(50, 300));
        c.take(Seq(250), Seq(320));
        assert_eq!(c, custody(50, 320));
        c.take(Seq(400), Seq(500));
        assert_eq!(c, custody(400, 500));
        c.take(Seq(10), Seq(20));
        assert_eq!(c, custody(10, 20), "a gap below starts it over too");
    }

    #[test]
    fn what_leaves_takes_everything_older_with_it() {
        let mut c = custody(100, 300);
        c.release(Seq(150));
        assert_eq!(c, custody(150, 300));
        c.release(Seq(120));
        assert_eq!(c, custody(150, 300));
        c.release(Seq(900));
        assert!(c.is_empty());
    }

    #[test]
    fn what_is_cut_off_leaves_and_what_never_was_in_custody_takes_nothing_with_it() {
        let mut c = custody(100, 300);
        c.cut(Seq(300), Seq(400));
        assert_eq!(c, custody(100, 300));
        c.cut(Seq(50), Seq(100));
        assert_eq!(c, custody(100, 300));
        c.cut(Seq(150), Seq(200));
        assert_eq!(c, custody(200, 300));
        c.cut(Seq(250), Seq(350));
        assert!(c.is_empty());
    }

    #[test]
    fn sequence_numbers_wrap() {
        let mut c = Custody::default();
        c.take(Seq(u32::MAX - 50), Seq(50));
        assert_eq!(missing(c, u32::MAX - 10, 20), 0);
        c.release(Seq(10));
        assert_eq!(missing(c, u32::MAX - 10, 20), 21);
        assert_eq!(missing(c, 10, 50), 0);
    }
}
