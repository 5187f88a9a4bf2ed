//! Serialisation: the stage that takes time for each byte.

use std::time::Duration;

use trunkline_units::{Instant, Rate, Rng};

use crate::Deliveries;
use crate::deliveries::Moments;
use crate::mobile::{Mobile, Radio, Sending};

/// How long a link takes to send a packet.
#[derive(Debug, Clone)]
pub(crate) struct Serialiser {
    rate: Rate,
    carry: u64,
    moments: Option<Moments>,
    radio: Option<Box<Radio>>,
    busy: Duration,
}

impl Serialiser {
    pub(crate) fn new(rate: Rate, mobile: Option<&Mobile>, rng: Rng) -> Self {
        Serialiser {
            rate,
            carry: 0,
            moments: None,
            radio: mobile.map(|mobile| Box::new(Radio::new(mobile, rng))),
            busy: Duration::ZERO,
        }
    }

    pub(crate) const fn rate(&self) -> Rate {
        self.rate
    }

    /// From the next packet on.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        self.carry = 0;
    }

    /// From the next packet on it sends at these moments, which count from `start`.
    pub(crate) fn set_deliveries(&mut self, deliveries: Option<Deliveries>, start: Instant) {
        self.moments = deliveries.map(|deliveries| Moments::new(deliveries, start));
    }

    /// Lets the moments count from `start`.
    pub(crate) fn restart(&mut self, start: Instant) {
        if let Some(moments) = &mut self.moments {
            moments.restart(start);
        }
    }

    /// From the next packet on.
    pub(crate) fn set_mobile(&mut self, mobile: Option<&Mobile>, rng: Rng) {
        self.radio = mobile.map(|mobile| Box::new(Radio::new(mobile, rng)));
    }

    /// Time spent sending so far; of one that sends at moments the time that its packets take at the mean rate.
    pub(crate) const fn busy(&self) -> Duration {
        self.busy
    }

    pub(crate) const fn has_moments(&self) -> bool {
        self.moments.is_some()
    }

    /// The time that a packet of so many bytes takes, the next in line. What is lost by rounding to nanoseconds is
    /// made up for by later ones.
    #[inline]
    pub(crate) fn send(&mut self, now: Instant, bytes: u32) -> Sending {
        let at_rate = self.rate.time_for(u64::from(bytes), &mut self.carry);
        if let Some(moments) = &mut self.moments {
            self.busy += at_rate;
            return Sending { busy: moments.send(now, bytes).saturating_since(now), late: Duration::ZERO };
        }
        let sending = match &mut self.radio {
            None => Sending { busy: at_rate, late: Duration::ZERO },
            Some(radio) => radio.send(now, bytes, at_rate),
        };
        self.busy += sending.busy;
        sending
    }
}
