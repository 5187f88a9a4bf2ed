//! Keys of a document with the tables they are in.

use std::fmt;

use toml::{Table, Value};

/// The keys down to a value. One of a list has its number in brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct KeyPath(Vec<String>);

impl KeyPath {
    /// A key of the table that this is.
    #[must_use]
    pub(crate) fn key(&self, key: &str) -> Self {
        KeyPath(self.0.iter().cloned().chain([key.to_owned()]).collect())
    }

    /// One of the list that this is.
    #[must_use]
    pub(crate) fn index(&self, index: usize) -> Self {
        self.key(&format!("[{index}]"))
    }

    /// Keys below this, with dots and brackets between them.
    #[must_use]
    pub(crate) fn below(&self, keys: &str) -> Self {
        let mut path = self.clone();
        for part in keys.split('.').filter(|part| !part.is_empty()) {
            let (key, indices) = part.split_at(part.find('[').unwrap_or(part.len()));
            path.0.extend((!key.is_empty()).then(|| key.to_owned()));
            path.0.extend(indices.split_inclusive(']').map(str::to_owned));
        }
        path
    }

    /// All of them.
    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is the other, or a table that the other is in.
    pub(crate) fn is_above(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// What stands there.
    pub(crate) fn find<'t>(&self, tree: &'t Table) -> Option<&'t Value> {
        let (first, rest) = self.0.split_first()?;
        rest.iter().try_fold(tree.get(first)?, |value, key| step(value, key))
    }
}

/// The number in brackets.
pub(crate) fn index_of(key: &str) -> Option<usize> {
    key.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

fn step<'t>(value: &'t Value, key: &str) -> Option<&'t Value> {
    match value {
        Value::Table(table) => table.get(key),
        Value::Array(list) => list.get(index_of(key)?),
        _ => None,
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, key) in self.0.iter().enumerate() {
            if number > 0 && index_of(key).is_none() {
                f.write_str(".")?;
            }
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            if index_of(key).is_some() || (!key.is_empty() && key.chars().all(plain)) {
                f.write_str(key)?;
            } else {
                write!(f, "{key:?}")?;
            }
        }
        Ok(())
    }
}
