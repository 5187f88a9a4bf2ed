//! Links, trunks, proxies and nodes: what each did between two readings.

use indexmap::IndexMap;

use super::Readings;
use crate::catalogue::measured::{Class, Link, Proxy, Queue, Span, Trunk};
use crate::catalogue::{CLASS, DISABLED, LINK, NODE, PROXY, QUEUE, TRUNK, way};
use crate::scenario::{self, NodeKind, Scenario};

pub(super) fn write(scenario: &Scenario, readings: Readings<'_>, metrics: &mut IndexMap<String, f64>) {
    let Readings { from, to, samples } = readings;
    let time = readings.time();
    for (number, link) in scenario.links.iter().enumerate() {
        for side in 0..2 {
            let (from, to) = (&from.links[number][side], &to.links[number][side]);
            let name = way(&link.name, side);
            let sent_for = to.sent_for.saturating_sub(from.sent_for);
            let measured = Link { stats: Span { from: from.stats, to: to.stats }, sent_for, time };
            LINK.write(&name, &measured, metrics);
            let is_ours = link.kernel_queues[side].is_none();
            let queue = Queue {
                reasons: if is_ours { link.ways[side].queue.description().reasons } else { &[] },
                from: from.queue.clone(),
                to: to.queue.clone(),
                time,
                samples: samples.link(number, side),
            };
            QUEUE.write(&name, &queue, metrics);
        }
    }
    for (number, trunk) in scenario.trunks.iter().enumerate() {
        for side in 0..2 {
            readings.write_trunk((trunk, &way(&trunk.name, side)), (number, side), metrics);
        }
    }
    for name in &scenario.disabled {
        for side in 0..2 {
            let zero = |quantity| (format!("{}.{quantity}", way(name, side)), 0.0);
            metrics.extend(DISABLED.map(zero));
        }
    }
    for (number, node) in scenario.nodes.iter().enumerate() {
        let measured = to.nodes[number].since(from.nodes[number]);
        NODE.write(&node.name, &measured, metrics);
        if node.kind == NodeKind::Proxy {
            let stats = Span { from: from.proxies[number], to: to.proxies[number] };
            PROXY.write(&node.name, &Proxy { stats, corrupted_at_node: measured.corrupted }, metrics);
        }
    }
}

impl Readings<'_> {
    /// One way of a trunk: from the sender at `side` to the receiver at the other.
    fn write_trunk(
        &self,
        (trunk, name): (&scenario::Trunk, &str),
        (number, side): (usize, usize),
        metrics: &mut IndexMap<String, f64>,
    ) {
        let [from, to] = [self.from, self.to].map(|counters| &counters.trunks[number][side]);
        let delivered =
            [self.from, self.to].map(|counters| counters.trunks[number][1 - side].delivered_bytes);
        let time = self.time();
        let mut all = Trunk { time, ..Trunk::default() };
        for (place, (before, after)) in from.classes.iter().zip(&to.classes).enumerate() {
            let plan = &trunk.plan.classes[place];
            let queue = Queue {
                reasons: plan.queue.description().reasons,
                from: before.queue.clone(),
                to: after.queue.clone(),
                time,
                samples: self.samples.class(number, side, place),
            };
            let filtered = after.filtered - before.filtered;
            let drop_holdoffs = after.queue.stats.held_off - before.queue.stats.held_off;
            let name = format!("{name}.{}", plan.name);
            QUEUE.write(&name, &queue, metrics);
            CLASS.write(&name, &Class { filtered, drop_holdoffs }, metrics);
            all.offered += queue.offered();
            all.drops += queue.drops();
            all.filtered += filtered;
            all.waiting += queue.mean_packets().unwrap_or_default();
            all.carried_bytes += queue.bytes_out();
        }
        all.delivered_bytes = delivered[1] - delivered[0];
        all.refused = to.refused - from.refused;
        for (lane, now) in to.lanes.iter().enumerate() {
            all.lanes.add(now.since(from.lanes.get(lane).copied().unwrap_or_default()));
        }
        TRUNK.write(name, &all, metrics);
    }
}
