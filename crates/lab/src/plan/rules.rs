//! Rules of a trunk's classes.

use trunkline_trunk::{DscpSet, Protocol, Rule};

use super::resolve::Context;
use crate::experiment::{NodeKind, RuleSpec};
use trunkline_schema::At;

/// A rule without its hosts, and its source and destination.
pub(super) fn rule(context: &Context<'_>, at: &At<'_>, spec: &RuleSpec) -> (Rule, [Option<usize>; 2]) {
    if *spec == RuleSpec::default() {
        at.report("says nothing", "at least one of protocol, dscp, source, destination, port, interactive");
    }
    let protocol = spec.protocol.as_deref().and_then(|name| match name {
        "tcp" => Some(Protocol::Number(6)),
        "udp" => Some(Protocol::Number(17)),
        _ => {
            at.key("protocol").refuse("\"tcp\", \"udp\"");
            None
        }
    });
    for (number, _) in spec.dscp.iter().enumerate().filter(|(_, dscp)| **dscp > 63) {
        at.key("dscp").index(number).refuse("0 to 63");
    }
    for (number, _) in spec.port.iter().enumerate().filter(|(_, port)| **port == 0) {
        at.key("port").index(number).refuse("1 to 65535");
    }
    let host = |key: &str, name: Option<&String>| {
        name.and_then(|name| context.node_of_kind(&at.key(key), name, NodeKind::Host))
    };
    let hosts = [host("source", spec.source.as_ref()), host("destination", spec.destination.as_ref())];
    let rule = Rule {
        protocol,
        dscp: (!spec.dscp.is_empty()).then(|| spec.dscp.iter().copied().collect::<DscpSet>()),
        either_ports: spec.port.iter().map(|port| *port..=*port).collect(),
        interactive: spec.interactive,
        ..Rule::default()
    };
    (rule, hosts)
}
