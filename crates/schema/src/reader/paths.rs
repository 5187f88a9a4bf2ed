//! Setting values by path: `links.core.queue.max_p`, `trunks.*.enabled`, `links.core.changes.0.rate`.

use toml::{Table, Value};

use super::key::{KeyPath, index_of, name_in};

/// A path that leads nowhere: what is wrong with it, and what there is instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Astray {
    /// What is wrong.
    pub problem: String,
    /// What there is instead.
    pub allowed: String,
}

/// The most keys of a path.
const MAX_DEPTH: usize = 16;

/// All keys that a path with `*` stands for. Keys that may be absent from a table are in it whether or not they are there; names that
/// only the file can give must be there: `has_names` says whether the keys of the table at some keys are such, the last of the path or not.
/// Elements of lists are addressed by their numbers, or by their names where they have any.
///
/// # Errors
/// It leads nowhere.
pub fn expand(
    path: &str,
    tree: &Table,
    has_names: fn(&[&str], bool) -> bool,
) -> Result<Vec<KeyPath>, Astray> {
    let parts: Vec<&str> = path.split('.').map(str::trim).collect();
    if parts.len() > MAX_DEPTH || parts.iter().any(|part| part.is_empty()) {
        return Err(Astray {
            problem: format!("{path:?} is no path"),
            allowed: "keys with dots between them, such as links.core.rate; * for all names".to_owned(),
        });
    }
    let mut paths = vec![KeyPath::default()];
    for (depth, part) in parts.iter().enumerate() {
        let last = depth + 1 == parts.len();
        let mut next = Vec::new();
        for at in paths {
            next.extend(follow(path, tree, &at, Part { key: part, last, has_names })?);
        }
        paths = next;
    }
    Ok(paths)
}

/// A part of a path.
struct Part<'p> {
    key: &'p str,
    last: bool,
    has_names: fn(&[&str], bool) -> bool,
}

fn follow(
    path: &str,
    tree: &Table,
    at: &KeyPath,
    Part { key: part, last, has_names }: Part<'_>,
) -> Result<Vec<KeyPath>, Astray> {
    let astray = |problem: String, allowed: Vec<String>| {
        let allowed = if allowed.is_empty() { "there is none".to_owned() } else { allowed.join(", ") };
        Err(Astray { problem: format!("{path}: {problem}"), allowed })
    };
    let whole = at.is_root();
    let keys: Vec<String> = match if whole { None } else { at.find(tree) } {
        None if whole => tree.keys().cloned().collect(),
        None => Vec::new(),
        Some(Value::Table(table)) => table.keys().cloned().collect(),
        Some(Value::Array(list)) => (0..list.len()).map(|number| format!("[{number}]")).collect(),
        Some(_) => return astray(format!("{at} is a value, there is nothing in it"), vec![at.to_string()]),
    };
    let list = match at.find(tree) {
        Some(Value::Array(list)) => Some(list),
        _ => None,
    };
    if part == "*" {
        if keys.is_empty() {
            return astray(format!("* matches nothing: there is nothing in {at}"), keys);
        }
        return Ok(keys.iter().map(|key| at.key(key)).collect());
    }
    let name = |index: usize| list.and_then(|list| name_in(list, index));
    let key = match list {
        None => part.to_owned(),
        Some(list) => match (0..list.len()).find(|index| name(*index) == Some(part)) {
            Some(index) => format!("[{index}]"),
            None => format!("[{}]", part.trim_matches(['[', ']'])),
        },
    };
    let is_open = || list.is_none() && !has_names(&at.keys().collect::<Vec<_>>(), last);
    if keys.contains(&key) || is_open() {
        return Ok(vec![at.key(&key)]);
    }
    let place = if whole { String::new() } else { format!(" in {}", at.named(tree)) };
    let there = keys.into_iter().enumerate().map(|(index, key)| name(index).map_or(key, str::to_owned));
    astray(format!("there is no {part}{place}"), there.collect())
}

/// Puts a value at a path, with the tables on the way to it.
///
/// # Errors
/// There is a value that is no table on the way.
pub fn put(tree: &mut Table, path: &KeyPath, value: Value) -> Result<(), Astray> {
    let keys: Vec<&str> = path.keys().collect();
    let Some((last, way)) = keys.split_last() else { return Ok(()) };
    let astray = || Astray {
        problem: format!("{path}: there is a value on the way to it"),
        allowed: "keys of tables".to_owned(),
    };
    let Some((first, way)) = way.split_first() else {
        tree.insert((*last).to_owned(), value);
        return Ok(());
    };
    let mut at = tree.entry((*first).to_owned()).or_insert_with(|| Value::Table(Table::new()));
    for key in way {
        at = match at {
            Value::Table(table) => {
                table.entry((*key).to_owned()).or_insert_with(|| Value::Table(Table::new()))
            }
            Value::Array(list) => index_of(key).and_then(|index| list.get_mut(index)).ok_or_else(astray)?,
            _ => return Err(astray()),
        };
    }
    match at {
        Value::Table(table) => {
            table.insert((*last).to_owned(), value);
        }
        Value::Array(list) => {
            *index_of(last).and_then(|index| list.get_mut(index)).ok_or_else(astray)? = value;
        }
        _ => return Err(astray()),
    }
    Ok(())
}
