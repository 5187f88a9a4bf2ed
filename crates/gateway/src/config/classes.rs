//! `[[classes]]`: what belongs to a class, and the queue in front of its lanes.

use std::ops::RangeInclusive;

use super::reader::{Field, Place, Section};
use super::values::{self, SCTP, TCP, UDP};
use super::{ClassConfig, Discipline, LanesConfig, MAX_CLASSES, ProtocolMatch, QueueConfig, RuleConfig};
use crate::handshake::is_class_name;

const CLASS_NAME: &str = "1 to 32 of a-z 0-9 _ -";
const PROTOCOL: &str = "\"tcp\", \"udp\", \"icmp\", \"sctp\" or 0 to 255";
const RULES: &str = "a list of rules such as { protocol = \"udp\", port = 53 }";
/// A queue must take the largest super-packet the kernel hands over.
const MIN_QUEUE_BYTES: u64 = 64 << 10;
const MAX_QUEUE_BYTES: u64 = 1 << 30;
const MAX_QUEUE_PACKETS: u32 = 1_000_000;

/// The classes of a site; of a file that names none, the default three.
pub(super) fn parse(site: &mut Section<'_>, lanes: &LanesConfig) -> Vec<ClassConfig> {
    let Some(sections) = site.sections("classes") else {
        return default_classes(lanes);
    };
    if sections.is_empty() {
        site.place()
            .report("classes is an empty list", "at least one class, or no classes for the default ones");
    }
    if let Some(extra) = sections.get(MAX_CLASSES) {
        extra.place().report("is one class too many", format!("at most {MAX_CLASSES} classes"));
    }
    let count = sections.len();
    let mut classes: Vec<ClassConfig> = Vec::new();
    for (index, section) in sections.into_iter().enumerate() {
        let place = section.place().clone();
        let class = class(section, lanes);
        if !class.name.is_empty() && classes.iter().any(|other| other.name == class.name) {
            place.report_plain(format!("{:?} is the name of two classes", class.name));
        }
        check_catch_all(&place, class.rules.is_empty(), index + 1 == count);
        classes.push(class);
    }
    classes
}

/// The last class, and no other, takes everything.
fn check_catch_all(place: &Place<'_>, takes_all: bool, last: bool) {
    match (takes_all, last) {
        (true, false) => place.report(
            "takes every packet, so that later classes never get one",
            "a class without match as the last one only",
        ),
        (false, true) => {
            place.report("is the last class but does not take every packet", "no match in the last class");
        }
        _ => {}
    }
}

fn class(mut section: Section<'_>, lanes: &LanesConfig) -> ClassConfig {
    let name = section.required("name", CLASS_NAME).and_then(|field| {
        field.parse(CLASS_NAME, |text| {
            if is_class_name(text) { Ok(text.to_owned()) } else { Err(format!("{text:?} is no name")) }
        })
    });
    let rules = section.field("match").map(rules).unwrap_or_default();
    let queue = section.section("queue").map_or(QueueConfig::DEFAULT, queue);
    let congestion_control = section
        .field("congestion_control")
        .and_then(|field| field.parse(values::CONGESTION_CONTROL, values::congestion_control));
    section.finish();
    ClassConfig {
        name: name.unwrap_or_default(),
        rules,
        queue,
        congestion_control: congestion_control.unwrap_or_else(|| lanes.congestion_control.clone()),
    }
}

/// The rules of a `match`; where one is wrong, something in its place, so that the class does not look as if
/// it took everything.
fn rules(field: Field<'_>) -> Vec<RuleConfig> {
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
    let dscp = section.field("dscp").map(dscp).unwrap_or_default();
    if section.is_empty() {
        place.report(
            "is an empty rule",
            "at least one of protocol, dscp, source, destination, source_port, destination_port, port",
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
    RuleConfig { protocol, dscp, source, destination, source_port, destination_port, port }
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

fn dscp(field: Field<'_>) -> Vec<u8> {
    let one = |field: Field<'_>| {
        if field.is_integer() { field.integer(0..=63) } else { field.parse(values::DSCP, values::dscp) }
    };
    listed(field, values::DSCP, one)
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

fn queue(mut section: Section<'_>) -> QueueConfig {
    let discipline = section.field("discipline").and_then(|field| {
        field.word(&[("tail-drop", Discipline::TailDrop), ("fair-tail-drop", Discipline::FairTailDrop)])
    });
    let packets = section.field("packets").and_then(|field| field.integer(1..=MAX_QUEUE_PACKETS));
    let bytes = section.field("bytes").and_then(|field| queue_bytes(&field));
    section.finish();
    QueueConfig {
        discipline: discipline.unwrap_or_default(),
        packets: packets.unwrap_or(QueueConfig::DEFAULT.packets),
        bytes: bytes.unwrap_or(QueueConfig::DEFAULT.bytes),
    }
}

fn queue_bytes(field: &Field<'_>) -> Option<u64> {
    if field.is_integer() {
        return field.integer(MIN_QUEUE_BYTES..=MAX_QUEUE_BYTES);
    }
    let bytes = field.parse(values::SIZE, values::size)?;
    if (MIN_QUEUE_BYTES..=MAX_QUEUE_BYTES).contains(&bytes) {
        return Some(bytes);
    }
    field.place().report(format!("{bytes} octets are out of range"), "64KiB to 1GiB");
    None
}

fn default_classes(lanes: &LanesConfig) -> Vec<ClassConfig> {
    let class = |name: &str, rules| ClassConfig {
        name: name.to_owned(),
        rules,
        queue: QueueConfig { discipline: Discipline::FairTailDrop, ..QueueConfig::DEFAULT },
        congestion_control: lanes.congestion_control.clone(),
    };
    let protocol = |protocol| RuleConfig { protocol: Some(protocol), ..RuleConfig::default() };
    let short_talks = |number| RuleConfig {
        port: vec![22..=22, 53..=53, 123..=123],
        ..protocol(ProtocolMatch::Number(number))
    };
    // EF, VA, CS4 to CS7, AF41 to AF43: what RFC 4594 has for voice, video calls, signalling and control.
    let urgent = RuleConfig { dscp: vec![46, 44, 32, 40, 48, 56, 34, 36, 38], ..RuleConfig::default() };
    vec![
        class("interactive", vec![protocol(ProtocolMatch::Icmp), urgent, short_talks(TCP), short_talks(UDP)]),
        class("tcp", vec![protocol(ProtocolMatch::Number(TCP))]),
        class("other", Vec::new()),
    ]
}
