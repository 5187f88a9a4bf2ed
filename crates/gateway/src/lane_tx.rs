//! The sending half of a lane: packets in, bytes of a TCP connection out, in clear or as TLS records.
//!
//! A packet cannot be taken back from a lane, so the lane gets no more than keeps it busy, and the rest waits in the
//! edge queue. [`LaneControl`] decides that; this file has the socket.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg, sockopt};
use trunkline_trunk::compress::{Compressor, CompressorStats};
use trunkline_trunk::frame::encode_report;
use trunkline_trunk::path::LaneSign;
use trunkline_trunk::streams::StreamError;
use trunkline_trunk::{
    ArrivalReport, CongestionControlCause, LaneAction, LaneControl, LaneId, LaneSnapshot, PathMode, Paths,
    Poll, Transmitter, TrunkPlan,
};
use trunkline_units::{Instant, Rate};

use crate::clock;
use crate::line_limit;
use crate::pool::{BODY_CONTENT, Block, FRONT, PacketBuf, Pool};
use crate::quic::Circuit;
use crate::record::{HEADER_BYTES, RecordError, Sealer, TRAILER_BYTES};
use crate::stall::{Stall, Stalling};
use crate::sys::{self, TcpInfo};

/// The maximum number of pieces sent with one system call.
const BATCH: usize = 128;
/// A stretch of a block that waits to be sent.
struct Piece {
    block: Block,
    start: usize,
    end: usize,
}

/// Why a lane ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaneError {
    #[error("{0}")]
    Network(#[from] io::Error),
    #[error("{0}")]
    Record(#[from] RecordError),
    #[error("{0}")]
    Stream(#[from] StreamError),
    #[error("the peer has taken nothing, or acknowledged nothing, for too long")]
    Lifeless,
}

/// What a flush left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Nothing waits.
    Idle,
    /// The lane is full: go on when it is reported writable.
    Full,
    /// Nothing more before this time: ceilings hold back what waits, or the lane has stalled.
    Held(Instant),
}

/// Counts of one lane's sending half.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LaneTxStats {
    /// Packets handed over.
    pub(crate) frames: u64,
    /// Bytes written to the socket, frame heads and TLS included.
    pub(crate) bytes: u64,
    /// Key updates sent.
    pub(crate) key_updates: u64,
    /// What header compression did.
    pub(crate) compression: CompressorStats,
    /// The bound on its path, if its queue is to be kept at the edge.
    pub(crate) pacing: Option<PathMode>,
    /// The congestion control chosen by its path, if it goes by its path.
    pub(crate) chosen: Option<&'static str>,
    /// What stands in for the congestion control of a lane that has none.
    pub(crate) circuit: Option<Circuit>,
}

pub(crate) struct LaneTx {
    pub(crate) serial: u64,
    fd: Arc<OwnedFd>,
    sealer: Option<Sealer>,
    compressor: Compressor,
    outbox: VecDeque<Piece>,
    /// Small frames gathered for one record.
    stage: Option<(Block, usize)>,
    /// Bytes ever put into the outbox: the place in the lane's stream where the last packet ends.
    position: u64,
    control: LaneControl,
    /// Bytes delivered by the last snapshot, and whether some of the others were sent.
    delivered: u64,
    has_unacknowledged: bool,
    stall: Stall,
    /// What the other end has acknowledged, and when that was first seen; at first the handshake.
    heard: (u32, Instant),
    /// What the far end is to be told of what arrived from it.
    report: Option<ArrivalReport>,
    stats: LaneTxStats,
}

impl LaneTx {
    /// With `reports`, both ends report what arrives.
    pub(crate) fn new(
        serial: u64,
        fd: Arc<OwnedFd>,
        sealer: Option<Sealer>,
        compressor: Compressor,
        reports: bool,
    ) -> Self {
        let mut control = LaneControl::default();
        if reports {
            control.expect_reports();
        }
        LaneTx {
            serial,
            fd,
            sealer,
            compressor,
            outbox: VecDeque::with_capacity(BATCH),
            stage: None,
            position: 0,
            control,
            delivered: 0,
            has_unacknowledged: false,
            stall: Stall::default(),
            heard: (0, clock::now()),
            report: None,
            stats: LaneTxStats::default(),
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// What it has done so far.
    pub(crate) fn stats(&self) -> LaneTxStats {
        LaneTxStats {
            compression: *self.compressor.stats(),
            bytes: self.control.written(),
            chosen: self.control.chosen_congestion_control(),
            ..self.stats
        }
    }

    /// Takes the settings of a plan for its place, at first and after a reload.
    ///
    /// Only the thread that serves the lane may call this: another one could set a congestion control between a look
    /// at the path and the choice that follows from it.
    pub(crate) fn configure(&mut self, plan: &TrunkPlan, lane: LaneId) {
        self.compressor.set(plan.group_of(lane).0.compression);
        self.control.configure(plan, lane);
        // Where the kernel does not pace, the lane goes without.
        let _ = self.apply();
    }

    /// Changes the settings of the connection that the control asks for.
    fn apply(&mut self) -> io::Result<()> {
        while let Some(action) = self.control.poll_action() {
            match action {
                LaneAction::SetCongestionControl { name, cause } => {
                    let Err(error) = sys::set_congestion_control(self.fd(), &name) else { continue };
                    match cause {
                        CongestionControlCause::Plan => line_limit::warn(&format!(
                            "this kernel does not give a lane the congestion control {name}: {error}"
                        )),
                        CongestionControlCause::Path => {
                            line_limit::warn(&format!(
                                "a lane's path loses packets, and this kernel does not give us {name}: {error}"
                            ));
                            self.control.handle_congestion_control_refused();
                        }
                    }
                }
                LaneAction::SetLowWaterMark(bytes) => sys::set_notsent_lowat(self.fd(), bytes)?,
                LaneAction::SetMaxPacingRate(rate) => {
                    sys::set_max_pacing_rate(self.fd(), rate.map(|rate| rate.bits_per_second() / 8))?;
                }
            }
        }
        Ok(())
    }

    /// What the kernel says of the lane, for metrics.
    pub(crate) fn inspect(&self) -> io::Result<(TcpInfo, LaneSnapshot)> {
        let info = sys::tcp_info(self.fd())?;
        let total = sys::send_queue(self.fd())?;
        let unsent = sys::send_queue_unsent(self.fd())?;
        Ok((info, fill(&info, unsent, total)))
    }

    /// What the kernel knows of the lane's path. What comes from the other end shows nothing of the way to it, unless it
    /// acknowledges.
    pub(crate) fn sign(&mut self, now: Instant) -> io::Result<LaneSign> {
        let info = sys::tcp_info(self.fd())?;
        if info.delivered != self.heard.0 {
            self.heard = (info.delivered, now);
        }
        Ok(LaneSign { outstanding: info.unacked > 0, heard: self.heard.1, srtt: info.srtt() })
    }

    /// Whether it holds data that nobody has acknowledged, as far as is known: it is to be served again soon.
    pub(crate) fn holds_data(&self) -> bool {
        self.control.written() > self.delivered
    }

    /// What is to be done about it if it delivers nothing.
    pub(crate) fn poll_stall(&mut self, now: Instant) -> Option<Stalling> {
        let is_stalled = self.control.stalled_until(now).is_some() && self.has_unacknowledged;
        let news = self.stall.update(now, is_stalled);
        if news == Some(Stalling::Dead) {
            // The usual end would wait behind what does not get through.
            let _ = sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO));
        }
        news
    }

    /// Takes the rate that the lane's path grants it.
    pub(crate) fn handle_grant(&mut self, grant: Option<Rate>) -> io::Result<()> {
        self.control.handle_grant(grant);
        self.apply()
    }

    /// Takes a snapshot of the connection if one is due.
    fn refresh(
        &mut self,
        now: Instant,
        lane: LaneId,
        place: (&mut Transmitter<PacketBuf>, &mut Paths),
    ) -> io::Result<()> {
        if !self.control.snapshot_due(now) {
            return Ok(());
        }
        let info = sys::tcp_info(self.fd())?;
        let total = sys::send_queue(self.fd())?;
        let snapshot = fill(&info, info.notsent as usize, total);
        self.delivered = self.control.written().saturating_sub(total as u64);
        self.has_unacknowledged = info.unacked > 0;
        self.control.handle_snapshot(now, lane, place, snapshot);
        self.apply()
    }

    /// Tells the transmitter how far the lane has delivered, if that is due.
    pub(crate) fn report_delivered(
        &mut self,
        now: Instant,
        lane: LaneId,
        transmitter: &mut Transmitter<PacketBuf>,
    ) {
        // A lane whose socket fails here is about to end, and the transmitter is told then.
        if self.control.delivery_due(now)
            && let Ok(total) = sys::send_queue(self.fd())
        {
            self.control.handle_held(now, lane, transmitter, total);
        }
    }

    /// Takes what the far end is to be told, in place of what it has not been told yet.
    pub(crate) fn report(&mut self, report: ArrivalReport) {
        self.report = Some(report);
    }

    /// Takes what the far end tells.
    pub(crate) fn handle_report(
        &mut self,
        now: Instant,
        lane: LaneId,
        paths: &mut Paths,
        report: ArrivalReport,
    ) {
        self.control.handle_report(now, lane, paths, report);
    }

    /// Sends what waits in the lane, then what waits for it at the edge, until the lane is full.
    pub(crate) fn flush(
        &mut self,
        now: Instant,
        lane: LaneId,
        (transmitter, paths): (&mut Transmitter<PacketBuf>, &mut Paths),
        pool: &mut Pool,
    ) -> Result<Flushed, LaneError> {
        let mut held = None;
        // Also without a backlog at the edge: the queue may stand in the core.
        self.refresh(now, lane, (&mut *transmitter, paths))?;
        if let Some(at) = self.control.stalled_until(now)
            && transmitter.has_backlog(lane)
        {
            return Ok(Flushed::Held(at));
        }
        loop {
            if !self.send(now, pool)? {
                self.control.handle_full();
                return Ok(Flushed::Full);
            }
            if self.put_report(pool)? {
                continue;
            }
            if let Some(at) = held {
                return Ok(Flushed::Held(at));
            }
            if !transmitter.has_backlog(lane) {
                return Ok(Flushed::Idle);
            }
            let unsent = sys::send_queue_unsent(self.fd())?;
            let Some(mut room) = self.control.room(now, unsent) else { return Ok(Flushed::Full) };
            while self.outbox.len() < BATCH - 8 {
                match transmitter.poll_transmit(now, lane, &mut room, |packet| pool.release(packet)) {
                    Poll::Packet(packet) => {
                        self.stats.frames += 1;
                        self.put(packet, pool)?;
                    }
                    Poll::Wait(at) => {
                        held = Some(at);
                        break;
                    }
                    Poll::Nothing => break,
                }
            }
            self.seal_stage(pool)?;
            transmitter.handle_transmitted(lane, self.position);
        }
    }

    /// Puts the report that is due into the outbox. Whether there was one.
    fn put_report(&mut self, pool: &mut Pool) -> Result<bool, RecordError> {
        let Some(report) = self.report.take() else { return Ok(false) };
        let frame = encode_report(&report);
        // Without a block the next report has to do.
        let Some(block) = pool.copy(&frame) else { return Ok(false) };
        if self.sealer.is_some() {
            self.seal(block, frame.len(), pool)?;
        } else {
            self.push(block, FRONT, FRONT + frame.len());
        }
        Ok(true)
    }

    fn push(&mut self, block: Block, start: usize, end: usize) {
        self.position += (end - start) as u64;
        self.outbox.push_back(Piece { block, start, end });
    }

    /// Frames a packet into the outbox.
    #[inline]
    fn put(&mut self, mut packet: PacketBuf, pool: &mut Pool) -> Result<(), RecordError> {
        let frame = packet.frame(&mut self.compressor);
        let bodies = packet.bodies.each_mut().map(Option::take);
        let mut rest = packet.len - packet.head_len();
        if self.sealer.is_some() {
            self.stage(&packet.head.bytes()[frame], pool)?;
            pool.give(packet.head);
            if rest > 0 {
                self.seal_stage(pool)?;
            }
        } else {
            self.push(packet.head, frame.start, frame.end);
        }
        for block in bodies.into_iter().flatten() {
            let len = rest.min(BODY_CONTENT);
            rest -= len;
            if len == 0 {
                pool.give(block);
            } else if self.sealer.is_some() {
                self.seal(block, len, pool)?;
            } else {
                self.push(block, FRONT, FRONT + len);
            }
        }
        Ok(())
    }

    /// Adds a frame, or the start of one, to the record that is being gathered.
    fn stage(&mut self, bytes: &[u8], pool: &mut Pool) -> Result<(), RecordError> {
        if self.stage.as_ref().is_some_and(|(_, len)| len + bytes.len() > BODY_CONTENT) {
            self.seal_stage(pool)?;
        }
        if self.stage.is_none() {
            // A record of what one block more than the pool's limit would hold still has to be sent.
            let block = pool.body().unwrap_or_else(|| pool.beyond_limit());
            self.stage = Some((block, 0));
        }
        if let Some((block, len)) = &mut self.stage {
            block.content_mut()[*len..*len + bytes.len()].copy_from_slice(bytes);
            *len += bytes.len();
        }
        Ok(())
    }

    fn seal_stage(&mut self, pool: &mut Pool) -> Result<(), RecordError> {
        match self.stage.take() {
            Some((block, len)) => self.seal(block, len, pool),
            None => Ok(()),
        }
    }

    /// Seals the first `len` bytes of a block's content in place.
    fn seal(&mut self, mut block: Block, len: usize, pool: &mut Pool) -> Result<(), RecordError> {
        let Some(sealer) = &mut self.sealer else { return Ok(()) };
        let mut carrier = None;
        if sealer.needs_update() {
            let update = sealer.update()?;
            let mut block = pool.head().unwrap_or_else(|| pool.beyond_limit());
            block.bytes_mut()[..update.len()].copy_from_slice(&update);
            self.stats.key_updates += 1;
            carrier = Some((block, update.len()));
        }
        let (header, trailer) = sealer.seal(&mut block.content_mut()[..len])?;
        let bytes = block.bytes_mut();
        bytes[FRONT - HEADER_BYTES..FRONT].copy_from_slice(&header);
        bytes[FRONT + len..FRONT + len + TRAILER_BYTES].copy_from_slice(&trailer);
        if let Some((carrier, len)) = carrier {
            self.push(carrier, 0, len);
        }
        self.push(block, FRONT - HEADER_BYTES, FRONT + len + TRAILER_BYTES);
        Ok(())
    }

    /// Sends the outbox. Whether all of it went.
    fn send(&mut self, now: Instant, pool: &mut Pool) -> io::Result<bool> {
        while !self.outbox.is_empty() {
            let mut slices = [IoSlice::new(&[]); BATCH];
            let mut count = 0;
            for (slice, piece) in slices.iter_mut().zip(&self.outbox) {
                *slice = IoSlice::new(&piece.block.bytes()[piece.start..piece.end]);
                count += 1;
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let mut sent =
                match sendmsg(&self.fd, &slices[..count], &mut SendAncillaryBuffer::default(), flags) {
                    Ok(sent) => sent,
                    Err(rustix::io::Errno::AGAIN) => return Ok(false),
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(error) => return Err(error.into()),
                };
            self.control.handle_written(now, sent as u64);
            while sent > 0 {
                let Some(piece) = self.outbox.front_mut() else { break };
                let taken = sent.min(piece.end - piece.start);
                piece.start += taken;
                sent -= taken;
                if piece.start == piece.end
                    && let Some(piece) = self.outbox.pop_front()
                {
                    pool.give(piece.block);
                }
            }
        }
        Ok(true)
    }

    /// Says goodbye as far as that needs no waiting, and gives the blocks back.
    pub(crate) fn close(mut self, pool: &mut Pool) {
        if self.outbox.is_empty()
            && let Some(sealer) = &mut self.sealer
            && let Ok(close) = sealer.close()
        {
            let _ = rustix::net::send(&self.fd, &close, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
        self.release(pool);
    }

    /// Gives the blocks back: what they held is lost.
    pub(crate) fn release(mut self, pool: &mut Pool) {
        for piece in self.outbox.drain(..) {
            pool.give(piece.block);
        }
        if let Some((block, _)) = self.stage.take() {
            pool.give(block);
        }
    }
}

/// A snapshot of a connection that holds `total` bytes, of which it has not sent `unsent`.
pub(crate) fn fill(info: &TcpInfo, unsent: usize, total: usize) -> LaneSnapshot {
    LaneSnapshot {
        unsent,
        unacknowledged: total.saturating_sub(unsent),
        srtt: info.srtt(),
        min_rtt: info.min_rtt(),
        window: info.cwnd as usize * info.snd_mss as usize,
        delivery_rate: (info.delivery_rate > 0)
            .then(|| Rate::from_bits_per_second(info.delivery_rate.saturating_mul(8))),
        app_limited: info.app_limited,
        segments_sent: info.data_segments_out,
        retransmissions: info.retransmits,
        out_of_order: 0,
        lost_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use trunkline_packet::{Headers, build};
    use trunkline_queue::{Item, Settings};
    use trunkline_trunk::compress::Compression;
    use trunkline_trunk::{ClassSettings, CongestionControl, Packet};

    use super::*;

    /// A lane over a connection to a listener, and its socket.
    fn lane() -> (TcpListener, Arc<OwnedFd>, LaneTx) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let stream = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let fd: Arc<OwnedFd> = Arc::new(stream.into());
        let lane = LaneTx::new(1, Arc::clone(&fd), None, Compressor::new(Compression::Off, 1), false);
        (listener, fd, lane)
    }

    /// One class on one lane.
    fn one_lane() -> TrunkPlan {
        TrunkPlan::one_lane_per_class(vec![ClassSettings::new("all", Vec::new(), Settings::default(), 0)])
    }

    #[test]
    fn a_lane_has_the_congestion_control_of_its_plan_and_no_bound_left_behind() {
        let (_listener, fd, mut lane) = lane();
        let kernel = || rustix::net::sockopt::tcp_congestion(&fd).expect("its name");
        let mut plan = one_lane();
        let mut configure = |lane: &mut LaneTx, congestion_control| {
            plan.groups[0].congestion_control = congestion_control;
            lane.configure(&plan, LaneId(0));
            (kernel(), lane.stats().chosen)
        };
        let reno = CongestionControl::Named("reno".into());
        assert_eq!(configure(&mut lane, reno.clone()), ("reno".to_owned(), None));
        let usual = LaneControl::USUAL_CONGESTION_CONTROL;
        assert_eq!(configure(&mut lane, CongestionControl::ByPath), (usual.to_owned(), Some(usual)));
        // What the path chose stays over another reload.
        sys::set_congestion_control(fd.as_fd(), "reno").expect("every kernel has it");
        assert_eq!(configure(&mut lane, CongestionControl::ByPath), ("reno".to_owned(), Some(usual)));
        // A kernel that lacks one leaves the lane what it has.
        let unknown = CongestionControl::Named("no-such-one".into());
        assert_eq!(configure(&mut lane, unknown), ("reno".to_owned(), None));
        assert_eq!(configure(&mut lane, CongestionControl::AsOpened), ("reno".to_owned(), None));
        let mut paced = |lane: &mut LaneTx, edge_pacing| {
            plan.edge_pacing = edge_pacing;
            lane.configure(&plan, LaneId(0));
            lane.handle_grant(Some(Rate::from_mbit(8.0))).expect("the connection takes it");
            sys::max_pacing_rate(lane.fd()).expect("the kernel says it")
        };
        assert_eq!(paced(&mut lane, true), 1_000_000);
        assert_eq!(paced(&mut lane, false), u64::MAX);
    }

    /// A packet that waits at the edge.
    #[derive(Debug)]
    struct Waiting(Vec<u8>);

    impl Item for Waiting {
        fn bytes(&self) -> usize {
            self.0.len()
        }
    }

    impl Packet for Waiting {
        fn prefix(&self) -> &[u8] {
            &self.0
        }
    }

    #[test]
    fn a_lossy_path_changes_the_connection_of_a_lane_that_goes_by_its_path_and_of_no_other() {
        let (_listener, fd, mut lane) = lane();
        let kernel = || rustix::net::sockopt::tcp_congestion(&fd).expect("its name");
        let plan = |congestion_control| {
            let mut plan = one_lane();
            plan.groups[0].congestion_control = congestion_control;
            plan
        };
        let reno = plan(CongestionControl::Named("reno".into()));
        let by_path = plan(CongestionControl::ByPath);
        let mut transmitter: Transmitter<Waiting> = Transmitter::new(reno.clone(), 64, 1);
        let packet = build::udp(&build::Ip::v4(), (1, 2), &[7; 100]);
        let headers = Headers::parse(&packet, packet.len()).expect("a sound packet");
        let _ = transmitter.handle_packet(Instant::ZERO, &headers, Waiting(packet), drop);
        let mut lossy = |lane: &mut LaneTx, from: u32| {
            for n in from..from + 400 {
                let rtt = Some(std::time::Duration::from_millis(30));
                let snapshot = LaneSnapshot {
                    srtt: rtt,
                    min_rtt: rtt,
                    segments_sent: n * 20,
                    retransmissions: n * 2,
                    ..LaneSnapshot::default()
                };
                let now = Instant::from_millis(u64::from(n) * 20);
                let place = (&mut transmitter, &mut Paths::default());
                lane.control.handle_snapshot(now, LaneId(0), place, snapshot);
                lane.apply().expect("the connection takes it");
            }
        };
        lane.configure(&reno, LaneId(0));
        lossy(&mut lane, 0);
        assert_eq!((kernel().as_str(), lane.stats().chosen), ("reno", None));
        lane.configure(&by_path, LaneId(0));
        let usual = LaneControl::USUAL_CONGESTION_CONTROL;
        assert_eq!((kernel().as_str(), lane.stats().chosen), (usual, Some(usual)));
        lossy(&mut lane, 400);
        // A kernel without bbr leaves the lane its usual one.
        let (chosen, used) = (lane.stats().chosen, kernel());
        assert_eq!(chosen, Some(used.as_str()));
        if sys::set_congestion_control(fd.as_fd(), LaneControl::LOSSY_CONGESTION_CONTROL).is_ok() {
            assert_eq!(chosen, Some(LaneControl::LOSSY_CONGESTION_CONTROL));
        }
        lane.configure(&reno, LaneId(0));
        lossy(&mut lane, 800);
        assert_eq!((kernel().as_str(), lane.stats().chosen), ("reno", None));
    }
}
