//! The state machine: queue, then serialiser, then propagation, then impairments.

use std::time::Duration;

use trunkline_queue::{CustomDiscipline, DropReason, Item, Queue, Settings as QueueSettings, Stats};
use trunkline_units::{Instant, Rate, Rng};

use crate::impairment::Impairer;
use crate::mobile::Mobile;
use crate::pipe::Pipe;
use crate::schedule::Schedule;
use crate::serialiser::Serialiser;
use crate::{Deliveries, Impairments, LinkChange, LinkSettings};

/// A packet that a link carries.
pub trait Payload: Item {
    /// Damages it, so that its receiver drops it. `random` chooses where.
    fn corrupt(&mut self, random: &mut Rng);
}

/// What a link waits for, in the order in which its owner calls it at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// The next packet is at its far end: the owner calls [`Link::arrive`].
    Arrival,
    /// It has sent a packet and may begin with the next: the owner calls [`Link::begin`].
    Free,
    /// Its rate, delay or impairments change: the owner calls [`Link::change`].
    Change,
}

/// Who calls a link when it is time to.
pub trait Owner<T> {
    /// Sets a timer, and forgets the time it was set to before. It runs out once.
    fn set(&mut self, timer: Timer, at: Instant);

    /// Looks at a packet that begins to be sent, and how long it waited.
    #[inline]
    fn sent(&mut self, _now: Instant, _packet: &T, _waited: Duration) {}

    /// Looks at a packet that the queue drops, whole.
    #[inline]
    fn dropped(&mut self, _now: Instant, _packet: &T, _reason: DropReason) {}

    /// Looks at a packet that is lost on the way, when it would have arrived.
    #[inline]
    fn lost(&mut self, _packet: &T) {}
}

/// A packet at the far end of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival<T> {
    /// The packet.
    pub packet: T,
    /// Whether it arrives twice.
    pub duplicated: bool,
}

/// The counters of a link, without its queue's drops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets that arrived at its far end.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Lost on the way.
    pub lost: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Corrupted and delivered.
    pub corrupted: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Refused: longer than the MTU, and not to be fragmented.
    pub too_big: u64,
    /// Packets that were cut into fragments for it.
    pub fragmented: u64,
}

/// One direction of a link.
///
/// The owner calls [`Link::start`] once, [`Link::offer`] for each packet that is to be sent, and the method of each [`Timer`] that
/// runs out, in order of time, and at one instant in the order of the timers. No call of one is later than its time: a
/// [`PolledLink`](crate::PolledLink) sees to that for an owner who is late.
#[derive(Debug)]
pub struct Link<T> {
    queue: Queue<T>,
    serialiser: Serialiser,
    delay: Duration,
    mtu: u32,
    free_at: Instant,
    pipe: Pipe<T>,
    impairer: Option<Box<Impairer>>,
    schedule: Schedule,
    seed: u64,
    stats: LinkStats,
}

impl<T: Payload> Link<T> {
    /// An idle link. What is random in it follows from `seed`. The settings must have passed [`LinkSettings::check`].
    pub fn new(settings: &LinkSettings, seed: u64) -> Self {
        let impaired = settings.impairments != Impairments::default()
            || settings.changes.iter().any(|(_, change)| matches!(change, LinkChange::Impairments(_)));
        let mut serialiser =
            Serialiser::new(settings.rate, settings.mobile.as_ref(), Rng::new(seed, "mobile"));
        serialiser.set_deliveries(settings.deliveries.clone(), Instant::ZERO);
        Link {
            queue: Queue::new(settings.queue, seed),
            serialiser,
            delay: settings.delay,
            mtu: settings.mtu,
            free_at: Instant::ZERO,
            pipe: Pipe::new(settings.impairments.jitter.reorders()),
            impairer: impaired.then(|| Box::new(Impairer::new(settings.impairments, seed))),
            schedule: Schedule::new(settings.changes.clone(), settings.repeat, Instant::ZERO),
            seed,
            stats: LinkStats::default(),
        }
    }

    /// The counters of its queue.
    pub const fn queue(&self) -> &Stats {
        self.queue.stats()
    }

    /// Its counters.
    pub const fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Its rate now.
    pub const fn rate(&self) -> Rate {
        self.serialiser.rate()
    }

    /// The longest packet it takes, bytes.
    pub const fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Its one-way delay now.
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// Time it has spent sending, with all of the packet that it sends now. Of a link with deliveries it is the time that what it has sent
    /// takes at their mean rate.
    pub const fn busy(&self) -> Duration {
        self.serialiser.busy()
    }

    /// Time it has spent sending up to `now`, which is no earlier than the last event.
    pub fn busy_time(&self, now: Instant) -> Duration {
        let rest =
            if self.serialiser.has_moments() { Duration::ZERO } else { self.free_at.saturating_since(now) };
        self.busy().saturating_sub(rest)
    }

    /// The packet that arrives behind `ahead` others, if there is one and packets keep their order.
    #[inline]
    pub fn upcoming(&self, ahead: usize) -> Option<&T> {
        self.pipe.upcoming(ahead)
    }

    /// Packets that it has begun to send, with the times at which they arrive, in any order.
    pub fn packets(&self) -> impl Iterator<Item = (Instant, &T)> {
        self.pipe.all()
    }

    /// Packets between its serialiser and its far end.
    pub fn in_flight(&self) -> usize {
        self.pipe.len()
    }

    /// Counts the peaks of its queue from now on.
    pub fn reset_peaks(&mut self) {
        self.queue.reset_peaks();
    }

    /// Counts a packet that its owner refused, for it is longer than the MTU.
    pub fn count_too_big(&mut self) {
        self.stats.too_big += 1;
    }

    /// Counts a packet that its owner cut into fragments.
    pub fn count_fragmented(&mut self) {
        self.stats.fragmented += 1;
    }

    /// Sets the timer for its first change, whose time counts from the origin of the owner's clock. A change whose time has
    /// passed, as of a link that is added late, is due at once.
    pub fn start(&mut self, now: Instant, owner: &mut impl Owner<T>) {
        if let Some(at) = self.schedule.due() {
            owner.set(Timer::Change, at.max(now));
        }
    }

    /// Enqueues a packet.
    #[inline]
    pub fn offer(&mut self, now: Instant, packet: T, owner: &mut impl Owner<T>) {
        self.queue.enqueue(now, packet, &mut |packet, reason| owner.dropped(now, &packet, reason));
        if self.free_at <= now {
            self.begin(now, owner);
        } else {
            owner.set(Timer::Free, self.free_at);
        }
    }

    /// Begins to send the next packet, if there is one and it is free.
    #[inline]
    pub fn begin(&mut self, now: Instant, owner: &mut impl Owner<T>) {
        // At a rate of zero packets wait for the rate to change.
        if self.free_at > now || self.serialiser.rate().bits_per_second() == 0 {
            return;
        }
        let dropped = &mut |packet, reason| owner.dropped(now, &packet, reason);
        let Some(next) = self.queue.dequeue(now, dropped) else { return };
        owner.sent(now, &next.item, next.sojourn);
        let sending = self.serialiser.send(now, next.item.bytes() as u32);
        self.free_at = now + sending.busy;
        let mut arrival = self.free_at + sending.late + self.delay;
        if let Some(impairer) = &mut self.impairer {
            arrival += impairer.delay();
        }
        let before = self.pipe.next();
        self.pipe.push(arrival, next.item);
        let head = self.pipe.next();
        if head != before
            && let Some(at) = head
        {
            owner.set(Timer::Arrival, at);
        }
        if !self.queue.is_empty() {
            owner.set(Timer::Free, self.free_at);
        }
    }

    /// The packet that is at the far end now, unless it was lost on the way.
    #[inline]
    pub fn arrive(&mut self, owner: &mut impl Owner<T>) -> Option<Arrival<T>> {
        let mut packet = self.pipe.pop(T::prefetch_place)?;
        if let Some(at) = self.pipe.next() {
            owner.set(Timer::Arrival, at);
        }
        let mut duplicated = false;
        if let Some(impairer) = &mut self.impairer {
            let fate = impairer.fate();
            if fate.lost {
                self.stats.lost += 1;
                self.stats.lost_bytes += packet.bytes() as u64;
                owner.lost(&packet);
                return None;
            }
            if fate.corrupted {
                self.stats.corrupted += 1;
                packet.corrupt(impairer.places());
            }
            duplicated = fate.duplicated;
            self.stats.duplicated += u64::from(duplicated);
        }
        self.stats.delivered += 1;
        self.stats.delivered_bytes += packet.bytes() as u64;
        Some(Arrival { packet, duplicated })
    }

    /// Makes the change that is due, and sets the timer for the next.
    pub fn change(&mut self, now: Instant, owner: &mut impl Owner<T>) {
        if let Some(change) = self.schedule.take() {
            self.apply(now, change, owner);
        }
        self.start(now, owner);
    }

    /// Makes a change now, beside those of its settings.
    #[cold]
    pub fn apply(&mut self, now: Instant, change: LinkChange, owner: &mut impl Owner<T>) {
        match change {
            LinkChange::Rate(rate) => self.set_rate(now, rate, owner),
            LinkChange::Delay(delay) => self.delay = delay,
            LinkChange::Impairments(settings) => match &mut self.impairer {
                Some(impairer) => impairer.set(settings),
                None => self.impairer = Some(Box::new(Impairer::new(settings, self.seed))),
            },
        }
    }

    /// Changes the rate, for packets that are sent from now on.
    pub fn set_rate(&mut self, now: Instant, rate: Rate, owner: &mut impl Owner<T>) {
        self.serialiser.set_rate(rate);
        self.begin(now, owner);
    }

    /// Sends at these moments from now on, which count from `start`; `None`: at its rate.
    pub fn set_deliveries(
        &mut self,
        (now, start): (Instant, Instant),
        deliveries: Option<Deliveries>,
        owner: &mut impl Owner<T>,
    ) {
        self.serialiser.set_deliveries(deliveries, start);
        self.begin(now, owner);
    }

    /// Changes the delay; packets under way keep theirs.
    pub fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }

    /// Changes the longest packet that it takes, bytes.
    pub fn set_mtu(&mut self, mtu: u32) {
        self.mtu = mtu;
    }

    /// Changes the impairments, and with them whether packets may overtake each other.
    pub fn set_impairments(&mut self, settings: Impairments) {
        self.pipe.set_reordering(settings.jitter.reorders());
        match &mut self.impairer {
            Some(impairer) => impairer.set(settings),
            None => self.impairer = Some(Box::new(Impairer::new(settings, self.seed))),
        }
    }

    /// Changes the settings of the queue. What waits is dropped if its discipline becomes another one.
    pub fn set_queue(&mut self, now: Instant, settings: QueueSettings) {
        self.queue.reconfigure(now, settings, &mut |_, _: DropReason| {});
    }

    /// Replaces the discipline of the queue, in which nothing waits yet, by one that is not of crate `queue`.
    ///
    /// # Panics
    /// If something waits.
    #[cold]
    pub fn set_custom_queue(&mut self, rules: Box<dyn CustomDiscipline>) {
        self.queue.set_custom(rules);
    }

    /// Changes what a radio link adds; packets under way keep their times.
    pub fn set_mobile(&mut self, mobile: Option<&Mobile>) {
        self.serialiser.set_mobile(mobile, Rng::new(self.seed, "mobile"));
    }

    /// Replaces the changes that are to come by others, whose times count from `start`, as do those of its deliveries. Those whose time has
    /// passed are due at once.
    pub fn set_changes(
        &mut self,
        (now, start): (Instant, Instant),
        (changes, repeat): (Vec<(Duration, LinkChange)>, Option<Duration>),
        owner: &mut impl Owner<T>,
    ) {
        if self.impairer.is_none()
            && changes.iter().any(|(_, change)| matches!(change, LinkChange::Impairments(_)))
        {
            self.set_impairments(Impairments::default());
        }
        self.schedule = Schedule::new(changes, repeat, start);
        self.serialiser.restart(start);
        owner.set(Timer::Change, self.schedule.due().map_or(Instant::FAR_FUTURE, |at| at.max(now)));
    }

    /// Loses everything that waits and that is on its way; how many packets on their way that was. Those that waited are
    /// in the queue's counters, as [`DropReason::Flushed`].
    pub fn cut(&mut self, now: Instant) -> usize {
        self.queue.flush(now, &mut |_, _: DropReason| {});
        self.pipe.clear()
    }
}
