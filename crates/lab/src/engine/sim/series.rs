//! What is recorded over time: columns with a value after each interval. Reading changes nothing of what happens.

use std::time::Duration;

use trunkline_sim::{Network, SourceId, TrunkReport};
use trunkline_trunk::ClassId;
use trunkline_units::Instant;

use super::build::Built;
use crate::catalogue::measured::{ClassState, Lane, LinkState, Reading, Sender, User};
use crate::catalogue::{Recorded, recorded};
use crate::results::SeriesOutcome;
use crate::scenario::Scenario;

#[derive(Debug)]
struct Column {
    name: String,
    of: Recorded,
    /// What had been counted at the last sample.
    before: f64,
    values: Vec<Option<f64>>,
}

/// The columns of a run.
#[derive(Debug)]
pub(super) struct Series {
    every: Duration,
    next: Instant,
    times: Vec<f64>,
    columns: Vec<Column>,
}

impl Series {
    /// What the scenario asks for; what it has not is left out, as of a trunk that is not enabled.
    pub(super) fn new(scenario: &Scenario) -> Option<Self> {
        let (every, names) = scenario.series.as_ref()?;
        let column = |name: &String| {
            let of = recorded(scenario, name)?;
            Some(Column { name: name.clone(), of, before: 0.0, values: Vec::new() })
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
            let reading = reports.read(&column.of, built);
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

/// Reports of trunks' sides, each made once for a row.
#[derive(Default)]
struct Reports(Vec<((usize, usize), TrunkReport)>);

impl Reports {
    fn of(&mut self, built: &mut Built, (trunk, side): (usize, usize)) -> &TrunkReport {
        let place = self.0.iter().position(|(other, _)| *other == (trunk, side)).unwrap_or_else(|| {
            self.0.push(((trunk, side), built.network.trunk_report(built.trunks[trunk], side)));
            self.0.len() - 1
        });
        &self.0[place].1
    }

    fn read(&mut self, of: &Recorded, built: &mut Built) -> Reading {
        match of {
            Recorded::Sources(sources, read) => {
                let of_one = |source: &usize| -> u64 {
                    let (network, source) = (&built.network, built.sources[*source]);
                    (0..network.users(source)).map(|user| received(network, source, user)).sum()
                };
                read(&sources.iter().map(of_one).sum())
            }
            Recorded::User(source, user, read) => {
                read(&state_of_user(&built.network, built.sources[*source], *user))
            }
            Recorded::Link(link, side, read) => {
                let link = built.network.link_state(built.links[*link][*side]);
                read(&LinkState {
                    packets: link.queue().backlog_segments,
                    bytes: link.queue().backlog_bytes,
                    sent_for: link.busy_time(built.network.now()),
                    delivered_bytes: link.stats().delivered_bytes,
                    drops: link.queue().dropped_total(),
                })
            }
            Recorded::Class((trunk, side), class, read) => {
                let id = ClassId(*class as u8);
                let (packets, bytes) = built.network.class_backlog(built.trunks[*trunk], *side, id);
                let report = &self.of(built, (*trunk, *side)).classes[*class];
                let (drops, filtered) = (report.queue.dropped_total(), report.stats.filtered);
                read(&ClassState { packets, bytes, drops, filtered })
            }
            Recorded::Lane(trunk, lane, read) => {
                let lane = self.of(built, *trunk).lanes.get(*lane);
                lane.map_or(Reading::None, |lane| {
                    let ceiling = lane.pacing.and_then(|(_, ceiling)| ceiling);
                    read(&Lane { snapshot: lane.snapshot, ceiling })
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
