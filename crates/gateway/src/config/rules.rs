//! `match`: which packets belong to a class.

use std::ops::RangeInclusive;

use super::reader::{Field, Section};
use super::values::{self, SCTP, TCP, UDP};
use super::{Behaviour, ProtocolMatch, RuleConfig};

const PROTOCOL: &str = "\"tcp\", \"udp\", \"icmp\", \"sctp\" or 0 to 255";
const RULES: &str = "a list of rules such as { protocol = \"udp\", port = 53 }";
const BEHAVIOURS: [(&str, Behaviour); 1] = [("interactive", Behaviour::Interactive)];
/// RFC 791 §3.1: the shortest header.
const MIN_LENGTH: u16 = 20;

/// The rules of a `match`; where one is wrong, something in its place, so that the class does not look as if
/// it took everything.
pub(super) fn parse(field: Field<'_>) -> Vec<RuleConfig> {
    let place = field.place().clone();
    match field.list(RULES) {
        Some(fields) if fields.is_empty() => {
            place.report("is an empty list, which takes no packet", format!("{RULES}, or no match at all"));
            vec![RuleConfig::default()]
        }
        Some(fields) => {
            fields.into_iter().map(|field| field.section().map_or_else(RuleConfig::default, rule)).collect()
        }
        None => vec![RuleConfig::default()],
    }
}

fn rule(mut section: Section<'_>) -> RuleConfig {
    let place = section.place().clone();
    let mut prefix = |key| section.field(key)?.parse(values::PREFIX, values::prefix);
    let (source, destination) = (prefix("source"), prefix("destination"));
    let mut range = |key| section.field(key).map(ports).unwrap_or_default();
    let (source_port, destination_port, port) =
        (range("source_port"), range("destination_port"), range("port"));
    let protocol = section.field("protocol").and_then(|field| protocol(&field));
    let dscp = section.field("dscp").map(code_points).unwrap_or_default();
    let length = section.field("length").map(lengths).unwrap_or_default();
    let behaviour = section.field("behaviour").and_then(|field| field.word(&BEHAVIOURS));
    if section.is_empty() {
        place.report(
            "is an empty rule",
            "at least one of protocol, dscp, source, destination, source_port, destination_port, port, length, \
             behaviour",
        );
    }
    section.finish();
    if source
        .is_some_and(|net| destination.is_some_and(|other| net.addr().is_ipv4() != other.addr().is_ipv4()))
    {
        place.report_plain("source and destination are of different IP versions, which no packet has");
    }
    let names_ports = !(source_port.is_empty() && destination_port.is_empty() && port.is_empty());
    let has_ports = matches!(protocol, None | Some(ProtocolMatch::Number(TCP | UDP | SCTP)));
    if names_ports && !has_ports {
        place.report(
            "names ports of a protocol that has none",
            "ports with \"tcp\", \"udp\", \"sctp\" or no protocol",
        );
    }
    if behaviour.is_some() && !matches!(protocol, None | Some(ProtocolMatch::Number(TCP | UDP))) {
        place.report(
            "asks how flows of a protocol behave that are not watched",
            "behaviour with \"tcp\", \"udp\" or no protocol",
        );
    }
    RuleConfig { protocol, dscp, source, destination, source_port, destination_port, port, length, behaviour }
}

fn protocol(field: &Field<'_>) -> Option<ProtocolMatch> {
    if field.is_integer() {
        return field.integer(0..=u8::MAX).map(ProtocolMatch::Number);
    }
    field.parse(PROTOCOL, |text| match text {
        "tcp" => Ok(ProtocolMatch::Number(TCP)),
        "udp" => Ok(ProtocolMatch::Number(UDP)),
        "sctp" => Ok(ProtocolMatch::Number(SCTP)),
        "icmp" => Ok(ProtocolMatch::Icmp),
        other => Err(format!("unknown protocol {other:?}")),
    })
}

/// One code point, by number or name.
pub(super) fn code_point(field: &Field<'_>) -> Option<u8> {
    if field.is_integer() { field.integer(0..=63) } else { field.parse(values::DSCP, values::dscp) }
}

fn code_points(field: Field<'_>) -> Vec<u8> {
    let allowed = format!("{}, or a list of these", values::DSCP);
    listed(field, &allowed, |field| code_point(&field))
}

fn ports(field: Field<'_>) -> Vec<RangeInclusive<u16>> {
    let one = |field: Field<'_>| {
        if field.is_integer() {
            field.integer(0..=u16::MAX).map(|port| port..=port)
        } else {
            field.parse(values::PORTS, values::ports)
        }
    };
    listed(field, values::PORTS, one)
}

fn lengths(field: Field<'_>) -> Vec<RangeInclusive<u16>> {
    let one = |field: Field<'_>| {
        if field.is_integer() {
            return field.integer(MIN_LENGTH..=u16::MAX).map(|length| length..=length);
        }
        let lengths = field.parse(values::LENGTHS, values::lengths)?;
        if *lengths.end() < MIN_LENGTH {
            field.place().report("holds for no packet", values::LENGTHS);
        }
        Some(lengths)
    };
    listed(field, values::LENGTHS, one)
}

/// What is right of a list's values or of the one value in its place. An empty list, which would hold for no
/// packet but read as if it held for every one, is a mistake.
fn listed<'d, T>(field: Field<'d>, allowed: &str, one: impl Fn(Field<'d>) -> Option<T>) -> Vec<T> {
    let place = field.place().clone();
    let fields = field.one_or_more();
    if fields.is_empty() {
        place.report("is an empty list", allowed);
    }
    fields.into_iter().filter_map(one).collect()
}
