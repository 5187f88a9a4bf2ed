//! One end of a lane over TCP: what the gateway for Linux does with a socket, with the model's endpoint in its place.
//!
//! The lane is kept shallow: the endpoint is given no more than [`LaneSnapshot::depth`] octets that it has not sent, and
//! is given more once less than half of that is left, which is when Linux reports a socket with `TCP_NOTSENT_LOWAT`
//! writable. The transmitter hears of the lane when the gateway would ask the kernel: every 20 ms while
//! there is something to do, and of deliveries at most once a millisecond.

use std::sync::Arc;
use std::time::Duration;

use trunkline_tcp::{Settings, State, Stats};
use trunkline_trunk::compress::Decompressor;
use trunkline_trunk::{EdgePacing, LaneId, LaneSnapshot, Poll, Transmitter};
use trunkline_units::Instant;

use super::stream::{Framed, Stream, restore};
use super::{LaneReport, TrunkSettings, due, timer};
use crate::agenda::Kind;
use crate::connection::{ConnectionId, Role};
use crate::core::{Core, Opening};
use crate::{NodeId, Packet};

/// Octets taken from the edge queue at a time.
const BATCH: usize = 256 << 10;
/// Where gateways wait for lanes.
const PORT: u16 = 7_000;

/// Opens a lane: the connections' ends, at the first node and at the second.
pub(super) fn open(
    core: &mut Core,
    (nodes, near): ([NodeId; 2], u32),
    (lane, dscp): (LaneId, [u8; 2]),
    tcp: &[Arc<Settings>; 2],
) -> [ConnectionId; 2] {
    let role = |half| Role::Lane { gateway: half, lane: u32::from(lane.0) };
    core.open(&Opening {
        client: nodes[0],
        server: nodes[1],
        port: PORT + u16::from(lane.0),
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
    /// Octets of the stream that the endpoint has taken.
    written: u64,
    snapshot: LaneSnapshot,
    depth: usize,
    refreshed: Option<Instant>,
    asked: Option<Instant>,
    pacing: Option<EdgePacing>,
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
        TcpLane {
            end,
            lane,
            seed,
            stream: Stream::new(plan.group_of(lane).0.compression, settings.sealed, seed),
            decompressor: Decompressor::new(),
            written: 0,
            snapshot: LaneSnapshot::default(),
            depth: *LaneSnapshot::DEPTH.start(),
            refreshed: None,
            asked: None,
            pacing: plan.edge_pacing.then(EdgePacing::default),
            frames: 0,
            past: Past::default(),
        }
    }

    /// Takes down what the lane's connection did, before it is forgotten.
    pub(super) fn close(&mut self, core: &Core) {
        self.past.broken += 1;
        self.past.written += self.written;
        self.past.tcp += core.connections[self.end.0 as usize].endpoint.stats();
    }

    pub(super) fn reopen(&mut self, end: ConnectionId, settings: (&TrunkSettings, usize)) {
        let (frames, past) = (self.frames, self.past);
        *self = TcpLane { frames, past, ..TcpLane::new(end, self.lane, settings, self.seed) };
    }

    pub(super) const fn end(&self) -> ConnectionId {
        self.end
    }

    pub(super) fn claim(&self) -> Option<f64> {
        self.pacing.as_ref().and_then(EdgePacing::claim)
    }

    /// Octets that the endpoint has got since it was asked last.
    pub(super) fn take_arrived(&mut self, core: &mut Core) -> u64 {
        let endpoint = &mut core.connections[self.end.0 as usize].endpoint;
        let there = endpoint.readable();
        if there > 0 { endpoint.read(there) } else { 0 }
    }

    pub(super) fn restore(&mut self, framed: Framed) -> Option<Packet> {
        let restored = restore(framed, &mut self.decompressor);
        debug_assert!(restored.is_ok(), "both ends of a lane are ours: {restored:?}");
        restored.ok()
    }

    pub(super) fn report_delivered(&mut self, core: &Core, transmitter: &mut Transmitter<Packet>) {
        if transmitter.has_custody(self.lane) && due(&mut self.asked, core.now, LaneSnapshot::ASK) {
            transmitter.handle_delivered(self.lane, self.delivered(core));
        }
    }

    /// Up to where the far end has everything.
    fn delivered(&self, core: &Core) -> u64 {
        let endpoint = &core.connections[self.end.0 as usize].endpoint;
        self.written - endpoint.unsent() - endpoint.unacknowledged()
    }

    /// Has a look at the lane, unless it had one lately. Whether its pacing may have to change.
    fn refresh(&mut self, core: &Core, transmitter: &mut Transmitter<Packet>) -> bool {
        if !due(&mut self.refreshed, core.now, LaneSnapshot::REFRESH) {
            return false;
        }
        let endpoint = &core.connections[self.end.0 as usize].endpoint;
        let known = self.snapshot.delivery_rate;
        let micros = |time: Duration| Duration::from_micros(time.as_micros() as u64);
        self.snapshot = LaneSnapshot {
            unsent: endpoint.unsent() as usize,
            unacknowledged: endpoint.unacknowledged() as usize,
            srtt: endpoint.srtt().map(micros),
            min_rtt: endpoint.min_rtt().map(micros),
            window: endpoint.cwnd() as usize,
            delivery_rate: endpoint.delivery_rate().map(|(rate, _)| rate),
        };
        if endpoint.delivery_rate().is_some_and(|(_, limited)| limited) {
            // A lane that had little to send has not become slower.
            self.snapshot.delivery_rate = self.snapshot.delivery_rate.max(known);
        }
        transmitter.handle_lane(core.now, self.lane, &self.snapshot, self.delivered(core));
        let depth = self.snapshot.depth(LaneSnapshot::VISIT);
        if depth.abs_diff(self.depth) > self.depth / 4 {
            self.depth = depth;
        }
        let waiting = transmitter.has_backlog(self.lane);
        self.pacing.as_mut().is_some_and(|pacing| pacing.update(core.now, &self.snapshot, waiting))
    }

    /// Sets how the lane's segments are spaced, a ceiling moved towards a `fair` share among the lanes of its side, bit/s.
    pub(super) fn pace(&mut self, core: &mut Core, fair: Option<f64>) {
        let Some(pacing) = &mut self.pacing else { return };
        if let Some(fair) = fair {
            pacing.share(fair);
        }
        core.connections[self.end.0 as usize].endpoint.set_pacing_ceiling(pacing.spacing());
        core.flush(self.end);
    }

    /// Hands over what waits for the lane, as far as it has room. Whether [`TcpLane::pace`] is due.
    #[inline]
    pub(super) fn flush(
        &mut self,
        core: &mut Core,
        half: u32,
        transmitter: &mut Transmitter<Packet>,
    ) -> bool {
        if core.connections[self.end.0 as usize].endpoint.state() != State::Established {
            return false;
        }
        let pace = self.refresh(core, transmitter);
        let mut wrote = self.write(core);
        while self.stream.position() == self.written && transmitter.has_backlog(self.lane) {
            let unsent = core.connections[self.end.0 as usize].endpoint.unsent() as usize;
            if unsent * 2 >= self.depth {
                break;
            }
            let mut room = (self.depth - unsent).min(BATCH);
            let from = self.stream.position();
            let mut held = None;
            loop {
                match transmitter.poll_transmit(core.now, self.lane, &mut room, drop) {
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
            transmitter.handle_handed(self.lane, self.stream.position());
            wrote |= self.write(core);
            if let Some(at) = held {
                core.agenda.set(Kind::Gateway, timer(half, self.lane), at.max(core.now));
                break;
            }
            if self.stream.position() == from {
                break;
            }
        }
        if wrote {
            core.flush(self.end);
        }
        pace
    }

    /// Gives the endpoint what it takes of the stream.
    fn write(&mut self, core: &mut Core) -> bool {
        let waiting = self.stream.position() - self.written;
        if waiting == 0 {
            return false;
        }
        let taken = core.connections[self.end.0 as usize].endpoint.write(waiting);
        self.written += taken;
        taken > 0
    }

    pub(super) fn report(&self, core: &Core) -> LaneReport {
        let mut tcp = self.past.tcp;
        tcp += core.connections[self.end.0 as usize].endpoint.stats();
        LaneReport {
            snapshot: self.snapshot,
            pacing: self.pacing.as_ref().map(|pacing| (pacing.mode(), pacing.ceiling())),
            frames: self.frames,
            bytes: self.past.written + self.written,
            compression: *self.stream.compression(),
            tcp: Some(tcp),
            datagrams: None,
            broken: self.past.broken,
        }
    }
}
