//! Conditions of claims: what they may say, what they mean over the points of a sweep, and how they came out, with numbers.
//!
//! A metric is a number at one point and, where its selectors leave axes open, a value for each of their combinations. Operations
//! pair values by the axes that are open; functions reduce them. docs/conditions.md describes the language to those who write it.
//!
//! ```text
//!  text ──▶ parser ──▶ expression ──▶ typing: axes, units, names ──▶ evaluation ──▶ explanation
//! ```

mod dimension;
mod error;
mod evaluation;
mod explanation;
mod expression;
mod parser;
mod part;
mod table;
#[cfg(test)]
mod tests;
mod token;
mod typing;

use indexmap::IndexMap;

pub(crate) use dimension::base;
pub use dimension::factor;
pub use error::ConditionError;
pub use table::Table;

use crate::catalogue::Unit;
use evaluation::Evaluation;
use expression::Node;

/// The axes of a sweep in the file's order, and what their values are called.
pub type Axes = IndexMap<String, Vec<String>>;

/// What is known of metrics: the unit of one that an experiment has (none if it is not known), or why it has none of that name.
pub type Metrics<'a> = dyn Fn(&str) -> Result<Option<Unit>, String> + 'a;

/// A condition that has been read.
#[derive(Debug, Clone)]
pub struct Condition {
    text: String,
    root: Node,
}

/// How a condition came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether it is true.
    pub holds: bool,
    /// What is the case, with numbers: always a true sentence, whether the condition holds or not.
    pub explanation: String,
}

impl Condition {
    /// Reads a condition; its names are not checked.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let root = parser::parse(text).map_err(|problem| problem.within(text))?;
        Ok(Condition { text: text.to_owned(), root })
    }

    /// Whether it means something for an experiment with these axes and metrics.
    pub fn check(&self, axes: &Axes, metrics: &Metrics<'_>) -> Result<(), ConditionError> {
        typing::check(&self.root, axes, metrics).map_err(|problem| problem.within(&self.text))
    }

    /// How it comes out. An error if it means nothing for these results, or if a metric has no value in them.
    pub fn judge(&self, results: &Table<'_>) -> Result<Answer, ConditionError> {
        let judge = || {
            typing::check(&self.root, results.axes(), &|metric| Ok(results.unit(metric)))?;
            let holds = Evaluation { table: results }.truth(&self.root, &vec![None; results.axes().len()])?;
            let facts = std::iter::once(explanation::explain(&self.root, results)?);
            let facts: Vec<String> = facts.chain(part::parts(&self.root, results)?).collect();
            Ok(Answer { holds, explanation: facts.join("; ") })
        };
        judge().map_err(|problem: error::Problem| problem.within(&self.text))
    }
}

/// Whether a text is a condition that means something for an experiment with these axes and metrics.
pub fn check(text: &str, axes: &Axes, metrics: &Metrics<'_>) -> Result<(), ConditionError> {
    Condition::parse(text)?.check(axes, metrics)
}
