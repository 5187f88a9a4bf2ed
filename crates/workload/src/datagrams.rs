//! Statistics of a flow of datagrams at its receiver.

use std::time::Duration;

use trunkline_units::Instant;

use crate::Delays;

/// A datagram at its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When it was sent.
    pub sent: Instant,
    /// When it arrived.
    pub at: Instant,
    /// Its bytes, IP header and all.
    pub bytes: u64,
    /// How many of them are headers.
    pub headers: u32,
    /// Whether it arrived with CE.
    pub marked: bool,
}

/// Datagrams of one flow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Datagrams {
    /// Sent.
    pub sent: u64,
    /// Bytes of them, IP header and all.
    pub sent_bytes: u64,
    /// Arrived; of copies that a link made, the first.
    pub received: u64,
    /// Bytes of them.
    pub received_bytes: u64,
    /// Of those, sent before the last [`Datagrams::reset_peaks`] and arrived since.
    pub sent_before_reset: u64,
    /// Other copies that a link made and that arrived. They are in no other figure.
    pub duplicated: u64,
    /// Sum of the times they took.
    pub delay_sum: Duration,
    /// The shortest.
    pub delay_min: Option<Duration>,
    /// The longest.
    pub delay_max: Duration,
    /// All since the last [`Datagrams::reset_peaks`].
    pub delays: Delays,
    /// Interarrival jitter as RTP reports it (RFC 3550 §6.4.1).
    pub jitter: Duration,
    /// Sum of the differences between the delays of one and the next.
    pub variation_sum: Duration,
    /// How many differences that are.
    pub variations: u64,
    /// Arrived with CE.
    pub marked: u64,
    /// Bytes of headers that arrived.
    received_headers: u64,
    last_delay: Option<Duration>,
    /// When [`Datagrams::sent_before_reset`] began to count, if anything had been sent.
    since: Option<Instant>,
}

impl Datagrams {
    /// Bytes of data that arrived, without headers.
    pub const fn received_data(&self) -> u64 {
        self.received_bytes - self.received_headers
    }

    /// Starts the minimum, the maximum and the percentiles of delay and [`Datagrams::sent_before_reset`] anew.
    pub fn reset_peaks(&mut self, now: Instant) {
        self.delays.clear();
        (self.delay_min, self.delay_max) = (None, Duration::ZERO);
        (self.sent_before_reset, self.since) = (0, (self.sent > 0).then_some(now));
    }

    /// The source sends one of so many bytes, IP header and all.
    pub fn handle_sent(&mut self, bytes: u64) {
        self.sent += 1;
        self.sent_bytes += bytes;
    }

    /// One arrives, the first of its copies.
    pub fn handle_arrival(&mut self, arrival: &Arrival) {
        let Arrival { sent, at, bytes, headers, marked } = *arrival;
        let delay = at.saturating_since(sent);
        self.received += 1;
        self.received_bytes += bytes;
        self.received_headers += u64::from(headers);
        self.sent_before_reset += u64::from(self.since.is_some_and(|since| sent <= since));
        self.marked += u64::from(marked);
        self.delays.record(delay);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(sent: u64, at: u64) -> Arrival {
        let [sent, at] = [sent, at].map(Instant::from_millis);
        Arrival { sent, at, bytes: 128, headers: 28, marked: false }
    }

    #[test]
    fn delays_and_their_variation_are_those_of_rfc_3550() {
        let mut flow = Datagrams::default();
        (0..3).for_each(|_| flow.handle_sent(128));
        for (sent, at) in [(0, 10), (20, 46), (40, 50)] {
            flow.handle_arrival(&arrival(sent, at));
        }
        let ms = Duration::from_millis;
        assert_eq!((flow.sent, flow.received, flow.received_data()), (3, 3, 300));
        assert_eq!((flow.delay_sum, flow.delay_min, flow.delay_max), (ms(46), Some(ms(10)), ms(26)));
        assert_eq!((flow.variation_sum, flow.variations), (ms(32), 2));
        assert_eq!(flow.jitter, (ms(16) / 16 * 15 + ms(16)) / 16);
    }

    #[test]
    fn datagrams_that_arrive_after_a_reset_and_left_before_it_are_counted() {
        let mut flow = Datagrams::default();
        (0..2).for_each(|_| flow.handle_sent(128));
        flow.handle_arrival(&arrival(0, 90));
        flow.reset_peaks(Instant::from_millis(100));
        flow.handle_arrival(&arrival(95, 130));
        flow.handle_arrival(&arrival(110, 120));
        assert_eq!((flow.sent_before_reset, flow.delay_max), (1, Duration::from_millis(35)));
    }
}
