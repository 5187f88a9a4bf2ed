//! Addresses of links.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::error::{NetlinkError, Request};
use crate::handle::Handle;
use crate::reply::{Reply, ip};

const HEADER_BYTES: usize = 8;
pub(crate) const RTM_NEWADDR: u16 = 20;
pub(crate) const RTM_DELADDR: u16 = 21;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// An address of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The address, with the prefix that is on the link. With a peer, the prefix is the peer's.
    pub address: IpNet,
    /// The other end, on a point-to-point link.
    pub peer: Option<IpAddr>,
}

impl Handle {
    /// Gives a link an address; with `peer`, the prefix length is that of the other end's network. IPv6 addresses
    /// are usable at once: duplicate address detection is left out (`IFA_F_NODAD`).
    pub fn add_address(
        &mut self,
        device: u32,
        address: IpNet,
        peer: Option<IpAddr>,
    ) -> Result<(), NetlinkError> {
        let request = Request::AddAddress { device, address, peer };
        if peer.is_some_and(|peer| peer.is_ipv4() != address.addr().is_ipv4()) {
            return Err(NetlinkError::MixedFamilies { request: Box::new(request) });
        }
        let mut message = describe(device, address, peer);
        match address {
            IpNet::V4(net) if peer.is_none() && net.prefix_len() < 31 => {
                message.attributes.push(AddressAttribute::Broadcast(net.broadcast()));
            }
            IpNet::V4(_) => {}
            IpNet::V6(_) => {
                message.header.flags = AddressHeaderFlags::Nodad;
                message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
            }
        }
        self.change(request, RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Takes an address from a link. The kernel removes the routes that have it as their source.
    pub fn delete_address(&mut self, device: u32, address: IpNet) -> Result<(), NetlinkError> {
        let mut message = describe(device, address, None);
        // With IFA_ADDRESS the kernel would compare it with the peer's address, which the caller need not know.
        message.attributes.retain(|attribute| matches!(attribute, AddressAttribute::Local(_)));
        let request = Request::DeleteAddress { device, address };
        self.change(request, RouteNetlinkMessage::DelAddress(message), 0)
    }

    /// A link's addresses, IPv4 before IPv6, in the kernel's order.
    pub fn addresses(&mut self, device: u32) -> Result<Vec<Address>, NetlinkError> {
        let request = Request::ListAddresses { device };
        let message = AddressMessage::default();
        let replies = self.list(request, RouteNetlinkMessage::GetAddress(message))?;
        let mut found: Vec<Address> = replies
            .iter()
            .filter(|reply| reply.kind == RTM_NEWADDR && reply.word(4) == Some(device))
            .filter_map(parse)
            .collect();
        found.sort_by_key(|address| address.address.addr().is_ipv6());
        Ok(found)
    }
}

fn describe(device: u32, address: IpNet, peer: Option<IpAddr>) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(address.addr());
    message.header.prefix_len = address.prefix_len();
    message.header.index = device;
    if address.addr().is_loopback() {
        message.header.scope = AddressScope::Host;
    }
    message.attributes = vec![
        AddressAttribute::Local(address.addr()),
        AddressAttribute::Address(peer.unwrap_or(address.addr())),
    ];
    message
}

pub(crate) fn parse(reply: &Reply) -> Option<Address> {
    let prefix_len = reply.byte(1)?;
    let attribute = |kind| {
        let found = reply.attributes(HEADER_BYTES).find(|attribute| attribute.kind() == kind)?;
        ip(found.value())
    };
    // IPv6 has IFA_LOCAL only with a peer; in IPv4 the two are equal without one.
    let far = attribute(IFA_ADDRESS);
    let local = attribute(IFA_LOCAL).or(far)?;
    let address = IpNet::new(local, prefix_len).ok()?;
    Some(Address { address, peer: far.filter(|far| *far != local) })
}

pub(crate) fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}
