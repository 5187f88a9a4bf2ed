//! Links.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};
use trunkline_link::Deliveries;

use crate::quantity::{Rate, Share, Size, Time};
use trunkline_schema::{Either, LinkQueue};

/// A link between two nodes, or, as `back`, what its way back has that is different.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Where it begins and ends.
    pub ends: Option<[String; 2]>,
    /// A link that has all that is not said here, but for its ends.
    pub like: Option<String>,
    /// Rate.
    pub rate: Option<Rate>,
    /// When it can send, in place of a rate.
    pub deliveries: Option<DeliveriesSpec>,
    /// One-way delay; none.
    pub delay: Option<Time>,
    /// Where packets wait for it; tail drop, 1000 packets.
    pub queue: Option<LinkQueue>,
    /// The longest packet; 1500 B.
    pub mtu: Option<Size>,
    /// Packets that are lost on the way.
    pub loss: Option<LossSpec>,
    /// Packets whose data is damaged on the way.
    pub corruption: Option<Share>,
    /// Packets that arrive twice.
    pub duplication: Option<Share>,
    /// Delay that differs from packet to packet.
    pub jitter: Option<Jitter>,
    /// A radio link's additions.
    pub mobile: Option<Mobile>,
    /// Changes while it runs, in order of time.
    pub changes: Option<Vec<Change>>,
    /// The changes begin anew after this.
    pub repeat: Option<Time>,
    /// The way back, where it differs.
    pub back: Option<Box<LinkSpec>>,
}

/// When a link can send: times, or what gives them.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum DeliveriesSpec {
    /// These times.
    Moments(Moments),
    /// Those of a recording or a model.
    Of(DeliveriesOf),
}

/// What gives the times at which a link can send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum DeliveriesOf {
    /// A trace of mahimahi: its path, or its name in the directory that `--recordings` says.
    Recording(String),
    /// A model of a radio link (Winstein et al. 2013 §3.1): the rate is a Brownian motion, the times are a Poisson process.
    Brownian {
        /// The highest rate; 12 Mbit/s, a thousand packets in a second.
        top: Option<Rate>,
        /// Standard deviation of what the rate changes in a second; 2.4 Mbit/s.
        change: Option<Rate>,
        /// How long an outage lasts on average; 100 ms.
        outage: Option<Time>,
        /// After this it begins anew; 2 min.
        length: Option<Time>,
        /// Of the model's random numbers; 1.
        seed: Option<u32>,
    },
}

impl<'de> Deserialize<'de> for DeliveriesSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Either::deserialize(from).map(|either| match either {
            Either::Scalar(moments) => DeliveriesSpec::Moments(moments),
            Either::Table(of) => DeliveriesSpec::Of(of),
        })
    }
}

/// Times, whole milliseconds with white space between them, at each of which a link can send 1504 bytes: a trace of mahimahi as it is.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(transparent)]
pub struct Moments(#[schemars(with = "String")] pub Deliveries);

impl Moments {
    const PER_LINE: usize = 30;
}

impl Serialize for Moments {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl fmt::Display for Moments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, moment) in self.0.moments().iter().enumerate() {
            let between = match number {
                0 => "",
                _ if number % Self::PER_LINE == 0 => "\n",
                _ => " ",
            };
            write!(f, "{between}{moment}")?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Moments {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        let number = |(place, word): (usize, &str)| {
            let allowed = "whole milliseconds with white space between them";
            word.parse().map_err(|_| {
                D::Error::custom(format!("number {}, {word:?}, is no time; allowed: {allowed}", place + 1))
            })
        };
        let moments: Vec<u32> = text.split_whitespace().enumerate().map(number).collect::<Result<_, _>>()?;
        let refused = |(place, allowed)| {
            D::Error::custom(format!("number {} of the times; allowed: {allowed}", place + 1))
        };
        Deliveries::new(moments).map(Moments).map_err(refused)
    }
}

/// Loss: a share, or bursts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum LossSpec {
    /// Each packet with this probability.
    Uniform(Share),
    /// In bursts.
    Bursts(Bursts),
}

/// Two states, with a probability of loss in each, and one of going over to the other with each packet (Gilbert 1960, Elliott 1963).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// From the good state to the bad one.
    pub to_bad: Share,
    /// And back.
    pub to_good: Share,
    /// Of loss in the good state.
    pub good: Share,
    /// Of loss in the bad state.
    pub bad: Share,
}

impl<'de> Deserialize<'de> for LossSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Either::deserialize(from).map(|either| match either {
            Either::Scalar(share) => LossSpec::Uniform(share),
            Either::Table(bursts) => LossSpec::Bursts(bursts),
        })
    }
}

/// Delay that differs from packet to packet: one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-renamed" = { "most": "max" }))]
pub struct Jitter {
    /// Evenly up to this.
    pub max: Option<Time>,
    /// Exponentially distributed with this mean.
    pub mean: Option<Time>,
    /// Whether a packet may overtake one before it.
    #[serde(default)]
    pub reorders: bool,
}

/// What a radio link adds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Mobile {
    /// Time for repairs added to a packet's serialisation (bosau2004 §4).
    Pareto {
        /// Mean of the time added.
        mean: Time,
        /// Shape of its distribution.
        shape: f64,
        /// Packets that have any.
        share: Share,
    },
    /// Radio blocks that are sent again until they arrive. The link's rate does not matter.
    Rlp {
        /// Bytes of a block.
        block: Size,
        /// A block each interval.
        interval: Time,
        /// Intervals until a lost block is known.
        feedback: u32,
        /// Blocks that are lost.
        errors: Share,
        /// Blocks that a bad time lasts on average; without it, errors are independent.
        burst: Option<f64>,
    },
}

/// A change of a link: one or more of its values from a time on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// From the start of the run.
    pub at: Time,
    /// Rate from then on; "0 bit/s" holds packets back.
    pub rate: Option<Rate>,
    /// One-way delay from then on.
    pub delay: Option<Time>,
    /// Loss from then on.
    pub loss: Option<LossSpec>,
}
