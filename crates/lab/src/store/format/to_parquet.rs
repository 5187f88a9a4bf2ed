//! Tables as Parquet files, whose metadata says what each column is in. Written by the crate's low-level writer: columns are few
//! kinds of plain values.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use super::{UNITS, units};
use crate::VERSION;
use crate::store::columns::{Column, Table, Values};

pub(super) fn encode(table: &Table) -> Result<Vec<u8>, ParquetError> {
    let fields: Result<Vec<_>, _> = table.columns().iter().map(field).collect();
    let schema = Type::group_type_builder(table.name).with_fields(fields?).build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("trunkline {VERSION}"))
        .set_key_value_metadata(Some(vec![KeyValue::new(UNITS.to_owned(), units(table))]))
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    for group in &table.groups {
        let mut rows = writer.next_row_group()?;
        for column in group {
            write(column, &mut rows)?;
        }
        rows.close()?;
    }
    writer.into_inner()
}

fn field(column: &Column) -> Result<Arc<Type>, ParquetError> {
    let (physical, repetition, logical) = match &column.values {
        Values::Text(_) => (Physical::BYTE_ARRAY, Repetition::REQUIRED, Some(LogicalType::String)),
        Values::Unsigned(_) => (Physical::INT64, Repetition::REQUIRED, Some(LogicalType::integer(64, false))),
        Values::Nullable(_) => (Physical::DOUBLE, Repetition::OPTIONAL, None),
    };
    Type::primitive_type_builder(&column.name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()
        .map(Arc::new)
}

fn write(column: &Column, rows: &mut SerializedRowGroupWriter<'_, Vec<u8>>) -> Result<(), ParquetError> {
    match &column.values {
        Values::Text(values) => put::<ByteArrayType>(rows, &shared(values), None),
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

/// Texts as the writer has them: one that comes again is copied once.
fn shared(values: &[Arc<str>]) -> Vec<ByteArray> {
    let mut last: Option<(&Arc<str>, ByteArray)> = None;
    let mut copy = |text| match &last {
        Some((known, bytes)) if Arc::ptr_eq(known, text) => bytes.clone(),
        _ => last.insert((text, ByteArray::from(&**text))).1.clone(),
    };
    values.iter().map(&mut copy).collect()
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
