//! From a tree of values to an experiment.

use serde::Deserialize;
use toml::de::DeTable;
use toml::{Table, Value};

use super::findings::Finding;
use super::key::KeyPath;
use super::places::Places;
use super::walk;
use crate::experiment::Experiment;

/// The experiment that a tree is, or what is wrong with it.
pub(super) fn experiment(tree: &Table) -> Result<Box<Experiment>, Vec<Finding>> {
    match Experiment::deserialize(Value::Table(tree.clone())) {
        Ok(experiment) => Ok(Box::new(experiment)),
        Err(error) => {
            let found = walk::findings(tree);
            if found.is_empty() {
                return Err(vec![find(tree).unwrap_or_else(|| finding(error.message(), KeyPath::default()))]);
            }
            Err(found)
        }
    }
}

/// What serde says of the tree as a text, in which it tells the place.
fn find(tree: &Table) -> Option<Finding> {
    let text = toml::to_string(tree).ok()?;
    let error = toml::from_str::<Experiment>(&text).err()?;
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
