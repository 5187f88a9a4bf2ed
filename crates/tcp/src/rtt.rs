//! Round-trip time and retransmission timeout (RFC 6298), with two rules for the variance.
//!
//! RFC 6298: `RTO = max(srtt + max(G, 4·rttvar), min)`. Linux since 2.4: the variance is the largest mean deviation
//! of the last round trip and falls by at most a quarter a round trip, and the minimum is one of the variance, not
//! of the sum: `RTO = srtt + max(4·mdev, min)`. There a deviation downwards counts for an eighth, so a path that
//! became faster does not raise the timeout.
//!
//! Samples are ticks of the era's clock. The smallest one is kept exactly, and expires after 300 s (Linux's
//! `tcp_min_rtt_wlen`). Deviation: Linux keeps the three smallest of parts of the window; here the next sample
//! replaces it.

use std::time::Duration;

use trunkline_units::Instant;

use crate::timers::{nanos, ticks};
use crate::{RtoRule, Timers};

const MEMORY_MS: u32 = 300_000;
const MAX_BACKOFF: u8 = 16;

#[derive(Debug)]
pub(crate) struct Rtt {
    /// ns; 0 before the first sample.
    srtt: u64,
    min: u64,
    /// µs each: four times the deviation.
    variance: u32,
    deviation: u32,
    largest: u32,
    /// µs, without back-off.
    rto: u32,
    /// The round that `largest` is of ends when this place is acknowledged.
    round_end: u64,
    min_at_ms: u32,
    backoff: u8,
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(nanos(duration) / 1000).unwrap_or(u32::MAX)
}

impl Rtt {
    pub(crate) fn new(timers: &Timers) -> Self {
        Rtt {
            srtt: 0,
            min: u64::MAX,
            variance: 0,
            deviation: 0,
            largest: 0,
            rto: micros(timers.initial_rto),
            round_end: 0,
            min_at_ms: 0,
            backoff: 0,
        }
    }

    #[inline]
    pub(crate) fn srtt(&self) -> Option<Duration> {
        (self.srtt > 0).then_some(Duration::from_nanos(self.srtt))
    }

    #[inline]
    pub(crate) fn min(&self) -> Option<Duration> {
        (self.min < u64::MAX).then_some(Duration::from_nanos(self.min))
    }

    /// The timeout, with its back-off.
    pub(crate) fn rto(&self, timers: &Timers) -> Duration {
        Duration::from_nanos(self.rto_nanos(timers))
    }

    /// As [`Rtt::rto`], ns.
    #[inline]
    pub(crate) fn rto_nanos(&self, timers: &Timers) -> u64 {
        let rto = (u64::from(self.rto) << self.backoff) * 1000;
        rto.max(nanos(timers.min_rto)).min(nanos(timers.max_rto))
    }

    #[inline]
    pub(crate) fn srtt_nanos(&self) -> u64 {
        self.srtt
    }

    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
    }

    /// RFC 6298 §5.7: a SYN had to be retransmitted and gave no sample.
    pub(crate) fn set_rto_after_syn_loss(&mut self, rto: Duration) {
        if self.srtt == 0 {
            self.rto = micros(rto);
            self.backoff = 0;
        }
    }

    /// A sample that Karn's rule allows; `una` and `next` are the sender's.
    #[inline]
    pub(crate) fn sample(&mut self, now: Instant, rtt: Duration, (una, next): (u64, u64), timers: &Timers) {
        let now_ms = (now.as_nanos() / 1_000_000) as u32;
        let exact = nanos(rtt);
        if exact <= self.min || now_ms.wrapping_sub(self.min_at_ms) > MEMORY_MS {
            (self.min, self.min_at_ms) = (exact.max(1), now_ms);
        }
        let tick = nanos(timers.granularity);
        let measured = if tick <= 1000 {
            exact.max(1)
        } else {
            let (at, phase) = (now.as_nanos(), nanos(timers.phase));
            let ticks = ticks(at, tick, phase) - ticks(at.saturating_sub(exact), tick, phase);
            (ticks * tick).max(tick)
        };
        let first = self.srtt == 0;
        let error = measured.cast_signed() - self.srtt.cast_signed();
        self.srtt = if first { measured } else { self.srtt.saturating_add_signed(error / 8).max(1) };
        let error_us = u32::try_from(error.unsigned_abs() / 1000).unwrap_or(u32::MAX);
        match timers.rto {
            RtoRule::Rfc6298 => {
                // Four times rttvar: rttvar ← 3/4 rttvar + 1/4 |error|.
                self.variance = if first {
                    error_us.saturating_mul(2)
                } else {
                    self.variance - self.variance / 4 + error_us
                };
                let variance = self.variance.max(micros(timers.granularity));
                let floor = micros(timers.min_rto);
                self.rto = ((self.srtt / 1000) as u32).saturating_add(variance).max(floor);
            }
            RtoRule::Linux => {
                self.linux(first, error >= 0, error_us, (una, next), micros(timers.min_rto));
                self.rto = ((self.srtt / 1000) as u32).saturating_add(self.variance);
            }
        }
        self.backoff = 0;
    }

    #[inline]
    fn linux(&mut self, first: bool, longer: bool, error: u32, (una, next): (u64, u64), floor: u32) {
        if first {
            self.deviation = error.saturating_mul(2);
            self.variance = self.deviation.max(floor);
            (self.largest, self.round_end) = (self.variance, next);
            return;
        }
        let mut change = i64::from(error) - i64::from(self.deviation / 4);
        if !longer && change > 0 {
            change /= 8;
        }
        self.deviation = (i64::from(self.deviation) + change).clamp(0, i64::from(u32::MAX)) as u32;
        if self.deviation > self.largest {
            self.largest = self.deviation;
            self.variance = self.variance.max(self.largest);
        }
        if una > self.round_end {
            self.variance -= self.variance.saturating_sub(self.largest) / 4;
            (self.largest, self.round_end) = (floor, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn timers(granularity: Duration, min_rto: Duration) -> Timers {
        Timers {
            rto: RtoRule::Rfc6298,
            initial_rto: MS(1000),
            min_rto,
            max_rto: MS(64_000),
            granularity,
            phase: Duration::ZERO,
            max_retransmissions: 15,
            max_syn_retransmissions: 6,
            max_syn_ack_retransmissions: 5,
            linear_syn_retransmissions: 0,
            time_wait: MS(60_000),
        }
    }

    fn after(samples: &[u64], rto: RtoRule, timers: &Timers) -> Rtt {
        let timers = Timers { rto, ..*timers };
        let mut rtt = Rtt::new(&timers);
        for (round, sample) in samples.iter().enumerate() {
            let place = round as u64 * 1000;
            rtt.sample(Instant::from_millis(10_000 + place), MS(*sample), (place + 1, place + 1000), &timers);
        }
        rtt
    }

    #[test]
    fn the_first_sample_gives_three_times_itself() {
        // RFC 6298 §2.2: srtt = R, rttvar = R/2, RTO = srtt + 4·rttvar.
        let timers = timers(Duration::from_micros(1), MS(1));
        let rtt = after(&[100], RtoRule::Rfc6298, &timers);
        assert_eq!((rtt.srtt(), rtt.rto(&timers)), (Some(MS(100)), MS(300)));
    }

    #[test]
    fn further_samples_count_an_eighth_and_a_quarter() {
        // §2.3: rttvar = 3/4·50 + 1/4·80 = 57.5, srtt = 100 + 80/8 = 110.
        let timers = timers(Duration::from_micros(1), MS(1));
        let rtt = after(&[100, 180], RtoRule::Rfc6298, &timers);
        assert_eq!((rtt.srtt(), rtt.rto(&timers)), (Some(MS(110)), MS(340)));
    }

    #[test]
    fn the_floor_is_of_the_sum_for_the_rfc_and_of_the_variance_for_linux() {
        let timers = timers(Duration::from_micros(1), MS(200));
        let steady = [50; 100];
        assert_eq!(after(&steady, RtoRule::Rfc6298, &timers).rto(&timers), MS(200));
        assert_eq!(after(&steady, RtoRule::Linux, &timers).rto(&timers), MS(250));
    }

    #[test]
    fn linux_forgets_a_deviation_by_a_quarter_a_round_trip() {
        let timers = timers(Duration::from_micros(1), MS(200));
        let mut samples = vec![50; 20];
        samples.push(1050);
        let peak = after(&samples, RtoRule::Linux, &timers).rto(&timers);
        assert!(peak > MS(1100) && peak < MS(1250), "{peak:?}");
        samples.extend([50; 40]);
        let later = after(&samples, RtoRule::Linux, &timers).rto(&timers);
        assert!(later < MS(300), "{later:?}");
    }

    #[test]
    fn a_coarse_clock_measures_whole_ticks_and_at_least_one() {
        let timers = timers(MS(500), MS(1000));
        assert_eq!(after(&[30], RtoRule::Rfc6298, &timers).srtt(), Some(MS(500)));
        assert_eq!(after(&[1200], RtoRule::Rfc6298, &timers).srtt(), Some(MS(1500)));
        assert_eq!(after(&[30], RtoRule::Rfc6298, &timers).min(), Some(MS(30)));
    }

    #[test]
    fn back_off_doubles_up_to_the_ceiling_and_a_sample_ends_it() {
        let timers = timers(Duration::from_micros(1), MS(200));
        let mut rtt = after(&[100], RtoRule::Rfc6298, &timers);
        let seen: Vec<_> = (0..9)
            .map(|_| {
                rtt.back_off();
                rtt.rto(&timers).as_millis()
            })
            .collect();
        assert_eq!(seen, [600, 1200, 2400, 4800, 9600, 19_200, 38_400, 64_000, 64_000]);
        rtt.sample(Instant::from_millis(900), MS(100), (1, 2), &timers);
        assert_eq!(rtt.backoff, 0);
    }
}
