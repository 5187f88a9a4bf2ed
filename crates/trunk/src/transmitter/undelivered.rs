//! What a lane has taken and not yet delivered.

use std::collections::VecDeque;

use trunkline_queue::FlowIndex;
use trunkline_units::Seq;

use crate::flow::FlowTable;

/// Ranges of flows' sequence numbers in the order in which the lane took them, each with the place in the lane's
/// stream where it ends at the latest.
#[derive(Debug, Default)]
pub(super) struct Undelivered {
    ranges: VecDeque<(u64, FlowIndex, Seq)>,
    /// Ranges at the back that have no place yet.
    unplaced: usize,
}

impl Undelivered {
    #[inline]
    pub(super) fn push(&mut self, flow: FlowIndex, end: Seq) {
        self.ranges.push_back((u64::MAX, flow, end));
        self.unplaced += 1;
    }

    /// All that was pushed so far ends at `position` of the lane's stream, or before.
    #[inline]
    pub(super) fn place(&mut self, position: u64) {
        let len = self.ranges.len();
        for range in self.ranges.range_mut(len - self.unplaced..) {
            range.0 = position;
        }
        self.unplaced = 0;
    }

    /// Whether the lane has delivered all that it took.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The far end has everything before `position`.
    pub(super) fn delivered(&mut self, position: u64, flows: &mut FlowTable) {
        while let Some((end, flow, seq)) = self.ranges.front().copied() {
            if end > position {
                break;
            }
            self.ranges.pop_front();
            if let Some(flow) = flows.get_mut(flow) {
                flow.in_transit.release(seq);
            }
        }
        self.unplaced = self.unplaced.min(self.ranges.len());
    }

    /// The lane is gone, and what it held may be lost.
    pub(super) fn lost(&mut self, flows: &mut FlowTable) {
        self.delivered(u64::MAX, flows);
    }
}
