//! Proxies.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use trunkline_schema::CellRate;

use crate::quantity::{Size, Time};

/// What a node that is a proxy does. Every parameter is a key whatever the mode; those of other modes are refused by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxySpec {
    /// What it does.
    pub mode: ProxyModeName,
    /// The hosts behind it: those on the mobile side.
    pub behind: Vec<String>,
    /// `split`, `path-tail`: its TCP towards the network, and towards the hosts behind it unless `tcp_mobile` says another; `linux-6`.
    pub tcp: Option<String>,
    /// `split`, `path-tail`: its TCP towards the hosts behind it.
    pub tcp_mobile: Option<String>,
    /// `path-tail`: the links that are emulated, by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub cells: IndexMap<String, CellSpec>,
    /// `clamp-window`: the most that is offered.
    pub window: Option<Size>,
    /// `freeze`: how long a host is silent before its sender is stopped.
    pub after: Option<Time>,
    /// `clamp-to-room`, `regulate-acks`: packets that may wait before each host's link.
    pub room: Option<u32>,
}

/// What a proxy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyModeName {
    /// Nothing: it is a router.
    None,
    /// Two connections in place of one (I-TCP).
    Split,
    /// The same, acknowledging as an emulated link would (bosau2004 §3).
    PathTail,
    /// Lowers windows.
    ClampWindow,
    /// Lowers windows to what finds a free place before the link (after Chakravorty et al. 2003).
    ClampToRoom,
    /// Stops senders of hosts that are silent (M-TCP).
    Freeze,
    /// Holds acknowledgements back until there is room (Chan and Ramjee 2002).
    RegulateAcks,
}

/// A link that path tail emulation emulates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    /// Hosts in it; all that are behind the proxy.
    pub hosts: Option<Vec<String>>,
    /// The operator's estimate of its throughput; or "measured", from what its hosts acknowledge.
    pub rate: CellRate,
    /// The operator's estimate of the time that repairs add to a packet; none.
    pub recovery: Option<Time>,
    /// Packets of its emulated queue; 1000, or no bound where the rate is measured.
    pub packets: Option<u32>,
    /// Bytes of its emulated queue; no bound, or what half a second brings where the rate is measured.
    pub bytes: Option<Size>,
    /// Bytes that the proxy holds of a connection at the most; no bound.
    pub buffer: Option<Size>,
    /// Each connection has an emulated link of its own (a quality of service with a fixed rate, which is given).
    #[serde(default)]
    pub each_alone: bool,
}
