//! Trunks.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::QueueSpec;
use crate::quantity::Rate;

/// A trunk between two gateways.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrunkSpec {
    /// Its gateways.
    pub gateways: [String; 2],
    /// The hosts behind each; those that are nearer to it than to the other (in links).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sites: Option<[Vec<String>; 2]>,
    /// Without it, the gateways only route.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// TCP of the lanes, or whose congestion control lanes of datagrams follow; `linux-6`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<String>,
    /// What carries the lanes.
    #[serde(default)]
    pub carrier: Carrier,
    /// Classes, in the order in which they are tried; one of all packets.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub classes: IndexMap<String, ClassSpec>,
    /// Lanes of each group that classes name with `lane`; 1.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub lanes: IndexMap<String, u8>,
    /// Header compression.
    #[serde(default)]
    pub compression: bool,
    /// Whether each lane's pacing has a ceiling that keeps its queue at the edge.
    #[serde(default)]
    pub edge_pacing: bool,
    /// Whether lanes carry TLS records.
    #[serde(default)]
    pub sealed: bool,
    /// Code point of the lanes' packets, 0 to 63; 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
}

const fn yes() -> bool {
    true
}

/// What carries the lanes of a trunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// TCP: all that is taken arrives, in order.
    #[default]
    Tcp,
    /// Datagrams under congestion control, which are never repeated.
    Datagrams,
}

/// A class of a trunk.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassSpec {
    /// A packet that one of these takes is in the class; none: every packet.
    #[serde(default, rename = "match", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleSpec>,
    /// Its edge queue; tail drop, 1000 packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueSpec>,
    /// The group of lanes it shares with others; one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// Its share among the classes of its lanes, 1 to 1000; 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// The rate that it gets before weights count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantee: Option<Rate>,
    /// The rate that it never exceeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Rate>,
    /// It is served before classes without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<bool>,
    /// How many flows it takes at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<AdmissionSpec>,
    /// Whether repeats of what is in the trunk already are dropped; yes for lanes of TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat_filter: Option<bool>,
}

/// A bound on flows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdmissionSpec {
    /// Flows at a time.
    pub limit: u32,
    /// The class that one more goes to; it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
}

/// A rule: all that is said holds. Something is always said.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// `tcp` or `udp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Code points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dscp: Vec<u8>,
    /// A host: packets that it sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// A host: packets for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// Ports, either of which is one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub port: Vec<u16>,
    /// Flows that send little.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interactive: bool,
}
