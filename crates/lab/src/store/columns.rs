//! Results as tables of columns, which a file of [any format](super::Format) holds.
//!
//! A row for each run (wide), for each metric of a run (long), or for each value of a series. Axes of the sweep are columns of their own, so that whoever
//! reads a table can group by them, and numbers where their values are.

use std::collections::HashMap;
use std::sync::Arc;

#[cfg(feature = "tables")]
use indexmap::IndexMap;
use indexmap::IndexSet;
use trunkline_engine::catalogue::{self, Unit};

use crate::results::Run;
use crate::swept;

/// Rows of a group, about: what a reader holds at a time.
const GROUP: usize = 500_000;

/// A table: groups of rows that have the same columns. There is one at least, since it says what the columns are.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) groups: Vec<Vec<Column>>,
}

/// Values of a column; all columns of a group have the same number of rows.
pub(super) enum Values {
    /// Those that are the same share their memory.
    Text(Vec<Arc<str>>),
    Unsigned(Vec<u64>),
    /// A value that is not there is null.
    Nullable(Vec<Option<f64>>),
}

impl Values {
    /// Rows.
    pub(super) fn len(&self) -> usize {
        match self {
            Values::Text(values) => values.len(),
            Values::Unsigned(values) => values.len(),
            Values::Nullable(values) => values.len(),
        }
    }
}

/// A column of a table.
pub(super) struct Column {
    pub(super) name: String,
    /// What its numbers are in, if it has any: `s`, `B`, `bit/s`, `1`.
    pub(super) unit: Option<&'static str>,
    pub(super) values: Values,
}

impl Table {
    /// Its columns, with the values of the first group.
    pub(super) fn columns(&self) -> &[Column] {
        self.groups.first().map_or(&[], Vec::as_slice)
    }

    /// By column, what its numbers are in.
    #[cfg(feature = "tables")]
    pub(super) fn units(&self) -> IndexMap<&str, &'static str> {
        self.columns().iter().filter_map(|column| Some((column.name.as_str(), column.unit?))).collect()
    }
}

impl Column {
    pub(super) fn new(name: impl Into<String>, values: Values) -> Self {
        Column { name: name.into(), unit: None, values }
    }

    fn of(self, unit: Option<&'static str>) -> Self {
        Column { unit, ..self }
    }
}

/// Runs with the rows that each has in a table.
type Rows<'a> = [(&'a Run, usize)];

/// `runs`: a row for each run, a column for each metric.
pub(super) fn runs(runs: &[Run]) -> Table {
    let each: Vec<(&Run, usize)> = runs.iter().map(|run| (run, 1)).collect();
    let mut columns = parameters(&each, &axes(runs));
    columns.push(Column::new("version", text(&each, |run| &run.version)));
    columns.push(Column::new("digest", text(&each, |run| &run.outcome.digest)));
    let metrics: IndexSet<&String> = runs.iter().flat_map(|run| run.outcome.metrics.keys()).collect();
    for metric in metrics {
        let values = runs.iter().map(|run| run.outcome.metrics.get(metric).copied()).collect();
        columns
            .push(Column::new(metric, Values::Nullable(values)).of(catalogue::unit(metric).map(Unit::name)));
    }
    Table { name: "runs", groups: vec![columns] }
}

/// `metrics`: the same in long form, a row for each metric of each run.
pub(super) fn metrics(runs: &[Run]) -> Table {
    let axes = axes(runs);
    let groups = groups(runs, |run| run.outcome.metrics.len(), |group| group_of_metrics(group, &axes));
    Table { name: "metrics", groups }
}

/// `series`; none if nothing was recorded.
pub(super) fn series(runs: &[Run]) -> Option<Table> {
    let rows = |run: &Run| {
        run.outcome.series.as_ref().map_or(0, |series| series.columns.values().map(Vec::len).sum::<usize>())
    };
    if runs.iter().all(|run| rows(run) == 0) {
        return None;
    }
    let axes = axes(runs);
    let groups = groups(runs, rows, |group| group_of_series(group, &axes));
    Some(Table { name: "series", groups })
}

/// Groups of about so many rows, of runs that have any. There is always one, since it says what the columns are.
fn groups<'a>(
    runs: &'a [Run],
    rows: impl Fn(&Run) -> usize,
    columns: impl Fn(&Rows<'a>) -> Vec<Column>,
) -> Vec<Vec<Column>> {
    let mut groups = Vec::new();
    let mut group = Vec::new();
    let mut count = 0;
    for run in runs.iter().filter(|run| rows(run) > 0) {
        count += rows(run);
        group.push((run, rows(run)));
        if count >= GROUP {
            groups.push(columns(&group));
            group.clear();
            count = 0;
        }
    }
    if !group.is_empty() || groups.is_empty() {
        groups.push(columns(&group));
    }
    groups
}

fn group_of_metrics(runs: &Rows<'_>, axes: &[Axis]) -> Vec<Column> {
    let mut columns = parameters(runs, axes);
    let metrics = || runs.iter().flat_map(|(run, _)| &run.outcome.metrics);
    let mut known: HashMap<&str, (Arc<str>, Arc<str>)> = HashMap::new();
    let mut shared = |name| known.entry(name).or_insert_with(|| (Arc::from(name), unit_of(name))).clone();
    let (names, units) = metrics().map(|(name, _)| shared(name.as_str())).unzip();
    let values = metrics().map(|(_, value)| Some(*value)).collect();
    columns.push(Column::new("metric", Values::Text(names)));
    columns.push(Column::new("value", Values::Nullable(values)));
    columns.push(Column::new("unit", Values::Text(units)));
    columns
}

fn group_of_series(runs: &Rows<'_>, axes: &[Axis]) -> Vec<Column> {
    let mut columns = parameters(runs, axes);
    let (mut times, mut names, mut values, mut units) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for series in runs.iter().filter_map(|(run, _)| run.outcome.series.as_ref()) {
        for (name, column) in &series.columns {
            let (name, unit) = (Arc::<str>::from(name.as_str()), unit_of(name));
            names.extend(column.iter().map(|_| name.clone()));
            units.extend(column.iter().map(|_| unit.clone()));
            times.extend((0..column.len()).map(|row| series.times.get(row).copied()));
            values.extend_from_slice(column);
        }
    }
    columns.push(Column::new("time", Values::Nullable(times)).of(Some("s")));
    columns.push(Column::new("name", Values::Text(names)));
    columns.push(Column::new("value", Values::Nullable(values)));
    columns.push(Column::new("unit", Values::Text(units)));
    columns
}

/// The unit of a metric or a series as a text; empty if nobody knows it.
fn unit_of(name: &str) -> Arc<str> {
    Arc::from(catalogue::unit(name).map_or("", Unit::name))
}

/// An axis of the sweep, and what its values are in, if they are numbers.
type Axis = (String, Option<Unit>);

fn axes(runs: &[Run]) -> Vec<Axis> {
    let names: IndexSet<&String> = runs.iter().flat_map(|run| run.point.keys()).collect();
    let unit = |name: &String| {
        let values: IndexSet<&str> =
            runs.iter().filter_map(|run| Some(run.point.get(name)?.as_str())).collect();
        swept::numbers(values).map(|(unit, _)| unit)
    };
    names.into_iter().map(|name| (name.clone(), unit(name))).collect()
}

/// What says which run a row is of, for so many rows of each run. An axis of numbers has a column of them, and one of the texts that
/// name the point in other files.
fn parameters(runs: &Rows<'_>, axes: &[Axis]) -> Vec<Column> {
    let mut columns = vec![
        Column::new("experiment", text(runs, |run| &run.experiment)),
        Column::new("engine", text(runs, |run| &run.engine)),
    ];
    for (name, unit) in axes {
        let texts = text(runs, |run| run.point.get(name).map_or("", String::as_str));
        let Some(unit) = unit else {
            columns.push(Column::new(format!("point.{name}"), texts));
            continue;
        };
        let number = |run: &Run| Some(swept::number(run.point.get(name)?)?.1);
        let numbers = runs.iter().flat_map(|(run, rows)| vec![number(run); *rows]).collect();
        columns.push(Column::new(format!("point.{name}"), Values::Nullable(numbers)).of(Some(unit.name())));
        columns.push(Column::new(format!("label.{name}"), texts));
    }
    let seeds = runs.iter().flat_map(|(run, rows)| vec![run.seed; *rows]);
    columns.push(Column::new("seed", Values::Unsigned(seeds.collect())));
    columns
}

fn text<'a>(runs: &Rows<'a>, of: impl Fn(&'a Run) -> &'a str) -> Values {
    Values::Text(runs.iter().flat_map(|(run, rows)| vec![Arc::from(of(run)); *rows]).collect())
}
