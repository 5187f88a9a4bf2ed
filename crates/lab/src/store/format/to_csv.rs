//! Tables as CSV. A file of it cannot say what a column is in: another table does.

use std::io;

use csv::Writer;

use crate::store::columns::{Table, Values};

pub(super) fn encode(table: &Table) -> io::Result<Vec<u8>> {
    let mut writer = Writer::from_writer(Vec::new());
    writer.write_record(table.columns().iter().map(|column| column.name.as_bytes()))?;
    for group in &table.groups {
        let rows = group.first().map_or(0, |column| column.values.len());
        for row in 0..rows {
            for column in group {
                match &column.values {
                    Values::Text(values) => writer.write_field(values[row].as_bytes())?,
                    Values::Unsigned(values) => writer.write_field(values[row].to_string())?,
                    Values::Nullable(values) => {
                        // The shortest decimal number that is read as the same value.
                        writer.write_field(values[row].map(|value| value.to_string()).unwrap_or_default())?;
                    }
                }
            }
            writer.write_record(None::<&[u8]>)?;
        }
    }
    writer.into_inner().map_err(csv::IntoInnerError::into_error)
}
