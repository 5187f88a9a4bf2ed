//! Where each key of a file stands in it.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::key::KeyPath;

/// A key: where it stands, where its value does, and what is in it.
#[derive(Debug, Clone, Default)]
struct Entry {
    key: usize,
    value: Range<usize>,
    entries: BTreeMap<String, Entry>,
}

/// Where each key of a text stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    root: Entry,
    /// Where each line begins.
    lines: Vec<usize>,
    text: String,
}

impl Places {
    pub(crate) fn new(text: &str, tree: &Spanned<DeTable<'_>>) -> Self {
        let mut places = Places::of_text(text);
        places.root = Entry { key: 0, value: 0..text.len(), entries: table(tree.get_ref()) };
        places
    }

    /// Of a text of which nothing is known.
    pub(crate) fn of_text(text: &str) -> Self {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Places { root: Entry::default(), lines, text: text.to_owned() }
    }

    /// Line and column of an byte of the text, from 1.
    pub(crate) fn position(&self, byte: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= byte).max(1);
        let start = self.lines[line - 1];
        let column = self.text.get(start..byte).map_or(1, |before| before.chars().count() + 1);
        (line, column)
    }

    /// Line and column of a key, or of the last table on the way to it that is there.
    pub(crate) fn of_key(&self, path: &KeyPath) -> (usize, usize) {
        let mut at = &self.root;
        for key in path.keys() {
            match at.entries.get(key) {
                Some(entry) => at = entry,
                None => break,
            }
        }
        self.position(at.key)
    }

    /// The table whose head comes last: what follows the text is in it.
    pub(crate) fn last_table(&self) -> KeyPath {
        fn search(at: &Entry, path: &KeyPath, text: &str, last: &mut (usize, KeyPath)) {
            for (key, entry) in &at.entries {
                let path = path.key(key);
                let (head, is_head) =
                    (entry.value.start, text.as_bytes().get(entry.value.start) == Some(&b'['));
                // The value of a key stands behind it, and a table's head around it.
                if is_head && head <= entry.key && head >= last.0 {
                    *last = (head, path.clone());
                }
                search(entry, &path, text, last);
            }
        }
        let mut last = (0, KeyPath::default());
        search(&self.root, &KeyPath::default(), &self.text, &mut last);
        last.1
    }

    /// What has these names within a table, of a list its last element: its key, and line and column if it is there.
    pub(crate) fn find(&self, within: KeyPath, names: &[&str]) -> (KeyPath, Option<(usize, usize)>) {
        let mut at = within.keys().try_fold(&self.root, |at, key| at.entries.get(key));
        let mut path = within;
        for (place, name) in names.iter().enumerate() {
            at = at.and_then(|entry| entry.entries.get(*name));
            path = path.key(name);
            let is_last = place + 1 == names.len();
            let elements = at.map_or(0, |entry| {
                entry.entries.keys().filter(|key| key.starts_with('[') && key.ends_with(']')).count()
            });
            if elements > 0 && !is_last {
                let element = format!("[{}]", elements - 1);
                at = at.and_then(|entry| entry.entries.get(&element));
                path = path.key(&element);
            }
        }
        (path, at.map(|entry| self.position(entry.key)))
    }

    /// The innermost key whose value is at an byte of the text, or that is there itself.
    pub(crate) fn key_at(&self, byte: usize) -> KeyPath {
        let mut path = KeyPath::default();
        let mut at = &self.root;
        loop {
            // A table's span is that of its header alone: what is in it may stand anywhere.
            let inside = at.entries.iter().find(|(_, entry)| entry.holds(byte));
            let Some((key, entry)) = inside else { return path };
            (path, at) = (path.key(key), entry);
        }
    }
}

impl Entry {
    fn holds(&self, byte: usize) -> bool {
        self.key == byte || self.value.contains(&byte) || self.entries.values().any(|entry| entry.holds(byte))
    }
}

fn table(table: &DeTable<'_>) -> BTreeMap<String, Entry> {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key: &Spanned<toml::de::DeString<'_>> = key;
        (key.get_ref().to_string(), entry(key.span().start, value))
    };
    table.iter().map(entry).collect()
}

fn entry(key: usize, value: &Spanned<DeValue<'_>>) -> Entry {
    let entries = match value.get_ref() {
        DeValue::Table(inner) => table(inner),
        DeValue::Array(list) => list
            .iter()
            .enumerate()
            .map(|(number, one)| (format!("[{number}]"), entry(one.span().start, one)))
            .collect(),
        _ => BTreeMap::new(),
    };
    Entry { key, value: value.span(), entries }
}
