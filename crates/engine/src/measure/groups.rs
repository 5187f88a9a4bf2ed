//! Groups of traffic: what their sources did, together.

use indexmap::IndexMap;
use trunkline_workload::Datagrams;

use super::idle::IdlePaths;
use super::transfers::{Source, tcp};
use super::{Readings, SourceCounters};
use crate::catalogue::measured::{All, Group, Udp};
use crate::catalogue::{ALL, GROUP, TCP, UDP, UDP_ALONE};
use crate::outcome::Outcome;
use crate::scenario::{Load, Scenario};

fn udp(from: &Datagrams, to: &Datagrams) -> Udp {
    Udp {
        flows: vec![(to.received_data() - from.received_data()) as f64],
        sent: to.sent - from.sent,
        received: to.received - from.received,
        sent_before_reset: to.sent_before_reset,
        bytes: to.received_bytes - from.received_bytes,
        delay: to.delay_sum.saturating_sub(from.delay_sum),
        delay_min: to.delay_min,
        delay_max: to.delay_max,
        delays: to.delays.clone(),
        variation: to.variation_sum.saturating_sub(from.variation_sum),
        variations: to.variations - from.variations,
    }
}

/// Writes down what each group did, and `all`.
pub(super) fn write(scenario: &Scenario, readings: Readings<'_>, outcome: &mut Outcome) {
    let Readings { from, to, .. } = readings;
    let time = readings.time().as_secs_f64();
    let mut groups: IndexMap<&str, Group> = IndexMap::new();
    let mut all = Group { time, ..Group::default() };
    let mut paths = IdlePaths::new(scenario);
    for (number, traffic) in scenario.traffic.iter().enumerate() {
        let one = match (&from.sources[number], &to.sources[number]) {
            (SourceCounters::Transfers(before), SourceCounters::Transfers(after)) => {
                let Load::Tcp { pattern, .. } = &traffic.load else { continue };
                let upload = pattern.is_upload();
                let idle = paths.of(traffic, upload);
                let source = Source { users: pattern.users() as usize, upload, idle };
                let tcp = tcp((before, from.at), (after, to.at), source);
                Group { tcp: Some(tcp), udp: None, time }
            }
            (SourceCounters::Datagrams(before), SourceCounters::Datagrams(after)) => {
                Group { tcp: None, udp: Some(udp(before, after)), time }
            }
            _ => continue,
        };
        groups.entry(&traffic.group).or_default().add(&one);
        all.add(&one);
    }
    for (name, group) in &groups {
        write_group(name, group, outcome);
    }
    write_group("all", &all, outcome);
    let goodputs = groups.values().map(|group| group.flows().iter().sum()).collect();
    ALL.write("all", &All { goodputs }, &mut outcome.metrics);
}

fn write_group(name: &str, group: &Group, outcome: &mut Outcome) {
    GROUP.write(name, group, &mut outcome.metrics);
    if let Some(tcp) = &group.tcp {
        TCP.write(name, tcp, &mut outcome.metrics);
        outcome.distributions.insert(format!("{name}.transfer.throughput"), tcp.throughputs.clone());
        outcome.distributions.insert(format!("{name}.transfer.delay"), tcp.delays.clone());
    }
    if let Some(udp) = &group.udp {
        UDP.write(name, udp, &mut outcome.metrics);
        // Of a group that has transfers too, the delay is theirs.
        if group.tcp.is_none() {
            UDP_ALONE.write(name, udp, &mut outcome.metrics);
        }
    }
}
