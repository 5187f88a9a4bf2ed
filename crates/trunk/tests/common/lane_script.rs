//! One script for every owner of lanes: the gateway's over TCP and QUIC, and the simulator's models of both. The owner puts a
//! [`Recorder`](super::recorder::Recorder) around its connection, and the calls must be those below, in their order.

use std::time::Duration;

use trunkline_queue::{Limits, Settings};
use trunkline_trunk::{ClassSettings, CongestionControl, Delivery, LaneSnapshot, Served, TrunkPlan};
use trunkline_units::Instant;

use super::recorder::Readings;

/// An owner of a lane that has just come up, with a transmitter of [`plan`].
pub(crate) trait Owner {
    /// Takes a plan for the lane.
    fn configure(&mut self, plan: &TrunkPlan, calls: &mut Vec<String>);

    /// Puts a packet of some hundred bytes into the transmitter.
    fn offer(&mut self, now: Instant);

    /// Serves the lane.
    fn serve(&mut self, now: Instant, readings: Readings, calls: &mut Vec<String>) -> Served;

    /// Whether the lane is to end, after it was served.
    fn is_dead(&mut self, now: Instant) -> bool;
}

/// One class on one lane that goes by its path.
pub(crate) fn plan() -> TrunkPlan {
    let queue = Settings::TailDrop(Limits { segments: 1000, bytes: 1 << 24 });
    let mut plan = TrunkPlan::one_lane_per_class(vec![ClassSettings::new("all", Vec::new(), queue, 0)]);
    plan.groups[0].congestion_control = CongestionControl::ByPath;
    plan.edge_pacing = true;
    plan
}

/// The calls of a lane that delivers.
const CALLS: &str = "\
configure: Plan: cubic
idle: snapshot, low-water mark 10000, rest, hand over: Leaves, transmit -> Idle
three packets wait: rest, unsent, accept, accept, accept, hand over: Leaves, rest, hand over: Leaves, transmit -> Idle
no room: rest, unsent, transmit -> Full
room: rest, unsent, accept, hand over: Leaves, rest, hand over: Leaves, transmit -> Idle
a snapshot is due: snapshot, rest, hand over: Leaves, transmit -> Idle
losses: snapshot, rest, unsent, transmit -> Full
losses: snapshot, pacing without bound, rest, unsent, transmit -> Full
losses: snapshot, rest, unsent, transmit -> Full
losses: snapshot, Path: bbr, rest, unsent, transmit -> Full
losses: snapshot, rest, unsent, transmit -> Full
room again: snapshot, rest, unsent, accept, hand over: Leaves, rest, hand over: Leaves, transmit -> Idle
";

/// Plays the script to a lane over TCP, or one over QUIC with this delivery.
///
/// # Panics
/// If the owner is asked for something else than the script says.
pub(crate) fn check(owner: &mut impl Owner, start: Instant, quic: Option<Delivery>) {
    let mut script = Script { owner, start, text: String::new(), last: String::new() };
    script.configure();
    let path = LaneSnapshot {
        srtt: Some(Duration::from_millis(30)),
        min_rtt: Some(Duration::from_millis(30)),
        window: 150_000,
        ..LaneSnapshot::default()
    };
    let empty = Readings { snapshot: path, unsent: 0 };
    let full = Readings { snapshot: path, unsent: 1 << 30 };
    script.serve("idle", 0, 0, empty);
    script.serve("three packets wait", 5, 3, empty);
    script.serve("no room", 10, 1, full);
    script.serve("room", 15, 0, empty);
    script.serve("a snapshot is due", 20, 0, empty);
    for n in 0..200_u32 {
        let snapshot = LaneSnapshot { segments_sent: n * 20, retransmissions: n * 2, ..path };
        let packets = usize::from(n == 0);
        script.serve("losses", 40 + u64::from(n) * 20, packets, Readings { snapshot, ..full });
    }
    let path = LaneSnapshot { segments_sent: 4000, retransmissions: 400, ..path };
    script.serve("room again", 4500, 0, Readings { snapshot: path, unsent: 0 });
    assert_eq!(script.text, CALLS);

    let (mut held, mut dead) = (None, None);
    let stands_still = LaneSnapshot { unacknowledged: 100, ..path };
    for ms in (0..12_000).step_by(250) {
        let readings = Readings { snapshot: stands_still, unsent: 0 };
        // What it takes would count as delivered, since it holds no more.
        let served = script.serve("stands still", 5000 + ms, usize::from(ms >= 1000), readings);
        if matches!(served, Served::Held(_)) {
            held.get_or_insert(ms);
        }
        if script.owner.is_dead(script.start + Duration::from_millis(5000 + ms)) {
            dead.get_or_insert(ms);
        }
    }
    let expected = match quic {
        None => (Some(1000), Some(7000)),
        Some(Delivery::Reliable) => (Some(1000), Some(9000)),
        Some(Delivery::Datagram) => (None, None),
    };
    assert_eq!((held, dead), expected, "when the lane is held, and when it is dead, ms");
}

struct Script<'a, O> {
    owner: &'a mut O,
    start: Instant,
    text: String,
    last: String,
}

impl<O: Owner> Script<'_, O> {
    fn configure(&mut self) {
        let mut calls = Vec::new();
        self.owner.configure(&plan(), &mut calls);
        self.write(&format!("configure: {}\n", calls.join(", ")));
    }

    fn serve(&mut self, step: &str, ms: u64, packets: usize, readings: Readings) -> Served {
        let now = self.start + Duration::from_millis(ms);
        (0..packets).for_each(|_| self.owner.offer(now));
        let mut calls = Vec::new();
        let served = self.owner.serve(now, readings, &mut calls);
        let kind = match served {
            Served::Idle => "Idle",
            Served::Full => "Full",
            Served::Held(_) => "Held",
        };
        self.write(&format!("{step}: {} -> {kind}\n", calls.join(", ")));
        served
    }

    /// A line that is the same as the one before says nothing new.
    fn write(&mut self, line: &str) {
        if self.last != line {
            self.text += line;
            line.clone_into(&mut self.last);
        }
    }
}
