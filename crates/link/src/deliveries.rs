//! A link that sends at recorded moments, as mahimahi's emulator does (Netravali et al., USENIX ATC 2015).
//!
//! At each moment it may send 1504 bytes: the rest of a packet, whole packets, the first part of one more. What nobody has for it at that
//! moment is lost. So a link that has little to send waits for the next moment, and one that waits in an outage sends nothing.

use std::sync::Arc;
use std::time::Duration;

use trunkline_units::check::ensure;
use trunkline_units::random::{exponential, normal};
use trunkline_units::{Instant, Rate, Rng, SettingsError};

/// The moments at which a link may send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deliveries {
    /// Milliseconds, in order of time.
    moments: Arc<[u32]>,
}

impl Deliveries {
    /// What may be sent at each moment, bytes.
    pub const BYTES: u32 = 1504;
    /// As many moments are allowed.
    pub const MAX_MOMENTS: usize = 10_000_000;

    /// Moments in milliseconds. They begin anew at the last one.
    ///
    /// # Errors
    /// What is wrong with them: the number of the moment from 0, and what is allowed.
    pub fn new(moments: impl Into<Arc<[u32]>>) -> Result<Self, (usize, &'static str)> {
        let moments: Arc<[u32]> = moments.into();
        if let Some(place) = moments.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err((place + 1, "no time before the one in front of it"));
        }
        match moments.last() {
            Some(last) if *last > 0 && moments.len() <= Self::MAX_MOMENTS => Ok(Deliveries { moments }),
            _ => Err((
                moments.len().saturating_sub(1),
                "up to ten million times, the last one later than 0 ms",
            )),
        }
    }

    /// The moments, milliseconds.
    pub fn moments(&self) -> &[u32] {
        &self.moments
    }

    /// The time after which they begin anew.
    pub fn length(&self) -> Duration {
        Duration::from_millis(self.moments.last().copied().unwrap_or_default().into())
    }

    /// What they carry on average.
    pub fn mean_rate(&self) -> Rate {
        let bits = self.moments.len() as u128 * u128::from(Self::BYTES) * 8;
        let rate = bits * 1_000_000_000 / self.length().as_nanos().max(1);
        Rate::from_bits_per_second(u64::try_from(rate).unwrap_or(u64::MAX).max(1))
    }
}

/// A radio link by the model of Winstein et al. 2013 §3.1: its rate is a Brownian motion between zero and a bound, the moments are a Poisson
/// process of that rate, and where the rate is zero it stays so for some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Brownian {
    /// The highest rate.
    pub top: Rate,
    /// Standard deviation of what the rate changes in a second.
    pub change: Rate,
    /// How long an outage lasts on average.
    pub outage: Duration,
    /// After this it begins anew.
    pub length: Duration,
}

impl Brownian {
    /// From one change of the rate to the next, as in the paper.
    const TICK: Duration = Duration::from_millis(20);
    /// An hour.
    const MAX_LENGTH: Duration = Duration::from_secs(3600);

    /// Whether a link can be like this.
    pub fn check(&self) -> Result<(), SettingsError> {
        let highest = Rate::from_mbit(1000.0);
        let holds = |rate: Rate| rate.bits_per_second() > 0 && rate <= highest;
        ensure(holds(self.top), "top", self.top, "1 bit/s to 1 Gbit/s")?;
        ensure(holds(self.change), "change", self.change, "1 bit/s to 1 Gbit/s")?;
        ensure(self.outage <= Self::MAX_LENGTH, "outage", self.outage, "up to 1 h")?;
        let carries = self.top.bytes_in(self.length) / u64::from(Deliveries::BYTES);
        let holds = self.length >= Duration::from_secs(1)
            && self.length <= Self::MAX_LENGTH
            && carries <= Deliveries::MAX_MOMENTS as u64;
        ensure(holds, "length", self.length, "1 s to 1 h, and ten million packets at the highest rate")
    }

    /// Moments of such a link.
    pub fn deliveries(&self, seed: u64) -> Deliveries {
        let mut rng = Rng::new(seed, "deliveries");
        let tick = Self::TICK.as_secs_f64();
        let packets = |rate: Rate| rate.bits_per_second() as f64 / f64::from(Deliveries::BYTES * 8);
        let (top, step) = (packets(self.top), packets(self.change) * tick.sqrt());
        let end = self.length.as_millis() as u32;
        let mut rate = top / 2.0;
        let mut moments = Vec::new();
        // Packets until the next moment.
        let mut left = exponential(&mut rng, 1.0);
        let mut begin = 0.0;
        while begin * 1e3 < f64::from(end) {
            let mut at = 0.0;
            while rate > 0.0 && at + left / rate <= tick {
                at += left / rate;
                left = exponential(&mut rng, 1.0);
                let moment = ((begin + at) * 1e3) as u32;
                // The last tick may reach beyond the end.
                if moment < end {
                    moments.push(moment);
                }
            }
            left -= (tick - at) * rate;
            let ends = rng.chance(tick / self.outage.as_secs_f64().max(tick));
            if rate > 0.0 {
                rate = (rate + step * normal(&mut rng)).max(0.0);
                rate = if rate > top { (2.0 * top - rate).max(0.0) } else { rate };
            } else if ends {
                rate = (step * normal(&mut rng)).abs().min(top);
            }
            begin += tick;
        }
        // The end is a moment, as in a trace of mahimahi: there it begins anew.
        moments.push(end);
        Deliveries { moments: moments.into() }
    }
}

/// Where a link is in its moments.
#[derive(Debug, Clone)]
pub(crate) struct Moments {
    of: Deliveries,
    /// When they began last.
    start: Instant,
    /// The present moment, and what may still be sent at it.
    number: usize,
    left: u32,
}

impl Moments {
    /// Moments that count from `start`.
    pub(crate) fn new(of: Deliveries, start: Instant) -> Self {
        Moments { of, start, number: 0, left: Deliveries::BYTES }
    }

    /// Lets them count from `start`.
    pub(crate) const fn restart(&mut self, start: Instant) {
        (self.start, self.number, self.left) = (start, 0, Deliveries::BYTES);
    }

    fn at(&self) -> Instant {
        self.start + Duration::from_millis(self.of.moments[self.number].into())
    }

    fn advance(&mut self) {
        self.number += 1;
        self.left = Deliveries::BYTES;
        if self.number == self.of.moments.len() {
            (self.number, self.start) = (0, self.start + self.of.length());
        }
    }

    /// The first moment that is not past.
    fn skip_to(&mut self, now: Instant) {
        if self.at() >= now {
            return;
        }
        self.left = Deliveries::BYTES;
        let (length, since) = (self.of.length().as_nanos(), now.saturating_since(self.start).as_nanos());
        self.start += self.of.length() * u32::try_from(since / length).unwrap_or(u32::MAX);
        let within = now.saturating_since(self.start);
        self.number =
            self.of.moments.partition_point(|moment| Duration::from_millis((*moment).into()) < within);
    }

    /// The time at which a packet of so many bytes is sent that begins now.
    pub(crate) fn send(&mut self, now: Instant, mut bytes: u32) -> Instant {
        self.skip_to(now);
        while bytes > self.left {
            bytes -= self.left;
            self.advance();
        }
        self.left -= bytes;
        self.at()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn moments(all: &[u32]) -> Moments {
        Moments::new(Deliveries::new(all).expect("they are in order"), Instant::ZERO)
    }

    #[test]
    fn packets_take_the_moments_there_are_and_the_rest_of_one_moment_is_for_the_next_packet() {
        let mut link = moments(&[2, 2, 7, 30]);
        // The first 1500 bytes leave four for the second packet, and so on.
        assert_eq!(
            [1500, 1500, 1504, 1500, 16, 1500].map(|bytes| link.send(at(0), bytes)),
            [2, 2, 7, 30, 32, 32].map(at)
        );
    }

    #[test]
    fn what_is_not_used_at_its_moment_is_lost() {
        let mut link = moments(&[0, 10, 20]);
        assert_eq!(link.send(at(3), 100), at(10));
        assert_eq!(link.send(at(10), 1404), at(10), "it is there at the moment");
        assert_eq!(link.send(at(11), 100), at(20));
        // A round of 20 ms; its end is the beginning of the next.
        assert_eq!(link.send(at(1_000_001), 1504), at(1_000_010));
        assert_eq!(link.send(at(1_000_010), 1504), at(1_000_020));
        assert_eq!(link.send(at(1_000_020), 1504), at(1_000_020));
    }

    #[test]
    fn moments_out_of_order_and_none_at_all_are_refused() {
        assert_eq!(Deliveries::new([3, 2]).map_err(|(place, _)| place), Err(1));
        assert_eq!(Deliveries::new([0, 0]).map_err(|(place, _)| place), Err(1));
        assert!(Deliveries::new([]).is_err());
        let mean = Deliveries::new([1, 2, 4]).expect("they are in order").mean_rate();
        assert_eq!(mean.bits_per_second(), 3 * 1504 * 8 * 250);
    }

    #[test]
    fn a_brownian_link_reaches_from_outages_to_its_highest_rate_and_carries_half_of_it_or_less() {
        let link = Brownian {
            top: Rate::from_mbit(12.0),
            change: Rate::from_mbit(2.4),
            outage: Duration::from_secs(1),
            length: Duration::from_secs(600),
        };
        link.check().expect("it can be");
        let deliveries = link.deliveries(1);
        assert!(deliveries == link.deliveries(1), "the same seed gives other moments");
        assert!(deliveries != link.deliveries(2), "another seed gives the same");
        assert!(Deliveries::new(deliveries.moments()).is_ok(), "they are not in order");
        assert_eq!(deliveries.length(), link.length);
        let mean = deliveries.mean_rate().bits_per_second() as f64 / 1e6;
        assert!((2.0..8.0).contains(&mean), "{mean} Mbit/s");
        let mut seconds = vec![0; 600];
        deliveries.moments().iter().for_each(|ms| seconds[(ms / 1000).min(599) as usize] += 1);
        let (least, most) = (seconds.iter().min(), seconds.iter().max());
        assert!(least < Some(&20) && most > Some(&800), "{least:?} to {most:?} packets in a second");
        let longest = deliveries.moments().windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest > Some(1000), "no outage: {longest:?} ms");
        let wrong = Brownian { length: Duration::ZERO, ..link };
        assert!(wrong.check().is_err());
    }
}
