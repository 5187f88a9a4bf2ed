//! Results as Parquet tables.
//!
//! A row for each run, or for each value of a series; axes of the sweep are columns of their own, so that whoever reads a table
//! can group by them. Written by the crate's low-level writer: columns are few kinds of plain values.

use std::io;
use std::path::Path;
use std::sync::Arc;

use indexmap::IndexSet;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use super::StoreError;
use crate::VERSION;
use crate::results::Run;

/// Rows of a group, about: what a reader holds at a time.
const GROUP: usize = 500_000;

/// A column of a table; all of a table have the same number of rows.
enum Column {
    Text(Vec<ByteArray>),
    Unsigned(Vec<u64>),
    /// A value is not there: null.
    Nullable(Vec<Option<f64>>),
}

/// `runs.parquet`.
pub(super) fn runs(runs: &[Run]) -> Result<Vec<u8>, StoreError> {
    let each: Vec<(&Run, usize)> = runs.iter().map(|run| (run, 1)).collect();
    let mut columns = parameters(&each);
    columns.push(("version".to_owned(), text(&each, |run| &run.version)));
    columns.push(("digest".to_owned(), text(&each, |run| &run.outcome.digest)));
    let metrics: IndexSet<&String> = runs.iter().flat_map(|run| run.outcome.metrics.keys()).collect();
    for metric in metrics {
        let values = runs.iter().map(|run| run.outcome.metrics.get(metric).copied()).collect();
        columns.push((metric.clone(), Column::Nullable(values)));
    }
    write("runs", &[columns])
}

/// `series.parquet`; none if nothing was recorded.
pub(super) fn series(runs: &[Run]) -> Result<Option<Vec<u8>>, StoreError> {
    let rows = |run: &Run| {
        run.outcome.series.as_ref().map_or(0, |series| series.columns.values().map(Vec::len).sum::<usize>())
    };
    let mut groups = Vec::new();
    let mut group = Vec::new();
    let mut count = 0;
    for run in runs.iter().filter(|run| rows(run) > 0) {
        count += rows(run);
        group.push((run, rows(run)));
        if count >= GROUP {
            groups.push(group_of_series(&group));
            group.clear();
            count = 0;
        }
    }
    if !group.is_empty() {
        groups.push(group_of_series(&group));
    }
    if groups.is_empty() { Ok(None) } else { write("series", &groups).map(Some) }
}

fn group_of_series(runs: &[(&Run, usize)]) -> Vec<(String, Column)> {
    let mut columns = parameters(runs);
    let (mut times, mut names, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for series in runs.iter().filter_map(|(run, _)| run.outcome.series.as_ref()) {
        for (name, column) in &series.columns {
            let name = ByteArray::from(name.as_str());
            names.extend(column.iter().map(|_| name.clone()));
            times.extend((0..column.len()).map(|row| series.times.get(row).copied()));
            values.extend_from_slice(column);
        }
    }
    columns.push(("time".to_owned(), Column::Nullable(times)));
    columns.push(("name".to_owned(), Column::Text(names)));
    columns.push(("value".to_owned(), Column::Nullable(values)));
    columns
}

/// What says which run a row is of, for so many rows of each run.
fn parameters(runs: &[(&Run, usize)]) -> Vec<(String, Column)> {
    let mut columns = vec![
        ("experiment".to_owned(), text(runs, |run| &run.experiment)),
        ("engine".to_owned(), text(runs, |run| &run.engine)),
    ];
    let axes: IndexSet<&String> = runs.iter().flat_map(|(run, _)| run.point.keys()).collect();
    for axis in axes {
        let value = text(runs, |run| run.point.get(axis).map_or("", String::as_str));
        columns.push((format!("point.{axis}"), value));
    }
    let seeds = runs.iter().flat_map(|(run, rows)| vec![run.seed; *rows]);
    columns.push(("seed".to_owned(), Column::Unsigned(seeds.collect())));
    columns
}

fn text<'a>(runs: &[(&'a Run, usize)], of: impl Fn(&'a Run) -> &'a str) -> Column {
    Column::Text(runs.iter().flat_map(|(run, rows)| vec![ByteArray::from(of(run)); *rows]).collect())
}

/// A table of groups of rows that have the same columns.
fn write(name: &str, groups: &[Vec<(String, Column)>]) -> Result<Vec<u8>, StoreError> {
    let write = || -> Result<Vec<u8>, ParquetError> {
        let first = groups.first().map_or(&[][..], Vec::as_slice);
        let fields: Result<Vec<_>, _> = first.iter().map(|(name, column)| column.field(name)).collect();
        let schema = Type::group_type_builder(name).with_fields(fields?).build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("trunkline {VERSION}"))
            .build();
        let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
        for group in groups {
            let mut rows = writer.next_row_group()?;
            for (_, column) in group {
                column.write(&mut rows)?;
            }
            rows.close()?;
        }
        writer.into_inner()
    };
    write().map_err(|error| StoreError::io("make", Path::new(name), io::Error::other(error)))
}

impl Column {
    fn field(&self, name: &str) -> Result<Arc<Type>, ParquetError> {
        let (physical, repetition, logical) = match self {
            Column::Text(_) => (Physical::BYTE_ARRAY, Repetition::REQUIRED, Some(LogicalType::String)),
            Column::Unsigned(_) => {
                (Physical::INT64, Repetition::REQUIRED, Some(LogicalType::integer(64, false)))
            }
            Column::Nullable(_) => (Physical::DOUBLE, Repetition::OPTIONAL, None),
        };
        Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    }

    fn write(&self, rows: &mut SerializedRowGroupWriter<'_, Vec<u8>>) -> Result<(), ParquetError> {
        match self {
            Column::Text(values) => put::<ByteArrayType>(rows, values, None),
            Column::Unsigned(values) => {
                let values: Vec<i64> = values.iter().map(|value| value.cast_signed()).collect();
                put::<Int64Type>(rows, &values, None)
            }
            Column::Nullable(values) => {
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
