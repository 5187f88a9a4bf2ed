//! What a file has twice, and where it has it first: TOML's own error names neither.

use std::ops::Range;

use toml::de::DeTable;
use toml::{Table, Value};

use super::key::KeyPath;
use super::places::Places;

/// Something that a file has twice.
pub(super) struct Twice {
    /// The key, with the tables it is in as far as they can be told.
    pub(super) key: KeyPath,
    /// It is the head of a table, and not a value.
    pub(super) is_table: bool,
    /// Line and column of the first, if they can be told.
    pub(super) first: Option<(usize, usize)>,
}

impl Twice {
    /// What stands at this place for the second time: the last part of its name.
    pub(super) fn at(text: &str, place: Range<usize>) -> Option<Self> {
        let begin = text.get(..place.start)?.rfind('\n').map_or(0, |end| end + 1);
        let before = text.get(..begin)?;
        let places = Places::new(before, &DeTable::parse_recoverable(before).0);
        let line = text.get(begin..)?.lines().next()?;
        let is_table = line.trim_start().starts_with('[');
        let head = if is_table { line.to_owned() } else { format!("{} = 0", text.get(begin..place.end)?) };
        let Ok(tree) = head.parse::<Table>() else {
            // Within a table or list of one line.
            let key = KeyPath::default().key(text.get(place)?.trim_matches(['"', '\'']));
            return Some(Twice { key, is_table: false, first: None });
        };
        let within = if is_table { KeyPath::default() } else { places.last_table() };
        let (key, first) = places.find(within, &names(&tree));
        Some(Twice { key, is_table, first })
    }
}

/// The parts of the only name in a table.
fn names(tree: &Table) -> Vec<&str> {
    let mut names = Vec::new();
    let mut at = Some(tree);
    while let Some((name, value)) = at.and_then(|table| table.iter().next()) {
        names.push(name.as_str());
        at = match value {
            Value::Table(table) => Some(table),
            Value::Array(list) => list.first().and_then(Value::as_table),
            _ => None,
        };
    }
    names
}
