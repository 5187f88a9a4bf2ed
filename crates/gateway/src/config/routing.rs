//! Which table a peer's prefixes are routed in, and which addresses belong to which peer.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, PeerConfig};

/// The kernel's table "main".
pub const MAIN_TABLE: u32 = 254;
/// The table that `tun.table = "auto"` makes for default routes, and the mark of lanes that keeps their own packets
/// out of it unless `lanes.fwmark` names another.
pub const AUTO_TABLE: u32 = 0x746c;

/// `tun.table`: where the prefixes behind peers are routed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RoutingTable {
    /// In the main table; default routes in a table of their own, which all packets look into but those of lanes.
    #[default]
    Auto,
    /// All in the main table.
    Main,
    /// All in this table. Rules that lead there are somebody else's business.
    Number(u32),
}

/// `tun.on_exit`: what becomes of packets to peers while no gateway runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "on_exit")]
pub enum OnExit {
    /// They are unreachable.
    #[default]
    Block,
    /// They take whatever other route there is.
    Pass,
}

/// The rules for default routes: packets without `mark` look into `table`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultRouting {
    /// The table that holds the default routes into the device.
    pub table: u32,
    /// The mark of the lanes' own packets.
    pub mark: u32,
}

impl Config {
    /// The table that a peer's prefix is routed in.
    pub fn table_of(&self, prefix: IpNet) -> u32 {
        match self.tun.table {
            RoutingTable::Auto if prefix.prefix_len() == 0 => AUTO_TABLE,
            RoutingTable::Auto | RoutingTable::Main => MAIN_TABLE,
            RoutingTable::Number(table) => table,
        }
    }

    /// The rules that default routes of peers need; `None` where there are none, or where the user makes them.
    pub fn default_routing(&self) -> Option<DefaultRouting> {
        let is_default = |prefix: &IpNet| prefix.prefix_len() == 0;
        let wanted = self.tun.table == RoutingTable::Auto
            && self.peers.iter().flat_map(|peer| &peer.routes).any(is_default);
        wanted.then(|| DefaultRouting { table: AUTO_TABLE, mark: self.fwmark.unwrap_or(AUTO_TABLE) })
    }

    /// What belongs to a peer: its routes and, if it is the only one, the device's networks but for our own
    /// addresses in them. There its gateway has an address of its own, from which its ICMP errors come.
    pub fn prefixes_of(&self, peer: &PeerConfig) -> Vec<IpNet> {
        let mut prefixes = peer.routes.clone();
        if self.peers.len() == 1 {
            for network in &self.tun.addresses {
                let others = self.tun.addresses.iter().fold(vec![network.trunc()], |rest, own| {
                    rest.into_iter().flat_map(|prefix| without(prefix, *own)).collect()
                });
                prefixes.extend(others.into_iter().filter(|prefix| !peer.routes.contains(prefix)));
            }
        }
        prefixes
    }
}

/// The prefixes that make up `prefix` without the host `own`.
fn without(prefix: IpNet, own: IpNet) -> Vec<IpNet> {
    let mut rest = Vec::new();
    let mut holds_it = prefix;
    if !prefix.contains(&own.addr()) {
        return vec![prefix];
    }
    while let Ok(halves) = holds_it.subnets(holds_it.prefix_len() + 1) {
        for half in halves {
            if half.contains(&own.addr()) {
                holds_it = half;
            } else {
                rest.push(half);
            }
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_without_one_host_is_all_its_other_addresses() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        assert_eq!(without(net("10.0.0.0/30"), net("10.0.0.1/30")), [net("10.0.0.2/31"), net("10.0.0.0/32")]);
        assert_eq!(without(net("10.0.0.0/31"), net("10.0.0.1/31")), [net("10.0.0.0/32")]);
        assert_eq!(without(net("10.0.0.1/32"), net("10.0.0.1/32")), []);
        assert_eq!(without(net("10.0.0.0/30"), net("10.1.0.1/30")), [net("10.0.0.0/30")]);
        let rest = without(net("fd00::/64"), net("fd00::1/64"));
        assert_eq!(rest.len(), 64);
        assert!(rest.contains(&net("fd00::2/127")) && !rest.iter().any(|net| net.contains(&own())));
    }

    fn own() -> std::net::IpAddr {
        "fd00::1".parse().unwrap()
    }
}
