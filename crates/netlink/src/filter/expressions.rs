//! Rules as expressions: small instructions over registers, which end a rule where a comparison fails.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use ipnet::IpNet;

use super::attributes::Attributes;
use super::{Condition, FilterRule, NF_ACCEPT, Tproxy};
use crate::rule::Family;

const TCP: u8 = 6;
const VERDICT: u32 = 0;
/// Registers of 16 bytes.
const FIRST: u32 = 1;
const SECOND: u32 = 2;
const META_MARK: u32 = 3;
const META_IIFNAME: u32 = 6;
const META_NFPROTO: u32 = 15;
const META_L4PROTO: u32 = 16;
const SOCKET_TRANSPARENT: u32 = 0;
const SOCKET_MARK: u32 = 1;
/// `NF_NAT_RANGE_PROTO_RANDOM_FULLY`.
const RANDOM_PORT: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
/// The longest name of a link, with the zero behind it.
const LINK_NAME: usize = 16;

#[derive(Debug, Clone, Copy)]
enum Comparison {
    Equal = 0,
    NotEqual = 1,
    AtMost = 3,
    AtLeast = 5,
}

/// Appends the expressions of a rule.
pub(super) fn write(at: &mut Attributes, rule: &FilterRule) {
    for condition in &rule.conditions {
        check(at, condition);
    }
    if let Some(Tproxy(to)) = rule.tproxy {
        tproxy(at, to);
    }
    if let Some(mark) = rule.mark {
        load(at, FIRST, &mark.to_ne_bytes());
        expression(at, "meta", |data| {
            data.number(2, META_MARK);
            data.number(3, FIRST);
        });
    }
    if rule.masquerade {
        expression(at, "masq", |data| data.number(1, RANDOM_PORT));
    }
    expression(at, "immediate", |data| {
        data.number(1, VERDICT);
        data.nest(2, |value| value.nest(2, |verdict| verdict.number(1, NF_ACCEPT)));
    });
}

fn check(at: &mut Attributes, condition: &Condition) {
    match condition {
        Condition::Link(name) => link(at, Comparison::Equal, name),
        Condition::OtherLink(name) => link(at, Comparison::NotEqual, name),
        Condition::Family(family) => family_is(at, *family),
        Condition::Protocol(number) => protocol(at, *number),
        Condition::Source(net) => prefix(at, *net, [12, 8]),
        Condition::Destination(net) => prefix(at, *net, [16, 24]),
        Condition::SourcePort(ports) => port(at, 0, ports),
        Condition::DestinationPort(ports) => port(at, 2, ports),
        Condition::TcpFlags { mask, value } => {
            protocol(at, TCP);
            payload(at, TRANSPORT_HEADER, 13, 1);
            masked(at, &[*mask]);
            compare(at, Comparison::Equal, &[*value]);
        }
        Condition::Icmp { protocol: number, kind } => {
            protocol(at, *number);
            payload(at, TRANSPORT_HEADER, 0, 1);
            compare(at, Comparison::Equal, &[*kind]);
        }
        Condition::Mark(mark) => {
            meta(at, META_MARK);
            compare(at, Comparison::Equal, &mark.to_ne_bytes());
        }
        Condition::TransparentSocket => {
            socket(at, SOCKET_TRANSPARENT);
            compare(at, Comparison::Equal, &[1]);
        }
        Condition::SocketMark(mark) => {
            socket(at, SOCKET_MARK);
            compare(at, Comparison::Equal, &mark.to_ne_bytes());
        }
    }
}

fn link(at: &mut Attributes, how: Comparison, name: &str) {
    let mut bytes = [0; LINK_NAME];
    let len = name.len().min(LINK_NAME - 1);
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    meta(at, META_IIFNAME);
    compare(at, how, &bytes);
}

/// The port at this offset of a TCP header.
fn port(at: &mut Attributes, offset: u32, ports: &RangeInclusive<u16>) {
    protocol(at, TCP);
    payload(at, TRANSPORT_HEADER, offset, 2);
    compare(at, Comparison::AtLeast, &ports.start().to_be_bytes());
    compare(at, Comparison::AtMost, &ports.end().to_be_bytes());
}

fn family_is(at: &mut Attributes, family: Family) {
    meta(at, META_NFPROTO);
    compare(at, Comparison::Equal, &[protocol_family(family) as u8]);
}

fn protocol(at: &mut Attributes, number: u8) {
    meta(at, META_L4PROTO);
    compare(at, Comparison::Equal, &[number]);
}

/// The address at this offset of an IPv4 or an IPv6 header.
fn prefix(at: &mut Attributes, net: IpNet, [v4, v6]: [u32; 2]) {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let (family, offset) = match net {
        IpNet::V4(_) => (Family::V4, v4),
        IpNet::V6(_) => (Family::V6, v6),
    };
    let (address, mask) = (octets(net.trunc().addr()), octets(net.netmask()));
    family_is(at, family);
    payload(at, NETWORK_HEADER, offset, address.len() as u32);
    masked(at, &mask);
    compare(at, Comparison::Equal, &address);
}

fn tproxy(at: &mut Attributes, to: SocketAddr) {
    let (family, address) = match to.ip() {
        IpAddr::V4(address) => (Family::V4, address.octets().to_vec()),
        IpAddr::V6(address) => (Family::V6, address.octets().to_vec()),
    };
    load(at, FIRST, &address);
    load(at, SECOND, &to.port().to_be_bytes());
    expression(at, "tproxy", |data| {
        data.number(1, protocol_family(family));
        data.number(2, FIRST);
        data.number(3, SECOND);
    });
}

/// `NFPROTO_IPV4`, `NFPROTO_IPV6`.
const fn protocol_family(family: Family) -> u32 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

fn meta(at: &mut Attributes, key: u32) {
    expression(at, "meta", |data| {
        data.number(1, FIRST);
        data.number(2, key);
    });
}

fn socket(at: &mut Attributes, key: u32) {
    expression(at, "socket", |data| {
        data.number(1, key);
        data.number(2, FIRST);
    });
}

fn payload(at: &mut Attributes, header: u32, offset: u32, len: u32) {
    expression(at, "payload", |data| {
        data.number(1, FIRST);
        data.number(2, header);
        data.number(3, offset);
        data.number(4, len);
    });
}

fn masked(at: &mut Attributes, mask: &[u8]) {
    expression(at, "bitwise", |data| {
        data.number(1, FIRST);
        data.number(2, FIRST);
        data.number(3, mask.len() as u32);
        data.nest(4, |value| value.put(1, mask));
        data.nest(5, |value| value.put(1, &vec![0; mask.len()]));
    });
}

fn compare(at: &mut Attributes, how: Comparison, value: &[u8]) {
    expression(at, "cmp", |data| {
        data.number(1, FIRST);
        data.number(2, how as u32);
        data.nest(3, |data| data.put(1, value));
    });
}

fn load(at: &mut Attributes, register: u32, value: &[u8]) {
    expression(at, "immediate", |data| {
        data.number(1, register);
        data.nest(2, |data| data.put(1, value));
    });
}

fn expression(at: &mut Attributes, name: &str, fill: impl FnOnce(&mut Attributes)) {
    at.nest(1, |element| {
        element.text(1, name);
        element.nest(2, fill);
    });
}
