//! Links, trunks, proxies and nodes: what each did between two readings.

use std::time::Duration;

use indexmap::IndexMap;
use trunkline_sim::LaneReport;

use super::reading::{Reading, queue};
use super::samples::Samples;
use crate::catalogue::measured::{Class, LaneCounts, Link, Proxy, Queue, Span, Trunk};
use crate::catalogue::{CLASS, DISABLED, LINK, NODE, PROXY, QUEUE, TRUNK, way};
use crate::scenario::{NodeKind, Scenario};

/// Two readings of a network, and what was sampled in between.
#[derive(Clone, Copy)]
pub(super) struct Readings<'a> {
    pub(super) from: &'a Reading,
    pub(super) to: &'a Reading,
    pub(super) samples: &'a Samples,
}

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
            let queue = Queue {
                reasons: link.ways[side].queue.description().reasons,
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
            readings.write_trunk(&way(&trunk.name, side), (number, side), metrics);
        }
    }
    for name in &scenario.disabled {
        for side in 0..2 {
            let zero = |quantity| (format!("{}.{quantity}", way(name, side)), 0.0);
            metrics.extend(DISABLED.map(zero));
        }
    }
    for (number, node) in scenario.nodes.iter().enumerate() {
        let measured = Span { from: from.nodes[number], to: to.nodes[number] };
        NODE.write(&node.name, &measured, metrics);
        if node.kind == NodeKind::Proxy {
            let stats = Span { from: from.proxies[number], to: to.proxies[number] };
            let corrupted_at_node = measured.to.corrupted - measured.from.corrupted;
            PROXY.write(&node.name, &Proxy { stats, corrupted_at_node }, metrics);
        }
    }
}

impl Readings<'_> {
    pub(super) fn time(&self) -> Duration {
        self.to.at.saturating_since(self.from.at)
    }

    /// One way of a trunk: from the sender at `side` to the receiver at the other.
    fn write_trunk(&self, name: &str, (number, side): (usize, usize), metrics: &mut IndexMap<String, f64>) {
        let [from, to] = [self.from, self.to].map(|reading| &reading.trunks[number][side]);
        let [from_far, to_far] = [self.from, self.to].map(|reading| &reading.trunks[number][1 - side]);
        let time = self.time();
        let mut trunk = Trunk { time, ..Trunk::default() };
        for (place, (before, after)) in from.classes.iter().zip(&to.classes).enumerate() {
            let queue = Queue {
                reasons: after.settings.queue.description().reasons,
                from: queue(&before.queue, self.from.at),
                to: queue(&after.queue, self.to.at),
                time,
                samples: self.samples.class(number, side, place),
            };
            let filtered = after.stats.filtered - before.stats.filtered;
            let drop_holdoffs = after.queue.held_off - before.queue.held_off;
            let name = format!("{name}.{}", after.settings.name);
            QUEUE.write(&name, &queue, metrics);
            CLASS.write(&name, &Class { filtered, drop_holdoffs }, metrics);
            trunk.offered += queue.offered();
            trunk.drops += queue.drops();
            trunk.filtered += filtered;
            trunk.waiting += queue.mean().0;
            trunk.carried_bytes += queue.bytes_out();
        }
        trunk.delivered_bytes = to_far.receiver.bytes - from_far.receiver.bytes;
        trunk.refused = to.refused - from.refused;
        for (lane, now) in to.lanes.iter().enumerate() {
            // Before the network has run there are none.
            let before = from.lanes.get(lane).map(lane_counts).unwrap_or_default();
            let now = lane_counts(now);
            trunk.lanes.retransmitted += now.retransmitted - before.retransmitted;
            trunk.lanes.timeouts += now.timeouts - before.timeouts;
            trunk.lanes.rtt_samples += now.rtt_samples - before.rtt_samples;
            trunk.lanes.rtt_ns += now.rtt_ns - before.rtt_ns;
            trunk.lanes.bytes += now.bytes - before.bytes;
        }
        TRUNK.write(name, &trunk, metrics);
    }
}

fn lane_counts(lane: &LaneReport) -> LaneCounts {
    let tcp = lane.tcp.unwrap_or_default();
    LaneCounts {
        retransmitted: tcp.retransmitted_segments,
        timeouts: tcp.timeouts + lane.datagrams.map_or(0, |datagrams| datagrams.timeouts),
        rtt_samples: tcp.rtt.samples,
        rtt_ns: tcp.rtt.sum_ns,
        bytes: lane.bytes,
    }
}
