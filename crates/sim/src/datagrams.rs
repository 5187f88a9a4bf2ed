//! Statistics of a flow of datagrams at its receiver.

use std::time::Duration;

use trunkline_queue::Item;
use trunkline_units::Instant;

use crate::{Packet, UdpTraffic};

/// Datagrams of one flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Datagrams {
    /// Sent.
    pub sent: u64,
    /// Bytes of them, IP header and all.
    pub sent_bytes: u64,
    /// Arrived; of copies that a link made, the first.
    pub received: u64,
    /// Bytes of them.
    pub received_bytes: u64,
    /// Of those, sent before the last [`Network::forget_peaks`](crate::Network::forget_peaks) and arrived since.
    pub overdue: u64,
    /// Other copies that a link made and that arrived. They are in no other figure.
    pub duplicated: u64,
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
    /// How many differences that are.
    pub variations: u64,
    /// Arrived with CE.
    pub marked: u64,
    last_delay: Option<Duration>,
    /// When [`Datagrams::overdue`] began to count, if anything had been sent.
    since: Option<Instant>,
}

impl Datagrams {
    /// Bytes of data that arrived, without headers.
    pub const fn received_data(&self) -> u64 {
        self.received_bytes - self.received * UdpTraffic::HEADERS as u64
    }

    pub(crate) fn forget_peaks(&mut self, now: Instant) {
        (self.delay_min, self.delay_max) = (None, Duration::ZERO);
        (self.overdue, self.since) = (0, (self.sent > 0).then_some(now));
    }

    pub(crate) fn take(&mut self, now: Instant, packet: &Packet) {
        let delay = now.saturating_since(packet.sent());
        self.received += 1;
        self.received_bytes += packet.bytes() as u64;
        self.overdue += u64::from(self.since.is_some_and(|since| packet.sent() <= since));
        self.marked += u64::from(packet.congestion_experienced());
        self.delay_sum += delay;
        self.delay_min = Some(self.delay_min.map_or(delay, |min| min.min(delay)));
        self.delay_max = self.delay_max.max(delay);
        if let Some(last) = self.last_delay.replace(delay) {
            let difference = delay.abs_diff(last);
            // A sixteenth of the way, in either direction.
            self.jitter = (self.jitter * 15 + difference) / 16;
            self.variation_sum += difference;
            self.variations += 1;
        }
    }
}
