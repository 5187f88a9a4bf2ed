use std::time::Duration;

use trunkline_units::Instant;

use crate::discipline::Rules;
use crate::fifo::{Fifo, Held, Stamped};
use crate::ledger::Ledger;
use crate::parameter::{
    CONTROL_TIME, Conflict, Describe, Description, Field, Range, control_law, parameters,
};
use crate::{Conditions, Control, Discard, DropReason, Item, Limits, Settings};

/// A pause between two spells of dropping that is shorter than this many intervals is no new start (RFC 8289 §5).
const MEMORY_INTERVALS: u32 = 16;

/// What `CoDel` remembers of one queue (RFC 8289 §5).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Law {
    /// When the sojourn time will have been above target for an interval.
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    dropping: bool,
}

/// A queue that `CoDel` takes packets from.
pub(crate) trait Source<T> {
    /// Takes the packet at the head.
    fn pop(&mut self) -> Option<Stamped<T>>;
    /// What waits behind what was taken.
    fn bytes(&self) -> u64;
}

impl<T: Item> Source<T> for Fifo<T> {
    fn pop(&mut self) -> Option<Stamped<T>> {
        self.pop()
    }

    fn bytes(&self) -> u64 {
        self.held().bytes
    }
}

impl Law {
    pub(crate) const fn dropping(&self) -> bool {
        self.dropping
    }

    /// When the next drop is due after one at `from`: an interval over the square root of the count.
    fn next(&self, from: Instant, interval: Duration) -> Instant {
        from + Duration::from_nanos((interval.as_nanos() as f64 / f64::from(self.count).sqrt()) as u64)
    }

    /// Whether the sojourn time has been above target for a whole interval. It has not while less than a packet waits
    /// behind this one: then there is no standing queue, the link is just slow.
    fn above_target(
        &mut self,
        now: Instant,
        since: Instant,
        behind: u64,
        floor: u64,
        settings: &CoDelSettings,
    ) -> bool {
        if now.saturating_since(since) < settings.target || behind <= floor {
            self.first_above = None;
            return false;
        }
        let Some(first_above) = self.first_above else {
            self.first_above = Some(now + settings.interval);
            return false;
        };
        now >= first_above
    }

    /// Enters the dropping state with its first drop. If it was left only a short while ago, the count goes on from
    /// where that spell had brought it.
    fn enter(&mut self, now: Instant, interval: Duration) {
        self.dropping = true;
        let gained = self.count.saturating_sub(self.last_count);
        let recent = now.saturating_since(self.drop_next) < interval * MEMORY_INTERVALS;
        self.count = if gained > 1 && recent { gained } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.next(now, interval);
    }

    /// The next packet to send: `dequeue` of RFC 8289 §5.
    ///
    /// A drop that is due takes one segment of the packet at the head. If that was its last, the packet is gone and
    /// the next one is looked at; a super-packet with segments left is sent, as is a packet that was marked instead.
    pub(crate) fn dequeue<T, F>(
        &mut self,
        now: Instant,
        source: &mut impl Source<T>,
        floor: u64,
        settings: &CoDelSettings,
        ledger: &mut Ledger<'_, F>,
    ) -> Option<Stamped<T>>
    where
        T: Item,
        F: Discard<T>,
    {
        loop {
            let Some(Stamped { since, item }) = source.pop() else {
                self.first_above = None;
                self.dropping = false;
                return None;
            };
            let above = self.above_target(now, since, source.bytes(), floor, settings);
            if !above {
                self.dropping = false;
                return Some(Stamped { since, item });
            }
            let due = self.due(now, settings.interval, item.segments());
            if due == 0 {
                return Some(Stamped { since, item });
            }
            if let Some(item) = ledger.signal(item, due, DropReason::Sojourn, settings.ecn) {
                return Some(Stamped { since, item });
            }
        }
    }

    /// How many drops are due, up to `max`.
    fn due(&mut self, now: Instant, interval: Duration, max: u32) -> u32 {
        let mut due = 0;
        if !self.dropping {
            self.enter(now, interval);
            due = 1;
        }
        while due < max && now >= self.drop_next {
            due += 1;
            self.count = self.count.saturating_add(1);
            self.drop_next = self.next(self.drop_next, interval);
        }
        due
    }
}

/// Parameters of `CoDel` (RFC 8289).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoDelSettings {
    /// Never more than this.
    pub limits: Limits,
    /// Acceptable standing sojourn time, `TARGET`, while no round trip is longer than the interval.
    pub target: Duration,
    /// A worst-case round-trip time, `INTERVAL`. Where the owner of the queue knows a longer one ([`Conditions::measured_rtt`]), that one is in
    /// force, and the target grows by the same factor.
    pub interval: Duration,
    /// ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for CoDelSettings {
    /// RFC 8289 §4.3, §4.4.
    fn default() -> Self {
        CoDelSettings {
            limits: Limits::default(),
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn: true,
        }
    }
}

impl CoDelSettings {
    /// The largest factor by which the target and the interval grow.
    const MAX_FACTOR: f64 = 10.0;

    /// The law for flows whose round-trip times go up to `rtt`, if that was measured. `INTERVAL` is to be at least as long (RFC 8289 §4.3), and `TARGET` a
    /// part of it (§4.4): on a longer path both grow by the same factor.
    pub(crate) fn for_rtt(self, rtt: Option<Duration>) -> CoDelSettings {
        let Some(rtt) = rtt else { return self };
        let factor = (rtt.as_secs_f64() / self.interval.as_secs_f64()).clamp(1.0, Self::MAX_FACTOR);
        CoDelSettings { target: self.target.mul_f64(factor), interval: self.interval.mul_f64(factor), ..self }
    }
}

/// Controlled delay (RFC 8289): first in, first out, and drops at the head, at a growing rate, while what leaves has
/// waited longer than a target for at least an interval.
#[derive(Debug)]
pub(crate) struct CoDel<T> {
    settings: CoDelSettings,
    /// Those in force on the path as it is.
    in_force: CoDelSettings,
    pub(crate) fifo: Fifo<T>,
    law: Law,
    /// The longest segment seen: `MAXPACKET`.
    longest: u64,
    delay: Duration,
}

impl Describe for CoDel<()> {
    type Settings = CoDelSettings;
    const DESCRIPTION: &'static Description = &Description {
        word: "codel",
        meaning: "controlled delay, RFC 8289",
        parameters: parameters! { CoDel:
            "target", CONTROL_TIME, |codel| Field::Time(&mut codel.target), "acceptable standing sojourn time; grows with the interval";
            "interval", CONTROL_TIME, |codel| Field::Time(&mut codel.interval), "a worst-case round-trip time; at the edge a longer one that was measured, up to ten times as long, takes its place";
            "ecn", Range::Switch, |codel| Field::Switch(&mut codel.ecn), "ECN-capable packets are marked instead of dropped";
        },
        reasons: &[DropReason::SegmentLimit, DropReason::ByteLimit, DropReason::Sojourn],
        default: || Settings::CoDel(CoDelSettings::default()),
    };

    fn limits_mut(settings: &mut CoDelSettings) -> &mut Limits {
        &mut settings.limits
    }

    fn conflict(settings: &CoDelSettings) -> Option<Conflict> {
        control_law(settings.target, settings.interval)
    }
}

impl<T: Item> Rules<T> for CoDel<T> {
    type Settings = CoDelSettings;

    fn new(settings: CoDelSettings, _seed: u64) -> Self {
        CoDel {
            settings,
            in_force: settings,
            fifo: Fifo::new(),
            law: Law::default(),
            longest: 0,
            delay: Duration::ZERO,
        }
    }

    fn set(&mut self, settings: CoDelSettings) -> bool {
        (self.settings, self.in_force) = (settings, settings);
        true
    }

    fn observe(&mut self, conditions: &Conditions) {
        self.in_force = self.settings.for_rtt(conditions.measured_rtt);
    }

    fn held(&self) -> Held {
        self.fifo.held()
    }

    fn control(&self) -> Control {
        Control {
            dropping: Some(self.law.dropping()),
            delay: Some(self.delay),
            ..Control::of(self.settings.limits)
        }
    }

    fn enqueue<F>(&mut self, now: Instant, item: T, ledger: &mut Ledger<'_, F>) -> u32
    where
        F: Discard<T>,
    {
        self.longest = self.longest.max(segment_bytes(&item));
        let admitted = self.settings.limits.admit(self.fifo.held(), item, ledger);
        admitted.map_or(0, |item| self.fifo.push(now, item))
    }

    fn dequeue<F>(&mut self, now: Instant, ledger: &mut Ledger<'_, F>) -> Option<Stamped<T>>
    where
        F: Discard<T>,
    {
        let stamped = self.law.dequeue(now, &mut self.fifo, self.longest, &self.in_force, ledger);
        self.delay = stamped.as_ref().map_or(Duration::ZERO, |stamped| now.saturating_since(stamped.since));
        stamped
    }

    fn pop(&mut self) -> Option<Stamped<T>> {
        self.fifo.pop()
    }

    fn fifo(&mut self) -> Option<&mut Fifo<T>> {
        Some(&mut self.fifo)
    }
}

/// The mean length of an item's segments, rounded up.
pub(crate) fn segment_bytes<T: Item>(item: &T) -> u64 {
    match item.segments() {
        0 | 1 => item.bytes() as u64,
        segments => (item.bytes() as u64).div_ceil(u64::from(segments)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Packet, packet, refuse};
    use crate::{Limits, Queue, Settings};

    const MS: u64 = 1_000_000;

    fn settings() -> CoDelSettings {
        CoDelSettings { limits: Limits { segments: 100_000, bytes: u64::MAX }, ..CoDelSettings::default() }
    }

    fn full(items: u32, settings: CoDelSettings, item: Packet) -> Queue<Packet> {
        let mut q = Queue::new(Settings::CoDel(settings), 1);
        for id in 0..items {
            q.enqueue(Instant::ZERO, Packet { id, ..item }, &mut refuse);
        }
        q
    }

    /// A packet a millisecond leaves from `from` to `to` ms. Gives what came out, and (time in ms, id) of each drop.
    fn drain(q: &mut Queue<Packet>, from: u64, to: u64) -> (Vec<u32>, Vec<(u64, u32)>) {
        let (mut out, mut dropped) = (Vec::new(), Vec::new());
        for ms in from..to {
            let now = Instant::from_millis(ms);
            out.extend(
                q.dequeue(now, &mut |gone: Packet, reason| {
                    assert_eq!(reason, DropReason::Sojourn);
                    dropped.push((ms, gone.id));
                })
                .map(|sent| sent.item.id),
            );
        }
        (out, dropped)
    }

    #[test]
    fn drops_are_an_interval_over_the_square_root_of_their_count_apart() {
        let mut q = full(5000, settings(), packet(0));
        let (_, dropped) = drain(&mut q, 10, 1010);
        // Above target from 10 ms on, so the first drop is at 110 ms; then the control law.
        let mut due = 110.0;
        for (count, (ms, _)) in dropped.iter().enumerate() {
            assert!((due..due + 1.0).contains(&(*ms as f64)), "drop {count} at {ms} ms, due at {due}");
            due += 100.0 / ((count + 1) as f64).sqrt();
        }
        assert_eq!(dropped.len(), 27);
    }

    #[test]
    fn on_a_longer_path_the_interval_is_its_round_trip_and_the_target_grows_with_it() {
        let on_path = |rtt_ms: Option<u64>| {
            let mut q = full(5000, settings(), packet(0));
            q.observe(&Conditions {
                rtt_up: Duration::from_secs(1),
                measured_rtt: rtt_ms.map(Duration::from_millis),
                bandwidth: trunkline_units::Rate::from_mbit(10.0),
                window_bytes: 100_000,
                segment_bytes: 1500,
                flows: 1,
            });
            let (_, dropped) = drain(&mut q, 1, 3000);
            dropped[..2].iter().map(|(ms, _)| *ms).collect::<Vec<_>>()
        };
        // One leaves each millisecond: above target from `target` on, first drop an interval later, the next one an interval after it.
        assert_eq!(on_path(Some(30)), [105, 205]);
        assert_eq!(on_path(Some(250)), [263, 513], "12.5 ms, 250 ms");
        assert_eq!(on_path(Some(60_000)), [1050, 2050], "ten times as long at most");
        assert_eq!(on_path(None), [105, 205], "whose round trip is unknown may not answer to drops at all");
    }

    #[test]
    fn the_dropped_packet_is_the_one_at_the_head_and_its_successor_is_sent() {
        let mut q = full(500, settings(), packet(0));
        let (out, dropped) = drain(&mut q, 10, 120);
        // One leaves each millisecond: number 100 is at the head at 110 ms.
        assert_eq!(dropped, [(110, 100)]);
        let expected: Vec<u32> = (0..111).filter(|id| *id != 100).collect();
        assert_eq!(out, expected);
    }

    #[test]
    fn nothing_is_dropped_below_target_nor_before_an_interval_has_passed() {
        let mut q = full(95, settings(), packet(0));
        let (out, dropped) = drain(&mut q, 10, 110);
        assert_eq!((out.len(), dropped.len()), (95, 0), "a burst that is gone in an interval");
        let mut q = Queue::new(Settings::CoDel(settings()), 1);
        for ms in 0..1000 {
            for id in 0..2 {
                q.enqueue(Instant::from_millis(ms), packet(id), &mut refuse);
            }
            let now = Instant::from_nanos((ms + 4) * MS);
            while q.dequeue(now, &mut refuse).is_some() {}
        }
    }

    #[test]
    fn a_slow_link_with_one_packet_behind_is_left_alone() {
        let mut q = Queue::new(Settings::CoDel(settings()), 1);
        q.enqueue(Instant::ZERO, packet(0), &mut refuse);
        for id in 1..100 {
            // One waits behind the one that leaves: not more than the longest packet.
            q.enqueue(Instant::from_millis(u64::from(id) * 50), packet(id), &mut refuse);
            q.dequeue(Instant::from_millis(u64::from(id) * 50 + 49), &mut refuse);
        }
        let three = Instant::from_millis(6000);
        for id in 0..3 {
            q.enqueue(three, packet(id), &mut refuse);
        }
        q.dequeue(Instant::from_millis(6100), &mut refuse);
        q.enqueue(Instant::from_millis(6100), packet(4), &mut refuse);
        let mut dropped = 0;
        q.dequeue(Instant::from_millis(6201), &mut |_, _| dropped += 1);
        assert_eq!(dropped, 1, "with two behind it, it is a standing queue");
    }

    #[test]
    fn a_spell_that_follows_soon_goes_on_with_the_count() {
        let spells = |pause: u64| {
            let mut q = full(5000, settings(), packet(0));
            let (_, first) = drain(&mut q, 10, 510);
            // The queue empties, and fills again.
            q.flush(Instant::from_millis(510), &mut |_, _| ());
            let start = Instant::from_millis(510 + pause);
            q.dequeue(start, &mut refuse);
            for id in 0..5000 {
                q.enqueue(start, packet(id), &mut refuse);
            }
            let (_, second) = drain(&mut q, 520 + pause, 1020 + pause);
            (first.len(), second.len(), second[1].0 - second[0].0)
        };
        let (first, again, gap) = spells(10);
        assert!(again > first + 4, "{again} after {first}");
        // The first spell came from 1 to `first`: its last gap is where the second begins.
        let expected = 100.0 / f64::from(first as u32 - 1).sqrt();
        assert!((gap as f64 - expected).abs() <= 1.0, "{gap} ms, expected {expected}");
        let (first, afresh, gap) = spells(5000);
        assert_eq!((afresh, gap), (first, 100));
    }

    #[test]
    fn a_super_packet_loses_one_segment_for_each_drop_and_goes_on() {
        let long = Packet { segments: 10, bytes: 10_000, ..packet(0) };
        let mut q = full(200, settings(), long);
        let mut segments = Vec::new();
        for ms in 10..130 {
            let sent = q.dequeue(Instant::from_millis(ms), &mut refuse).unwrap();
            segments.push(sent.item.segments);
        }
        assert_eq!(segments[100], 9);
        assert_eq!(segments.iter().sum::<u32>(), 1199);
        assert_eq!(q.stats().dropped_for(DropReason::Sojourn), 1);
    }

    #[test]
    fn a_super_packet_that_took_long_to_come_loses_as_many_segments_as_drops_are_due() {
        let long = Packet { segments: 10, bytes: 10_000, ..packet(0) };
        let mut q = full(200, settings(), long);
        let mut sent = |ms| q.dequeue(Instant::from_millis(ms), &mut refuse).unwrap().item.segments;
        assert_eq!((sent(10), sent(110)), (10, 9));
        // After the first at 110 ms, drops are due at 210, 280.7 and 338.4 ms.
        assert_eq!(sent(300), 8);
        assert_eq!(sent(301), 10);
        assert_eq!(sent(339), 9);
    }

    #[test]
    fn what_can_be_marked_is_marked_and_sent() {
        let mut q = full(5000, settings(), Packet { ecn: true, ..packet(0) });
        let mut marked = Vec::new();
        for ms in 10..1010 {
            let sent = q.dequeue(Instant::from_millis(ms), &mut refuse).unwrap();
            if sent.item.marked {
                marked.push(ms);
            }
        }
        assert_eq!(marked.len(), 27, "as many as would have been dropped");
        assert_eq!(marked[0], 110);
        assert_eq!(q.stats().marked[DropReason::Sojourn as usize], 27);
    }
}
