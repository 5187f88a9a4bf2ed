//! Recordings of links that an experiment names, and the directory that they are in.

use std::collections::BTreeSet;
use std::path::Path;

use toml::{Table, Value};

/// `{ recording = "NAME" }`: the name.
fn name(value: &Value) -> Option<&str> {
    let table = value.as_table().filter(|table| table.len() == 1)?;
    table.get("recording")?.as_str()
}

/// All names in a value that say no directory.
pub(super) fn names(value: &Value, found: &mut BTreeSet<String>) {
    if let Some(name) = name(value) {
        if Path::new(name).is_relative() {
            found.insert(name.to_owned());
        }
        return;
    }
    match value {
        Value::Table(table) => table.values().for_each(|value| names(value, found)),
        Value::Array(values) => values.iter().for_each(|value| names(value, found)),
        _ => {}
    }
}

/// Puts the directory before the names that are in `found`.
pub(super) fn put(value: &mut Value, directory: &Path, found: &BTreeSet<String>) {
    if let Some(name) = name(value).filter(|name| found.contains(*name)) {
        let path = directory.join(name).display().to_string();
        *value = Value::Table(Table::from_iter([("recording".to_owned(), Value::String(path))]));
        return;
    }
    match value {
        Value::Table(table) => table.iter_mut().for_each(|(_, value)| put(value, directory, found)),
        Value::Array(values) => values.iter_mut().for_each(|value| put(value, directory, found)),
        _ => {}
    }
}

/// Takes variants out of axes that need a recording that is not there, unless all of an axis do. Returns what was taken out.
pub(super) fn leave_out(tree: &mut Table, missing: &BTreeSet<String>) -> Vec<String> {
    let mut gone = Vec::new();
    let axes = tree.get_mut("sweep").and_then(Value::as_table_mut);
    for (axis, spec) in axes.into_iter().flatten() {
        let Some(variants) = spec.get_mut("variants").and_then(Value::as_table_mut) else { continue };
        let needs = |variant: &Value| {
            let mut found = BTreeSet::new();
            names(variant, &mut found);
            !found.is_disjoint(missing)
        };
        let out: Vec<String> =
            variants.iter().filter(|(_, variant)| needs(variant)).map(|(name, _)| name.clone()).collect();
        if out.len() < variants.len() {
            for name in &out {
                variants.remove(name);
            }
            gone.extend(out.iter().map(|variant| format!("{axis}={variant}")));
        }
    }
    gone
}
