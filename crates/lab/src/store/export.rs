//! Tables of results for other programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::columns::{self, Column, Table, Values};
use super::{Directory, Format, StoreError, remove, replace};

/// The table of columns and units that stands beside CSV files.
const COLUMNS: &str = "columns";

impl Directory {
    /// Writes the tables of all finished runs in a format into a directory: `runs`, `metrics` and, if anything was recorded, `series`.
    /// Beside CSV files, which cannot say it themselves, `columns.csv` has what each column is in. Returns the files.
    ///
    /// # Errors
    /// The results cannot be read, or a file cannot be written.
    pub fn export(&self, format: Format, into: &Path) -> Result<Vec<PathBuf>, StoreError> {
        let runs = self.runs()?;
        fs::create_dir_all(into).map_err(|error| StoreError::io("make", into, error))?;
        let file = |name: &str| into.join(format!("{name}.{format}"));
        let mut tables = vec![columns::runs(&runs), columns::metrics(&runs)];
        match columns::series(&runs) {
            Some(series) => tables.push(series),
            // What other results left there would be taken for these.
            None => remove(&file("series"))?,
        }
        if format == Format::Csv {
            tables.push(columns_of(&tables));
        }
        let write = |table: &Table| {
            let path = file(table.name);
            replace(&path, &format.encode(table)?).map(|()| path)
        };
        tables.iter().map(write).collect()
    }
}

/// Removes tables that were written beside results: they are of these, and not of others that take their place.
pub(super) fn clear(path: &Path) -> Result<(), StoreError> {
    for format in [Format::Csv, Format::Arrow] {
        for name in ["runs", "metrics", "series", COLUMNS] {
            remove(&path.join(format!("{name}.{format}")))?;
        }
    }
    Ok(())
}

/// A row for each column of some tables, with its unit.
fn columns_of(tables: &[Table]) -> Table {
    let each = || tables.iter().flat_map(|table| table.columns().iter().map(move |column| (table, column)));
    let texts = |of: &dyn Fn(&Table, &Column) -> Arc<str>| {
        Values::Text(each().map(|(table, column)| of(table, column)).collect())
    };
    let columns = vec![
        Column::new("table", texts(&|table, _| Arc::from(table.name))),
        Column::new("column", texts(&|_, column| Arc::from(column.name.as_str()))),
        Column::new("unit", texts(&|_, column| Arc::from(column.unit.unwrap_or_default()))),
    ];
    Table { name: COLUMNS, groups: vec![columns] }
}
