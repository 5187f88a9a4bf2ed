//! Propagation: the stage that takes the same time for all bytes, or nearly. It holds the packets on their way to
//! the far end.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use trunkline_units::Instant;

use crate::Packet;

/// Packets on their way.
#[derive(Debug)]
pub(crate) enum Pipe {
    /// They arrive in the order in which they were sent.
    InOrder(VecDeque<(Instant, Packet)>),
    /// They may overtake each other.
    AnyOrder(BinaryHeap<InFlight>, u64),
}

/// A packet that may be overtaken. Of two that arrive at one instant, the one sent first is first.
#[derive(Debug)]
pub(crate) struct InFlight {
    at: Instant,
    number: u64,
    packet: Packet,
}

impl PartialEq for InFlight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for InFlight {}

impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InFlight {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl Pipe {
    /// Takes a packet that would arrive at `at`, and later if one before it does and there is an order to keep.
    #[inline]
    pub(crate) fn push(&mut self, at: Instant, packet: Packet) {
        match self {
            Pipe::InOrder(packets) => {
                let at = packets.back().map_or(at, |(last, _)| at.max(*last));
                packets.push_back((at, packet));
            }
            Pipe::AnyOrder(packets, number) => {
                *number += 1;
                packets.push(InFlight { at, number: *number, packet });
            }
        }
    }

    /// When the next one arrives.
    #[inline]
    pub(crate) fn next(&self) -> Option<Instant> {
        match self {
            Pipe::InOrder(packets) => packets.front().map(|(at, _)| *at),
            Pipe::AnyOrder(packets, _) => packets.peek().map(|in_flight| in_flight.at),
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        match self {
            Pipe::InOrder(packets) => packets.pop_front().map(|(_, packet)| packet),
            Pipe::AnyOrder(packets, _) => packets.pop().map(|in_flight| in_flight.packet),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Pipe::InOrder(packets) => packets.len(),
            Pipe::AnyOrder(packets, _) => packets.len(),
        }
    }
}
