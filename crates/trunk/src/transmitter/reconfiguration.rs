//! A new plan for a transmitter at work.

use trunkline_queue::{Queue, Scheduler};
use trunkline_units::Instant;

use super::edge_queue::EdgeQueue;
use super::lanes_in_use::LanesInUse;
use super::paths::ClassPaths;
use super::undelivered::Undelivered;
use super::{ClassState, Lane, Packet, Transmitter};
use crate::admission::Admission;
use crate::bonding::Bond;
use crate::path::PathPolicy;
use crate::replication::Replication;
use crate::{ClassId, Classifier, LaneId, TrunkPlan};

impl<P: Packet> Transmitter<P> {
    /// Applies a new plan. A class with the same name keeps its counts and the places of its flows and, if its discipline stays, its
    /// backlog. Packets of classes and lanes that are gone are dropped and go to `discard`, and so do copies of packets. A lane whose group,
    /// path and place on the path stay keeps its data in transit.
    ///
    /// # Panics
    /// As [`Transmitter::new`].
    pub fn reconfigure(&mut self, now: Instant, plan: TrunkPlan, mut discard: impl FnMut(P)) {
        plan.check();
        self.discard_departed(&mut discard);
        let old_plan = std::mem::replace(&mut self.plan, plan);
        let mut old_edge_queues = std::mem::take(&mut self.edge_queues);
        let mut old_lanes = std::mem::take(&mut self.lanes);
        let mut old_classes = std::mem::take(&mut self.classes);
        let mut old_admissions: Vec<(&str, Admission)> = old_plan
            .classes
            .iter()
            .zip(&mut old_classes)
            .filter_map(|(class, state)| Some((&*class.name, state.admission.take()?)))
            .collect();
        for (_, admission) in &old_admissions {
            admission.unmark(&mut self.flows);
        }
        let mut placements: Vec<Option<ClassPaths>> =
            old_classes.iter_mut().map(|class| class.paths.take()).collect();
        let old_in_use: Vec<_> = old_classes.iter().map(|class| class.in_use).collect();
        let old_place = |name: &str| old_plan.classes.iter().position(|old| *old.name == *name);
        let in_use = |name: &str, lanes: usize| {
            let old = old_place(name).and_then(|at| *old_in_use.get(at)?);
            LanesInUse::new(lanes).inheriting(old)
        };
        let mut retired = |name: &str| {
            old_place(name)
                .and_then(|at| old_classes.get_mut(at))
                .map(|old| std::mem::take(&mut old.retired))
                .unwrap_or_default()
        };
        let mut old_paths = |name: &str| old_place(name).and_then(|at| placements.get_mut(at)?.take());
        for (number, class) in self.plan.classes.iter().enumerate() {
            let of_group = self.plan.lanes(class.group);
            let on_each = of_group.len() / self.plan.path_count();
            let is_bonded = class.paths == PathPolicy::Bonded && self.plan.path_count() > 1;
            let lanes =
                if is_bonded { of_group.start..of_group.start + on_each as u8 } else { of_group.clone() };
            let first = self.edge_queues.len();
            for lane in lanes.clone() {
                let seed = self.seed ^ ((number as u64) << 32 | u64::from(lane) << 16);
                let place = self.plan.path_of(LaneId(lane));
                let known = old_edge_queues.iter().position(|edge_queue| {
                    old_plan.classes[edge_queue.class].name == class.name
                        && old_plan.path_of(LaneId(edge_queue.lane as u8)) == place
                });
                let lane = usize::from(lane);
                let mut edge_queue = match known {
                    Some(at) => {
                        let mut edge_queue = old_edge_queues.swap_remove(at);
                        edge_queue.reconfigure(now, class.queue, &mut self.flows, &mut discard);
                        (edge_queue.class, edge_queue.lane) = (number, lane);
                        edge_queue
                    }
                    None => EdgeQueue::new(number, lane, 0, Queue::new(class.queue, seed)),
                };
                let of_bond = || (lane as u8..of_group.end).step_by(on_each);
                edge_queue.bond = is_bonded.then(|| Bond::new(of_bond(), class.reorder_wait));
                edge_queue.queue.set_max_wait(class.max_wait);
                self.edge_queues.push(edge_queue);
            }
            let id = ClassId(number as u8);
            let admission = class.admission.map(|settings| {
                match old_admissions.iter().position(|(name, _)| **name == *class.name) {
                    Some(at) => {
                        let (_, admission) = old_admissions.swap_remove(at);
                        admission.reconfigure(id, settings.limit, &mut self.flows)
                    }
                    None => Admission::new(id, settings.limit),
                }
            });
            let mut paths = ClassPaths::new(&self.plan, class);
            if let (Some(paths), Some(old)) = (&mut paths, old_paths(&class.name)) {
                paths.inherit(&old);
            }
            let is_adaptive = self.plan.groups[class.group].adaptive && self.plan.path_count() == 1;
            self.classes.push(ClassState {
                first,
                lanes: lanes.len(),
                replication: if class.paths == PathPolicy::Duplicate && self.plan.path_count() > 1 {
                    Some(Replication::of_all())
                } else {
                    class.replicates.then(|| Replication::new(lanes.len()))
                },
                in_use: is_adaptive.then(|| in_use(&class.name, lanes.len())),
                paths,
                admission,
                retired: retired(&class.name),
            });
        }
        for mut gone in old_edge_queues {
            gone.flush(now, &mut self.flows, &mut discard);
            let name = &old_plan.classes[gone.class].name;
            if let Some(at) = self.plan.classes.iter().position(|class| class.name == *name) {
                self.classes[at].retired.add(&gone);
            }
        }
        for (number, group) in self.plan.groups.iter().enumerate() {
            for lane in self.plan.lanes(number) {
                let (path, place) = self.plan.path_of(LaneId(lane));
                let edge_queues: Vec<usize> = (0..self.edge_queues.len())
                    .filter(|m| self.edge_queues[*m].is_served_by(lane.into()))
                    .collect();
                for (place, edge_queue) in edge_queues.iter().enumerate() {
                    self.edge_queues[*edge_queue].place = place;
                }
                let shares: Vec<_> =
                    edge_queues.iter().map(|m| self.plan.classes[self.edge_queues[*m].class].share).collect();
                let (undelivered, opening) = old_plan
                    .lane(&group.name, path, place)
                    .map(|old| {
                        let old = &mut old_lanes[old.index()];
                        (std::mem::take(&mut old.undelivered), old.opening)
                    })
                    .unwrap_or_default();
                self.lanes.push(Lane {
                    edge_queues,
                    scheduler: Scheduler::new(&shares),
                    undelivered,
                    copies: Undelivered::default(),
                    opening,
                });
            }
        }
        for mut gone in old_lanes {
            gone.undelivered.lost(&mut self.flows);
        }
        self.classifier = Classifier::new(&self.plan.classes);
        self.asks_behaviour = self.classifier.asks_behaviour();
    }
}
