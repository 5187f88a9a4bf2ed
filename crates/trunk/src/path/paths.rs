use trunkline_units::{Instant, Rate};

use super::{Arrival, LaneDemand, PathChange, PathControl, PathLane, PathMode};
use crate::{LaneId, TrunkPlan};

/// The paths to one peer: one for each DSCP, since a network may treat each in its own way.
#[derive(Debug, Clone, Default)]
pub struct Paths {
    by_dscp: Vec<(u8, PathControl)>,
    /// Of each lane, its path and its weight. Empty without edge pacing.
    lanes: Vec<(usize, f64)>,
    changed: bool,
}

impl Paths {
    /// Takes a plan. A path that stays keeps what it has learnt; its lanes are as new, since they may have other numbers.
    pub fn configure(&mut self, plan: &TrunkPlan) {
        self.lanes.clear();
        self.changed = true;
        for (_, path) in &mut self.by_dscp {
            path.remove_lanes();
        }
        if !plan.edge_pacing {
            self.by_dscp.clear();
            return;
        }
        self.by_dscp.retain(|(dscp, _)| plan.groups.iter().any(|group| group.dscp == *dscp));
        for (number, group) in plan.groups.iter().enumerate() {
            let at = self.by_dscp.iter().position(|(dscp, _)| *dscp == group.dscp).unwrap_or_else(|| {
                self.by_dscp.push((group.dscp, PathControl::default()));
                self.by_dscp.len() - 1
            });
            let classes = plan.classes.iter().filter(|class| class.group == number);
            let weight: u32 = classes.map(|class| class.share.weight.max(1)).sum();
            let weight = f64::from(weight.max(1)) / f64::from(group.lanes.max(1));
            self.lanes.extend((0..group.lanes).map(|_| (at, weight)));
        }
    }

    /// The path of a lane; `None` without edge pacing.
    fn of(&self, lane: LaneId) -> Option<&PathControl> {
        self.lanes.get(lane.index()).map(|(path, _)| &self.by_dscp[*path].1)
    }

    /// The DSCP and the controller of each path.
    pub fn all(&self) -> impl Iterator<Item = (u8, &PathControl)> {
        self.by_dscp.iter().map(|(dscp, path)| (*dscp, path))
    }

    /// Takes what is known of a lane; its weight is that of the plan.
    pub(crate) fn handle_demand(&mut self, now: Instant, lane: LaneId, demand: LaneDemand) {
        if let Some((path, weight)) = self.lanes.get(lane.index()) {
            self.by_dscp[*path].1.handle_demand(now, number(lane), *weight, demand);
        }
    }

    /// Takes an arrival of a lane.
    pub(crate) fn handle_arrival(&mut self, now: Instant, lane: LaneId, arrival: Arrival) {
        if let Some((path, _)) = self.lanes.get(lane.index()) {
            self.changed |= self.by_dscp[*path].1.handle_arrival(now, number(lane), arrival);
        }
    }

    /// The lane's connection has ended.
    pub fn remove_lane(&mut self, lane: LaneId) {
        if let Some((path, _)) = self.lanes.get(lane.index()) {
            self.by_dscp[*path].1.remove_lane(number(lane));
        }
    }

    /// Whether grants have changed since this was asked last: the owner then passes [`Paths::grant`] on to the control of each lane.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The DSCP of a path that its controller takes for something else now, and what for.
    pub fn poll_change(&mut self) -> Option<(u8, PathChange)> {
        self.by_dscp.iter_mut().find_map(|(dscp, path)| Some((*dscp, path.take_change()?)))
    }

    /// The rate at which a lane may send; `None` without a bound.
    pub fn grant(&self, lane: LaneId) -> Option<Rate> {
        self.of(lane)?.grant(number(lane))
    }

    /// The bound in force on the path of a lane; `None` without edge pacing.
    pub fn mode(&self, lane: LaneId) -> Option<PathMode> {
        self.of(lane).map(PathControl::mode)
    }
}

fn number(lane: LaneId) -> PathLane {
    PathLane(u32::from(lane.0))
}
