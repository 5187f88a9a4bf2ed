//! What a machine is, in words, for those who are asked for help: nothing of it is judged.

use std::fmt::Write as _;

use trunkline_netlink::{Family, Handle, NetlinkError};

use super::files::Files;

/// Settings that decide how lanes and packets fare; those that a kernel lacks are left out.
const SETTINGS: [&str; 22] = [
    "kernel/osrelease",
    "kernel/version",
    "net/ipv4/ip_forward",
    "net/ipv6/conf/all/forwarding",
    "net/ipv6/conf/default/disable_ipv6",
    "net/ipv4/conf/all/rp_filter",
    "net/ipv4/conf/default/rp_filter",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_available_congestion_control",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_ecn",
    "net/ipv4/tcp_mtu_probing",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_sack",
    "net/ipv4/tcp_timestamps",
    "net/ipv4/tcp_window_scaling",
    "net/core/default_qdisc",
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/netfilter/nf_conntrack_count",
    "net/netfilter/nf_conntrack_max",
];

/// A part of the description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What it is about.
    pub title: String,
    /// Lines of text.
    pub text: String,
}

/// Describes the kernel's settings, and the interfaces, routes and rules of this machine.
pub fn describe_machine() -> Vec<Part> {
    let files = Files::of_this_machine();
    let mut settings = String::new();
    for path in SETTINGS {
        if let Some(value) = files.text(&format!("proc/sys/{path}")) {
            // Writing to a string cannot fail.
            let _ = writeln!(settings, "{path} = {}", value.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    let network = describe_network().unwrap_or_else(|error| format!("cannot be read: {error}\n"));
    [("settings of the kernel", settings), ("interfaces, routes and rules", network)]
        .map(|(title, text)| Part { title: title.to_owned(), text })
        .into()
}

fn describe_network() -> Result<String, NetlinkError> {
    let mut handle = Handle::open()?;
    let mut text = String::new();
    let links = handle.links()?;
    for link in &links {
        let state = if link.up { "up" } else { "down" };
        let _ = writeln!(text, "{}: {}, {state}, mtu {}", link.index, link.name, link.mtu);
        for address in handle.addresses(link.index)? {
            let _ = writeln!(text, "    {}", address.address);
        }
    }
    // In the kernel's table of local addresses is nothing that is not above.
    for route in
        handle.routes_where(trunkline_netlink::RouteFilter::default())?.iter().filter(|it| it.table != 255)
    {
        let _ = writeln!(text, "{route}");
    }
    for family in Family::BOTH {
        for rule in handle.rules(family)? {
            let _ = writeln!(text, "{rule}");
        }
    }
    Ok(text)
}
