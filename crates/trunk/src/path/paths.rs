use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use trunkline_queue::Share;
use trunkline_units::{Instant, Rate};

use super::class_rates::{ClassRates, EdgeQueueDemand};
use super::division::GroupShare;
use super::handover::Handovers;
use super::{
    Arrival, ClassOnPaths, ClassPathStatus, Grant, Handover, LaneDemand, PathChange, PathControl,
    PathEvidence, PathLane, PathMode, PathStatus,
};
use crate::{ClassSettings, LaneId, TrunkPlan};

/// What the shards of a gateway share about one peer: the paths to it, each once for each DSCP, since a network may treat each in its
/// own way, and what classes with ceilings and guarantees send.
#[derive(Debug, Default)]
pub struct SharedPaths {
    shared: Mutex<Shared>,
    /// How often grants have changed.
    version: AtomicU64,
}

#[derive(Debug, Default)]
struct Shared {
    paths: Vec<SharedPath>,
    classes: ClassRates,
    handovers: Handovers,
    /// The paths of the last plan, by their names.
    path_names: Vec<Arc<str>>,
    /// The latest time that any shard has named: each has looked at the clock for itself.
    now: Instant,
}

/// One of several paths to a peer, for packets of one DSCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathId {
    /// Its number among the paths to the peer.
    pub path: u8,
    /// The DSCP of the lanes' packets.
    pub dscp: u8,
}

/// What is known of the path of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PathSummary {
    /// What it can carry, once that is known.
    pub(crate) capacity: Option<Rate>,
    /// Whether lanes have repaired losses on it of late.
    pub(crate) loses: bool,
}

#[derive(Debug)]
struct SharedPath {
    id: PathId,
    control: PathControl,
    /// The shards whose plan has lanes on it.
    shards: BTreeSet<u16>,
}

impl Shared {
    fn get(&mut self, id: PathId) -> Option<&mut PathControl> {
        self.paths.iter_mut().find(|path| path.id == id).map(|path| &mut path.control)
    }

    /// The shard has lanes on this path.
    fn join(&mut self, id: PathId, shard: u16, reserved: Option<Rate>) {
        let known = self.paths.iter().position(|path| path.id == id);
        let at = known.unwrap_or_else(|| {
            self.paths.push(SharedPath { id, control: PathControl::default(), shards: BTreeSet::new() });
            self.paths.len() - 1
        });
        let SharedPath { control, shards, .. } = &mut self.paths[at];
        shards.insert(shard);
        control.set_reserved(reserved);
    }

    /// The shard's lanes are on no path.
    fn leave(&mut self, shard: u16) {
        self.classes.remove_shard(shard);
        self.handovers.remove_shard(shard);
        for path in &mut self.paths {
            path.control.remove_shard(shard);
            path.shards.remove(&shard);
        }
    }

    /// Forgets paths that no shard has lanes on.
    fn forget(&mut self) {
        self.paths.retain(|path| !path.shards.is_empty());
    }

    /// The capacity of a path for packets of a DSCP, or if that is unknown the largest that is known for others.
    fn capacity(&self, path: u8, dscp: Option<u8>) -> Option<Rate> {
        let of_path = || self.paths.iter().filter(|known| known.id.path == path);
        let own =
            of_path().find(|known| Some(known.id.dscp) == dscp).and_then(|known| known.control.capacity());
        own.or_else(|| of_path().filter_map(|known| known.control.capacity()).max())
    }

    /// Takes a plan, of which each shard tells.
    fn configure(&mut self, plan: &TrunkPlan) {
        let same_paths = plan.paths.iter().map(|path| &path.name).eq(&self.path_names);
        self.handovers.configure(plan, same_paths);
        if !same_paths {
            self.path_names = plan.paths.iter().map(|path| Arc::clone(&path.name)).collect();
        }
    }

    /// The time of a report, which is never before that of another shard's last one.
    fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }
}

impl SharedPaths {
    /// The shards hold it for some microseconds each time, and none of them waits inside.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Shared>> {
        match self.shared.try_lock() {
            Ok(paths) => Some(paths),
            Err(TryLockError::Poisoned(paths)) => Some(paths.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn handle_changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }
}

/// The paths to one peer as one shard sees them.
///
/// What a shard reports, and the grants that it reads, are behind a lock that it never waits for while it serves lanes: if another
/// shard holds it, the report is left out, since the next one says all that it said, or the grants are read a little later. No packet
/// comes near it: a busy lane reports some hundred times a second (docs/decisions/0018).
#[derive(Debug, Default)]
pub struct Paths {
    shared: Arc<SharedPaths>,
    shard: u16,
    /// By lane; empty without edge pacing.
    lanes: Vec<Lane>,
    /// The DSCP of each lane group.
    dscps: Vec<u8>,
    /// The version of the shared grants that this shard has read.
    version: Option<u64>,
}

#[derive(Debug)]
struct Lane {
    id: PathId,
    share: GroupShare,
    grant: Grant,
}

impl Paths {
    /// The paths as the shard of this number sees them. Its lanes are on them until this is dropped.
    pub fn new(shared: Arc<SharedPaths>, shard: u16) -> Self {
        Paths { shared, shard, lanes: Vec::new(), dscps: Vec::new(), version: None }
    }

    /// Takes a plan. A path that stays keeps what it has learnt; the shard's lanes are as new, since they may have other numbers.
    pub fn configure(&mut self, plan: &TrunkPlan) {
        self.lanes.clear();
        self.dscps = plan.groups.iter().map(|group| group.dscp).collect();
        self.version = None;
        if plan.edge_pacing {
            for (number, group) in plan.groups.iter().enumerate() {
                let share = GroupShare::of(plan, number);
                let lane = |lane: u8| {
                    let id = PathId { path: plan.path_of(LaneId(lane)).0, dscp: group.dscp };
                    Lane { id, share, grant: Grant::default() }
                };
                self.lanes.extend(plan.lanes(number).map(lane));
            }
        }
        let mut shared = self.shared.lock();
        shared.leave(self.shard);
        shared.configure(plan);
        let reserved = plan.reserved.filter(|_| plan.path_count() == 1);
        for Lane { id, .. } in &self.lanes {
            shared.join(*id, self.shard, reserved);
        }
        shared.forget();
    }

    /// Takes a plan in which only what classes are promised has changed. All that is known of the paths and their lanes stays.
    pub fn update_shares(&mut self, plan: &TrunkPlan) {
        for group in 0..plan.groups.len() {
            let share = GroupShare::of(plan, group);
            for lane in plan.lanes(group) {
                if let Some(lane) = self.lanes.get_mut(usize::from(lane)) {
                    lane.share = share;
                }
            }
        }
    }

    /// The state of each path, all shards' lanes included.
    pub fn status(&self) -> Vec<(PathId, PathStatus)> {
        let mut all: Vec<(PathId, PathStatus)> =
            self.shared.lock().paths.iter().map(|path| (path.id, path.control.status())).collect();
        all.sort_by_key(|(id, _)| id.path);
        all
    }

    /// The largest capacity that has been estimated on a path; `None` before the first estimate, or while another shard is at it.
    pub fn capacity(&self, path: u8) -> Option<Rate> {
        self.shared.try_lock()?.capacity(path, None)
    }

    /// Takes what a class does on several paths. The path that it is handed to, since its own do not hold its guarantee, which holds
    /// over all shards; `None`: those of its policy.
    pub fn handle_class(&self, now: Instant, class: &ClassSettings, on: ClassOnPaths) -> Option<u8> {
        let Some(mut shared) = self.shared.try_lock() else { return on.assigned };
        let now = shared.advance(now);
        let mut handovers = std::mem::take(&mut shared.handovers);
        let dscp = self.dscps.get(class.group).copied();
        let assigned = handovers.handle_class(now, self.shard, class, on, |path| shared.capacity(path, dscp));
        shared.handovers = handovers;
        assigned
    }

    /// A class that was handed to another path. One shard of all gets to know.
    pub fn poll_handover(&self) -> Option<Handover> {
        self.shared.try_lock()?.handovers.poll()
    }

    /// The classes with a guarantee, where there are several paths.
    pub fn class_paths(&self) -> Vec<ClassPathStatus> {
        self.shared.lock().handovers.status()
    }

    /// Takes what is known of a lane; what it is promised is that of the plan.
    pub(crate) fn handle_demand(&mut self, now: Instant, lane: LaneId, demand: LaneDemand) {
        let Some(Lane { id, share, .. }) = self.lanes.get(lane.index()) else { return };
        let Some(mut shared) = self.shared.try_lock() else { return };
        let now = shared.advance(now);
        if let Some(path) = shared.get(*id) {
            path.handle_demand(now, self.path_lane(lane), *share, demand);
        }
    }

    /// Takes an arrival of a lane.
    pub(crate) fn handle_arrival(&mut self, now: Instant, lane: LaneId, arrival: Arrival) {
        let Some(Lane { id, .. }) = self.lanes.get(lane.index()) else { return };
        let Some(mut shared) = self.shared.try_lock() else { return };
        let now = shared.advance(now);
        if shared.get(*id).is_some_and(|path| path.handle_arrival(now, self.path_lane(lane), arrival)) {
            self.shared.handle_changed();
        }
    }

    /// Takes what the edge queue of a class on a lane does. What this edge queue may have of the ceiling and the guarantee of the class,
    /// which hold over all lanes of all shards; `None` if that is to stay as it is.
    pub(crate) fn handle_edge_queue(
        &mut self,
        now: Instant,
        lane: LaneId,
        class: &ClassSettings,
        demand: EdgeQueueDemand,
    ) -> Option<Share> {
        let mut shared = self.shared.try_lock()?;
        let now = shared.advance(now);
        Some(shared.classes.handle_demand(now, self.path_lane(lane), &class.name, class.share, demand))
    }

    /// The lane's connection has ended.
    pub fn remove_lane(&mut self, lane: LaneId) {
        let mut shared = self.shared.lock();
        shared.classes.remove_lane(self.path_lane(lane));
        if let Some(Lane { id, .. }) = self.lanes.get(lane.index())
            && let Some(path) = shared.get(*id)
        {
            path.remove_lane(self.path_lane(lane));
        }
    }

    /// Reads what the lanes may send. Whether it may have changed since this was asked last: the owner then passes
    /// [`Paths::grant`] on to the control of each lane.
    pub fn take_changed(&mut self) -> bool {
        let version = Some(self.shared.version.load(Ordering::Acquire));
        if version == self.version {
            return false;
        }
        let Some(mut shared) = self.shared.try_lock() else { return false };
        self.version = version;
        for (number, lane) in (0..).map(LaneId).zip(&mut self.lanes) {
            let path_lane = PathLane::new(self.shard, number);
            lane.grant = shared.get(lane.id).map(|path| path.grant(path_lane)).unwrap_or_default();
        }
        true
    }

    /// A path that its controller takes for something else now, and what for. One shard of all gets to know.
    pub fn poll_change(&mut self) -> Option<(PathId, PathChange)> {
        let mut shared = self.shared.try_lock()?;
        shared.paths.iter_mut().find_map(|path| Some((path.id, path.control.take_change()?)))
    }

    /// What a lane may send, when grants were read last.
    pub fn grant(&self, lane: LaneId) -> Grant {
        self.lanes.get(lane.index()).map(|lane| lane.grant).unwrap_or_default()
    }

    /// The bound in force on the path of a lane; `None` without edge pacing.
    pub fn mode(&self, lane: LaneId) -> Option<PathMode> {
        let Lane { id, .. } = self.lanes.get(lane.index())?;
        self.shared.lock().get(*id).map(|path| path.mode())
    }

    /// What is known of the path of a lane; `None` without edge pacing, or while another shard is at it.
    pub(crate) fn view(&self, now: Instant, lane: LaneId) -> Option<PathSummary> {
        let Lane { id, .. } = self.lanes.get(lane.index())?;
        let mut shared = self.shared.try_lock()?;
        let now = shared.advance(now);
        let path = shared.get(*id)?;
        Some(PathSummary { capacity: path.known_capacity(), loses: path.loses(now) })
    }

    /// What is known of the losses on the path of a lane; `None` without edge pacing, or while another shard is at it.
    pub(crate) fn evidence(&self, lane: LaneId) -> Option<PathEvidence> {
        let Lane { id, .. } = self.lanes.get(lane.index())?;
        let mut shared = self.shared.try_lock()?;
        shared.get(*id).map(|path| path.evidence())
    }

    /// A lane has found by its own losses that its path loses packets without being full.
    pub(crate) fn handle_lossy(&self, now: Instant, lane: LaneId) {
        let Some(Lane { id, .. }) = self.lanes.get(lane.index()) else { return };
        let Some(mut shared) = self.shared.try_lock() else { return };
        let now = shared.advance(now);
        if let Some(path) = shared.get(*id) {
            path.handle_lossy(now);
        }
    }

    const fn path_lane(&self, lane: LaneId) -> PathLane {
        PathLane::new(self.shard, lane)
    }
}

impl Drop for Paths {
    fn drop(&mut self) {
        let mut shared = self.shared.lock();
        shared.leave(self.shard);
        shared.forget();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::path::Signal;
    use crate::{LaneGroup, Rule};
    use trunkline_queue::Settings;

    /// Two groups of one lane with weights 30 and 70, and one with a guarantee of 20 Mbit/s and the least weight.
    fn plan() -> TrunkPlan {
        let weights = [30, 70, 1];
        let class = |(group, weight)| {
            let mut class = ClassSettings::new("class", vec![Rule::default()], Settings::default(), group);
            class.share.weight = weight;
            class.share.guarantee = (group == 2).then(|| Rate::from_mbit(20.0));
            class
        };
        let classes = weights.into_iter().enumerate().map(class).collect();
        let groups = ["a", "b", "c"].map(|name| LaneGroup::new(name, 1)).to_vec();
        TrunkPlan { edge_pacing: true, ..TrunkPlan::new(classes, groups) }
    }

    /// Shards of one gateway whose lanes send what they are granted over a path of 100 Mbit/s with 50 ms of buffer.
    struct Shards {
        all: Vec<Paths>,
        /// Bits that each lane of each shard has sent.
        sent: Vec<[f64; 3]>,
        queue: f64,
        tick: u64,
    }

    impl Shards {
        fn new(count: u16) -> Self {
            let shared = Arc::new(SharedPaths::default());
            let mut all: Vec<Paths> =
                (0..count).map(|shard| Paths::new(Arc::clone(&shared), shard)).collect();
            for paths in &mut all {
                paths.configure(&plan());
            }
            Shards { sent: vec![[0.0; 3]; all.len()], all, queue: 0.0, tick: 0 }
        }

        /// Five seconds in which the lanes named have a backlog. What each lane may send at the end, Mbit/s.
        fn run(&mut self, busy: impl Fn(usize, u8) -> bool) -> Vec<[f64; 3]> {
            for _ in 0..250 {
                let now = Instant::from_millis(self.tick * 20);
                let mut rates = vec![[0.0; 3]; self.all.len()];
                for (shard, paths) in self.all.iter_mut().enumerate() {
                    let _ = paths.take_changed();
                    for number in (0..3).filter(|number| busy(shard, *number)) {
                        let granted = paths
                            .grant(LaneId(number))
                            .rate
                            .map_or(26e6, |rate| rate.bits_per_second() as f64);
                        rates[shard][usize::from(number)] = granted;
                    }
                }
                let total: f64 = rates.iter().flatten().sum();
                // No more arrives than the path carries, each lane's part of it.
                let part = (100e6 / total).min(1.0);
                for (shard, paths) in self.all.iter_mut().enumerate() {
                    for number in 0..3 {
                        let (lane, waiting) = (LaneId(number), busy(shard, number));
                        let sent = &mut self.sent[shard][usize::from(number)];
                        *sent += 0.020 * rates[shard][usize::from(number)] * part;
                        let min_rtt = Some(Duration::from_millis(30));
                        let demand = LaneDemand {
                            waiting,
                            busy: waiting,
                            segment: 1448.0,
                            min_rtt,
                            window_rate: None,
                            segments_sent: 0,
                            retransmissions: 0,
                        };
                        paths.handle_demand(now, lane, demand);
                        let arrival = Arrival {
                            signal: Signal::OneWay,
                            at: now,
                            bytes: (*sent / 8.0) as u64,
                            delay: waiting.then_some((self.queue * 1e6) as u32),
                            paced: Duration::ZERO,
                            age: Some(Duration::from_millis(15)),
                        };
                        paths.handle_arrival(now, lane, arrival);
                    }
                }
                self.queue = (self.queue + (total - 100e6) * 0.020 / 100e6).clamp(0.0, 0.050);
                self.queue = if self.tick < 3 { 0.0 } else { self.queue };
                self.tick += 1;
            }
            let of = |paths: &Paths| {
                [0, 1, 2].map(|lane| paths.grant(LaneId(lane)).rate.map_or(f64::NAN, Rate::as_mbit))
            };
            self.all.iter().map(of).collect()
        }
    }

    fn close(got: f64, wanted: f64) -> bool {
        (got / wanted - 1.0).abs() < 0.06
    }

    #[test]
    fn promises_hold_over_all_shards_whichever_lanes_are_busy() {
        let mut shards = Shards::new(2);
        let grants = shards.run(|_, lane| lane < 2);
        for grants in &grants {
            assert!(close(grants[0], 15.0) && close(grants[1], 35.0), "{grants:?}");
        }
        // One group uses a lane of one shard only, the other lanes of both.
        let grants = shards.run(|shard, lane| lane == 1 || lane == 0 && shard == 1);
        assert!(close(grants[1][0], 30.0) && close(grants[0][1], 35.0), "{grants:?}");
        // The guarantee is one for all shards.
        let grants = shards.run(|_, lane| lane != 0);
        let guaranteed = grants[0][2] + grants[1][2];
        assert!(close(guaranteed, 20.0 + 80.0 / 71.0), "{grants:?}");
        assert_eq!(shards.all[0].status(), shards.all[1].status());
        // A shard that is gone leaves its part to the others.
        let gone = shards.all.pop();
        drop(gone);
        let grants = shards.run(|_, lane| lane < 2);
        assert!(close(grants[0][0], 30.0) && close(grants[0][1], 70.0), "{grants:?}");
    }

    #[test]
    fn a_shard_waits_for_no_other_one_and_a_report_that_is_left_out_is_made_up_for() {
        let mut shards = Shards::new(2);
        let before = shards.run(|_, lane| lane < 2);
        let shared = Arc::clone(&shards.all[0].shared);
        let holder = shared.lock();
        // These would never return if they waited.
        let during = {
            let paths = &mut shards.all[0];
            let now = Instant::from_millis(shards.tick * 20);
            let arrival = Arrival {
                signal: Signal::OneWay,
                at: now,
                bytes: u64::MAX / 16,
                delay: None,
                paced: Duration::ZERO,
                age: None,
            };
            paths.handle_arrival(now, LaneId(0), arrival);
            paths.version = None;
            assert!(!paths.take_changed(), "it cannot know");
            assert_eq!(paths.poll_change(), None);
            paths.grant(LaneId(0)).rate.map(Rate::as_mbit)
        };
        assert_eq!(during, Some(before[0][0]));
        drop(holder);
        assert!(shards.all[0].take_changed(), "it asks again");
        let after = shards.run(|_, lane| lane < 2);
        assert!(close(after[0][0], before[0][0]), "{before:?} {after:?}");
    }

    #[test]
    fn a_plan_reaches_the_shards_one_after_the_other() {
        let mut shards = Shards::new(2);
        let _ = shards.run(|_, lane| lane < 2);
        let dscps =
            |shards: &Shards| shards.all[0].status().iter().map(|(id, _)| id.dscp).collect::<Vec<_>>();
        let mut moved = plan();
        moved.groups.iter_mut().for_each(|group| group.dscp = 46);
        shards.all[0].configure(&moved);
        assert_eq!(dscps(&shards), [0, 46], "the other shard's lanes are still there");
        assert!(shards.all[1].mode(LaneId(0)).is_some());
        shards.all[1].configure(&moved);
        assert_eq!(dscps(&shards), [46]);
        shards.all[0].configure(&TrunkPlan { edge_pacing: false, ..moved.clone() });
        assert_eq!((dscps(&shards), shards.all[0].mode(LaneId(0))), (vec![46], None));
        shards.all[1].configure(&TrunkPlan { edge_pacing: false, ..moved });
        assert_eq!(dscps(&shards), []);
    }
}
