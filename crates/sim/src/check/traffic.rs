//! Checks of traffic and its distributions.

use std::time::Duration;

use trunkline_units::Rate;

use super::{Checked, SettingsError, dscp, ensure, probability, tcp};
use crate::{Distribution, NodeId, Pattern, TcpTraffic, Timing, UdpTraffic};

/// Bytes of data in the longest UDP datagram (RFC 768, RFC 791 §3.1).
const MAX_DATAGRAM: u32 = 65_507;

impl Distribution {
    /// Whether there is such a distribution, of numbers that are not negative.
    pub fn check(&self) -> Result<(), SettingsError> {
        let positive =
            |place, value: f64| ensure(value > 0.0 && value.is_finite(), place, value, "a number above 0");
        let log_normal = |mean: f64, deviation: f64| {
            ensure((-700.0..=700.0).contains(&mean), "mean", mean, "-700 to 700: it is of the logarithm")?;
            ensure(
                (0.0..=100.0).contains(&deviation),
                "deviation",
                deviation,
                "0 to 100: it is of the logarithm",
            )
        };
        match *self {
            Distribution::Fixed(value) => {
                ensure(value >= 0.0 && value.is_finite(), "", value, "a number from 0 on")
            }
            Distribution::Uniform(low, high) => {
                let holds = low >= 0.0 && low <= high && high.is_finite();
                ensure(holds, "", (low, high), "two numbers from 0 on, the lower first")
            }
            Distribution::Exponential { mean } => positive("mean", mean),
            Distribution::Pareto { min, shape } => {
                positive("least", min)?;
                positive("shape", shape)
            }
            Distribution::Weibull { scale, shape } => {
                positive("scale", scale)?;
                positive("shape", shape)
            }
            Distribution::LogNormal { mean, deviation } => log_normal(mean, deviation),
            Distribution::WebFile { mean, deviation, body, min, shape } => {
                log_normal(mean, deviation)?;
                probability("body", body)?;
                positive("least", min)?;
                positive("shape", shape)
            }
        }
    }
}

fn drawn(place: &str, distribution: &Distribution) -> Checked {
    distribution.check().map_err(|error| error.within(place))
}

/// What traffic of both kinds has.
fn flow((from, to): (NodeId, NodeId), port: u16, (start, stop): (Duration, Option<Duration>)) -> Checked {
    if from == to {
        let (place, problem) = (String::new(), "sends to itself; allowed: two nodes");
        return Err(SettingsError::Node { place, node: from, problem });
    }
    ensure(port > 0, "port", port, "1 to 65535")?;
    ensure(stop.is_none_or(|stop| stop > start), "stop", stop.unwrap_or_default(), "later than start")
}

impl TcpTraffic {
    /// Connections from one node to one port of another at most, of all sources together: there are not many more ports.
    pub const MAX_CONNECTIONS: u32 = 50_000;

    /// Whether this can be sent.
    pub fn check(&self) -> Result<(), SettingsError> {
        flow((self.client, self.server), self.port, (self.start, self.stop))?;
        dscp(self.dscp)?;
        tcp("tcp[0]", &self.tcp[0])?;
        tcp("tcp[1]", &self.tcp[1])?;
        self.pattern.check().map_err(|error| error.within("pattern"))
    }
}

impl Pattern {
    /// Flows, users or connections.
    pub const fn users(&self) -> u32 {
        match self {
            Pattern::Bulk { flows, .. } => *flows,
            Pattern::Web { users, .. } => *users,
            Pattern::RequestResponse { connections, .. } => *connections,
        }
    }

    /// Whether there can be such transfers.
    pub fn check(&self) -> Result<(), SettingsError> {
        let positive = |place, value: u64| ensure(value > 0, place, value, "1 or more bytes");
        let place = match self {
            Pattern::Bulk { bytes, stagger, .. } => {
                positive("bytes", bytes.unwrap_or(u64::MAX))?;
                drawn("stagger", stagger)?;
                "flows"
            }
            Pattern::Web { request, response, objects, gap, think, .. } => {
                positive("request", *request)?;
                drawn("response", response)?;
                drawn("objects", objects)?;
                drawn("gap", gap)?;
                drawn("think", think)?;
                "users"
            }
            Pattern::RequestResponse { request, response, interval, .. } => {
                positive("request", *request)?;
                positive("response", *response)?;
                drawn("interval", interval)?;
                "connections"
            }
        };
        ensure(self.users() <= TcpTraffic::MAX_CONNECTIONS, place, self.users(), "up to 50000")
    }
}

impl UdpTraffic {
    /// Whether this can be sent.
    pub fn check(&self) -> Result<(), SettingsError> {
        flow((self.from, self.to), self.port, (self.start, self.stop))?;
        dscp(self.dscp)?;
        datagram("data", self.data)?;
        self.timing.check().map_err(|error| error.within("timing"))
    }
}

fn datagram(place: &str, bytes: u32) -> Checked {
    ensure(bytes <= MAX_DATAGRAM, place, bytes, "up to 65507 bytes")
}

impl Timing {
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
                drawn("on", on)?;
                drawn("off", off)?;
                // Else it would send without end in one instant.
                ensure(on.mean() >= 1e-9, "on", on, "a mean of a nanosecond or more")
            }
            Timing::Trace { datagrams, repeat } => {
                ensure(!datagrams.is_empty(), "datagrams", datagrams, "at least one")?;
                let mut before = Duration::ZERO;
                for (number, (at, bytes)) in datagrams.iter().enumerate() {
                    let place = format!("datagrams[{number}]");
                    datagram(&place, *bytes)?;
                    if *at < before {
                        let value = format!("{at:?}");
                        return Err(SettingsError::Order { place, value });
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
