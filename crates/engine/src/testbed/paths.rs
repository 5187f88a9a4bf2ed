//! The paths of trunks: each has an address of its own at the gateway that dials, and ways between both gateways that lead over its
//! links.

use std::net::IpAddr;

use trunkline_sim::NodeId;
use trunkline_testbed::network::Detour;

use super::build::address;
use crate::scenario::{Family, Scenario};

/// For each trunk, the way of each of its paths; none of a trunk with one.
pub(super) fn detours(scenario: &Scenario) -> Vec<Vec<Detour>> {
    let mut taken = vec![0; scenario.nodes.len()];
    let of_trunk = |trunk: &crate::scenario::Trunk| {
        let [near, far] = trunk.gateways;
        let detour = |links: &[Option<usize>; 2]| {
            taken[near] += 1;
            let addresses = [further(near, taken[near], trunk.family), address(far, trunk.family)];
            Detour { ends: trunk.gateways, addresses, links: *links }
        };
        trunk.path_links.iter().map(detour).collect()
    };
    scenario.trunks.iter().map(of_trunk).collect()
}

/// A further address of a node, which has 256 (`trunkline_sim::NodeId`) and uses the first.
fn further(node: usize, number: u8, family: Family) -> IpAddr {
    match NodeId::nth(node).ip(family.version()) {
        IpAddr::V4(first) => IpAddr::V4((u32::from(first) + u32::from(number)).into()),
        IpAddr::V6(first) => IpAddr::V6((u128::from(first) + u128::from(number)).into()),
    }
}
