//! Propagation: the stage that takes the same time for all bytes, or nearly. It holds the packets on their way to
//! the far end.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use trunkline_units::{Instant, Region};

/// Packets on their way.
#[derive(Debug)]
pub(crate) enum Pipe<T> {
    /// They arrive in the order in which they were sent.
    InOrder(VecDeque<(Instant, T)>),
    /// They may overtake each other.
    AnyOrder(BinaryHeap<InFlight<T>>, u64),
}

/// A packet that may be overtaken. Of two that arrive at one instant, the one sent first is first.
#[derive(Debug)]
pub(crate) struct InFlight<T> {
    at: Instant,
    number: u64,
    packet: T,
}

impl<T> PartialEq for InFlight<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for InFlight<T> {}

impl<T> PartialOrd for InFlight<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for InFlight<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<T> Pipe<T> {
    /// An empty one; whether packets may overtake each other in it.
    pub(crate) fn new(reorders: bool) -> Self {
        if reorders { Pipe::AnyOrder(BinaryHeap::new(), 0) } else { Pipe::InOrder(VecDeque::new()) }
    }

    /// Changes whether packets may overtake each other; those on their way keep their times.
    pub(crate) fn set_reordering(&mut self, reorders: bool) {
        match self {
            Pipe::InOrder(packets) if reorders => {
                let number = packets.len() as u64;
                let numbered = (1..).zip(packets.drain(..));
                let all = numbered.map(|(number, (at, packet))| InFlight { at, number, packet }).collect();
                *self = Pipe::AnyOrder(all, number);
            }
            Pipe::AnyOrder(packets, _) if !reorders => {
                // A max-heap in which the packet that arrives first is the greatest.
                let all = std::mem::take(packets).into_sorted_vec();
                *self = Pipe::InOrder(all.into_iter().rev().map(|one| (one.at, one.packet)).collect());
            }
            _ => {}
        }
    }

    /// Takes a packet that would arrive at `at`, and later if one before it does and there is an order to keep.
    #[inline]
    pub(crate) fn push(&mut self, at: Instant, packet: T) {
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

    /// The next one that arrives. `load` gets the memory that is needed soon.
    #[inline]
    pub(crate) fn pop(&mut self, load: impl FnOnce(Region)) -> Option<T> {
        match self {
            Pipe::InOrder(packets) => {
                if let Some(place) = Region::later(packets) {
                    load(place);
                }
                packets.pop_front().map(|(_, packet)| packet)
            }
            Pipe::AnyOrder(packets, _) => packets.pop().map(|in_flight| in_flight.packet),
        }
    }

    /// The packet behind `ahead` others, where they keep their order.
    #[inline]
    pub(crate) fn upcoming(&self, ahead: usize) -> Option<&T> {
        match self {
            Pipe::InOrder(packets) => packets.get(ahead).map(|(_, packet)| packet),
            Pipe::AnyOrder(..) => None,
        }
    }

    /// All of them, with the times at which they arrive, in any order.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Instant, &T)> {
        let (in_order, any_order) = match self {
            Pipe::InOrder(packets) => (Some(packets), None),
            Pipe::AnyOrder(packets, _) => (None, Some(packets)),
        };
        let in_order = in_order.into_iter().flatten().map(|(at, packet)| (*at, packet));
        in_order.chain(any_order.into_iter().flatten().map(|one| (one.at, &one.packet)))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Pipe::InOrder(packets) => packets.len(),
            Pipe::AnyOrder(packets, _) => packets.len(),
        }
    }

    /// Loses all that is on its way; how many packets that was.
    pub(crate) fn clear(&mut self) -> usize {
        let lost = self.len();
        match self {
            Pipe::InOrder(packets) => packets.clear(),
            Pipe::AnyOrder(packets, _) => packets.clear(),
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(pipe: &mut Pipe<char>) -> Vec<(u64, char)> {
        std::iter::from_fn(|| Some((pipe.next()?.as_nanos(), pipe.pop(|_| {})?))).collect()
    }

    fn filled(reorders: bool) -> Pipe<char> {
        let mut pipe = Pipe::new(reorders);
        for (at, packet) in [(10, 'a'), (2, 'b'), (30, 'c'), (30, 'd')] {
            pipe.push(Instant::from_nanos(at), packet);
        }
        pipe
    }

    #[test]
    fn a_packet_that_would_overtake_arrives_with_the_one_ahead() {
        assert_eq!(drain(&mut filled(false)), [(10, 'a'), (10, 'b'), (30, 'c'), (30, 'd')]);
    }

    #[test]
    fn with_reordering_packets_arrive_by_their_times_and_then_in_the_order_of_sending() {
        assert_eq!(drain(&mut filled(true)), [(2, 'b'), (10, 'a'), (30, 'c'), (30, 'd')]);
    }

    #[test]
    fn packets_under_way_keep_their_times_when_reordering_begins_or_ends() {
        for reorders in [false, true] {
            let expected = drain(&mut filled(reorders));
            let mut pipe = filled(reorders);
            pipe.set_reordering(!reorders);
            pipe.push(Instant::from_nanos(30), 'e');
            let mut with_last = expected.clone();
            with_last.push((30, 'e'));
            assert_eq!(drain(&mut pipe), with_last);
        }
    }

    #[test]
    fn a_cleared_pipe_counts_what_it_lost() {
        let mut pipe = filled(true);
        assert_eq!((pipe.clear(), pipe.len(), pipe.next()), (4, 0, None));
    }
}
