//! One direction: queue, serialiser, impairments, pipe.

use std::time::Duration;

use trunkline_queue::{Item, Queue, Settings as QueueSettings};
use trunkline_units::{Instant, Rate, Rng};

use super::{Fate, Impairments, Packet, Pipe, Serialiser};

/// The most bytes that may be on their way at once: a bound on memory for links without a rate.
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
    /// The most bytes that were ever in the queue.
    pub backlog_peak_bytes: u64,
    /// Packets being sent or on their way.
    pub flying: u64,
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
        counters.flying = self.pipe.len() as u64;
        counters
    }

    /// In = out + dropped + queued + flying.
    fn assert_conserved(&self) {
        if cfg!(debug_assertions) {
            let c = self.counters();
            let accounted = c.packets_out + c.dropped.total() + c.backlog_packets + c.flying;
            debug_assert_eq!(c.packets_in, accounted, "packets are not conserved: {c:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trunkline_queue::Limits;

    fn limits(segments: u32) -> QueueSettings {
        QueueSettings::TailDrop(Limits { segments, bytes: u64::MAX })
    }

    fn path(settings: DirectionSettings) -> Path {
        Path::new(settings, 1500, Rng::new(1, "path"))
    }

    fn packet(at: Instant, id: u16, bytes: usize) -> Packet {
        let mut data = vec![0; bytes];
        data[..2].copy_from_slice(&id.to_be_bytes());
        Packet::new(data, 0, at)
    }

    fn id(packet: &Packet) -> u16 {
        u16::from_be_bytes([packet.data()[0], packet.data()[1]])
    }

    /// Delivers everything as its time comes: (time in ns, id).
    fn drain(path: &mut Path, until: Instant) -> Vec<(u64, u16)> {
        let mut out = Vec::new();
        while let Some(wake) = path.next_wake().filter(|wake| *wake <= until) {
            path.advance(wake);
            while let Some(packet) = path.deliver(wake) {
                out.push((wake.as_nanos(), id(&packet)));
            }
        }
        path.advance(until);
        out
    }

    /// 8 Mbit/s: a byte takes a microsecond.
    fn slow() -> DirectionSettings {
        DirectionSettings {
            rate: Some(Rate::from_bits_per_second(8_000_000)),
            ..DirectionSettings::default()
        }
    }

    #[test]
    fn a_packet_arrives_after_its_transmission_and_the_delay() {
        let mut path = path(DirectionSettings { delay: Duration::from_millis(20), ..slow() });
        path.arrive(packet(Instant::from_millis(1), 1, 1000));
        path.arrive(packet(Instant::from_millis(1), 2, 500));
        let out = drain(&mut path, Instant::from_millis(100));
        assert_eq!(out, [(22_000_000, 1), (22_500_000, 2)]);
    }

    #[test]
    fn a_full_queue_drops_the_arriving_packet_and_not_the_one_being_sent() {
        let mut path = path(DirectionSettings { queue: limits(2), ..slow() });
        for id in 1..=4 {
            path.arrive(packet(Instant::ZERO, id, 1000));
        }
        assert_eq!(path.counters().dropped.queue, 1);
        assert_eq!(path.counters().backlog_packets, 2);
        let out: Vec<u16> = drain(&mut path, Instant::from_millis(10)).iter().map(|(_, id)| *id).collect();
        assert_eq!(out, [1, 2, 3]);
    }

    #[test]
    fn a_bandwidth_delay_product_beyond_the_buffer_still_fills_the_link() {
        // 8 Mbit/s × 500 ms = 500 packets of 1000 bytes on the wire, with a queue of five.
        let delay = Duration::from_millis(500);
        let mut path = path(DirectionSettings { delay, queue: limits(5), ..slow() });
        let mut delivered = 0;
        for millisecond in 0..2000 {
            path.arrive(packet(Instant::from_millis(millisecond), 1, 1000));
            delivered += drain(&mut path, Instant::from_millis(millisecond)).len();
        }
        assert_eq!(path.counters().dropped.total(), 0);
        assert!(path.counters().flying >= 499, "{:?}", path.counters());
        // Sent at 0, 1, … ms, each 1 ms in transmission and 500 ms on the way: those sent by 1498 ms are there.
        assert_eq!(delivered, 1499);
    }

    #[test]
    fn lateness_of_the_caller_is_no_error_of_the_rate() {
        let mut path = path(DirectionSettings { queue: limits(1000), ..slow() });
        for id in 0..100 {
            path.arrive(packet(Instant::ZERO, id, 1000));
        }
        // Nobody looks for 95 ms; then the 5 that are left come exactly when they should.
        let late = Instant::from_millis(95);
        path.advance(late);
        let mut count = 0;
        while path.deliver(late).is_some() {
            count += 1;
        }
        assert_eq!(count, 95);
        // The first was due at 1 ms, the last just then: 94 + 93 + … + 0.
        let counters = path.counters();
        assert_eq!(counters.late_peak, Duration::from_millis(94));
        assert_eq!(counters.late_total, Duration::from_millis(94 * 95 / 2));
        let out = drain(&mut path, Instant::from_millis(200));
        assert_eq!(out.first().map(|(at, _)| *at), Some(96_000_000));
        assert_eq!(out.last().map(|(at, _)| *at), Some(100_000_000));
    }

    #[test]
    fn the_overhead_takes_time_and_counts_in_the_queue() {
        let mut path = path(slow());
        path.arrive(Packet::new(vec![0; 1000], 14, Instant::ZERO));
        path.arrive(Packet::new(vec![0; 1000], 14, Instant::ZERO));
        assert_eq!(path.counters().backlog_bytes, 1014);
        let out = drain(&mut path, Instant::from_millis(10));
        assert_eq!(out.last().map(|(at, _)| *at), Some(2_028_000));
    }

    #[test]
    fn a_packet_longer_than_the_mtu_is_dropped_and_counted() {
        let mut path = path(slow());
        path.arrive(packet(Instant::ZERO, 1, 1501));
        path.arrive(packet(Instant::ZERO, 2, 1500));
        assert_eq!(path.counters().dropped.too_big, 1);
        assert_eq!(drain(&mut path, Instant::from_millis(9)), [(1_500_000, 2)]);
    }

    #[test]
    fn a_cut_loses_what_waits_what_flies_and_what_comes() {
        let mut path = path(DirectionSettings { delay: Duration::from_millis(5), ..slow() });
        for id in 0..4 {
            path.arrive(packet(Instant::ZERO, id, 1000));
        }
        let cut = Instant::from_nanos(1_500_000);
        path.set_up(cut, false);
        path.arrive(packet(Instant::from_millis(2), 9, 1000));
        let counters = path.counters();
        assert_eq!((counters.dropped.down, counters.flying, counters.backlog_packets), (5, 0, 0));
        path.set_up(Instant::from_millis(10), true);
        path.arrive(packet(Instant::from_millis(10), 7, 1000));
        assert_eq!(drain(&mut path, Instant::from_millis(30)), [(16_000_000, 7)]);
    }

    #[test]
    fn a_new_rate_holds_for_the_packets_that_have_not_started() {
        let mut path = path(slow());
        for id in 0..3 {
            path.arrive(packet(Instant::ZERO, id, 1000));
        }
        let faster = DirectionSettings { rate: Some(Rate::from_bits_per_second(80_000_000)), ..slow() };
        path.reconfigure(Instant::from_nanos(500_000), faster);
        let out: Vec<u64> = drain(&mut path, Instant::from_millis(9)).iter().map(|(at, _)| *at).collect();
        assert_eq!(out, [1_000_000, 1_100_000, 1_200_000]);
    }

    #[test]
    fn a_rate_of_zero_holds_packets_until_there_is_one() {
        let mut path = path(DirectionSettings { rate: Some(Rate::from_bits_per_second(0)), ..slow() });
        path.arrive(packet(Instant::ZERO, 1, 1000));
        assert_eq!(path.next_wake(), None);
        path.reconfigure(Instant::from_millis(1), slow());
        assert_eq!(drain(&mut path, Instant::from_millis(9)), [(2_000_000, 1)]);
    }

    /// Random operations: nothing is lost from the books, nothing overtakes, and the same seed does the same.
    #[test]
    fn random_operations_conserve_packets_and_keep_their_order() {
        let run = |seed: u64| {
            let mut random = Rng::new(seed, "operations");
            let settings = DirectionSettings {
                delay: Duration::from_micros(random.below(5000)),
                queue: limits(1 + random.below(20) as u32),
                loss: 0.1,
                ..slow()
            };
            let mut path = Path::new(settings, 1500, Rng::new(seed, "path"));
            let (mut now, mut log) = (0, Vec::new());
            for id in 0..400 {
                now += random.below(1_500_000);
                match random.below(20) {
                    0 => path.set_up(Instant::from_nanos(now), random.chance(0.7)),
                    1 => path.reconfigure(
                        Instant::from_nanos(now),
                        DirectionSettings { delay: Duration::from_micros(random.below(5000)), ..settings },
                    ),
                    _ => path.arrive(packet(Instant::from_nanos(now), id, 20 + random.below(1490) as usize)),
                }
                log.extend(drain(&mut path, Instant::from_nanos(now)));
            }
            log.extend(drain(&mut path, Instant::FAR_FUTURE));
            let end = path.counters();
            assert_eq!(end.packets_in, end.packets_out + end.dropped.total());
            assert!(log.is_sorted_by_key(|(_, id)| *id) && log.is_sorted_by_key(|(at, _)| *at));
            log
        };
        for seed in 0..100 {
            assert_eq!(run(seed), run(seed));
        }
    }
}
