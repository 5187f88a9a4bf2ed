//! One end of a lane over TCP: the gateway's [`LanePump`] with the model's endpoint in the place of a socket.
//!
//! The pump gets what the gateway would read from the kernel, no more often and no finer. Linux reports a socket
//! writable once its unsent part is below half of `TCP_NOTSENT_LOWAT`; here every event of the endpoint is a look
//! at the lane, and [`LaneControl::room`](trunkline_trunk::LaneControl::room) holds that rule.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use trunkline_packet::Version;
use trunkline_tcp::{Endpoint, Settings, State, Stats};
use trunkline_trunk::compress::Decompressor;
use trunkline_trunk::datagram::Rest;
use trunkline_trunk::path::{Grant, Heard, LaneSign};
use trunkline_trunk::{
    ArrivalReport, CongestionControlCause, HandedOver, Label, LaneConnection, LaneEdge, LaneId, LanePump,
    LaneSnapshot, PathMode, Paths, Reporting, Served, Stalling, Transmitter,
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
    let over = |side: usize| net.tcp_over(version, (nodes[side], nodes[1 - side]), &tcp[side]);
    let settings = [over(0), over(1)];
    net.open(&Opening {
        client: nodes[0],
        server: nodes[1],
        port: PORT + u16::from(lane.0),
        version,
        dscp,
        settings: settings.each_ref(),
        roles: [role(near), role(super::other(near))],
    })
}

pub(super) struct TcpLane {
    lane: LaneId,
    /// What is random in it follows from this.
    seed: u64,
    pump: LanePump,
    pub(super) sending: Sending,
    decompressor: Decompressor,
    /// The label of the next packet.
    label: Option<Label>,
    reporting: Reporting,
    /// Bytes and packets that have arrived.
    arrived: (u64, u64),
    heard: Heard,
    past: Past,
}

/// The sending half of a lane's connection.
pub(super) struct Sending {
    end: ConnectionId,
    pub(super) stream: Stream,
    /// Bytes of the stream that the endpoint has taken.
    taken: u64,
    /// What the far end is to be told of what has arrived.
    report: Option<ArrivalReport>,
    frames: u64,
}

/// The same, with the endpoint, while the lane is served.
pub(super) struct Connection<'a> {
    sending: &'a mut Sending,
    net: &'a mut NetworkState,
    /// Whether the endpoint has taken something and not been asked to send it.
    wrote: bool,
}

impl Connection<'_> {
    fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.net.connections[self.sending.end.0 as usize].endpoint
    }

    /// Gives the endpoint what it takes of the stream. Returns the bytes.
    #[inline]
    fn write(&mut self) -> u64 {
        let waiting = self.sending.stream.position() - self.sending.taken;
        if waiting == 0 {
            return 0;
        }
        let taken = self.endpoint().write(waiting);
        self.sending.taken += taken;
        self.wrote |= taken > 0;
        taken
    }
}

impl LaneConnection for Connection<'_> {
    type Packet = Packet;
    type Error = Infallible;

    fn snapshot(&mut self) -> Result<LaneSnapshot, Infallible> {
        Ok(snapshot(self.endpoint()))
    }

    #[inline]
    fn held(&mut self) -> Result<usize, Infallible> {
        let endpoint = self.endpoint();
        Ok((endpoint.unsent() + endpoint.unacknowledged()) as usize)
    }

    #[inline]
    fn unsent(&mut self) -> Result<usize, Infallible> {
        Ok(self.endpoint().unsent() as usize)
    }

    #[inline]
    fn hand_over_rest(&mut self, _now: Instant) -> Result<HandedOver, Infallible> {
        let mut bytes = self.write();
        if self.sending.taken == self.sending.stream.position()
            && let Some(report) = self.sending.report.take()
        {
            self.sending.stream.push_report(report);
            bytes += self.write();
        }
        Ok(HandedOver { bytes, is_ready: self.sending.taken == self.sending.stream.position() })
    }

    #[inline]
    fn has_space(&self) -> bool {
        true
    }

    fn announce(&mut self, label: Label) -> Result<(), Infallible> {
        self.sending.stream.push_label(label);
        Ok(())
    }

    #[inline]
    fn accept(&mut self, _now: Instant, packet: Packet) -> Result<(), Infallible> {
        self.sending.frames += 1;
        self.sending.stream.push(packet);
        Ok(())
    }

    fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        Some(packet.clone())
    }

    #[inline]
    fn release(&mut self, _packet: Packet) {}

    /// The endpoint takes the batch next, before anything else happens.
    #[inline]
    fn hand_over(&mut self, _now: Instant, _rest: Rest) -> Result<u64, Infallible> {
        self.sending.stream.seal();
        Ok(0)
    }

    #[inline]
    fn position(&self) -> u64 {
        self.sending.stream.position()
    }

    /// What has left makes no room before it is acknowledged.
    #[inline]
    fn transmit(&mut self, _now: Instant) -> bool {
        if std::mem::take(&mut self.wrote) {
            self.net.flush(self.sending.end);
        }
        false
    }

    /// The model has every congestion control that a plan may name.
    fn set_congestion_control(&mut self, name: &str, _cause: CongestionControlCause) -> bool {
        self.endpoint().set_congestion_control(congestion_control(name));
        true
    }

    fn set_max_pacing_rate(&mut self, rate: Option<Rate>) -> Result<(), Infallible> {
        self.endpoint().set_max_pacing_rate(rate);
        Ok(())
    }
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
        now: Instant,
        end: ConnectionId,
        lane: LaneId,
        (settings, side): (&TrunkSettings, usize),
        seed: u64,
    ) -> Self {
        let plan = &settings.plans[side];
        let mut pump = LanePump::over_tcp();
        pump.configure(plan, lane);
        pump.expect_reports();
        if let Some(unsent) = settings.socket.unsent {
            pump.fix_depth(unsent);
        }
        let stream = Stream::new(plan.group_of(lane).0.compression, settings.sealed, seed);
        TcpLane {
            lane,
            seed,
            pump,
            sending: Sending { end, stream, taken: 0, report: None, frames: 0 },
            decompressor: Decompressor::new(),
            label: None,
            reporting: Reporting::default(),
            arrived: (0, 0),
            heard: Heard::new(now),
            past: Past::default(),
        }
    }

    /// Takes down what the lane's connection did, before it is forgotten.
    pub(super) fn close(&mut self, net: &NetworkState) {
        self.past.broken += 1;
        self.past.written += self.pump.written();
        self.past.tcp += net.connections[self.end().0 as usize].endpoint.stats();
    }

    pub(super) fn reopen(&mut self, now: Instant, end: ConnectionId, settings: (&TrunkSettings, usize)) {
        let (frames, past) = (self.sending.frames, self.past);
        *self = TcpLane { past, ..TcpLane::new(now, end, self.lane, settings, self.seed) };
        self.sending.frames = frames;
    }

    pub(super) const fn end(&self) -> ConnectionId {
        self.sending.end
    }

    /// The pump, and the connection for it.
    pub(super) const fn parts<'a>(
        &'a mut self,
        net: &'a mut NetworkState,
    ) -> (&'a mut LanePump, Connection<'a>) {
        (&mut self.pump, Connection { sending: &mut self.sending, net, wrote: false })
    }

    /// Bytes that the endpoint has got since it was asked last.
    pub(super) fn take_arrived(&mut self, net: &mut NetworkState) -> u64 {
        let endpoint = &mut net.connections[self.end().0 as usize].endpoint;
        let there = endpoint.readable();
        if there > 0 { endpoint.read(there) } else { 0 }
    }

    /// A frame is complete: its packet, if it has one, and its label.
    pub(super) fn handle_frame(
        &mut self,
        now: Instant,
        framed: Framed,
        paths: &mut Paths,
    ) -> Option<(Packet, Option<Label>)> {
        let restored = restore(framed, &mut self.decompressor);
        debug_assert!(restored.is_ok(), "both ends of a lane are ours: {restored:?}");
        match restored.ok()? {
            Content::Packet(packet) => {
                self.arrived.1 += 1;
                Some((packet, self.label.take()))
            }
            Content::Report(report) => {
                self.pump.handle_report(now, self.lane, paths, report);
                None
            }
            Content::Label(label) => {
                self.label = Some(label);
                None
            }
        }
    }

    /// All frames of what the endpoint has got are handled.
    pub(super) fn handle_arrived(&mut self, now: Instant, bytes: u64) {
        self.arrived.0 += bytes;
        if let Some(report) = self.reporting.handle_received(now, self.arrived.0, self.arrived.1) {
            self.sending.report = Some(report);
        }
    }

    #[inline]
    pub(super) fn report_delivered(&mut self, net: &mut NetworkState, transmitter: &mut Transmitter<Packet>) {
        let (now, lane) = (net.now, self.lane);
        let (pump, mut connection) = self.parts(net);
        let Ok(()) = pump.report_delivered(now, lane, transmitter, &mut connection);
    }

    /// Takes what the lane's path grants it.
    pub(super) fn handle_grant(&mut self, net: &mut NetworkState, grant: Grant) {
        let is_new = grant.rate != self.pump.grant();
        let (pump, mut connection) = self.parts(net);
        let Ok(()) = pump.handle_grant(grant, &mut connection);
        if is_new {
            net.flush(self.end());
        }
    }

    /// Gives the endpoint what waits for the lane, as far as it has room.
    #[inline]
    pub(super) fn serve(&mut self, net: &mut NetworkState, half: u32, edge: LaneEdge<'_, Packet>) {
        if net.connections[self.end().0 as usize].endpoint.state() != State::Established {
            return;
        }
        let (now, lane) = (net.now, self.lane);
        let (pump, mut connection) = self.parts(net);
        let Ok(served) = pump.serve(now, edge, &mut connection);
        if let Served::Held(until) = served {
            net.agenda.set(Kind::Gateway, timer(half, lane), until.max(now));
        }
    }

    /// What it says of its path; nothing while it is being opened.
    pub(super) fn sign(&mut self, net: &NetworkState) -> Option<LaneSign> {
        let endpoint = &net.connections[self.end().0 as usize].endpoint;
        if endpoint.state() != State::Established {
            return None;
        }
        let outstanding = endpoint.unacknowledged() > 0;
        Some(self.heard.sign(net.now, endpoint.delivered(), outstanding, endpoint.srtt()))
    }

    /// Whether its connection is to end: it holds data, and has delivered none for long.
    #[inline]
    pub(super) fn is_dead(&mut self, now: Instant) -> bool {
        self.pump.poll_stall(now) == Some(Stalling::Dead)
    }

    pub(super) fn report(&self, net: &NetworkState, mode: Option<PathMode>) -> LaneReport {
        let mut tcp = self.past.tcp;
        tcp += net.connections[self.end().0 as usize].endpoint.stats();
        LaneReport {
            snapshot: *self.pump.snapshot(),
            pacing: mode.map(|mode| (mode, self.pump.grant())),
            chosen_congestion_control: self.pump.chosen_congestion_control(),
            frames: self.sending.frames,
            bytes: self.past.written + self.pump.written(),
            compression: *self.sending.stream.compression(),
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
        out_of_order: endpoint.sacked() as usize,
        lost_bytes: 0,
    }
}
