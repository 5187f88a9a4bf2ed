//! Reads the counters and the state of the parts of a network.

use std::io::{self, Write};

use trunkline_tcp::Endpoint;
use trunkline_trunk::ClassId;
use trunkline_trunk::path_tail::Estimate;
use trunkline_units::Instant;
use trunkline_workload::Datagrams;

use super::{Network, Source};
use crate::Packet;
use crate::capture::{Capture, CapturePoint, CapturedLink};
use crate::connection::ConnectionId;
use crate::digest::Digest;
use crate::gateway::{TrunkId, TrunkReport};
use crate::link::{Link, LinkId};
use crate::node::{NodeId, NodeStats};
use crate::proxy::{ProxyId, ProxyStats};
use crate::traffic::{SourceId, Transfer};

impl Network {
    /// The counters of a proxy.
    pub fn proxy_stats(&self, id: ProxyId) -> &ProxyStats {
        self.proxies[id.0 as usize].stats()
    }

    /// The operator of a mobile network says something else of one of a [path tail](crate::ProxyMode::PathTail) proxy's
    /// cells, by its number. What it says of a profile holds for each connection that has one.
    ///
    /// # Panics
    /// If there is no such cell.
    pub fn set_estimate(&mut self, id: ProxyId, cell: usize, estimate: Estimate) {
        self.proxies[id.0 as usize].set_estimate(&mut self.net, id.0, cell, estimate);
    }

    /// Captures the packets of a link from now on, as a pcap file with nanoseconds and bare IP packets.
    pub fn capture(
        &mut self,
        link: LinkId,
        point: CapturePoint,
        out: Box<dyn Write + Send>,
    ) -> io::Result<()> {
        self.net.links[link.0 as usize].capture(Capture::pcap(point, out)?);
        Ok(())
    }

    /// Captures the packets of some links from now on, as one pcapng file: of each link an interface with what it sends and
    /// one with what it drops and loses, each packet with a comment on why. The texts are about all of it: the program that
    /// runs the network, and comments.
    ///
    /// # Errors
    /// Those of the output.
    pub fn capture_links(
        &mut self,
        links: &[CapturedLink],
        about: (&str, &[String]),
        out: Box<dyn Write + Send>,
    ) -> io::Result<()> {
        let rate = |link: &CapturedLink| self.net.links[link.link.0 as usize].machine.rate();
        let rated: Vec<_> = links.iter().map(|link| (link.clone(), rate(link))).collect();
        let captures = Capture::pcapng(&rated, about, out)?;
        for (link, capture) in links.iter().zip(captures) {
            self.net.links[link.link.0 as usize].capture(capture);
        }
        Ok(())
    }

    /// Ends all captures. An error that ended one before, such as a full disk, is reported here.
    pub fn finish_captures(&mut self) -> io::Result<()> {
        self.net.links.iter_mut().try_for_each(Link::finish_captures)
    }

    /// Virtual time.
    pub const fn now(&self) -> Instant {
        self.net.now
    }

    /// The seed that it was made with.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// A fingerprint of every event so far.
    pub const fn digest(&self) -> Digest {
        self.net.digest
    }

    /// Packet-hops: each packet counts once for each link that it crossed.
    pub const fn packet_hops(&self) -> u64 {
        self.net.hops
    }

    /// A link.
    pub fn link_state(&self, id: LinkId) -> &trunkline_link::Link<Packet> {
        &self.net.links[id.0 as usize].machine
    }

    /// Packets that a node neither forwarded nor delivered.
    pub fn node_stats(&self, id: NodeId) -> &NodeStats {
        &self.net.nodes[id.index()].stats
    }

    /// A node's name.
    pub fn node_name(&self, id: NodeId) -> &str {
        &self.net.nodes[id.index()].name
    }

    /// The transfers of a source of TCP traffic so far; empty for others.
    pub fn transfers(&self, id: SourceId) -> Vec<Transfer> {
        match &self.sources[id.0 as usize] {
            Source::Transfers(source) => source.transfers(&self.net),
            Source::Datagrams(_) => Vec::new(),
        }
    }

    /// The statistics of a source of datagrams; `None` for others.
    pub fn datagrams(&self, id: SourceId) -> Option<&Datagrams> {
        match &self.sources[id.0 as usize] {
            Source::Datagrams(source) => self.net.datagrams.get(source.flow as usize),
            Source::Transfers(_) => None,
        }
    }

    /// The ends of a user's connection as it is now, the client's first: for looking at windows and timers.
    pub fn endpoints(&self, id: SourceId, user: u32) -> Option<[&Endpoint; 2]> {
        match &self.sources[id.0 as usize] {
            Source::Transfers(source) => {
                source.ends(user).map(|ends| ends.map(|end| &self.net.connections[end.0 as usize].endpoint))
            }
            Source::Datagrams(_) => None,
        }
    }

    /// The end of a user's connection that sends the data of its transfers.
    pub fn sender(&self, id: SourceId, user: u32) -> Option<&Endpoint> {
        self.sender_first(id, user).map(|[sender, _]| self.endpoint(sender))
    }

    /// The connection of a user, the end that sends data first.
    pub(crate) fn sender_first(&self, id: SourceId, user: u32) -> Option<[ConnectionId; 2]> {
        match &self.sources[id.0 as usize] {
            Source::Transfers(source) => source.sender_first(user),
            Source::Datagrams(_) => None,
        }
    }

    /// Bytes of a user's transfers that have been received.
    pub fn received_by(&self, id: SourceId, user: u32) -> u64 {
        match &self.sources[id.0 as usize] {
            Source::Transfers(source) => source.received_by(&self.net, user),
            Source::Datagrams(_) => 0,
        }
    }

    /// Segments retransmitted in a user's transfers by the sender of their data, over all of its connections.
    pub fn retransmissions_by(&self, id: SourceId, user: u32) -> u64 {
        match &self.sources[id.0 as usize] {
            Source::Transfers(source) => source.retransmissions_by(&self.net, user),
            Source::Datagrams(_) => 0,
        }
    }

    pub(crate) fn endpoint(&self, end: ConnectionId) -> &Endpoint {
        &self.net.connections[end.0 as usize].endpoint
    }

    /// Lanes of a trunk, open or not.
    pub fn lanes(&self, id: TrunkId) -> usize {
        self.trunks.lanes(id)
    }

    /// The report of one side of a trunk, 0 or 1.
    pub fn trunk_report(&mut self, id: TrunkId, side: usize) -> TrunkReport {
        self.trunks.report(&self.net, id, side)
    }

    /// Segments and bytes that wait in a class' edge queues at one side of a trunk, 0 or 1.
    pub fn class_backlog(&self, id: TrunkId, side: usize, class: ClassId) -> (u64, u64) {
        self.trunks.backlog(id, side, class)
    }

    /// The end of a lane's connection at one side of a trunk; `None` of lanes of datagrams.
    pub fn lane_endpoint(&self, id: TrunkId, side: usize, lane: usize) -> Option<&Endpoint> {
        let end = self.trunks.lane_end(id, side, lane)?;
        Some(&self.net.connections[end.0 as usize].endpoint)
    }

    /// Ends of connections that are there, lanes' and proxies' too, and those that only remember for a while that they
    /// were closed.
    pub fn live_endpoints(&self) -> usize {
        self.net.live_endpoints()
    }

    /// Flows, users or connections of a source.
    pub fn users(&self, id: SourceId) -> u32 {
        match &self.sources[id.0 as usize] {
            Source::Transfers(source) => source.users(),
            Source::Datagrams(_) => 1,
        }
    }
}
