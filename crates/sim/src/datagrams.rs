//! What a flow of datagrams is like where it arrives.

use std::time::Duration;

use trunkline_queue::Item;
use trunkline_units::Instant;

use crate::Packet;

/// Datagrams that arrived, of one flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Datagrams {
    /// Sent.
    pub sent: u64,
    /// Octets of them, IP header and all.
    pub sent_bytes: u64,
    /// Arrived.
    pub received: u64,
    /// Octets of them.
    pub received_bytes: u64,
    /// Sum of the times they took.
    pub delay_sum: Duration,
    /// The shortest.
    pub delay_min: Option<Duration>,
    /// The longest.
    pub delay_max: Duration,
    /// Interarrival jitter as RTP reports it (RFC 3550 §6.4.1).
    pub jitter: Duration,
    /// Sum of the differences between the delays of one and the next.
    pub variation_sum: Duration,
    /// Arrived with CE.
    pub marked: u64,
    last_delay: Option<Duration>,
}

impl Datagrams {
    pub(crate) fn forget_peaks(&mut self) {
        (self.delay_min, self.delay_max) = (None, Duration::ZERO);
    }

    pub(crate) fn take(&mut self, now: Instant, packet: &Packet) {
        let delay = now.saturating_since(packet.sent());
        self.received += 1;
        self.received_bytes += packet.bytes() as u64;
        self.marked += u64::from(packet.congestion_experienced());
        self.delay_sum += delay;
        self.delay_min = Some(self.delay_min.map_or(delay, |least| least.min(delay)));
        self.delay_max = self.delay_max.max(delay);
        if let Some(last) = self.last_delay.replace(delay) {
            let difference = delay.abs_diff(last);
            // A sixteenth of the way, in either direction.
            self.jitter = (self.jitter * 15 + difference) / 16;
            self.variation_sum += difference;
        }
    }
}
