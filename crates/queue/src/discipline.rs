use trunkline_units::Instant;

use crate::codel::CoDel;
use crate::fair_tail_drop::FairTailDrop;
use crate::fifo::{Fifo, Held, Stamped};
use crate::fq_codel::FqCoDel;
use crate::fred::Fred;
use crate::ledger::Ledger;
use crate::pie::Pie;
use crate::red::Red;
use crate::tail_drop::TailDrop;
use crate::trunk::Trunk;
use crate::{Conditions, Control, Discard, DropReason, Item, Settings};

/// The disciplines: a closed set with static dispatch, one `match` per operation.
#[derive(Debug)]
pub(crate) enum Discipline<T> {
    TailDrop(TailDrop<T>),
    FairTailDrop(FairTailDrop<T>),
    Red(Red<T>),
    Fred(Fred<T>),
    CoDel(CoDel<T>),
    FqCoDel(FqCoDel<T>),
    Pie(Pie<T>),
    Trunk(Trunk<T>),
}

macro_rules! each {
    ($discipline:expr, $inner:ident => $body:expr) => {
        match $discipline {
            Discipline::TailDrop($inner) => $body,
            Discipline::FairTailDrop($inner) => $body,
            Discipline::Red($inner) => $body,
            Discipline::Fred($inner) => $body,
            Discipline::CoDel($inner) => $body,
            Discipline::FqCoDel($inner) => $body,
            Discipline::Pie($inner) => $body,
            Discipline::Trunk($inner) => $body,
        }
    };
}

impl<T: Item> Discipline<T> {
    pub(crate) fn new(settings: Settings, seed: u64) -> Self {
        match settings {
            Settings::TailDrop(limits) => Discipline::TailDrop(TailDrop::new(limits)),
            Settings::FairTailDrop(limits) => Discipline::FairTailDrop(FairTailDrop::new(limits)),
            Settings::Red(red) => Discipline::Red(Red::new(red, seed)),
            Settings::Fred(fred) => Discipline::Fred(Fred::new(fred, seed)),
            Settings::CoDel(codel) => Discipline::CoDel(CoDel::new(codel)),
            Settings::FqCoDel(fq) => Discipline::FqCoDel(FqCoDel::new(fq)),
            Settings::Pie(pie) => Discipline::Pie(Pie::new(pie, seed)),
            Settings::Trunk(trunk) => Discipline::Trunk(Trunk::new(trunk, seed)),
        }
    }

    /// Takes new settings and keeps what waits; `false` if they are another discipline's.
    pub(crate) fn set(&mut self, settings: Settings) -> bool {
        match (self, settings) {
            (Discipline::TailDrop(queue), Settings::TailDrop(limits)) => queue.set(limits),
            (Discipline::FairTailDrop(queue), Settings::FairTailDrop(limits)) => queue.set(limits),
            (Discipline::Red(queue), Settings::Red(red)) => queue.set(red),
            (Discipline::Fred(queue), Settings::Fred(fred)) => queue.set(fred),
            (Discipline::CoDel(queue), Settings::CoDel(codel)) => queue.set(codel),
            (Discipline::FqCoDel(queue), Settings::FqCoDel(fq)) => return queue.set(fq),
            (Discipline::Pie(queue), Settings::Pie(pie)) => queue.set(pie),
            (Discipline::Trunk(queue), Settings::Trunk(trunk)) => queue.set(trunk),
            _ => return false,
        }
        true
    }

    /// How much waits, as the discipline's own storage counts it.
    pub(crate) fn held(&self) -> Held {
        each!(self, queue => queue.held())
    }

    /// Takes note of the path behind the queue.
    pub(crate) fn observe(&mut self, conditions: &Conditions) {
        if let Discipline::Trunk(queue) = self {
            queue.observe(conditions);
        }
    }

    pub(crate) fn control(&self) -> Control {
        each!(self, queue => queue.control())
    }

    /// Takes an item, and returns how many of its segments wait.
    pub(crate) fn enqueue<F>(&mut self, now: Instant, item: T, ledger: &mut Ledger<'_, F>) -> u32
    where
        F: Discard<T>,
    {
        each!(self, queue => queue.enqueue(now, item, ledger))
    }

    /// The next item to send.
    pub(crate) fn dequeue<F>(&mut self, now: Instant, ledger: &mut Ledger<'_, F>) -> Option<Stamped<T>>
    where
        F: Discard<T>,
    {
        match self {
            Discipline::TailDrop(queue) => queue.pop(),
            Discipline::FairTailDrop(queue) => queue.pop(),
            Discipline::Red(queue) => queue.dequeue(now),
            Discipline::Fred(queue) => queue.dequeue(now),
            Discipline::CoDel(queue) => queue.dequeue(now, ledger),
            Discipline::FqCoDel(queue) => queue.dequeue(now, ledger),
            Discipline::Pie(queue) => queue.dequeue(now),
            Discipline::Trunk(queue) => queue.pop(),
        }
    }

    /// Drops what came before `oldest`, and gives back memory that is not needed for what is left.
    pub(crate) fn expire<F>(&mut self, oldest: Instant, ledger: &mut Ledger<'_, F>)
    where
        F: Discard<T>,
    {
        if let Discipline::FqCoDel(queue) = self {
            return queue.expire(oldest, ledger);
        }
        while self.fifo().is_some_and(|fifo| fifo.front().is_some_and(|front| front.since < oldest)) {
            let Some(stamped) = self.pop() else { break };
            ledger.drop(stamped.item, DropReason::Expired);
        }
        if let Discipline::Trunk(queue) = self {
            queue.forget_flows();
        }
        if let Some(fifo) = self.fifo() {
            fifo.give_back();
        }
    }

    /// Takes out an item of the flow that has most waiting, or the first where flows are not kept apart.
    pub(crate) fn shed(&mut self) -> Option<Stamped<T>> {
        if let Discipline::FqCoDel(queue) = self { queue.pop_fattest() } else { self.pop() }
    }

    /// Its items, where all are in one line.
    fn fifo(&mut self) -> Option<&mut Fifo<T>> {
        Some(match self {
            Discipline::TailDrop(queue) => &mut queue.fifo,
            Discipline::FairTailDrop(queue) => &mut queue.fifo,
            Discipline::Red(queue) => &mut queue.fifo,
            Discipline::Fred(queue) => &mut queue.fifo,
            Discipline::CoDel(queue) => &mut queue.fifo,
            Discipline::Pie(queue) => &mut queue.fifo,
            Discipline::Trunk(queue) => &mut queue.fifo,
            Discipline::FqCoDel(_) => return None,
        })
    }

    /// Takes out any item, past all rules; `None` once it is empty.
    pub(crate) fn pop(&mut self) -> Option<Stamped<T>> {
        each!(self, queue => queue.pop())
    }
}
