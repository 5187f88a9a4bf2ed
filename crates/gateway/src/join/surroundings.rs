//! What a site can find out of the machine that it is set up on: the networks behind it, where it can be dialled, free addresses.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use trunkline_netlink::{Handle, NetlinkError};

use crate::config::{MAIN_TABLE, is_site_name};
use crate::keys::PublicKey;

/// The networks out of which a tunnel's is taken: 10.192.0.0/10, in parts of this length.
const TUNNELS: Ipv4Addr = Ipv4Addr::new(10, 192, 0, 0);
const TUNNEL_LEN: u8 = 24;
const TUNNEL_NUMBERS: u32 = 1 << 14;

/// An interface that is up, with what is on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its addresses, each with its network.
    pub addresses: Vec<IpNet>,
    /// A default route leads out of it.
    pub has_default_route: bool,
}

/// What there is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The interfaces that are up, but for the loopback.
    pub interfaces: Vec<Interface>,
    /// The destinations of all routes in the main table, but for default routes.
    pub routes: Vec<IpNet>,
}

impl Surroundings {
    /// Looks at this machine.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub fn look() -> Result<Self, NetlinkError> {
        let mut handle = Handle::open()?;
        let routes = handle.routes(MAIN_TABLE)?;
        let defaults = routes.iter().filter(|route| route.destination.prefix_len() == 0);
        let defaults: Vec<u32> = defaults.filter_map(|route| route.device).collect();
        let mut interfaces = Vec::new();
        for link in handle.links()?.into_iter().filter(|link| link.up && link.name != "lo") {
            let addresses = handle.addresses(link.index)?.into_iter().map(|one| one.address).collect();
            let has_default_route = defaults.contains(&link.index);
            interfaces.push(Interface { name: link.name, addresses, has_default_route });
        }
        let routes =
            routes.iter().map(|route| route.destination).filter(|net| net.prefix_len() > 0).collect();
        Ok(Self { interfaces, routes })
    }

    /// The same without an interface: the device of the site itself is no surrounding.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.interfaces.retain(|interface| interface.name != name);
        self
    }

    /// The private IPv4 networks behind this machine: those of interfaces without a default route, but for tunnels and the bridges of
    /// containers.
    pub fn lans(&self) -> Vec<IpNet> {
        let inner = self.interfaces.iter().filter(|interface| !interface.has_default_route);
        let inner = inner.filter(|interface| !is_virtual(&interface.name));
        let networks = inner.flat_map(|interface| &interface.addresses).map(IpNet::trunc);
        let mut lans: Vec<IpNet> = networks.filter(|net| is_private(net) && net.addr().is_ipv4()).collect();
        lans.sort();
        lans.dedup();
        lans
    }

    /// Where this machine may be dialled: the addresses of interfaces with a default route, those that are valid everywhere first; or
    /// of all, if there is no default route.
    pub fn dialled(&self) -> Vec<IpAddr> {
        let has_default = self.interfaces.iter().any(|interface| interface.has_default_route);
        let outer = self.interfaces.iter().filter(|interface| interface.has_default_route || !has_default);
        let addresses = outer.flat_map(|interface| &interface.addresses).map(IpNet::addr);
        let mut addresses: Vec<IpAddr> = addresses.filter(|address| !is_link_local(address)).collect();
        addresses.sort_by_key(|address| (is_private(&IpNet::from(*address)), address.is_ipv6()));
        addresses
    }

    /// A network of this machine, or one that it has a route to, that shares addresses with `prefix`.
    pub fn overlapping(&self, prefix: &IpNet) -> Option<IpNet> {
        let networks = self.interfaces.iter().flat_map(|interface| &interface.addresses).map(IpNet::trunc);
        networks.chain(self.routes.iter().copied()).find(|net| overlap(net, prefix))
    }

    /// The first address of a network for a tunnel that nothing here uses, with the length of the network.
    pub fn free_tunnel_address(&self, key: &PublicKey) -> Option<IpNet> {
        let tunnel = self.free_tunnel(key)?;
        Some(Ipv4Net::new(tunnel.hosts().next()?, tunnel.prefix_len()).ok()?.into())
    }

    /// A network for a tunnel that nothing here uses: which one is tried first follows from the site's key, so that two sites that are
    /// set up by themselves hardly choose the same.
    fn free_tunnel(&self, key: &PublicKey) -> Option<Ipv4Net> {
        let [first, second, ..] = *key.as_bytes();
        let start = u32::from(first) << 8 | u32::from(second);
        (0..TUNNEL_NUMBERS).find_map(|step| {
            let number = (start + step) % TUNNEL_NUMBERS;
            let address = Ipv4Addr::from(u32::from(TUNNELS) + (number << (32 - TUNNEL_LEN)));
            let net = Ipv4Net::new(address, TUNNEL_LEN).ok()?;
            self.overlapping(&net.into()).is_none().then_some(net)
        })
    }
}

/// Whether an interface of this name usually belongs to a tunnel, to containers or to virtual machines.
fn is_virtual(name: &str) -> bool {
    const BEGINNINGS: [&str; 12] = [
        "cni", "docker", "flannel", "lxcbr", "lxdbr", "podman", "tap", "trunk", "tun", "veth", "virbr", "wg",
    ];
    // Docker names the bridge of a network `br-` and 12 hexadecimal digits.
    let of_docker = |rest: &str| rest.len() == 12 && rest.bytes().all(|c| c.is_ascii_hexdigit());
    BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || name.strip_prefix("br-").is_some_and(of_docker)
}

/// Whether two prefixes share addresses.
pub fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

/// Whether a prefix is one of those that belong to nobody (RFC 1918, RFC 4193, RFC 6598).
pub fn is_private(prefix: &IpNet) -> bool {
    const PRIVATE: [([u8; 4], u8); 4] =
        [([10, 0, 0, 0], 8), ([172, 16, 0, 0], 12), ([192, 168, 0, 0], 16), ([100, 64, 0, 0], 10)];
    match prefix {
        IpNet::V4(prefix) => PRIVATE.into_iter().any(|(address, len)| {
            Ipv4Net::new(Ipv4Addr::from(address), len).is_ok_and(|net| net.contains(prefix))
        }),
        IpNet::V6(prefix) => prefix.prefix_len() >= 7 && prefix.addr().octets()[0] & 0xfe == 0xfc,
    }
}

fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// The name of this machine as a site's: its first label, without what no site's name has.
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let label = name.trim().split('.').next().unwrap_or_default();
    let name: String =
        label.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).collect();
    if is_site_name(&name) { name } else { "site".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, addresses: &[&str], has_default_route: bool) -> Interface {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        Interface { name: name.to_owned(), addresses, has_default_route }
    }

    fn office() -> Surroundings {
        Surroundings {
            interfaces: vec![
                interface("wan", &["192.168.0.7/24", "203.0.113.5/28", "2001:db8::5/64", "fe80::5/64"], true),
                interface("lan1", &["10.1.4.1/16", "fe80::1/64", "fd00:1::1/64"], false),
                interface("lan0", &["192.168.5.1/24", "198.51.100.1/24"], false),
            ],
            routes: vec!["172.20.0.0/16".parse().unwrap()],
        }
    }

    fn texts<T: ToString>(all: &[T]) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_private_networks_of_inner_interfaces_lie_behind_the_site() {
        assert_eq!(texts(&office().lans()), ["10.1.0.0/16", "192.168.5.0/24"]);
        let mut office = office().without("lan0").without("lan1");
        assert!(office.lans().is_empty());
        for name in ["docker0", "br-0123456789ab", "virbr0", "wg0", "trunk1"] {
            office.interfaces.push(interface(name, &["172.17.0.1/16"], false));
        }
        assert!(office.lans().is_empty());
        office.interfaces.push(interface("br-lan", &["192.168.1.1/24"], false));
        assert_eq!(texts(&office.lans()), ["192.168.1.0/24"]);
    }

    #[test]
    fn the_site_is_dialled_at_outer_addresses_that_are_valid_everywhere_first() {
        assert_eq!(texts(&office().dialled()), ["203.0.113.5", "2001:db8::5", "192.168.0.7"]);
        let apart = office().without("wan");
        assert_eq!(texts(&apart.dialled())[0], "198.51.100.1", "no default route: any address");
    }

    #[test]
    fn a_tunnel_overlaps_nothing_and_follows_from_the_key() {
        let key = PublicKey::from_bytes([3; 32]);
        let mut office = office();
        let first = office.free_tunnel(&key).unwrap();
        assert_eq!((office.free_tunnel(&key), first.prefix_len()), (Some(first), 24));
        assert!(first.addr().octets()[0] == 10 && first.addr().octets()[1] >= 192, "{first}");
        office.routes.push(first.into());
        let second = office.free_tunnel(&key).unwrap();
        assert!(!overlap(&first.into(), &second.into()));
        assert_eq!(office.overlapping(&first.into()), Some(first.into()));
        office.routes.push("10.0.0.0/8".parse().unwrap());
        assert_eq!(office.free_tunnel(&key), None);
    }

    #[test]
    fn private_is_what_belongs_to_nobody() {
        for text in ["10.0.0.0/8", "172.31.0.0/16", "192.168.1.0/24", "100.64.0.0/10", "fd00::/8", "fc00::/7"]
        {
            assert!(is_private(&text.parse().unwrap()), "{text}");
        }
        for text in
            ["0.0.0.0/0", "10.0.0.0/7", "172.32.0.0/16", "8.8.8.0/24", "::/0", "2001:db8::/32", "f000::/4"]
        {
            assert!(!is_private(&text.parse().unwrap()), "{text}");
        }
    }
}
