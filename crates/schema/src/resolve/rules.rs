//! `match`: which packets belong to a class.

use std::ops::RangeInclusive;

use trunkline_packet::protocol;
use trunkline_trunk::{Protocol as Matched, Rule};

use super::Resolver;
use crate::words::{Dscp, Lengths, OneOrMany, Ports, Protocol};
use crate::{At, Behaviour, ClassSpec, RuleSpec};

const RULES: &str = "a list of rules such as { protocol = \"udp\", port = 53 }";

/// Whether a rule takes TCP and nothing else.
pub(super) fn is_tcp(rule: &Rule) -> bool {
    rule.protocol == Some(Matched::Number(protocol::TCP))
}

/// Whether a rule may take TCP.
pub(super) fn may_be_tcp(rule: &Rule) -> bool {
    rule.protocol.is_none() || is_tcp(rule)
}

impl Resolver<'_> {
    /// The rules of a class.
    pub(super) fn rules(&self, at: &At<'_>, spec: &ClassSpec) -> Vec<Rule> {
        let at = at.key("match");
        let Some(rules) = &spec.rules else { return Vec::new() };
        if rules.is_empty() {
            at.report("is an empty list, which takes no packet", format!("{RULES}, or no match at all"));
        }
        rules.iter().enumerate().map(|(place, rule)| self.rule(&at.index(place), rule)).collect()
    }

    fn rule(&self, at: &At<'_>, spec: &RuleSpec) -> Rule {
        if *spec == RuleSpec::default() {
            at.report(
                "is an empty rule",
                "at least one of protocol, dscp, source, destination, source_port, destination_port, port, \
                 length, behaviour",
            );
        }
        let prefix = |key: &str, text: Option<&String>| (self.prefix)(&at.key(key), text?);
        let source = prefix("source", spec.source.as_ref());
        let destination = prefix("destination", spec.destination.as_ref());
        if source.is_some_and(|net| {
            destination.is_some_and(|other| net.addr().is_ipv4() != other.addr().is_ipv4())
        }) {
            at.report_plain("source and destination are of different IP versions, which no packet has");
        }
        let names_ports =
            spec.source_port.is_some() || spec.destination_port.is_some() || spec.port.is_some();
        if names_ports
            && !matches!(spec.protocol, None | Some(Protocol::TCP | Protocol::UDP | Protocol::SCTP))
        {
            at.report(
                "names ports of a protocol that has none",
                "ports with \"tcp\", \"udp\", \"sctp\" or no protocol",
            );
        }
        if spec.behaviour.is_some() && !matches!(spec.protocol, None | Some(Protocol::TCP | Protocol::UDP)) {
            at.report(
                "asks how flows of a protocol behave that are not watched",
                "behaviour with \"tcp\", \"udp\" or no protocol",
            );
        }
        let ports = |key: &str, ports: Option<&OneOrMany<Ports>>| {
            listed(&at.key(key), ports, Ports::ALLOWED, |ports| ports.0.clone())
        };
        let dscp = listed(&at.key("dscp"), spec.dscp.as_ref(), Dscp::ALLOWED, |dscp| dscp.0);
        Rule {
            protocol: spec.protocol.map(|protocol| match protocol {
                Protocol::Number(number) => Matched::Number(number),
                Protocol::Icmp => Matched::AnyIcmp,
            }),
            dscp: spec.dscp.is_some().then(|| dscp.into_iter().collect()),
            source,
            destination,
            source_ports: ports("source_port", spec.source_port.as_ref()),
            destination_ports: ports("destination_port", spec.destination_port.as_ref()),
            either_ports: ports("port", spec.port.as_ref()),
            lengths: lengths(at, spec),
            interactive: spec.behaviour == Some(Behaviour::Interactive),
        }
    }
}

fn lengths(at: &At<'_>, spec: &RuleSpec) -> Vec<RangeInclusive<u16>> {
    listed(&at.key("length"), spec.length.as_ref(), Lengths::ALLOWED, |lengths| lengths.0.clone())
}

/// The values of a key. An empty list, which would hold for no packet but read as if it held for every one, is a mistake.
fn listed<T, U>(at: &At<'_>, values: Option<&OneOrMany<T>>, allowed: &str, one: impl Fn(&T) -> U) -> Vec<U> {
    if values.is_some_and(|values| values.0.is_empty()) {
        at.report("is an empty list", format!("{allowed}, or a list of these"));
    }
    values.iter().flat_map(|values| values.0.iter()).map(one).collect()
}
