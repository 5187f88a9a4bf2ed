//! What is recorded over time: columns with a value after each interval. Reading changes nothing of what happens.

use trunkline_sim::{LinkId, Network, SourceId, TrunkId, TrunkReport};
use trunkline_trunk::ClassId;
use trunkline_units::Instant;

use super::build::Built;
use crate::catalogue::measured::{ClassState, Lane, LinkState, Reading, Sender, User};
use crate::catalogue::{CLASS_SERIES, GROUP_SERIES, LANE_SERIES, LINK_SERIES, USER_SERIES, way};
use crate::results::SeriesOutcome;
use crate::scenario::{Load, Scenario};

/// Which subject a column is of, and how it is read.
#[derive(Debug, Clone)]
enum Probe {
    /// Several sources together.
    Sources(Vec<SourceId>, fn(&u64) -> Reading),
    User(SourceId, u32, fn(&User) -> Reading),
    Link(LinkId, fn(&LinkState) -> Reading),
    Class((TrunkId, usize), usize, fn(&ClassState) -> Reading),
    Lane((TrunkId, usize), usize, fn(&Lane) -> Reading),
}

#[derive(Debug)]
struct Column {
    name: String,
    probe: Probe,
    /// What had been counted at the last sample.
    before: f64,
    values: Vec<Option<f64>>,
}

/// The columns of a run.
#[derive(Debug)]
pub(super) struct Series {
    every: std::time::Duration,
    next: Instant,
    times: Vec<f64>,
    columns: Vec<Column>,
}

impl Series {
    /// What the scenario asks for; what it has not is left out, as of a trunk that is not enabled.
    pub(super) fn new(scenario: &Scenario, built: &Built) -> Option<Self> {
        let (every, names) = scenario.series.as_ref()?;
        let column = |name: &String| {
            let probe = find(scenario, built, name)?;
            Some(Column { name: name.clone(), probe, before: 0.0, values: Vec::new() })
        };
        Some(Series {
            every: *every,
            next: Instant::ZERO + *every,
            times: Vec::new(),
            columns: names.iter().filter_map(column).collect(),
        })
    }

    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    /// Takes a value of each column.
    pub(super) fn take(&mut self, built: &mut Built) {
        let now = built.network.now();
        self.times.push(now.as_secs_f64());
        self.next = now + self.every;
        let interval = self.every.as_secs_f64();
        let mut reports = Reports::default();
        for column in &mut self.columns {
            let reading = column.probe.read(&mut built.network, &mut reports);
            let mut since = |now: f64| now - std::mem::replace(&mut column.before, now);
            let value = match reading {
                Reading::Level(value) => value,
                Reading::Count(count) => since(count as f64),
                Reading::Busy(time) => since(time.as_secs_f64()) / interval,
                Reading::Bytes(bytes) => since(bytes as f64) * 8.0 / interval,
                Reading::None => f64::NAN,
            };
            column.values.push(Some(value).filter(|value| value.is_finite()));
        }
    }

    pub(super) fn finish(self) -> SeriesOutcome {
        let columns = self.columns.into_iter().map(|column| (column.name, column.values)).collect();
        SeriesOutcome { times: self.times, columns }
    }
}

/// The subject that a name begins with, and the quantity behind it.
fn find(scenario: &Scenario, built: &Built, name: &str) -> Option<Probe> {
    let of = |subject: &str| name.strip_prefix(subject)?.strip_prefix('.');
    let group = scenario.traffic.iter().map(|traffic| traffic.group.as_str()).chain(["all"]);
    for group in group {
        if let Some(read) = of(group).and_then(|quantity| GROUP_SERIES.reader(quantity)) {
            let sources = scenario.traffic.iter().zip(&built.sources);
            let own = sources.filter(|(traffic, _)| group == "all" || traffic.group == group);
            return Some(Probe::Sources(own.map(|(_, source)| *source).collect(), read));
        }
    }
    for (traffic, source) in scenario.traffic.iter().zip(&built.sources) {
        let Some((user, quantity)) = of(&traffic.name).and_then(|rest| rest.split_once('.')) else {
            continue;
        };
        let Ok(user) = user.parse::<u32>() else { continue };
        let there = match &traffic.load {
            Load::Tcp { pattern, .. } => user < pattern.users(),
            Load::Udp { .. } => user == 0 && quantity == "goodput",
        };
        if let Some(read) = USER_SERIES.reader(quantity).filter(|_| there) {
            return Some(Probe::User(*source, user, read));
        }
    }
    for (link, ids) in scenario.links.iter().zip(&built.links) {
        for (side, id) in ids.iter().enumerate() {
            let quantity = of(&way(&link.name, side));
            if let Some(read) = quantity.and_then(|quantity| LINK_SERIES.reader(quantity)) {
                return Some(Probe::Link(*id, read));
            }
        }
    }
    for (trunk, id) in scenario.trunks.iter().zip(&built.trunks) {
        for side in 0..2 {
            let rest = of(&way(&trunk.name, side)).and_then(|rest| rest.split_once('.'));
            let Some((part, quantity)) = rest else { continue };
            let class = trunk.plan.classes.iter().position(|class| *class.name == *part);
            if let Some((class, read)) = class.zip(CLASS_SERIES.reader(quantity)) {
                return Some(Probe::Class((*id, side), class, read));
            }
            let lane = part.strip_prefix("lane").and_then(|number| number.parse::<usize>().ok());
            let lane = lane.filter(|lane| *lane < trunk.plan.lane_count());
            if let Some((lane, read)) = lane.zip(LANE_SERIES.reader(quantity)) {
                return Some(Probe::Lane((*id, side), lane, read));
            }
        }
    }
    None
}

/// Reports of trunks' sides, each made once for a row.
#[derive(Default)]
struct Reports(Vec<((TrunkId, usize), TrunkReport)>);

impl Reports {
    fn of(&mut self, network: &mut Network, of: (TrunkId, usize)) -> &TrunkReport {
        let place = self.0.iter().position(|(other, _)| *other == of).unwrap_or_else(|| {
            self.0.push((of, network.trunk_report(of.0, of.1)));
            self.0.len() - 1
        });
        &self.0[place].1
    }
}

impl Probe {
    fn read(&self, network: &mut Network, reports: &mut Reports) -> Reading {
        match self {
            Probe::Sources(sources, read) => {
                let of_one = |source: &SourceId| -> u64 {
                    (0..network.users(*source)).map(|user| received(network, *source, user)).sum()
                };
                read(&sources.iter().map(of_one).sum())
            }
            Probe::User(source, user, read) => read(&state_of_user(network, *source, *user)),
            Probe::Link(link, read) => {
                let link = network.link_state(*link);
                read(&LinkState {
                    packets: link.queue().backlog_segments,
                    bytes: link.queue().backlog_bytes,
                    sent_for: link.busy_time(network.now()),
                    delivered_bytes: link.stats().delivered_bytes,
                    drops: link.queue().dropped_total(),
                })
            }
            Probe::Class((trunk, side), class, read) => {
                let (packets, bytes) = network.class_backlog(*trunk, *side, ClassId(*class as u8));
                let report = &reports.of(network, (*trunk, *side)).classes[*class];
                let (drops, filtered) = (report.queue.dropped_total(), report.stats.filtered);
                read(&ClassState { packets, bytes, drops, filtered })
            }
            Probe::Lane(trunk, lane, read) => {
                let lane = reports.of(network, *trunk).lanes.get(*lane);
                lane.map_or(Reading::None, |lane| {
                    read(&Lane {
                        snapshot: lane.snapshot,
                        ceiling: lane.pacing.and_then(|(_, ceiling)| ceiling),
                    })
                })
            }
        }
    }
}

/// Bytes of data that arrived.
fn received(network: &Network, source: SourceId, user: u32) -> u64 {
    let datagrams = network.datagrams(source);
    datagrams.map_or_else(|| network.received_by(source, user), trunkline_sim::Datagrams::received_data)
}

fn state_of_user(network: &Network, source: SourceId, user: u32) -> User {
    User {
        received: received(network, source, user),
        retransmissions: network.retransmissions_by(source, user),
        sender: network.sender(source, user).map(|sender| Sender {
            cwnd: sender.cwnd(),
            ssthresh: Some(sender.ssthresh()).filter(|ssthresh| *ssthresh != u32::MAX),
            in_flight: sender.in_flight(),
            srtt: sender.srtt(),
        }),
    }
}
