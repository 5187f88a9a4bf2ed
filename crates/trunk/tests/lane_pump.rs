//! The loop that serves a lane, over a connection of which the test decides what it takes.

use std::convert::Infallible;
use std::time::Duration;

use crate::common::{Whole, offer, transmitter, udp};
use crate::lane_script::{self, Owner};
use crate::recorder::{Readings, Recorder};
use trunkline_trunk::datagram::Rest;
use trunkline_trunk::{
    CongestionControlCause, Delivery, HandedOver, LaneConnection, LaneControl, LaneEdge, LaneId, LanePump,
    LaneSnapshot, Paths, Served, Stalling, Transmitter, TrunkPlan,
};
use trunkline_units::Instant;

const LANE: LaneId = LaneId(0);

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// A connection that takes up to `takes` bytes.
#[derive(Debug)]
struct Fake {
    takes: u64,
    batch: usize,
    /// Whether `takes` grows by so much when it sends.
    sends: u64,
    accepted: u64,
    taken: u64,
    unsent: usize,
    lacks_bbr: bool,
}

impl Default for Fake {
    fn default() -> Self {
        Fake { takes: u64::MAX, batch: 100, sends: 0, accepted: 0, taken: 0, unsent: 0, lacks_bbr: false }
    }
}

impl LaneConnection for Fake {
    type Packet = Whole;
    type Error = Infallible;

    fn snapshot(&mut self) -> Result<LaneSnapshot, Infallible> {
        Ok(LaneSnapshot { unsent: self.unsent, ..SNAPSHOT })
    }

    fn unsent(&mut self) -> Result<usize, Infallible> {
        Ok(self.unsent)
    }

    fn hand_over_rest(&mut self, _now: Instant) -> Result<HandedOver, Infallible> {
        let bytes = (self.accepted - self.taken).min(self.takes);
        self.taken += bytes;
        self.takes -= bytes;
        Ok(HandedOver { bytes, is_ready: self.taken == self.accepted })
    }

    fn has_space(&self) -> bool {
        self.accepted - self.taken < self.batch as u64 * 1000
    }

    fn accept(&mut self, _now: Instant, packet: Whole) -> Result<(), Infallible> {
        self.accepted += packet.bytes.len() as u64;
        Ok(())
    }

    fn release(&mut self, _packet: Whole) {}

    fn hand_over(&mut self, _now: Instant, _rest: Rest) -> Result<u64, Infallible> {
        Ok(0)
    }

    fn position(&self) -> u64 {
        self.accepted
    }

    fn transmit(&mut self, _now: Instant) -> bool {
        let sends = std::mem::take(&mut self.sends);
        self.takes = self.takes.saturating_add(sends);
        sends > 0
    }

    fn set_congestion_control(&mut self, name: &str, _cause: CongestionControlCause) -> bool {
        !(self.lacks_bbr && name == LaneControl::LOSSY_CONGESTION_CONTROL)
    }
}

const SNAPSHOT: LaneSnapshot = LaneSnapshot {
    unsent: 0,
    unacknowledged: 0,
    srtt: Some(Duration::from_millis(30)),
    min_rtt: Some(Duration::from_millis(30)),
    window: 150_000,
    delivery_rate: None,
    app_limited: false,
    segments_sent: 0,
    retransmissions: 0,
    out_of_order: 0,
    lost_bytes: 0,
};

/// A lane over a connection, and what it sends.
struct Lane {
    pump: LanePump,
    connection: Fake,
    transmitter: Transmitter<Whole>,
    paths: Paths,
}

impl Lane {
    fn new(pump: LanePump, connection: Fake) -> Self {
        let transmitter = transmitter(lane_script::plan());
        Lane { pump, connection, transmitter, paths: Paths::default() }
    }

    /// Serves it with the readings of its connection. The state, and the calls.
    fn serve(&mut self, ms: u64) -> (Served, String) {
        let readings = Readings {
            snapshot: LaneSnapshot { unsent: self.connection.unsent, ..SNAPSHOT },
            unsent: self.connection.unsent,
        };
        let mut calls = Vec::new();
        let served = Owner::serve(self, at(ms), readings, &mut calls);
        (served, calls.join(", "))
    }

    fn offer(&mut self, packets: usize) {
        for _ in 0..packets {
            let _ = offer(&mut self.transmitter, at(0), udp(1, 2, 972));
        }
    }
}

impl Owner for Lane {
    fn configure(&mut self, plan: &TrunkPlan, calls: &mut Vec<String>) {
        self.pump.configure(plan, LANE);
        let readings = Readings::default();
        let Ok(()) = self.pump.apply(&mut Recorder { connection: &mut self.connection, readings, calls });
    }

    fn offer(&mut self, _now: Instant) {
        Lane::offer(self, 1);
    }

    fn serve(&mut self, now: Instant, readings: Readings, calls: &mut Vec<String>) -> Served {
        let edge = LaneEdge { lane: LANE, transmitter: &mut self.transmitter, paths: &mut self.paths };
        let mut connection = Recorder { connection: &mut self.connection, readings, calls };
        let Ok(served) = self.pump.serve(now, edge, &mut connection);
        served
    }

    fn is_dead(&mut self, now: Instant) -> bool {
        self.pump.poll_stall(now) == Some(Stalling::Dead)
    }
}

#[test]
fn every_pump_makes_the_calls_of_the_script() {
    for quic in [None, Some(Delivery::Datagram), Some(Delivery::Reliable)] {
        let pump = quic.map_or_else(LanePump::over_tcp, LanePump::over_quic);
        lane_script::check(&mut Lane::new(pump, Fake::default()), at(1), quic);
    }
}

#[test]
fn what_a_connection_does_not_take_leaves_before_anything_else() {
    let mut lane = Lane::new(LanePump::over_tcp(), Fake { takes: 2500, ..Fake::default() });
    lane.offer(3);
    let (served, calls) = lane.serve(0);
    assert_eq!(served, Served::Full);
    assert!(calls.ends_with("accept, accept, accept, hand over: Leaves, rest: full, transmit"), "{calls}");
    lane.offer(1);
    assert_eq!(lane.serve(1), (Served::Full, "rest: full, transmit".to_owned()));
    assert_eq!(lane.pump.written(), 2500, "what is left over is not written");
    lane.connection.takes = 10_000;
    let (served, calls) = lane.serve(2);
    assert_eq!(served, Served::Idle);
    assert!(calls.starts_with("rest, unsent, accept, hand over: Leaves, rest,"), "{calls}");
    assert_eq!(lane.pump.written(), 4000);
}

#[test]
fn a_batch_ends_where_its_owner_has_no_space_and_says_that_more_follows() {
    let mut lane = Lane::new(LanePump::over_tcp(), Fake { batch: 2, ..Fake::default() });
    lane.offer(3);
    let (served, calls) = lane.serve(0);
    assert_eq!(served, Served::Idle);
    let batches =
        "rest, unsent, accept, accept, hand over: Waits, rest, unsent, accept, hand over: Leaves, rest";
    assert!(calls.contains(batches), "{calls}");
}

#[test]
fn a_full_connection_that_makes_room_by_sending_is_served_again_at_once() {
    let mut lane = Lane::new(LanePump::over_tcp(), Fake { takes: 500, sends: 9000, ..Fake::default() });
    lane.offer(1);
    let (served, calls) = lane.serve(0);
    assert_eq!(served, Served::Idle);
    assert!(calls.ends_with("rest: full, transmit, rest, hand over: Leaves, transmit"), "{calls}");
}

#[test]
fn a_lane_takes_no_more_than_its_connection_sends_soon() {
    let mut lane = Lane::new(LanePump::over_tcp(), Fake::default());
    lane.offer(30);
    // 150 kB in 30 ms are 10 kB in the 2 ms between two visits. The connection says that it has sent nothing.
    let (_, calls) = lane.serve(0);
    assert_eq!(calls.matches("accept").count(), 30, "it has sent everything before it is asked again");
    lane.connection.unsent = 5000;
    lane.offer(30);
    let (served, calls) = lane.serve(1);
    assert_eq!((served, calls.matches("accept").count()), (Served::Full, 0));
    lane.connection.unsent = 4000;
    lane.connection.takes = 0;
    let (served, calls) = lane.serve(2);
    assert_eq!((served, calls.matches("accept").count()), (Served::Full, 6), "{calls}");
}

#[test]
fn a_congestion_control_that_the_connection_lacks_leaves_the_lane_its_usual_one() {
    for lacks_bbr in [false, true] {
        let mut lane = Lane::new(LanePump::over_tcp(), Fake { lacks_bbr, ..Fake::default() });
        let mut calls = Vec::new();
        lane.configure(&lane_script::plan(), &mut calls);
        lane.offer(1);
        for n in 0..400_u32 {
            let snapshot = LaneSnapshot { segments_sent: n * 20, retransmissions: n * 2, ..SNAPSHOT };
            let readings = Readings { snapshot, unsent: 1 << 30 };
            let _ = Owner::serve(&mut lane, at(u64::from(n) * 20), readings, &mut calls);
        }
        assert_eq!(calls.iter().filter(|call| *call == "Path: bbr").count(), 1);
        let chosen = if lacks_bbr { "cubic" } else { "bbr" };
        assert_eq!(lane.pump.chosen_congestion_control(), Some(chosen));
    }
}
