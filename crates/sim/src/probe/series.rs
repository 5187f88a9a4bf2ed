//! Columns that are filled one row at a time.

use std::time::Duration;

use trunkline_units::Rate;

/// What was seen of one thing.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its subject and what of it.
    pub name: String,
    /// `bit/s`, `B` (bytes), `s`, or `1` for a number.
    pub unit: &'static str,
    /// A value for each time.
    pub values: Vec<f64>,
}

#[derive(Debug, Default)]
pub(super) struct Sampler {
    columns: Vec<Column>,
    next: usize,
    rows: usize,
}

impl Sampler {
    /// Adds a column; of the rows that there are it has nothing.
    pub(super) fn add(&mut self, name: String, unit: &'static str) {
        self.columns.push(Column { name, unit, values: vec![f64::NAN; self.rows] });
    }

    /// Makes room for so many rows, so that filling them does not.
    pub(super) fn reserve(&mut self, rows: usize) {
        self.columns.iter_mut().for_each(|column| column.values.reserve(rows));
    }

    /// Begins a row.
    pub(super) fn begin(&mut self) {
        debug_assert!(self.next == 0 || self.next == self.columns.len(), "a row has all columns");
        self.next = 0;
        self.rows += 1;
    }

    pub(super) fn put(&mut self, value: f64) {
        self.columns[self.next].values.push(value);
        self.next += 1;
    }

    pub(super) fn put_time(&mut self, time: Option<Duration>) {
        self.put(time.map_or(f64::NAN, |time| time.as_secs_f64()));
    }

    pub(super) fn put_rate(&mut self, rate: Option<Rate>) {
        self.put(rate.map_or(f64::NAN, |rate| rate.bits_per_second() as f64));
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }
}
