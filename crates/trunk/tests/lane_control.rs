//! The control of a lane: what it decides from what its owner reports, and random lists of operations against a model.

use std::time::Duration;

use crate::common::{Whole, class, next, offer, segment, transmitter};
use trunkline_trunk::path::Grant;
use trunkline_trunk::{
    CongestionControl, CongestionControlCause, LaneAction, LaneControl, LaneId, LaneSnapshot, LaneWindow,
    PathMode, Paths, Transmitter, TrunkPlan,
};
use trunkline_units::{Instant, Rate, Rng};

const LANE: LaneId = LaneId(0);

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn plan(congestion_control: CongestionControl, edge_pacing: bool) -> TrunkPlan {
    let mut plan = TrunkPlan::one_lane_per_class(vec![class("all", vec![], 1000)]);
    plan.groups[0].congestion_control = congestion_control;
    plan.edge_pacing = edge_pacing;
    plan
}

/// A transmitter for which a packet waits.
fn waiting() -> Transmitter<Whole> {
    let mut transmitter = transmitter(plan(CongestionControl::AsOpened, false));
    let _ = offer(&mut transmitter, at(0), segment(5000, 1, 1000));
    transmitter
}

fn actions(control: &mut LaneControl) -> Vec<LaneAction> {
    let actions: Vec<LaneAction> = std::iter::from_fn(|| control.poll_action()).collect();
    assert!(actions.len() <= 3, "{actions:?}");
    actions
}

fn set(name: &str, cause: CongestionControlCause) -> LaneAction {
    LaneAction::SetCongestionControl { name: name.into(), cause }
}

/// A path of 30 ms on which the lane has sent so many segments.
fn snapshot(segments_sent: u32, retransmissions: u32) -> LaneSnapshot {
    LaneSnapshot {
        srtt: Some(Duration::from_millis(30)),
        min_rtt: Some(Duration::from_millis(30)),
        window: 150_000,
        segments_sent,
        retransmissions,
        ..LaneSnapshot::default()
    }
}

/// A snapshot of a lane that is on no path.
fn handle(
    control: &mut LaneControl,
    now: Instant,
    transmitter: &mut Transmitter<Whole>,
    snapshot: LaneSnapshot,
) {
    control.handle_snapshot(now, LANE, (transmitter, &mut Paths::default()), snapshot);
}

/// Four seconds in which one segment in ten is lost, from `start` seconds on.
fn lossy(control: &mut LaneControl, transmitter: &mut Transmitter<Whole>, start: u32) -> Vec<LaneAction> {
    let mut all = Vec::new();
    for n in start * 50..(start + 4) * 50 {
        handle(control, at(u64::from(n) * 20), transmitter, snapshot(n * 20, n * 2));
        all.extend(actions(control));
    }
    all.retain(|action| matches!(action, LaneAction::SetCongestionControl { .. }));
    all
}

#[test]
fn only_a_lane_that_goes_by_its_path_changes_its_congestion_control() {
    use CongestionControlCause::{Path, Plan};
    let (mut control, mut transmitter) = (LaneControl::default(), waiting());
    let reno = plan(CongestionControl::Named("reno".into()), false);
    let by_path = plan(CongestionControl::ByPath, false);
    control.configure(&reno, LANE);
    assert_eq!(actions(&mut control), [set("reno", Plan)]);
    assert_eq!(lossy(&mut control, &mut transmitter, 0), []);
    assert_eq!(control.chosen_congestion_control(), None);
    control.configure(&by_path, LANE);
    assert_eq!(actions(&mut control), [set("cubic", Plan)]);
    assert_eq!(lossy(&mut control, &mut transmitter, 4), [set("bbr", Path)]);
    assert_eq!(control.chosen_congestion_control(), Some("bbr"));
    control.configure(&by_path, LANE);
    assert_eq!(actions(&mut control), [], "a reload changes nothing that the path decided");
    assert_eq!(control.chosen_congestion_control(), Some("bbr"));
    control.configure(&plan(CongestionControl::AsOpened, false), LANE);
    assert_eq!((actions(&mut control), control.chosen_congestion_control()), (vec![], None));
    assert_eq!(lossy(&mut control, &mut transmitter, 8), []);
}

#[test]
fn a_lane_whose_owner_lacks_a_congestion_control_stays_with_what_it_has() {
    let (mut control, mut transmitter) = (LaneControl::default(), waiting());
    control.configure(&plan(CongestionControl::ByPath, false), LANE);
    let _ = actions(&mut control);
    for n in 0..600 {
        handle(&mut control, at(n * 20), &mut transmitter, snapshot(n as u32 * 20, n as u32 * 2));
        while let Some(action) = control.poll_action() {
            if let LaneAction::SetCongestionControl { .. } = action {
                assert_eq!(control.chosen_congestion_control(), Some("bbr"));
                assert!((25..30).contains(&n), "once, and not at {n}");
                control.handle_congestion_control_refused();
            }
        }
    }
    assert_eq!(control.chosen_congestion_control(), Some("cubic"));
}

#[test]
fn what_one_lane_finds_of_its_path_holds_for_the_others_on_it_as_long_as_for_that_lane() {
    let mut plan =
        TrunkPlan::one_lane_per_class(vec![class("one", vec![], 1000), class("two", vec![], 1000)]);
    plan.groups.iter_mut().for_each(|group| group.congestion_control = CongestionControl::ByPath);
    plan.edge_pacing = true;
    let mut transmitter = transmitter(plan.clone());
    let mut paths = Paths::default();
    paths.configure(&plan);
    let mut lanes = [LaneControl::default(), LaneControl::default()];
    for (control, number) in lanes.iter_mut().zip(0..) {
        control.configure(&plan, LaneId(number));
    }
    for n in 0..2000_u64 {
        let losses = (n.min(200) / 10) as u32;
        for (control, number) in lanes.iter_mut().zip(0..) {
            let (now, lane) = (at(n * 20), LaneId(number));
            control.handle_written(now, 3000);
            let lost = if number == 0 { losses } else { 0 };
            let snapshot = LaneSnapshot { unacknowledged: 3000, ..snapshot(n as u32 * 2, lost) };
            control.handle_snapshot(now, lane, (&mut transmitter, &mut paths), snapshot);
            let _ = actions(control);
        }
        // The last of the first lane's losses counts for twenty seconds, and what it said of it for two more.
        let expected = match n / 50 {
            1..=22 => "bbr",
            27.. => "cubic",
            _ => continue,
        };
        for control in &lanes {
            assert_eq!(control.chosen_congestion_control(), Some(expected), "after {} ms", n * 20);
        }
    }
}

#[test]
fn losses_of_a_lane_for_which_nothing_waits_decide_nothing() {
    let (mut control, mut transmitter) =
        (LaneControl::default(), transmitter(plan(CongestionControl::ByPath, false)));
    control.configure(&plan(CongestionControl::ByPath, false), LANE);
    let _ = actions(&mut control);
    assert_eq!(lossy(&mut control, &mut transmitter, 0), []);
}

#[test]
fn the_low_water_mark_follows_the_depth_and_the_room_keeps_below_it() {
    let (mut control, mut transmitter) = (LaneControl::default(), waiting());
    assert_eq!(control.room(at(0), 0), None, "nothing is known of the lane yet");
    let mut report = |window, ms| {
        let snapshot = LaneSnapshot { window, ..snapshot(0, 0) };
        handle(&mut control, at(ms), &mut transmitter, snapshot);
        (actions(&mut control), [0, 4999, 5000].map(|unsent| control.room(at(0), unsent)))
    };
    // 150 kB in 30 ms are 10 kB in 2 ms.
    let mark = LaneAction::SetLowWaterMark;
    assert_eq!(report(150_000, 0), (vec![mark(10_000)], [Some(10_000), Some(5001), None]));
    assert_eq!(report(180_000, 20).0, [], "a fifth more is no reason to change it");
    assert_eq!(report(190_000, 40).0, [mark(12_666)]);
    let (marks, rooms) = report(30_000_000, 60);
    assert_eq!((marks, rooms[0]), (vec![mark(1 << 20)], Some(LaneControl::MAX_BATCH)));
}

#[test]
fn what_a_stalled_lane_holds_may_be_retransmitted_through_the_trunk() {
    let mut transmitter = transmitter(plan(CongestionControl::AsOpened, false));
    let mut control = LaneControl::default();
    let _ = offer(&mut transmitter, at(0), segment(5000, 1, 1000));
    assert!(next(&mut transmitter, at(0), LANE).is_some());
    transmitter.handle_transmitted(LANE, 1000);
    control.handle_written(at(0), 1000);
    control.handle_held(at(0), LANE, &mut transmitter, 1000);
    let filtered = |transmitter: &mut Transmitter<Whole>, ms| {
        let _ = offer(transmitter, at(ms), segment(5000, 1, 1000));
        transmitter.report(at(ms))[0].stats.filtered
    };
    control.handle_held(at(999), LANE, &mut transmitter, 1000);
    assert_eq!((control.stalled_until(at(999)), filtered(&mut transmitter, 999)), (None, 1));
    control.handle_held(at(1000), LANE, &mut transmitter, 1000);
    assert_eq!((control.stalled_until(at(1000)), filtered(&mut transmitter, 1000)), (Some(at(1020)), 1));
    control.handle_held(at(1100), LANE, &mut transmitter, 900);
    assert_eq!(control.stalled_until(at(1100)), None, "it delivers again");
}

#[test]
fn a_lane_that_had_little_to_send_has_not_become_slower() {
    let (mut control, mut transmitter) = (LaneControl::default(), waiting());
    let mut rate = |bits, app_limited| {
        let delivery_rate = Some(Rate::from_bits_per_second(bits));
        let snapshot = LaneSnapshot { delivery_rate, app_limited, ..snapshot(0, 0) };
        handle(&mut control, at(0), &mut transmitter, snapshot);
        control.snapshot().delivery_rate.expect("a rate").bits_per_second()
    };
    let rates = [(500, false), (20, true), (600, true), (30, true), (400, false)];
    assert_eq!(rates.map(|(bits, limited)| rate(bits, limited)), [500, 500, 600, 600, 400]);
}

#[test]
fn a_plan_without_edge_pacing_takes_the_bound_away_once() {
    let (mut control, mut transmitter, mut paths) = (LaneControl::default(), waiting(), Paths::default());
    let [on, off] = [true, false].map(|on| plan(CongestionControl::AsOpened, on));
    paths.configure(&on);
    control.configure(&on, LANE);
    assert_eq!((actions(&mut control), paths.mode(LANE)), (vec![], Some(PathMode::Free)));
    control.handle_snapshot(at(0), LANE, (&mut transmitter, &mut paths), snapshot(20, 0));
    assert!(!actions(&mut control).iter().any(|action| matches!(action, LaneAction::SetMaxPacingRate(_))));
    control.handle_snapshot(at(20), LANE, (&mut transmitter, &mut paths), snapshot(40, 1));
    let of_pacing = |control: &mut LaneControl| {
        let mut actions = actions(control);
        actions.retain(|action| matches!(action, LaneAction::SetMaxPacingRate(_)));
        actions
    };
    let set = LaneAction::SetMaxPacingRate;
    // A path of milliseconds is paced from the first loss on.
    assert_eq!(of_pacing(&mut control), [set(Some(Rate::MAX))]);
    let grant = Some(Rate::from_mbit(3.0));
    control.handle_grant(grant.into());
    assert_eq!((of_pacing(&mut control), control.grant()), (vec![set(grant)], grant));
    control.handle_grant(grant.into());
    assert_eq!(of_pacing(&mut control), []);
    control.handle_grant(None.into());
    assert_eq!(of_pacing(&mut control), [set(Some(Rate::MAX))]);
    control.handle_grant(grant.into());
    let _ = of_pacing(&mut control);
    paths.configure(&off);
    control.configure(&off, LANE);
    assert_eq!((of_pacing(&mut control), control.grant(), paths.mode(LANE)), (vec![set(None)], None, None));
    control.handle_grant(grant.into());
    control.configure(&off, LANE);
    assert_eq!((actions(&mut control), control.grant()), (vec![], None));
}

#[test]
fn a_lane_that_holds_all_that_it_may_have_in_flight_waits_and_looks_again_a_few_milliseconds_later() {
    let (mut control, mut transmitter, mut paths) = (LaneControl::default(), waiting(), Paths::default());
    let plan = plan(CongestionControl::AsOpened, true);
    paths.configure(&plan);
    control.configure(&plan, LANE);
    assert!(!control.bounds_flight());
    let grant = Grant { rate: Some(Rate::from_mbit(8.0)), flight: Some(20_000) };
    control.handle_grant(grant);
    assert!(control.bounds_flight());
    assert_eq!(control.flight_room(at(0), 15_000), Ok(5000));
    assert_eq!(control.flight_room(at(0), 20_000), Err(at(4)));
    // Whatever wakes its owner meanwhile, as acknowledgements do in the simulator and not in the gateway.
    assert_eq!(control.flight_room(at(1), 1000), Err(at(4)));
    assert_eq!(control.flight_room(at(4), 19_000), Ok(1000));
    // What has arrived behind a gap is not in flight.
    let repairs = LaneSnapshot { out_of_order: 6000, ..snapshot(20, 1) };
    control.handle_snapshot(at(5), LANE, (&mut transmitter, &mut paths), repairs);
    assert_eq!(control.flight_room(at(5), 21_000), Ok(5000));
    control.handle_grant(Grant { flight: None, ..grant });
    assert!(!control.bounds_flight());
    assert_eq!(control.flight_room(at(5), 1_000_000), Ok(usize::MAX));
}

#[test]
fn a_lane_whose_connection_does_not_pace_takes_what_its_path_grants_and_waits_meanwhile() {
    let (mut control, mut transmitter, mut paths) = (LaneControl::default(), waiting(), Paths::default());
    let plan = plan(CongestionControl::AsOpened, true);
    paths.configure(&plan);
    control.configure(&plan, LANE);
    control.handle_snapshot(at(0), LANE, (&mut transmitter, &mut paths), snapshot(0, 0));
    let grant = Some(Rate::from_mbit(8.0));
    control.handle_grant(grant.into());
    control.handle_written(at(0), 100_000);
    assert_eq!(control.paced_until(at(0)), None, "its connection paces");
    control.pace();
    let mut taken = 0;
    for ms in 0..1000 {
        while control.paced_until(at(ms)).is_none() {
            let room = control.room(at(ms), 0).expect("nothing is unsent");
            assert!((1..=3000).contains(&room), "{room}");
            control.handle_written(at(ms), 500);
            taken += 500;
        }
    }
    // A byte a microsecond, and the bucket.
    assert!((999_000..=1_003_500).contains(&taken), "{taken}");
    let until = control.paced_until(at(999)).expect("it has just taken what it may");
    assert!(until > at(999) && until <= at(1003), "{until:?}");
    control.handle_grant(None.into());
    assert_eq!((control.paced_until(at(999)), control.room(at(999), 0)), (None, Some(10_000)));
    // On a path of less than a millisecond the controller's signal is the machine's scheduling.
    let short = LaneSnapshot { min_rtt: Some(Duration::from_micros(900)), ..snapshot(0, 0) };
    control.handle_snapshot(at(1000), LANE, (&mut transmitter, &mut paths), short);
    control.handle_grant(grant.into());
    assert_eq!((control.grant(), control.paced_until(at(1000))), (None, None));
}

#[test]
fn a_window_leaves_in_four_fifths_of_a_round_trip_in_short_bursts_and_nothing_waits_beyond_it() {
    let (mut control, mut transmitter, mut paths) = (LaneControl::default(), waiting(), Paths::default());
    let plan = plan(CongestionControl::AsOpened, true);
    paths.configure(&plan);
    control.configure(&plan, LANE);
    control.handle_snapshot(at(0), LANE, (&mut transmitter, &mut paths), snapshot(0, 0));
    let window = |bytes, available, srtt_ms| LaneWindow {
        bytes,
        available,
        srtt: Some(Duration::from_millis(srtt_ms)),
    };
    control.handle_window(window(50_000, 50_000, 50));
    assert_eq!(
        (control.paced_until(at(0)), control.is_window_limited()),
        (None, false),
        "its connection paces"
    );
    control.pace();
    control.handle_window(window(50_000, 50_000, 50));
    assert!(control.is_window_limited());
    let mut taken = 0;
    for ms in 0..1000 {
        let before = taken;
        while control.paced_until(at(ms)).is_none() {
            assert!(control.room(at(ms), 0).is_some_and(|room| (1..=3000).contains(&room)));
            control.handle_written(at(ms), 500);
            taken += 500;
        }
        assert!(taken - before <= 3000, "{} bytes at once", taken - before);
    }
    // 1.25 bytes a microsecond, and the bucket.
    assert!((1_249_000..=1_253_500).contains(&taken), "{taken}");
    // What the window has room for, less what waits in the connection.
    control.handle_window(window(50_000, 2904, 50));
    assert_eq!([0, 2000, 2904].map(|unsent| control.room(at(2000), unsent)), [Some(2904), Some(904), None]);
    // At a lower grant it is not the window that holds the lane, unless nothing fits into that.
    control.handle_grant(Some(Rate::from_mbit(8.0)).into());
    assert!(!control.is_window_limited());
    control.handle_window(window(50_000, 0, 50));
    assert!(control.is_window_limited() && control.room(at(3000), 0).is_none());
    // The connection's own bursts are no longer than a visit at 60 Mbit/s; and a short path is not paced.
    for not_paced in [window(300_000, 0, 50), window(5000, 0, 0)] {
        control.handle_window(not_paced);
        assert!(!control.is_window_limited() && control.room(at(4000), 0).is_some());
    }
}

/// The owner asks for packets as long as the lane may take some: were there no room for one, it would never end.
#[test]
fn a_lane_whose_grant_falls_waits_and_is_not_asked_to_take_nothing() {
    let (mut control, mut transmitter, mut paths) = (LaneControl::default(), waiting(), Paths::default());
    let plan = plan(CongestionControl::AsOpened, true);
    paths.configure(&plan);
    control.configure(&plan, LANE);
    control.handle_snapshot(at(0), LANE, (&mut transmitter, &mut paths), snapshot(0, 0));
    control.pace();
    control.handle_grant(Some(Rate::from_mbit(50.0)).into());
    // Less than the 12.5 kB of 2 ms, and more than the 3 kB that may be ahead at 8 Mbit/s.
    control.handle_written(at(0), 10_000);
    assert_eq!(control.paced_until(at(0)), None);
    control.handle_grant(Some(Rate::from_mbit(8.0)).into());
    assert_eq!(control.room(at(0), 0), None);
    let until = control.paced_until(at(0)).expect("what it took is more than it may be ahead");
    assert!(until > at(8) && until < at(9), "{until:?}");
    assert!(control.paced_until(until).is_none() && control.room(until, 0).is_some_and(|room| room > 0));
}

/// What happens to a lane in the random runs.
#[derive(Debug, Clone)]
enum Operation {
    Wait {
        ms: u64,
    },
    Configure {
        congestion_control: CongestionControl,
        edge_pacing: bool,
    },
    Write {
        bytes: u64,
    },
    /// A part of what is held is acknowledged.
    Deliver {
        percent: u64,
    },
    Snapshot {
        srtt_ms: u64,
        queue_ms: u64,
        window: usize,
        sent: u32,
        lost: u32,
        mbit: f64,
        limited: bool,
    },
    Held,
    Grant {
        mbit: Option<f64>,
    },
    Refuse,
    Offer,
}

fn operation(rng: &mut Rng) -> Operation {
    match rng.below(20) {
        0..=4 => {
            let limit = if rng.chance(0.1) { 3000 } else { 40 };
            Operation::Wait { ms: rng.below(limit) }
        }
        5 => Operation::Configure {
            congestion_control: match rng.below(4) {
                0 => CongestionControl::AsOpened,
                1 => CongestionControl::Named("reno".into()),
                _ => CongestionControl::ByPath,
            },
            edge_pacing: rng.chance(0.7),
        },
        6 | 7 => Operation::Write { bytes: rng.below(100_000) },
        8 | 9 => Operation::Deliver { percent: rng.below(101) },
        10..=14 => Operation::Snapshot {
            srtt_ms: 1 + rng.below(400),
            queue_ms: if rng.chance(0.85) { 0 } else { rng.below(100) },
            window: rng.below(10_000_000) as usize,
            sent: rng.below(2000) as u32,
            lost: if rng.chance(0.5) { 0 } else { rng.below(50) as u32 },
            mbit: rng.uniform() * 100.0,
            limited: rng.chance(0.3),
        },
        15 | 16 => Operation::Held,
        17 => Operation::Grant { mbit: rng.chance(0.5).then(|| 0.1 + rng.uniform() * 100.0) },
        18 => Operation::Refuse,
        _ => Operation::Offer,
    }
}

/// The lane as its owner sees it, and what must be true of its control.
#[derive(Default)]
struct Model {
    now: Instant,
    written: u64,
    delivered: u64,
    counters: (u32, u32),
    srtt: Option<Duration>,
    /// The bytes delivered and held at the last report, and the time since which nothing was delivered.
    stuck: Option<(u64, u64, Instant)>,
    stalled: bool,
    mark: usize,
    depth: usize,
    by_path: bool,
    refused: bool,
    in_use: Option<&'static str>,
    paces: bool,
    grant: Option<Rate>,
    log: Vec<LaneAction>,
}

impl Model {
    fn held(&self) -> usize {
        (self.written - self.delivered) as usize
    }

    fn report(&mut self) {
        let (now, delivered, held) = (self.now, self.delivered, self.held() as u64);
        let since = match self.stuck {
            Some((before, held_before, since)) if held > 0 && held_before > 0 && delivered == before => since,
            _ => now,
        };
        self.stuck = Some((delivered, held, since));
        let limit = self.srtt.map_or(Duration::ZERO, |srtt| srtt * 4).max(Duration::from_secs(1));
        self.stalled = since < now && (self.stalled || now.saturating_since(since) >= limit);
    }

    fn apply(
        &mut self,
        operation: &Operation,
        control: &mut LaneControl,
        transmitter: &mut Transmitter<Whole>,
    ) {
        match operation {
            Operation::Wait { ms } => self.now += Duration::from_millis(*ms),
            Operation::Configure { congestion_control, edge_pacing } => {
                control.configure(&plan(congestion_control.clone(), *edge_pacing), LANE);
                let by_path = *congestion_control == CongestionControl::ByPath;
                self.refused &= by_path && self.by_path;
                if !(by_path && self.by_path) {
                    self.in_use = by_path.then_some("cubic");
                }
                (self.by_path, self.paces) = (by_path, *edge_pacing);
                if !self.paces && self.grant.take().is_some() {
                    self.depth = control.snapshot().depth(LaneControl::VISIT, None);
                }
            }
            Operation::Write { bytes } => {
                self.written += bytes;
                control.handle_written(self.now, *bytes);
            }
            Operation::Deliver { percent } => self.delivered += self.held() as u64 * percent / 100,
            Operation::Snapshot { srtt_ms, queue_ms, window, sent, lost, mbit, limited } => {
                self.counters.0 = self.counters.0.wrapping_add(*sent);
                self.counters.1 = self.counters.1.wrapping_add(*lost);
                let snapshot = LaneSnapshot {
                    unsent: self.held() / 3,
                    unacknowledged: self.held() - self.held() / 3,
                    srtt: Some(Duration::from_millis(srtt_ms + queue_ms)),
                    min_rtt: Some(Duration::from_millis(*srtt_ms)),
                    window: *window,
                    delivery_rate: Some(Rate::from_mbit(*mbit)),
                    app_limited: *limited,
                    segments_sent: self.counters.0,
                    retransmissions: self.counters.1,
                    out_of_order: 0,
                    lost_bytes: 0,
                };
                self.report();
                handle(control, self.now, transmitter, snapshot);
                self.srtt = snapshot.srtt;
                self.depth = snapshot.depth(LaneControl::VISIT, self.grant);
                assert!(!control.snapshot_due(self.now));
                assert!(control.snapshot_due(self.now + LaneControl::SNAPSHOT_INTERVAL));
            }
            Operation::Held => {
                self.report();
                control.handle_held(self.now, LANE, transmitter, self.held());
                assert!(!control.delivery_due(self.now));
                assert!(control.delivery_due(self.now + LaneControl::DELIVERY_INTERVAL));
            }
            Operation::Grant { mbit } => {
                let grant = mbit.map(Rate::from_mbit);
                control.handle_grant(grant.into());
                let grant = grant.filter(|_| self.paces);
                if std::mem::replace(&mut self.grant, grant) != grant {
                    self.depth = control.snapshot().depth(LaneControl::VISIT, grant);
                }
            }
            Operation::Refuse => {
                let other = |name| if name == "bbr" { "cubic" } else { "bbr" };
                // Only what the path asked for can be refused.
                if let Some(LaneAction::SetCongestionControl { cause: CongestionControlCause::Path, .. }) =
                    self.log.last()
                    && self.by_path
                    && !self.refused
                {
                    control.handle_congestion_control_refused();
                    (self.in_use, self.refused) = (self.in_use.map(other), true);
                }
            }
            Operation::Offer => {
                let _ = offer(transmitter, self.now, segment(5000, self.log.len() as u32, 1000));
            }
        }
    }

    fn check(&mut self, control: &mut LaneControl) {
        for action in actions(control) {
            match &action {
                LaneAction::SetCongestionControl { name, cause: CongestionControlCause::Path } => {
                    assert!(self.by_path && !self.refused);
                    let other = if self.in_use == Some("bbr") { "cubic" } else { "bbr" };
                    assert_eq!(&**name, other, "a path that changed asks for the other one");
                    self.in_use = Some(other);
                }
                LaneAction::SetCongestionControl { name, .. } => {
                    assert_eq!(&**name, self.in_use.unwrap_or("reno"));
                }
                LaneAction::SetLowWaterMark(bytes) => {
                    assert!(LaneSnapshot::DEPTH.contains(bytes) && *bytes == self.depth);
                    self.mark = *bytes;
                }
                LaneAction::SetMaxPacingRate(rate) => {
                    assert!(
                        *rate == self.grant
                            || (self.grant.is_none() && self.paces && *rate == Some(Rate::MAX))
                    );
                }
            }
            self.log.push(action);
        }
        assert_eq!(control.poll_action(), None);
        assert_eq!(control.chosen_congestion_control(), self.in_use);
        assert_eq!(control.grant(), self.grant);
        assert_eq!(control.written(), self.written);
        assert_eq!(control.stalled_until(self.now).is_some(), self.stalled);
        assert!(self.mark.abs_diff(self.depth) <= self.mark / 4, "{} for {}", self.mark, self.depth);
        for unsent in [0, self.mark / 2, (self.mark / 2).saturating_sub(1), self.mark, usize::MAX / 2] {
            let expected = (unsent * 2 < self.mark).then(|| (self.mark - unsent).min(LaneControl::MAX_BATCH));
            assert_eq!(control.room(at(0), unsent), expected);
        }
    }
}

#[test]
fn random_operations_agree_with_a_model_and_with_themselves() {
    let (mut stalls, mut changes) = (0, 0);
    for seed in 0..120 {
        let mut rng = Rng::new(seed, "lane control");
        let operations: Vec<Operation> = (0..2000).map(|_| operation(&mut rng)).collect();
        let run = || {
            let (mut model, mut control) = (Model::default(), LaneControl::default());
            let mut transmitter = transmitter(plan(CongestionControl::AsOpened, false));
            let mut stalled = 0;
            for (number, operation) in operations.iter().enumerate() {
                let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    model.apply(operation, &mut control, &mut transmitter);
                    model.check(&mut control);
                }));
                assert!(
                    failed.is_ok(),
                    "seed {seed}, operation {number}, the last of {:?}",
                    &operations[number.saturating_sub(10)..=number]
                );
                stalled += u32::from(model.stalled);
            }
            (model.log, stalled)
        };
        let (log, stalled) = run();
        assert_eq!(run().0, log, "the same operations, the same actions");
        stalls += stalled;
        let of_the_path = |action: &&LaneAction| {
            matches!(action, LaneAction::SetCongestionControl { cause: CongestionControlCause::Path, .. })
        };
        changes += log.iter().filter(of_the_path).count();
    }
    assert!(stalls > 1000 && changes > 50, "{stalls} stalls and {changes} changes: the runs show too little");
}
