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
pub(crate) use table::axes;

use crate::results::Point;
use error::Problem;
use evaluation::Evaluation;
use trunkline_engine::catalogue::Unit;

/// The axes of a sweep in the file's order, and what their values are called.
pub type Axes = IndexMap<String, Vec<String>>;

/// What is known of metrics: the unit of one that an experiment has (none if it is not known), or why it has none of that name.
pub type Metrics<'a> = dyn Fn(&str) -> Result<Option<Unit>, String> + 'a;

/// How a condition came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether it is true.
    pub holds: bool,
    /// What is the case, with numbers: always a true sentence, whether the condition holds or not.
    pub explanation: String,
}

/// Whether a text is a condition that means something for an experiment with these axes and metrics.
pub fn check(text: &str, axes: &Axes, metrics: &Metrics<'_>) -> Result<(), ConditionError> {
    let check = || typing::check(&parser::parse(text)?, axes, metrics);
    check().map_err(|problem: Problem| problem.within(text))
}

/// Whether a text is a number of these axes and metrics: one value, without a unit. (A condition is true or false.)
pub fn check_ratio(text: &str, axes: &Axes, metrics: &Metrics<'_>) -> Result<(), ConditionError> {
    let check = || typing::check_ratio(&parser::parse(text)?, axes, metrics);
    check().map_err(|problem: Problem| problem.within(text))
}

/// That number, if all metrics in it have a value.
pub fn ratio(text: &str, results: &Table<'_>) -> Result<f64, ConditionError> {
    let ratio = || {
        let root = parser::parse(text)?;
        typing::check_ratio(&root, results.axes(), &|metric| Ok(results.unit(metric)))?;
        let evaluation = Evaluation { table: results };
        evaluation.number(&root, &evaluation.none())
    };
    ratio().map_err(|problem: Problem| problem.within(text))
}

/// Whether a condition reads a metric at a point.
pub(crate) fn reads(text: &str, axes: &Axes, point: &Point) -> Result<bool, ConditionError> {
    let read = || part::read(&parser::parse(text)?, axes);
    let read = read().map_err(|problem: Problem| problem.within(text))?;
    let is_at = |((axis, values), place): ((&String, &Vec<String>), &Option<usize>)| {
        place.is_none_or(|place| point.get(axis) == values.get(place))
    };
    Ok(read.iter().any(|pins| axes.iter().zip(pins).all(is_at)))
}

/// How a condition comes out. An error if it means nothing for these results, or if a metric has no value in them.
pub fn judge(text: &str, results: &Table<'_>) -> Result<Answer, ConditionError> {
    let judge = || {
        let root = parser::parse(text)?;
        typing::check(&root, results.axes(), &|metric| Ok(results.unit(metric)))?;
        let holds = Evaluation { table: results }.truth(&root, &vec![None; results.axes().len()])?;
        let facts = std::iter::once(explanation::explain(&root, results)?);
        let facts: Vec<String> = facts.chain(part::parts(&root, results)?).collect();
        Ok(Answer { holds, explanation: facts.join("; ") })
    };
    judge().map_err(|problem: Problem| problem.within(text))
}
