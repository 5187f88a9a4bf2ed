//! The list of disciplines. One is its own file, with its settings, [`Rules`] and [`Describe`], and one entry here.

use trunkline_units::Instant;

use crate::custom::Custom;
use crate::fifo::{Fifo, Held, Stamped};
use crate::ledger::Ledger;
use crate::parameter::{Conflict, Describe, Description};
use crate::{
    CoDelSettings, Conditions, Control, Discard, DropReason, FqCoDelSettings, FredSettings, Item, Limits,
    PieSettings, RedSettings, TrunkSettings,
};

/// A discipline decides which items are kept and which is next. [`Queue`](crate::Queue) counts.
pub(crate) trait Rules<T: Item>: Sized {
    /// Its parameters.
    type Settings: Copy;

    /// An empty queue. What is random in it follows from `seed`.
    fn new(settings: Self::Settings, seed: u64) -> Self;

    /// Applies new settings and keeps the backlog; `false` if it cannot.
    fn set(&mut self, settings: Self::Settings) -> bool;

    /// The backlog, as its own storage counts it.
    fn held(&self) -> Held;

    /// Its present control values.
    fn control(&self) -> Control;

    /// Takes an item, and returns how many of its segments wait.
    fn enqueue<F: Discard<T>>(&mut self, now: Instant, item: T, ledger: &mut Ledger<'_, F>) -> u32;

    /// The next item to send.
    fn dequeue<F: Discard<T>>(&mut self, _: Instant, _: &mut Ledger<'_, F>) -> Option<Stamped<T>> {
        self.pop()
    }

    /// Removes any item without applying the rules; `None` if the queue is empty.
    fn pop(&mut self) -> Option<Stamped<T>>;

    /// Its items, where all are in one line.
    fn fifo(&mut self) -> Option<&mut Fifo<T>>;

    /// Takes new values of the path behind the queue.
    fn observe(&mut self, _: &Conditions) {}

    /// Removes the state of flows without a backlog.
    fn forget_flows(&mut self) {}

    /// Drops items that came before `oldest`, and gives back memory that the rest does not need.
    fn expire<F: Discard<T>>(&mut self, oldest: Instant, ledger: &mut Ledger<'_, F>) {
        while self.fifo().is_some_and(|fifo| fifo.front().is_some_and(|front| front.since < oldest)) {
            let Some(stamped) = self.pop() else { break };
            ledger.drop(stamped.item, DropReason::Expired);
        }
        self.forget_flows();
        if let Some(fifo) = self.fifo() {
            fifo.give_back();
        }
    }

    /// Removes an item of the flow with the largest backlog, or the first item if the discipline does not separate flows.
    fn shed(&mut self) -> Option<Stamped<T>> {
        self.pop()
    }
}

macro_rules! disciplines {
    ($($(#[$doc:meta])* $name:ident($settings:ty) in $module:ident;)*) => {
        /// The discipline of a queue with its parameters: plain values, as a file gives them.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub enum Settings {
            $($(#[$doc])* $name($settings),)*
        }

        impl Settings {
            /// All disciplines.
            pub const DISCIPLINES: &'static [&'static Description] =
                &[$(<crate::$module::$name<()> as Describe>::DESCRIPTION),*];

            /// The description of the discipline.
            pub const fn description(&self) -> &'static Description {
                match self {
                    $(Settings::$name(_) => <crate::$module::$name<()> as Describe>::DESCRIPTION,)*
                }
            }

            /// The limits, which every discipline has.
            pub fn limits(&self) -> Limits {
                let mut settings = *self;
                *settings.limits_mut()
            }

            /// The same with other limits.
            #[must_use]
            pub fn with_limits(mut self, limits: Limits) -> Self {
                *self.limits_mut() = limits;
                self
            }

            fn limits_mut(&mut self) -> &mut Limits {
                match self {
                    $(Settings::$name(settings) => crate::$module::$name::<()>::limits_mut(settings),)*
                }
            }

            /// Values that contradict each other.
            pub fn conflict(&self) -> Option<Conflict> {
                match self {
                    $(Settings::$name(settings) => crate::$module::$name::<()>::conflict(settings),)*
                }
            }
        }

        /// The disciplines: a closed set with static dispatch, one `match` per operation.
        #[derive(Debug)]
        pub(crate) enum Discipline<T> {
            $($name(crate::$module::$name<T>),)*
            /// Rules that are not of this crate; no settings name them.
            Custom(Box<Custom<T>>),
        }

        impl<T: Item> Discipline<T> {
            pub(crate) fn new(settings: Settings, seed: u64) -> Self {
                match settings {
                    $(Settings::$name(settings) => Discipline::$name(Rules::new(settings, seed)),)*
                }
            }

            /// Takes new settings and keeps what waits; `false` if they are another discipline's.
            pub(crate) fn set(&mut self, settings: Settings) -> bool {
                match (self, settings) {
                    $((Discipline::$name(queue), Settings::$name(settings)) => queue.set(settings),)*
                    _ => false,
                }
            }
        }

        macro_rules! each {
            ($discipline:expr, $inner:ident => $body:expr) => {
                match $discipline {
                    $(Discipline::$name($inner) => $body,)*
                    Discipline::Custom($inner) => $body,
                }
            };
        }
    };
}

disciplines! {
    /// First in, first out; what does not fit is dropped.
    TailDrop(Limits) in tail_drop;
    /// The same, with a bound on each flow.
    FairTailDrop(Limits) in fair_tail_drop;
    /// Random early detection.
    Red(RedSettings) in red;
    /// Flow random early drop.
    Fred(FredSettings) in fred;
    /// Controlled delay (RFC 8289).
    CoDel(CoDelSettings) in codel;
    /// Flow queueing with controlled delay (RFC 8290).
    FqCoDel(FqCoDelSettings) in fq_codel;
    /// Proportional integral controller enhanced (RFC 8033).
    Pie(PieSettings) in pie;
    /// P1, P2 and P3 of Kung and Wang.
    Trunk(TrunkSettings) in trunk;
}

impl Default for Settings {
    fn default() -> Self {
        Settings::TailDrop(Limits::default())
    }
}

impl<T: Item> Discipline<T> {
    pub(crate) fn held(&self) -> Held {
        each!(self, queue => queue.held())
    }

    pub(crate) fn observe(&mut self, conditions: &Conditions) {
        each!(self, queue => queue.observe(conditions));
    }

    pub(crate) fn control(&self) -> Control {
        each!(self, queue => queue.control())
    }

    #[inline]
    pub(crate) fn enqueue<F>(&mut self, now: Instant, item: T, ledger: &mut Ledger<'_, F>) -> u32
    where
        F: Discard<T>,
    {
        each!(self, queue => queue.enqueue(now, item, ledger))
    }

    #[inline]
    pub(crate) fn dequeue<F>(&mut self, now: Instant, ledger: &mut Ledger<'_, F>) -> Option<Stamped<T>>
    where
        F: Discard<T>,
    {
        each!(self, queue => queue.dequeue(now, ledger))
    }

    pub(crate) fn expire<F>(&mut self, oldest: Instant, ledger: &mut Ledger<'_, F>)
    where
        F: Discard<T>,
    {
        each!(self, queue => queue.expire(oldest, ledger));
    }

    pub(crate) fn shed(&mut self) -> Option<Stamped<T>> {
        each!(self, queue => queue.shed())
    }

    pub(crate) fn pop(&mut self) -> Option<Stamped<T>> {
        each!(self, queue => queue.pop())
    }
}
