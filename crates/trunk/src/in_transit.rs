//! The retransmission filter: where each byte of a user's TCP stream is.
//!
//! TCP over TCP collapses because the user's TCP retransmits segments that are not lost, only waiting: at the edge, or
//! in a reliable lane that repairs a loss of its own. The trunk knows where each byte is. Bytes that wait in an edge
//! queue, or that a reliable lane holds and its far end has not yet acknowledged, are *in transit* in the trunk and
//! will arrive. The filter drops a retransmission of such bytes. Once the original has left the trunk, a
//! retransmission passes: the original may have been lost behind the trunk.
//!
//! # Why the only copy is never dropped
//!
//! The filter keeps one range of sequence numbers for each flow, `[low, high)`, with the invariant that *every* byte in
//! it is in transit. Any doubt shrinks the range:
//!
//! - It grows at `high` by a segment that was queued and begins at or before `high`, and at `low` by a segment that
//!   was queued and ends there. A segment beyond `high`, with a gap between, starts it over.
//! - A segment that leaves (acknowledged by the lane, dropped from the queue, lost with a lane) moves `low` behind
//!   its end, and so gives up all older bytes. Segments of a flow leave in the order they were queued, so the filter
//!   gives up little without need.
//! - Segments that are cut off a super-packet where it waits move `low` behind them too.
//! - Reports of the flow's own receiver move `low` as well. Packets of a flow stay in order within a lane, so when a
//!   byte has been received, everything sent before it has left the trunk, whatever the lane has acknowledged so far.
//!   So a retransmission that SACK or duplicate acknowledgements asked for always passes.
//! - Without SACK a duplicate acknowledgement may be the only sign that something behind its number has arrived. Then
//!   at least the first segment behind the number has left. A receiver that knows SACK adds a block in that case (RFC
//!   2018 §4); its duplicates without a block answer segments that came twice, and say nothing.
//!
//! A retransmission that carries news for the other direction (another acknowledgement number or window) passes too.

use trunkline_units::Seq;

use crate::segment::later;

/// The bytes of one flow that are certainly in transit: `[low, high)`, empty if they are equal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InTransit {
    low: Seq,
    high: Seq,
}

impl InTransit {
    pub(crate) fn is_empty(self) -> bool {
        self.low == self.high
    }

    /// How much of `[seq, end)` is not in transit: bytes at its front, up to all of it. What is above `high` makes
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
    pub(crate) fn add(&mut self, seq: Seq, end: Seq) {
        if self.is_empty() || self.high.before(seq) || end.before(self.low) {
            // Nothing, or a gap on one side: of two stretches the newer stays longer.
            *self = InTransit { low: seq, high: end };
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

    /// `[seq, end)` was cut off a packet that waits. What is not in transit is left alone: a packet that loses its end as it
    /// comes gives up nothing of those before it.
    pub(crate) fn cut(&mut self, seq: Seq, end: Seq) {
        if !self.is_empty() && seq.before(self.high) && self.low.before(end) {
            self.release(end);
        }
    }

    /// Nothing is certain any longer.
    pub(crate) fn clear(&mut self) {
        self.low = self.high;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(low: u32, high: u32) -> InTransit {
        InTransit { low: Seq(low), high: Seq(high) }
    }

    fn missing(in_transit: InTransit, seq: u32, end: u32) -> u32 {
        in_transit.missing(Seq(seq), Seq(end))
    }

    #[test]
    fn a_segment_wholly_inside_is_covered_and_the_uncovered_front_is_counted() {
        let c = range(100, 200);
        assert_eq!(missing(c, 100, 200), 0);
        assert_eq!(missing(c, 150, 160), 0);
        assert_eq!(missing(c, 90, 150), 10);
        assert_eq!(missing(c, 150, 201), 51);
        assert_eq!(missing(c, 80, 100), 20);
        assert_eq!(missing(c, 200, 210), 10);
        assert_eq!(missing(range(100, 100), 100, 101), 1);
    }

    #[test]
    fn it_grows_at_both_ends_and_starts_over_behind_a_gap() {
        let mut c = InTransit::default();
        c.add(Seq(100), Seq(200));
        c.add(Seq(200), Seq(300));
        assert_eq!(c, range(100, 300));
        c.add(Seq(50), Seq(100));
        assert_eq!(c, range(50, 300));
        c.add(Seq(250), Seq(320));
        assert_eq!(c, range(50, 320));
        c.add(Seq(400), Seq(500));
        assert_eq!(c, range(400, 500));
        c.add(Seq(10), Seq(20));
        assert_eq!(c, range(10, 20), "a gap below starts it over too");
    }

    #[test]
    fn what_leaves_takes_everything_older_with_it() {
        let mut c = range(100, 300);
        c.release(Seq(150));
        assert_eq!(c, range(150, 300));
        c.release(Seq(120));
        assert_eq!(c, range(150, 300));
        c.release(Seq(900));
        assert!(c.is_empty());
    }

    #[test]
    fn what_is_cut_off_leaves_and_what_never_was_in_transit_takes_nothing_with_it() {
        let mut c = range(100, 300);
        c.cut(Seq(300), Seq(400));
        assert_eq!(c, range(100, 300));
        c.cut(Seq(50), Seq(100));
        assert_eq!(c, range(100, 300));
        c.cut(Seq(150), Seq(200));
        assert_eq!(c, range(200, 300));
        c.cut(Seq(250), Seq(350));
        assert!(c.is_empty());
    }

    #[test]
    fn sequence_numbers_wrap() {
        let mut c = InTransit::default();
        c.add(Seq(u32::MAX - 50), Seq(50));
        assert_eq!(missing(c, u32::MAX - 10, 20), 0);
        c.release(Seq(10));
        assert_eq!(missing(c, u32::MAX - 10, 20), 21);
        assert_eq!(missing(c, 10, 50), 0);
    }
}
