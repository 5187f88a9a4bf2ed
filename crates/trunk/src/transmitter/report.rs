//! Reports of a transmitter, as plain values.

use std::time::Duration;

use trunkline_packet::FlowKey;
use trunkline_queue::{Conditions, Control, Stats};
use trunkline_units::Instant;

use super::edge_queue::EdgeQueueStats;
use super::lanes_in_use::LanesInUse;
use super::{Packet, Transmitter};
use crate::class::{ClassId, ClassSettings};

/// One class at one instant, over all its lanes.
#[derive(Debug, Clone)]
pub struct ClassReport {
    /// Its settings.
    pub settings: ClassSettings,
    /// What its queues have seen, added up.
    pub queue: Stats,
    /// What was counted beside the queues.
    pub stats: EdgeQueueStats,
    /// How many of its lanes take its packets.
    pub lanes_in_use: usize,
    /// The edge queue of each of its lanes.
    pub lanes: Vec<EdgeQueueReport>,
}

/// One edge queue at one instant.
#[derive(Debug, Clone, Copy)]
pub struct EdgeQueueReport {
    /// The state of its discipline.
    pub control: Control,
    /// The conditions of its lane and flows, as the discipline has them.
    pub conditions: Conditions,
    /// N: flows that sent something in the last second or two.
    pub flows: u32,
    /// An upper estimate of their round-trip times; `None` before the first sample.
    pub rtt_up: Option<Duration>,
}

/// One flow at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowReport {
    /// Addresses, protocol and ports.
    pub key: FlowKey,
    /// Its class.
    pub class: ClassId,
    /// Bytes it has sent since it was first seen.
    pub bytes: u64,
    /// Its last measured round-trip time.
    pub rtt: Option<Duration>,
    /// Retransmissions of it that were filtered, up to 255.
    pub filtered: u8,
    /// How long it has been silent, to about a millisecond.
    pub idle: Duration,
}

impl<P: Packet> Transmitter<P> {
    /// Every class, in the order of their ids.
    pub fn report(&mut self, now: Instant) -> Vec<ClassReport> {
        let Transmitter { plan, classes, edge_queues, .. } = self;
        let report = |(settings, state): (&ClassSettings, &super::ClassState)| {
            let own = &edge_queues[state.first..state.first + state.lanes];
            let mut report = ClassReport {
                settings: settings.clone(),
                queue: state.retired.queue.clone(),
                stats: state.retired.stats,
                lanes_in_use: state.in_use.as_ref().map_or_else(
                    || own.iter().map(|edge_queue| edge_queue.lanes().count_ones() as usize).sum(),
                    LanesInUse::number,
                ),
                lanes: Vec::with_capacity(state.lanes),
            };
            for edge_queue in &mut edge_queues[state.first..state.first + state.lanes] {
                report.queue.merge(edge_queue.queue.stats());
                report.stats.add(&edge_queue.stats);
                report.lanes.push(EdgeQueueReport {
                    control: edge_queue.queue.control(),
                    conditions: edge_queue.conditions,
                    flows: edge_queue.active.number(now),
                    rtt_up: edge_queue.rtt.upper(),
                });
            }
            report
        };
        plan.classes.iter().zip(classes.iter()).map(report).collect()
    }

    /// Segments and bytes that wait in the queues of a class; none of one that is not there.
    pub fn backlog(&self, class: ClassId) -> (u64, u64) {
        let own =
            self.classes.get(class.index()).map_or(0..0, |state| state.first..state.first + state.lanes);
        self.edge_queues[own]
            .iter()
            .map(|edge_queue| edge_queue.queue.stats())
            .fold((0, 0), |(segments, bytes), queue| {
                (segments + queue.backlog_segments, bytes + queue.backlog_bytes)
            })
    }

    /// Sets the peaks of each edge queue to its present backlog.
    pub fn reset_peaks(&mut self) {
        self.edge_queues.iter_mut().for_each(|edge_queue| edge_queue.queue.reset_peaks());
    }

    /// Flows that are remembered, how many may be, and how many were forgotten to make room.
    pub fn flow_table(&self) -> (usize, usize, u64) {
        (self.flows.len(), self.flows.limit(), self.forgotten)
    }

    /// The flows seen within `lately`, at most `limit`, those that have sent most first. Looks at every flow: not
    /// for each packet.
    pub fn busiest_flows(&self, now: Instant, lately: Duration, limit: usize) -> Vec<FlowReport> {
        let mut flows: Vec<FlowReport> = self
            .flows
            .iter_seen(now, lately)
            .filter_map(|(key, flow, idle)| {
                let edge_queue = self.edge_queues.get(flow.edge_queue()?)?;
                Some(FlowReport {
                    key: *key,
                    class: ClassId(edge_queue.class as u8),
                    bytes: flow.bytes(),
                    rtt: flow.last_rtt(),
                    filtered: flow.filtered,
                    idle,
                })
            })
            .collect();
        flows.sort_unstable_by_key(|flow| (std::cmp::Reverse(flow.bytes), flow.key));
        flows.truncate(limit);
        flows
    }
}
