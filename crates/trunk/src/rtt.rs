//! An upper estimate of the round-trip times of user flows, from what passes by (kung1998 §4, P1).
//!
//! A transmitter sees a segment leave and the acknowledgement of it come back. The time between is the part of the
//! flow's round trip that lies on the trunk's side, lane and far site included; the time in the edge queue, which
//! the estimate sizes, is left out, or the queue would grow because it is long. The other part, from here to the
//! local host and back, is taken once in each connection: from the packet of the handshake that passes towards the
//! local host to its answer. Retransmitted segments give no sample (Karn and Partridge 1987).

use std::time::Duration;

/// Mean and mean deviation of the samples of all flows, with the gains of RFC 6298 §2. The upper estimate is the
/// mean and twice the deviation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UpperRtt {
    mean_us: u32,
    deviation_us: u32,
    samples: u64,
}

impl UpperRtt {
    /// The smallest estimate: below, a queue could not bridge a scheduler's slice.
    const MIN: Duration = Duration::from_millis(10);
    /// The largest estimate: no path is longer, only hosts that answer late.
    const MAX: Duration = Duration::from_secs(1);

    pub(crate) fn sample(&mut self, micros: u32) {
        if self.samples == 0 {
            (self.mean_us, self.deviation_us) = (micros, micros / 2);
        } else {
            let error = micros.abs_diff(self.mean_us);
            self.deviation_us = self.deviation_us - self.deviation_us / 4 + error / 4;
            self.mean_us = self.mean_us - self.mean_us / 8 + micros / 8;
        }
        self.samples += 1;
    }

    /// `None` before the first sample.
    pub(crate) fn upper(&self) -> Option<Duration> {
        let micros = u64::from(self.mean_us) + 2 * u64::from(self.deviation_us);
        (self.samples > 0).then(|| Duration::from_micros(micros).clamp(Self::MIN, Self::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_settles_on_a_steady_time_and_lies_above_a_varying_one() {
        let mut rtt = UpperRtt::default();
        assert_eq!(rtt.upper(), None);
        (0..200).for_each(|_| rtt.sample(50_000));
        let steady = rtt.upper().expect("samples").as_millis();
        assert!((49..=52).contains(&steady), "{steady}");
        (0..400).for_each(|n| rtt.sample(if n % 2 == 0 { 20_000 } else { 80_000 }));
        let varying = rtt.upper().expect("samples").as_millis();
        assert!((80..=150).contains(&varying), "{varying}");
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let mut rtt = UpperRtt::default();
        rtt.sample(3);
        assert_eq!(rtt.upper(), Some(UpperRtt::MIN));
        rtt.sample(u32::MAX);
        assert_eq!(rtt.upper(), Some(UpperRtt::MAX));
    }
}
