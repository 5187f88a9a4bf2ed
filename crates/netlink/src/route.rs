//! Routes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteScope, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::address::family;
use crate::error::{NetlinkError, Request};
use crate::handle::Handle;
use crate::reply::{Reply, attributes, ip, word};

const HEADER_BYTES: usize = 12;
pub(crate) const RTM_NEWROUTE: u16 = 24;
pub(crate) const RTM_DELROUTE: u16 = 25;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTAX_MTU: u16 = 2;
const RTAX_SSTHRESH: u16 = 6;
const RTAX_INITCWND: u16 = 11;
const RTAX_QUICKACK: u16 = 15;
const RTM_F_CLONED: u32 = 0x200;
/// `RTPROT_STATIC`: made by an administrator.
const STATIC: u8 = 4;

/// What the kernel does with a packet that takes the route.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RouteKind {
    /// It is forwarded.
    #[default]
    Unicast,
    /// The kernel drops it without an answer.
    Blackhole,
    /// The kernel drops it and answers with ICMP unreachable.
    Unreachable,
    /// It is delivered to this host, whatever its destination. The kernel's own such routes are in the table "local".
    Local,
}

/// What a request does if the object exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Fail with `EEXIST`.
    Keep,
    /// Replace it.
    Replace,
}

/// A filter of routes. `None` matches all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouteFilter {
    /// The table they are in.
    pub table: Option<u32>,
    /// The link they lead out of.
    pub device: Option<u32>,
    /// Who made them.
    pub protocol: Option<u8>,
}

impl RouteFilter {
    fn takes(&self, route: &Route) -> bool {
        self.table.is_none_or(|table| table == route.table)
            && self.device.is_none_or(|device| route.device == Some(device))
            && self.protocol.is_none_or(|protocol| protocol == route.protocol)
    }
}

/// A route: what it is for and where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The destinations it is for.
    pub destination: IpNet,
    /// The next hop; an IPv4 destination may have an IPv6 one (RFC 8950).
    pub via: Option<IpAddr>,
    /// The index of the link it leads out of.
    pub device: Option<u32>,
    /// Lower is preferred. For IPv6 the kernel uses 1024 if there is none.
    pub metric: Option<u32>,
    /// The source address of this host's packets that have none yet.
    pub source: Option<IpAddr>,
    /// The table it is in; 254 is "main".
    pub table: u32,
    /// What it does with a packet.
    pub kind: RouteKind,
    /// Who made it, a number of `rtnetlink.h` or of `/etc/iproute2/rt_protos`; 4 is "static".
    pub protocol: u8,
    /// The path MTU to assume, in bytes.
    pub mtu: Option<u32>,
    /// The initial congestion window of TCP connections over it, in segments.
    pub initial_cwnd: Option<u32>,
    /// The initial slow start threshold of TCP connections over it, in segments.
    pub initial_ssthresh: Option<u32>,
    /// Whether TCP connections over it acknowledge every segment at once.
    pub quick_acks: bool,
}

impl Route {
    /// A unicast route to `destination` in the main table, without other properties.
    pub fn to(destination: IpNet) -> Self {
        Self {
            destination: destination.trunc(),
            via: None,
            device: None,
            metric: None,
            source: None,
            table: u32::from(RouteHeader::RT_TABLE_MAIN),
            kind: RouteKind::Unicast,
            protocol: STATIC,
            mtu: None,
            initial_cwnd: None,
            initial_ssthresh: None,
            quick_acks: false,
        }
    }

    /// With this next hop.
    #[must_use]
    pub fn via(self, next_hop: IpAddr) -> Self {
        Self { via: Some(next_hop), ..self }
    }

    /// Out of this link.
    #[must_use]
    pub fn device(self, index: u32) -> Self {
        Self { device: Some(index), ..self }
    }

    /// In this table.
    #[must_use]
    pub fn table(self, table: u32) -> Self {
        Self { table, ..self }
    }

    /// With this metric.
    #[must_use]
    pub fn metric(self, metric: u32) -> Self {
        Self { metric: Some(metric), ..self }
    }

    /// An IPv6 next hop is fine for IPv4 (RFC 8950); nothing else may differ.
    fn mixes_families(&self) -> bool {
        let four = self.destination.addr().is_ipv4();
        (!four && self.via.is_some_and(|via| via.is_ipv4()))
            || self.source.is_some_and(|source| source.is_ipv4() != four)
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            RouteKind::Unicast => {}
            RouteKind::Blackhole => write!(f, "blackhole ")?,
            RouteKind::Unreachable => write!(f, "unreachable ")?,
            RouteKind::Local => write!(f, "local ")?,
        }
        write!(f, "{}", self.destination)?;
        if let Some(via) = self.via {
            write!(f, " via {via}")?;
        }
        if let Some(device) = self.device {
            write!(f, " out of link {device}")?;
        }
        if let Some(source) = self.source {
            write!(f, " from {source}")?;
        }
        if let Some(metric) = self.metric {
            write!(f, " metric {metric}")?;
        }
        if self.table != u32::from(RouteHeader::RT_TABLE_MAIN) {
            write!(f, " in table {}", self.table)?;
        }
        Ok(())
    }
}

impl Handle {
    /// Makes a route.
    pub fn add_route(&mut self, route: &Route, existing: Existing) -> Result<(), NetlinkError> {
        if route.mixes_families() {
            return Err(NetlinkError::MixedFamilies { request: Box::new(Request::AddRoute(route.clone())) });
        }
        let flags = match existing {
            Existing::Keep => NLM_F_CREATE | NLM_F_EXCL,
            Existing::Replace => NLM_F_CREATE | NLM_F_REPLACE,
        };
        let message = RouteNetlinkMessage::NewRoute(describe(route));
        self.change(Request::AddRoute(route.clone()), message, flags)
    }

    /// Removes the route that has at least these properties.
    pub fn delete_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        let mut message = describe(route);
        if matches!(route.kind, RouteKind::Unicast) && route.via.is_none() && route.device.is_none() {
            message.header.scope = RouteScope::NoWhere;
        }
        self.change(Request::DeleteRoute(route.clone()), RouteNetlinkMessage::DelRoute(message), 0)
    }

    /// The routes of a table (254 is "main") that lead to one place or nowhere; multipath routes are left out.
    pub fn routes(&mut self, table: u32) -> Result<Vec<Route>, NetlinkError> {
        let message = RouteNetlinkMessage::GetRoute(RouteMessage::default());
        let replies = self.list(Request::ListRoutes { table }, message)?;
        Ok(replies
            .iter()
            .filter(|reply| is_route(reply))
            .filter_map(parse)
            .filter(|route| route.table == table)
            .collect())
    }

    /// The routes that a filter takes; those with several next hops are without `via` and `device` here. A kernel from 4.20 on
    /// applies the filter itself, which saves time if there are many routes.
    pub fn routes_where(&mut self, filter: RouteFilter) -> Result<Vec<Route>, NetlinkError> {
        let mut found = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            message.header.protocol = filter.protocol.unwrap_or(0).into();
            message.attributes.extend(filter.table.map(RouteAttribute::Table));
            message.attributes.extend(filter.device.map(RouteAttribute::Oif));
            let request = Request::FindRoutes(filter);
            match self.list_filtered(request, RouteNetlinkMessage::GetRoute(message)) {
                Ok(replies) => {
                    found.extend(replies.iter().filter(|reply| is_route(reply)).filter_map(parse_any));
                }
                // The table, or the link, is not there.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        found.retain(|route| filter.takes(route));
        Ok(found)
    }

    /// The route that a packet of this host to `destination` would take, with the link and the source address.
    pub fn route_to(&mut self, destination: IpAddr) -> Result<Route, NetlinkError> {
        let request = Request::FindRoute { destination };
        let mut message = RouteMessage::default();
        message.header.address_family = family(destination);
        message.header.destination_prefix_length = if destination.is_ipv4() { 32 } else { 128 };
        message.attributes.push(RouteAttribute::Destination(RouteAddress::from(destination)));
        let reply = self.read(request.clone(), RouteNetlinkMessage::GetRoute(message))?;
        parse(&reply)
            .ok_or_else(|| NetlinkError::Malformed { request: Box::new(request), missing: "a usable route" })
    }
}

/// Whether a reply is a route of a table, and not an entry of a cache.
fn is_route(reply: &Reply) -> bool {
    reply.kind == RTM_NEWROUTE && reply.word(8).is_some_and(|flags| flags & RTM_F_CLONED == 0)
}

fn describe(route: &Route) -> RouteMessage {
    let mut message = RouteMessage::default();
    let header = &mut message.header;
    header.address_family = family(route.destination.addr());
    header.destination_prefix_length = route.destination.prefix_len();
    header.table = u8::try_from(route.table).unwrap_or(RouteHeader::RT_TABLE_UNSPEC);
    header.protocol = route.protocol.into();
    header.kind = match route.kind {
        RouteKind::Unicast => RouteType::Unicast,
        RouteKind::Blackhole => RouteType::BlackHole,
        RouteKind::Unreachable => RouteType::Unreachable,
        RouteKind::Local => RouteType::Local,
    };
    let on_link =
        route.kind == RouteKind::Unicast && route.via.is_none() && route.destination.addr().is_ipv4();
    header.scope = match route.kind {
        RouteKind::Local => RouteScope::Host,
        _ if on_link => RouteScope::Link,
        _ => RouteScope::Universe,
    };

    let attributes = &mut message.attributes;
    attributes.push(RouteAttribute::Destination(RouteAddress::from(route.destination.trunc().addr())));
    attributes.push(RouteAttribute::Table(route.table));
    match route.via {
        Some(IpAddr::V6(via)) if route.destination.addr().is_ipv4() => {
            attributes.push(RouteAttribute::Via(RouteVia::Inet6(via)));
        }
        Some(via) => attributes.push(RouteAttribute::Gateway(RouteAddress::from(via))),
        None => {}
    }
    attributes.extend(route.device.map(RouteAttribute::Oif));
    attributes.extend(route.metric.map(RouteAttribute::Priority));
    attributes.extend(route.source.map(|source| RouteAttribute::PrefSource(RouteAddress::from(source))));
    let metrics: Vec<RouteMetric> = route
        .mtu
        .map(RouteMetric::Mtu)
        .into_iter()
        .chain(route.initial_cwnd.map(RouteMetric::InitCwnd))
        .chain(route.initial_ssthresh.map(RouteMetric::SsThresh))
        .chain(route.quick_acks.then_some(RouteMetric::QuickAck(1)))
        .collect();
    if !metrics.is_empty() {
        attributes.push(RouteAttribute::Metrics(metrics));
    }
    message
}

fn parse(reply: &Reply) -> Option<Route> {
    // A multipath route has no single link; every other one that forwards has.
    parse_any(reply).filter(|route| route.kind != RouteKind::Unicast || route.device.is_some())
}

/// A route of whatever kind; of a multipath route neither link nor next hop.
pub(crate) fn parse_any(reply: &Reply) -> Option<Route> {
    let prefix_len = reply.byte(1)?;
    let any: IpNet = match reply.byte(0)? {
        2 => Ipv4Net::new(Ipv4Addr::UNSPECIFIED, 0).ok()?.into(),
        10 => Ipv6Net::new(Ipv6Addr::UNSPECIFIED, 0).ok()?.into(),
        _ => return None,
    };
    let mut route = Route::to(any);
    route.table = u32::from(reply.byte(4)?);
    route.protocol = reply.byte(5)?;
    // The kinds of `rtnetlink.h`: broadcast routes are deliveries of this host, shown as unicast.
    route.kind = match reply.byte(7)? {
        1 | 3 => RouteKind::Unicast,
        2 => RouteKind::Local,
        6 => RouteKind::Blackhole,
        7 => RouteKind::Unreachable,
        _ => return None,
    };
    for attribute in reply.attributes(HEADER_BYTES) {
        let value = attribute.value();
        match attribute.kind() {
            RTA_DST => route.destination = IpNet::new(ip(value)?, prefix_len).ok()?,
            RTA_OIF => route.device = word(value),
            RTA_GATEWAY => route.via = ip(value),
            RTA_VIA => route.via = ip(value.get(2..)?),
            RTA_PRIORITY => route.metric = word(value),
            RTA_PREFSRC => route.source = ip(value),
            RTA_TABLE => route.table = word(value)?,
            RTA_METRICS => {
                for metric in attributes(value) {
                    match metric.kind() {
                        RTAX_MTU => route.mtu = word(metric.value()),
                        RTAX_INITCWND => route.initial_cwnd = word(metric.value()),
                        RTAX_SSTHRESH => route.initial_ssthresh = word(metric.value()),
                        RTAX_QUICKACK => route.quick_acks = word(metric.value()) == Some(1),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some(route)
}
