//! The sending half of a lane over QUIC: packets into datagrams or streams.

mod datagrams;
mod streams;

use std::cell::RefCell;
use std::rc::Rc;

use trunkline_trunk::datagram::Rest;
use trunkline_trunk::path::{Grant, Heard, LaneSign};
use trunkline_trunk::{
    CongestionControl, CongestionControlCause, Delivery, HandedOver, LaneConnection, LaneControl, LaneEdge,
    LaneId, LanePump, LaneSnapshot, LaneWindow, Served, Stalling, Transmitter, Transport, TrunkPlan,
};
use trunkline_units::Instant;

use self::datagrams::Datagrams;
use self::streams::Streams;
use super::control::Control;
use super::link::{Link, Shared};
use crate::lane::{LaneError, LaneTxStats, snapshot};
use crate::pool::{PacketBuf, Pool};
use crate::tcp_info::TcpInfo;

/// How packets stand in the connection.
enum Framing {
    Datagrams(Datagrams),
    Streams(Streams),
}

impl Framing {
    /// Whether the connection takes something.
    fn prepare(&mut self, link: &mut Link) -> Result<bool, LaneError> {
        match self {
            Framing::Datagrams(it) => Ok(it.prepare(link)),
            Framing::Streams(it) => it.prepare(link),
        }
    }

    /// Bytes that wait to be handed over.
    fn len(&self) -> usize {
        match self {
            Framing::Datagrams(it) => it.len(),
            Framing::Streams(it) => it.len(),
        }
    }

    /// Frames a packet. How many frames it has become.
    fn put(&mut self, now: Instant, packet: PacketBuf, link: &Link, pool: &mut Pool) -> u64 {
        match self {
            Framing::Datagrams(it) => it.put(packet, pool),
            Framing::Streams(it) => it.put(now, packet, link, pool),
        }
    }

    /// Hands over what waits. How many bytes it was.
    fn hand_over(&mut self, link: &mut Link, rest: Rest) -> Result<usize, LaneError> {
        match self {
            Framing::Datagrams(it) => Ok(it.hand_over(link, rest)),
            Framing::Streams(it) => it.hand_over(link),
        }
    }
}

/// The sending half: packets from the edge into the connection, as many as it can send soon.
pub(crate) struct QuicTx {
    pub(crate) serial: u64,
    pub(super) link: Rc<RefCell<Link>>,
    pub(super) shared: Rc<Shared>,
    pump: LanePump,
    sending: Sending,
    /// Packets that were acknowledged, and when that was first seen.
    heard: Heard,
}

/// What a lane hands over, and has handed over.
struct Sending {
    framing: Framing,
    /// Bytes handed over, and when the last were.
    position: u64,
    sent_at: Instant,
    frames: u64,
}

/// The connection of a lane, with what it needs while the lane is served.
pub(super) struct LinkOfLane<'a> {
    link: &'a mut Link,
    shared: &'a Shared,
    sending: &'a mut Sending,
    pool: &'a mut Pool,
}

impl LaneConnection for LinkOfLane<'_> {
    type Packet = PacketBuf;
    type Error = LaneError;

    fn snapshot(&mut self) -> Result<LaneSnapshot, LaneError> {
        Ok(state(self.link, self.sending.position))
    }

    fn unsent(&mut self) -> Result<usize, LaneError> {
        Ok(self.link.unsent())
    }

    fn window(&mut self) -> Option<LaneWindow> {
        Some(self.link.window())
    }

    fn hand_over_rest(&mut self, _now: Instant) -> Result<HandedOver, LaneError> {
        let is_ready = self.sending.framing.prepare(self.link)?;
        // Bytes of streams that the connection did not take at once count as handed over.
        Ok(HandedOver { bytes: 0, is_ready })
    }

    fn has_space(&self) -> bool {
        self.sending.framing.len() < LaneControl::MAX_BATCH
    }

    fn accept(&mut self, now: Instant, packet: PacketBuf) -> Result<(), LaneError> {
        self.sending.frames += self.sending.framing.put(now, packet, self.link, self.pool);
        Ok(())
    }

    fn release(&mut self, packet: PacketBuf) {
        self.pool.release(packet);
    }

    fn hand_over(&mut self, now: Instant, rest: Rest) -> Result<u64, LaneError> {
        if self.sending.framing.len() == 0 {
            return Ok(0);
        }
        let bytes = self.sending.framing.hand_over(self.link, rest)? as u64;
        if bytes > 0 {
            self.sending.position += bytes;
            self.sending.sent_at = now;
        }
        Ok(bytes)
    }

    fn position(&self) -> u64 {
        self.sending.position
    }

    fn transmit(&mut self, now: Instant) -> bool {
        let unsent = self.link.unsent();
        self.link.transmit(self.shared, self.shared.to_std(now));
        self.link.unsent() < unsent
    }

    fn handle_window_limited(&mut self) {
        self.link.handle_blocked();
    }

    fn set_congestion_control(&mut self, name: &str, _cause: CongestionControlCause) -> bool {
        self.link.set_control(Control::of(&CongestionControl::Named(name.into())));
        true
    }
}

impl QuicTx {
    /// `seed` keys the hash by which flows find their streams.
    pub(super) fn new(
        serial: u64,
        (link, shared): (Rc<RefCell<Link>>, Rc<Shared>),
        delivery: Delivery,
        seed: u64,
    ) -> Self {
        let now = crate::clock::now();
        let framing = match delivery {
            Delivery::Datagram => Framing::Datagrams(Datagrams::new()),
            Delivery::Reliable => Framing::Streams(Streams::new(seed)),
        };
        QuicTx {
            serial,
            link,
            shared,
            pump: LanePump::over_quic(delivery),
            sending: Sending { framing, position: 0, sent_at: now, frames: 0 },
            heard: Heard::new(now),
        }
    }

    /// How it delivers.
    pub(crate) const fn delivery(&self) -> Delivery {
        match self.sending.framing {
            Framing::Datagrams(_) => Delivery::Datagram,
            Framing::Streams(_) => Delivery::Reliable,
        }
    }

    /// What it has done so far.
    pub(crate) fn stats(&self) -> LaneTxStats {
        let link = self.link.borrow();
        let (bytes, circuit) = (link.bytes_sent(), link.circuit());
        let chosen = self.pump.chosen_congestion_control();
        LaneTxStats { frames: self.sending.frames, bytes, circuit, chosen, ..LaneTxStats::default() }
    }

    /// What the connection says of itself, in the terms of one over TCP.
    pub(crate) fn inspect(&self) -> (TcpInfo, LaneSnapshot) {
        let mut link = self.link.borrow_mut();
        let granted = self.pump.grant().map_or(u64::MAX, |rate| rate.bits_per_second() / 8);
        let snapshot = state(&mut link, self.sending.position);
        let idle = crate::clock::now().saturating_since(self.sending.sent_at);
        let last_sent_ms = u32::try_from(idle.as_millis()).unwrap_or(u32::MAX);
        (TcpInfo { pacing_rate: granted, last_sent_ms, ..link.info() }, snapshot)
    }

    /// What the connection knows of the lane's path.
    pub(crate) fn sign(&mut self, now: Instant) -> LaneSign {
        let link = self.link.borrow();
        self.heard.sign(now, link.acked_packets().into(), link.in_flight() > 0, Some(link.inner.rtt()))
    }

    /// Takes the settings of a plan for its place.
    pub(crate) fn configure(&mut self, plan: &TrunkPlan, lane: LaneId, pool: &mut Pool) {
        let group = plan.group_of(lane).0;
        self.with(pool, |pump, connection| {
            pump.configure(plan, lane);
            let LinkOfLane { link, shared, .. } = connection;
            link.set_dscp(group.dscp);
            // What its path has chosen for it stays.
            let chosen = pump.chosen_congestion_control();
            let chosen = chosen.map(|name| CongestionControl::Named(name.into()));
            link.set_control(Control::of(chosen.as_ref().unwrap_or(&group.congestion_control)));
            link.set_may_change(shared.to_std(crate::clock::now()), group.transport == Transport::Auto);
            // Nothing that it sets can fail.
            let _ = pump.apply(connection);
        });
    }

    /// Takes what the lane's path grants it.
    pub(crate) fn handle_grant(&mut self, grant: Grant, pool: &mut Pool) -> Result<(), LaneError> {
        self.with(pool, |pump, connection| pump.handle_grant(grant, connection))
    }

    /// Tells the transmitter how far the lane has delivered, if that is due.
    pub(crate) fn report_delivered(
        &mut self,
        now: Instant,
        lane: LaneId,
        transmitter: &mut Transmitter<PacketBuf>,
        pool: &mut Pool,
    ) -> Result<(), LaneError> {
        self.with(pool, |pump, connection| pump.report_delivered(now, lane, transmitter, connection))
    }

    /// Sends what waits for it at the edge, until the connection takes no more, and what else the connection has to say.
    pub(crate) fn serve(
        &mut self,
        now: Instant,
        edge: LaneEdge<'_, PacketBuf>,
        pool: &mut Pool,
    ) -> Result<Served, LaneError> {
        self.with(pool, |pump, connection| {
            let served = pump.serve(now, edge, connection)?;
            connection.link.unsettle(connection.shared);
            Ok(served)
        })
    }

    /// What is to be done about it if it delivers nothing. It is not dialled anew beside this connection: QUIC finds the size of
    /// packets itself.
    pub(crate) fn poll_stall(&mut self, now: Instant) -> Option<Stalling> {
        self.pump.poll_stall(now).filter(|news| *news == Stalling::Dead)
    }

    /// Does something with the pump and the connection for it.
    pub(super) fn with<R>(
        &mut self,
        pool: &mut Pool,
        act: impl FnOnce(&mut LanePump, &mut LinkOfLane<'_>) -> R,
    ) -> R {
        let QuicTx { link, shared, pump, sending, .. } = self;
        act(pump, &mut LinkOfLane { link: &mut link.borrow_mut(), shared, sending, pool })
    }
}

/// The state of a connection whose lane has handed over so many bytes.
fn state(link: &mut Link, handed_over: u64) -> LaneSnapshot {
    let (info, unsent, in_flight) = (link.info(), link.unsent(), link.in_flight());
    let undelivered =
        link.acknowledged().map(|acknowledged| handed_over.saturating_sub(acknowledged) as usize);
    // What is lost of streams leaves again.
    let lost_bytes = if undelivered.is_none() { link.bytes_lost() } else { 0 };
    let snapshot = snapshot(&info, unsent, unsent).of_packets(unsent, in_flight, undelivered);
    LaneSnapshot { lost_bytes, ..snapshot }
}
