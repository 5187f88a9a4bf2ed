//! What single values look like: names, addresses, prefixes, paths. Each function says what is wrong
//! with a text it does not take; the caller knows where it stands and what is allowed.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, Deserializer};
use toml::Value;
use trunkline_schema::{SITE_NAME, is_site_name, listen_address, wrong_type};

use super::leaf::leaf;
use super::routing::MAIN_TABLE;
use super::{Endpoint, Host, RoutingTable, Zone};
use crate::keys::PublicKey;

/// What [`interface_name`] takes.
pub(super) const INTERFACE_NAME: &str = "1 to 15 bytes without white space, '/', ':' or '%'";
/// What [`StateDirectory`] takes.
pub(super) const STATE_DIRECTORY: &str = "an absolute path, such as \"/var/lib/trunkline\"";
/// What [`ListenAddress`] takes.
pub(super) const LISTEN_ADDRESS: &str = "an address and a port, such as \"0.0.0.0:4600\" or \"[::]:4600\"";
/// What [`endpoint`] takes.
pub(super) const ENDPOINT: &str = "a host and a port, such as \"b.example.net:4600\", \"192.0.2.1:4600\", \"[2001:db8::1]:4600\" or \"[fe80::1%eth0]:4600\", or with up to four ports, such as \"b.example.net:4600,443\"";
/// What [`prefix`] takes.
pub(super) const PREFIX: &str =
    "an address and a prefix length, such as \"10.2.0.0/16\" or \"2001:db8:2::/48\"";
/// What [`local_address`] takes.
pub(super) const LOCAL_ADDRESS: &str = "an address of this machine, such as \"192.0.2.7\" or \"2001:db8::7\"";
/// What [`interface_address`] takes.
pub(super) const INTERFACE_ADDRESS: &str =
    "an address and a prefix length, such as \"10.255.0.1/24\" or \"2001:db8::1/64\"";
/// What [`routing_table`] takes.
const TABLE: &str = "\"auto\", \"main\", or a table's number, 1 to 4294967295 without 253 and 255";
/// The kernel's tables `default` and `local`.
const KERNEL_TABLES: [u32; 2] = [253, 255];
/// What a public key is.
pub(super) const PUBLIC_KEY: &str = "the 44 characters `trunkline pubkey` prints at the peer";

leaf!(
    /// The name of a site.
    SiteName(String) = "site_name", site_name, SITE_NAME
);
leaf!(
    /// The name of an interface.
    InterfaceName(String) = "interface", interface_name, INTERFACE_NAME
);
leaf!(
    /// A directory.
    StateDirectory(String) = "state_directory", state_directory, STATE_DIRECTORY
);
leaf!(
    /// Where peers may dial.
    ListenAddress(SocketAddr) = "listen_address", listen_address, LISTEN_ADDRESS
);
leaf!(
    /// Where a peer can be dialled.
    PeerEndpoint(Endpoint) = "endpoint", endpoint, ENDPOINT
);
leaf!(
    /// What lies behind a peer.
    Prefix(IpNet) = "prefix", prefix, PREFIX
);
leaf!(
    /// An address of this machine.
    LocalAddress(IpAddr) = "local_address", local_address, LOCAL_ADDRESS
);
leaf!(
    /// An address of the device with its network.
    InterfaceAddress(IpNet) = "interface_address", interface_address, INTERFACE_ADDRESS
);
leaf!(
    /// The key of a peer.
    PeerKey(PublicKey) = "public_key", public_key, PUBLIC_KEY
);
/// Which routing table holds the prefixes behind peers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Table(pub(super) RoutingTable);

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        routing_table(&Value::deserialize(from)?)
            .map(Table)
            .map_err(|problem| de::Error::custom(format!("{problem}; allowed: {TABLE}")))
    }
}

impl JsonSchema for Table {
    fn schema_name() -> Cow<'static, str> {
        "routing_table".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "type": "string", "enum": ["auto", "main"] },
                { "type": "integer", "minimum": 1, "maximum": u32::MAX },
            ],
            "description": TABLE
        })
    }
}

fn routing_table(value: &Value) -> Result<RoutingTable, String> {
    match value {
        Value::String(text) if text == "auto" => Ok(RoutingTable::Auto),
        Value::String(text) if text == "main" => Ok(RoutingTable::Main),
        Value::Integer(number) => match u32::try_from(*number) {
            Ok(MAIN_TABLE) => Ok(RoutingTable::Main),
            Ok(number) if KERNEL_TABLES.contains(&number) => {
                Err(format!("{number} is a table of the kernel's"))
            }
            Ok(number) if number > 0 => Ok(RoutingTable::Number(number)),
            _ => Err(wrong_type(value)),
        },
        _ => Err(wrong_type(value)),
    }
}

fn public_key(text: &str) -> Result<PublicKey, String> {
    text.parse().map_err(|error| format!("{error}"))
}

pub(super) fn site_name(text: &str) -> Result<String, String> {
    if is_site_name(text) { Ok(text.to_owned()) } else { Err(format!("{text:?} is no name")) }
}

pub(super) fn interface_name(text: &str) -> Result<String, String> {
    let fits = (1..=15).contains(&text.len())
        && text != "."
        && text != ".."
        && !text.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':' | '%'));
    if fits { Ok(text.to_owned()) } else { Err(format!("{text:?} cannot name an interface")) }
}

/// Where a site is dialled: a host and its ports.
///
/// # Errors
/// What is wrong with the text.
pub fn endpoint(text: &str) -> Result<Endpoint, String> {
    let (host, ports) = text.rsplit_once(':').ok_or_else(|| format!("{text:?} has no port"))?;
    let ports = self::ports(ports)?;
    if let Some((address, zone)) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')?.split_once('%')) {
        return Ok(Endpoint { host: link_local(address, zone)?, ports });
    }
    if let Ok(address) = format!("{host}:{}", ports[0]).parse::<SocketAddr>() {
        if address.is_ipv6() && is_link_local(address.ip()) {
            return Err(format!(
                "{text} belongs to an interface; name it, such as [{}%eth0]:{}",
                address.ip(),
                address.port()
            ));
        }
        return Ok(Endpoint { host: Host::Address(address.ip()), ports });
    }
    if host.contains([':', '[', ']']) {
        return Err(format!("{host:?} is no host; an IPv6 address stands in brackets"));
    }
    if !is_dns_name(host) {
        return Err(format!("{host:?} is no host"));
    }
    Ok(Endpoint { host: Host::Name(host.to_owned()), ports })
}

/// The ports of an endpoint, one at least: `4600` or `4600,443`.
fn ports(text: &str) -> Result<Vec<u16>, String> {
    let mut ports = Vec::new();
    for part in text.split(',') {
        match part.parse::<u16>() {
            Ok(port) if port > 0 && ports.contains(&port) => return Err(format!("{port} is there twice")),
            Ok(port) if port > 0 => ports.push(port),
            _ => return Err(format!("{part:?} is no port")),
        }
    }
    if ports.len() <= Endpoint::MAX_PORTS {
        Ok(ports)
    } else {
        Err(format!("{text} are more than four ports"))
    }
}

/// An address with its interface, by index or name: `fe80::1` and `7` or `eth0`.
fn link_local(address: &str, zone: &str) -> Result<Host, String> {
    let host: Ipv6Addr = address.parse().map_err(|_| format!("{address:?} is no IPv6 address"))?;
    if !is_link_local(host.into()) {
        return Err(format!("{host} is valid everywhere and takes no interface"));
    }
    let zone = match zone.parse() {
        Ok(0) => return Err("0 is the index of no interface".to_owned()),
        Ok(index) => Zone::Index(index),
        Err(_) => Zone::Name(interface_name(zone)?),
    };
    Ok(Host::LinkLocal(host, zone))
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Whether this can be a host's name (RFC 1123 §2.1), and is no number that resolvers take for an address.
fn is_dns_name(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let label_fits = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let numeric = host.rsplit('.').next().is_some_and(|last| last.bytes().all(|c| c.is_ascii_digit()));
    host.len() <= 253 && host.split('.').all(label_fits) && !numeric
}

/// A prefix without host bits.
///
/// # Errors
/// What is wrong with the text.
pub fn prefix(text: &str) -> Result<IpNet, String> {
    let net = text.parse::<IpNet>().map_err(|_| format!("{text} is no prefix"))?;
    if net == net.trunc() {
        Ok(net)
    } else {
        Err(format!("{text} has bits set behind its prefix; {} is meant", net.trunc()))
    }
}

pub(super) fn local_address(text: &str) -> Result<IpAddr, String> {
    let address = text.parse::<IpAddr>().map_err(|_| format!("{text} is no address"))?;
    if is_link_local(address) {
        return Err(format!("{address} belongs to an interface; name that instead"));
    }
    if address.is_unspecified() || address.is_multicast() {
        return Err(format!("{address} cannot be the source of a connection"));
    }
    Ok(address)
}

/// A directory, by an absolute path.
fn state_directory(text: &str) -> Result<String, String> {
    if text.starts_with('/') { Ok(text.to_owned()) } else { Err(format!("{text:?} is no absolute path")) }
}

/// An address of an interface with the length of its network.
///
/// # Errors
/// What is wrong with the text.
pub fn interface_address(text: &str) -> Result<IpNet, String> {
    let net = text.parse::<IpNet>().map_err(|_| format!("{text} is no address and prefix length"))?;
    let address = net.addr();
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        Err(format!("{text} cannot be an interface's address"))
    } else {
        Ok(net)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_names_or_addresses() {
        let name = endpoint("b.example.net:4600").unwrap();
        assert_eq!(name, Endpoint { host: Host::Name("b.example.net".to_owned()), ports: vec![4600] });
        let several = "b.example.net:4600,443 192.0.2.1:1,2,3,4 [2001:db8::1]:4600,443 [fe80::1%eth0]:2,1";
        for text in several.split(' ') {
            assert_eq!(endpoint(text).unwrap().to_string(), text);
        }
        assert_eq!(endpoint("b:443,4600,443").unwrap_err(), "443 is there twice");
        assert_eq!(endpoint("192.0.2.1:1").unwrap().to_string(), "192.0.2.1:1");
        assert_eq!(endpoint("[2001:db8::1]:65535").unwrap().to_string(), "[2001:db8::1]:65535");
        assert_eq!(endpoint("host:1").unwrap().to_string(), "host:1");
        for wrong in [
            "b.example.net",
            "b:0",
            "b:65536",
            ":4600",
            "2001:db8::1:4600",
            "[::1",
            "[b]:1",
            "a b:1",
            "-a:1",
            "a..b:1",
            "10.0.0.256:1",
            "1.2.3:4",
            "b:4600,",
            "b:,443",
            "b:4600, 443",
            "b:4600,0",
            "b:1,2,3,4,5",
        ] {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_link_local_address_keeps_its_interface() {
        for (text, zone) in
            [("[fe80::1%7]:4600", Zone::Index(7)), ("[fe80::1%eth0]:4600", Zone::Name("eth0".to_owned()))]
        {
            let endpoint = endpoint(text).unwrap();
            assert_eq!(endpoint.host, Host::LinkLocal("fe80::1".parse().unwrap(), zone));
            assert_eq!(endpoint.to_string(), text);
        }
        assert!(endpoint("[fe80::1]:4600").unwrap_err().contains("belongs to an interface"));
        for wrong in
            ["[2001:db8::1%7]:1", "[fe80::1%0]:1", "[fe80::1%]:1", "[fe80::1%a b]:1", "[10.0.0.1%1]:1"]
        {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
        assert_eq!(listen_address("[fe80::1%7]:4600").unwrap().to_string(), "[fe80::1%7]:4600");
        assert!(listen_address("[fe80::1]:4600").is_err());
    }

    #[test]
    fn a_prefix_has_no_host_bits_and_says_what_was_meant() {
        assert!(prefix("10.2.0.0/16").is_ok() && prefix("::/0").is_ok());
        assert!(prefix("10.2.0.1/16").unwrap_err().contains("10.2.0.0/16 is meant"));
        assert_eq!(prefix("10.0.0.0/33").unwrap_err(), "10.0.0.0/33 is no prefix");
        assert!(prefix("10.0.0.0").is_err());
    }

    #[test]
    fn names_fit_where_they_are_used() {
        assert!(interface_name("abcdefghijklmno").is_ok() && interface_name("abcdefghijklmnop").is_err());
        for wrong in ["", ".", "..", "a/b", "a b", "a:b", "tun%d", "a\n"] {
            assert!(interface_name(wrong).is_err(), "{wrong:?}");
        }
        for wrong in ["", ".a", "a/b", "a b", "ä"] {
            assert!(site_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
