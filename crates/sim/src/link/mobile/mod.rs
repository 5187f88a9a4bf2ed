//! Radio links as a sender of packets sees them: the time that one packet takes, repairs below IP and all.

use std::time::Duration;

use trunkline_units::Rng;

use crate::random;

/// What a radio link adds to the time in which it sends a packet.
#[derive(Debug, Clone, PartialEq)]
pub enum Mobile {
    /// A time for repairs, Pareto distributed, added to the serialisation of each packet (bosau2004 §5).
    Pareto {
        /// Mean of that time.
        mean: Duration,
        /// Shape, above 1: the smaller, the heavier the tail.
        shape: f64,
    },
}

impl Mobile {
    /// The time that the next packet, of so many octets, takes on a link that would send it in `plain` if nothing had to
    /// be repaired.
    pub(crate) fn service_time(&mut self, rng: &mut Rng, _bytes: u32, plain: Duration) -> Duration {
        match *self {
            Mobile::Pareto { mean, shape } => {
                let least = mean.as_secs_f64() * (shape - 1.0) / shape;
                plain + Duration::from_secs_f64(random::pareto(rng, least, shape).min(1e6))
            }
        }
    }
}
