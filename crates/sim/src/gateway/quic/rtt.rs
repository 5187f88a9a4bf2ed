//! The round-trip time of a connection (RFC 9002 §5 and §6.2).

use std::time::Duration;

use trunkline_congestion::TIME_THRESHOLD;

use super::arrivals::MAX_ACK_DELAY;

/// Before the first sample (RFC 9002 §6.2.2).
const INITIAL: Duration = Duration::from_millis(333);
/// Timers are no finer (RFC 9002 §6.1.2).
const GRANULARITY: Duration = Duration::from_millis(1);

/// What is known of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rtt {
    latest: Duration,
    smoothed: Option<Duration>,
    variation: Duration,
    min: Duration,
}

impl Default for Rtt {
    fn default() -> Self {
        Rtt { latest: INITIAL, smoothed: None, variation: INITIAL / 2, min: INITIAL }
    }
}

impl Rtt {
    /// Takes a sample, and how long the other end says that it waited before it acknowledged.
    pub(super) fn update(&mut self, sample: Duration, ack_delay: Duration) {
        self.latest = sample;
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.variation, self.min) = (Some(sample), sample / 2, sample);
            return;
        };
        self.min = self.min.min(sample);
        let ack_delay = ack_delay.min(MAX_ACK_DELAY);
        let adjusted = sample.checked_sub(ack_delay).filter(|rtt| *rtt >= self.min).unwrap_or(sample);
        self.variation = (self.variation * 3 + smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = Some((smoothed * 7 + adjusted) / 8);
    }

    pub(super) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(INITIAL)
    }

    /// The smoothed round-trip time, once there is a sample.
    pub(super) const fn sampled(&self) -> Option<Duration> {
        self.smoothed
    }

    pub(super) const fn min(&self) -> Duration {
        self.min
    }

    /// How much older than an acknowledged packet one must be to count as lost (RFC 9002 §6.1.2).
    pub(super) fn loss_delay(&self) -> Duration {
        (self.smoothed().max(self.latest) * TIME_THRESHOLD).max(GRANULARITY)
    }

    /// The probe timeout without back-off (RFC 9002 §6.2.1).
    pub(super) fn probe_timeout(&self) -> Duration {
        self.smoothed() + (self.variation * 4).max(GRANULARITY) + MAX_ACK_DELAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_delay_of_the_other_end_is_no_part_of_the_round_trip_unless_the_sample_is_too_short() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.probe_timeout(), ms(333 + 666 + 25));
        rtt.update(ms(80), ms(25));
        assert_eq!((rtt.smoothed(), rtt.min(), rtt.probe_timeout()), (ms(80), ms(80), ms(80 + 160 + 25)));
        rtt.update(ms(104), ms(24));
        assert_eq!((rtt.smoothed(), rtt.loss_delay()), (ms(80), ms(208)));
        rtt.update(ms(88), ms(20));
        assert_eq!((rtt.smoothed(), rtt.min()), (ms(81), ms(80)));
        // No more than the other end may wait is believed.
        rtt.update(ms(200), ms(100));
        assert_eq!(rtt.smoothed(), (ms(81) * 7 + ms(175)) / 8);
    }
}
