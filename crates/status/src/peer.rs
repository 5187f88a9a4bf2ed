//! What a gateway reports of a peer.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Class, Lane, LaneState, Path, Sojourn};

/// One peer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Its public key.
    pub public_key: String,
    /// Where it is dialled, if it is.
    pub endpoint: Option<String>,
    /// What lies behind it.
    pub routes: Vec<String>,
    /// What protects its data, by the word for it in the file: `tls` or `none`.
    pub encryption: String,
    /// What came from it.
    pub received: Received,
    /// The classes, in the order of the file.
    pub classes: Vec<Class>,
    /// What is known of flows, of all classes together.
    #[serde(default)]
    pub flow_table: FlowTable,
    /// The lanes, by lane group and shard. Several classes may ride on one.
    #[serde(default)]
    pub lanes: Vec<Lane>,
    /// What path control knows of the paths that its lanes take, each once for each DSCP; none without edge pacing.
    #[serde(default)]
    pub paths: Vec<Path>,
    /// The paths to it, if there are several, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uplinks: Vec<Uplink>,
    /// The busiest flows towards it, at most [`FLOWS`], those that have sent most first; empty unless asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<Flow>,
}

impl Peer {
    /// Whether its data travel in clear.
    pub fn in_clear(&self) -> bool {
        self.encryption == "none"
    }

    /// How many of its lanes are up.
    pub fn lanes_up(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.state == LaneState::Up).count()
    }

    /// The class of that name.
    pub fn class(&self, name: &str) -> Option<&Class> {
        self.classes.iter().find(|class| class.name == name)
    }

    /// The lanes that `class` rides on.
    pub fn lanes_of(&self, class: &Class) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().filter(|lane| lane.lane_group == class.lane_group)
    }
}

/// The maximum number of flows that a status has for each peer.
pub const FLOWS: usize = 32;

/// What came from a peer, over all lanes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Received {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Refused: no IP packet.
    pub refused_malformed: u64,
    /// Refused: an offload request that does not fit the packet.
    pub refused_bad_offload: u64,
    /// Refused: a source address that is not among the peer's routes.
    pub refused_forged_source: u64,
    /// Not passed on: another lane had brought them.
    pub duplicates: u64,
    /// Came over bonded paths, and waited for others of their flow: how long.
    pub resequencing: Sojourn,
    /// Came over bonded paths after the wait for them, and were passed on out of order.
    pub late: u64,
    /// Times at which the wait for packets that were missing was given up.
    pub gaps_given_up: u64,
}

impl Received {
    /// Packets refused, for any reason.
    pub const fn refused(&self) -> u64 {
        self.refused_malformed + self.refused_bad_offload + self.refused_forged_source
    }
}

/// How full the tables of flows are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowTable {
    /// Flows in it.
    pub known: u64,
    /// Flows it has room for.
    pub limit: u64,
    /// Flows that were forgotten before their time, to make room.
    pub forgotten: u64,
}

/// One flow towards a peer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flow {
    /// Its class.
    pub class: String,
    /// `tcp`, `udp`, `icmp`, or the number of the protocol above IP.
    pub protocol: String,
    /// Source address, and port where it has one.
    pub source: String,
    /// Destination address, and port where it has one.
    pub destination: String,
    /// Bytes offered. Of two readings, the difference over the time between is its rate.
    pub bytes: u64,
    /// Repeats not carried; no more than 255 are counted.
    pub filtered: u64,
    /// Its last measured round-trip time, µs, where it could be measured; what waits at the edge is not in it.
    pub rtt_us: Option<u64>,
    /// Seconds since its last packet.
    pub idle_s: f64,
}

/// How well one of several paths to a peer works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UplinkState {
    /// It works.
    Up,
    /// Its lanes hold data, and nothing is heard of the peer: flows take other paths.
    Silent,
    /// It has no lane.
    #[default]
    Down,
}

impl fmt::Display for UplinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Up => "up",
            Self::Silent => "silent",
            Self::Down => "down",
        })
    }
}

/// How much a path is to carry in each period, and what it has carried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quota {
    /// How much, in both directions together, bytes.
    pub bytes: u64,
    /// What it has carried in this period, bytes.
    pub used: u64,
    /// The first day of the next period, in UTC: `2026-12-05`.
    pub until: String,
    /// Whether it has carried so much.
    pub is_spent: bool,
    /// What becomes of it then.
    pub then: QuotaThen,
}

/// What becomes of a path that has carried its quota, until the next period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuotaThen {
    /// Flows take it while no other path works.
    #[default]
    LastResort,
    /// It has no lanes.
    Off,
}

/// One of several paths to a peer, over all shards and lane groups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Uplink {
    /// Its name; its number from 1, if the peer dials it and this site has no name for it.
    pub name: String,
    /// Where this site dials the peer on it, if it does.
    pub endpoint: Option<String>,
    /// What its connections are bound to, if anything: interface, address, mark.
    pub via: Option<String>,
    /// What its use costs: of paths that work flows take those with the lowest cost. 7: its quota is spent.
    pub cost: u8,
    /// How much it is to carry in each period, if that is bounded.
    pub quota: Option<Quota>,
    /// How well it works.
    pub state: UplinkState,
    /// Lanes on it.
    pub lanes: u32,
    /// Those of them that are up.
    pub lanes_up: u32,
    /// Flows that take it from this site.
    pub flows: u32,
    /// The shortest smoothed round-trip time of its lanes, µs, of those that have sent something in the last ten seconds.
    pub rtt_us: Option<u64>,
    /// How often it has become silent; of several shards the one that has seen it most often.
    pub silences: u64,
}
