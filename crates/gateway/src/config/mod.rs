//! A site's configuration: one TOML file, read strictly, into plain resolved values.
//!
//! Every default is filled in, every name checked, every override applied, so that nobody downstream asks
//! "and if it is absent?". Reading is strict because a misspelt key that is silently ignored is a setting
//! that is silently not in force: an unknown key is an error. All errors of a file are reported at once, each
//! with its line, column, key and what is allowed there ([`Mistake`]).
//!
//! Parsing touches no other file: the private key is read by [`Config::identity`].

mod file;
mod leaf;
mod paths;
mod peers;
mod routing;
mod secret;
mod site;
mod values;
mod warnings;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Deserialize;
use trunkline_units::Rate;
use zeroize::Zeroizing;

pub use routing::{AUTO_TABLE, DefaultRouting, MAIN_TABLE, OnExit, RoutingTable};
use trunkline_proxy::Plan;
pub use trunkline_schema::{
    Encryption, MAX_CLASSES, MAX_LANES, MetricsListen, Mistake, Mistakes, is_site_name,
};
use trunkline_schema::{MAX_FILE, read_file};
use trunkline_trunk::{ClassSettings, LaneGroup, Transport, TrunkPlan};
pub use values::{endpoint, interface_address, prefix};

pub use crate::usage::{Each, Period};

use crate::keys::{self, KeyError, PublicKey, SecretKey};

/// `tun.name` unless given.
pub const DEFAULT_TUN_NAME: &str = "trunk0";
/// `tun.mtu` unless given.
pub const DEFAULT_TUN_MTU: u32 = 1500;
/// `tun.tx_queue_len` unless given. Short, since the edge queues manage the backlog, not the device's queue.
pub const DEFAULT_TX_QUEUE_LEN: u32 = 512;
/// `lanes.keepalive` unless given: what most middleboxes bear (RFC 9000 §10.1.2).
pub const DEFAULT_KEEPALIVE: Duration = Duration::from_secs(30);
/// Where the control socket lies unless given: `<name>.sock` in here.
pub const RUN_DIRECTORY: &str = "/run/trunkline";
/// Where what is kept over restarts is unless given.
pub const STATE_DIRECTORY: &str = "/var/lib/trunkline";
/// The maximum number of lanes to a peer in a shard under one name.
pub const MAX_LANES_PER_GROUP: u8 = TrunkPlan::MAX_LANES as u8;
/// The maximum number of queues of the TUN.
pub const MAX_QUEUES: u16 = 16;

/// The JSON Schema of a site's file, for editors.
pub fn json_schema() -> serde_json::Value {
    trunkline_schema::json_schema::<file::SiteFile>().to_value()
}

/// A site's configuration, validated and resolved.
#[derive(Debug)]
pub struct Config {
    /// The file this was read from.
    pub file: PathBuf,
    /// The site's name for logs and status; the file's stem unless given.
    pub name: String,
    /// Where peers may dial us. Empty: we only dial.
    pub listen: Vec<SocketAddr>,
    /// Where our private key is.
    pub private_key: PrivateKeySource,
    /// What protects data between us and peers that do not say otherwise.
    pub encryption: Encryption,
    /// Where what is kept over restarts is.
    pub state_directory: PathBuf,
    /// The device user packets come from and go to.
    pub tun: TunConfig,
    /// The mark (`SO_MARK`) on the packets of lanes: as given, or as default routes of peers need it.
    pub fwmark: Option<u32>,
    /// The longest silence of an idle lane over QUIC.
    pub keepalive: Duration,
    /// The classes of traffic, and the lane groups that they ride on.
    pub trunk: TrunkPlan,
    /// The other sites.
    pub peers: Vec<PeerConfig>,
    /// How `trunkline status` and its kin reach the daemon.
    pub control: ControlConfig,
    /// Where metrics are served, if anywhere.
    pub metrics: Option<MetricsConfig>,
    /// The transparent proxies beside the trunks, if any.
    pub proxies: Option<Plan>,
}

/// Where a site's private key is.
#[derive(Debug)]
pub enum PrivateKeySource {
    /// In a file of its own; the path is resolved against the configuration file's directory.
    File(PathBuf),
    /// In the configuration file.
    Inline(SecretKey),
}

/// `[tun]`: the device user packets come from and go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunConfig {
    /// Name of the interface, at most 15 bytes.
    pub name: String,
    /// Its addresses with the length of the on-link prefix.
    pub addresses: Vec<IpNet>,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Queues of the device = shards; each has lanes of its own to each peer.
    pub queues: u16,
    /// Whether the kernel hands over super-packets and unfinished checksums.
    pub offloads: bool,
    /// Packets the device queue in front of us holds.
    pub tx_queue_len: u32,
    /// Where the prefixes behind peers are routed.
    pub table: RoutingTable,
    /// What becomes of packets to peers while no gateway runs.
    pub on_exit: OnExit,
}

/// One of `[[peers]]`: another site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerConfig {
    /// Its name in logs and status.
    pub name: String,
    /// What it proves to be.
    pub public_key: PublicKey,
    /// Where to dial it. Absent: we wait for it to dial.
    pub endpoint: Option<Endpoint>,
    /// What lies behind it: routed into the TUN, and the inner source addresses accepted from it, except those in a
    /// longer prefix of another peer. No prefix belongs to two peers. Never empty.
    pub routes: Vec<IpNet>,
    /// What protects data between us and it.
    pub encryption: Encryption,
    /// The rate towards it that the network has reserved for the trunk.
    pub reserved: Option<Rate>,
    /// The paths to it, at most [`TrunkPlan::MAX_PATHS`]; empty: one, without a name.
    pub paths: Vec<PathConfig>,
}

impl PeerConfig {
    /// The endpoint to dial on a path; none on further paths than those of the configuration, which the peer dials.
    pub fn endpoint_on(&self, path: u8) -> Option<&Endpoint> {
        if path == 0 || self.path(path).is_some() {
            self.path(path).and_then(|path| path.endpoint.as_ref()).or(self.endpoint.as_ref())
        } else {
            None
        }
    }

    /// Whether there is anything to dial.
    pub fn is_dialled(&self) -> bool {
        self.endpoint.is_some() || self.paths.iter().any(|path| path.endpoint.is_some())
    }

    /// One of several paths to it.
    pub fn path(&self, path: u8) -> Option<&PathConfig> {
        self.paths.get(usize::from(path))
    }
}

/// One of `[[peers.paths]]`: a path to a peer that has several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathConfig {
    /// Its name in logs, status and `paths` of classes.
    pub name: String,
    /// Where to dial the peer on it, if not at the peer's endpoint.
    pub endpoint: Option<Endpoint>,
    /// What its connections are bound to.
    pub via: Via,
    /// What its use costs: of paths that work flows take those with the lowest cost.
    pub cost: u8,
    /// How much it is to carry in each period.
    pub quota: Option<QuotaConfig>,
}

/// How much a path is to carry in each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaConfig {
    /// How much, in both directions together, as IP packets.
    pub bytes: u64,
    /// The periods.
    pub period: Period,
    /// What becomes of the path until the next period, once it has carried so much.
    pub then: OverQuota,
}

/// What becomes of a path that has carried its quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OverQuota {
    /// Flows take it while no other path works.
    #[default]
    LastResort,
    /// It has no lanes.
    Off,
}

/// The way that the connections of a path take from this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Via {
    /// The interface that they go out of (`SO_BINDTODEVICE`).
    pub interface: Option<String>,
    /// Their local address.
    pub address: Option<IpAddr>,
    /// Their mark (`SO_MARK`), if it is not that of all lanes.
    pub fwmark: Option<u32>,
}

impl std::fmt::Display for Via {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let interface = self.interface.clone();
        let parts = interface.into_iter().chain(self.address.map(|address| address.to_string()));
        let parts = parts.chain(self.fwmark.map(|mark| format!("mark {mark}")));
        f.write_str(&parts.collect::<Vec<_>>().join(", "))
    }
}

/// Where a peer can be dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The machine.
    pub host: Host,
    /// Its ports, one at least, in the order in which they are tried: networks on the way may carry only some.
    pub ports: Vec<u16>,
}

impl Endpoint {
    /// The most ports of an endpoint.
    pub const MAX_PORTS: usize = 4;

    /// These addresses of its host in the order in which they are dialled: all at the first port, then at the next.
    pub(crate) fn at_ports(addresses: &[SocketAddr], ports: &[u16]) -> Vec<SocketAddr> {
        let mut all = Vec::new();
        for port in ports {
            for mut address in addresses.iter().copied() {
                address.set_port(*port);
                all.push(address);
            }
        }
        all
    }
}

/// The machine of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// By address.
    Address(IpAddr),
    /// By an IPv6 address that is valid on the link of one interface only (RFC 4007).
    LinkLocal(Ipv6Addr, Zone),
    /// By DNS name.
    Name(String),
}

/// The interface that a link-local address belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Zone {
    /// By its index.
    Index(u32),
    /// By its name, which is looked up when it is dialled.
    Name(String),
}

impl std::fmt::Display for Zone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Index(index) => index.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V4(address)) => address.fmt(f)?,
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            Host::LinkLocal(address, zone) => write!(f, "[{address}%{zone}]")?,
            Host::Name(name) => f.write_str(name)?,
        }
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        write!(f, ":{}", ports.join(","))
    }
}

/// `[control]`: how the command line reaches the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlConfig {
    /// The Unix socket's path.
    pub socket: PathBuf,
}

/// `[metrics]`: where metrics are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsConfig {
    /// Where to listen.
    pub listen: MetricsListen,
    /// Whether an address others can reach is meant.
    pub allow_remote: bool,
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Why it cannot be read, or all that is wrong in it.
    pub fn load(path: &Path) -> Result<Self, Mistakes> {
        let unreadable = |problem| Mistakes(vec![Mistake::of_file(path.display().to_string(), problem)]);
        // It may hold the private key.
        let text = Zeroizing::new(read_file(path, MAX_FILE).map_err(unreadable)?);
        Self::parse(&text, path)
    }

    /// Checks a file's text. `path` names it in errors, gives the site its default name and is what relative
    /// paths are relative to; nothing is read.
    ///
    /// # Errors
    /// All that is wrong in it.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Mistakes> {
        site::parse(text, path)
    }

    /// The text of a file without the private key that may be in it, to be shown to others.
    pub fn without_secrets(text: &str) -> String {
        let (text, _) = secret::set_aside(text);
        // Of a text that is no TOML, the key may not be found.
        let is_key = |line: &str| {
            let rest = line.trim_start().strip_prefix("private_key");
            rest.is_some_and(|rest| rest.trim_start().starts_with('='))
        };
        let lines = text.lines().map(|line| if is_key(line) { "private_key = \"(left out)\"" } else { line });
        lines.fold(String::new(), |all, line| all + line + "\n")
    }

    /// The site's secret key, read from its file if it has one.
    ///
    /// # Errors
    /// [`KeyError`], also when a peer has been given one half of this very key.
    pub fn identity(&self) -> Result<SecretKey, KeyError> {
        let key = match &self.private_key {
            PrivateKeySource::File(path) => SecretKey::load(path)?,
            PrivateKeySource::Inline(key) => key.to_base64().parse()?,
        };
        if let Some(peer) = self.peers.iter().find(|peer| key.is_secret_half(&peer.public_key)) {
            return Err(KeyError::PrivateKeyAsPeer { peer: peer.name.clone() });
        }
        match self.peers.iter().find(|peer| peer.public_key == key.public()) {
            Some(peer) => Err(KeyError::OwnKeyAsPeer { peer: peer.name.clone(), key: key.public() }),
            None => Ok(key),
        }
    }

    /// A warning about a private key file that others than its owner can read.
    pub(crate) fn exposed_key(&self) -> Option<String> {
        let PrivateKeySource::File(path) = &self.private_key else { return None };
        let mode = keys::exposed(path)?;
        Some(format!(
            "private_key_file: {} can be read by others than its owner (mode {mode:04o}); chmod 0600 it",
            path.display()
        ))
    }

    /// Whether lanes of some class may be over TCP.
    pub fn may_use_tcp(&self) -> bool {
        self.trunk.groups.iter().any(|group| group.transport != Transport::Quic)
    }

    /// Whether lanes of some class may be over QUIC.
    pub fn may_use_quic(&self) -> bool {
        self.trunk.groups.iter().any(|group| group.transport != Transport::Tcp)
    }

    /// The lane group that a class of this configuration rides on.
    pub fn lane_group(&self, class: &ClassSettings) -> &LaneGroup {
        &self.trunk.groups[class.group]
    }

    /// What is allowed and still unlikely to work as meant.
    pub fn warnings(&self) -> Vec<String> {
        warnings::of(self)
    }

    /// The keys in which `new` differs that a running daemon cannot follow: they are set up before it gives
    /// up its privileges. Empty: a reload does it all.
    ///
    /// The content of a private key file is not looked at; whoever reloads compares the two
    /// [`identity`](Self::identity) values.
    pub fn restart_needed(&self, new: &Self) -> Vec<&'static str> {
        let metrics = |config: &Self| config.metrics.as_ref().map(|metrics| metrics.listen.clone());
        [
            ("name", self.name != new.name),
            ("listen", self.listen != new.listen),
            ("state_directory", self.state_directory != new.state_directory),
            ("private_key", !self.private_key.same_as(&new.private_key)),
            ("tun.name", self.tun.name != new.tun.name),
            ("tun.queues", self.tun.queues != new.tun.queues),
            ("tun.offloads", self.tun.offloads != new.tun.offloads),
            ("control.socket", self.control.socket != new.control.socket),
            ("metrics.listen", metrics(self) != metrics(new)),
            ("proxies", self.proxies != new.proxies),
        ]
        .into_iter()
        .filter_map(|(key, differs)| differs.then_some(key))
        .collect()
    }
}

impl PrivateKeySource {
    fn same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(ours), Self::File(theirs)) => ours == theirs,
            (Self::Inline(ours), Self::Inline(theirs)) => ours.public() == theirs.public(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
