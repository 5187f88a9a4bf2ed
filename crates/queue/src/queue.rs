use std::time::Duration;

use trunkline_units::Instant;

use crate::custom::{Custom, CustomDiscipline};
use crate::discipline::Discipline;
use crate::ledger::{Call, Ledger};
use crate::{Conditions, Control, Dequeued, Discard, DropReason, Item, Settings, Stats};

/// A queue of any discipline, and its books.
///
/// The discipline decides and stores; what came, left, waits and was dropped is counted here, and held against
/// what the discipline's storage says after every operation in debug builds.
#[derive(Debug)]
pub struct Queue<T> {
    settings: Settings,
    seed: u64,
    discipline: Discipline<T>,
    max_wait: Option<Duration>,
    stats: Stats,
}

impl<T: Item> Queue<T> {
    /// An empty queue. What is random in it follows from `seed`.
    pub fn new(settings: Settings, seed: u64) -> Self {
        let discipline = Discipline::new(settings, seed);
        Queue { settings, seed, discipline, max_wait: None, stats: Stats::default() }
    }

    /// The settings in force.
    pub const fn settings(&self) -> Settings {
        self.settings
    }

    /// Items that have waited for longer are dropped when it is their turn, whatever the discipline.
    pub const fn set_max_wait(&mut self, max_wait: Option<Duration>) {
        self.max_wait = max_wait;
    }

    /// What the queue has seen.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Sets the peaks to the present backlog.
    pub fn reset_peaks(&mut self) {
        self.stats.peak_segments = self.stats.backlog_segments;
        self.stats.peak_bytes = self.stats.backlog_bytes;
    }

    /// Whether nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.stats.backlog_segments == 0
    }

    /// What the discipline goes by now.
    pub fn control(&self) -> Control {
        self.discipline.control()
    }

    /// Takes note of the path behind the queue.
    pub fn observe(&mut self, conditions: &Conditions) {
        self.discipline.observe(conditions);
    }

    /// Offers an item, and returns how many of its segments now wait; the others are dropped, and if all are, the
    /// item goes to `on_drop`. Others that have to make room for it go there too.
    #[inline]
    pub fn enqueue(&mut self, now: Instant, item: T, on_drop: &mut impl FnMut(T, DropReason)) -> u32 {
        self.enqueue_into(now, item, &mut Call(on_drop))
    }

    /// [`enqueue`](Queue::enqueue) for an owner that has to know what is cut off, too.
    #[inline]
    pub fn enqueue_into(&mut self, now: Instant, item: T, on_drop: &mut impl Discard<T>) -> u32 {
        self.stats.integrate(now);
        self.stats.count_offer(&item);
        let waiting = self.discipline.enqueue(now, item, &mut Ledger { stats: &mut self.stats, on_drop });
        self.stats.settle(self.discipline.held());
        waiting
    }

    /// Takes the next item to send. Others may be dropped on the way to it.
    #[inline]
    pub fn dequeue(&mut self, now: Instant, on_drop: &mut impl FnMut(T, DropReason)) -> Option<Dequeued<T>> {
        self.dequeue_into(now, &mut Call(on_drop))
    }

    /// [`dequeue`](Queue::dequeue) for an owner that has to know what is cut off, too.
    #[inline]
    pub fn dequeue_into(&mut self, now: Instant, on_drop: &mut impl Discard<T>) -> Option<Dequeued<T>> {
        self.stats.integrate(now);
        let mut dequeued = None;
        while let Some(stamped) =
            self.discipline.dequeue(now, &mut Ledger { stats: &mut self.stats, on_drop })
        {
            let sojourn = now.saturating_since(stamped.since);
            if self.max_wait.is_some_and(|max| sojourn > max) {
                Ledger { stats: &mut self.stats, on_drop }.drop(stamped.item, DropReason::Expired);
                continue;
            }
            self.stats.count_out(&stamped.item, sojourn);
            dequeued = Some(Dequeued { item: stamped.item, sojourn });
            break;
        }
        self.stats.settle(self.discipline.held());
        dequeued
    }

    /// Takes new settings. What waits and the state of the discipline stay, unless it becomes another one: then what
    /// waits is dropped. The counts go on.
    pub fn reconfigure(&mut self, now: Instant, settings: Settings, on_drop: &mut impl FnMut(T, DropReason)) {
        if !self.discipline.set(settings) {
            self.flush(now, on_drop);
            self.discipline = Discipline::new(settings, self.seed);
        }
        self.settings = settings;
    }

    /// Replaces the discipline of a queue in which nothing waits by one that is not of this crate. The settings stay as they were, and their
    /// limits no longer hold.
    ///
    /// # Panics
    /// If something waits.
    pub fn set_custom(&mut self, rules: Box<dyn CustomDiscipline>) {
        assert!(self.is_empty(), "rules do not know what waits already");
        self.discipline = Discipline::Custom(Box::new(Custom::new(rules)));
    }

    /// Drops everything that waits.
    pub fn flush(&mut self, now: Instant, on_drop: &mut impl FnMut(T, DropReason)) {
        self.stats.integrate(now);
        let on_drop = &mut Call(on_drop);
        while let Some(stamped) = self.discipline.pop() {
            Ledger { stats: &mut self.stats, on_drop }.drop(stamped.item, DropReason::Flushed);
        }
        self.stats.settle(self.discipline.held());
    }

    /// Takes an item out again, as if it had never been offered: its owner offers it to another queue. `None` if nothing waits.
    pub fn withdraw(&mut self, now: Instant) -> Option<T> {
        self.stats.integrate(now);
        let stamped = self.discipline.pop()?;
        self.stats.count_withdrawn(&stamped.item);
        self.stats.settle(self.discipline.held());
        Some(stamped.item)
    }

    /// Drops what came before `oldest`, and gives back memory that what is left does not need. For a queue that nobody empties
    /// at the moment: an owner calls it now and then.
    pub fn expire(&mut self, now: Instant, oldest: Instant, on_drop: &mut impl FnMut(T, DropReason)) {
        self.stats.integrate(now);
        let on_drop = &mut Call(on_drop);
        self.discipline.expire(oldest, &mut Ledger { stats: &mut self.stats, on_drop });
        self.stats.settle(self.discipline.held());
    }

    /// Drops one item because memory is short: of the flow that has most waiting where the discipline keeps flows apart, else the
    /// one that came first. Whether there was one.
    pub fn shed(&mut self, now: Instant, on_drop: &mut impl FnMut(T, DropReason)) -> bool {
        self.stats.integrate(now);
        let Some(stamped) = self.discipline.shed() else { return false };
        let on_drop = &mut Call(on_drop);
        Ledger { stats: &mut self.stats, on_drop }.drop(stamped.item, DropReason::Memory);
        self.stats.settle(self.discipline.held());
        true
    }
}
