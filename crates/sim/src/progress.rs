//! Time goes on: the events of one part within a short time are bounded.
//!
//! A part that asks to be called at the present time whenever it is called would keep a run there for ever, and one whose time grows
//! by a nanosecond nearly so. No part of a sound network has an event in two nanoseconds for a millisecond: a link of 160 Gbit/s
//! that carries packets of 40 bytes alone does. Parts are told apart only once a millisecond has very many events.

use trunkline_units::Instant;

use crate::agenda::{KINDS, Who};

/// Nanoseconds of a stretch of time, as a power of two.
const STRETCH_BITS: u32 = 20;
/// Events of a stretch from which on they are counted by part.
const MANY: u32 = 1 << 16;
/// Events of one part within a stretch, of those that are counted.
const MAX_OF_ONE: u32 = 1 << 19;
/// What parts may tell each other before the next event.
pub(crate) const MAX_UPCALLS: u32 = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Progress {
    stretch: u64,
    events: u32,
    counts: [Vec<u32>; KINDS],
}

impl Progress {
    /// Counts an event. Whether its part has too many.
    #[inline]
    pub(crate) fn is_stuck(&mut self, at: Instant, who: Who) -> bool {
        let stretch = at.as_nanos() >> STRETCH_BITS;
        if stretch != self.stretch {
            (self.stretch, self.events) = (stretch, 0);
        }
        self.events = self.events.saturating_add(1);
        self.events > MANY && self.count(who)
    }

    #[cold]
    fn count(&mut self, who: Who) -> bool {
        if self.events == MANY + 1 {
            self.counts.iter_mut().for_each(Vec::clear);
        }
        let (counts, index) = (&mut self.counts[who.kind as usize], who.index as usize);
        if index >= counts.len() {
            counts.resize(index + 1, 0);
        }
        counts[index] += 1;
        counts[index] > MAX_OF_ONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agenda::Kind;

    const TOO_MANY: u32 = MANY + MAX_OF_ONE + 1;

    fn who(kind: Kind, index: u32) -> Who {
        Who { kind, index }
    }

    /// Which of so many events, each so many nanoseconds after the one before, is one too many.
    fn stuck(events: u32, nanos: u64, part: impl Fn(u32) -> Who) -> Option<u32> {
        let mut progress = Progress::default();
        (1..=events).find(|event| {
            progress.is_stuck(Instant::from_nanos((7 << 30) + u64::from(*event) * nanos), part(*event))
        })
    }

    #[test]
    fn a_part_that_is_called_at_one_instant_for_ever_is_stuck() {
        assert_eq!(stuck(2 * TOO_MANY, 0, |_| who(Kind::Gateway, 3)), Some(TOO_MANY));
        // Two that call each other, too.
        let both = |event| who(if event % 2 == 0 { Kind::Gateway } else { Kind::Arrival }, 3);
        assert!(stuck(3 * TOO_MANY, 0, both).is_some_and(|event| event < 2 * TOO_MANY));
    }

    #[test]
    fn a_part_whose_time_grows_by_a_nanosecond_is_stuck_and_one_by_ten_is_not() {
        assert!(stuck(4 * TOO_MANY, 1, |_| who(Kind::Connection, 0)).is_some());
        assert_eq!(stuck(4 * TOO_MANY, 10, |_| who(Kind::Connection, 0)), None);
    }

    #[test]
    fn many_parts_may_have_an_event_at_one_instant() {
        assert_eq!(stuck(4 * TOO_MANY, 0, |event| who(Kind::Source, event / 10)), None);
    }
}
