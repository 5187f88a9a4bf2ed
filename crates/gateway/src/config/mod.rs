//! A site's configuration: one TOML file, read strictly, into plain resolved values.
//!
//! Every default is filled in, every name checked, every override applied, so that nobody downstream asks
//! "and if it is absent?". Reading is strict because a misspelt key that is silently ignored is a setting
//! that is silently not in force: an unknown key is an error. All errors of a file are reported at once, each
//! with its line, column, key and what is allowed there ([`ConfigError`]).
//!
//! Parsing touches no other file: the private key is read by [`Config::identity`].

mod classes;
mod error;
mod peers;
mod reader;
mod site;
mod values;

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use zeroize::Zeroizing;

pub use error::{ConfigError, ConfigErrors, LoadError};

use crate::keys::{KeyError, PublicKey, SecretKey};

/// `tun.name` unless given.
pub const DEFAULT_TUN_NAME: &str = "trunk0";
/// `tun.mtu` unless given.
pub const DEFAULT_TUN_MTU: u32 = 1500;
/// `tun.tx_queue_len` unless given. Short, since the queue that is managed is the core's, not the device's.
pub const DEFAULT_TX_QUEUE_LEN: u32 = 128;
/// A class's `queue.packets` unless given: the queue of lee2002.
pub const DEFAULT_QUEUE_PACKETS: u32 = 1000;
/// A class's `queue.bytes` unless given.
pub const DEFAULT_QUEUE_BYTES: u64 = 4 << 20;
/// `lanes.congestion_control` unless given.
pub const DEFAULT_CONGESTION_CONTROL: &str = "cubic";
/// Where the control socket lies unless given: `<name>.sock` in here.
pub const RUN_DIRECTORY: &str = "/run/trunkline";
/// Most classes of a site.
pub const MAX_CLASSES: usize = 16;
/// Most queues of the TUN.
pub const MAX_QUEUES: u16 = 16;

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
    /// The device user packets come from and go to.
    pub tun: TunConfig,
    /// What all lanes have in common.
    pub lanes: LanesConfig,
    /// The classes of traffic, in the order they are tried; the last matches everything. Never empty.
    ///
    /// A file without `[[classes]]` gets three, with fair tail drop:
    ///
    /// | name | takes |
    /// | --- | --- |
    /// | `interactive` | ICMP and `ICMPv6`; DSCP EF, VA, CS4 to CS7, AF41 to AF43; port 22, 53 or 123 of TCP or UDP |
    /// | `tcp` | the rest of TCP |
    /// | `other` | everything else: UDP foremost |
    pub classes: Vec<ClassConfig>,
    /// The other sites.
    pub peers: Vec<PeerConfig>,
    /// How `trunkline status` and its kin reach the daemon.
    pub control: ControlConfig,
    /// Where metrics are served, if anywhere.
    pub metrics: Option<MetricsConfig>,
}

/// Where a site's private key is.
#[derive(Debug)]
pub enum PrivateKeySource {
    /// In a file of its own; the path is resolved against the configuration file's directory.
    File(PathBuf),
    /// In the configuration file.
    Inline(SecretKey),
}

/// What protects the data of lanes. The handshake is always authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Encryption {
    /// TLS 1.3 records.
    #[default]
    Tls,
    /// Nothing: data travels in clear.
    None,
}

impl Encryption {
    /// The word for it in a configuration file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::None => "none",
        }
    }
}

/// `[tun]`: the device user packets come from and go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunConfig {
    /// Name of the interface, at most 15 octets.
    pub name: String,
    /// Its addresses with the length of the on-link prefix.
    pub addresses: Vec<IpNet>,
    /// Its MTU in octets.
    pub mtu: u32,
    /// Queues of the device = shards = lanes per class and peer.
    pub queues: u16,
    /// Whether the kernel hands over super-packets and unfinished checksums.
    pub offloads: bool,
    /// Packets the device queue in front of us holds.
    pub tx_queue_len: u32,
}

/// `[lanes]`: what all lanes have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanesConfig {
    /// The congestion control of classes that name none.
    pub congestion_control: String,
    /// The mark (`SO_MARK`) on the packets of lanes.
    pub fwmark: Option<u32>,
}

/// One of `[[classes]]`: a kind of traffic that has lanes and a queue of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassConfig {
    /// Its name, `[a-z0-9_-]{1,32}`. Both ends of a trunk must have a class of this name.
    pub name: String,
    /// A packet belongs here if any of these rules takes it. Empty: every packet.
    pub rules: Vec<RuleConfig>,
    /// The queue in front of each of its lanes.
    pub queue: QueueConfig,
    /// The kernel's name of its lanes' congestion control.
    pub congestion_control: String,
}

/// A rule takes a packet for which all that is given holds. Something is always given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleConfig {
    /// The protocol above IP.
    pub protocol: Option<ProtocolMatch>,
    /// Any of these code points (0 to 63); empty: whatever it is.
    pub dscp: Vec<u8>,
    /// The prefix the source address lies in.
    pub source: Option<IpNet>,
    /// The prefix the destination address lies in.
    pub destination: Option<IpNet>,
    /// Ranges one of which the source port lies in; empty: whatever it is.
    pub source_port: Vec<RangeInclusive<u16>>,
    /// Ranges one of which the destination port lies in; empty: whatever it is.
    pub destination_port: Vec<RangeInclusive<u16>>,
    /// Ranges one of which the source or the destination port lies in; empty: whatever they are.
    pub port: Vec<RangeInclusive<u16>>,
}

/// Which protocol above IP a rule takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolMatch {
    /// ICMP and `ICMPv6`.
    Icmp,
    /// The protocol of this number.
    Number(u8),
}

/// The queue in front of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueConfig {
    /// What it does when it is full, or before.
    pub discipline: Discipline,
    /// Most packets in it.
    pub packets: u32,
    /// Most octets in it.
    pub bytes: u64,
}

/// What a queue does when it is full, or before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Discipline {
    /// What does not fit is dropped.
    #[default]
    TailDrop,
    /// The same, but no flow may hold more than four times the free space.
    FairTailDrop,
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
    /// What lies behind it: routed into the TUN, and the only inner source addresses accepted from it. No
    /// prefix belongs to two peers. Never empty.
    pub routes: Vec<IpNet>,
    /// What protects data between us and it.
    pub encryption: Encryption,
}

/// Where a peer can be dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The machine.
    pub host: Host,
    /// The TCP port.
    pub port: u16,
}

/// The machine of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// By address.
    Address(IpAddr),
    /// By DNS name.
    Name(String),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            Host::Address(address) => SocketAddr::new(*address, self.port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
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

/// Where metrics are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsListen {
    /// On a TCP address; of this machine only unless `allow_remote`.
    Tcp(SocketAddr),
    /// On a Unix socket.
    Unix(PathBuf),
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`LoadError::Read`] when it cannot be read, [`LoadError::Invalid`] with all that is wrong in it.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let read = fs::read_to_string(path);
        // It may hold the private key.
        let text = Zeroizing::new(read.map_err(|source| LoadError::Read { file: path.to_owned(), source })?);
        Ok(Self::parse(&text, path)?)
    }

    /// Checks a file's text. `path` names it in errors, gives the site its default name and is what relative
    /// paths are relative to; nothing is read.
    ///
    /// # Errors
    /// All that is wrong in it.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigErrors> {
        site::parse(text, path)
    }

    /// The site's secret key, read from its file if it has one.
    ///
    /// # Errors
    /// [`KeyError`], also when a peer has been given this very key.
    pub fn identity(&self) -> Result<SecretKey, KeyError> {
        let key = match &self.private_key {
            PrivateKeySource::File(path) => SecretKey::load(path)?,
            PrivateKeySource::Inline(key) => key.to_base64().parse()?,
        };
        match self.peers.iter().find(|peer| peer.public_key == key.public()) {
            Some(peer) => Err(KeyError::OwnKeyAsPeer { peer: peer.name.clone(), key: key.public() }),
            None => Ok(key),
        }
    }

    /// What is allowed and still unlikely to work as meant.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.lanes.fwmark.is_some() {
            return warnings;
        }
        for peer in &self.peers {
            let Some(Endpoint { host: Host::Address(address), .. }) = &peer.endpoint else { continue };
            for owner in &self.peers {
                if let Some(route) = owner.routes.iter().find(|route| route.contains(address)) {
                    warnings.push(format!(
                        "peers.{}.endpoint: {address} lies within {route}, which is routed into the trunk itself; \
                         give its lanes a route of their own, by lanes.fwmark and a rule or by a host route",
                        peer.name
                    ));
                }
            }
        }
        warnings
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
            ("private_key", !self.private_key.same_as(&new.private_key)),
            ("tun.name", self.tun.name != new.tun.name),
            ("tun.queues", self.tun.queues != new.tun.queues),
            ("tun.offloads", self.tun.offloads != new.tun.offloads),
            ("control.socket", self.control.socket != new.control.socket),
            ("metrics.listen", metrics(self) != metrics(new)),
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

impl QueueConfig {
    /// The queue of a class that says nothing about it.
    pub const DEFAULT: Self =
        Self { discipline: Discipline::TailDrop, packets: DEFAULT_QUEUE_PACKETS, bytes: DEFAULT_QUEUE_BYTES };
}

#[cfg(test)]
mod tests;
