//! The formats of tables.

#[cfg(feature = "tables")]
mod to_arrow;
mod to_csv;
#[cfg(feature = "tables")]
mod to_parquet;

use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;

use super::StoreError;
use super::columns::Table;

/// The key of a file's metadata under which the units are: a JSON object of columns and what they are in.
#[cfg(feature = "tables")]
pub(super) const UNITS: &str = "units";

/// The format of a file with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet, compressed with Snappy.
    Parquet,
    /// Comma-separated values (RFC 4180), with a line of names; a value that is not there is empty.
    Csv,
    /// The file format of Apache Arrow's interprocess communication, also known as Feather 2.
    Arrow,
}

impl Format {
    /// Its name, and what its files end with.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Csv => "csv",
            Format::Arrow => "arrow",
        }
    }

    /// A table as a file of it.
    pub(super) fn encode(self, table: &Table) -> Result<Vec<u8>, StoreError> {
        let encoded = match self {
            Format::Csv => to_csv::encode(table),
            #[cfg(feature = "tables")]
            Format::Parquet => to_parquet::encode(table).map_err(io::Error::other),
            #[cfg(feature = "tables")]
            Format::Arrow => to_arrow::encode(table).map_err(io::Error::other),
            #[cfg(not(feature = "tables"))]
            Format::Parquet | Format::Arrow => Err(io::Error::other("this build has no such tables")),
        };
        encoded.map_err(|error| StoreError::io("make", Path::new(table.name), error))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Format::Parquet, Format::Csv, Format::Arrow];
        let found = all.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| format!("no format is named {text:?}; allowed: parquet, csv, arrow"))
    }
}

/// The units of a table's columns, as a file's metadata has them.
#[cfg(feature = "tables")]
pub(super) fn units(table: &Table) -> String {
    // Texts as keys and values: there is nothing in it that JSON does not know.
    serde_json::to_string(&table.units()).unwrap_or_default()
}
