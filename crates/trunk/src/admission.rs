//! A bound on the flows of a class at a time.
//!
//! A place belongs to a flow *in a class*. A flow whose packets go to several classes, at once or one after the other, needs a
//! place in each of them that is bounded, and holds each as long as it uses it.

use std::time::Duration;

use trunkline_queue::FlowIndex;
use trunkline_units::Instant;

use crate::class::ClassId;
use crate::flow::FlowTable;

/// The places of one class.
///
/// A flow holds its place until its connection ends, the flow table has forgotten it, or it has sent nothing in the class
/// for [`SILENCE`](Self::SILENCE), or for [`LEFT`](Self::LEFT) if it sends in another class instead. Places are not searched
/// for those: each newcomer that finds none looks at eight.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    class: ClassId,
    limit: usize,
    places: Vec<Place>,
    hand: usize,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    flow: FlowIndex,
    /// Since when the flow has sent nothing in the class, as far as newcomers have looked.
    unused_since: Instant,
}

impl Admission {
    const SILENCE: Duration = Duration::from_secs(60);
    const LEFT: Duration = Duration::from_secs(2);
    const LOOKS: usize = 8;

    pub(crate) fn new(class: ClassId, limit: u32) -> Self {
        Admission { class, limit: limit as usize, places: Vec::new(), hand: 0 }
    }

    /// Whether `flow`, which sends something in the class, has a place or gets one.
    #[inline]
    pub(crate) fn admit(&mut self, now: Instant, flow: FlowIndex, table: &mut FlowTable) -> bool {
        table.get_mut(flow).is_some_and(|flow| flow.use_place(self.class)) || self.seat(now, flow, table)
    }

    fn seat(&mut self, now: Instant, flow: FlowIndex, table: &mut FlowTable) -> bool {
        // After a reload with a lower limit there may be more places than that: these are only given back.
        for _ in 0..Self::LOOKS.min(self.places.len()) {
            if self.places.len() < self.limit {
                break;
            }
            self.hand = (self.hand + 1) % self.places.len();
            if self.is_free(now, table) {
                let old = self.places.swap_remove(self.hand);
                if let Some(old) = table.get_mut(old.flow) {
                    old.give_up_place(self.class);
                }
            }
        }
        if self.places.len() >= self.limit {
            return false;
        }
        let Some(newcomer) = table.get_mut(flow) else { return false };
        newcomer.take_place(self.class);
        self.places.push(Place { flow, unused_since: now });
        true
    }

    /// Whether the place at the hand can be given to somebody else.
    fn is_free(&mut self, now: Instant, table: &mut FlowTable) -> bool {
        let place = &mut self.places[self.hand];
        let Some(idle) = table.idle(place.flow, now) else { return true };
        let Some(flow) = table.get_mut(place.flow) else { return true };
        if flow.is_closed() || idle > Self::SILENCE {
            return true;
        }
        if flow.was_place_used(self.class) {
            place.unused_since = now;
            return false;
        }
        let unused = now.saturating_since(place.unused_since);
        // It was seen since, and not here: the flow is in another class now.
        unused > Self::SILENCE || (unused > Self::LEFT && idle < unused)
    }

    /// Takes the marks of its places from the flows, before classes change their ids.
    pub(crate) fn unmark(&self, table: &mut FlowTable) {
        for place in &self.places {
            if let Some(flow) = table.get_mut(place.flow) {
                flow.give_up_place(self.class);
            }
        }
    }

    /// Goes on as the bound of a class of this id, with a new limit. Flows keep their places, also those beyond a lower
    /// limit: a connection is not cut off by a reload.
    pub(crate) fn reconfigure(mut self, class: ClassId, limit: u32, table: &mut FlowTable) -> Self {
        (self.class, self.limit) = (class, limit as usize);
        self.places.retain(|place| {
            let flow = table.get_mut(place.flow);
            flow.map(|flow| flow.take_place(class)).is_some()
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Flow, hasher};
    use trunkline_packet::{FlowKey, Headers, build};

    const CLASS: ClassId = ClassId(0);
    const OTHER: ClassId = ClassId(15);

    fn seconds(s: u64) -> Instant {
        Instant::from_millis(s * 1000)
    }

    /// The flow of a number, seen now.
    fn touch(n: u16, now: Instant, table: &mut FlowTable) -> FlowIndex {
        let packet = build::udp(&build::Ip::v4(), (n, 9), b"");
        let key: FlowKey = Headers::parse(&packet, packet.len()).expect("a packet").flow();
        table.touch(hasher(1).hash(&key), &key, now, Flow::default).0
    }

    fn enter(admission: &mut Admission, n: u16, now: Instant, table: &mut FlowTable) -> bool {
        let index = touch(n, now, table);
        admission.admit(now, index, table)
    }

    #[test]
    fn places_are_limited_and_come_back_when_flows_end_fall_silent_or_are_forgotten() {
        let (mut table, mut admission) = (FlowTable::new(64), Admission::new(CLASS, 3));
        assert!(enter(&mut admission, 1, seconds(0), &mut table));
        assert!(enter(&mut admission, 2, seconds(0), &mut table));
        assert!(enter(&mut admission, 3, seconds(50), &mut table));
        assert!(!enter(&mut admission, 4, seconds(51), &mut table), "three places");
        let first = touch(1, seconds(51), &mut table);
        table.get_mut(first).expect("known").close();
        assert!(enter(&mut admission, 5, seconds(52), &mut table), "one has ended");
        assert!(enter(&mut admission, 6, seconds(61), &mut table), "the second was silent for a minute");
        assert!(!enter(&mut admission, 7, seconds(62), &mut table));
        let third = touch(3, seconds(62), &mut table);
        let _ = table.remove(third);
        assert!(enter(&mut admission, 7, seconds(62), &mut table), "one was forgotten");
        assert!(!enter(&mut admission, 8, seconds(62), &mut table));
    }

    #[test]
    fn places_are_kept_while_the_flow_table_grows() {
        let (mut table, mut admission) = (FlowTable::new(1 << 12), Admission::new(CLASS, 20));
        let admitted = (0..500).filter(|n| enter(&mut admission, *n, seconds(1), &mut table)).count();
        assert_eq!(admitted, 20);
    }

    #[test]
    fn a_place_in_one_class_is_none_in_another() {
        let mut table = FlowTable::new(64);
        let mut classes = [CLASS, OTHER].map(|class| Admission::new(class, 2));
        assert!(enter(&mut classes[0], 1, seconds(0), &mut table));
        assert!(enter(&mut classes[0], 2, seconds(0), &mut table));
        assert!(enter(&mut classes[1], 3, seconds(0), &mut table));
        assert!(enter(&mut classes[1], 1, seconds(0), &mut table), "it has a place in both");
        assert!(!enter(&mut classes[1], 2, seconds(0), &mut table));
        assert!(enter(&mut classes[0], 1, seconds(0), &mut table));
    }

    #[test]
    fn a_flow_that_sends_in_another_class_gives_its_place_up_and_one_that_uses_both_does_not() {
        let (mut table, mut admission) = (FlowTable::new(64), Admission::new(CLASS, 2));
        let mut newcomer = 10;
        for second in 0..30 {
            // The first sends here and elsewhere; the second leaves at second 3; newcomers come from second 1 on.
            assert!(enter(&mut admission, 1, seconds(second), &mut table), "second {second}");
            if second < 3 {
                assert!(enter(&mut admission, 2, seconds(second), &mut table));
            } else {
                let _ = touch(2, seconds(second), &mut table);
            }
            if second > 0 && enter(&mut admission, newcomer, seconds(second), &mut table) {
                assert!((5..=7).contains(&second), "the second flow's place, at second {second}");
                newcomer += 1;
            }
            if newcomer > 10 {
                assert!(enter(&mut admission, 10, seconds(second), &mut table), "it holds what it got");
            }
        }
        assert_eq!(newcomer, 11, "one place came free, once");
    }

    #[test]
    fn a_reload_keeps_places_and_a_lower_limit_lets_nobody_in_until_flows_have_gone() {
        let (mut table, mut admission) = (FlowTable::new(64), Admission::new(CLASS, 3));
        assert!((1..=3).all(|n| enter(&mut admission, n, seconds(0), &mut table)));
        admission.unmark(&mut table);
        let mut admission = admission.reconfigure(OTHER, 2, &mut table);
        assert!((1..=3).all(|n| enter(&mut admission, n, seconds(1), &mut table)), "they keep their places");
        assert!(!enter(&mut admission, 4, seconds(1), &mut table));
        let close = |n, table: &mut FlowTable| {
            let index = touch(n, seconds(1), table);
            table.get_mut(index).expect("known").close();
        };
        close(2, &mut table);
        assert!(!enter(&mut admission, 4, seconds(1), &mut table), "two hold the two places");
        close(1, &mut table);
        assert!(enter(&mut admission, 4, seconds(1), &mut table));
        assert!(!enter(&mut admission, 5, seconds(1), &mut table));
        assert!(!Admission::new(CLASS, 0).admit(seconds(1), touch(6, seconds(1), &mut table), &mut table));
    }
}
