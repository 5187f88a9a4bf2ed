//! From a tree of values to what it says.

use serde::de::DeserializeOwned;
use toml::de::DeTable;
use toml::{Table, Value};

use super::findings::Finding;
use super::format::Format;
use super::key::KeyPath;
use super::places::Places;
use super::walk::Form;

/// What a tree says, or all that is wrong with its form.
///
/// # Errors
/// At least one mistake.
pub fn read<T: Format>(tree: &Table) -> Result<T, Vec<Finding>> {
    T::deserialize(Value::Table(tree.clone())).map_err(|error| {
        let Form { found, secrets, .. } = Form::of::<T>(tree);
        if !found.is_empty() {
            return found;
        }
        // A place is known only of a text, and a message may quote what stands there.
        let found = find::<T>(tree).unwrap_or_else(|| finding(error.message(), KeyPath::default()));
        let quotes_secret = secrets.iter().any(|secret| found.path.is_above(secret));
        let problem = if quotes_secret { "cannot be read".to_owned() } else { found.problem };
        vec![Finding { problem, ..found }]
    })
}

/// What serde says of the tree as a text, in which it tells the place.
fn find<T: DeserializeOwned>(tree: &Table) -> Option<Finding> {
    let text = toml::to_string(tree).ok()?;
    let error = toml::from_str::<T>(&text).err()?;
    let places = Places::new(&text, &DeTable::parse(&text).ok()?);
    let path = error.span().map_or_else(KeyPath::default, |span| places.key_at(span.start));
    Some(finding(error.message(), path))
}

fn finding(message: &str, path: KeyPath) -> Finding {
    let (problem, allowed) = match message.split_once("; allowed: ") {
        Some((problem, allowed)) => (problem.to_owned(), Some(allowed.to_owned())),
        None => match message.split_once(", expected ") {
            Some((problem, allowed)) => {
                (problem.to_owned(), Some(allowed.trim_start_matches("one of ").to_owned()))
            }
            None => (message.to_owned(), None),
        },
    };
    Finding { path, problem, allowed }
}
