//! Removes the blocks of gateways that have ended.

use trunkline_netlink::{Family, Handle, NetlinkError, Route, RouteFilter};

use super::wanted::{PROTOCOL, block_metric, is_block};
use crate::config::AUTO_TABLE;

/// Which blocks to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked<'a> {
    /// The blocks of the site with this name.
    Site(&'a str),
    /// The blocks of all sites of this machine.
    All,
}

/// Removes blocks, and rules that no longer lead to a route. Returns the number of blocks.
///
/// # Errors
/// The kernel's error. A part of the blocks may be removed then.
pub fn unblock(whose: Blocked<'_>) -> Result<usize, NetlinkError> {
    let mut netlink = Handle::open()?;
    let routes = blocks(&mut netlink, whose)?;
    for route in &routes {
        gone(netlink.delete_route(route))?;
    }
    for family in Family::BOTH {
        remove_idle_rules(&mut netlink, family)?;
    }
    Ok(routes.len())
}

/// The blocks that there are.
pub(crate) fn blocks(netlink: &mut Handle, whose: Blocked<'_>) -> Result<Vec<Route>, NetlinkError> {
    let mut routes = ours(netlink)?;
    routes.retain(|route| {
        is_block(route)
            && match whose {
                Blocked::Site(name) => route.metric == Some(block_metric(name)),
                Blocked::All => true,
            }
    });
    Ok(routes)
}

/// All routes of gateways, blocks of all sites included.
pub(super) fn ours(netlink: &mut Handle) -> Result<Vec<Route>, NetlinkError> {
    netlink.routes_where(RouteFilter { protocol: Some(PROTOCOL), ..RouteFilter::default() })
}

/// Removes the rules for default routes if there is no such route.
pub(super) fn remove_idle_rules(netlink: &mut Handle, family: Family) -> Result<(), NetlinkError> {
    let of_family = |prefix| super::wanted::family(prefix) == family;
    let rules: Vec<_> = netlink.rules(family)?.into_iter().filter(|rule| rule.protocol == PROTOCOL).collect();
    if rules.is_empty() {
        return Ok(());
    }
    let filter = RouteFilter { table: Some(AUTO_TABLE), ..RouteFilter::default() };
    if netlink.routes_where(filter)?.iter().any(|route| of_family(route.destination)) {
        return Ok(());
    }
    rules.iter().try_for_each(|rule| gone(netlink.delete_rule(rule)))
}

/// Ignores the error that an object does not exist: it need not be removed.
pub(super) fn gone(result: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    match result {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}
