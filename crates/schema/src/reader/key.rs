//! Keys of a document with the tables they are in.

use std::fmt;

use toml::{Table, Value};

/// The keys down to a value. One of a list has its number in brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct KeyPath(Vec<String>);

impl KeyPath {
    /// A key of the table that this is.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        KeyPath(self.0.iter().cloned().chain([key.to_owned()]).collect())
    }

    /// One of the list that this is.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.key(&format!("[{index}]"))
    }

    /// Keys below this, with dots and brackets between them.
    #[must_use]
    pub fn below(&self, keys: &str) -> Self {
        let mut path = self.clone();
        for part in keys.split('.').filter(|part| !part.is_empty()) {
            let (key, indices) = part.split_at(part.find('[').unwrap_or(part.len()));
            path.0.extend((!key.is_empty()).then(|| key.to_owned()));
            path.0.extend(indices.split_inclusive(']').map(str::to_owned));
        }
        path
    }

    /// All of them.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether it is that of the whole file.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is the other, or a table that the other is in.
    pub fn is_above(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// Whether it is that of something within one of a list.
    pub(crate) fn is_in_element(&self) -> bool {
        self.element().is_some_and(|element| element != self.0)
    }

    /// Whether both are in the same one of the outermost list around them.
    pub(crate) fn shares_element(&self, other: &Self) -> bool {
        self.element().is_some_and(|element| other.0.starts_with(element))
    }

    fn element(&self) -> Option<&[String]> {
        let index = self.0.iter().position(|key| index_of(key).is_some())?;
        Some(&self.0[..=index])
    }

    /// The same with names for numbers: a table of a list whose `name` no other of the list has goes by it.
    #[must_use]
    pub(crate) fn named(&self, tree: &Table) -> Self {
        let mut path = KeyPath::default();
        let mut named = KeyPath::default();
        for key in &self.0 {
            let name = index_of(key).and_then(|index| match path.find(tree) {
                Some(Value::Array(list)) => name_in(list, index),
                _ => None,
            });
            named = named.key(name.unwrap_or(key));
            path = path.key(key);
        }
        named
    }

    /// What stands there.
    pub fn find<'t>(&self, tree: &'t Table) -> Option<&'t Value> {
        let (first, rest) = self.0.split_first()?;
        rest.iter().try_fold(tree.get(first)?, |value, key| step(value, key))
    }
}

/// The name of an element of a list of tables, if it is that of no other.
pub(crate) fn name_in(list: &[Value], index: usize) -> Option<&str> {
    let name = |value: &'_ Value| value.get("name").and_then(Value::as_str).map(str::to_owned);
    let own = list.get(index)?.get("name")?.as_str().filter(|name| !name.is_empty())?;
    let same = list.iter().filter(|other| name(other).as_deref() == Some(own)).count();
    (same == 1).then_some(own)
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
