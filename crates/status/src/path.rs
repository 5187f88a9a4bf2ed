//! What path control knows of a path.

use serde::{Deserialize, Serialize};

/// A path to a peer for packets of one DSCP, which all shards share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Path {
    /// Its name, if there are several.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The DSCP of its lanes' packets.
    pub dscp: u8,
    /// What bounds it.
    pub mode: EdgePacing,
    /// What the lanes on it may send together, bit/s, while it is held.
    pub rate: Option<u64>,
    /// The estimated capacity for these lanes, bit/s, once the core has had a queue.
    pub capacity: Option<u64>,
    /// The standing queue in the core, µs, once its delay has been measured.
    pub queue_us: Option<u64>,
    /// The queue that is let stand, µs.
    pub target_us: u64,
    /// Whether the queue is measured by the far gateway's reports, or else by round-trip times, which also have the queue on the way
    /// back.
    pub reported: bool,
    /// The part of the packets that it loses while it is not full, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// What was found out last, in words.
    pub cause: Option<String>,
    /// How long measurements were left out in all, µs: nothing arrived though the lanes were busy, since a machine or the network stood
    /// still.
    pub left_out_us: u64,
    /// What each lane group has of it.
    pub lane_groups: Vec<PathShare>,
}

/// What a lane group has of a path, over all shards.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathShare {
    /// The lane group.
    pub lane_group: String,
    /// What its lanes may send together, bit/s, while the path is held and packets wait for them.
    pub granted: Option<u64>,
    /// What arrives of them, bit/s.
    pub delivered: u64,
}

/// What edge pacing does to a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EdgePacing {
    /// It is switched off, or the lane is down.
    #[default]
    Off,
    /// It sets no bound.
    Free,
    /// A rate near the capacity keeps the queue at the edge.
    Held,
    /// Its rate varies from moment to moment: what is in flight is held to what has just arrived.
    Varying,
    /// It sets no bound, because others keep a queue in the core.
    Competing,
}
