//! Packets that came over bonded paths, and wait for those before them.

use std::io::IoSlice;

use trunkline_packet::{Headers, Offload, protocol};
use trunkline_trunk::bonding::{Order, Resequencer};
use trunkline_units::Instant;

use super::{Sink, count_write};

/// The packets of a peer in their order. The turn of one that was refused passes too.
pub(crate) type Ordered = Resequencer<Option<HeldPacket>>;

/// A packet that may enter this site, and is early.
#[derive(Debug)]
pub(crate) struct HeldPacket {
    bytes: Vec<u8>,
    headers: Headers,
    offload: Offload,
}

impl HeldPacket {
    /// A copy of a packet in pieces.
    pub(super) fn new(pieces: &[IoSlice<'_>], headers: Headers, offload: Offload) -> Self {
        let mut bytes = Vec::with_capacity(headers.packet_len);
        for piece in pieces {
            bytes.extend_from_slice(piece);
        }
        HeldPacket { bytes, headers, offload }
    }
}

impl Sink<'_> {
    /// Has a packet wait for those before it in its order.
    pub(super) fn hold(&mut self, now: Instant, place: Order, packet: Option<HeldPacket>) {
        let bytes = packet.as_ref().map_or(0, |packet| packet.bytes.len());
        self.ordered.hold(now, place, packet, bytes);
        self.write_ordered();
    }

    /// Writes the packets whose turn it is.
    pub(crate) fn write_ordered(&mut self) {
        while let Some(next) = self.ordered.poll() {
            let Some(HeldPacket { bytes, headers, offload }) = next else { continue };
            if headers.protocol == protocol::TCP {
                (self.observe)(&headers, &bytes);
            }
            let vnet = offload.to_vnet();
            let slices = [IoSlice::new(&vnet), IoSlice::new(&bytes)];
            count_write(self.device, self.writer.write(&slices, &headers, offload), 1);
        }
    }
}
