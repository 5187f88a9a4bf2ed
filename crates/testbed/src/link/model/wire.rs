//! One direction: the state machine of a link, cuts, a bound on memory, lateness.

use trunkline_link::{Delivery, LinkSettings, PolledLink};
use trunkline_queue::{DropReason, Item};
use trunkline_units::Instant;

use super::{Counters, Drops, Packet, Reading};

/// The largest number of bytes in flight with which a packet is still taken: a bound on memory for links without a rate.
const IN_FLIGHT_LIMIT_BYTES: u64 = 512 << 20;

/// One direction of an emulated link.
///
/// At each time, the owner calls [`Wire::poll`] until it returns `None`, and then whatever else it has to. It calls `poll` again
/// when [`Wire::next_wakeup`] is past; however late that is, no rate and no fate of a packet is another by it.
#[derive(Debug)]
pub struct Wire {
    link: PolledLink<Packet>,
    mtu: usize,
    up: bool,
    /// Packets that a cut took out of the queue, and bytes that cuts took off the way.
    cut: (u64, u64),
    /// What the link and its queue do not count.
    own: Counters,
}

impl Wire {
    /// An empty direction, up, whose changes count their times from `now`. What is random in it follows from `seed`.
    pub fn new(settings: &LinkSettings, seed: u64, now: Instant) -> Self {
        Self {
            link: PolledLink::new(settings, seed, now),
            mtu: settings.mtu as usize,
            up: true,
            cut: (0, 0),
            own: Counters::default(),
        }
    }

    /// A packet comes.
    pub fn offer(&mut self, now: Instant, packet: Packet) {
        self.own.packets_in += 1;
        self.own.bytes_in += packet.bytes() as u64;
        if !self.up {
            self.own.dropped.down += 1;
        } else if packet.data().len() > self.mtu {
            self.link.count_too_big();
        } else if self.in_flight_bytes() > IN_FLIGHT_LIMIT_BYTES {
            self.own.dropped.wire_full += 1;
        } else {
            self.link.offer(now, packet);
        }
        self.assert_conserved();
    }

    /// The next packet that has arrived at the far end by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Delivery<Packet>> {
        let delivery = self.link.poll(now)?;
        let late = now - delivery.due;
        self.own.late_total += late;
        self.own.late_peak = self.own.late_peak.max(late);
        self.own.late_packets += u64::from(late > Counters::LATE);
        let copies = 1 + u64::from(delivery.duplicated);
        self.own.packets_out += copies;
        self.own.bytes_out += copies * delivery.packet.bytes() as u64;
        self.assert_conserved();
        Some(delivery)
    }

    /// The far end did not take a copy of a delivered packet.
    pub fn refused(&mut self, packet: &Packet) {
        self.own.packets_out -= 1;
        self.own.bytes_out -= packet.bytes() as u64;
        self.own.dropped.refused += 1;
    }

    /// When there is something to do next.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.link.next_wakeup()
    }

    /// Takes new settings, as [`PolledLink::reconfigure`] describes.
    pub fn reconfigure(&mut self, now: Instant, settings: &LinkSettings) {
        self.mtu = settings.mtu as usize;
        self.link.reconfigure(now, settings);
    }

    /// Lets the changes count their times from `start`.
    pub fn restart_changes(&mut self, now: Instant, start: Instant) {
        self.link.restart_changes(now, start);
    }

    /// Counts the peaks of the queue from now on.
    pub fn reset_peaks(&mut self) {
        self.link.reset_peaks();
    }

    /// Cuts the link, losing what is in it, or restores it.
    pub fn set_up(&mut self, now: Instant, up: bool) {
        if self.up && !up {
            let flushed = |link: &PolledLink<_>| link.link().queue().dropped_for(DropReason::Flushed);
            let before = flushed(&self.link);
            let in_flight = self.link.cut(now) as u64;
            let waited = flushed(&self.link) - before;
            self.cut = (self.cut.0 + waited, self.cut.1 + self.in_flight_bytes());
            self.own.dropped.down += waited + in_flight;
        }
        self.up = up;
        self.assert_conserved();
    }

    /// What it has seen.
    pub fn counters(&self) -> Counters {
        let link = self.link.link();
        let (queue, stats) = (link.queue(), link.stats());
        Counters {
            corrupted: stats.corrupted,
            duplicated: stats.duplicated,
            marked: queue.marked_total(),
            dropped: Drops {
                queue: queue.dropped_total() - self.cut.0,
                loss: stats.lost,
                too_big: stats.too_big,
                ..self.own.dropped
            },
            backlog_packets: queue.backlog_segments,
            backlog_bytes: queue.backlog_bytes,
            backlog_peak_bytes: queue.peak_bytes,
            in_flight: link.in_flight() as u64,
            ..self.own
        }
    }

    /// Everything that it counts.
    pub fn reading(&self, now: Instant) -> Reading {
        let link = self.link.link();
        Reading {
            at: now,
            queue: link.queue().clone(),
            link: *link.stats(),
            busy: link.busy_time(now),
            counters: self.counters(),
        }
    }

    fn in_flight_bytes(&self) -> u64 {
        let link = self.link.link();
        link.queue().bytes_out - link.stats().delivered_bytes - link.stats().lost_bytes - self.cut.1
    }

    /// In + duplicated = out + dropped + queued + in flight.
    fn assert_conserved(&self) {
        if cfg!(debug_assertions) {
            let c = self.counters();
            let accounted = c.packets_out + c.dropped.total() + c.backlog_packets + c.in_flight;
            debug_assert_eq!(c.packets_in + c.duplicated, accounted, "packets are not conserved: {c:?}");
        }
    }
}

#[cfg(test)]
mod tests;
