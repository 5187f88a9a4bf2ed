//! Setting values by path: `links.core.queue.max_p`, `trunks.*.enabled`, `links.core.changes.0.rate`.

use toml::{Table, Value};

use super::key::{KeyPath, index_of};

/// A path that leads nowhere: what is wrong with it, and what there is instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Astray {
    pub(crate) problem: String,
    pub(crate) allowed: String,
}

/// Most keys that a path has.
const DEEPEST: usize = 16;

/// All keys that a path with `*` stands for. Keys that may be absent from a table are in it whether or not they are there; names that
/// only the file can give must be there.
pub(crate) fn expand(path: &str, tree: &Table) -> Result<Vec<KeyPath>, Astray> {
    let parts: Vec<&str> = path.split('.').map(str::trim).collect();
    if parts.len() > DEEPEST || parts.iter().any(|part| part.is_empty()) {
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
            next.extend(follow(path, tree, &at, (part, last))?);
        }
        paths = next;
    }
    Ok(paths)
}

fn follow(
    path: &str,
    tree: &Table,
    at: &KeyPath,
    (part, last): (&str, bool),
) -> Result<Vec<KeyPath>, Astray> {
    let astray = |problem: String, allowed: Vec<String>| {
        let allowed = if allowed.is_empty() { "there is none".to_owned() } else { allowed.join(", ") };
        Err(Astray { problem: format!("{path}: {problem}"), allowed })
    };
    let whole = at.len() == 0;
    let keys: Vec<String> = match if whole { None } else { at.find(tree) } {
        None if whole => tree.keys().cloned().collect(),
        None => Vec::new(),
        Some(Value::Table(table)) => table.keys().cloned().collect(),
        Some(Value::Array(list)) => (0..list.len()).map(|number| format!("[{number}]")).collect(),
        Some(_) => return astray(format!("{at} is a value, there is nothing in it"), vec![at.to_string()]),
    };
    let listed = matches!(at.find(tree), Some(Value::Array(_)));
    if part == "*" {
        if keys.is_empty() {
            return astray(format!("* matches nothing: there is nothing in {at}"), keys);
        }
        return Ok(keys.iter().map(|key| at.key(key)).collect());
    }
    let key = if listed { format!("[{}]", part.trim_matches(['[', ']'])) } else { part.to_owned() };
    if keys.contains(&key) || !(listed || has_names(at, last)) {
        return Ok(vec![at.key(&key)]);
    }
    let place = if whole { String::new() } else { format!(" in {at}") };
    astray(format!("there is no {part}{place}"), keys)
}

/// Whether the keys of the table at `at` are names of the file's, which a path cannot make up. Numbers by name (`lanes`) and lists by path
/// (`zip`) it can.
fn has_names(at: &KeyPath, last: bool) -> bool {
    let keys: Vec<&str> = at.keys().collect();
    match keys[..] {
        ["links" | "tcp" | "traffic" | "trunks" | "proxies" | "sweep" | "nodes"]
        | ["trunks", _, "classes"]
        | ["proxies", _, "cells"] => true,
        ["trunks", _, "lanes"] | ["sweep", _, "zip" | "variants"] => !last,
        _ => false,
    }
}

/// Puts a value at a path, with the tables on the way to it.
pub(crate) fn put(tree: &mut Table, path: &KeyPath, value: Value) -> Result<(), Astray> {
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
