//! One end of a lane over TCP: the gateway's [`LaneControl`] with the model's endpoint in the place of a socket.
//!
//! The control gets what the gateway would read from the kernel, no more often and no finer. Linux reports a socket
//! writable once its unsent part is below half of `TCP_NOTSENT_LOWAT`; here every event of the endpoint is a look
//! at the lane, and [`LaneControl::room`] holds that rule.

use std::sync::Arc;
use std::time::Duration;

use trunkline_packet::Version;
use trunkline_tcp::{Endpoint, Settings, State, Stats};
use trunkline_trunk::compress::Decompressor;
use trunkline_trunk::{
    ArrivalReport, LaneAction, LaneControl, LaneId, LaneSnapshot, PathMode, Paths, Poll, Reporting,
    Transmitter,
};
use trunkline_units::{Instant, Rate};

use super::stream::{Content, Framed, Stream, restore};
use super::{LaneReport, TrunkSettings, congestion_control, timer};
use crate::agenda::Kind;
use crate::connection::{ConnectionId, Role};
use crate::state::{NetworkState, Opening};
use crate::{NodeId, Packet};

/// Where gateways wait for lanes.
const PORT: u16 = 7_000;

/// Opens a lane: the connections' ends, at the first node and at the second.
pub(super) fn open(
    net: &mut NetworkState,
    (nodes, near): ([NodeId; 2], u32),
    (version, lane, dscp): (Version, LaneId, [u8; 2]),
    tcp: &[Arc<Settings>; 2],
) -> [ConnectionId; 2] {
    let role = |half| Role::Lane { gateway: half, lane: u32::from(lane.0) };
    net.open(&Opening {
        client: nodes[0],
        server: nodes[1],
        port: PORT + u16::from(lane.0),
        version,
        dscp,
        settings: [&tcp[0], &tcp[1]],
        roles: [role(near), role(super::other(near))],
    })
}

pub(super) struct TcpLane {
    end: ConnectionId,
    lane: LaneId,
    /// What is random in it follows from this.
    seed: u64,
    pub(super) stream: Stream,
    decompressor: Decompressor,
    control: LaneControl,
    reporting: Reporting,
    /// Bytes and packets that have arrived.
    arrived: (u64, u64),
    /// What the far end is to be told of them.
    report: Option<ArrivalReport>,
    frames: u64,
    past: Past,
}

/// What a lane did over connections that broke.
#[derive(Default, Clone, Copy)]
struct Past {
    broken: u64,
    written: u64,
    tcp: Stats,
}

impl TcpLane {
    /// The end at one side of a trunk.
    pub(super) fn new(
        end: ConnectionId,
        lane: LaneId,
        (settings, side): (&TrunkSettings, usize),
        seed: u64,
    ) -> Self {
        let plan = &settings.plans[side];
        let mut control = LaneControl::default();
        control.configure(plan, lane);
        control.expect_reports();
        TcpLane {
            end,
            lane,
            seed,
            stream: Stream::new(plan.group_of(lane).0.compression, settings.sealed, seed),
            decompressor: Decompressor::new(),
            control,
            reporting: Reporting::default(),
            arrived: (0, 0),
            report: None,
            frames: 0,
            past: Past::default(),
        }
    }

    /// Takes down what the lane's connection did, before it is forgotten.
    pub(super) fn close(&mut self, net: &NetworkState) {
        self.past.broken += 1;
        self.past.written += self.control.written();
        self.past.tcp += net.connections[self.end.0 as usize].endpoint.stats();
    }

    pub(super) fn reopen(&mut self, end: ConnectionId, settings: (&TrunkSettings, usize)) {
        let (frames, past) = (self.frames, self.past);
        *self = TcpLane { frames, past, ..TcpLane::new(end, self.lane, settings, self.seed) };
    }

    pub(super) const fn end(&self) -> ConnectionId {
        self.end
    }

    /// Bytes that the endpoint has got since it was asked last.
    pub(super) fn take_arrived(&mut self, net: &mut NetworkState) -> u64 {
        let endpoint = &mut net.connections[self.end.0 as usize].endpoint;
        let there = endpoint.readable();
        if there > 0 { endpoint.read(there) } else { 0 }
    }

    /// A frame is complete: its packet, if it has one.
    pub(super) fn handle_frame(&mut self, now: Instant, framed: Framed, paths: &mut Paths) -> Option<Packet> {
        let restored = restore(framed, &mut self.decompressor);
        debug_assert!(restored.is_ok(), "both ends of a lane are ours: {restored:?}");
        match restored.ok()? {
            Content::Packet(packet) => {
                self.arrived.1 += 1;
                Some(packet)
            }
            Content::Report(report) => {
                self.control.handle_report(now, self.lane, paths, report);
                None
            }
        }
    }

    /// All frames of what the endpoint has got are handled.
    pub(super) fn handle_arrived(&mut self, now: Instant, bytes: u64) {
        self.arrived.0 += bytes;
        if let Some(report) = self.reporting.handle_received(now, self.arrived.0, self.arrived.1) {
            self.report = Some(report);
        }
    }

    pub(super) fn report_delivered(&mut self, net: &NetworkState, transmitter: &mut Transmitter<Packet>) {
        if transmitter.has_data_in_transit(self.lane) && self.control.delivery_due(net.now) {
            let endpoint = &net.connections[self.end.0 as usize].endpoint;
            let held = endpoint.unsent() + endpoint.unacknowledged();
            self.control.handle_held(net.now, self.lane, transmitter, held as usize);
        }
    }

    /// Takes the rate that the lane's path grants it.
    pub(super) fn handle_grant(&mut self, net: &mut NetworkState, grant: Option<Rate>) {
        if grant != self.control.grant() {
            self.control.handle_grant(grant);
            self.apply(net);
            net.flush(self.end);
        }
    }

    /// Changes the settings of the endpoint that the control asks for.
    fn apply(&mut self, net: &mut NetworkState) {
        while let Some(action) = self.control.poll_action() {
            let endpoint = &mut net.connections[self.end.0 as usize].endpoint;
            match action {
                LaneAction::SetMaxPacingRate(rate) => endpoint.set_max_pacing_rate(rate),
                LaneAction::SetCongestionControl { name, .. } => {
                    endpoint.set_congestion_control(congestion_control(&name));
                }
                // The control is asked for room after every event.
                LaneAction::SetLowWaterMark(_) => {}
            }
        }
    }

    /// Gives the endpoint what waits for the lane, as far as it has room.
    #[inline]
    pub(super) fn flush(
        &mut self,
        net: &mut NetworkState,
        half: u32,
        (transmitter, paths): (&mut Transmitter<Packet>, &mut Paths),
    ) {
        let endpoint = &net.connections[self.end.0 as usize].endpoint;
        if endpoint.state() != State::Established {
            return;
        }
        if self.control.snapshot_due(net.now) {
            let place = (&mut *transmitter, paths);
            self.control.handle_snapshot(net.now, self.lane, place, snapshot(endpoint));
            self.apply(net);
        }
        if let Some(at) = self.control.stalled_until(net.now)
            && transmitter.has_backlog(self.lane)
        {
            net.agenda.set(Kind::Gateway, timer(half, self.lane), at);
            return;
        }
        let mut wrote = self.write(net);
        if self.stream.position() == self.control.written()
            && let Some(report) = self.report.take()
        {
            self.stream.push_report(report);
            wrote |= self.write(net);
        }
        while self.stream.position() == self.control.written() && transmitter.has_backlog(self.lane) {
            let unsent = net.connections[self.end.0 as usize].endpoint.unsent() as usize;
            let Some(mut room) = self.control.room(net.now, unsent) else { break };
            let from = self.stream.position();
            let mut held = None;
            loop {
                match transmitter.poll_transmit(net.now, self.lane, &mut room, drop) {
                    Poll::Packet(packet) => {
                        self.frames += 1;
                        self.stream.push(packet);
                    }
                    Poll::Wait(at) => {
                        held = Some(at);
                        break;
                    }
                    Poll::Nothing => break,
                }
            }
            self.stream.seal(from);
            transmitter.handle_transmitted(self.lane, self.stream.position());
            wrote |= self.write(net);
            if let Some(at) = held {
                net.agenda.set(Kind::Gateway, timer(half, self.lane), at.max(net.now));
                break;
            }
            if self.stream.position() == from {
                break;
            }
        }
        if wrote {
            net.flush(self.end);
        }
    }

    /// Gives the endpoint what it takes of the stream.
    fn write(&mut self, net: &mut NetworkState) -> bool {
        let waiting = self.stream.position() - self.control.written();
        if waiting == 0 {
            return false;
        }
        let taken = net.connections[self.end.0 as usize].endpoint.write(waiting);
        self.control.handle_written(net.now, taken);
        taken > 0
    }

    pub(super) fn report(&self, net: &NetworkState, mode: Option<PathMode>) -> LaneReport {
        let mut tcp = self.past.tcp;
        tcp += net.connections[self.end.0 as usize].endpoint.stats();
        LaneReport {
            snapshot: *self.control.snapshot(),
            pacing: mode.map(|mode| (mode, self.control.grant())),
            chosen_congestion_control: self.control.chosen_congestion_control(),
            frames: self.frames,
            bytes: self.past.written + self.control.written(),
            compression: *self.stream.compression(),
            tcp: Some(tcp),
            quic: None,
            broken: self.past.broken,
        }
    }
}

/// What Linux publishes of a connection, in its units.
fn snapshot(endpoint: &Endpoint) -> LaneSnapshot {
    let micros = |time: Duration| Duration::from_micros(time.as_micros() as u64);
    let stats = endpoint.stats();
    LaneSnapshot {
        unsent: endpoint.unsent() as usize,
        unacknowledged: endpoint.unacknowledged() as usize,
        srtt: endpoint.srtt().map(micros),
        min_rtt: endpoint.min_rtt().map(micros),
        window: endpoint.cwnd() as usize,
        delivery_rate: endpoint.delivery_rate().map(|(rate, _)| rate),
        app_limited: endpoint.delivery_rate().is_some_and(|(_, limited)| limited),
        segments_sent: stats.data_segments_sent as u32,
        retransmissions: stats.retransmitted_segments as u32,
        out_of_order: 0,
        lost_bytes: 0,
    }
}
