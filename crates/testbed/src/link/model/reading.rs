//! What one direction of an emulated link has seen.

use std::time::Duration;

use trunkline_link::LinkStats;
use trunkline_queue::Stats;
use trunkline_units::Instant;

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

/// What one direction has seen. Packets in and duplicated are those out, dropped, in the queue and in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came.
    pub packets_in: u64,
    /// Their bytes on the wire.
    pub bytes_in: u64,
    /// Packets that arrived, duplicates included.
    pub packets_out: u64,
    /// Their bytes on the wire.
    pub bytes_out: u64,
    /// Packets with an inverted bit.
    pub corrupted: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets that the queue marked (ECN).
    pub marked: u64,
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
    /// Packets that arrived more than [`Counters::LATE`] after their time.
    pub late_packets: u64,
}

impl Counters {
    /// From which lateness on a packet is counted as late.
    pub const LATE: Duration = Duration::from_millis(1);
}

/// Everything that one direction counts, at one instant: the same readings as of a link of the simulator, and the emulator's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// When it was taken, by the machine's monotonic clock. Nothing has happened since that is not in a later reading.
    pub at: Instant,
    /// Of the queue: drops by reason, sojourn times, occupancy.
    pub queue: Stats,
    /// Of the link behind it.
    pub link: LinkStats,
    /// Time spent sending up to `at`.
    pub busy: Duration,
    /// The emulator's own view.
    pub counters: Counters,
}
