//! Trunks: what an experiment alone says of one. Classes and lanes are as in a site's file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trunkline_engine::scenario::Family;
use trunkline_engine::site::SiteTrunks;
use trunkline_schema::{Classes, Encryption, LanesSpec, Name, Transport};
use trunkline_sim::LaneSocket;

use crate::quantity::{Rate, Size};

/// A trunk between two gateways. What is not said is as a gateway ships it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-moved" = {
    "sealed": "write encryption = \"tls\" or \"none\"",
    "compression": "write header_compression in each class",
    "edge_pacing": "write lanes.edge_pacing",
    "dscp": "write dscp in each class",
    "carrier": "write transport = \"quic\" in each class, and delivery",
}))]
pub struct TrunkSpec {
    /// Its gateways.
    pub gateways: [String; 2],
    /// The hosts behind each; those that are nearer to it than to the other (in links).
    pub sites: Option<[Vec<String>; 2]>,
    /// Without it, the gateways only route.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Another program's tunnel in the place of the trunk, on the engine `testbed`: "openvpn-tcp", "openvpn-udp", "wireguard",
    /// "wireguard-go". It has no classes, lanes or encryption to choose.
    pub program: Option<String>,
    /// Version of IP of the lanes; that of the experiment. They carry packets of both.
    pub family: Option<Family>,
    /// TCP of the lanes, whose congestion control they have unless another is named; lanes over QUIC have only that of it. Without it, `linux-6` under the congestion control that `lanes` or a class names, or "auto".
    pub tcp: Option<String>,
    /// Whether lanes over TCP carry TLS records; "tls". Those over QUIC are always encrypted.
    pub encryption: Option<Encryption>,
    /// The rate, each way, that the network has reserved for it: its path control goes no lower. Nothing.
    pub reserved: Option<Rate>,
    /// How the gateways' program uses the sockets of lanes over TCP, on the engine `sim`; as ours does.
    pub lane_socket: Option<LaneSocketSpec>,
    /// Its paths, 1 to 4; one, over the shortest way between the gateways. `lanes.paths` and `paths` of a class say which of them a class
    /// takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathSpec>,
    /// What all lanes have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lanes: LanesSpec,
    /// The classes: "interactive", "split", "single", or a list.
    #[serde(default)]
    pub classes: Classes,
}

/// A path of a trunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    /// Its name.
    pub name: Name,
    /// The links by which its lanes leave the gateways: one that ends at both, or one at either or each. A gateway without one sends by
    /// the shortest way.
    pub links: Vec<String>,
    /// What its use costs: of paths that work flows take those with the lowest cost.
    #[serde(default)]
    #[schemars(range(max = 7))]
    pub cost: u8,
}

/// Another program's use of a lane's socket. The programs of the papers wrote into one as it is by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LaneSocketSpec {
    /// Whether Nagle's algorithm is on, where the lanes' TCP has it; no.
    #[serde(default)]
    pub nagle: bool,
    /// Unsent bytes that wait in the socket, behind the edge queue; as few as keep the path busy.
    pub unsent: Option<Size>,
}

impl From<LaneSocketSpec> for LaneSocket {
    fn from(LaneSocketSpec { nagle, unsent }: LaneSocketSpec) -> Self {
        Self { nagle, unsent: unsent.map(|unsent| unsent.0 as usize) }
    }
}

const fn yes() -> bool {
    true
}

fn is_default(lanes: &LanesSpec) -> bool {
    *lanes == LanesSpec::default()
}

impl TrunkSpec {
    /// The same classes and lanes as a gateway's file has them. Rules name hosts where a site's file has prefixes.
    pub(crate) fn site(&self) -> SiteTrunks {
        let in_clear = |encryption: &Encryption| *encryption == Encryption::None && !self.has_quic();
        SiteTrunks {
            encryption: self.encryption.filter(in_clear),
            classes: self.classes.clone(),
            lanes: self.lanes.clone(),
        }
    }

    /// Whether any lanes are over QUIC.
    pub(crate) fn has_quic(&self) -> bool {
        self.classes.list().iter().any(|class| class.transport == Some(Transport::Quic))
    }
}
