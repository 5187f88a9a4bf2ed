//! One direction: queue, serialiser, impairments, pipe.

use std::time::Duration;

use trunkline_queue::{Item, Queue, Settings as QueueSettings};
use trunkline_units::{Instant, Rate, Rng};

use super::{Fate, Impairments, Packet, Pipe, Serialiser};

/// The largest number of bytes in flight at once: a bound on memory for links without a rate.
const FLYING_LIMIT_BYTES: u64 = 512 << 20;

/// The parameters of one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DirectionSettings {
    /// Bits per second on the wire, overhead included; `None` is unlimited, zero holds everything back.
    pub rate: Option<Rate>,
    /// Propagation delay.
    pub delay: Duration,
    /// The queue in front of the transmitter. Bytes are counted with the overhead.
    pub queue: QueueSettings,
    /// Probability that a packet is lost on the wire.
    pub loss: f64,
    /// Probability that a packet arrives with one bit inverted.
    pub corruption: f64,
}

impl Default for DirectionSettings {
    /// Unlimited, without delay, perfect.
    fn default() -> Self {
        Self {
            rate: None,
            delay: Duration::ZERO,
            queue: QueueSettings::default(),
            loss: 0.0,
            corruption: 0.0,
        }
    }
}

/// Packets that did not arrive, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops {
    /// The queue discipline chose to.
    pub queue: u64,
    /// Lost on the wire.
    pub loss: u64,
    /// Longer than the MTU.
    pub too_big: u64,
    /// The link was cut while they waited, were on their way, or came.
    pub down: u64,
    /// More was on its way than memory is set aside for.
    pub wire_full: u64,
    /// The device at the far end did not take them.
    pub refused: u64,
}

impl Drops {
    /// For whatever reason.
    pub fn total(self) -> u64 {
        self.queue + self.loss + self.too_big + self.down + self.wire_full + self.refused
    }
}

/// What one direction has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came.
    pub packets_in: u64,
    /// Their bytes on the wire.
    pub bytes_in: u64,
    /// Packets that arrived.
    pub packets_out: u64,
    /// Their bytes on the wire.
    pub bytes_out: u64,
    /// Packets of those with an inverted bit.
    pub corrupted: u64,
    /// Packets that did not arrive.
    pub dropped: Drops,
    /// Packets in the queue.
    pub backlog_packets: u64,
    /// Bytes in the queue.
    pub backlog_bytes: u64,
    /// The peak of the queue, bytes.
    pub backlog_peak_bytes: u64,
    /// Packets being sent or on their way.
    pub in_flight: u64,
    /// By how much packets arrived after their time, all together.
    pub late_total: Duration,
    /// The worst of that.
    pub late_peak: Duration,
}

/// One direction of a link.
///
/// Call [`Path::arrive`] for each packet that comes; then, and whenever [`Path::next_wake`] is past,
/// [`Path::advance`] and [`Path::deliver`] until it returns `None`.
#[derive(Debug)]
pub struct Path {
    queue: Queue<Packet>,
    /// When the queue was last empty.
    waiting_since: Instant,
    /// Packets that a cut took out of the queue.
    flushed: u64,
    serialiser: Serialiser,
    impairments: Impairments,
    pipe: Pipe<Packet>,
    mtu_bytes: usize,
    up: bool,
    flying_bytes: u64,
    counters: Counters,
}

impl Path {
    /// An empty direction, up, for packets of at most `mtu_bytes`; `random` drives its impairments.
    pub fn new(settings: DirectionSettings, mtu_bytes: usize, random: Rng) -> Self {
        Self {
            queue: Queue::new(settings.queue, random.clone().next_u64()),
            waiting_since: Instant::ZERO,
            flushed: 0,
            serialiser: Serialiser::new(settings.rate),
            impairments: Impairments::new(settings.loss, settings.corruption, random),
            pipe: Pipe::new(settings.delay),
            mtu_bytes,
            up: true,
            flying_bytes: 0,
            counters: Counters::default(),
        }
    }

    /// Takes new settings; what waits or is on its way keeps its place.
    pub fn reconfigure(&mut self, now: Instant, settings: DirectionSettings) {
        self.advance(now);
        if self.serialiser.rate() != settings.rate {
            self.serialiser.set_rate(now, settings.rate);
        }
        self.pipe.set_delay(settings.delay);
        self.queue.reconfigure(now, settings.queue, &mut |_, _| ());
        self.impairments.set(settings.loss, settings.corruption);
    }

    /// Cuts the link, losing what is in it, or restores it.
    pub fn set_up(&mut self, now: Instant, up: bool) {
        self.advance(now);
        if self.up && !up {
            let mut flushed = 0;
            self.queue.flush(now, &mut |_, _| flushed += 1);
            self.flushed += flushed;
            self.counters.dropped.down += flushed + self.pipe.cut() as u64;
            self.flying_bytes = 0;
        }
        self.up = up;
    }

    /// A packet comes at its `arrival` time.
    pub fn arrive(&mut self, packet: Packet) {
        let now = packet.arrival();
        self.advance(now);
        self.counters.packets_in += 1;
        self.counters.bytes_in += packet.bytes() as u64;
        if !self.up {
            self.counters.dropped.down += 1;
        } else if packet.data().len() > self.mtu_bytes {
            self.counters.dropped.too_big += 1;
        } else {
            if self.queue.is_empty() {
                self.waiting_since = now;
            }
            // A refused packet is counted by the queue.
            self.queue.enqueue(now, packet, &mut |_, _| ());
            self.advance(now);
        }
        self.assert_conserved();
    }

    /// Lets everything start that may start by `now`.
    pub fn advance(&mut self, now: Instant) {
        while let Some(ready) = self.serialiser.ready_at() {
            // Whatever came while something waited came before the serialiser was ready.
            let start = ready.max(self.waiting_since);
            if start > now || self.queue.is_empty() {
                break;
            }
            let Some(next) = self.queue.dequeue(start, &mut |_, _| ()) else { break };
            let packet = next.item;
            let (_, end) = self.serialiser.send(start, packet.bytes());
            self.transmit(end, packet);
        }
        self.assert_conserved();
    }

    fn transmit(&mut self, end: Instant, mut packet: Packet) {
        match self.impairments.fate(packet.data().len()) {
            Fate::Lose => {
                self.counters.dropped.loss += 1;
                return;
            }
            Fate::Corrupt { bit } => {
                packet.flip(bit);
                self.counters.corrupted += 1;
            }
            Fate::Deliver => {}
        }
        let bytes = packet.bytes() as u64;
        if self.flying_bytes + bytes > FLYING_LIMIT_BYTES {
            self.counters.dropped.wire_full += 1;
            return;
        }
        self.flying_bytes += bytes;
        self.pipe.send(end, packet);
    }

    /// The next packet that has arrived at the far end by `now`.
    pub fn deliver(&mut self, now: Instant) -> Option<Packet> {
        let due = self.pipe.next()?;
        let packet = self.pipe.receive(now)?;
        let late = now - due;
        self.counters.late_total += late;
        self.counters.late_peak = self.counters.late_peak.max(late);
        let bytes = packet.bytes() as u64;
        self.flying_bytes -= bytes;
        self.counters.packets_out += 1;
        self.counters.bytes_out += bytes;
        Some(packet)
    }

    /// Takes back a delivered packet that the far end did not take.
    pub fn refused(&mut self, packet: &Packet) {
        self.counters.packets_out -= 1;
        self.counters.bytes_out -= packet.bytes() as u64;
        self.counters.dropped.refused += 1;
    }

    /// When there is something to do next: a packet arrives, or with none on its way the next one starts.
    pub fn next_wake(&self) -> Option<Instant> {
        let start = || self.serialiser.ready_at().filter(|_| !self.queue.is_empty());
        self.pipe.next().or_else(start)
    }

    /// What it has seen.
    pub fn counters(&self) -> Counters {
        let queue = self.queue.stats();
        let mut counters = self.counters;
        counters.dropped.queue = queue.dropped_total() - self.flushed;
        counters.backlog_packets = queue.backlog_segments;
        counters.backlog_bytes = queue.backlog_bytes;
        counters.backlog_peak_bytes = queue.peak_bytes;
        counters.in_flight = self.pipe.len() as u64;
        counters
    }

    /// In = out + dropped + queued + in flight.
    fn assert_conserved(&self) {
        if cfg!(debug_assertions) {
            let c = self.counters();
            let accounted = c.packets_out + c.dropped.total() + c.backlog_packets + c.in_flight;
            debug_assert_eq!(c.packets_in, accounted, "packets are not conserved: {c:?}");
        }
    }
}

#[cfg(test)]
mod tests;
