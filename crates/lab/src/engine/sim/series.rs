//! What is recorded over time: columns with a value after each interval.
//!
//! A column is a probe of the network by the name that docs/metrics.md gives it. Looking changes nothing of what happens.

use std::time::Duration;

use trunkline_sim::{LinkId, SourceId, TrunkId, TrunkReport};
use trunkline_trunk::ClassId;
use trunkline_units::Instant;

use super::build::Built;
use super::edges::way;
use crate::results::SeriesOutcome;
use crate::scenario::{Load, Scenario};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// Every source.
    All,
    /// Those of a group, by the place of its first.
    Group {
        first: usize,
    },
    User(SourceId, u32),
    Datagrams(SourceId),
    Link(LinkId),
    Class(TrunkId, usize, usize),
    Lane(TrunkId, usize, usize),
}

#[derive(Debug)]
struct Column {
    name: String,
    subject: Subject,
    /// What of it.
    quantity: String,
    /// What had been counted at the last sample.
    before: f64,
    values: Vec<Option<f64>>,
}

/// A reading.
enum Reading {
    /// As it is.
    Level(f64),
    /// The difference from the last.
    Count(f64),
    /// Seconds, as a share of the interval.
    Busy(Duration),
    /// Octets, as bit/s over the interval.
    Octets(f64),
    /// It has none now.
    None,
}

/// The columns of a run.
#[derive(Debug)]
pub(super) struct Series {
    every: Duration,
    next: Instant,
    times: Vec<f64>,
    columns: Vec<Column>,
    /// The group of each source.
    groups: Vec<String>,
}

impl Series {
    /// What the scenario asks for; what it has not is left out, as of a trunk that is not enabled.
    pub(super) fn new(scenario: &Scenario, built: &Built) -> Option<Self> {
        let (every, names) = scenario.series.as_ref()?;
        let column = |name: &String| {
            let (subject, quantity) = find(scenario, built, name)?;
            let quantity = quantity.to_owned();
            Some(Column { name: name.clone(), subject, quantity, before: 0.0, values: Vec::new() })
        };
        Some(Series {
            every: *every,
            next: Instant::ZERO + *every,
            times: Vec::new(),
            columns: names.iter().filter_map(column).collect(),
            groups: scenario.traffic.iter().map(|traffic| traffic.group.clone()).collect(),
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
            let reading = read(column, &self.groups, built, &mut reports);
            let mut since = |now: f64| now - std::mem::replace(&mut column.before, now);
            let value = match reading {
                Reading::Level(value) => value,
                Reading::Count(count) => since(count),
                Reading::Busy(time) => since(time.as_secs_f64()) / interval,
                Reading::Octets(octets) => since(octets) * 8.0 / interval,
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

/// What a name is of, and the quantity behind it.
fn find<'a>(scenario: &Scenario, built: &Built, name: &'a str) -> Option<(Subject, &'a str)> {
    let of = |subject: &str| name.strip_prefix(subject)?.strip_prefix('.');
    let known = |quantity: &&str, all: &[&str]| all.contains(quantity);
    if of("all") == Some("goodput") {
        return Some((Subject::All, "goodput"));
    }
    if let Some(first) = scenario.traffic.iter().position(|traffic| of(&traffic.group) == Some("goodput")) {
        return Some((Subject::Group { first }, "goodput"));
    }
    for (traffic, source) in scenario.traffic.iter().zip(&built.sources) {
        let Some((user, quantity)) = of(&traffic.name).and_then(|rest| rest.split_once('.')) else {
            continue;
        };
        let Ok(user) = user.parse::<u32>() else { continue };
        let found = match &traffic.load {
            Load::Tcp { pattern, .. } if user < pattern.users() => {
                known(&quantity, &USER).then_some(Subject::User(*source, user))
            }
            Load::Udp { .. } if user == 0 => (quantity == "goodput").then_some(Subject::Datagrams(*source)),
            _ => None,
        };
        if let Some(subject) = found {
            return Some((subject, quantity));
        }
    }
    for (link, ids) in scenario.links.iter().zip(&built.links) {
        for (side, id) in ids.iter().enumerate() {
            if let Some(quantity) = of(&way(&link.name, side)).filter(|quantity| known(quantity, &LINK)) {
                return Some((Subject::Link(*id), quantity));
            }
        }
    }
    for (trunk, id) in scenario.trunks.iter().zip(&built.trunks) {
        for side in 0..2 {
            let Some((part, quantity)) = of(&way(&trunk.name, side)).and_then(|rest| rest.split_once('.'))
            else {
                continue;
            };
            let class = trunk.plan.classes.iter().position(|class| *class.name == *part);
            if let Some(class) = class.filter(|_| known(&quantity, &CLASS)) {
                return Some((Subject::Class(*id, side, class), quantity));
            }
            let lane = part.strip_prefix("lane").and_then(|number| number.parse::<usize>().ok());
            let lane = lane.filter(|lane| *lane < trunk.plan.lane_count() && known(&quantity, &LANE));
            if let Some(lane) = lane {
                return Some((Subject::Lane(*id, side, lane), quantity));
            }
        }
    }
    None
}

pub(crate) const USER: [&str; 6] = ["goodput", "cwnd", "ssthresh", "in_flight", "srtt", "repeats"];
pub(crate) const LINK: [&str; 5] = ["queue.packets", "queue.bytes", "utilisation", "delivered", "drops"];
pub(crate) const CLASS: [&str; 4] = ["queue.packets", "queue.bytes", "drops", "filtered"];
pub(crate) const LANE: [&str; 6] = ["window", "unsent", "unacknowledged", "srtt", "delivery_rate", "ceiling"];

/// Reports of trunks' sides, each made once for a row.
#[derive(Default)]
struct Reports(Vec<((TrunkId, usize), TrunkReport)>);

impl Reports {
    fn of(&mut self, built: &mut Built, trunk: TrunkId, side: usize) -> &TrunkReport {
        let place = self.0.iter().position(|(of, _)| *of == (trunk, side)).unwrap_or_else(|| {
            self.0.push(((trunk, side), built.network.trunk_report(trunk, side)));
            self.0.len() - 1
        });
        &self.0[place].1
    }
}

fn read(column: &Column, groups: &[String], built: &mut Built, reports: &mut Reports) -> Reading {
    let quantity = &*column.quantity;
    match column.subject {
        Subject::All => Reading::Octets(built.sources.iter().map(|source| received(built, *source)).sum()),
        Subject::Group { first } => {
            let own = groups.iter().zip(&built.sources).filter(|(group, _)| **group == groups[first]);
            Reading::Octets(own.map(|(_, source)| received(built, *source)).sum())
        }
        Subject::Datagrams(source) => Reading::Octets(datagrams(built, source)),
        Subject::User(source, user) => read_user(built, (source, user), quantity),
        Subject::Link(link) => read_link(built, link, quantity),
        Subject::Class(trunk, side, class) => match quantity {
            "queue.packets" => {
                Reading::Level(built.network.class_backlog(trunk, side, ClassId(class as u8)).0 as f64)
            }
            "queue.bytes" => {
                Reading::Level(built.network.class_backlog(trunk, side, ClassId(class as u8)).1 as f64)
            }
            _ => {
                let class = &reports.of(built, trunk, side).classes[class];
                let drops = quantity == "drops";
                Reading::Count(if drops { class.queue.dropped_total() } else { class.stats.filtered } as f64)
            }
        },
        Subject::Lane(trunk, side, lane) => read_lane(reports.of(built, trunk, side), lane, quantity),
    }
}

/// Octets of data of a source that arrived.
fn received(built: &Built, source: SourceId) -> f64 {
    let network = &built.network;
    if network.datagrams(source).is_some() {
        return datagrams(built, source);
    }
    (0..network.users(source)).map(|user| network.received_by(source, user)).sum::<u64>() as f64
}

fn datagrams(built: &Built, source: SourceId) -> f64 {
    built.network.datagrams(source).map_or(0.0, |flow| flow.received_data() as f64)
}

fn read_user(built: &Built, (source, user): (SourceId, u32), quantity: &str) -> Reading {
    let network = &built.network;
    if quantity == "goodput" {
        return Reading::Octets(network.received_by(source, user) as f64);
    }
    if quantity == "repeats" {
        return Reading::Count(network.repeats_by(source, user) as f64);
    }
    let Some(sender) = network.sender(source, user) else { return Reading::None };
    match quantity {
        "cwnd" => Reading::Level(f64::from(sender.cwnd())),
        "ssthresh" if sender.ssthresh() == u32::MAX => Reading::None,
        "ssthresh" => Reading::Level(f64::from(sender.ssthresh())),
        "in_flight" => Reading::Level(f64::from(sender.in_flight())),
        _ => sender.srtt().map_or(Reading::None, |srtt| Reading::Level(srtt.as_secs_f64())),
    }
}

fn read_link(built: &Built, link: LinkId, quantity: &str) -> Reading {
    let state = built.network.link_state(link);
    match quantity {
        "queue.packets" => Reading::Level(state.queue().backlog_segments as f64),
        "queue.bytes" => Reading::Level(state.queue().backlog_bytes as f64),
        "utilisation" => Reading::Busy(state.sent_for(built.network.now())),
        "delivered" => Reading::Octets(state.stats().delivered_bytes as f64),
        _ => Reading::Count(state.queue().dropped_total() as f64),
    }
}

fn read_lane(report: &TrunkReport, lane: usize, quantity: &str) -> Reading {
    let Some(lane) = report.lanes.get(lane) else { return Reading::None };
    let rate = |rate: Option<trunkline_units::Rate>| {
        rate.map_or(Reading::None, |rate| Reading::Level(rate.bits_per_second() as f64))
    };
    match quantity {
        "window" => Reading::Level(lane.snapshot.window as f64),
        "unsent" => Reading::Level(lane.snapshot.unsent as f64),
        "unacknowledged" => Reading::Level(lane.snapshot.unacknowledged as f64),
        "srtt" => lane.snapshot.srtt.map_or(Reading::None, |srtt| Reading::Level(srtt.as_secs_f64())),
        "delivery_rate" => rate(lane.snapshot.delivery_rate),
        _ => rate(lane.pacing.and_then(|(_, ceiling)| ceiling)),
    }
}
