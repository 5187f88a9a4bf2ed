//! What a lane has been handed and has not yet said to have delivered.

use std::collections::VecDeque;

use trunkline_queue::FlowIndex;
use trunkline_units::Seq;

use crate::flow::FlowTable;

/// A queue of stretches in the order they were handed over, each with the place in the lane's byte stream behind
/// which it ends.
#[derive(Debug, Default)]
pub(super) struct Handed {
    stretches: VecDeque<(u64, FlowIndex, Seq)>,
    /// Those at the back that have no place yet.
    unplaced: usize,
}

impl Handed {
    #[inline]
    pub(super) fn push(&mut self, flow: FlowIndex, end: Seq) {
        self.stretches.push_back((u64::MAX, flow, end));
        self.unplaced += 1;
    }

    /// All that was pushed so far ends at `position` of the lane's stream, or before.
    #[inline]
    pub(super) fn place(&mut self, position: u64) {
        let len = self.stretches.len();
        for stretch in self.stretches.range_mut(len - self.unplaced..) {
            stretch.0 = position;
        }
        self.unplaced = 0;
    }

    /// Whether the lane holds anything that is in custody.
    pub(super) fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }

    /// The far end has everything before `position`.
    pub(super) fn delivered(&mut self, position: u64, flows: &mut FlowTable) {
        while let Some((end, flow, seq)) = self.stretches.front().copied() {
            if end > position {
                break;
            }
            self.stretches.pop_front();
            if let Some(flow) = flows.get_mut(flow) {
                flow.custody.release(seq);
            }
        }
        self.unplaced = self.unplaced.min(self.stretches.len());
    }

    /// The lane is gone, and what it held may be lost.
    pub(super) fn lost(&mut self, flows: &mut FlowTable) {
        self.delivered(u64::MAX, flows);
    }
}
