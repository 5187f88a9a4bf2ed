//! What is recorded over time: columns with a value after each interval. Reading changes nothing of what happens.

use std::time::Duration;

use trunkline_units::Instant;

use super::{Network, Sample};
use crate::catalogue::measured::Reading;
use crate::catalogue::{Recorded, recorded};
use crate::outcome::SeriesOutcome;
use crate::scenario::Scenario;

#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    of: Recorded,
    /// What had been counted at the last sample.
    before: f64,
    values: Vec<Option<f64>>,
}

/// Columns, and the instant up to which what they count has been taken.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    last: Instant,
    columns: Vec<Column>,
}

impl Columns {
    /// Adds the column of a name that a series may have. `false` of what the scenario has not, such as a class of a trunk that is not
    /// enabled.
    pub(crate) fn add(&mut self, scenario: &Scenario, name: &str) -> bool {
        let of = recorded(scenario, name);
        let column = of.map(|of| Column { name: name.to_owned(), of, before: 0.0, values: Vec::new() });
        let there = column.is_some();
        self.columns.extend(column);
        there
    }

    /// The next value of each column: of what is counted, what came since the last.
    pub(crate) fn next(
        &mut self,
        network: &mut impl Network,
    ) -> impl Iterator<Item = (&mut Column, Option<f64>)> {
        let now = network.now();
        let interval = now.saturating_since(std::mem::replace(&mut self.last, now)).as_secs_f64();
        self.columns.iter_mut().map(move |column| {
            let mut since = |now: f64| now - std::mem::replace(&mut column.before, now);
            let value = match read(&column.of, network) {
                Reading::Level(value) => value,
                Reading::Count(count) => since(count as f64),
                Reading::Busy(time) => since(time.as_secs_f64()) / interval,
                Reading::Bytes(bytes) => since(bytes as f64) * 8.0 / interval,
                Reading::None => f64::NAN,
            };
            (column, Some(value).filter(|value| value.is_finite()))
        })
    }
}

/// The columns of a run.
pub(super) struct Series<'a> {
    scenario: &'a Scenario,
    watch: &'a dyn Fn(&Sample<'_>),
    every: Duration,
    next: Instant,
    times: Vec<f64>,
    columns: Columns,
}

impl<'a> Series<'a> {
    /// What the scenario asks for; what it has not is left out, as of a trunk that is not enabled.
    pub(super) fn new(scenario: &'a Scenario, watch: &'a dyn Fn(&Sample<'_>)) -> Option<Self> {
        let (every, names) = scenario.series.as_ref()?;
        let mut columns = Columns::default();
        for name in names {
            columns.add(scenario, name);
        }
        Some(Series {
            scenario,
            watch,
            every: *every,
            next: Instant::ZERO + *every,
            times: Vec::new(),
            columns,
        })
    }

    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    /// Takes a value of each column.
    pub(super) fn take(&mut self, network: &mut impl Network) {
        let now = network.now();
        self.times.push(now.as_secs_f64());
        while self.next <= now {
            self.next += self.every;
        }
        let values = self.columns.next(network).map(|(column, value)| {
            column.values.push(value);
            (column.name.as_str(), value)
        });
        let values: Vec<_> = values.collect();
        let at = now.saturating_since(Instant::ZERO);
        (self.watch)(&Sample { scenario: self.scenario, at, values: &values });
    }

    pub(super) fn finish(self) -> SeriesOutcome {
        let columns = self.columns.columns.into_iter().map(|column| (column.name, column.values)).collect();
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
