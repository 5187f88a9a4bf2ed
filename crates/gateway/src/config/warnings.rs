//! What is allowed and still unlikely to work as meant.

use ipnet::IpNet;

use trunkline_trunk::ClassSettings;

use super::{Config, Endpoint, Host, MAIN_TABLE};

pub(super) fn of(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    for class in &config.trunk.classes {
        let shares = config.trunk.classes.iter().filter(|other| other.group == class.group).count() > 1;
        if shares {
            warnings.extend(unbounded_priority(config, class));
            warnings.extend(beside_priority(config, class));
        } else {
            warnings.extend(alone(config, class));
        }
    }
    warnings.extend(endpoints_in_the_trunk(config));
    warnings.extend(names_beyond_the_trunk(config));
    warnings.extend(peers_without_a_tunnel_address(config));
    warnings
}

/// What only decides between classes, of a class that has its lanes to itself. Path control divides among lane groups by all three, and of
/// several paths a class takes one that holds its guarantee.
fn alone(config: &Config, class: &ClassSettings) -> impl Iterator<Item = String> {
    let dscp = config.lane_group(class).dscp;
    let divided =
        config.trunk.edge_pacing && config.trunk.groups.iter().filter(|group| group.dscp == dscp).count() > 1;
    [
        ("weight", class.share.weight != 1 && !divided),
        ("guarantee", class.share.guarantee.is_some() && !divided && !may_have_several_paths(config)),
        ("priority", class.share.priority && !divided),
    ]
    .into_iter()
    .filter(|(_, given)| *given)
    .map(|(key, _)| {
        format!(
            "classes.{}.{key}: has no effect, since it decides among classes that share a lane group and this class \
             shares none; give another class lane_group = {:?}",
            class.name, class.name
        )
    })
}

/// Who is dialled learns the paths from the site that dials.
fn may_have_several_paths(config: &Config) -> bool {
    config.peers.iter().any(|peer| peer.paths.len() > 1 || peer.endpoint.is_none())
}

fn unbounded_priority(config: &Config, class: &ClassSettings) -> Option<String> {
    (class.share.priority && class.share.ceiling.is_none()).then(|| {
        format!(
            "classes.{}.priority: without a ceiling it can take all of lane group {:?} from the classes it shares it \
             with",
            class.name,
            config.lane_group(class).name
        )
    })
}

/// What a class that goes first anyway does not need.
fn beside_priority(config: &Config, class: &ClassSettings) -> impl Iterator<Item = String> {
    let guarantee = class.share.guarantee.is_some() && !may_have_several_paths(config);
    [("weight", class.share.weight != 1), ("guarantee", guarantee)]
        .into_iter()
        .filter(|(_, given)| class.share.priority && *given)
        .map(|(key, _)| {
            format!(
                "classes.{}.{key}: has no effect, since the class has priority over the others",
                class.name
            )
        })
}

/// Lanes that would be routed into the trunk they make.
fn endpoints_in_the_trunk(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    for peer in &config.peers {
        let Some(Endpoint { host: Host::Address(address), .. }) = &peer.endpoint else { continue };
        for owner in &config.peers {
            let looped = |route: &&IpNet| route.contains(address) && lanes_take(config, **route);
            if let Some(route) = owner.routes.iter().find(looped) {
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

/// Whether the lanes' own packets would take a route into the trunk.
fn lanes_take(config: &Config, route: IpNet) -> bool {
    match config.default_routing() {
        // The mark is for the table of default routes alone.
        Some(routing) => config.table_of(route) != routing.table,
        // A mark that was given has rules of the user's own, and so has a table.
        None => config.fwmark.is_none() && config.table_of(route) == MAIN_TABLE,
    }
}

/// Whether a route covers so much that it is likely to hold an address of which no more is known than a name.
fn is_wide(route: &IpNet) -> bool {
    route.prefix_len() < if route.addr().is_ipv4() { 8 } else { 16 }
}

/// Names whose servers, or whose addresses, are reached through the trunk that is to be made.
fn names_beyond_the_trunk(config: &Config) -> Vec<String> {
    let Some(route) = config.peers.iter().flat_map(|peer| &peer.routes).find(|route| is_wide(route)) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    for peer in &config.peers {
        let Some(Endpoint { host: Host::Name(name), .. }) = &peer.endpoint else { continue };
        let loops = if lanes_take(config, *route) { "its addresses may lie within it, and " } else { "" };
        warnings.push(format!(
            "peers.{}.endpoint: {name} is a name, and {route} is routed into the trunk: {loops}a name server \
             within it cannot be asked until a lane is up; give an address, or the name server a route of its own",
            peer.name
        ));
    }
    warnings
}

/// Peers whose gateways' own packets would be dropped as forged.
fn peers_without_a_tunnel_address(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    for own in &config.tun.addresses {
        let network = own.trunc();
        if own.prefix_len() == own.max_prefix_len() {
            continue;
        }
        for peer in &config.peers {
            let covers = |prefix: &IpNet| network.contains(prefix) || prefix.contains(&network);
            if !config.prefixes_of(peer).iter().any(covers) {
                warnings.push(format!(
                    "peers.{}.routes: holds no address of {network}, the network of {}: what the peer's gateway \
                     itself sends, such as the ICMP errors that path MTU discovery needs, is dropped as forged; \
                     add the peer's tun.address",
                    peer.name, config.tun.name
                ));
            }
        }
    }
    warnings
}
