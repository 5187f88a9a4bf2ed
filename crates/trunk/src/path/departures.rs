//! When the bytes of a lane were sent.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_units::{Instant, Rate};

/// The number of bytes for which something was so at one time, in the order of both.
#[derive(Debug, Clone, Default)]
struct Samples {
    all: VecDeque<(Instant, u64)>,
}

impl Samples {
    /// Samples closer together than this are one.
    const SPACING: Duration = Duration::from_micros(500);
    /// The longest record: two seconds of a lane that is served all the time.
    const MAX_SAMPLES: usize = 4096;

    fn update(&mut self, now: Instant, bytes: u64) {
        if let Some((at, last)) = self.all.back_mut() {
            if now.saturating_since(*at) < Self::SPACING || bytes <= *last {
                *last = bytes.max(*last);
                return;
            }
            if self.all.len() == Self::MAX_SAMPLES {
                self.all.pop_front();
            }
        }
        self.all.push_back((now, bytes));
    }
}

/// When a byte left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Departure {
    /// Not before this time.
    pub(crate) earliest: Instant,
    /// At this time, if the connection sends what it holds at the rate at which it is paced; if it has none, at the next look after a
    /// time without one.
    pub(crate) paced: Instant,
}

/// When a lane's connection took its bytes and when it sent them, as far as the far end has not reported their arrival.
///
/// The kernel keeps no such record. It says how much is unsent when the owner asks, and the owner asks whenever it serves the lane.
#[derive(Debug, Clone, Default)]
pub(crate) struct Departures {
    written: Samples,
    sent: Samples,
}

impl Departures {
    /// Looks further apart than this are rare: on a long path whose window is full no acknowledgement has the lane served for a round trip.
    const RARE: Duration = Duration::from_millis(50);

    /// The connection has taken so many bytes so far.
    pub(crate) fn handle_written(&mut self, now: Instant, written: u64) {
        self.written.update(now, written);
    }

    /// It has sent so many of them.
    pub(crate) fn handle_sent(&mut self, now: Instant, sent: u64) {
        self.sent.update(now, sent);
    }

    /// When the byte before `position` left, whose arrival is known `now`, of a connection that is paced at `rate`; `None` if that is not known. The record before it
    /// is dropped.
    ///
    /// A time too late would make a delay too short, and the shortest one counts as that of an empty path. But at a low rate a byte
    /// waits in the connection for many milliseconds between two looks, which are no queue in the core.
    pub(crate) fn take(&mut self, now: Instant, position: u64, rate: Option<Rate>) -> Option<Departure> {
        let written = &mut self.written.all;
        while written.front().is_some_and(|(_, bytes)| *bytes < position) && written.len() > 1 {
            written.pop_front();
        }
        let (at, _) = *written.front().filter(|(_, bytes)| *bytes >= position)?;
        // It was still unsent at the last of these.
        let sent = &mut self.sent.all;
        while sent.get(1).is_some_and(|(_, bytes)| *bytes < position) {
            sent.pop_front();
        }
        let Some((look, bytes)) = sent.front().copied().filter(|(_, bytes)| *bytes < position) else {
            return Some(Departure { earliest: at, paced: at });
        };
        let earliest = at.max(look);
        let paced = match rate {
            Some(rate) => look + rate.time_for(position - bytes, &mut 0),
            // Without a bound it waited for the window. Where no look came for long it may have left at any time since.
            None => sent.get(1).map_or(now, |(at, _)| *at),
        };
        let is_known = rate.is_some() || paced.saturating_since(earliest) > Self::RARE;
        Some(Departure { earliest, paced: if is_known { earliest.max(paced) } else { earliest } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn earliest(departures: &mut Departures, position: u64) -> Option<Instant> {
        departures.take(at(10_000), position, None).map(|departure| departure.earliest)
    }

    #[test]
    fn a_byte_that_waits_for_its_turn_leaves_when_those_before_it_have_left_at_the_rate() {
        let mut departures = Departures::default();
        departures.handle_written(at(10), 5000);
        departures.handle_sent(at(10), 1000);
        departures.handle_written(at(14), 6000);
        let rate = Some(Rate::from_mbit(1.0));
        let mut left = |position| {
            let departure = departures.take(at(50), position, rate).expect("it is known");
            [departure.earliest, departure.paced].map(|at| at.as_nanos() / 1_000_000)
        };
        // A thousand bytes take 8 ms.
        assert_eq!(
            [left(2000), left(3000), left(5000), left(6000)],
            [[10, 18], [10, 26], [10, 42], [14, 50]]
        );
    }

    #[test]
    fn a_byte_leaves_after_the_last_look_at_which_it_was_unsent() {
        let mut departures = Departures::default();
        for (ms, written, sent) in
            [(10, 10_000, 0), (20, 10_000, 5000), (30, 20_000, 10_000), (40, 20_000, 20_000)]
        {
            departures.handle_written(at(ms), written);
            departures.handle_sent(at(ms), sent);
        }
        let times =
            [1, 5000, 5001, 10_000, 10_001, 20_000, 20_001].map(|place| earliest(&mut departures, place));
        let expected = [10, 10, 20, 20, 30, 30].map(|ms| Some(at(ms)));
        assert_eq!((&times[..6], times[6]), (&expected[..], None), "the last one was never written");
    }

    #[test]
    fn a_byte_does_not_leave_before_it_was_written_and_may_leave_at_once() {
        let mut departures = Departures::default();
        departures.handle_sent(at(0), 0);
        departures.handle_written(at(0), 1000);
        // It goes at once, and is looked at much later, after more was written.
        departures.handle_written(at(5), 1500);
        departures.handle_sent(at(900), 1500);
        departures.handle_written(at(950), 2000);
        let times = [1000, 1500, 2000].map(|place| earliest(&mut departures, place));
        assert_eq!(times, [0, 5, 950].map(|ms| Some(at(ms))));
    }

    /// A window in flight on a path of 600 ms: the next look is a round trip later.
    #[test]
    fn what_waits_for_a_window_leaves_when_that_opens_as_far_as_is_known() {
        let mut departures = Departures::default();
        departures.handle_written(at(0), 30_000);
        departures.handle_sent(at(0), 15_000);
        departures.handle_sent(at(600), 30_000);
        let mut left = |position| {
            let departure = departures.take(at(1200), position, None).expect("it is known");
            [departure.earliest, departure.paced]
        };
        assert_eq!(left(15_000), [at(0), at(0)]);
        assert_eq!(left(30_000), [at(0), at(600)]);
    }

    #[test]
    fn the_record_stays_short() {
        let mut departures = Departures::default();
        let look = |departures: &mut Departures, micros: u64, bytes: u64| {
            let now = Instant::from_nanos(micros * 1000);
            departures.handle_written(now, bytes);
            departures.handle_sent(now, bytes - 50);
        };
        let len = |departures: &Departures| departures.written.all.len().max(departures.sent.all.len());
        (1..20_000).for_each(|n| look(&mut departures, n * 600, n * 100));
        assert_eq!(len(&departures), Samples::MAX_SAMPLES);
        assert!(departures.take(at(3000), 1_999_900 - 50, None).is_some());
        assert!(len(&departures) <= 2, "{}", len(&departures));
        // Looks in quick succession are one, and those that find nothing new none.
        (0..100).for_each(|n| look(&mut departures, 13_000_000 + n, 3_000_000 + n));
        (0..100).for_each(|n| look(&mut departures, 14_000_000 + n * 1000, 3_000_099));
        assert!(len(&departures) <= 4, "{}", len(&departures));
    }
}
