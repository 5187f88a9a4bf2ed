//! The sending half of a lane over QUIC: packets into datagrams or streams.

mod datagrams;
mod streams;

use std::cell::RefCell;
use std::rc::Rc;

use trunkline_trunk::datagram::Rest;
use trunkline_trunk::path::LaneSign;
use trunkline_trunk::{
    CongestionControl, Delivery, LaneAction, LaneControl, LaneId, LaneSnapshot, Paths, Poll, Transmitter,
    Transport, TrunkPlan,
};
use trunkline_units::{Instant, Rate};

use self::datagrams::Datagrams;
use self::streams::Streams;
use super::control::Control;
use super::link::{Link, Shared};
use super::settings::LIFELESS;
use crate::lane_tx::{Flushed, LaneError, LaneTxStats, fill};
use crate::pool::{PacketBuf, Pool};
use crate::sys::TcpInfo;

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
    control: LaneControl,
    framing: Framing,
    /// Bytes handed over, and when the last were.
    position: u64,
    sent_at: Instant,
    frames: u64,
    /// Since when the lane has delivered nothing of what it holds.
    stalled_since: Option<Instant>,
    /// Packets that were acknowledged, and when that was first seen.
    heard: (u32, Instant),
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
        let mut control = LaneControl::default();
        control.pace();
        let framing = match delivery {
            Delivery::Datagram => Framing::Datagrams(Datagrams::new()),
            Delivery::Reliable => Framing::Streams(Streams::new(seed)),
        };
        QuicTx {
            serial,
            link,
            shared,
            control,
            framing,
            position: 0,
            sent_at: now,
            frames: 0,
            stalled_since: None,
            heard: (0, now),
        }
    }

    /// How it delivers.
    pub(crate) const fn delivery(&self) -> Delivery {
        match self.framing {
            Framing::Datagrams(_) => Delivery::Datagram,
            Framing::Streams(_) => Delivery::Reliable,
        }
    }

    /// What it has done so far.
    pub(crate) fn stats(&self) -> LaneTxStats {
        let link = self.link.borrow();
        let (bytes, circuit) = (link.bytes_sent(), link.circuit());
        let chosen = self.control.chosen_congestion_control();
        LaneTxStats { frames: self.frames, bytes, circuit, chosen, ..LaneTxStats::default() }
    }

    /// What the connection says of itself, in the terms of one over TCP.
    pub(crate) fn inspect(&self) -> (TcpInfo, LaneSnapshot) {
        let mut link = self.link.borrow_mut();
        let granted = self.control.grant().map_or(u64::MAX, |rate| rate.bits_per_second() / 8);
        let snapshot = snapshot(&mut link, self.position);
        let idle = crate::clock::now().saturating_since(self.sent_at);
        let last_sent_ms = u32::try_from(idle.as_millis()).unwrap_or(u32::MAX);
        (TcpInfo { pacing_rate: granted, last_sent_ms, ..link.info() }, snapshot)
    }

    /// What the connection knows of the lane's path.
    pub(crate) fn sign(&mut self, now: Instant) -> LaneSign {
        let link = self.link.borrow();
        let acked = link.acked_packets();
        if acked != self.heard.0 {
            self.heard = (acked, now);
        }
        LaneSign { outstanding: link.in_flight() > 0, heard: self.heard.1, srtt: Some(link.inner.rtt()) }
    }

    /// Takes the settings of a plan for its place.
    pub(crate) fn configure(&mut self, plan: &TrunkPlan, lane: LaneId) {
        let group = plan.group_of(lane).0;
        self.control.configure(plan, lane);
        let link = Rc::clone(&self.link);
        let mut link = link.borrow_mut();
        link.set_dscp(group.dscp);
        // What its path has chosen for it stays.
        let chosen = self.control.chosen_congestion_control();
        let chosen = chosen.map(|name| CongestionControl::Named(name.into()));
        link.set_control(Control::of(chosen.as_ref().unwrap_or(&group.congestion_control)));
        let may_change = group.transport == Transport::Auto;
        link.set_may_change(self.shared.to_std(crate::clock::now()), may_change);
        self.apply(&link);
    }

    /// Takes the rate that the lane's path grants it.
    pub(crate) fn handle_grant(&mut self, grant: Option<Rate>) {
        self.control.handle_grant(grant);
        let link = Rc::clone(&self.link);
        self.apply(&link.borrow());
    }

    /// Pacing is done where packets leave the edge, and the connection has no low-water mark.
    fn apply(&mut self, link: &Link) {
        while let Some(action) = self.control.poll_action() {
            match action {
                LaneAction::SetCongestionControl { name, .. } => {
                    link.set_control(Control::of(&CongestionControl::Named(name)));
                }
                LaneAction::SetLowWaterMark(_) | LaneAction::SetMaxPacingRate(_) => {}
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
            let held = snapshot(&mut self.link.borrow_mut(), self.position).held();
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
    ) -> Result<Flushed, LaneError> {
        let link = Rc::clone(&self.link);
        let mut link = link.borrow_mut();
        if self.control.snapshot_due(now) {
            let snapshot = snapshot(&mut link, self.position);
            self.control.handle_snapshot(now, lane, (&mut *transmitter, paths), snapshot);
            self.apply(&link);
        }
        let at = self.shared.to_std(now);
        if let Some(until) = self.stalled_until(now)? {
            link.transmit(&self.shared, at);
            link.unsettle(&self.shared);
            return Ok(if transmitter.has_backlog(lane) { Flushed::Held(until) } else { Flushed::Idle });
        }
        loop {
            let flushed = self.fill(now, lane, transmitter, (&mut link, pool))?;
            let unsent = link.unsent();
            link.transmit(&self.shared, at);
            // What has left makes room for more.
            if flushed != Flushed::Full || link.unsent() == unsent {
                link.unsettle(&self.shared);
                return Ok(flushed);
            }
        }
    }

    /// Of a lane of streams that has stalled: when to look at it again. What it holds is not lost as long as it is up, so a lane
    /// whose far end stays silent about it ends, as one over TCP does.
    fn stalled_until(&mut self, now: Instant) -> Result<Option<Instant>, LaneError> {
        let stalled = self.control.stalled_until(now);
        if matches!(self.framing, Framing::Datagrams(_)) || stalled.is_none() {
            self.stalled_since = None;
            return Ok(None);
        }
        let since = *self.stalled_since.get_or_insert(now);
        if now.saturating_since(since) >= LIFELESS { Err(LaneError::Lifeless) } else { Ok(stalled) }
    }

    /// Hands over what waits, until the connection has as much as it sends soon.
    fn fill(
        &mut self,
        now: Instant,
        lane: LaneId,
        transmitter: &mut Transmitter<PacketBuf>,
        (link, pool): (&mut Link, &mut Pool),
    ) -> Result<Flushed, LaneError> {
        self.control.handle_window(link.window());
        loop {
            // What was left over before leaves before anything else.
            let ready = self.framing.prepare(link)?;
            if !transmitter.has_backlog(lane) {
                self.hand_over(now, link, Rest::Leaves)?;
                return Ok(Flushed::Idle);
            }
            if let Some(until) = self.control.paced_until(now) {
                if until.saturating_since(now) > Rest::MAX_WAIT {
                    self.hand_over(now, link, Rest::Leaves)?;
                }
                if self.control.is_window_limited() {
                    link.handle_blocked();
                }
                return Ok(Flushed::Held(until));
            }
            if !ready {
                self.control.handle_full();
                return Ok(Flushed::Full);
            }
            let Some(mut room) = self.control.room(now, link.unsent()) else {
                if self.control.is_window_limited() {
                    link.handle_blocked();
                }
                return Ok(Flushed::Full);
            };
            let mut held = None;
            while self.framing.len() < LaneControl::MAX_BATCH {
                match transmitter.poll_transmit(now, lane, &mut room, |packet| pool.release(packet)) {
                    Poll::Packet(packet) => self.frames += self.framing.put(now, packet, link, pool),
                    Poll::Wait(until) => {
                        held = Some(until);
                        break;
                    }
                    Poll::Nothing => break,
                }
            }
            let more_follows = held.is_none() && transmitter.has_backlog(lane);
            self.hand_over(now, link, if more_follows { Rest::Waits } else { Rest::Leaves })?;
            transmitter.handle_transmitted(lane, self.position);
            if let Some(until) = held {
                return Ok(Flushed::Held(until));
            }
        }
    }

    /// Hands over what waits.
    fn hand_over(&mut self, now: Instant, link: &mut Link, rest: Rest) -> Result<(), LaneError> {
        if self.framing.len() == 0 {
            return Ok(());
        }
        let bytes = self.framing.hand_over(link, rest)? as u64;
        if bytes > 0 {
            self.position += bytes;
            self.sent_at = now;
            self.control.handle_written(now, bytes);
        }
        Ok(())
    }
}

/// The state of a connection whose lane has handed over so many bytes.
fn snapshot(link: &mut Link, handed_over: u64) -> LaneSnapshot {
    let (info, unsent, in_flight) = (link.info(), link.unsent(), link.in_flight());
    let undelivered =
        link.acknowledged().map(|acknowledged| handed_over.saturating_sub(acknowledged) as usize);
    // What is lost of streams leaves again.
    let lost_bytes = if undelivered.is_none() { link.bytes_lost() } else { 0 };
    let snapshot = fill(&info, unsent, unsent).of_packets(unsent, in_flight, undelivered);
    LaneSnapshot { lost_bytes, ..snapshot }
}
