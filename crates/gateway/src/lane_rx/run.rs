//! Consecutive UDP datagrams of one flow, which go to the device in one write.

use trunkline_packet::{Headers, Offload, UdpRun};

use super::MAX_PARTS;

/// UDP datagrams of one flow that arrived in a row.
pub(super) struct Run {
    pub(super) merged: Option<(UdpRun, Headers)>,
    pub(super) payloads: [(usize, usize); MAX_PARTS],
    pub(super) count: usize,
}

impl Default for Run {
    fn default() -> Self {
        Run { merged: None, payloads: [(0, 0); MAX_PARTS], count: 0 }
    }
}

impl Run {
    /// Starts with a packet in two parts, whose data ends at `end` of the ring.
    pub(super) fn start(
        &mut self,
        packet: [&[u8]; 2],
        headers: Headers,
        offload: Offload,
        end: usize,
    ) -> bool {
        let Some(merged) = UdpRun::start(packet, &headers, offload) else { return false };
        self.count = 0;
        self.add(end, headers.packet_len - merged.header_len());
        self.merged = Some((merged, headers));
        true
    }

    pub(super) fn push(
        &mut self,
        packet: [&[u8]; 2],
        headers: &Headers,
        offload: Offload,
        end: usize,
    ) -> bool {
        if self.count == self.payloads.len() {
            return false;
        }
        let Some((merged, _)) = &mut self.merged else { return false };
        if !merged.push(packet, headers, offload) {
            return false;
        }
        let len = headers.packet_len - merged.header_len();
        self.add(end, len);
        true
    }

    fn add(&mut self, end: usize, len: usize) {
        self.payloads[self.count] = (end - len, len);
        self.count += 1;
    }
}
