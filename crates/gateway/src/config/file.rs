//! A site's file as it is written: its tables and keys, with the defaults of what is left out.
//!
//! The JSON Schema for editors is made of these types, and so are the messages about keys and values that cannot be. What holds
//! between values is checked afterwards.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use trunkline_schema::quantity::{Rate, Size, Time};
use trunkline_schema::{
    CellRate, Classes, ControlTable, Format, LanesSpec, Leaf, LinkName, MetricsAddress, MetricsTable, Name,
    ProxySettings, ProxySpec, SocketPath,
};

use super::values::{
    InterfaceAddress, InterfaceName, ListenAddress, LocalAddress, PeerEndpoint, PeerKey, Prefix, SiteName,
    StateDirectory, Table,
};
use super::{DEFAULT_TUN_MTU, DEFAULT_TUN_NAME, DEFAULT_TX_QUEUE_LEN, Encryption, OnExit, OverQuota};
use crate::usage::Each;

/// A site.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Trunkline: a site")]
pub(super) struct SiteFile {
    /// The site's name for logs and status (default: the file's name without .toml).
    pub(super) name: Option<SiteName>,
    /// Where peers may dial this site; each address once. Without it the site only dials.
    pub(super) listen: Option<Vec<ListenAddress>>,
    /// The path of a file with what `trunkline genkey` prints, relative to this file's directory.
    pub(super) private_key_file: Option<String>,
    /// The private key itself, 44 characters.
    #[schemars(extend("writeOnly" = true))]
    #[expect(dead_code, reason = "it is set aside before the file is read")]
    pub(super) private_key: Option<String>,
    /// What protects the data between this site and peers that do not say otherwise.
    #[serde(default)]
    pub(super) encryption: Encryption,
    /// The directory of what is kept over restarts; /var/lib/trunkline.
    pub(super) state_directory: Option<StateDirectory>,
    /// The device that user packets come from and go to.
    #[serde(default)]
    pub(super) tun: TunTable,
    /// What all lanes have in common.
    #[serde(default)]
    pub(super) lanes: LanesTable,
    /// Kinds of traffic.
    #[serde(default)]
    pub(super) classes: Classes,
    /// The other sites.
    #[serde(default)]
    pub(super) peers: Vec<PeerTable>,
    /// How the command line reaches the daemon.
    #[serde(default)]
    pub(super) control: ControlTable,
    /// Where metrics are served; nowhere without it.
    pub(super) metrics: Option<MetricsTable>,
    /// What all proxies have in common.
    #[serde(default)]
    pub(super) proxy: ProxySettings,
    /// Transparent TCP proxies beside the trunks. The first one that a connection is of treats it.
    #[serde(default)]
    pub(super) proxies: Vec<ProxySpec>,
}

impl Format for SiteFile {
    const LEAVES: &'static [Leaf] = &[
        Leaf::new::<SiteName>("site_name"),
        Leaf::new::<ListenAddress>("listen_address"),
        Leaf::new::<InterfaceName>("interface"),
        Leaf::new::<InterfaceAddress>("interface_address"),
        Leaf::new::<Table>("routing_table"),
        Leaf::new::<PeerKey>("public_key"),
        Leaf::new::<PeerEndpoint>("endpoint"),
        Leaf::new::<Prefix>("prefix"),
        Leaf::new::<LocalAddress>("local_address"),
        Leaf::new::<StateDirectory>("state_directory"),
        Leaf::new::<SocketPath>("socket_path"),
        Leaf::new::<MetricsAddress>("metrics_address"),
        Leaf::new::<LinkName>("link"),
        Leaf::new::<trunkline_schema::Prefix>("network"),
        Leaf::new::<CellRate>("cell_rate"),
    ];
    // The last class takes what no other does, and flows of one may pass to another. Which proxy a connection is of depends on those
    // before.
    const TOGETHER: &'static [&'static str] = &["classes", "proxies"];
}

/// The device that user packets come from and go to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TunTable {
    /// The name of the interface.
    pub(super) name: InterfaceName,
    /// Its addresses with the length of the on-link prefix.
    pub(super) address: Vec<InterfaceAddress>,
    /// Its MTU in bytes; at least 1280 where there is IPv6.
    #[schemars(range(min = 68, max = 65_535))]
    pub(super) mtu: u32,
    /// Its queues, each with a worker and lanes of its own; the same number at both sites.
    #[schemars(range(min = 1, max = 16))]
    pub(super) queues: u16,
    /// Whether the kernel hands over super-packets and unfinished checksums.
    pub(super) offloads: bool,
    /// Packets that the device's own queue holds.
    #[schemars(range(min = 1, max = 10_000))]
    pub(super) tx_queue_len: u32,
    /// Where the prefixes behind peers are routed.
    pub(super) table: Table,
    /// What becomes of packets to peers while no gateway runs.
    pub(super) on_exit: OnExit,
}

impl Default for TunTable {
    fn default() -> Self {
        TunTable {
            name: InterfaceName(DEFAULT_TUN_NAME.to_owned()),
            address: Vec::new(),
            mtu: DEFAULT_TUN_MTU,
            queues: 1,
            offloads: true,
            tx_queue_len: DEFAULT_TX_QUEUE_LEN,
            table: Table::default(),
            on_exit: OnExit::default(),
        }
    }
}

/// What all lanes have in common: as in an experiment, and what only a kernel has.
#[derive(Debug, Default)]
pub(super) struct LanesTable {
    pub(super) spec: LanesSpec,
    pub(super) fwmark: Option<u32>,
    pub(super) keepalive: Option<Time>,
}

impl<'de> Deserialize<'de> for LanesTable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut table = toml::Table::deserialize(from)?;
        let fwmark = table.remove("fwmark").map(u32::deserialize).transpose();
        let keepalive = table.remove("keepalive").map(Time::deserialize).transpose();
        let spec = LanesSpec::deserialize(table);
        Ok(LanesTable {
            spec: spec.map_err(D::Error::custom)?,
            fwmark: fwmark.map_err(D::Error::custom)?,
            keepalive: keepalive.map_err(D::Error::custom)?,
        })
    }
}

impl JsonSchema for LanesTable {
    fn schema_name() -> Cow<'static, str> {
        "LanesTable".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = LanesSpec::json_schema(generator);
        let fwmark = json_schema!({
            "description": "The mark (`SO_MARK`) of lane connections, for policy routing.",
            "type": "integer",
            "minimum": 1,
            "maximum": u32::MAX,
        });
        let mut keepalive = generator.subschema_for::<Time>();
        keepalive
            .insert("description".to_owned(), "The longest silence of an idle lane over QUIC; 30 s.".into());
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            properties.insert("fwmark".to_owned(), fwmark.to_value());
            properties.insert("keepalive".to_owned(), keepalive.to_value());
        }
        schema
    }
}

/// Another site.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PeerTable {
    /// Its name in logs and status.
    pub(super) name: SiteName,
    /// Its public key.
    pub(super) public_key: PeerKey,
    /// Where to dial it. Without it the peer dials.
    pub(super) endpoint: Option<PeerEndpoint>,
    /// What lies behind it: routed into the device, and accepted from it.
    pub(super) routes: Vec<Prefix>,
    /// What protects the data between this site and it (default: the site's).
    pub(super) encryption: Option<Encryption>,
    /// The rate towards it that the network has reserved for this trunk; nothing.
    pub(super) reserved: Option<Rate>,
    /// The paths to it, if there are several.
    #[serde(default)]
    pub(super) paths: Vec<PathTable>,
}

/// One of several paths to a peer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PathTable {
    /// Its name in logs, status and `paths` of classes.
    pub(super) name: Name,
    /// Where to dial the peer on it (default: the peer's endpoint).
    pub(super) endpoint: Option<PeerEndpoint>,
    /// The local interface that its connections go out of (`SO_BINDTODEVICE`).
    pub(super) interface: Option<InterfaceName>,
    /// The local address of its connections.
    pub(super) address: Option<LocalAddress>,
    /// The mark (`SO_MARK`) of its connections, for policy routing (default: that of `[lanes]`).
    #[schemars(range(min = 1))]
    pub(super) fwmark: Option<u32>,
    /// What its use costs: of paths that work flows take those with the lowest cost.
    #[serde(default)]
    #[schemars(range(max = 6))]
    pub(super) cost: u8,
    /// How much it is to carry in each period.
    pub(super) quota: Option<QuotaTable>,
}

/// How much a path is to carry in each period.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QuotaTable {
    /// How much, in both directions together.
    pub(super) bytes: Size,
    /// The length of a period.
    #[serde(default)]
    pub(super) each: Each,
    /// The day on which a period begins: of a month, 1 to 28; of a week, 1 (Monday) to 7.
    #[schemars(range(min = 1, max = 28))]
    pub(super) from: Option<u8>,
    /// What becomes of the path until the next period, once it has carried so much.
    #[serde(default)]
    pub(super) then: OverQuota,
}
