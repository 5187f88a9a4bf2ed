//! Classes, their rules, and the lanes they ride on, as files say them.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::QueueSpec;
use crate::presets::Preset;
use crate::quantity::{Rate, Time};
use crate::words::{CongestionControlName, Dscp, LaneCount, Lengths, Name, OneOrMany, Ports, Protocol};

/// The classes of a trunk: a word for some, or a list.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Classes {
    /// By a word.
    Preset(Preset),
    /// One by one, in the order in which they are tried.
    List(Vec<ClassSpec>),
}

impl Default for Classes {
    fn default() -> Self {
        Classes::Preset(Preset::default())
    }
}

impl Classes {
    /// One by one.
    pub fn list(&self) -> Vec<ClassSpec> {
        match self {
            Classes::Preset(preset) => preset.classes(),
            Classes::List(classes) => classes.clone(),
        }
    }
}

struct Either;

impl<'de> Visitor<'de> for Either {
    type Value = Classes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of tables, or {}", Preset::words())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Classes, E> {
        let unknown = || E::custom(format!("unknown value {text:?}; allowed: {}", Preset::words()));
        Preset::of_word(text).map(Classes::Preset).ok_or_else(unknown)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Classes, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Classes::List)
    }
}

impl<'de> Deserialize<'de> for Classes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Either)
    }
}

/// What all lanes have, unless a class says otherwise.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-moved" = {
    "*": "how many lanes a class has is `lanes` in its own table: [[classes]] name = \"…\", lanes = 4"
}))]
pub struct LanesSpec {
    /// Their congestion control: the kernel's name of one, or "auto": each lane follows its path; "auto".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<CongestionControlName>,
    /// Whether each lane's pacing has a ceiling that keeps its queue at the edge; yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_pacing: Option<bool>,
    /// Which paths to a peer that has several the classes take that say nothing of it, as their own `paths`; "spread".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<OneOrMany<Name>>,
}

/// A class: a kind of traffic that has a queue of its own, and lanes of its own or a share of some.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-renamed" = { "lane": "lane_group", "repeat_filter": "retransmission_filter" }))]
pub struct ClassSpec {
    /// Its name.
    pub name: Name,
    /// A packet that one of these takes is in the class; without it, every packet.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<RuleSpec>>,
    /// Its edge queue: `trunk` if it takes TCP alone, `codel` if it takes no TCP, else `fq-codel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueSpec>,
    /// The lanes that it rides on, which classes of the same group share; its own, by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane_group: Option<Name>,
    /// How many lanes the group has to each peer in each shard, or "auto": one, and up to 4 on a path that loses packets; 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<LaneCount>,
    /// What the group's lanes are: "tcp", "quic", or "auto" for "quic" where the path carries UDP and "tcp" elsewhere; "tcp".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// How the group's lanes over QUIC deliver: "datagram", which loses what the path loses, or "reliable"; "datagram".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// The congestion control of the group's lanes; that of `[lanes]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<CongestionControlName>,
    /// The code point of the group's outer packets; 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<Dscp>,
    /// Which paths to a peer that has several it takes: "spread", "bonded", "duplicate", "lowest-delay", "most-capacity", or names of paths, the first
    /// that works; "spread".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<OneOrMany<Name>>,
    /// With `paths` of "bonded": a path over which packets would arrive later than over the fastest one by more than this takes none, 1 ms
    /// to 400 ms; by what each path carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder_wait: Option<Time>,
    /// Its share among the classes of its lanes, 1 to 1000; 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub weight: Option<u32>,
    /// The rate that it gets on its lanes before weights count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantee: Option<Rate>,
    /// The rate that it never exceeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Rate>,
    /// Whether it is served before the classes of its lanes without priority; no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<bool>,
    /// Packets that have waited for longer are dropped, 1 ms to 1 min; none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait: Option<Time>,
    /// How many flows it takes at a time; any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<FlowsSpec>,
    /// Whether retransmissions of data that is still in transit in the trunk are dropped; yes, for lanes that lose nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmission_filter: Option<bool>,
    /// Whether its packets are sent over two lanes on a path that loses some, as long as the copies are a small part of what the path
    /// carries; the far site passes on what comes first; no. For lanes of TCP, which are two then, or more as `lanes` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicate: Option<bool>,
    /// Whether headers are compressed where that pays; yes, for lanes of TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header_compression: Option<bool>,
}

impl ClassSpec {
    /// A class of this name with nothing said about it.
    pub fn new(name: &str) -> Self {
        ClassSpec { name: Name(name.to_owned()), ..ClassSpec::default() }
    }

    /// The group of lanes that it rides on.
    pub fn lane_group(&self) -> &str {
        &self.lane_group.as_ref().unwrap_or(&self.name).0
    }
}

/// What lanes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Connections over TCP: nothing is lost, and a loss delays what comes after it.
    Tcp,
    /// Connections over QUIC: congestion-controlled, and a loss delays its own flow at most.
    Quic,
    /// QUIC where the path carries it, else TCP.
    Auto,
}

impl From<Transport> for trunkline_trunk::Transport {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::Tcp => Self::Tcp,
            Transport::Quic => Self::Quic,
            Transport::Auto => Self::Auto,
        }
    }
}

/// How lanes over QUIC deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// In datagrams: what is lost stays lost, and delays nothing.
    Datagram,
    /// In streams: nothing is lost, and a loss delays its own flow only.
    Reliable,
}

impl From<Delivery> for trunkline_trunk::Delivery {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::Datagram => Self::Datagram,
            Delivery::Reliable => Self::Reliable,
        }
    }
}

/// A bound on the flows of a class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowsSpec {
    /// Flows at a time, to each peer in each shard.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub limit: u32,
    /// The class that takes one more; "refuse": its sender is told that it is prohibited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Name>,
}

/// A rule takes a packet for which all that is said holds. Something is always said.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-moved" = { "interactive": "write behaviour = \"interactive\" now" }))]
pub struct RuleSpec {
    /// The protocol above IP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// One of these code points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<OneOrMany<Dscp>>,
    /// The source: a prefix, or in an experiment a host's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The destination: a prefix, or in an experiment a host's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// Where the source port lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<OneOrMany<Ports>>,
    /// Where the destination port lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<OneOrMany<Ports>>,
    /// Where the source or the destination port lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<OneOrMany<Ports>>,
    /// Where the packet's length lies, with the IP header; of a super-packet, the length of one segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<OneOrMany<Lengths>>,
    /// How its flow behaves. Holds for TCP and UDP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behaviour: Option<Behaviour>,
}

/// How a flow behaves, as the core observes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Behaviour {
    /// It sends little: requests and responses, keystrokes, calls.
    Interactive,
}
