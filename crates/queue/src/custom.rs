//! A discipline that is not of this crate, such as one that a user of the laboratory writes.

use std::collections::BTreeMap;
use std::fmt;

use trunkline_units::Instant;

use crate::fifo::{Held, Stamped};
use crate::ledger::Ledger;
use crate::{Conditions, Control, Discard, DropReason, Item, Stats};

/// What a discipline knows of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Its number in this queue: the first that came has 0.
    pub number: u64,
    /// When it came.
    pub since: Instant,
    /// Its length.
    pub bytes: usize,
    /// Packets of wire size that it stands for.
    pub segments: u32,
    /// A hash of its flow.
    pub flow: u64,
    /// Whether it can be marked (RFC 3168).
    pub ecn_capable: bool,
}

/// Items that a discipline drops or marks, by their numbers. A number of none that waits is without effect.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// Dropped.
    pub drop: Vec<u64>,
    /// Marked, if they can be.
    pub mark: Vec<u64>,
}

/// The rules alone: the items stay with the queue.
pub trait CustomDiscipline: fmt::Debug + Send {
    /// An item has come; it waits unless it is dropped.
    fn enqueue(&mut self, item: &Waiting, verdicts: &mut Verdicts);

    /// The number of the item to send, of those that wait. `None` only if none waits: the queue's owner asks again when the next comes.
    fn dequeue(&mut self, now: Instant, verdicts: &mut Verdicts) -> Option<u64>;

    /// An item was taken out of the queue by its owner.
    fn removed(&mut self, number: u64);
}

/// Such rules with what waits.
#[derive(Debug)]
pub(crate) struct Custom<T> {
    rules: Box<dyn CustomDiscipline>,
    /// In the order in which they came.
    items: BTreeMap<u64, Stamped<T>>,
    held: Held,
    next: u64,
    verdicts: Verdicts,
}

/// What it does stays out of the code of the built-in disciplines, which is inlined around it and would be slower: a call hands no closure on.
impl<T: Item> Custom<T> {
    pub(crate) fn new(rules: Box<dyn CustomDiscipline>) -> Self {
        let (items, verdicts) = (BTreeMap::new(), Verdicts::default());
        Custom { rules, items, held: Held::default(), next: 0, verdicts }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn held(&self) -> Held {
        self.held
    }

    /// What they drop counts as dropped for want of room: of their other reasons nobody knows.
    pub(crate) const REASON: DropReason = DropReason::SegmentLimit;

    #[cold]
    #[inline(never)]
    #[expect(clippy::unused_self, reason = "as the built-in disciplines are asked")]
    pub(crate) fn control(&self) -> Control {
        Control::default()
    }

    /// The path behind the queue is not the rules' affair.
    #[cold]
    #[inline(never)]
    #[expect(clippy::unused_self, reason = "as the built-in disciplines are told")]
    pub(crate) fn observe(&mut self, _: &Conditions) {}

    #[cold]
    #[inline(never)]
    pub(crate) fn shed(&mut self) -> Option<Stamped<T>> {
        self.pop()
    }

    #[inline]
    #[expect(clippy::needless_for_each, reason = "a loop in its place makes the simulator 2 % slower")]
    pub(crate) fn enqueue<F>(&mut self, now: Instant, item: T, ledger: &mut Ledger<'_, F>) -> u32
    where
        F: Discard<T>,
    {
        let (waiting, dropped) = self.take_in(now, item, ledger.stats);
        dropped.into_iter().for_each(|item| ledger.on_drop.discard(item, Self::REASON));
        waiting
    }

    #[inline]
    #[expect(clippy::needless_for_each, reason = "a loop in its place makes the simulator 2 % slower")]
    pub(crate) fn dequeue<F>(&mut self, now: Instant, ledger: &mut Ledger<'_, F>) -> Option<Stamped<T>>
    where
        F: Discard<T>,
    {
        let (next, dropped) = self.hand_out(now, ledger.stats);
        dropped.into_iter().for_each(|item| ledger.on_drop.discard(item, Self::REASON));
        next
    }

    /// How many of its segments wait, and what is dropped.
    #[cold]
    #[inline(never)]
    fn take_in(&mut self, now: Instant, item: T, stats: &mut Stats) -> (u32, Vec<T>) {
        let number = self.next;
        self.next += 1;
        let waiting = Waiting {
            number,
            since: now,
            bytes: item.bytes(),
            segments: item.segments(),
            flow: item.flow(),
            ecn_capable: item.is_ecn_capable(),
        };
        self.held.add(&item);
        self.items.insert(number, Stamped { since: now, item });
        self.rules.enqueue(&waiting, &mut self.verdicts);
        let dropped = self.carry_out(stats);
        (self.items.get(&number).map_or(0, |stamped| stamped.item.segments()), dropped)
    }

    /// The next item to send, and what is dropped.
    #[cold]
    #[inline(never)]
    fn hand_out(&mut self, now: Instant, stats: &mut Stats) -> (Option<Stamped<T>>, Vec<T>) {
        if self.items.is_empty() {
            return (None, Vec::new());
        }
        let next = self.rules.dequeue(now, &mut self.verdicts);
        let dropped = self.carry_out(stats);
        (next.and_then(|next| self.take(next)), dropped)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn pop(&mut self) -> Option<Stamped<T>> {
        let number = *self.items.first_key_value()?.0;
        self.rules.removed(number);
        self.take(number)
    }

    pub(crate) fn expire<F>(&mut self, oldest: Instant, ledger: &mut Ledger<'_, F>)
    where
        F: Discard<T>,
    {
        while self.items.first_key_value().is_some_and(|(_, first)| first.since < oldest) {
            let Some(stamped) = self.pop() else { break };
            ledger.drop(stamped.item, DropReason::Expired);
        }
    }

    fn take(&mut self, number: u64) -> Option<Stamped<T>> {
        let stamped = self.items.remove(&number)?;
        self.held.remove(&stamped.item);
        Some(stamped)
    }

    /// Marks what the rules said, and takes out what they drop.
    fn carry_out(&mut self, stats: &mut Stats) -> Vec<T> {
        for number in self.verdicts.mark.drain(..) {
            if let Some(stamped) = self.items.get_mut(&number)
                && stamped.item.is_ecn_capable()
            {
                stamped.item.mark();
                stats.marked[Self::REASON as usize] += u64::from(stamped.item.segments());
            }
        }
        let numbers = std::mem::take(&mut self.verdicts.drop);
        let dropped: Vec<T> =
            numbers.into_iter().filter_map(|number| self.take(number)).map(|stamped| stamped.item).collect();
        for item in &dropped {
            stats.count_drop(Self::REASON, item.segments(), item.bytes());
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::testing::{Packet, packet};
    use crate::{Limits, Queue, Settings};
    use trunkline_units::Rng;

    /// Tail drop, told by numbers.
    #[derive(Debug, Default)]
    struct Numbers {
        waiting: VecDeque<u64>,
        limit: usize,
    }

    impl CustomDiscipline for Numbers {
        fn enqueue(&mut self, item: &Waiting, verdicts: &mut Verdicts) {
            if self.waiting.len() < self.limit {
                self.waiting.push_back(item.number);
            } else {
                verdicts.drop.push(item.number);
            }
        }

        fn dequeue(&mut self, _: Instant, _: &mut Verdicts) -> Option<u64> {
            self.waiting.pop_front()
        }

        fn removed(&mut self, number: u64) {
            self.waiting.retain(|waiting| *waiting != number);
        }
    }

    fn of_rules(rules: impl CustomDiscipline + 'static) -> Queue<Packet> {
        let mut queue = Queue::new(Settings::default(), 1);
        queue.set_custom(Box::new(rules));
        queue
    }

    #[test]
    fn rules_of_tail_drop_do_what_tail_drop_does() {
        for seed in 0..20 {
            let mut random = Rng::new(seed, "custom");
            let limit = 1 + random.below(20) as u32;
            let mut ours = of_rules(Numbers { limit: limit as usize, ..Numbers::default() });
            let limits = Limits { segments: limit, ..Limits::default() };
            let mut built_in = Queue::new(Settings::TailDrop(limits), seed);
            let mut dropped = [Vec::new(), Vec::new()];
            for id in 0..500 {
                let now = Instant::from_nanos(u64::from(id));
                for (queue, dropped) in [&mut ours, &mut built_in].into_iter().zip(&mut dropped) {
                    let mut on_drop = |item: Packet, reason| dropped.push((item.id, reason));
                    match id % 7 {
                        6 => queue.expire(now, Instant::from_nanos(u64::from(id / 2)), &mut on_drop),
                        5 => drop(queue.shed(now, &mut on_drop)),
                        _ => drop(queue.enqueue(now, packet(id), &mut on_drop)),
                    }
                }
                if random.chance(0.4) {
                    let [ours, built_in] = [&mut ours, &mut built_in].map(|queue| {
                        queue.dequeue(now, &mut |_, _| ()).map(|out| (out.item.id, out.sojourn))
                    });
                    assert_eq!(ours, built_in, "seed {seed}, {id}");
                }
            }
            assert_eq!(dropped[0], dropped[1], "seed {seed}");
            assert_eq!(ours.stats().backlog_bytes, built_in.stats().backlog_bytes);
        }
    }

    /// Drops what waits for what comes, marks everything, and says numbers of nothing.
    #[derive(Debug, Default)]
    struct Newest(Option<u64>);

    impl CustomDiscipline for Newest {
        fn enqueue(&mut self, item: &Waiting, verdicts: &mut Verdicts) {
            verdicts.mark.extend([item.number, 1 << 40]);
            verdicts.drop.extend(self.0.replace(item.number));
            verdicts.drop.push(1 << 41);
        }

        fn dequeue(&mut self, _: Instant, _: &mut Verdicts) -> Option<u64> {
            Some(1 << 42)
        }

        fn removed(&mut self, _: u64) {
            self.0 = None;
        }
    }

    #[test]
    fn what_rules_drop_mark_and_invent_leaves_the_books_right() {
        let mut queue = of_rules(Newest::default());
        let mut dropped = Vec::new();
        for id in 0..3 {
            let marked = Packet { ecn: true, ..packet(id) };
            assert_eq!(queue.enqueue(Instant::ZERO, marked, &mut |item, _| dropped.push(item.id)), 1);
        }
        assert_eq!(dropped, [0, 1]);
        assert_eq!((queue.stats().backlog_segments, queue.stats().dropped_total()), (1, 2));
        assert_eq!(queue.stats().marked.iter().sum::<u64>(), 3);
        assert!(queue.dequeue(Instant::ZERO, &mut |_, _| ()).is_none(), "a number of nothing");
        assert_eq!(queue.withdraw(Instant::ZERO).map(|item| item.id), Some(2));
        assert!(queue.is_empty());
    }
}
