//! The agenda: the next event of every part of the network.
//!
//! Each part that waits for a time has one place here, with at most one time in it: a link's arrivals have one
//! place, a connection's timers another. Events are ordered by time, then by kind, then by the number of the part,
//! which is unique, so no two events are equal.
//!
//! A time that is put off, as each acknowledgement puts off a retransmission timer, costs nothing until it would
//! have come: the entry in the heap stays, and is moved then. Links have a heap of their own: they are few and
//! busy, and should not pay for the timers of ten thousand connections.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trunkline_units::{Instant, Region};

use crate::prefetch::prefetch;

/// Kinds of those who wait, in the order in which they come at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The head of a link's pipe is at its far end.
    Arrival,
    /// A link has sent a packet and may begin with the next.
    Free,
    /// A link's rate or delay changes.
    Change,
    /// A connection's timer.
    Connection,
    /// A gateway's look at its lanes.
    Gateway,
    /// A proxy has something to release.
    Proxy,
    /// A source of traffic.
    Source,
}

/// How many kinds there are.
pub(crate) const KINDS: usize = 7;
const INDEX_BITS: u32 = 28;
const INDEX: u32 = (1 << INDEX_BITS) - 1;
const NEVER: u64 = u64::MAX;
/// The two heaps.
const LINKS: usize = 0;
const OTHERS: usize = 1;

impl Kind {
    const ALL: [Kind; KINDS] =
        [Kind::Arrival, Kind::Free, Kind::Change, Kind::Connection, Kind::Gateway, Kind::Proxy, Kind::Source];

    const fn heap(self) -> usize {
        match self {
            Kind::Arrival | Kind::Free | Kind::Change => LINKS,
            Kind::Connection | Kind::Gateway | Kind::Proxy | Kind::Source => OTHERS,
        }
    }
}

/// Who waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) kind: Kind,
    pub(crate) index: u32,
}

/// In place of an entry: there is none.
const NONE: u128 = u128::MAX;

/// A time, and behind it who waits for it: the order of events is that of these numbers, which compare without a branch.
#[inline]
fn entry(at: u64, kind: Kind, index: u32) -> u128 {
    u128::from(at) << 32 | u128::from((kind as u32) << INDEX_BITS | index)
}

#[inline]
fn time_of(entry: u128) -> u64 {
    (entry >> 32) as u64
}

#[inline]
fn who_of(entry: u128) -> Who {
    let who = entry as u32;
    Who { kind: Kind::ALL[(who >> INDEX_BITS) as usize], index: who & INDEX }
}

#[derive(Debug, Clone, Copy)]
struct Place {
    /// When it wants to be called, nanoseconds.
    due: u64,
    /// Its earliest entry in the heap; others are stale.
    entered: u64,
}

#[derive(Debug)]
pub(crate) struct Agenda {
    /// Of links, and of all others.
    heaps: [BinaryHeap<Reverse<u128>>; 2],
    /// The first entry of the second heap, if it is known to count: most events are those of links, and leave it as it is.
    first_other: Option<u128>,
    places: [Vec<Place>; KINDS],
}

impl Agenda {
    pub(crate) fn new() -> Self {
        Agenda { heaps: Default::default(), first_other: None, places: Default::default() }
    }

    /// Calls `who` at `at`, and not when it was to be called before.
    #[inline]
    pub(crate) fn set(&mut self, kind: Kind, index: u32, at: Instant) {
        let places = &mut self.places[kind as usize];
        let at = at.as_nanos();
        if index as usize >= places.len() {
            assert!(index < 1 << INDEX_BITS, "more than 2^{INDEX_BITS} of one kind");
            places.resize(index as usize + 1, Place { due: NEVER, entered: NEVER });
        }
        let place = &mut places[index as usize];
        place.due = at;
        let (heap, entry) = (kind.heap(), entry(at, kind, index));
        if at < place.entered {
            place.entered = at;
            if self.heaps[heap].len() == self.heaps[heap].capacity() {
                self.make_room(heap);
            }
            self.heaps[heap].push(Reverse(entry));
            if heap == OTHERS {
                self.first_other = self.first_other.map(|first| first.min(entry));
            }
        } else if heap == OTHERS {
            self.look_again(entry);
        }
    }

    /// Begins to load the place of one who waits into the processor's caches.
    #[inline]
    pub(crate) fn prefetch(&self, kind: Kind, index: u32) {
        if let Some(place) = self.places[kind as usize].get(index as usize) {
            prefetch(Region::of(place));
        }
    }

    /// The part that this entry is of has another time: if it was first, it may not be any more.
    #[inline]
    fn look_again(&mut self, entry: u128) {
        if self.first_other.is_some_and(|first| first as u32 == entry as u32) {
            self.first_other = None;
        }
    }

    /// Before a heap grows: rids it of what is stale, which else may lie there until its time comes, however far away
    /// that is.
    #[cold]
    fn make_room(&mut self, heap: usize) {
        let Agenda { heaps, places, .. } = self;
        let heap = &mut heaps[heap];
        let before = heap.len();
        heap.retain(|Reverse(entry)| {
            let Who { kind, index } = who_of(*entry);
            places[kind as usize][index as usize].entered == time_of(*entry)
        });
        // With less than that gained it would be called again too soon.
        if heap.len() > before / 2 {
            heap.reserve(before.max(16));
        }
    }

    /// Does not call it any more.
    #[inline]
    pub(crate) fn cancel(&mut self, kind: Kind, index: u32) {
        if let Some(place) = self.places[kind as usize].get_mut(index as usize) {
            place.due = NEVER;
            self.look_again(entry(NEVER, kind, index));
        }
    }

    /// The next to call, not after `until`.
    #[inline]
    pub(crate) fn next(&mut self, until: Instant) -> Option<(Instant, Who)> {
        let link = self.earliest(LINKS);
        let other = match self.first_other {
            Some(first) => first,
            None => self.earliest(OTHERS),
        };
        self.first_other = Some(other);
        let entry = link.min(other);
        let at = time_of(entry);
        if at > until.as_nanos() || at == NEVER {
            return None;
        }
        if other < link {
            self.heaps[OTHERS].pop();
            self.first_other = None;
        } else {
            self.heaps[LINKS].pop();
        }
        let who = who_of(entry);
        *self.place(who) = Place { due: NEVER, entered: NEVER };
        Some((Instant::from_nanos(at), who))
    }

    #[inline]
    fn place(&mut self, who: Who) -> &mut Place {
        &mut self.places[who.kind as usize][who.index as usize]
    }

    /// The earliest entry of a heap that counts, once those before it that do not are gone or moved.
    #[inline]
    fn earliest(&mut self, heap: usize) -> u128 {
        loop {
            let Some(Reverse(first)) = self.heaps[heap].peek().copied() else { return NONE };
            let (at, who) = (time_of(first), who_of(first));
            let place = self.place(who);
            if place.entered == at && place.due == at {
                return first;
            }
            if place.entered == at && place.due != NEVER {
                place.entered = place.due;
                let later = entry(place.due, who.kind, who.index);
                if let Some(mut top) = self.heaps[heap].peek_mut() {
                    *top = Reverse(later);
                }
                continue;
            }
            if place.entered == at {
                place.entered = NEVER;
            }
            self.heaps[heap].pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(agenda: &mut Agenda) -> Vec<(u64, Kind, u32)> {
        let mut all = Vec::new();
        while let Some((at, who)) = agenda.next(Instant::FAR_FUTURE) {
            all.push((at.as_nanos(), who.kind, who.index));
        }
        all
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn events_come_by_time_then_kind_then_number() {
        let mut agenda = Agenda::new();
        agenda.set(Kind::Source, 0, at(5));
        agenda.set(Kind::Arrival, 9, at(5));
        agenda.set(Kind::Arrival, 2, at(5));
        agenda.set(Kind::Free, 0, at(4));
        let order = [(4, Kind::Free, 0), (5, Kind::Arrival, 2), (5, Kind::Arrival, 9), (5, Kind::Source, 0)];
        assert_eq!(drain(&mut agenda), order);
    }

    #[test]
    fn only_the_last_time_that_was_set_counts() {
        let mut agenda = Agenda::new();
        for time in [50, 70, 20, 90, 60] {
            agenda.set(Kind::Connection, 3, at(time));
        }
        agenda.set(Kind::Connection, 4, at(10));
        agenda.cancel(Kind::Connection, 4);
        assert_eq!(drain(&mut agenda), [(60, Kind::Connection, 3)]);
    }

    #[test]
    fn nothing_comes_after_the_limit_and_nothing_is_lost_by_it() {
        let mut agenda = Agenda::new();
        agenda.set(Kind::Free, 1, at(7));
        assert!(agenda.next(at(6)).is_none());
        assert!(agenda.next(at(7)).is_some());
        assert!(agenda.next(Instant::FAR_FUTURE).is_none());
    }

    /// One who waits for a far time, and then always for a near one first.
    #[test]
    fn what_is_stale_does_not_pile_up_until_its_time_comes() {
        let mut agenda = Agenda::new();
        for now in 0..100_000 {
            agenda.set(Kind::Source, 0, at(1 << 60));
            agenda.set(Kind::Source, 0, at(now));
            agenda.set(Kind::Source, 1, at(1 << 61));
            assert_eq!(agenda.next(at(now)).map(|(_, who)| who.index), Some(0));
        }
        assert!(agenda.heaps[1].capacity() <= 128, "{}", agenda.heaps[1].capacity());
        assert_eq!(drain(&mut agenda), [(1 << 61, Kind::Source, 1)]);
    }

    #[test]
    fn it_agrees_with_a_list_that_is_searched() {
        let mut rng = trunkline_units::Rng::new(3, "agenda");
        let mut agenda = Agenda::new();
        let mut model: Vec<Option<u64>> = vec![None; 40];
        let mut now = 0;
        for _ in 0..20_000 {
            let index = rng.below(40) as usize;
            match rng.below(4) {
                0 => {
                    agenda.cancel(Kind::Connection, index as u32);
                    model[index] = None;
                }
                1 | 2 => {
                    let time = now + rng.below(1000);
                    agenda.set(Kind::Connection, index as u32, at(time));
                    model[index] = Some(time);
                }
                _ => {
                    let wanted = (0..40).filter_map(|i| model[i].map(|time| (time, i))).min();
                    let got = agenda.next(Instant::FAR_FUTURE);
                    assert_eq!(got.map(|(at, who)| (at.as_nanos(), who.index as usize)), wanted);
                    if let Some((time, index)) = wanted {
                        (now, model[index]) = (time, None);
                    }
                }
            }
        }
    }
}
