//! The receiving half of a lane over QUIC: datagrams or streams into packets.

use std::io::IoSlice;
use std::time::Duration;

use trunkline_packet::{Headers, Offload, Run, protocol};
use trunkline_trunk::datagram::Reassembler;
use trunkline_trunk::frame::{Frame, FrameHead};
use trunkline_trunk::streams::{Deframer, MAX_STREAMS};
use trunkline_trunk::{Delivery, Receiver};
use trunkline_units::Instant;

use crate::lane_rx::{LaneRxStats, RxError, Sink, count_write};

/// What a connection has for its lane.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arrived<'a> {
    /// A datagram.
    Datagram(&'a [u8]),
    /// The next bytes of the stream of this number.
    Stream(u16, &'a [u8]),
    /// Nothing more for now.
    Nothing,
}

/// How packets stand in the connection.
enum Framing {
    Datagrams(Box<Reassembler>),
    Streams(Vec<Deframer>),
}

/// The receiving half: from the connection into packets for the device.
pub(crate) struct QuicRx {
    framing: Framing,
    merging: Merging,
    stats: LaneRxStats,
}

impl QuicRx {
    pub(crate) fn new(delivery: Delivery) -> Self {
        let framing = match delivery {
            Delivery::Datagram => Framing::Datagrams(Box::default()),
            Delivery::Reliable => {
                Framing::Streams(std::iter::repeat_with(Deframer::default).take(MAX_STREAMS).collect())
            }
        };
        QuicRx { framing, merging: Merging::default(), stats: LaneRxStats::default() }
    }

    /// What it has done so far.
    pub(crate) const fn stats(&self) -> LaneRxStats {
        self.stats
    }

    /// Passes on the packets that are complete with what has arrived.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        (arrived, round_trip): (Arrived<'_>, Duration),
        receiver: &mut Receiver,
        sink: &mut Sink<'_>,
    ) -> Result<(), RxError> {
        let QuicRx { framing, merging, stats } = self;
        let mut deliver = |frame: &Frame, content: &[u8]| {
            if let Frame::Packet { head, .. } = frame {
                stats.frames += 1;
                pass_on(head, content, receiver, (&mut *sink, &mut *merging));
            }
            Ok::<(), RxError>(())
        };
        match (arrived, framing) {
            (Arrived::Datagram(datagram), Framing::Datagrams(reassembler)) => {
                reassembler.set_round_trip(round_trip);
                reassembler.handle_datagram(now, datagram, |frame, content| deliver(&frame, content))?;
                stats.bytes += datagram.len() as u64;
            }
            (Arrived::Stream(stream, bytes), Framing::Streams(deframers)) => {
                let deframer = deframers.get_mut(usize::from(stream)).ok_or(RxError::Mixed)?;
                deframer.handle_bytes(bytes, deliver)?;
                stats.bytes += bytes.len() as u64;
            }
            (Arrived::Nothing, _) => merging.finish(sink),
            (Arrived::Datagram(_), Framing::Streams(_)) | (Arrived::Stream(..), Framing::Datagrams(_)) => {
                return Err(RxError::Mixed);
            }
        }
        Ok(())
    }
}

fn pass_on(
    head: &FrameHead,
    packet: &[u8],
    receiver: &mut Receiver,
    (sink, merging): (&mut Sink<'_>, &mut Merging),
) {
    let Ok((headers, offload)) = receiver.handle_frame(head, packet) else { return };
    // It acknowledges what the first of its run does.
    if merging.push(packet, &headers, offload) {
        return;
    }
    if headers.protocol == protocol::TCP {
        (sink.observe)(&headers, packet);
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
