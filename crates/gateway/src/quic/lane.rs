//! The two halves of a lane over QUIC: packets into datagrams, and datagrams into packets.

use std::cell::RefCell;
use std::io::IoSlice;
use std::rc::Rc;
use std::time::Duration;

use trunkline_packet::{Headers, Offload, Segmenter, UdpRun, protocol};
use trunkline_trunk::compress::{Compression, Compressor};
use trunkline_trunk::datagram::{MIN_DATAGRAM, Packer, Piece, Reassembler};
use trunkline_trunk::frame::{Frame, FrameHead, MAX_HEAD, MAX_PACKET};
use trunkline_trunk::{
    LaneAction, LaneControl, LaneId, LaneSnapshot, Packet as _, Paths, Poll, Receiver, Transmitter, TrunkPlan,
};
use trunkline_units::Instant;

use super::link::{Link, Shared};
use crate::lane_rx::{LaneRxStats, RxError, Sink, count_write};
use crate::lane_tx::{Flushed, LaneTxStats, fill};
use crate::pool::{PacketBuf, Pool};
use crate::sys::TcpInfo;

/// The part of a packet that holds its headers, whatever extensions it has.
const PREFIX: usize = 256;

/// The sending half: packets from the edge into datagrams, as many as the connection can send soon.
pub(crate) struct QuicTx {
    pub(crate) serial: u64,
    pub(super) link: Rc<RefCell<Link>>,
    pub(super) shared: Rc<Shared>,
    control: LaneControl,
    packer: Packer,
    pieces: Vec<Piece>,
    /// A lane that loses packets compresses no headers.
    compressor: Compressor,
    /// A super-packet in one piece, and one of its segments.
    whole: Vec<u8>,
    segment: Vec<u8>,
    /// Bytes of datagrams handed over.
    position: u64,
    frames: u64,
}

impl QuicTx {
    pub(super) fn new(serial: u64, link: Rc<RefCell<Link>>, shared: Rc<Shared>) -> Self {
        QuicTx {
            serial,
            link,
            shared,
            control: LaneControl::default(),
            packer: Packer::new(MIN_DATAGRAM),
            pieces: Vec::new(),
            compressor: Compressor::new(Compression::Off, 0),
            whole: Vec::new(),
            segment: Vec::new(),
            position: 0,
            frames: 0,
        }
    }

    /// What it has done so far.
    pub(crate) fn stats(&self) -> LaneTxStats {
        LaneTxStats { frames: self.frames, bytes: self.link.borrow().bytes_sent(), ..LaneTxStats::default() }
    }

    /// What the connection says of itself, in the terms of one over TCP.
    pub(crate) fn inspect(&self) -> (TcpInfo, LaneSnapshot) {
        let mut link = self.link.borrow_mut();
        (link.info(), snapshot(&mut link))
    }

    /// Takes the settings of a plan for its place. Its connection's congestion control is the bound on it: it takes no part in
    /// path control.
    pub(crate) fn configure(&mut self, plan: &TrunkPlan, lane: LaneId) {
        let group = plan.group_of(lane).0;
        self.control.configure(&TrunkPlan { edge_pacing: false, ..plan.clone() }, lane);
        let mut link = self.link.borrow_mut();
        link.set_dscp(group.dscp);
        link.set_algorithm(super::algorithm(&group.congestion_control));
        drop(link);
        self.apply();
    }

    /// The connection's settings do not go by its path: what the control asks for is set by the plan.
    fn apply(&mut self) {
        while let Some(action) = self.control.poll_action() {
            match action {
                LaneAction::SetCongestionControl { .. }
                | LaneAction::SetLowWaterMark(_)
                | LaneAction::SetMaxPacingRate(_) => {}
            }
        }
    }

    /// Tells the transmitter how far the lane has delivered, if that is due.
    pub(crate) fn report_delivered(
        &mut self,
        now: Instant,
        lane: LaneId,
        transmitter: &mut Transmitter<PacketBuf>,
    ) {
        if self.control.delivery_due(now) {
            let held = snapshot(&mut self.link.borrow_mut()).held();
            self.control.handle_held(now, lane, transmitter, held);
        }
    }

    /// Sends what waits for it at the edge, until the connection takes no more.
    pub(crate) fn flush(
        &mut self,
        now: Instant,
        lane: LaneId,
        (transmitter, paths): (&mut Transmitter<PacketBuf>, &mut Paths),
        pool: &mut Pool,
    ) -> Flushed {
        let link = Rc::clone(&self.link);
        let mut link = link.borrow_mut();
        if self.control.snapshot_due(now) {
            let snapshot = snapshot(&mut link);
            self.control.handle_snapshot(now, lane, (&mut *transmitter, paths), snapshot);
            self.apply();
        }
        let at = self.shared.to_std(now);
        loop {
            if !transmitter.has_backlog(lane) {
                return Flushed::Idle;
            }
            let Some(max) = link.max_datagram() else { return Flushed::Full };
            let Some(mut room) = self.control.room(now, link.unsent()) else { return Flushed::Full };
            self.packer.set_max(max);
            let mut held = None;
            while self.packer.len() < LaneControl::MAX_BATCH {
                match transmitter.poll_transmit(now, lane, &mut room, |packet| pool.release(packet)) {
                    Poll::Packet(packet) => self.put(packet, pool),
                    Poll::Wait(until) => {
                        held = Some(until);
                        break;
                    }
                    Poll::Nothing => break,
                }
            }
            if !self.packer.is_empty() {
                self.pieces.clear();
                let bytes = self.packer.take(&mut self.pieces);
                self.position += bytes.len() as u64;
                self.control.handle_written(now, bytes.len() as u64);
                link.hand_over(bytes, &self.pieces);
                link.transmit(&self.shared, at);
                link.touch(&self.shared);
            }
            transmitter.handle_transmitted(lane, self.position);
            if let Some(until) = held {
                return Flushed::Held(until);
            }
        }
    }

    /// Frames a packet. A super-packet is segmented first: a lost datagram must not cost all of it.
    fn put(&mut self, mut packet: PacketBuf, pool: &mut Pool) {
        if let Offload::Segments(_) = packet.offload {
            self.put_segments(&packet);
        } else {
            let frame = packet.frame(&mut self.compressor);
            let mut parts: [&[u8]; 1 + crate::pool::BODIES] = [&[]; 1 + crate::pool::BODIES];
            parts[0] = &packet.head.bytes()[frame];
            for (part, body) in parts[1..].iter_mut().zip(packet.body_parts()) {
                *part = body;
            }
            self.frames += 1;
            self.packer.put(&parts);
        }
        pool.release(packet);
    }

    fn put_segments(&mut self, packet: &PacketBuf) {
        self.whole.clear();
        self.whole.extend_from_slice(packet.prefix());
        for body in packet.body_parts() {
            self.whole.extend_from_slice(body);
        }
        self.segment.resize(MAX_PACKET, 0);
        // The offload was checked when the packet was read.
        let Ok(headers) = Headers::parse(&self.whole, self.whole.len()) else { return };
        let Ok(mut segmenter) = Segmenter::new(&self.whole, &headers, packet.offload) else { return };
        while let Some(len) = segmenter.next_into(&mut self.segment) {
            let mut head = [0; MAX_HEAD];
            let start =
                MAX_HEAD - FrameHead { packet_len: len, offload: Offload::None }.encode_before(&mut head);
            self.frames += 1;
            self.packer.put(&[&head[start..], &self.segment[..len]]);
        }
    }
}

fn snapshot(link: &mut Link) -> LaneSnapshot {
    let unsent = link.unsent();
    fill(&link.info(), unsent, unsent + link.in_flight())
}

/// The receiving half: datagrams into packets for the device.
#[derive(Default)]
pub(crate) struct QuicRx {
    reassembler: Reassembler,
    run: Run,
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
        let (stats, run) = (&mut self.stats, &mut self.run);
        self.reassembler.handle_datagram(now, datagram, |frame, content| {
            if let Frame::Packet { head, .. } = frame {
                stats.frames += 1;
                pass_on(&head, content, receiver, (sink, run));
            }
            Ok(())
        })
    }

    /// Writes what was gathered of the datagrams that came: no more come now.
    pub(crate) fn finish(&mut self, sink: &mut Sink<'_>) {
        self.run.finish(sink);
    }
}

fn pass_on(head: &FrameHead, packet: &[u8], receiver: &mut Receiver, (sink, run): (&mut Sink<'_>, &mut Run)) {
    let prefix = &packet[..packet.len().min(PREFIX)];
    let Ok((headers, offload)) = receiver.handle_frame(head, prefix) else { return };
    if headers.protocol == protocol::TCP {
        (sink.observe)(&headers, prefix);
    }
    if headers.protocol == protocol::UDP && sink.writer.takes_udp_super_packets() {
        if run.push(packet, &headers, offload) {
            return;
        }
        run.finish(sink);
        if run.start(packet, headers, offload) {
            return;
        }
    } else {
        run.finish(sink);
    }
    let vnet = offload.to_vnet();
    let slices = [IoSlice::new(&vnet), IoSlice::new(packet)];
    count_write(sink.device, sink.writer.write(&slices, &headers, offload), 1);
}

/// UDP datagrams of one flow that arrived in a row, which go to the device in one write. Their data is copied: what they came
/// in does not outlive them.
#[derive(Default)]
struct Run {
    merged: Option<(UdpRun, Headers)>,
    payload: Vec<u8>,
}

impl Run {
    fn start(&mut self, packet: &[u8], headers: Headers, offload: Offload) -> bool {
        let Some(merged) = UdpRun::start([packet, &[]], &headers, offload) else { return false };
        self.payload.clear();
        self.payload.extend_from_slice(&packet[merged.header_len()..]);
        self.merged = Some((merged, headers));
        true
    }

    fn push(&mut self, packet: &[u8], headers: &Headers, offload: Offload) -> bool {
        let Some((merged, _)) = &mut self.merged else { return false };
        if !merged.push([packet, &[]], headers, offload) {
            return false;
        }
        self.payload.extend_from_slice(&packet[merged.header_len()..]);
        true
    }

    fn finish(&mut self, sink: &mut Sink<'_>) {
        let Some((mut merged, headers)) = self.merged.take() else { return };
        let datagrams = merged.count();
        let (header, offload) = merged.finish();
        let vnet = offload.to_vnet();
        let slices = [IoSlice::new(&vnet), IoSlice::new(header), IoSlice::new(&self.payload)];
        if datagrams > 1 {
            sink.device.coalesced += u64::from(datagrams);
        }
        count_write(sink.device, sink.writer.write(&slices, &headers, offload), datagrams);
    }
}
