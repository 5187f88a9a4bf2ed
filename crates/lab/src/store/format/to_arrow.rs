//! Tables as Arrow files. Each column's metadata says what it is in, and that of the file does for all.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};

use super::{UNITS, units};
use crate::store::columns::{Column, Table, Values};

/// The key of a column's metadata under which its unit is.
const UNIT: &str = "unit";

pub(super) fn encode(table: &Table) -> Result<Vec<u8>, ArrowError> {
    let fields: Vec<Field> = table.columns().iter().map(field).collect();
    let metadata = HashMap::from([(UNITS.to_owned(), units(table))]);
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    let mut writer = FileWriter::try_new(Vec::new(), &schema)?;
    for group in &table.groups {
        let columns: Vec<ArrayRef> = group.iter().map(array).collect();
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns)?)?;
    }
    writer.finish()?;
    writer.into_inner()
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
