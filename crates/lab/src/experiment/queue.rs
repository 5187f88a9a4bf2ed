//! Queues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::{Amount, Share, Size, Time};

/// A queue. Every parameter is a key whatever the discipline, so that one of another discipline is told from a misspelt one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Discipline.
    pub kind: Discipline,
    /// Most packets; 1000 if `bytes` is not given, else no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Most octets; no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// `red`, `fred`: below this average nothing is dropped; `red` takes octets ("20 KB") or, as a bare number, packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Amount>,
    /// `red`, `fred`: from this average on all is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Amount>,
    /// `red`, `fred`, `trunk`: probability of a drop just below `max`, or as the queue fills.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_p: Option<Share>,
    /// `red`, `fred`: of the newest sample in the average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Share>,
    /// `red`: beyond `max` the probability rises to 1 at twice that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gentle: Option<bool>,
    /// `fred`: packets that any flow may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_flow: Option<u32>,
    /// `codel`, `fq-codel`, `pie`: sojourn time that is aimed at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Time>,
    /// `codel`, `fq-codel`: a worst-case round trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Time>,
    /// `fq-codel`: queues that flows are hashed into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<u32>,
    /// `trunk`: P1, a capacity of `RTT_up` × bandwidth (kung1998 §4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sized: Option<bool>,
    /// `trunk`: P2, drops at random before it is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early: Option<bool>,
    /// `trunk`: P3, a flow that lost a packet is spared for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spares: Option<bool>,
    /// `trunk`: the share of the capacity at which P2 begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Share>,
    /// `trunk`: P3's K as a part of the packets that a flow sends until it is back at its old rate, 0 to 8; 0.5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare: Option<f64>,
    /// All but tail drop: ECN-capable packets are marked instead; off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
}

/// A queue's discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// First in, first out; what does not fit is dropped.
    TailDrop,
    /// The same with a bound on each flow.
    FairTailDrop,
    /// Random early detection.
    Red,
    /// Flow random early drop.
    Fred,
    /// RFC 8289.
    #[serde(rename = "codel")]
    CoDel,
    /// RFC 8290.
    #[serde(rename = "fq-codel")]
    FqCoDel,
    /// RFC 8033.
    Pie,
    /// P1, P2 and P3 of Kung and Wang. On a link's queue P1 has no trunk to go by: there it is `bytes`.
    Trunk,
}
