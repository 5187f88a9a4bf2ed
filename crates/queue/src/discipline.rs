use trunkline_units::Instant;

use crate::fair_tail_drop::FairTailDrop;
use crate::fifo::{Held, Stamped};
use crate::ledger::Ledger;
use crate::tail_drop::TailDrop;
use crate::{Conditions, Control, DropReason, Item, Settings};

/// The disciplines: a closed set with static dispatch, one `match` per operation.
#[derive(Debug)]
pub(crate) enum Discipline<T> {
    TailDrop(TailDrop<T>),
    FairTailDrop(FairTailDrop<T>),
}

macro_rules! each {
    ($discipline:expr, $inner:ident => $body:expr) => {
        match $discipline {
            Discipline::TailDrop($inner) => $body,
            Discipline::FairTailDrop($inner) => $body,
        }
    };
}

impl<T: Item> Discipline<T> {
    pub(crate) fn new(settings: Settings, _seed: u64) -> Self {
        match settings {
            Settings::FairTailDrop(limits) => Discipline::FairTailDrop(FairTailDrop::new(limits)),
            other => Discipline::TailDrop(TailDrop::new(other.limits())),
        }
    }

    /// Takes new settings and keeps what waits; `false` if they are another discipline's.
    pub(crate) fn set(&mut self, settings: Settings) -> bool {
        match (self, settings) {
            (Discipline::TailDrop(queue), Settings::TailDrop(limits)) => queue.set(limits),
            (Discipline::FairTailDrop(queue), Settings::FairTailDrop(limits)) => queue.set(limits),
            _ => return false,
        }
        true
    }

    /// How much waits, as the discipline's own storage counts it.
    pub(crate) fn held(&self) -> Held {
        each!(self, queue => queue.held())
    }

    /// Takes note of the path behind the queue; neither of these asks.
    pub(crate) fn observe(&mut self, _: &Conditions) {
        match self {
            Discipline::TailDrop(_) | Discipline::FairTailDrop(_) => {}
        }
    }

    pub(crate) fn control(&self) -> Control {
        each!(self, queue => queue.control())
    }

    /// Takes an item, and returns how many of its segments wait.
    pub(crate) fn enqueue<F>(&mut self, now: Instant, item: T, ledger: &mut Ledger<'_, F>) -> u32
    where
        F: FnMut(T, DropReason),
    {
        each!(self, queue => queue.enqueue(now, item, ledger))
    }

    /// The next item to send.
    pub(crate) fn dequeue<F>(&mut self, _now: Instant, _ledger: &mut Ledger<'_, F>) -> Option<Stamped<T>>
    where
        F: FnMut(T, DropReason),
    {
        each!(self, queue => queue.pop())
    }

    /// Takes out any item, past all rules; `None` once it is empty.
    pub(crate) fn pop(&mut self) -> Option<Stamped<T>> {
        each!(self, queue => queue.pop())
    }
}
