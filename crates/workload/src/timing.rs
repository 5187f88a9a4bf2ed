//! When datagrams leave.

use std::sync::Arc;
use std::time::Duration;

use trunkline_units::check::ensure;
use trunkline_units::{Rate, SettingsError};

use crate::{Distribution, check_part};

/// When datagrams leave.
#[derive(Debug, Clone, PartialEq)]
pub enum Timing {
    /// At a constant rate, IP header included.
    Constant(Rate),
    /// At this rate on average, IP header included, with exponentially distributed gaps.
    Poisson(Rate),
    /// At a constant rate at times, and at others not at all.
    OnOff {
        /// While on.
        rate: Rate,
        /// Seconds.
        on: Distribution,
        /// Seconds.
        off: Distribution,
    },
    /// At these times from the start, with so many bytes of data each; from the beginning again after the last if so
    /// much time passes until then.
    Trace {
        /// Times in order.
        datagrams: Arc<[(Duration, u32)]>,
        /// From the start to the start of the repetition; `None`: once.
        repeat: Option<Duration>,
    },
}

impl Timing {
    /// Bytes of data in the longest UDP datagram (RFC 768, RFC 791 §3.1).
    pub const MAX_DATA: u32 = 65_507;
    /// Bytes of an IPv4 and a UDP header, which rates include.
    pub const HEADERS: u32 = 28;
    /// The same of an IPv6 and a UDP header.
    pub const HEADERS_IPV6: u32 = 48;

    /// Whether a datagram can have so many bytes of data.
    pub fn check_data(place: &str, bytes: u32) -> Result<(), SettingsError> {
        ensure(bytes <= Self::MAX_DATA, place, bytes, "up to 65507 bytes")
    }

    /// Whether datagrams can leave like this.
    pub fn check(&self) -> Result<(), SettingsError> {
        let sends = |rate: Rate| {
            let holds = (1..=1_000_000_000_000_000).contains(&rate.bits_per_second());
            ensure(holds, "rate", rate, "1 to 10^15 bit/s")
        };
        match self {
            Timing::Constant(rate) | Timing::Poisson(rate) => sends(*rate),
            Timing::OnOff { rate, on, off } => {
                sends(*rate)?;
                check_part("on", on)?;
                check_part("off", off)?;
                // Else it would send without end in one instant.
                ensure(on.mean() >= 1e-9, "on", on, "a mean of a nanosecond or more")
            }
            Timing::Trace { datagrams, repeat } => {
                ensure(!datagrams.is_empty(), "datagrams", datagrams, "at least one")?;
                let mut before = Duration::ZERO;
                for (number, (at, bytes)) in datagrams.iter().enumerate() {
                    let place = format!("datagrams[{number}]");
                    Self::check_data(&place, *bytes)?;
                    if *at < before {
                        return Err(SettingsError::Order { place, value: format!("{at:?}") });
                    }
                    before = *at;
                }
                let allowed = "more than no time, and no less than the time of the last datagram";
                let holds = repeat.is_none_or(|repeat| !repeat.is_zero() && repeat >= before);
                ensure(holds, "repeat", repeat.unwrap_or_default(), allowed)
            }
        }
    }
}
