//! A class on one of its lanes: the edge queue, and what P1 to P3 go by.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_queue::{Conditions, Discard, DropReason, FlowIndex, Item, Queue, Settings};
use trunkline_units::{Instant, Rate, Seq};

use crate::bonding::Bond;
use crate::flow::{ActiveFlows, FlowTable};
use crate::lane::LaneSnapshot;
use crate::rtt::UpperRtt;
use crate::segment::Segment;
use crate::transmitter::Packet;
use crate::transmitter::departed::Departed;

/// A packet at the edge, with what the transmitter has to remember of it.
#[derive(Debug)]
pub(super) struct Entry<P> {
    pub(super) packet: P,
    pub(super) flow: FlowIndex,
    pub(super) hash: u64,
    pub(super) segment: Option<SequenceRange>,
    pub(super) ecn_capable: bool,
    /// Its number, if it is sent twice.
    pub(super) number: Option<u32>,
}

/// The part of a flow's sequence space that a packet takes up.
#[derive(Debug, Clone, Copy)]
pub(super) struct SequenceRange {
    pub(super) seq: Seq,
    pub(super) end: Seq,
    /// Bytes of data in each segment.
    pub(super) segment_bytes: u32,
}

impl SequenceRange {
    /// That of a packet of so many segments; `None` if it takes up no sequence number.
    pub(super) fn of(segment: &Segment, segments: u32) -> Option<Self> {
        segment.is_sequenced().then(|| SequenceRange {
            seq: segment.seq,
            end: segment.end,
            segment_bytes: segment.payload.div_ceil(segments),
        })
    }

    /// What is left of it with its first `keep` segments of several.
    pub(super) fn first(self, keep: u32) -> Self {
        SequenceRange { end: self.seq + keep * self.segment_bytes, ..self }
    }
}

impl<P: Item> Item for Entry<P> {
    fn bytes(&self) -> usize {
        self.packet.bytes()
    }

    fn segments(&self) -> u32 {
        self.packet.segments()
    }

    fn flow(&self) -> u64 {
        self.hash
    }

    fn is_ecn_capable(&self) -> bool {
        self.ecn_capable
    }

    fn mark(&mut self) {
        self.packet.mark();
    }

    fn trim(&mut self, keep: u32) {
        self.packet.trim(keep);
    }
}

/// Counts of an edge queue beyond those of its queue, in segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EdgeQueueStats {
    /// Retransmissions of data in transit, dropped.
    pub filtered: u64,
    /// Their bytes.
    pub filtered_bytes: u64,
    /// Segments of flows that were refused.
    pub refused: u64,
    /// Segments of flows that were sent to another class for want of a place.
    pub moved: u64,
    /// Copies of packets that another lane of the class carries too. The counts of the queue have them as well.
    pub copies: u64,
    /// Those of bonded classes that left again over another lane. The counts of the queue have them once.
    pub resent: u64,
}

impl EdgeQueueStats {
    pub(super) fn add(&mut self, other: &EdgeQueueStats) {
        self.filtered += other.filtered;
        self.filtered_bytes += other.filtered_bytes;
        self.refused += other.refused;
        self.moved += other.moved;
        self.copies += other.copies;
        self.resent += other.resent;
    }
}

pub(super) struct EdgeQueue<P> {
    pub(super) class: usize,
    /// The lane that it waits for; of a bonded class that on the first path.
    pub(super) lane: usize,
    /// The lanes that serve it, if its class is bonded.
    pub(super) bond: Option<Bond>,
    /// Packets that lanes took and may have lost: they leave again before any that wait.
    pub(super) lost: VecDeque<Departed<P>>,
    /// Memory of these, and of the copies of what lanes have taken, bytes.
    pub(super) copy_bytes: usize,
    /// Its place in the lane's scheduler.
    pub(super) place: usize,
    pub(super) queue: Queue<Entry<P>>,
    pub(super) active: ActiveFlows,
    pub(super) rtt: UpperRtt,
    pub(super) stats: EdgeQueueStats,
    pub(super) conditions: Conditions,
    /// Memory of what waits, bytes.
    pub(super) held_bytes: usize,
    meter: Meter,
}

impl<P: Packet> EdgeQueue<P> {
    /// The lanes for which its packets wait, a bit each.
    #[inline]
    pub(super) fn lanes(&self) -> u32 {
        let bonded = self.bond.as_ref().map_or(0, Bond::usable_lanes);
        if bonded == 0 { 1 << self.lane } else { bonded }
    }

    /// Whether this lane takes packets from it.
    pub(super) fn is_served_by(&self, lane: usize) -> bool {
        self.bond.as_ref().map_or(self.lane == lane, |bond| bond.has(lane as u8))
    }

    /// Whether nothing of it is to leave.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.lost.is_empty()
    }

    /// Whether this lane, which serves it, takes what it has to give next.
    #[inline]
    pub(super) fn has_for(&self, lane: u8) -> bool {
        match &self.bond {
            None => !self.queue.is_empty(),
            Some(bond) => !self.is_empty() && self.bond_has_for(bond, lane),
        }
    }

    #[inline(never)]
    fn bond_has_for(&self, bond: &Bond, lane: u8) -> bool {
        let waiting = self.queue.stats().backlog_bytes;
        self.lost
            .front()
            .map_or_else(|| bond.takes(lane, waiting), |lost| bond.takes_again(lane, lost.lane.0, waiting))
    }

    /// Memory of all that it has and its lanes have taken, bytes.
    pub(super) const fn memory_bytes(&self) -> usize {
        self.held_bytes + self.copy_bytes
    }

    pub(super) fn new(class: usize, lane: usize, place: usize, queue: Queue<Entry<P>>) -> Self {
        EdgeQueue {
            class,
            lane,
            bond: None,
            lost: VecDeque::new(),
            copy_bytes: 0,
            place,
            queue,
            active: ActiveFlows::default(),
            rtt: UpperRtt::default(),
            stats: EdgeQueueStats::default(),
            conditions: Conditions {
                rtt_up: Duration::ZERO,
                measured_rtt: None,
                bandwidth: Rate::ZERO,
                window_bytes: 0,
                segment_bytes: 1500,
                flows: 0,
            },
            held_bytes: 0,
            meter: Meter::default(),
        }
    }

    /// Cuts a packet down to its first `keep` segments, because the others are in transit already. `None` if none
    /// is left.
    #[cold]
    pub(super) fn filter(
        &mut self,
        packet: &mut P,
        whole: SequenceRange,
        keep: u32,
    ) -> Option<SequenceRange> {
        let (segments, bytes) = (packet.segments(), packet.bytes());
        if keep > 0 {
            packet.trim(keep);
        }
        let left = if keep > 0 { packet.bytes() } else { 0 };
        self.stats.filtered += u64::from(segments - keep);
        self.stats.filtered_bytes += (bytes - left) as u64;
        (keep > 0).then(|| whole.first(keep))
    }

    /// Drops what waits: it is no longer in transit.
    pub(super) fn flush(&mut self, now: Instant, flows: &mut FlowTable, release: &mut impl FnMut(P)) {
        let EdgeQueue { queue, held_bytes, .. } = self;
        queue.flush(now, &mut |entry, reason| Dropping { flows, held_bytes, release }.discard(entry, reason));
    }

    /// Takes on the queue settings of a new plan.
    pub(super) fn reconfigure(
        &mut self,
        now: Instant,
        settings: Settings,
        flows: &mut FlowTable,
        release: &mut impl FnMut(P),
    ) {
        let EdgeQueue { queue, held_bytes, .. } = self;
        let mut on_drop = |entry, reason| Dropping { flows, held_bytes, release }.discard(entry, reason);
        queue.reconfigure(now, settings, &mut on_drop);
    }

    /// Drops what came before `oldest`.
    pub(super) fn expire(
        &mut self,
        now: Instant,
        oldest: Instant,
        flows: &mut FlowTable,
        release: &mut impl FnMut(P),
    ) {
        while let Some(lost) = self.lost.front()
            && lost.at < oldest
        {
            self.drop_lost(release);
        }
        let EdgeQueue { queue, held_bytes, .. } = self;
        let mut on_drop = |entry, reason| Dropping { flows, held_bytes, release }.discard(entry, reason);
        queue.expire(now, oldest, &mut on_drop);
    }

    /// Drops the first packet that was to leave again. Whether there was one.
    pub(super) fn drop_lost(&mut self, release: &mut impl FnMut(P)) -> bool {
        let Some(Departed { packet, .. }) = self.lost.pop_front() else { return false };
        self.copy_bytes -= packet.memory_bytes();
        release(packet);
        true
    }

    /// Drops packets until they had `bytes` of memory, or none is left; how much they had.
    pub(super) fn shed(
        &mut self,
        now: Instant,
        bytes: usize,
        flows: &mut FlowTable,
        release: &mut impl FnMut(P),
    ) -> usize {
        let before = self.memory_bytes();
        let enough = before.saturating_sub(bytes);
        while self.memory_bytes() > enough && self.drop_lost(release) {}
        let EdgeQueue { queue, held_bytes, copy_bytes, .. } = self;
        let enough = enough.saturating_sub(*copy_bytes);
        while *held_bytes > enough
            && queue.shed(now, &mut |entry, reason| {
                Dropping { flows, held_bytes, release }.discard(entry, reason);
            })
        {}
        before - self.memory_bytes()
    }

    /// Gives the queue the conditions of its lane: its rate, of which `promised` is this class's part by weight, and its
    /// round-trip time.
    pub(super) fn observe(&mut self, now: Instant, lane: &LaneSnapshot, promised: f64, opens: bool) {
        let flows = self.active.number(now);
        let measured = self.meter.rate(now, self.queue.stats().bytes_out);
        let (Some(delivery), Some(srtt)) = (lane.delivery_rate, lane.srtt) else { return };
        // A class may have more than its part while others leave some of theirs.
        let part = (delivery.bits_per_second() as f64 * promised) as u64;
        let measured = Rate::from_bits_per_second(part.max(measured).min(delivery.bits_per_second()));
        // What arrives in the next two round trips is four times what a lane that opens its window has delivered.
        let ahead = if opens { 4 } else { 1 };
        let bandwidth = Rate::from_bits_per_second(measured.bits_per_second().saturating_mul(ahead));
        let stats = self.queue.stats();
        // Before any flow was measured: the lane's own round trip, and as much again for what lies behind it.
        let measured_rtt = self.rtt.upper().map(|rtt| rtt.max(srtt));
        self.conditions = Conditions {
            rtt_up: measured_rtt.unwrap_or(srtt * 2),
            measured_rtt,
            bandwidth,
            window_bytes: measured.bytes_in(srtt),
            segment_bytes: segment_bytes(stats.bytes_in, stats.segments_in),
            flows,
        };
        self.queue.observe(&self.conditions);
    }
}

/// The mean length of a class's segments, as if some full ones had come first: a connection begins with short ones, and a buffer
/// for sixteen of these would not hold a full one.
fn segment_bytes(bytes: u64, segments: u64) -> u32 {
    const BEFORE: u64 = 16;
    const FULL: u64 = 1500;
    ((bytes + BEFORE * FULL) / (segments + BEFORE)) as u32
}

/// What an edge queue does with what its queue drops.
pub(super) struct Dropping<'a, R> {
    pub(super) flows: &'a mut FlowTable,
    pub(super) held_bytes: &'a mut usize,
    pub(super) release: &'a mut R,
}

impl<P: Packet, R: FnMut(P)> Discard<Entry<P>> for Dropping<'_, R> {
    /// A packet is no longer in transit.
    fn discard(&mut self, entry: Entry<P>, _: DropReason) {
        if let (Some(range), Some(flow)) = (entry.segment, self.flows.get_mut(entry.flow)) {
            flow.in_transit.release(range.end);
        }
        *self.held_bytes -= entry.packet.memory_bytes();
        (self.release)(entry.packet);
    }

    /// What is cut off is no longer in transit.
    fn trim(&mut self, entry: &mut Entry<P>, keep: u32) {
        entry.trim(keep);
        let Some(whole) = entry.segment else { return };
        let kept = whole.first(keep);
        entry.segment = Some(kept);
        if let Some(flow) = self.flows.get_mut(entry.flow) {
            flow.in_transit.cut(kept.end, whole.end);
        }
    }
}

/// The rate at which a queue was emptied lately, that of its best stretch of the last seconds.
#[derive(Debug, Clone, Copy, Default)]
struct Meter {
    since: Option<Instant>,
    bytes: u64,
    peak: u64,
}

impl Meter {
    const STRETCH: Duration = Duration::from_millis(100);

    fn rate(&mut self, now: Instant, bytes_out: u64) -> u64 {
        let since = *self.since.get_or_insert(now);
        let elapsed = now.saturating_since(since);
        if elapsed >= Self::STRETCH {
            let nanos = elapsed.as_nanos().max(1);
            let rate = u128::from(bytes_out - self.bytes) * 8_000_000_000 / nanos;
            self.peak = u64::try_from(rate).unwrap_or(u64::MAX).max(self.peak - self.peak / 16);
            (self.since, self.bytes) = (Some(now), bytes_out);
        }
        self.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_begins_with_short_segments_does_not_make_all_look_short() {
        assert_eq!(segment_bytes(0, 0), 1500);
        assert!(segment_bytes(64, 1) > 1400);
        assert_eq!(segment_bytes(200 * 100_000, 100_000), 200);
    }
}
