//! Delivery rate, sampled as in Linux (draft-cheng-iccrg-delivery-rate-estimation, `tcp_rate.c`).
//!
//! A sample is the bytes delivered between the time that a segment was sent and the time that it was acknowledged,
//! over the longer of the two spans in which they were sent and acknowledged. Samples of an application-limited
//! sender count only if they are larger.

use std::time::Duration;

use trunkline_units::{Instant, Rate};

/// What a segment carries along from when it was sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stamp {
    delivered: u32,
    /// µs since the first segment of its flight was sent.
    send_span: u32,
    /// Twice the µs since the last delivery, and one more if the sender had too little to send: a record of 32 bytes.
    ack_span: u32,
}

impl Stamp {
    fn app_limited(self) -> bool {
        self.ack_span & 1 != 0
    }
}

#[derive(Debug)]
pub(crate) struct Delivery {
    /// Bytes delivered since the start, by SACK too.
    pub(crate) delivered: u64,
    delivered_at: Instant,
    pub(crate) first_sent: Instant,
    /// The sender has had too little to send up to this count of `delivered`; 0: it has not.
    app_limited_until: u64,
    bytes: u32,
    micros: u32,
    /// `delivered` when the segment was sent that was delivered last.
    prior: u32,
    limited: bool,
}

fn span(from: Instant, to: Instant) -> u32 {
    ((to.as_nanos().saturating_sub(from.as_nanos())) / 1000) as u32
}

impl Delivery {
    pub(crate) const fn new() -> Self {
        Delivery {
            delivered: 0,
            delivered_at: Instant::ZERO,
            first_sent: Instant::ZERO,
            app_limited_until: 0,
            bytes: 0,
            micros: 0,
            prior: 0,
            limited: false,
        }
    }

    /// A segment is sent; `alone` if nothing is in flight.
    #[inline]
    pub(crate) fn stamp(&mut self, now: Instant, alone: bool) -> Stamp {
        if alone {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        Stamp {
            delivered: self.delivered as u32,
            send_span: span(self.first_sent, now),
            ack_span: span(self.delivered_at, now) << 1 | u32::from(self.app_limited_until > 0),
        }
    }

    /// The sender has less to send than it may, with `pipe` bytes in flight.
    #[inline]
    pub(crate) fn set_app_limited(&mut self, pipe: u32) {
        self.app_limited_until = (self.delivered + u64::from(pipe)).max(1);
    }

    /// `bytes` were delivered; the one of them that was sent last, at `sent`, carries `stamp`.
    #[inline]
    pub(crate) fn deliver(
        &mut self,
        now: Instant,
        bytes: u32,
        newest: Option<(Instant, Stamp)>,
        min_rtt: Duration,
    ) {
        self.delivered += u64::from(bytes);
        self.delivered_at = now;
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let Some((sent, stamp)) = newest else { return };
        self.first_sent = sent;
        self.prior = stamp.delivered;
        let micros = stamp.send_span.max(span(sent, now).saturating_add(stamp.ack_span >> 1));
        if micros == 0 || u128::from(micros) < min_rtt.as_micros() {
            return;
        }
        let bytes = (self.delivered as u32).wrapping_sub(stamp.delivered);
        let faster = u64::from(bytes) * u64::from(self.micros) >= u64::from(self.bytes) * u64::from(micros);
        if !stamp.app_limited() || faster {
            (self.bytes, self.micros, self.limited) = (bytes, micros, stamp.app_limited());
        }
    }

    /// Bytes that had been delivered when the segment was sent that was delivered last.
    #[inline]
    pub(crate) fn prior(&self) -> u64 {
        self.delivered - u64::from((self.delivered as u32).wrapping_sub(self.prior))
    }

    /// The last sample that counted, and whether the sender's lack of data bounded it.
    #[inline]
    pub(crate) fn rate(&self) -> Option<(Rate, bool)> {
        (self.micros > 0).then(|| {
            let bits = u64::from(self.bytes) * 8_000_000 / u64::from(self.micros);
            (Rate::from_bits_per_second(bits), self.limited)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_what_was_delivered_over_the_longer_span() {
        let mut delivery = Delivery::new();
        let at = Instant::from_millis;
        // Four segments sent at once; acknowledged one each 10 ms after 100 ms: 1000 bytes each 10 ms.
        let stamp = delivery.stamp(at(0), true);
        let min = Duration::from_millis(100);
        for n in 0..4 {
            delivery.deliver(at(100 + 10 * n), 1000, Some((at(0), stamp)), min);
        }
        // 4000 bytes in 130 ms.
        assert_eq!(delivery.rate(), Some((Rate::from_bits_per_second(246_153), false)));
        let later = delivery.stamp(at(130), false);
        delivery.deliver(at(240), 1000, Some((at(130), later)), min);
        assert_eq!(delivery.rate().unwrap().0, Rate::from_bits_per_second(1000 * 8_000 / 130));
    }

    #[test]
    fn a_slow_sample_of_a_starved_sender_does_not_count() {
        let mut delivery = Delivery::new();
        let at = Instant::from_millis;
        let stamp = delivery.stamp(at(0), true);
        delivery.deliver(at(10), 10_000, Some((at(0), stamp)), Duration::ZERO);
        let before = delivery.rate();
        delivery.set_app_limited(0);
        let starved = delivery.stamp(at(20), true);
        assert!(starved.app_limited());
        delivery.deliver(at(30), 100, Some((at(20), starved)), Duration::ZERO);
        assert_eq!(delivery.rate(), before);
        assert!(!delivery.stamp(at(40), true).app_limited());
    }
}
