//! Results in memory, as Apache Arrow has tables.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::columns::{self, Column, Table, Values};
use super::format::{UNITS, units};
use crate::results::Run;

/// The key of a column's metadata under which its unit is.
const UNIT: &str = "unit";

/// A table.
#[derive(Debug, Clone)]
pub struct Batches {
    /// Its columns. Their metadata has their units under `unit`, and the table's has all of them under `units`.
    pub schema: SchemaRef,
    /// Groups of its rows.
    pub groups: Vec<RecordBatch>,
}

/// The tables that a directory of results has as files.
#[derive(Debug, Clone)]
pub struct Tables {
    /// A row for each run, a column for each metric.
    pub runs: Batches,
    /// The same in long form, a row for each metric of a run.
    pub metrics: Batches,
    /// A row for each recorded value; `None` if nothing was recorded.
    pub series: Option<Batches>,
}

impl Tables {
    /// Of some runs.
    ///
    /// # Errors
    /// Arrow does not take a column, which would be a mistake here.
    pub fn of(runs: &[Run]) -> Result<Tables, ArrowError> {
        Ok(Tables {
            runs: columns::runs(runs).batches()?,
            metrics: columns::metrics(runs).batches()?,
            series: columns::series(runs).map(|series| series.batches()).transpose()?,
        })
    }
}

impl Table {
    pub(super) fn batches(&self) -> Result<Batches, ArrowError> {
        let fields: Vec<Field> = self.columns().iter().map(field).collect();
        let metadata = HashMap::from([(UNITS.to_owned(), units(self))]);
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        let batch = |group: &Vec<Column>| {
            RecordBatch::try_new(Arc::clone(&schema), group.iter().map(array).collect::<Vec<ArrayRef>>())
        };
        let groups = self.groups.iter().map(batch).collect::<Result<_, _>>()?;
        Ok(Batches { schema, groups })
    }
}

fn field(column: &Column) -> Field {
    let (kind, nullable) = match column.values {
        Values::Text(_) => (DataType::Utf8, false),
        Values::Unsigned(_) => (DataType::UInt64, false),
        Values::Nullable(_) => (DataType::Float64, true),
    };
    let unit = column.unit.map(|unit| (UNIT.to_owned(), unit.to_owned()));
    Field::new(&column.name, kind, nullable).with_metadata(unit.into_iter().collect::<HashMap<_, _>>())
}

fn array(column: &Column) -> ArrayRef {
    match &column.values {
        Values::Text(values) => Arc::new(StringArray::from_iter_values(values)),
        Values::Unsigned(values) => Arc::new(UInt64Array::from(values.clone())),
        Values::Nullable(values) => Arc::new(Float64Array::from(values.clone())),
    }
}
