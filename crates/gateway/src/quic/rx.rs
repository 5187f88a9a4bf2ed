//! The receiving half of a lane over QUIC: datagrams into packets.

use std::io::IoSlice;
use std::time::Duration;

use trunkline_packet::{Headers, Offload, Run, protocol};
use trunkline_trunk::Receiver;
use trunkline_trunk::datagram::Reassembler;
use trunkline_trunk::frame::{Frame, FrameHead};
use trunkline_units::Instant;

use crate::lane_rx::{LaneRxStats, RxError, Sink, count_write};

/// The part of a packet that holds its headers, whatever extensions it has.
const PREFIX: usize = 256;

/// The receiving half: datagrams into packets for the device.
#[derive(Default)]
pub(crate) struct QuicRx {
    reassembler: Reassembler,
    merging: Merging,
    stats: LaneRxStats,
}

impl QuicRx {
    /// What it has done so far.
    pub(crate) const fn stats(&self) -> LaneRxStats {
        self.stats
    }

    /// Passes on the packets that a datagram completes.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        (datagram, round_trip): (&[u8], Duration),
        receiver: &mut Receiver,
        sink: &mut Sink<'_>,
    ) -> Result<(), RxError> {
        self.stats.bytes += datagram.len() as u64;
        self.reassembler.set_round_trip(round_trip);
        let (stats, merging) = (&mut self.stats, &mut self.merging);
        self.reassembler.handle_datagram(now, datagram, |frame, content| {
            if let Frame::Packet { head, .. } = frame {
                stats.frames += 1;
                pass_on(&head, content, receiver, (sink, merging));
            }
            Ok(())
        })
    }

    /// Writes what was gathered of the datagrams that came: no more come now.
    pub(crate) fn finish(&mut self, sink: &mut Sink<'_>) {
        self.merging.finish(sink);
    }
}

fn pass_on(
    head: &FrameHead,
    packet: &[u8],
    receiver: &mut Receiver,
    (sink, merging): (&mut Sink<'_>, &mut Merging),
) {
    let prefix = &packet[..packet.len().min(PREFIX)];
    let Ok((headers, offload)) = receiver.handle_frame(head, prefix) else { return };
    // It acknowledges what the first of its run does.
    if merging.push(packet, &headers, offload) {
        return;
    }
    if headers.protocol == protocol::TCP {
        (sink.observe)(&headers, prefix);
    }
    merging.finish(sink);
    if sink.writer.takes_super_packets(headers.protocol) && merging.start(packet, headers, offload) {
        return;
    }
    let vnet = offload.to_vnet();
    let slices = [IoSlice::new(&vnet), IoSlice::new(packet)];
    count_write(sink.device, sink.writer.write(&slices, &headers, offload), 1);
}

/// Packets of one flow that arrived in a row, which go to the device in one write. Their data is copied: what they came in
/// does not outlive them.
#[derive(Default)]
struct Merging {
    run: Option<(Run, Headers)>,
    payload: Vec<u8>,
}

impl Merging {
    fn start(&mut self, packet: &[u8], headers: Headers, offload: Offload) -> bool {
        let Some(run) = Run::start([packet, &[]], &headers, offload) else { return false };
        self.payload.clear();
        self.payload.extend_from_slice(&packet[run.header_len()..]);
        self.run = Some((run, headers));
        true
    }

    fn push(&mut self, packet: &[u8], headers: &Headers, offload: Offload) -> bool {
        let Some((run, _)) = &mut self.run else { return false };
        if !run.push([packet, &[]], headers, offload) {
            return false;
        }
        self.payload.extend_from_slice(&packet[run.header_len()..]);
        true
    }

    fn finish(&mut self, sink: &mut Sink<'_>) {
        let Some((mut run, headers)) = self.run.take() else { return };
        let packets = run.count();
        let (header, offload) = run.finish();
        let vnet = offload.to_vnet();
        let slices = [IoSlice::new(&vnet), IoSlice::new(header), IoSlice::new(&self.payload)];
        if packets > 1 {
            sink.device.coalesced += u64::from(packets);
        }
        count_write(sink.device, sink.writer.write(&slices, &headers, offload), packets);
    }
}
