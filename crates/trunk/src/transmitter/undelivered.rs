//! What a lane has taken and not yet delivered.

use std::collections::VecDeque;

use trunkline_queue::FlowIndex;
use trunkline_units::Seq;

use crate::flow::FlowTable;

/// Something of each packet that the lane took, in that order, with the place in the lane's stream where the packet ends at the latest.
#[derive(Debug)]
pub(super) struct Undelivered<T> {
    taken: VecDeque<(u64, T)>,
    /// Those at the back that have no place yet.
    unplaced: usize,
}

impl<T> Default for Undelivered<T> {
    fn default() -> Self {
        Undelivered { taken: VecDeque::new(), unplaced: 0 }
    }
}

impl<T> Undelivered<T> {
    #[inline]
    pub(super) fn push(&mut self, taken: T) {
        self.taken.push_back((u64::MAX, taken));
        self.unplaced += 1;
    }

    /// All that was pushed so far ends at `position` of the lane's stream, or before.
    #[inline]
    pub(super) fn place(&mut self, position: u64) {
        if self.unplaced == 0 {
            return;
        }
        let len = self.taken.len();
        for taken in self.taken.range_mut(len - self.unplaced..) {
            taken.0 = position;
        }
        self.unplaced = 0;
    }

    /// Whether the lane has delivered all that it took.
    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Takes out the first one.
    pub(super) fn pop(&mut self) -> Option<T> {
        let (_, taken) = self.taken.pop_front()?;
        self.unplaced = self.unplaced.min(self.taken.len());
        Some(taken)
    }

    /// Takes out those that end at `position` or before, the first one first.
    #[inline]
    pub(super) fn take_delivered(&mut self, position: u64, mut each: impl FnMut(T)) {
        while self.taken.front().is_some_and(|(end, _)| *end <= position)
            && let Some((_, taken)) = self.taken.pop_front()
        {
            each(taken);
        }
        self.unplaced = self.unplaced.min(self.taken.len());
    }

    /// Takes out all of them, the first one first.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = T> {
        self.unplaced = 0;
        self.taken.drain(..).map(|(_, taken)| taken)
    }
}

/// The ends of ranges of flows' sequence numbers.
impl Undelivered<(FlowIndex, Seq)> {
    /// The far end has everything before `position`.
    #[inline]
    pub(super) fn delivered(&mut self, position: u64, flows: &mut FlowTable) {
        self.take_delivered(position, |(flow, end)| {
            if let Some(flow) = flows.get_mut(flow) {
                flow.in_transit.release(end);
            }
        });
    }

    /// The lane is gone, and what it held may be lost.
    pub(super) fn lost(&mut self, flows: &mut FlowTable) {
        self.delivered(u64::MAX, flows);
    }
}
