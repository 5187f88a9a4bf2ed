//! The check of a configuration before the gateway sets anything up, and without privileges.
//!
//! `up`, a reload and `trunkline check` all call [`check`], so that none refuses a file that another accepts. Beyond the
//! file, it reads the private key and tries the congestion controls of the kernel. It does not try addresses and routes:
//! they may be free now and taken when the gateway starts, or the reverse.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{CapabilitySet, capabilities};

use trunkline_congestion::CongestionAlgorithm;
use trunkline_trunk::{LaneGroup, Transport};

use crate::config::{Config, Encryption};
use crate::keys::{KeyError, SecretKey};
use crate::quic::NO_CONTROL;
use crate::sys;

/// Why a gateway refuses to start with a configuration, or to reload it.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The private key.
    #[error(transparent)]
    Key(KeyError),
    /// The congestion control of a lane group.
    #[error(
        "congestion control {name:?} of lane group {lane_group:?}: this kernel does not offer it; allowed: {offered}"
    )]
    CongestionControl {
        /// The lane group.
        lane_group: String,
        /// The name.
        name: String,
        /// The congestion controls that the kernel offers.
        offered: String,
    },
    /// The congestion control of a lane group over QUIC.
    #[error(
        "congestion control {name:?} of lane group {lane_group:?}: lanes that may be over QUIC have none of this name; allowed: {offered}, auto; and none if transport is \"quic\""
    )]
    QuicCongestionControl {
        /// The lane group.
        lane_group: String,
        /// The name.
        name: String,
        /// The congestion controls of lanes over QUIC.
        offered: String,
    },
    /// A peer whose lanes are to be in clear.
    #[error(
        "encryption is \"none\" for {peer:?}: lanes over QUIC, as of lane group {lane_group:?}, are always encrypted; allowed: \"tls\""
    )]
    QuicInClear {
        /// The peer.
        peer: String,
        /// The first lane group over QUIC.
        lane_group: String,
    },
}

/// All reasons to refuse a configuration. Never empty.
#[derive(Debug)]
pub struct Refusals(Vec<Refusal>);

impl Refusals {
    /// The reasons, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Refusal> {
        self.0.iter()
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Refusals {}

/// A configuration that a gateway starts with.
#[derive(Debug)]
pub struct Accepted {
    /// The site's key.
    pub identity: SecretKey,
    /// Settings that are allowed and probably do not work as intended.
    pub warnings: Vec<String>,
}

/// Checks whether a gateway starts with `config`.
///
/// # Errors
/// All reasons to refuse it.
pub fn check(config: &Config) -> Result<Accepted, Refusals> {
    let identity = config.identity().map_err(Refusal::Key);
    let controls = config.trunk.groups.iter().filter_map(|group| congestion_control(group).err());
    let mut refusals: Vec<Refusal> = controls.chain(in_clear(config)).collect();
    match identity {
        Ok(identity) if refusals.is_empty() => {
            let mut warnings = config.warnings();
            warnings.extend(config.exposed_key());
            Ok(Accepted { identity, warnings })
        }
        Ok(_) => Err(Refusals(refusals)),
        Err(key) => {
            refusals.insert(0, key);
            Err(Refusals(refusals))
        }
    }
}

/// The peers that want their lanes in clear although some ride on QUIC.
fn in_clear(config: &Config) -> Vec<Refusal> {
    let Some(group) = config.trunk.groups.iter().find(|group| group.transport != Transport::Tcp) else {
        return Vec::new();
    };
    let peers = config.peers.iter().filter(|peer| peer.encryption == Encryption::None);
    let refusal = |peer: &crate::config::PeerConfig| Refusal::QuicInClear {
        peer: peer.name.clone(),
        lane_group: group.name.to_string(),
    };
    peers.map(refusal).collect()
}

/// Checks that connections can use the congestion control of a lane group, by setting it on a socket: the kernel loads
/// the module on first use, if the process has `CAP_NET_ADMIN`, as the gateway has.
fn congestion_control(group: &LaneGroup) -> Result<(), Refusal> {
    let name = group.congestion_control.initial();
    if group.transport == Transport::Quic && name == NO_CONTROL {
        return Ok(());
    }
    if group.transport != Transport::Tcp {
        name.parse::<CongestionAlgorithm>().map_err(|unknown| Refusal::QuicCongestionControl {
            lane_group: group.name.to_string(),
            name: name.to_owned(),
            offered: unknown.allowed.join(", "),
        })?;
    }
    if group.transport == Transport::Quic {
        return Ok(());
    }
    let tried = || -> io::Result<()> {
        let probe = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        sys::set_congestion_control(probe.as_fd(), name)
    };
    match tried() {
        Ok(()) => Ok(()),
        // It exists, for processes with the capability. Without the capability no gateway starts anyway.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(_) if !is_administrator() && has_module(name) => Ok(()),
        Err(_) => Err(Refusal::CongestionControl {
            lane_group: group.name.to_string(),
            name: name.to_owned(),
            offered: offered().trim().replace(' ', ", "),
        }),
    }
}

fn is_administrator() -> bool {
    capabilities(None).is_ok_and(|ours| ours.effective.contains(CapabilitySet::NET_ADMIN))
}

/// Whether the kernel has a module for the congestion control.
fn has_module(name: &str) -> bool {
    let uname = rustix::system::uname();
    let modules = Path::new("/lib/modules").join(OsStr::from_bytes(uname.release().to_bytes()));
    let modules = fs::read_to_string(modules.join("modules.dep"));
    modules.is_ok_and(|modules| lists_module(&modules, name))
}

/// Whether `modules.dep` has a line for `tcp_<name>.ko`, compressed or not.
fn lists_module(modules: &str, name: &str) -> bool {
    let file = format!("/tcp_{name}.ko");
    let paths = modules.lines().filter_map(|line| line.split_once(':'));
    paths
        .filter_map(|(path, _)| path.split_once(&file))
        .any(|(_, rest)| rest.is_empty() || rest.starts_with('.'))
}

fn offered() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text, Path::new("/nonexistent/site.toml")).expect("a configuration")
    }

    fn key() -> SecretKey {
        SecretKey::generate().expect("a key")
    }

    fn refusals(text: &str) -> Vec<String> {
        let refused = check(&config(text)).expect_err("it is refused");
        refused.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_missing_key_and_an_unknown_congestion_control_are_reported_together() {
        let refused = refusals("private_key_file = \"none.key\"\n[lanes]\ncongestion_control = \"nosuch\"\n");
        // One for the key, and one for the lanes of each of the three default classes.
        assert_eq!(refused.len(), 4, "{refused:#?}");
        assert!(refused[0].contains("/nonexistent/none.key"), "{refused:#?}");
        assert!(refused[1].contains("\"nosuch\"") && refused[1].contains("allowed: "), "{refused:#?}");
        assert!(refused[1].contains("cubic") || refused[1].contains("reno"), "{refused:#?}");
    }

    #[test]
    fn lanes_that_may_be_over_tcp_have_a_congestion_control() {
        let text = |transport: &str| {
            format!(
                "private_key = \"{}\"\n[[classes]]\nname = \"rest\"\ntransport = \"{transport}\"\ncongestion_control = \"none\"\n",
                *key().to_base64()
            )
        };
        assert!(check(&config(&text("quic"))).is_ok());
        for transport in ["tcp", "auto"] {
            let refused = refusals(&text(transport));
            assert!(refused[0].contains("congestion control \"none\""), "{refused:#?}");
        }
    }

    #[test]
    fn the_private_key_in_place_of_a_peers_public_key_is_refused_and_not_shown() {
        let key = key();
        let text = format!(
            "private_key = \"{0}\"\nlisten = [\"0.0.0.0:4600\"]\n\
             [[peers]]\nname = \"b\"\npublic_key = \"{0}\"\nroutes = [\"10.2.0.0/16\"]\n",
            *key.to_base64()
        );
        let refused = refusals(&text);
        assert!(refused[0].contains("peer b") && refused[0].contains("private key"), "{refused:?}");
        assert!(!refused[0].contains(key.to_base64().as_str()), "{refused:?}");
    }

    #[test]
    fn an_accepted_configuration_has_a_key_and_warnings() {
        let key = key();
        let text = format!("private_key = \"{}\"\nclasses = \"single\"\n", *key.to_base64());
        let accepted = check(&config(&text)).expect("it is accepted");
        assert_eq!(accepted.identity.public(), key.public());
        assert!(accepted.warnings.is_empty(), "{:?}", accepted.warnings);
    }

    #[test]
    fn a_key_file_that_others_can_read_is_a_warning() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory: PathBuf =
            std::env::temp_dir().join(format!("trunkline-preflight-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let file = directory.join("a.key");
        fs::write(&file, key().to_base64().as_bytes()).expect("a file");
        let warnings = |mode| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("a mode");
            let text = "private_key_file = \"a.key\"\nclasses = \"single\"\n";
            let config = Config::parse(text, &directory.join("a.toml")).expect("a configuration");
            check(&config).expect("it is accepted").warnings
        };
        let (open, closed) = (warnings(0o644), warnings(0o600));
        fs::remove_dir_all(&directory).expect("it was ours");
        assert!(open.len() == 1 && open[0].contains("a.key") && open[0].contains("0644"), "{open:?}");
        assert!(closed.is_empty(), "{closed:?}");
    }

    #[test]
    fn modules_are_found_by_their_name_alone() {
        let modules = "kernel/net/ipv4/tcp_bbr.ko.zst: kernel/net/sched/x.ko\nkernel/net/ipv4/tcp_htcp.ko:\n\
                       kernel/net/y.ko: kernel/net/ipv4/tcp_vegas.ko\n";
        assert!(lists_module(modules, "bbr") && lists_module(modules, "htcp"));
        assert!(
            !lists_module(modules, "vegas") && !lists_module(modules, "bb") && !lists_module(modules, "")
        );
    }
}
