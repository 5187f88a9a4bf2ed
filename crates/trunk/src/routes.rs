use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

/// The place of a peer among those of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

impl PeerId {
    /// The place as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Longest-prefix match over IPv4 and IPv6, in time that does not grow with the number of routes.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteTable<V> {
    v4: PrefixMap<Ipv4Net, V>,
    v6: PrefixMap<Ipv6Net, V>,
}

impl<V> Default for RouteTable<V> {
    fn default() -> Self {
        RouteTable { v4: PrefixMap::new(), v6: PrefixMap::new() }
    }
}

impl<V> RouteTable<V> {
    /// Puts `value` behind `prefix`; gives back what stood there before.
    pub fn insert(&mut self, prefix: IpNet, value: V) -> Option<V> {
        match prefix {
            IpNet::V4(prefix) => self.v4.insert(prefix.trunc(), value),
            IpNet::V6(prefix) => self.v6.insert(prefix.trunc(), value),
        }
    }

    /// The value behind the longest prefix that holds `address`.
    #[inline]
    pub fn lookup(&self, address: IpAddr) -> Option<&V> {
        match address {
            IpAddr::V4(address) => self.v4.get_lpm(&Ipv4Net::from(address)).map(|(_, value)| value),
            IpAddr::V6(address) => self.v6.get_lpm(&Ipv6Net::from(address)).map(|(_, value)| value),
        }
    }
}

impl<V> FromIterator<(IpNet, V)> for RouteTable<V> {
    fn from_iter<I: IntoIterator<Item = (IpNet, V)>>(routes: I) -> Self {
        let mut table = RouteTable::default();
        for (prefix, value) in routes {
            table.insert(prefix, value);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins_and_the_rest_is_unknown() {
        let table: RouteTable<u8> = [("10.0.0.0/8", 1), ("10.2.0.0/16", 2), ("fd00::/8", 3)]
            .map(|(prefix, value)| (prefix.parse().expect("a prefix"), value))
            .into_iter()
            .collect();
        for (address, expected) in [
            ("10.2.3.4", Some(2)),
            ("10.3.3.4", Some(1)),
            ("11.0.0.1", None),
            ("fd12::1", Some(3)),
            ("fe80::1", None),
        ] {
            assert_eq!(table.lookup(address.parse().expect("an address")).copied(), expected, "{address}");
        }
    }
}
