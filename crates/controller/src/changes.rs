//! What is different between two documents.

use std::collections::BTreeSet;

use toml::{Table, Value};

/// The tables whose entries have names.
const NAMED: [&str; 3] = ["sites", "links", "trunks"];

/// What a document has that another has not, by name: `trunks.a-b: changed`. An empty text is a document without anything.
pub fn changes(before: &str, after: &str) -> Vec<String> {
    let mut documents = [before, after].map(|text| text.parse::<Table>().unwrap_or_default());
    let mut all = Vec::new();
    for name in NAMED {
        let [before, after] = documents.each_mut().map(|document| match document.remove(name) {
            Some(Value::Table(named)) => named,
            _ => Table::new(),
        });
        compare(&format!("{name}."), &before, &after, &mut all);
    }
    let [before, after] = documents;
    compare("", &before, &after, &mut all);
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
