//! How a lane is served: the one loop that moves packets from the edge into a lane's connection.
//!
//! A packet cannot be taken back from a lane, so the lane gets no more than keeps it busy, and the rest waits in the edge queue.
//! [`LaneControl`] decides how much that is. [`LanePump`] asks it, in this order:
//!
//! 1. a snapshot of the connection, if one is due, and the settings that follow from it;
//! 2. a lane that has stalled gets nothing;
//! 3. what an earlier visit has left over leaves before anything else; where the connection does not take it, the lane is full;
//! 4. a batch of packets, as many as pacing, room and what may be in flight let through, is framed and handed over; then again from 3;
//! 5. the connection sends; where that makes room in a full one, again from 3.
//!
//! The gateway's lanes over TCP and QUIC and the simulator's models of both run this loop. Each of them is a [`LaneConnection`].

use trunkline_units::{Instant, Rate};

use super::control::{CongestionControlCause, LaneAction, LaneControl};
use super::stall::{Stall, Stalling};
use super::{ArrivalReport, HandedOver, LaneConnection, LaneSnapshot};
use crate::datagram::Rest;
use crate::path::Grant;
use crate::{Delivery, LaneId, PacketStore, Paths, Poll, Transmitter, TrunkPlan};

/// What the packets of a lane come from, and what its pump reports to.
pub struct LaneEdge<'a, P> {
    /// The lane.
    pub lane: LaneId,
    /// Where packets wait for it.
    pub transmitter: &'a mut Transmitter<P>,
    /// The paths to its peer.
    pub paths: &'a mut Paths,
}

/// The state in which a visit leaves a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// Nothing waits.
    Idle,
    /// The connection takes no more for now: serve the lane again once it does.
    Full,
    /// Nothing more leaves before this time: ceilings or pacing hold back what waits, or the lane has stalled.
    Held(Instant),
}

/// The memory of packets, by the connection that sends them.
struct Memory<'a, C>(&'a mut C);

impl<C: LaneConnection> PacketStore<C::Packet> for Memory<'_, C> {
    #[inline]
    fn copy(&mut self, packet: &C::Packet) -> Option<C::Packet> {
        self.0.copy(packet)
    }

    #[inline]
    fn release(&mut self, packet: C::Packet) {
        self.0.release(packet);
    }
}

/// Gives back the memory of copies that have been delivered.
#[inline]
fn release_spent<C: LaneConnection>(transmitter: &mut Transmitter<C::Packet>, connection: &mut C) {
    while let Some(packet) = transmitter.poll_spent() {
        connection.release(packet);
    }
}

/// The sending half of one lane, without its connection. See the [trait](LaneConnection) for what its owner adds.
///
/// After [`serve`](Self::serve) the owner asks [`poll_stall`](Self::poll_stall). While the [`Paths`] have
/// [changed](Paths::take_changed), it gives each lane its [grant](Paths::grant) by [`handle_grant`](Self::handle_grant).
#[derive(Debug)]
pub struct LanePump {
    control: LaneControl,
    stall: Option<Stall>,
    /// The place in the stream before which the far end had everything at the last snapshot.
    delivered: u64,
}

impl LanePump {
    /// The pump of a connection over TCP, which paces what it sends and delivers all of it.
    pub fn over_tcp() -> Self {
        LanePump { control: LaneControl::default(), stall: Some(Stall::of_tcp()), delivered: 0 }
    }

    /// The pump of a connection over QUIC, which does not pace.
    pub fn over_quic(delivery: Delivery) -> Self {
        let mut control = LaneControl::default();
        control.pace();
        // What a lane of datagrams holds is gone once it stalls, and nobody need wait for it.
        let stall = (delivery == Delivery::Reliable).then(Stall::of_streams);
        LanePump { control, stall, delivered: 0 }
    }

    /// The far end reports what arrives from now on; before the connection has taken any byte.
    pub fn expect_reports(&mut self) {
        self.control.expect_reports();
    }

    /// Has the connection hold so many unsent bytes, in place of what it needs.
    pub fn fix_depth(&mut self, bytes: usize) {
        self.control.fix_depth(bytes);
    }

    /// Takes the settings of a plan for `lane`, at first and whenever they change; [`apply`](Self::apply) follows.
    pub fn configure(&mut self, plan: &TrunkPlan, lane: LaneId) {
        self.control.configure(plan, lane);
    }

    /// Changes the settings of the connection that have to change.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn apply<C: LaneConnection>(&mut self, connection: &mut C) -> Result<(), C::Error> {
        while let Some(action) = self.control.poll_action() {
            match action {
                LaneAction::SetCongestionControl { name, cause } => {
                    if cause == CongestionControlCause::Restart {
                        // To set the one that is in use changes nothing.
                        let _ = connection.set_congestion_control("reno", cause);
                    }
                    let is_set = connection.set_congestion_control(&name, cause);
                    if !is_set && cause == CongestionControlCause::Path {
                        self.control.handle_congestion_control_refused();
                    }
                }
                LaneAction::SetLowWaterMark(bytes) => connection.set_low_water_mark(bytes)?,
                LaneAction::SetMaxPacingRate(rate) => connection.set_max_pacing_rate(rate)?,
            }
        }
        Ok(())
    }

    /// Sends what waits in the lane, then what waits for it at the edge, until the connection is full.
    ///
    /// # Errors
    /// Those of the connection: the lane is to end.
    #[inline]
    pub fn serve<C: LaneConnection>(
        &mut self,
        now: Instant,
        LaneEdge { lane, transmitter, paths }: LaneEdge<'_, C::Packet>,
        connection: &mut C,
    ) -> Result<Served, C::Error> {
        // Also without a backlog at the edge: the queue may stand in the core.
        if self.control.snapshot_due(now) {
            let snapshot = connection.snapshot()?;
            self.delivered = self.control.written().saturating_sub(snapshot.held() as u64);
            self.control.handle_snapshot(now, lane, (&mut *transmitter, paths), snapshot);
            release_spent(transmitter, connection);
            self.apply(connection)?;
        }
        if self.stall.is_some()
            && let Some(until) = self.control.stalled_until(now)
            && transmitter.has_backlog(lane)
        {
            connection.transmit(now);
            return Ok(Served::Held(until));
        }
        loop {
            let served = self.fill(now, lane, transmitter, connection)?;
            let has_made_room = connection.transmit(now);
            if served != Served::Full || !has_made_room {
                return Ok(served);
            }
        }
    }

    /// Hands over what waits, until the connection has as much as it sends soon.
    #[inline]
    fn fill<C: LaneConnection>(
        &mut self,
        now: Instant,
        lane: LaneId,
        transmitter: &mut Transmitter<C::Packet>,
        connection: &mut C,
    ) -> Result<Served, C::Error> {
        if let Some(window) = connection.window() {
            self.control.handle_window(window);
        }
        let mut waits = transmitter.has_backlog(lane);
        let mut held = None;
        loop {
            let HandedOver { bytes, is_ready } = connection.hand_over_rest(now)?;
            self.handle_written(now, bytes);
            if !is_ready {
                self.control.handle_full();
                return Ok(Served::Full);
            }
            if let Some(until) = held {
                return Ok(Served::Held(until));
            }
            if !waits {
                self.hand_over(now, Rest::Leaves, connection)?;
                return Ok(Served::Idle);
            }
            if let Some(until) = self.control.paced_until(now) {
                if until.saturating_since(now) > Rest::MAX_WAIT {
                    self.hand_over(now, Rest::Leaves, connection)?;
                }
                self.report_window_limited(connection);
                return Ok(Served::Held(until));
            }
            let flight = if self.control.bounds_flight() {
                match self.control.flight_room(now, connection.held()?) {
                    Ok(room) => room,
                    Err(until) => {
                        self.hand_over(now, Rest::Leaves, connection)?;
                        return Ok(Served::Held(until));
                    }
                }
            } else {
                usize::MAX
            };
            let Some(mut room) = self.control.room(now, connection.unsent()?).map(|room| room.min(flight))
            else {
                self.report_window_limited(connection);
                return Ok(Served::Full);
            };
            while connection.has_space() {
                match transmitter.poll_transmit(now, lane, &mut room, Memory(connection)) {
                    Poll::Packet(packet) => connection.accept(now, packet)?,
                    Poll::Labelled(label, packet) => {
                        connection.announce(label)?;
                        connection.accept(now, packet)?;
                    }
                    Poll::Wait(until) => {
                        held = Some(until);
                        break;
                    }
                    Poll::Nothing => break,
                }
            }
            waits = held.is_none() && transmitter.has_backlog(lane);
            self.hand_over(now, if waits { Rest::Waits } else { Rest::Leaves }, connection)?;
            transmitter.handle_transmitted(lane, connection.position());
        }
    }

    #[inline]
    fn hand_over<C: LaneConnection>(
        &mut self,
        now: Instant,
        rest: Rest,
        connection: &mut C,
    ) -> Result<(), C::Error> {
        let bytes = connection.hand_over(now, rest)?;
        self.handle_written(now, bytes);
        Ok(())
    }

    #[inline]
    fn handle_written(&mut self, now: Instant, bytes: u64) {
        if bytes > 0 {
            self.control.handle_written(now, bytes);
        }
    }

    fn report_window_limited<C: LaneConnection>(&self, connection: &mut C) {
        if self.control.is_window_limited() {
            connection.handle_window_limited();
        }
    }

    /// What its owner is to do about a lane that delivers nothing.
    #[inline]
    pub fn poll_stall(&mut self, now: Instant) -> Option<Stalling> {
        let (control, stall) = (&self.control, self.stall.as_mut()?);
        // A peer that acknowledges all that was sent and takes no more is there.
        let is_stalled = control.stalled_until(now).is_some() && control.snapshot().unacknowledged > 0;
        if is_stalled || stall.lasts() { stall.update(now, is_stalled) } else { None }
    }

    /// Tells the transmitter how far the lane has delivered, if that is due.
    ///
    /// # Errors
    /// The connection is broken.
    #[inline]
    pub fn report_delivered<C: LaneConnection>(
        &mut self,
        now: Instant,
        lane: LaneId,
        transmitter: &mut Transmitter<C::Packet>,
        connection: &mut C,
    ) -> Result<(), C::Error> {
        if transmitter.has_data_in_transit(lane) && self.control.delivery_due(now) {
            let held = connection.held()?;
            self.control.handle_held(now, lane, transmitter, held);
            release_spent(transmitter, connection);
        }
        Ok(())
    }

    /// Takes what the lane's path grants it.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn handle_grant<C: LaneConnection>(
        &mut self,
        grant: Grant,
        connection: &mut C,
    ) -> Result<(), C::Error> {
        self.control.handle_grant(grant);
        self.apply(connection)
    }

    /// Takes a report of the far end, and tells the lane's path.
    pub fn handle_report(&mut self, now: Instant, lane: LaneId, paths: &mut Paths, report: ArrivalReport) {
        self.control.handle_report(now, lane, paths, report);
    }

    /// Whether it holds data that nobody has acknowledged, as far as is known.
    pub const fn holds_data(&self) -> bool {
        self.control.written() > self.delivered
    }

    /// The last snapshot. Its delivery rate is the last one that no lack of data limited, or a higher one.
    pub const fn snapshot(&self) -> &LaneSnapshot {
        self.control.snapshot()
    }

    /// Bytes that the connection has taken so far.
    pub const fn written(&self) -> u64 {
        self.control.written()
    }

    /// The rate that its path grants the lane, if it is bounded.
    pub const fn grant(&self) -> Option<Rate> {
        self.control.grant()
    }

    /// The congestion control that the lane has chosen, if it goes by its path.
    pub const fn chosen_congestion_control(&self) -> Option<&'static str> {
        self.control.chosen_congestion_control()
    }
}
