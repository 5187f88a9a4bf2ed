//! What hosts send.

use schemars::JsonSchema;
use serde::de::Deserializer;
use serde::{Deserialize, Serialize};

use crate::quantity::{Rate, Share, Size, Time};
use trunkline_engine::scenario::Family;
use trunkline_schema::Either;

/// A source of traffic. Every parameter is a key whatever the kind; those of other kinds are refused by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrafficSpec {
    /// What is sent.
    pub kind: TrafficKind,
    /// Who opens connections, or sends datagrams.
    pub from: String,
    /// Who answers, or receives them.
    pub to: String,
    /// Without it, nothing is sent, and its group has no metrics if it has no other source.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Sources that are counted together have the same group; its own name.
    pub group: Option<String>,
    /// Port of `to`; TCP 80, UDP 9.
    pub port: Option<u16>,
    /// Version of IP; that of the experiment.
    pub family: Option<Family>,
    /// Code point, 0 to 63; 0.
    pub dscp: Option<u8>,
    /// When it begins; at once.
    pub start: Option<Time>,
    /// When it ends; never.
    pub stop: Option<Time>,
    /// TCP of both ends, or of each.
    pub tcp: Option<String>,
    /// TCP of `to`, where it is another.
    pub tcp_to: Option<String>,

    /// `bulk`: connections; 1. `web`, `requests`: users. `arrivals`: connections at a time, at most; 200.
    pub flows: Option<u32>,
    /// `bulk`: bytes of each; no end.
    pub bytes: Option<Size>,
    /// `bulk`: from the start of one to that of the next; 0 s.
    pub stagger: Option<DistributionSpec<Time>>,
    /// `web`, `requests`, `arrivals`: bytes of a request; 300 B.
    pub request: Option<Size>,
    /// `web`, `requests`, `arrivals`: bytes of an answer. `web` without it: as Surge (Barford and Crovella 1998).
    pub response: Option<DistributionSpec<Size>>,
    /// `web`: objects of a page; 1, or as Surge.
    pub objects: Option<DistributionSpec<f64>>,
    /// `web`: from one object to the next; 0 s, or as Surge.
    pub gap: Option<DistributionSpec<Time>>,
    /// `web`: from a page to the next. `requests`: from a request to the next, over one connection.
    pub think: Option<DistributionSpec<Time>>,
    /// `arrivals`: data of all answers together, on average: a rate, or a share of a link's.
    pub load: Option<LoadSpec>,
    /// `arrivals`: the connection of a request; one that is idle.
    pub assign: Option<AssignmentName>,

    /// `udp`: rate, IP header and all.
    pub rate: Option<Rate>,
    /// `udp`: bytes of a packet, IP header and all; 1500 B.
    pub packet: Option<Size>,
    /// `udp`: when datagrams leave; constant.
    pub timing: Option<TimingName>,
    /// `udp`, `on-off`: how long it sends.
    pub on: Option<DistributionSpec<Time>>,
    /// `udp`, `on-off`: how long it does not.
    pub off: Option<DistributionSpec<Time>>,
}

const fn yes() -> bool {
    true
}

/// A kind of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrafficKind {
    /// Transfers from `from` to `to`, as fast as TCP goes.
    Bulk,
    /// Users at `from` who fetch one object after another from `to`, over a connection each (HTTP/1.0).
    Web,
    /// Connections that stay, with a request now and then and an answer to each.
    Requests,
    /// Requests that arrive at exponentially distributed intervals, whatever became of those before, over connections that stay.
    Arrivals,
    /// Datagrams.
    Udp,
}

/// Which connection a request has that arrives by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AssignmentName {
    /// The one that has been idle for the longest time.
    Idle,
    /// One of all at random, for which it waits if it is busy.
    Random,
}

/// When datagrams leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimingName {
    /// At a constant rate.
    Constant,
    /// With exponentially distributed gaps.
    Poisson,
    /// At a constant rate at times, and at others not at all.
    OnOff,
}

/// How much is asked for: a rate, or a share of a link's rate: `"84 Mbit/s"`, or `{ share = 0.875, link = "core" }`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum LoadSpec {
    /// A rate.
    Rate(Rate),
    /// A share of a link's rate.
    Of(LoadOf),
}

/// A share of a link's rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadOf {
    /// Which.
    pub share: Share,
    /// One way of a link: its name, or its name and `.back`.
    pub link: String,
}

impl<'de> Deserialize<'de> for LoadSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Either::deserialize(from).map(|either| match either {
            Either::Scalar(rate) => LoadSpec::Rate(rate),
            Either::Table(of) => LoadSpec::Of(of),
        })
    }
}

/// A value, or a distribution of values: `"8 KB"`, or `{ shape = "exponential", mean = "0.5 s" }`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum DistributionSpec<T> {
    /// Always this.
    Fixed(T),
    /// As `shape` says.
    Random(Shape<T>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for DistributionSpec<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Either::deserialize(from).map(|either| match either {
            Either::Scalar(value) => DistributionSpec::Fixed(value),
            Either::Table(shape) => DistributionSpec::Random(shape),
        })
    }
}

/// A distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "shape", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Shape<T> {
    /// Evenly between the two.
    Uniform {
        /// Minimum.
        from: T,
        /// Maximum.
        to: T,
    },
    /// Exponential.
    Exponential {
        /// Its mean.
        mean: T,
    },
    /// Pareto.
    #[schemars(extend("x-renamed" = { "least": "min" }))]
    Pareto {
        /// Its minimum.
        min: T,
        /// The smaller, the heavier the tail.
        exponent: f64,
    },
    /// By its cumulative distribution function, linear between the points that are given.
    Cdf {
        /// Values, none less than the one before.
        values: Vec<T>,
        /// Of each value, the share of all that are no greater; of the last, 1.
        shares: Vec<Share>,
    },
}
