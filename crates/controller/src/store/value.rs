//! What is given to a database and what it gives, whichever it is.

use std::time::Duration;

/// The version of the tables.
pub(super) const SCHEMA: i64 = 2;

/// How long a writer waits for another.
pub(super) const WAIT: Duration = Duration::from_secs(10);

/// A value that is given to a statement.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'v> {
    Text(&'v str),
    Number(u64),
}

impl<'v> From<&'v str> for Value<'v> {
    fn from(text: &'v str) -> Self {
        Value::Text(text)
    }
}

impl<'v> From<&'v String> for Value<'v> {
    fn from(text: &'v String) -> Self {
        Value::Text(text)
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Value::Number(number)
    }
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cell {
    Text(String),
    Number(i64),
}

/// What a query gives.
#[derive(Debug)]
pub(super) struct Row(pub(super) Vec<Cell>);

impl Row {
    /// The text at a place; empty, if there is a number.
    pub(super) fn text(&mut self, place: usize) -> String {
        match self.0.get_mut(place) {
            Some(Cell::Text(text)) => std::mem::take(text),
            _ => String::new(),
        }
    }

    /// The number at a place; 0, if there is a text.
    pub(super) fn number(&self, place: usize) -> u64 {
        match self.0.get(place) {
            Some(Cell::Number(number)) => number.cast_unsigned(),
            _ => 0,
        }
    }
}

/// Why a database does not do what it is asked.
#[derive(Debug)]
pub(super) enum DatabaseError {
    /// It is none of ours.
    Foreign,
    /// Another process writes, and goes on for long.
    Busy,
    /// It cannot be reached.
    Away(String),
    /// Another controller leads.
    Follows,
    /// Anything else.
    Other(String),
}
