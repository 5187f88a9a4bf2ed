//! The sending half of a lane: packets in, bytes of a TCP connection out, in clear or as TLS records.
//!
//! What is handed to a lane cannot be taken back, so it is handed as little as keeps it busy: the kernel's
//! unsent backlog stays below a depth that follows the lane's rate, and the rest waits in the edge queue.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use trunkline_trunk::compress::{Compressor, CompressorStats};
use trunkline_trunk::{EdgePacing, LaneGroup, LaneId, LaneSnapshot, PacingMode, Poll, Transmitter};
use trunkline_units::{Instant, Rate};

use crate::lane_congestion::LaneCongestion;
use crate::pool::{BODY_CONTENT, Block, FRONT, PacketBuf, Pool};
use crate::progress::Progress;
use crate::record::{HEADER_BYTES, RecordError, Sealer, TRAILER_BYTES};
use crate::sys::{self, TcpInfo};

/// Pieces sent with one system call at the most.
const BATCH: usize = 128;
/// Bytes taken from the edge queue before they are sent: enough for a few super-packets, little enough to be
/// still in the cache when the kernel copies them.
const BATCH_BYTES: usize = 256 << 10;

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
}

/// What a flush left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Nothing waits.
    Idle,
    /// The lane is full: go on when it is reported writable.
    Full,
    /// What waits is held back by ceilings: go on then.
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
    /// What bounds its pacing, if its queue is to be kept at the edge.
    pub(crate) pacing: Option<PacingMode>,
    /// The congestion control it has been given because of its path, if that was left to us.
    pub(crate) chosen: Option<&'static str>,
}

/// How often a stalled lane is looked at while packets wait for it.
const STALL_POLL: Duration = Duration::from_millis(20);

pub(crate) struct LaneTx {
    pub(crate) serial: u64,
    fd: Arc<OwnedFd>,
    sealer: Option<Sealer>,
    compressor: Compressor,
    outbox: VecDeque<Piece>,
    /// Small frames gathered for one record.
    stage: Option<(Block, usize)>,
    /// Bytes that ever were in the outbox: the place in the lane's stream that packets have been put up to.
    position: u64,
    snapshot: LaneSnapshot,
    depth: usize,
    refreshed: Option<Instant>,
    asked: Option<Instant>,
    progress: Progress,
    /// What keeps its queue at the edge, if that is wanted.
    pacing: Option<EdgePacing>,
    /// Its ceiling may have changed and is not set yet.
    pacing_due: bool,
    congestion: LaneCongestion,
    stats: LaneTxStats,
}

impl LaneTx {
    pub(crate) fn new(serial: u64, fd: Arc<OwnedFd>, sealer: Option<Sealer>, compressor: Compressor) -> Self {
        LaneTx {
            serial,
            fd,
            sealer,
            compressor,
            outbox: VecDeque::with_capacity(BATCH),
            stage: None,
            position: 0,
            snapshot: LaneSnapshot::default(),
            depth: 0,
            refreshed: None,
            asked: None,
            progress: Progress::default(),
            pacing: None,
            pacing_due: false,
            congestion: LaneCongestion::default(),
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
            pacing: self.pacing.as_ref().map(EdgePacing::mode),
            chosen: self.congestion.chosen(),
            ..self.stats
        }
    }

    /// Takes the compression and the congestion control of its group, now and after a reload.
    pub(crate) fn follow(&mut self, group: &LaneGroup) {
        self.compressor.set(group.compression);
        self.congestion.follow(self.fd.as_fd(), &group.congestion_control);
    }

    /// What the kernel says of the lane, for metrics.
    pub(crate) fn inspect(&self) -> io::Result<(TcpInfo, LaneSnapshot)> {
        let info = sys::tcp_info(self.fd())?;
        let total = sys::send_queue(self.fd())?;
        let unsent = sys::send_queue_unsent(self.fd())?;
        Ok((info, fill(&info, unsent, total)))
    }

    /// Whether to keep its queue at the edge by a ceiling on its pacing.
    pub(crate) fn set_edge_pacing(&mut self, on: bool) -> io::Result<()> {
        if on != self.pacing.is_some() {
            self.pacing = on.then(EdgePacing::default);
            sys::set_max_pacing_rate(self.fd(), None)?;
        }
        Ok(())
    }

    /// Whether [`LaneTx::pace`] is due.
    pub(crate) const fn pacing_due(&self) -> bool {
        self.pacing_due
    }

    /// What its path carries for it, bit/s, if a ceiling holds it and packets wait for it.
    pub(crate) fn claim(&self) -> Option<f64> {
        self.pacing.as_ref().and_then(EdgePacing::claim)
    }

    /// Sets how its segments are spaced, a ceiling moved towards a `fair` share among the lanes to the same peer, bit/s.
    pub(crate) fn pace(&mut self, fair: Option<f64>) -> io::Result<()> {
        self.pacing_due = false;
        let Some(pacing) = &mut self.pacing else { return Ok(()) };
        if let Some(fair) = fair {
            pacing.share(fair);
        }
        let bytes = pacing.spacing().map(|rate| rate.bits_per_second() / 8);
        sys::set_max_pacing_rate(self.fd.as_fd(), bytes)
    }

    /// Asks the kernel how the lane does, sets the depth to what it sends between two visits, and tells the core.
    fn refresh(&mut self, now: Instant, lane: LaneId, core: &mut Transmitter<PacketBuf>) -> io::Result<()> {
        if self.refreshed.is_some_and(|at| now.saturating_since(at) < LaneSnapshot::REFRESH) {
            return Ok(());
        }
        self.refreshed = Some(now);
        let info = sys::tcp_info(self.fd())?;
        let total = sys::send_queue(self.fd())?;
        self.watch_progress(now, lane, core, total);
        let known = self.snapshot.delivery_rate;
        self.snapshot = fill(&info, info.notsent as usize, total);
        if info.app_limited {
            // A lane that had little to send has not become slower.
            self.snapshot.delivery_rate = self.snapshot.delivery_rate.max(known);
        }
        core.handle_lane(now, lane, &self.snapshot, self.stats.bytes.saturating_sub(total as u64));
        if core.has_backlog(lane) {
            let queue = EdgePacing::has_queue(&self.snapshot);
            self.congestion.watch(now, self.fd.as_fd(), &info, queue);
        }
        if let Some(pacing) = &mut self.pacing {
            self.pacing_due |= pacing.update(now, &self.snapshot, core.has_backlog(lane));
        }
        let depth = self.snapshot.depth(LaneSnapshot::VISIT);
        if depth.abs_diff(self.depth) > self.depth / 4 {
            sys::set_notsent_lowat(self.fd(), depth)?;
            self.depth = depth;
        }
        Ok(())
    }

    /// A lane that has stalled may be dead, and what it holds lost: what users retransmit of that is worth carrying.
    fn watch_progress(&mut self, now: Instant, lane: LaneId, core: &mut Transmitter<PacketBuf>, held: usize) {
        let delivered = self.stats.bytes.saturating_sub(held as u64);
        if self.progress.update(now, delivered, held, self.snapshot.srtt) {
            core.handle_lane_lost(lane);
        }
    }

    /// Tells the core how far the lane has delivered, unless it was told a moment ago.
    pub(crate) fn report_delivered(&mut self, now: Instant, lane: LaneId, core: &mut Transmitter<PacketBuf>) {
        if self.asked.is_some_and(|at| now.saturating_since(at) < LaneSnapshot::ASK) {
            return;
        }
        self.asked = Some(now);
        // A lane that cannot say any more is about to end, and the core will hear of that.
        if let Ok(total) = sys::send_queue(self.fd()) {
            self.watch_progress(now, lane, core, total);
            core.handle_delivered(lane, self.stats.bytes.saturating_sub(total as u64));
        }
    }

    /// Sends what waits in the lane, then what waits for it at the edge, until the lane is full.
    pub(crate) fn flush(
        &mut self,
        now: Instant,
        lane: LaneId,
        core: &mut Transmitter<PacketBuf>,
        pool: &mut Pool,
    ) -> Result<Flushed, LaneError> {
        let mut held = None;
        // Also where nothing has to wait: the queue may stand in the core.
        self.refresh(now, lane, core)?;
        if self.progress.is_stalled() && core.has_backlog(lane) {
            // At the edge packets survive the lane, in it they do not.
            return Ok(Flushed::Held(now + STALL_POLL));
        }
        loop {
            if !self.send(pool)? {
                return Ok(Flushed::Full);
            }
            if let Some(at) = held {
                return Ok(Flushed::Held(at));
            }
            if !core.has_backlog(lane) {
                return Ok(Flushed::Idle);
            }
            self.snapshot.unsent = sys::send_queue_unsent(self.fd())?;
            // The kernel reports the socket writable once its unsent part falls below half the depth.
            if self.snapshot.unsent * 2 >= self.depth {
                return Ok(Flushed::Full);
            }
            let mut room = (self.depth - self.snapshot.unsent).min(BATCH_BYTES);
            while self.outbox.len() < BATCH - 8 {
                match core.poll_transmit(now, lane, &mut room, |packet| pool.release(packet)) {
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
            core.handle_handed(lane, self.position);
        }
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
    fn send(&mut self, pool: &mut Pool) -> io::Result<bool> {
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
            self.stats.bytes += sent as u64;
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

fn fill(info: &TcpInfo, unsent: usize, total: usize) -> LaneSnapshot {
    LaneSnapshot {
        unsent,
        unacknowledged: total.saturating_sub(unsent),
        srtt: info.srtt(),
        min_rtt: info.min_rtt(),
        window: info.cwnd as usize * info.snd_mss as usize,
        delivery_rate: (info.delivery_rate > 0)
            .then(|| Rate::from_bits_per_second(info.delivery_rate.saturating_mul(8))),
    }
}
