//! The stage that takes time for each octet.

use std::time::Duration;

use trunkline_units::{Rate, Rng};

use super::mobile::Mobile;

/// How long a link takes to send a packet.
#[derive(Debug, Clone)]
pub(crate) struct Serialiser {
    rate: Rate,
    carry: u64,
    mobile: Option<Box<(Mobile, Rng)>>,
    busy: Duration,
}

impl Serialiser {
    pub(crate) fn new(rate: Rate, mobile: Option<Mobile>, rng: Rng) -> Self {
        Serialiser {
            rate,
            carry: 0,
            mobile: mobile.map(|mobile| Box::new((mobile, rng))),
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

    /// Time spent sending so far.
    pub(crate) const fn busy(&self) -> Duration {
        self.busy
    }

    /// The time that a packet of so many octets takes, the next in line. What is lost by rounding to nanoseconds is
    /// made up for by later ones.
    #[inline]
    pub(crate) fn time(&mut self, bytes: u32) -> Duration {
        let mut time = self.rate.time_for(u64::from(bytes), &mut self.carry);
        if let Some(mobile) = &mut self.mobile {
            let (mobile, rng) = &mut **mobile;
            time = mobile.service_time(rng, bytes, time);
        }
        self.busy += time;
        time
    }
}
