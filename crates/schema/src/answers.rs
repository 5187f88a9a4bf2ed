//! Where a daemon answers: `[control]` and `[metrics]`, of a site and of proxies.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reader::At;
use crate::text::text;

/// What a socket's path is.
pub const SOCKET_PATH: &str = "an absolute path of at most 107 bytes";
/// Where metrics may be served.
pub const METRICS_LISTEN: &str =
    "an address and a port, such as \"127.0.0.1:9460\", or \"unix:\" and an absolute path";
/// The room for a path in a Unix socket's address, less the closing zero.
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// How the command line reaches the daemon.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlTable {
    /// The path of the Unix socket (default: /run/trunkline/NAME.sock).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<SocketPath>,
}

/// Where metrics are served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricsTable {
    /// A loopback address and port, or the path of a Unix socket behind `unix:`.
    pub listen: MetricsAddress,
    /// Whether an address that other machines can reach is meant.
    #[serde(default)]
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

impl fmt::Display for MetricsListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetricsListen::Tcp(address) => address.fmt(f),
            MetricsListen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The path of a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketPath(pub String);

/// Where metrics are served, as a file says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsAddress(pub MetricsListen);

text!(SocketPath, "socket_path", socket_path, SOCKET_PATH);
text!(MetricsAddress, "metrics_address", metrics_address, METRICS_LISTEN);

impl MetricsTable {
    /// Reports an address that others can reach, unless it is meant.
    pub fn check(&self, at: &At<'_>) {
        if let MetricsListen::Tcp(address) = &self.listen.0
            && !is_local(address)
            && !self.allow_remote
        {
            at.key("listen").report(
                format!("{address} can be reached from other machines, and metrics are neither encrypted nor protected"),
                "a loopback address, or allow_remote = true",
            );
        }
    }
}

fn socket_path(text: &str) -> Result<SocketPath, String> {
    let fits = text.starts_with('/')
        && !text.ends_with('/')
        && !text.contains('\0')
        && text.len() <= MAX_SOCKET_PATH_BYTES;
    if fits { Ok(SocketPath(text.to_owned())) } else { Err(format!("{text:?} cannot be a socket's path")) }
}

fn metrics_address(text: &str) -> Result<MetricsAddress, String> {
    let listen = match text.strip_prefix("unix:") {
        Some(path) if !path.starts_with('/') => return Err(format!("{path:?} is no absolute path")),
        Some(path) if path.len() > MAX_SOCKET_PATH_BYTES => {
            return Err(format!(
                "is too long for a socket's path, which has at most {MAX_SOCKET_PATH_BYTES} bytes"
            ));
        }
        Some(path) => MetricsListen::Unix(socket_path(path)?.0.into()),
        None => MetricsListen::Tcp(listen_address(text)?),
    };
    Ok(MetricsAddress(listen))
}

/// An address and port to listen on.
///
/// # Errors
/// What is wrong with the text.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let is_link_local = |ip| matches!(ip, IpAddr::V6(address) if address.is_unicast_link_local());
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() == 0 => Err(format!("{text} has port 0")),
        Ok(SocketAddr::V6(address)) if is_link_local((*address.ip()).into()) && address.scope_id() == 0 => {
            Err(format!("{text} belongs to an interface; give its index, such as [{}%2]", address.ip()))
        }
        Ok(address) => Ok(address),
        Err(_) => Err(format!("{text:?} is no address and port")),
    }
}

/// Whether only this machine can reach the address.
fn is_local(address: &SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_local() {
        for local in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(is_local(&local.parse().unwrap()), "{local}");
        }
        for remote in ["0.0.0.0:1", "[::]:1", "192.168.1.1:1", "10.0.0.1:1"] {
            assert!(!is_local(&remote.parse().unwrap()), "{remote}");
        }
    }

    #[test]
    fn metrics_are_at_an_address_or_a_socket() {
        for good in ["127.0.0.1:9460", "[::1]:9460", "unix:/run/x.sock"] {
            assert_eq!(metrics_address(good).map(|address| address.0.to_string()), Ok(good.to_owned()));
        }
        for wrong in ["127.0.0.1", "127.0.0.1:0", "unix:x.sock", "unix:/", "[fe80::1]:9460"] {
            assert!(metrics_address(wrong).is_err(), "{wrong}");
        }
    }
}
