//! Results as Parquet tables.
//!
//! A row for each run (wide), for each metric of a run (long), or for each value of a series. Axes of the sweep are columns of their own, so that whoever
//! reads a table can group by them, and numbers where their values are. The file's metadata says what each column is in. Written by the crate's
//! low-level writer: columns are few kinds of plain values.

use std::io;
use std::path::Path;
use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use trunkline_engine::catalogue::{self, Unit};

use super::StoreError;
use crate::VERSION;
use crate::results::Run;
use crate::swept;

/// Rows of a group, about: what a reader holds at a time.
const GROUP: usize = 500_000;

/// The key of the file's metadata under which the units are: a JSON object of columns and what they are in.
const UNITS: &str = "units";

/// Values of a column; all columns of a table have the same number of rows.
enum Values {
    Text(Vec<ByteArray>),
    Unsigned(Vec<u64>),
    /// A value that is not there is null.
    Nullable(Vec<Option<f64>>),
}

/// A column of a table.
struct Column {
    name: String,
    /// What its numbers are in, if it has any: `s`, `B`, `bit/s`, `1`.
    unit: Option<&'static str>,
    values: Values,
}

impl Column {
    fn new(name: impl Into<String>, values: Values) -> Self {
        Column { name: name.into(), unit: None, values }
    }

    fn of(self, unit: Option<&'static str>) -> Self {
        Column { unit, ..self }
    }
}

/// Runs with the rows that each has in a table.
type Rows<'a> = [(&'a Run, usize)];

/// `runs.parquet`: a row for each run, a column for each metric.
pub(super) fn runs(runs: &[Run]) -> Result<Vec<u8>, StoreError> {
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
    write("runs", &[columns])
}

/// `metrics.parquet`: the same in long form, a row for each metric of each run.
pub(super) fn metrics(runs: &[Run]) -> Result<Vec<u8>, StoreError> {
    let axes = axes(runs);
    let groups = groups(runs, |run| run.outcome.metrics.len(), |group| group_of_metrics(group, &axes));
    write("metrics", &groups)
}

/// `series.parquet`; none if nothing was recorded.
pub(super) fn series(runs: &[Run]) -> Result<Option<Vec<u8>>, StoreError> {
    let rows = |run: &Run| {
        run.outcome.series.as_ref().map_or(0, |series| series.columns.values().map(Vec::len).sum::<usize>())
    };
    if runs.iter().all(|run| rows(run) == 0) {
        return Ok(None);
    }
    let axes = axes(runs);
    write("series", &groups(runs, rows, |group| group_of_series(group, &axes))).map(Some)
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
    let names = metrics().map(|(name, _)| ByteArray::from(name.as_str())).collect();
    let values = metrics().map(|(_, value)| Some(*value)).collect();
    let units = metrics().map(|(name, _)| unit_of(name)).collect();
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
            let (name, unit) = (ByteArray::from(name.as_str()), unit_of(name));
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
fn unit_of(name: &str) -> ByteArray {
    ByteArray::from(catalogue::unit(name).map_or("", Unit::name))
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
    Values::Text(runs.iter().flat_map(|(run, rows)| vec![ByteArray::from(of(run)); *rows]).collect())
}

/// The units of a table's columns, as the file's metadata has them.
fn units(columns: &[Column]) -> KeyValue {
    let units: IndexMap<&str, &str> =
        columns.iter().filter_map(|column| Some((column.name.as_str(), column.unit?))).collect();
    // Texts as keys and values: there is nothing in it that JSON does not know.
    KeyValue::new(UNITS.to_owned(), serde_json::to_string(&units).unwrap_or_default())
}

/// A table of groups of rows that have the same columns.
fn write(name: &str, groups: &[Vec<Column>]) -> Result<Vec<u8>, StoreError> {
    let write = || -> Result<Vec<u8>, ParquetError> {
        let first = groups.first().map_or(&[][..], Vec::as_slice);
        let fields: Result<Vec<_>, _> = first.iter().map(Column::field).collect();
        let schema = Type::group_type_builder(name).with_fields(fields?).build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("trunkline {VERSION}"))
            .set_key_value_metadata(Some(vec![units(first)]))
            .build();
        let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
        for group in groups {
            let mut rows = writer.next_row_group()?;
            for column in group {
                column.write(&mut rows)?;
            }
            rows.close()?;
        }
        writer.into_inner()
    };
    write().map_err(|error| StoreError::io("make", Path::new(name), io::Error::other(error)))
}

impl Column {
    fn field(&self) -> Result<Arc<Type>, ParquetError> {
        let (physical, repetition, logical) = match &self.values {
            Values::Text(_) => (Physical::BYTE_ARRAY, Repetition::REQUIRED, Some(LogicalType::String)),
            Values::Unsigned(_) => {
                (Physical::INT64, Repetition::REQUIRED, Some(LogicalType::integer(64, false)))
            }
            Values::Nullable(_) => (Physical::DOUBLE, Repetition::OPTIONAL, None),
        };
        Type::primitive_type_builder(&self.name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    }

    fn write(&self, rows: &mut SerializedRowGroupWriter<'_, Vec<u8>>) -> Result<(), ParquetError> {
        match &self.values {
            Values::Text(values) => put::<ByteArrayType>(rows, values, None),
            Values::Unsigned(values) => {
                let values: Vec<i64> = values.iter().map(|value| value.cast_signed()).collect();
                put::<Int64Type>(rows, &values, None)
            }
            Values::Nullable(values) => {
                let there: Vec<f64> = values.iter().copied().flatten().collect();
                let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
                put::<DoubleType>(rows, &there, Some(&levels))
            }
        }
    }
}

fn put<T: DataType>(
    rows: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let Some(mut column) = rows.next_column()? else {
        return Err(ParquetError::General("more columns than the schema has".to_owned()));
    };
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}
