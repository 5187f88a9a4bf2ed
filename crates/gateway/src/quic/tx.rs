//! The sending half of a lane over QUIC: packets into datagrams.

use std::cell::RefCell;
use std::rc::Rc;

use trunkline_packet::{Headers, Offload, SegmentHeaders, Segmentation};
use trunkline_trunk::compress::{Compression, Compressor};
use trunkline_trunk::datagram::{MIN_DATAGRAM, Packer, Piece};
use trunkline_trunk::frame::{FrameHead, MAX_HEAD};
use trunkline_trunk::{
    LaneAction, LaneControl, LaneId, LaneSnapshot, Packet as _, Paths, Poll, Transmitter, Transport,
    TrunkPlan,
};
use trunkline_units::{Instant, Rate};

use super::control::Control;
use super::link::{Link, Shared};
use crate::lane_tx::{Flushed, LaneTxStats, fill};
use crate::pool::{BODIES, HEAD_CONTENT, PacketBuf, Pool};
use crate::sys::TcpInfo;

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
    /// A frame head and the headers of one segment of a super-packet.
    head: Box<[u8; MAX_HEAD + HEAD_CONTENT]>,
    /// Bytes of datagrams handed over.
    position: u64,
    frames: u64,
}

impl QuicTx {
    pub(super) fn new(serial: u64, link: Rc<RefCell<Link>>, shared: Rc<Shared>) -> Self {
        let mut control = LaneControl::default();
        control.pace();
        QuicTx {
            serial,
            link,
            shared,
            control,
            packer: Packer::new(MIN_DATAGRAM),
            pieces: Vec::new(),
            compressor: Compressor::new(Compression::Off, 0),
            head: Box::new([0; MAX_HEAD + HEAD_CONTENT]),
            position: 0,
            frames: 0,
        }
    }

    /// What it has done so far.
    pub(crate) fn stats(&self) -> LaneTxStats {
        let link = self.link.borrow();
        let (bytes, circuit) = (link.bytes_sent(), link.circuit());
        LaneTxStats { frames: self.frames, bytes, circuit, ..LaneTxStats::default() }
    }

    /// What the connection says of itself, in the terms of one over TCP.
    pub(crate) fn inspect(&self) -> (TcpInfo, LaneSnapshot) {
        let mut link = self.link.borrow_mut();
        let granted = self.control.grant().map_or(u64::MAX, |rate| rate.bits_per_second() / 8);
        (TcpInfo { pacing_rate: granted, ..link.info() }, snapshot(&mut link))
    }

    /// Takes the settings of a plan for its place.
    pub(crate) fn configure(&mut self, plan: &TrunkPlan, lane: LaneId) {
        let group = plan.group_of(lane).0;
        self.control.configure(plan, lane);
        let mut link = self.link.borrow_mut();
        link.set_dscp(group.dscp);
        link.set_control(Control::of(&group.congestion_control));
        // The site that dialled can dial it over TCP.
        let may_change = group.transport == Transport::Auto && link.inner.side().is_client();
        link.set_watched(self.shared.to_std(crate::clock::now()), may_change);
        drop(link);
        self.apply();
    }

    /// Takes the rate that the lane's path grants it.
    pub(crate) fn handle_grant(&mut self, grant: Option<Rate>) {
        self.control.handle_grant(grant);
        self.apply();
    }

    /// The connection's congestion control does not go by its path, and pacing is done where packets leave the edge.
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

    /// Sends what waits for it at the edge, until the connection takes no more, and what else the connection has to say.
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
            let flushed = self.fill(now, lane, transmitter, (&mut link, pool));
            let unsent = link.unsent();
            link.transmit(&self.shared, at);
            // What has left makes room for more.
            if flushed != Flushed::Full || link.unsent() == unsent {
                link.unsettle(&self.shared);
                return flushed;
            }
        }
    }

    /// Hands over what waits, until the connection has as much as it sends soon.
    fn fill(
        &mut self,
        now: Instant,
        lane: LaneId,
        transmitter: &mut Transmitter<PacketBuf>,
        (link, pool): (&mut Link, &mut Pool),
    ) -> Flushed {
        loop {
            if !transmitter.has_backlog(lane) {
                return Flushed::Idle;
            }
            if let Some(until) = self.control.paced_until(now) {
                return Flushed::Held(until);
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
            }
            transmitter.handle_transmitted(lane, self.position);
            if let Some(until) = held {
                return Flushed::Held(until);
            }
        }
    }

    /// Frames a packet. A super-packet is segmented first: a lost datagram must not cost all of it.
    fn put(&mut self, mut packet: PacketBuf, pool: &mut Pool) {
        if let Offload::Segments(segmentation) = packet.offload {
            self.put_segments(&packet, segmentation);
        } else {
            let frame = packet.frame(&mut self.compressor);
            let mut parts: [&[u8]; 1 + BODIES] = [&[]; 1 + BODIES];
            parts[0] = &packet.head.bytes()[frame];
            for (part, body) in parts[1..].iter_mut().zip(packet.body_parts()) {
                *part = body;
            }
            self.frames += 1;
            self.packer.put(&parts);
        }
        pool.release(packet);
    }

    /// Frames the segments of a super-packet, each of TCP short enough for a datagram of its own, so that a lost datagram
    /// costs one and nothing has to be put together. Their checksums are left to the receiver's kernel: the connection proves
    /// that they arrive as they left.
    fn put_segments(&mut self, packet: &PacketBuf, segmentation: Segmentation) {
        let prefix = packet.prefix();
        // The offload was checked when the packet was read.
        let Ok(headers) = Headers::parse(prefix, packet.len) else { return };
        let Ok(segments) = SegmentHeaders::new(prefix, &headers, segmentation) else { return };
        let open = Offload::Checksum { start: 0, offset: 0 };
        let frame_head = FrameHead { packet_len: 0, offload: open }.encoded_len();
        let mut segments = segments.within(self.packer.longest_whole() - frame_head);
        let (room, header) =
            self.head.split_first_chunk_mut::<MAX_HEAD>().expect("an array of this length and more");
        while let Some(segment) = segments.next_into(header) {
            let head = FrameHead { packet_len: segment.packet_len(), offload: segment.offload };
            let head_len = head.encode_before(room);
            let mut parts: [&[u8]; 3 + BODIES] = [&[]; 3 + BODIES];
            parts[0] = &room[MAX_HEAD - head_len..];
            parts[1] = &header[..segment.header_len];
            let mut next = 2;
            packet.for_parts(segment.data, |part| {
                parts[next] = part;
                next += 1;
            });
            self.frames += 1;
            self.packer.put(&parts[..next]);
        }
    }
}

fn snapshot(link: &mut Link) -> LaneSnapshot {
    let unsent = link.unsent();
    let lost_bytes = link.bytes_lost();
    LaneSnapshot { lost_bytes, ..fill(&link.info(), unsent, unsent + link.in_flight()) }
}
