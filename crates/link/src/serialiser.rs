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

    /// Time spent sending so far.
    pub(crate) const fn busy(&self) -> Duration {
        self.busy
    }

    /// The time that a packet of so many bytes takes, the next in line. What is lost by rounding to nanoseconds is
    /// made up for by later ones.
    #[inline]
    pub(crate) fn send(&mut self, now: Instant, bytes: u32) -> Sending {
        let plain = match &mut self.moments {
            None => self.rate.time_for(u64::from(bytes), &mut self.carry),
            Some(moments) => moments.send(now, bytes).saturating_since(now),
        };
        let sending = match &mut self.radio {
            None => Sending { busy: plain, late: Duration::ZERO },
            Some(radio) => radio.send(now, bytes, plain),
        };
        self.busy += sending.busy;
        sending
    }
}
