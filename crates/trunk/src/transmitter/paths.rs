//! Several paths to the peer: which of them flows take, and what moves when one fails.

use std::ops::Range;
use std::time::Duration;

use trunkline_units::{Instant, Rate};

use super::edge_queue::{Dropping, EdgeQueue};
use super::{Packet, Transmitter};
use crate::path::{ClassOnPaths, PathHealth, PathPolicy, PathView, Placement};
use crate::{ClassSettings, LaneId, TrunkPlan};

/// What the owner of a transmitter knows of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PathConditions {
    /// Whether nothing is heard of the other end ([`Silence`](crate::path::Silence)).
    pub is_silent: bool,
    /// Its capacity for the trunk, once it has been measured.
    pub capacity: Option<Rate>,
    /// The round-trip time of its lanes, once it has been measured.
    pub delay: Option<Duration>,
}

/// The paths of a class.
#[derive(Debug)]
pub(super) struct ClassPaths {
    placement: Placement,
    views: Vec<PathView>,
    /// Lanes of the class on each path.
    on_each: usize,
    /// Whether its flows take all paths that are open at once: its edge queues are not those of a path.
    is_bonded: bool,
}

impl ClassPaths {
    /// `None` where there is one path.
    pub(super) fn new(plan: &TrunkPlan, class: &ClassSettings) -> Option<Self> {
        let count = plan.path_count();
        (count > 1).then(|| ClassPaths {
            placement: Placement::new(&class.paths, &plan.paths),
            views: vec![PathView::default(); count],
            on_each: usize::from(plan.groups[class.group].lanes) / count,
            is_bonded: class.paths == PathPolicy::Bonded,
        })
    }

    /// Takes on what was decided before a new plan.
    pub(super) fn inherit(&mut self, old: &ClassPaths) {
        self.placement.inherit(&old.placement);
    }

    /// Whether flows of the lane in this place of the class stay there.
    #[inline]
    pub(super) fn is_open(&self, place: usize) -> bool {
        self.is_bonded || self.placement.is_open(place / self.on_each)
    }

    /// The lanes on a path, by their places in the class.
    const fn lanes(&self, path: usize) -> Range<usize> {
        path * self.on_each..(path + 1) * self.on_each
    }

    /// The lane for a copy of what the lane in this place of the class carries: that in its place on the next path that is allowed.
    #[inline]
    pub(super) fn place_of_copy(&self, place: usize) -> Option<usize> {
        let (own, paths) = (place / self.on_each, self.views.len());
        let allowed = self.placement.allowed();
        let other = (1..paths).map(|step| (own + step) % paths).find(|path| allowed & 1 << path != 0)?;
        Some(other * self.on_each + place % self.on_each)
    }

    /// The lanes among which a flow without one gets its lane; `flows` gives the active flows of a lane.
    pub(super) fn choose(&self, offset: usize, mut flows: impl FnMut(usize) -> u32) -> Range<usize> {
        if self.is_bonded {
            return self.lanes(0);
        }
        let mut on = [0; TrunkPlan::MAX_PATHS];
        for (path, flows_on) in on.iter_mut().enumerate().take(self.views.len()) {
            *flows_on = self.lanes(path).map(&mut flows).sum();
        }
        self.lanes(self.placement.place(&self.views, offset, |path| on[path]))
    }
}

/// What a class does on its paths, while any of them works; `own` are its edge queues.
fn on_paths<P: Packet>(paths: &ClassPaths, own: &[EdgeQueue<P>]) -> Option<ClassOnPaths> {
    let choice = paths.placement.choice(&paths.views)?;
    let mut on = ClassOnPaths {
        target: paths.placement.target(),
        preferred: choice.preferred,
        allowed: choice.allowed,
        assigned: paths.placement.assigned(),
        ..ClassOnPaths::default()
    };
    for path in 0..paths.views.len() {
        for edge_queue in &own[paths.lanes(path)] {
            on.sent[path] += edge_queue.queue.stats().bytes_out;
            on.waiting |= u8::from(!edge_queue.queue.is_empty()) << path;
        }
    }
    Some(on)
}

impl<P: Packet> Transmitter<P> {
    /// Takes how the paths are, by their numbers; `up` has a bit for each lane that is up. Of a path that a class leaves, the flows
    /// move to another one at once, and what waits for it moves with them. Returns the lanes for which packets wait now that came from
    /// others, a bit each.
    ///
    /// `hand_over` takes a class with a guarantee or priority and what it does, and gives the path that it is handed to
    /// ([`Paths::handle_class`](crate::Paths::handle_class)).
    ///
    /// Call it when a lane comes or goes and when a path becomes silent or is heard again; and now and then, since capacities and delays
    /// change.
    pub fn handle_paths(
        &mut self,
        now: Instant,
        up: u32,
        paths: &[PathConditions],
        mut hand_over: impl FnMut(&ClassSettings, ClassOnPaths) -> Option<u8>,
        mut release: impl FnMut(P),
    ) -> u32 {
        let mut moved = 0;
        for class in 0..self.classes.len() {
            let settings = &self.plan.classes[class];
            let first = self.plan.lanes(settings.group).start;
            let state = &mut self.classes[class];
            let (own, Some(of_class)) = (state.first..state.first + state.lanes, &mut state.paths) else {
                continue;
            };
            for (path, known) in paths.iter().enumerate().take(of_class.views.len()) {
                let is_up = of_class.lanes(path).any(|lane| up & 1 << (usize::from(first) + lane) != 0);
                let health = match (is_up, known.is_silent) {
                    (false, _) => PathHealth::Down,
                    (true, true) => PathHealth::Silent,
                    (true, false) => PathHealth::Up,
                };
                of_class.views[path] = PathView { health, capacity: known.capacity, delay: known.delay };
            }
            let may_be_handed_over =
                !of_class.is_bonded && (settings.share.guarantee.is_some() || settings.share.priority);
            let on = may_be_handed_over.then(|| on_paths(of_class, &self.edge_queues[own.clone()])).flatten();
            let assigned = on.and_then(|on| hand_over(settings, on));
            let closes = of_class.placement.update(now, &of_class.views, assigned);
            if of_class.is_bonded {
                let open = of_class.placement.target();
                for edge_queue in &mut self.edge_queues[own] {
                    if let Some(bond) = &mut edge_queue.bond {
                        bond.handle_paths(open, paths, up);
                    }
                    moved |= if edge_queue.is_empty() { 0 } else { edge_queue.lanes() };
                }
            } else if closes {
                for edge_queue in own {
                    moved |= self.move_backlog(now, class, edge_queue, &mut release);
                }
            }
        }
        moved
    }

    /// Flows that sent something in the last second or two, of all classes, on each path.
    pub fn path_flows(&mut self, now: Instant) -> Vec<u32> {
        let mut flows = vec![0; self.plan.path_count()];
        for edge_queue in &mut self.edge_queues {
            let (number, lanes) = (edge_queue.active.number(now), edge_queue.lanes());
            for lane in LaneId::of_set(lanes) {
                flows[usize::from(self.plan.path_of(lane).0)] += number;
            }
        }
        flows
    }

    /// The data that the lanes of a path hold may be lost: users' retransmissions of it are worth carrying.
    pub fn handle_path_silent(&mut self, path: u8) {
        for lane in (0..self.lanes.len() as u8).map(LaneId) {
            if self.plan.path_of(lane).0 == path {
                self.handle_lane_lost(lane);
            }
        }
    }

    /// Moves what waits in an edge queue, if its path is closed to the class, to the edge queues that its flows have now. The lanes of
    /// these, a bit each.
    fn move_backlog(&mut self, now: Instant, class: usize, from: usize, release: &mut impl FnMut(P)) -> u32 {
        let state = &self.classes[class];
        if state.paths.as_ref().is_none_or(|paths| paths.is_open(from - state.first)) {
            return 0;
        }
        let mut moved = 0;
        while let Some(entry) = self.edge_queues[from].queue.withdraw(now) {
            self.edge_queues[from].held_bytes -= entry.packet.memory_bytes();
            let to = self.classes[class].edge_queue(
                now,
                entry.hash,
                self.flows.get_mut(entry.flow),
                &mut self.edge_queues,
            );
            if let Some(flow) = self.flows.get_mut(entry.flow) {
                flow.set_edge_queue(to);
            }
            let edge_queue = &mut self.edge_queues[to];
            edge_queue.held_bytes += entry.packet.memory_bytes();
            moved |= edge_queue.lanes();
            let on_drop =
                &mut Dropping { flows: &mut self.flows, held_bytes: &mut edge_queue.held_bytes, release };
            edge_queue.queue.enqueue_into(now, entry, on_drop);
        }
        moved
    }
}
