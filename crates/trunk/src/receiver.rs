use std::net::IpAddr;
use std::sync::Arc;

use thiserror::Error;
use trunkline_packet::{Headers, Offload, OffloadError, PacketError};

use crate::frame::FrameHead;
use crate::replication::Elimination;
use crate::{PeerId, RouteTable, SequenceNumber};

/// Why a packet that came in a sound frame is not passed on. Counted by kind; the lane lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It is no IP packet.
    #[error("malformed packet: {0}")]
    Malformed(#[from] PacketError),
    /// Its offload request does not fit it.
    #[error("bad offload request: {0}")]
    BadOffload(#[from] OffloadError),
    /// Its source address does not belong to the peer that sent it.
    #[error("source address {0} does not belong to the peer")]
    ForgedSource(IpAddr),
}

/// What a receiver has passed on and refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Frames passed on.
    pub frames: u64,
    /// Packets passed on, each segment counted.
    pub segments: u64,
    /// Bytes of packets passed on.
    pub bytes: u64,
    /// Packets refused as [`Refusal::Malformed`].
    pub malformed: u64,
    /// Packets refused as [`Refusal::BadOffload`].
    pub bad_offload: u64,
    /// Packets refused as [`Refusal::ForgedSource`].
    pub forged_source: u64,
    /// Packets left out because another lane had brought them.
    pub duplicates: u64,
}

/// The receiving half of a trunk: decides which packets of a peer may enter this site.
///
/// The peer is authenticated and still not believed: a packet must be well formed, ask the kernel for nothing
/// that does not fit it, and come from an address that belongs to that peer.
///
/// An address belongs to the peer with the longest prefix that holds it. That is why the table has the prefixes of
/// every peer: with its own alone, a peer with a short prefix could send as the one that has a longer prefix inside it.
pub struct Receiver {
    peer: PeerId,
    owners: Arc<RouteTable<PeerId>>,
    /// The source of the last packet that was accepted: most come in runs from one, and are not looked up again.
    last_source: Option<IpAddr>,
    elimination: Elimination,
    stats: ReceiverStats,
}

impl Receiver {
    /// A receiver of what `peer` sends. `owners` says to whom each address belongs; all receivers of a site share it.
    pub fn new(peer: PeerId, owners: Arc<RouteTable<PeerId>>) -> Self {
        Receiver {
            peer,
            owners,
            last_source: None,
            elimination: Elimination::default(),
            stats: ReceiverStats::default(),
        }
    }

    /// Takes a new table, and the place that the peer has in it, and keeps the counts.
    pub fn set_owners(&mut self, peer: PeerId, owners: Arc<RouteTable<PeerId>>) {
        (self.peer, self.owners, self.last_source) = (peer, owners, None);
    }

    /// What has come so far.
    pub const fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// Whether the packet with this number is to be passed on: it is the first one with it.
    pub fn handle_number(&mut self, number: SequenceNumber) -> bool {
        let is_first = self.elimination.is_first(number);
        self.stats.duplicates += u64::from(!is_first);
        is_first
    }

    /// Judges the packet behind `head`, of which `prefix` holds the headers at least. `Ok` gives its headers and
    /// the offload request with which it may be written to the device.
    #[inline]
    pub fn handle_frame(&mut self, head: &FrameHead, prefix: &[u8]) -> Result<(Headers, Offload), Refusal> {
        match self.judge(head, prefix) {
            Ok(accepted) => {
                self.stats.frames += 1;
                self.stats.segments += u64::from(head.offload.segments(head.packet_len));
                self.stats.bytes += head.packet_len as u64;
                Ok(accepted)
            }
            Err(refusal) => {
                match refusal {
                    Refusal::Malformed(_) => self.stats.malformed += 1,
                    Refusal::BadOffload(_) => self.stats.bad_offload += 1,
                    Refusal::ForgedSource(_) => self.stats.forged_source += 1,
                }
                Err(refusal)
            }
        }
    }

    #[inline]
    fn judge(&mut self, head: &FrameHead, prefix: &[u8]) -> Result<(Headers, Offload), Refusal> {
        let headers = Headers::parse(prefix, head.packet_len)?;
        let offload = head.offload.normalise(prefix, &headers)?;
        if self.last_source != Some(headers.source) {
            if self.owners.lookup(headers.source) != Some(&self.peer) {
                return Err(Refusal::ForgedSource(headers.source));
            }
            self.last_source = Some(headers.source);
        }
        Ok((headers, offload))
    }
}
