//! Mistakes as they are found, by their keys.

use std::cell::RefCell;

use toml::{Table, Value};

use super::key::KeyPath;

/// A mistake of which only the key is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The key.
    pub path: KeyPath,
    /// What is wrong.
    pub problem: String,
    /// What would be right, if that can be said.
    pub allowed: Option<String>,
}

/// What was found in a tree so far.
#[derive(Debug)]
pub struct Findings<'t> {
    tree: &'t Table,
    /// What is never quoted.
    secrets: Vec<KeyPath>,
    /// What was not read of the tree.
    left_out: Vec<KeyPath>,
    found: RefCell<Vec<Finding>>,
    misplaced: RefCell<Vec<Finding>>,
}

impl<'t> Findings<'t> {
    /// None yet.
    pub fn new(tree: &'t Table) -> Self {
        Findings {
            tree,
            secrets: Vec::new(),
            left_out: Vec::new(),
            found: RefCell::default(),
            misplaced: RefCell::default(),
        }
    }

    /// Of a tree that was read without these values: what follows from their absence is not reported, and numbers of elements are those
    /// of elements that were read.
    #[must_use]
    pub fn without(mut self, left_out: Vec<KeyPath>) -> Self {
        self.left_out = left_out;
        self
    }

    /// Never quotes what is at these keys.
    #[must_use]
    pub(crate) fn with_secrets(mut self, secrets: Vec<KeyPath>) -> Self {
        self.secrets = secrets;
        self
    }

    /// The whole document.
    pub fn root(&self) -> At<'_> {
        At { findings: self, path: KeyPath::default() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.found.borrow().len()
    }

    /// What is wrong, and what is of no use: keys of another kind of thing than theirs is.
    pub fn into_found(self) -> (Vec<Finding>, Vec<Finding>) {
        (self.found.into_inner(), self.misplaced.into_inner())
    }
}

/// A key at which mistakes are reported.
#[derive(Debug, Clone)]
pub struct At<'f> {
    findings: &'f Findings<'f>,
    path: KeyPath,
}

impl At<'_> {
    /// A key of the table that is here.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        At { findings: self.findings, path: self.path.key(key) }
    }

    /// One of the list that is here, of those that were read.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        let left_out = &self.findings.left_out;
        let mut read = (0..).map(|place| self.path.index(place)).filter(|path| !left_out.contains(path));
        At { findings: self.findings, path: read.nth(index).unwrap_or_default() }
    }

    /// What is below it, with dots and brackets.
    #[must_use]
    pub fn below(&self, keys: &str) -> Self {
        At { findings: self.findings, path: self.path.below(keys) }
    }

    /// What is written there.
    fn shown(&self) -> Option<String> {
        let value = self.path.find(self.findings.tree)?;
        let is_secret = self.findings.secrets.iter().any(|secret| self.path.is_above(secret));
        Some(if is_secret { "not right".to_owned() } else { shown(value) })
    }

    /// Whether anything is written there.
    pub fn is_given(&self) -> bool {
        self.path.find(self.findings.tree).is_some()
    }

    /// How many mistakes were reported so far, wherever they are.
    pub fn mistakes(&self) -> usize {
        self.findings.count()
    }

    /// The key.
    pub const fn path(&self) -> &KeyPath {
        &self.path
    }

    /// Reports a mistake here.
    pub fn report(&self, problem: impl Into<String>, allowed: impl Into<String>) {
        self.push(problem.into(), Some(allowed.into()));
    }

    /// Reports a mistake here whose remedy is clear from the problem.
    pub fn report_plain(&self, problem: impl Into<String>) {
        self.push(problem.into(), None);
    }

    /// Reports a key that is of no use to what it is in: a mistake, unless that is something else at another point of the sweep.
    pub fn misplaced(&self, problem: String, allowed: String) {
        if self.findings.left_out.iter().any(|path| path.shares_element(&self.path)) {
            return;
        }
        let finding = Finding { path: self.path.clone(), problem, allowed: Some(allowed) };
        push(&mut self.findings.misplaced.borrow_mut(), finding);
    }

    /// Reports that what is here cannot be.
    pub fn refuse(&self, allowed: impl Into<String>) {
        self.report(format!("is {}", self.shown().unwrap_or_else(|| "missing".to_owned())), allowed);
    }

    /// Reports that what is at a key below this one, or what follows from it, cannot be.
    pub fn refuse_value(&self, key: &str, value: &str, allowed: &str) {
        let at = self.below(key);
        let shown = at.shown().filter(|shown| shown.len() <= 80).unwrap_or_else(|| value.to_owned());
        at.report(format!("is {shown}"), allowed);
    }

    fn push(&self, problem: String, allowed: Option<String>) {
        let follows = |path: &KeyPath| self.path.is_above(path) || path.is_above(&self.path);
        if self.findings.left_out.iter().any(follows) {
            return;
        }
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

/// The longest value that is quoted whole, in characters.
const MAX_QUOTED: usize = 60;

/// A value as it is written, unless it is long.
pub(crate) fn brief(value: &Value) -> String {
    match value {
        Value::Table(_) => "a table".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => {
            let text = shown(other);
            if text.chars().count() <= MAX_QUOTED {
                return text;
            }
            text.chars().take(MAX_QUOTED).chain("…".chars()).collect()
        }
    }
}
