//! What is recorded over time: columns with a value after each interval. Reading changes nothing of what happens.

use std::time::Duration;

use trunkline_units::Instant;

use super::{Network, Sample};
use crate::catalogue::measured::Reading;
use crate::catalogue::{Recorded, recorded};
use crate::outcome::SeriesOutcome;
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
pub(super) struct Series<'a> {
    scenario: &'a Scenario,
    watch: &'a dyn Fn(&Sample<'_>),
    every: Duration,
    next: Instant,
    last: Instant,
    times: Vec<f64>,
    columns: Vec<Column>,
}

impl<'a> Series<'a> {
    /// What the scenario asks for; what it has not is left out, as of a trunk that is not enabled.
    pub(super) fn new(scenario: &'a Scenario, watch: &'a dyn Fn(&Sample<'_>)) -> Option<Self> {
        let (every, names) = scenario.series.as_ref()?;
        let column = |name: &String| {
            let of = recorded(scenario, name)?;
            Some(Column { name: name.clone(), of, before: 0.0, values: Vec::new() })
        };
        Some(Series {
            scenario,
            watch,
            every: *every,
            next: Instant::ZERO + *every,
            last: Instant::ZERO,
            times: Vec::new(),
            columns: names.iter().filter_map(column).collect(),
        })
    }

    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    /// Takes a value of each column.
    pub(super) fn take(&mut self, network: &mut impl Network) {
        let now = network.now();
        let interval = now.saturating_since(std::mem::replace(&mut self.last, now)).as_secs_f64();
        self.times.push(now.as_secs_f64());
        while self.next <= now {
            self.next += self.every;
        }
        for column in &mut self.columns {
            let mut since = |now: f64| now - std::mem::replace(&mut column.before, now);
            let value = match read(&column.of, network) {
                Reading::Level(value) => value,
                Reading::Count(count) => since(count as f64),
                Reading::Busy(time) => since(time.as_secs_f64()) / interval,
                Reading::Bytes(bytes) => since(bytes as f64) * 8.0 / interval,
                Reading::None => f64::NAN,
            };
            column.values.push(Some(value).filter(|value| value.is_finite()));
        }
        let latest = |column: &Column| column.values.last().copied().flatten();
        let values: Vec<_> =
            self.columns.iter().map(|column| (column.name.as_str(), latest(column))).collect();
        let at = now.saturating_since(Instant::ZERO);
        (self.watch)(&Sample { scenario: self.scenario, at, values: &values });
    }

    pub(super) fn finish(self) -> SeriesOutcome {
        let columns = self.columns.into_iter().map(|column| (column.name, column.values)).collect();
        SeriesOutcome { times: self.times, columns }
    }
}

fn read(of: &Recorded, network: &mut impl Network) -> Reading {
    match of {
        Recorded::Sources(sources, read) => {
            read(&sources.iter().map(|source| network.received(*source)).sum())
        }
        Recorded::User(source, user, read) => read(&network.user(*source, *user)),
        Recorded::Link(link, side, read) => read(&network.link(*link, *side)),
        Recorded::Class((trunk, side), class, read) => read(&network.class(*trunk, *side, *class)),
        Recorded::Lane((trunk, side), lane, read) => {
            network.lane(*trunk, *side, *lane).map_or(Reading::None, |lane| read(&lane))
        }
    }
}
