//! Tables of a view as text: their columns, their rows, and how important a cell is.

use std::borrow::Cow;

use serde::Serialize;

/// The importance of a cell, which gives its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::commands) enum Tone {
    Plain,
    Strong,
    Faint,
    Good,
    Warn,
    Bad,
}

/// A text with its tone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::commands) struct Cell {
    pub(in crate::commands) text: String,
    pub(in crate::commands) tone: Tone,
}

impl Cell {
    pub(in crate::commands) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Cell { text: text.into(), tone }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::new(text, Tone::Plain)
    }
}

/// A column other than the first, which has the names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::commands) struct Column {
    pub(in crate::commands) title: Cow<'static, str>,
    /// In characters, without the gap before it.
    #[serde(skip)]
    pub(in crate::commands) width: u16,
    /// Without enough room, the column with the highest rank is omitted first.
    #[serde(skip)]
    pub(in crate::commands) rank: u8,
    pub(in crate::commands) align: Align,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::commands) enum Align {
    Left,
    Right,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::commands) enum Row {
    /// Over the whole width.
    Heading(Cell),
    /// A name, and a cell for each column.
    Values { name: String, cells: Vec<Cell> },
    /// A name, and words instead of values.
    Words { name: String, words: Cell },
}

/// The contents of a pane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::commands) struct Table {
    pub(in crate::commands) title: &'static str,
    pub(in crate::commands) columns: Vec<Column>,
    /// Names are not narrower than this, and wider where there is room.
    #[serde(skip)]
    pub(in crate::commands) name_width: u16,
    pub(in crate::commands) rows: Vec<Row>,
}
