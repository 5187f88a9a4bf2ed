use trunkline_packet::Headers;
use trunkline_queue::{DropReason, Item, Queue, Stats};
use trunkline_units::Instant;

use crate::{ClassId, ClassSettings, Classifier, LaneSnapshot};

/// A packet in the owner's buffers, as the core handles it.
pub trait Packet: Item {
    /// Keeps the first `segments` segments (at least one, fewer than [`Item::segments`]) of a super-packet
    /// with these headers.
    fn trim(&mut self, headers: &Headers, segments: u32);
}

/// What became of a packet that was offered to a [`Transmitter`].
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Offered<P> {
    /// The class it is in.
    pub class: ClassId,
    /// The packet, if nothing of it was queued, with the reason.
    pub dropped: Option<(P, DropReason)>,
}

/// A packet in an edge queue, with what is needed to trim it there.
struct Waiting<P> {
    packet: P,
    headers: Headers,
}

impl<P: Packet> Item for Waiting<P> {
    fn bytes(&self) -> usize {
        self.packet.bytes()
    }

    fn segments(&self) -> u32 {
        self.packet.segments()
    }

    fn flow(&self) -> u64 {
        self.packet.flow()
    }

    fn trim(&mut self, keep: u32) {
        Packet::trim(&mut self.packet, &self.headers, keep);
    }
}

struct Class<P> {
    settings: ClassSettings,
    queue: Queue<Waiting<P>>,
}

/// The sending half of a trunk: classifies packets and keeps each class in an edge queue until its lane has
/// room.
///
/// Polling order: after any number of [`handle_packet`](Transmitter::handle_packet) calls, and whenever a lane
/// reports room, the owner calls [`poll_transmit`](Transmitter::poll_transmit) for that lane's class until it
/// gives `None`. The order among classes is the owner's: each has a lane of its own. There is no timer.
pub struct Transmitter<P> {
    classifier: Classifier,
    classes: Vec<Class<P>>,
}

impl<P: Packet> Transmitter<P> {
    /// A transmitter for these classes; there must be one at least, 256 at most.
    pub fn new(classes: &[ClassSettings]) -> Self {
        assert!((1..=256).contains(&classes.len()), "a trunk has 1 to 256 classes, not {}", classes.len());
        Transmitter {
            classifier: Classifier::new(classes),
            classes: classes.iter().map(Class::new).collect(),
        }
    }

    /// The classes, in the order of their ids.
    pub fn classes(&self) -> impl Iterator<Item = (ClassId, &ClassSettings, &Stats)> {
        self.classes.iter().zip(0..).map(|(c, id)| (ClassId(id), &c.settings, c.queue.stats()))
    }

    /// Whether packets of `class` wait.
    #[inline]
    pub fn has_backlog(&self, class: ClassId) -> bool {
        !self.classes[class.index()].queue.is_empty()
    }

    /// Takes a packet. What does not fit of a super-packet is cut off by whole segments, so that a drop costs
    /// a flow one packet and not forty.
    #[inline]
    pub fn handle_packet(&mut self, now: Instant, headers: &Headers, packet: P) -> Offered<P> {
        let class = self.classifier.classify(headers);
        let mut dropped = None;
        let waiting = Waiting { packet, headers: *headers };
        self.classes[class.index()]
            .queue
            .enqueue(now, waiting, &mut |refused, reason| dropped = Some((refused.packet, reason)));
        Offered { class, dropped }
    }

    /// The next packet of `class` for a lane that has room, which it takes from `lane.room`. A packet larger
    /// than the room passes if there is any, since a lane takes part of a packet too.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant, class: ClassId, lane: &mut LaneSnapshot) -> Option<P> {
        if lane.room == 0 {
            return None;
        }
        let packet = self.classes[class.index()].queue.dequeue(now, &mut |_, _| ())?.item.packet;
        lane.room = lane.room.saturating_sub(packet.bytes());
        Some(packet)
    }

    /// Takes on new classes. A class that was there by name keeps what waits in it and its counts, as long as its
    /// discipline stays; packets of classes that are gone are dropped and handed to `discard`.
    pub fn reconfigure(&mut self, classes: &[ClassSettings], mut discard: impl FnMut(P)) {
        assert!((1..=256).contains(&classes.len()), "a trunk has 1 to 256 classes, not {}", classes.len());
        let mut old = std::mem::take(&mut self.classes);
        for settings in classes {
            let class = match old.iter().position(|c| c.settings.name == settings.name) {
                Some(index) => {
                    let mut class = old.swap_remove(index);
                    class.queue.reconfigure(settings.queue, &mut |gone, _| discard(gone.packet));
                    class.settings = settings.clone();
                    class
                }
                None => Class::new(settings),
            };
            self.classes.push(class);
        }
        self.classifier = Classifier::new(classes);
        for class in &mut old {
            class.queue.flush(&mut |gone, _| discard(gone.packet));
        }
    }

    /// Drops everything that waits, handing each packet to `discard`.
    pub fn flush(&mut self, mut discard: impl FnMut(P)) {
        for class in &mut self.classes {
            class.queue.flush(&mut |gone, _| discard(gone.packet));
        }
    }
}

impl<P: Packet> Class<P> {
    fn new(settings: &ClassSettings) -> Self {
        Class { settings: settings.clone(), queue: Queue::new(settings.queue, 0) }
    }
}
