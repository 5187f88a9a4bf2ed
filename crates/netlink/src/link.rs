//! Links: veth pairs, bridges, state, counters.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};

use crate::error::{NetlinkError, Request};
use crate::handle::Handle;
use crate::reply::{Reply, double_word, text, word};

const HEADER_BYTES: usize = 16;
pub(crate) const RTM_NEWLINK: u16 = 16;
pub(crate) const RTM_DELLINK: u16 = 17;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_STATS64: u16 = 23;
const IFF_UP: u32 = 1;
const IFF_LOWER_UP: u32 = 1 << 16;

/// A link as the kernel describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its index, unique in its namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// The largest packet it takes, in bytes.
    pub mtu: u32,
    /// The length of its transmit queue, packets.
    pub tx_queue_len: u32,
    /// Whether it was taken up.
    pub up: bool,
    /// Whether its other end is connected and up.
    pub carrier: bool,
}

/// A link's counters since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets dropped on receipt.
    pub rx_dropped: u64,
    /// Packets dropped instead of being sent.
    pub tx_dropped: u64,
}

impl Handle {
    /// The index of the link called `name`.
    pub fn link_index(&mut self, name: &str) -> Result<u32, NetlinkError> {
        let request = Request::FindLink { name: name.to_owned() };
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        let reply = self.read(request.clone(), RouteNetlinkMessage::GetLink(message))?;
        reply.word(4).ok_or_else(|| NetlinkError::Malformed {
            request: Box::new(request),
            missing: "the link's index",
        })
    }

    /// Whether there is a link called `name`.
    pub fn link_exists(&mut self, name: &str) -> Result<bool, NetlinkError> {
        match self.link_index(name) {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The state of the link with this index.
    pub fn link(&mut self, device: u32) -> Result<Link, NetlinkError> {
        let request = Request::ReadLink { device };
        let reply = self.read(request.clone(), RouteNetlinkMessage::GetLink(of(device)))?;
        parse(&reply).ok_or_else(|| NetlinkError::Malformed {
            request: Box::new(request),
            missing: "the link's description",
        })
    }

    /// All links of the namespace.
    pub fn links(&mut self) -> Result<Vec<Link>, NetlinkError> {
        let replies = self.list(Request::ListLinks, RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
        Ok(replies.iter().filter(|reply| reply.kind == RTM_NEWLINK).filter_map(parse).collect())
    }

    /// The counters of the link with this index.
    pub fn link_stats(&mut self, device: u32) -> Result<LinkStats, NetlinkError> {
        let request = Request::ReadLink { device };
        let reply = self.read(request.clone(), RouteNetlinkMessage::GetLink(of(device)))?;
        parse_stats(&reply).ok_or_else(|| NetlinkError::Malformed {
            request: Box::new(request),
            missing: "the link's 64-bit counters",
        })
    }

    /// Takes a link up.
    pub fn set_up(&mut self, device: u32) -> Result<(), NetlinkError> {
        self.set_state(device, LinkFlags::Up)
    }

    /// Takes a link down. The kernel drops its routes, and its IPv6 addresses.
    pub fn set_down(&mut self, device: u32) -> Result<(), NetlinkError> {
        self.set_state(device, LinkFlags::empty())
    }

    fn set_state(&mut self, device: u32, state: LinkFlags) -> Result<(), NetlinkError> {
        let request = Request::SetState { device, up: state == LinkFlags::Up };
        let mut message = of(device);
        message.header.flags = state;
        message.header.change_mask = LinkFlags::Up;
        self.change(request, RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Changes a link's MTU, in bytes.
    pub fn set_mtu(&mut self, device: u32, mtu: u32) -> Result<(), NetlinkError> {
        self.set_link(Request::SetMtu { device, mtu }, device, LinkAttribute::Mtu(mtu))
    }

    /// Changes the length of a link's transmit queue, in packets.
    pub fn set_tx_queue_len(&mut self, device: u32, packets: u32) -> Result<(), NetlinkError> {
        self.set_link(Request::SetTxQueueLen { device, packets }, device, LinkAttribute::TxQueueLen(packets))
    }

    /// Bounds the segments that a TCP may put into one packet for this link, to be cut at its device. With 1 it sends
    /// segment by segment. Turning the offloads off does not have this effect: the kernel then segments in software.
    pub fn set_gso_max_segments(&mut self, device: u32, segments: u32) -> Result<(), NetlinkError> {
        let request = Request::SetGsoMaxSegments { device, segments };
        self.set_link(request, device, LinkAttribute::GsoMaxSegs(segments))
    }

    /// Renames a link. Old kernels want it to be down.
    pub fn rename(&mut self, device: u32, name: &str) -> Result<(), NetlinkError> {
        let request = Request::Rename { device, name: name.to_owned() };
        self.set_link(request, device, LinkAttribute::IfName(name.to_owned()))
    }

    /// Moves a link to the namespace that `namespace` refers to. It loses its addresses, and its index may change.
    pub fn move_to_netns(&mut self, device: u32, namespace: impl AsFd) -> Result<(), NetlinkError> {
        let fd = LinkAttribute::NetNsFd(namespace.as_fd().as_raw_fd());
        self.set_link(Request::MoveToNamespace { device }, device, fd)
    }

    /// Makes a link a port of the bridge `master`, or releases it.
    pub fn set_master(&mut self, device: u32, master: Option<u32>) -> Result<(), NetlinkError> {
        let attribute = LinkAttribute::Controller(master.unwrap_or(0));
        self.set_link(Request::SetMaster { device, master }, device, attribute)
    }

    /// Creates a veth pair. The far end is in `peer_netns` from the start, or else in this namespace.
    pub fn create_veth(
        &mut self,
        name: &str,
        peer_name: &str,
        peer_netns: Option<BorrowedFd<'_>>,
    ) -> Result<(), NetlinkError> {
        let mut peer = LinkMessage::default();
        peer.attributes.push(LinkAttribute::IfName(peer_name.to_owned()));
        peer.attributes.extend(peer_netns.map(|fd| LinkAttribute::NetNsFd(fd.as_raw_fd())));
        let info = vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer)))];
        self.create(Request::CreateVeth { name: name.to_owned(), peer: peer_name.to_owned() }, name, info)
    }

    /// Makes a bridge without ports.
    pub fn create_bridge(&mut self, name: &str) -> Result<(), NetlinkError> {
        let request = Request::CreateBridge { name: name.to_owned() };
        self.create(request, name, vec![LinkInfo::Kind(InfoKind::Bridge)])
    }

    /// Removes a link. The kernel removes both ends of a veth pair.
    pub fn delete_link(&mut self, device: u32) -> Result<(), NetlinkError> {
        self.change(Request::DeleteLink { device }, RouteNetlinkMessage::DelLink(of(device)), 0)
    }

    fn create(&mut self, request: Request, name: &str, info: Vec<LinkInfo>) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(name.to_owned()), LinkAttribute::LinkInfo(info)];
        self.change(request, RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
    }

    fn set_link(
        &mut self,
        request: Request,
        device: u32,
        attribute: LinkAttribute,
    ) -> Result<(), NetlinkError> {
        let mut message = of(device);
        message.attributes.push(attribute);
        self.change(request, RouteNetlinkMessage::SetLink(message), 0)
    }
}

fn of(device: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = device;
    message
}

pub(crate) fn parse(reply: &Reply) -> Option<Link> {
    let flags = reply.word(8)?;
    let mut link = Link {
        index: reply.word(4)?,
        name: String::new(),
        mtu: 0,
        tx_queue_len: 0,
        up: flags & IFF_UP != 0,
        carrier: flags & IFF_LOWER_UP != 0,
    };
    for attribute in reply.attributes(HEADER_BYTES) {
        match attribute.kind() {
            IFLA_IFNAME => link.name = text(attribute.value()),
            IFLA_MTU => link.mtu = word(attribute.value())?,
            IFLA_TXQLEN => link.tx_queue_len = word(attribute.value())?,
            _ => {}
        }
    }
    Some(link)
}

fn parse_stats(reply: &Reply) -> Option<LinkStats> {
    let attribute = reply.attributes(HEADER_BYTES).find(|attribute| attribute.kind() == IFLA_STATS64)?;
    let counter = |position: usize| double_word(attribute.value(), 8 * position);
    Some(LinkStats {
        rx_packets: counter(0)?,
        tx_packets: counter(1)?,
        rx_bytes: counter(2)?,
        tx_bytes: counter(3)?,
        rx_dropped: counter(6)?,
        tx_dropped: counter(7)?,
    })
}
