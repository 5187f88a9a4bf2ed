//! Mistakes as they are found, by their keys.

use std::cell::RefCell;

use toml::{Table, Value};
use trunkline_sim::SettingsError;

use super::key::KeyPath;

/// A mistake of which only the key is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: KeyPath,
    pub(crate) problem: String,
    pub(crate) allowed: Option<String>,
}

/// What was found in a tree so far.
#[derive(Debug)]
pub(crate) struct Findings<'t> {
    tree: &'t Table,
    found: RefCell<Vec<Finding>>,
    misplaced: RefCell<Vec<Finding>>,
}

impl<'t> Findings<'t> {
    pub(crate) fn new(tree: &'t Table) -> Self {
        Findings { tree, found: RefCell::default(), misplaced: RefCell::default() }
    }

    /// The whole document.
    pub(crate) fn root(&self) -> At<'_> {
        At { findings: self, path: KeyPath::default() }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.found.borrow().len()
    }

    /// What is wrong, and what is of no use: keys of another kind of thing than theirs is.
    pub(crate) fn into_found(self) -> (Vec<Finding>, Vec<Finding>) {
        (self.found.into_inner(), self.misplaced.into_inner())
    }
}

/// A key at which mistakes are reported.
#[derive(Debug, Clone)]
pub(crate) struct At<'f> {
    findings: &'f Findings<'f>,
    path: KeyPath,
}

impl At<'_> {
    #[must_use]
    pub(crate) fn key(&self, key: &str) -> Self {
        At { findings: self.findings, path: self.path.key(key) }
    }

    #[must_use]
    pub(crate) fn index(&self, index: usize) -> Self {
        At { findings: self.findings, path: self.path.index(index) }
    }

    /// What is below it, with dots and brackets.
    #[must_use]
    pub(crate) fn below(&self, keys: &str) -> Self {
        At { findings: self.findings, path: self.path.below(keys) }
    }

    /// What is written there.
    fn shown(&self) -> Option<String> {
        self.path.find(self.findings.tree).map(shown)
    }

    /// Reports a mistake here.
    pub(crate) fn report(&self, problem: impl Into<String>, allowed: impl Into<String>) {
        self.push(problem.into(), Some(allowed.into()));
    }

    /// Reports a mistake here whose remedy is clear from the problem.
    pub(crate) fn report_plain(&self, problem: impl Into<String>) {
        self.push(problem.into(), None);
    }

    /// Reports a key that is of no use to what it is in: a mistake, unless that is something else at another point of the sweep.
    pub(crate) fn misplaced(&self, problem: String, allowed: String) {
        let finding = Finding { path: self.path.clone(), problem, allowed: Some(allowed) };
        push(&mut self.findings.misplaced.borrow_mut(), finding);
    }

    /// Reports that what is here cannot be.
    pub(crate) fn refuse(&self, allowed: impl Into<String>) {
        self.report(format!("is {}", self.shown().unwrap_or_else(|| "missing".to_owned())), allowed);
    }

    /// Reports what the simulator or a TCP says of settings that were made of what is here. `key` translates their places into keys
    /// below this one.
    pub(crate) fn check(&self, checked: Result<(), SettingsError>, key: impl Fn(&str) -> String) {
        let Err(error) = checked else { return };
        match error {
            SettingsError::Value { place, value, allowed } => {
                self.refuse_value(&key(&place), &value, allowed);
            }
            SettingsError::Order { place, .. } => {
                self.below(&key(&place)).report("is earlier than the one before it", "in order of time");
            }
            SettingsError::Node { place, problem, .. } => self.below(&key(&place)).report_plain(problem),
            SettingsError::Tcp { place, error } => {
                let place =
                    if place.is_empty() { error.key.to_owned() } else { format!("{place}.{}", error.key) };
                self.refuse_value(&key(&place), &error.value, error.allowed);
            }
        }
    }

    /// Reports that what is at a key below this one, or what follows from it, cannot be.
    pub(crate) fn refuse_value(&self, key: &str, value: &str, allowed: &str) {
        let at = self.below(key);
        let shown = at.shown().filter(|shown| shown.len() <= 80).unwrap_or_else(|| value.to_owned());
        at.report(format!("is {shown}"), allowed);
    }

    fn push(&self, problem: String, allowed: Option<String>) {
        let finding = Finding { path: self.path.clone(), problem, allowed };
        push(&mut self.findings.found.borrow_mut(), finding);
    }
}

fn push(found: &mut Vec<Finding>, finding: Finding) {
    if !found.contains(&finding) {
        found.push(finding);
    }
}

/// A value in one line, as it is written in a file.
pub(crate) fn shown(value: &Value) -> String {
    value.to_string()
}
