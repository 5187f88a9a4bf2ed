//! One direction of a link: queue, then serialiser, then propagation, then impairments.

mod impairment;
pub mod mobile;
mod pipe;
mod serialiser;

use std::time::Duration;

use trunkline_queue::{DropReason, Limits, Queue, Settings as QueueSettings, Stats};
use trunkline_units::{Instant, Rate, Rng};

use crate::agenda::{Agenda, Kind};
use crate::capture::{Capture, CapturePoint};
use crate::{NodeId, Packet};
use impairment::Impairer;
use pipe::Pipe;
use serialiser::Serialiser;

pub use impairment::{Impairments, Jitter, Loss};

/// A link of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u32);

/// A change of a link while the network runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LinkChange {
    /// Of its rate, for packets that are sent from then on.
    Rate(Rate),
    /// Of its delay; packets under way keep theirs, and none overtakes another by it.
    Delay(Duration),
    /// Of its impairments. Whether packets may overtake each other does not change.
    Impairments(Impairments),
}

/// The settings of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSettings {
    /// Rate.
    pub rate: Rate,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Where packets wait for it.
    pub queue: QueueSettings,
    /// The longest packet it takes, bytes; longer ones are fragmented.
    pub mtu: u32,
    /// Impairments.
    pub impairments: Impairments,
    /// The time that a radio link adds to a packet.
    pub mobile: Option<mobile::Mobile>,
    /// Changes, in order of time, from the start of the run.
    pub changes: Vec<(Duration, LinkChange)>,
    /// The period after which the changes begin again.
    pub repeat: Option<Duration>,
}

impl LinkSettings {
    /// A link of this rate and one-way delay, with a tail-drop queue of 1000 packets and an MTU of 1500 bytes.
    pub fn new(rate: Rate, delay: Duration) -> Self {
        LinkSettings {
            rate,
            delay,
            queue: QueueSettings::TailDrop(Limits::default()),
            mtu: 1500,
            impairments: Impairments::default(),
            mobile: None,
            changes: Vec::new(),
            repeat: None,
        }
    }

    /// The same with another queue.
    #[must_use]
    pub fn queue(mut self, queue: QueueSettings) -> Self {
        self.queue = queue;
        self
    }

    /// The same with packets lost.
    #[must_use]
    pub fn loss(mut self, loss: Loss) -> Self {
        self.impairments.loss = loss;
        self
    }
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
#[derive(Debug)]
pub struct Link {
    pub(crate) to: NodeId,
    pub(crate) from: NodeId,
    queue: Queue<Packet>,
    serialiser: Serialiser,
    delay: Duration,
    mtu: u32,
    free_at: Instant,
    pipe: Pipe,
    impairer: Option<Box<Impairer>>,
    changes: Vec<(Duration, LinkChange)>,
    repeat: Option<Duration>,
    /// The next change and the start of its round.
    next_change: (usize, Instant),
    captures: Vec<Capture>,
    pub(crate) stats: LinkStats,
}

impl Link {
    pub(crate) fn new((from, to): (NodeId, NodeId), settings: &LinkSettings, seed: u64) -> Self {
        let impaired = settings.impairments != Impairments::default()
            || settings.changes.iter().any(|(_, change)| matches!(change, LinkChange::Impairments(_)));
        let pipe = if settings.impairments.jitter.reorders() {
            Pipe::AnyOrder(std::collections::BinaryHeap::new(), 0)
        } else {
            Pipe::InOrder(std::collections::VecDeque::new())
        };
        Link {
            to,
            from,
            queue: Queue::new(settings.queue, seed),
            serialiser: Serialiser::new(settings.rate, settings.mobile.as_ref(), Rng::new(seed, "mobile")),
            delay: settings.delay,
            mtu: settings.mtu,
            free_at: Instant::ZERO,
            pipe,
            impairer: impaired.then(|| Box::new(Impairer::new(settings.impairments, seed))),
            changes: settings.changes.clone(),
            repeat: settings.repeat,
            next_change: (0, Instant::ZERO),
            captures: Vec::new(),
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

    /// Time it has spent sending, with all of the packet that it sends now.
    pub const fn busy(&self) -> Duration {
        self.serialiser.busy()
    }

    /// Time it has spent sending up to `now`, which is no earlier than the last event.
    pub fn busy_time(&self, now: Instant) -> Duration {
        self.busy().saturating_sub(self.free_at.saturating_since(now))
    }

    /// Packets between its serialiser and its far end.
    pub fn in_flight(&self) -> usize {
        self.pipe.len()
    }

    /// Enqueues a packet.
    #[inline]
    pub(crate) fn offer(&mut self, now: Instant, id: LinkId, packet: Packet, agenda: &mut Agenda) {
        // What is dropped is in the queue's books.
        self.queue.enqueue(now, packet, &mut |_, _: DropReason| {});
        if self.free_at <= now {
            self.begin(now, id, agenda);
        } else {
            agenda.set(Kind::Free, id.0, self.free_at);
        }
    }

    /// Begins to send the next packet, if there is one.
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant, id: LinkId, agenda: &mut Agenda) {
        // At a rate of zero packets wait for the rate to change.
        if self.free_at > now || self.serialiser.rate().bits_per_second() == 0 {
            return;
        }
        let Some(next) = self.queue.dequeue(now, &mut |_, _: DropReason| {}) else { return };
        if !self.captures.is_empty() {
            self.record(now, CapturePoint::Sent, &next.item);
        }
        let sending = self.serialiser.send(now, next.item.length());
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
            agenda.set(Kind::Arrival, id.0, at);
        }
        if !self.queue.is_empty() {
            agenda.set(Kind::Free, id.0, self.free_at);
        }
    }

    /// The packet that is at the far end now, unless it was lost on the way, and whether it arrives twice.
    #[inline]
    pub(crate) fn arrive(&mut self, now: Instant, id: LinkId, agenda: &mut Agenda) -> Option<(Packet, bool)> {
        let mut packet = self.pipe.pop()?;
        if let Some(at) = self.pipe.next() {
            agenda.set(Kind::Arrival, id.0, at);
        }
        let mut duplicated = false;
        if let Some(impairer) = &mut self.impairer {
            let fate = impairer.fate();
            if fate.lost {
                self.stats.lost += 1;
                return None;
            }
            if fate.corrupted {
                self.stats.corrupted += 1;
                packet.corrupt();
            }
            duplicated = fate.duplicated;
            self.stats.duplicated += u64::from(duplicated);
        }
        self.stats.delivered += 1;
        self.stats.delivered_bytes += u64::from(packet.length());
        if !self.captures.is_empty() {
            self.record(now, CapturePoint::Received, &packet);
        }
        Some((packet, duplicated))
    }

    #[cold]
    fn record(&mut self, now: Instant, point: CapturePoint, packet: &Packet) {
        for capture in self.captures.iter_mut().filter(|capture| capture.point == point) {
            capture.take(now, packet);
        }
    }

    pub(crate) fn forget_peaks(&mut self) {
        self.queue.forget_peaks();
    }

    pub(crate) fn capture(&mut self, capture: Capture) {
        self.captures.push(capture);
    }

    /// Ends its captures.
    pub(crate) fn finish_captures(&mut self) -> std::io::Result<()> {
        std::mem::take(&mut self.captures).into_iter().try_for_each(Capture::finish)
    }

    /// Makes the change that is due, and asks to be called for the next.
    pub(crate) fn change(&mut self, now: Instant, id: LinkId, agenda: &mut Agenda) {
        let (at, round) = self.next_change;
        match self.changes.get(at).map(|(_, change)| *change) {
            Some(LinkChange::Rate(rate)) => {
                self.serialiser.set_rate(rate);
                self.begin(now, id, agenda);
            }
            Some(LinkChange::Delay(delay)) => self.delay = delay,
            Some(LinkChange::Impairments(settings)) => {
                if let Some(impairer) = &mut self.impairer {
                    impairer.set(settings);
                }
            }
            None => {}
        }
        self.next_change = (at + 1, round);
        self.await_change(now, id, agenda);
    }

    /// Asks to be called for the next change: at once if its time has passed, as that of one of a link which is added late.
    pub(crate) fn await_change(&mut self, now: Instant, id: LinkId, agenda: &mut Agenda) {
        if let (Some(repeat), true) = (self.repeat, self.next_change.0 >= self.changes.len()) {
            if repeat.is_zero() || self.changes.is_empty() {
                return;
            }
            self.next_change = (0, self.next_change.1 + repeat);
        }
        if let Some((after, _)) = self.changes.get(self.next_change.0) {
            agenda.set(Kind::Change, id.0, (self.next_change.1 + *after).max(now));
        }
    }
}
