//! What is different between two documents.

use std::collections::BTreeSet;

use toml::{Table, Value};

/// The tables whose entries have names.
const NAMED: [&str; 3] = ["sites", "links", "trunks"];

/// What a document has that another has not, by name: `trunks.a-b: changed`. An empty text is a document without anything.
pub fn changes(before: &str, after: &str) -> Vec<String> {
    let [before, after] = [before, after].map(|text| text.parse::<Table>().unwrap_or_default());
    let mut all = Vec::new();
    let empty = Table::new();
    for name in NAMED {
        let [before, after] =
            [&before, &after].map(|document| document.get(name).and_then(Value::as_table).unwrap_or(&empty));
        compare(&format!("{name}."), before, after, &mut all);
    }
    let rest = |document: &Table| -> Table {
        let others = document.iter().filter(|(key, _)| !NAMED.contains(&key.as_str()));
        others.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    compare("", &rest(&before), &rest(&after), &mut all);
    all
}

fn compare(prefix: &str, before: &Table, after: &Table, all: &mut Vec<String>) {
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for key in keys {
        let what = match (before.get(key), after.get(key)) {
            (None, Some(_)) => "new",
            (Some(_), None) => "removed",
            (before, after) if before != after => "changed",
            _ => continue,
        };
        all.push(format!("{prefix}{key}: {what}"));
    }
}
