//! Which metrics of a condition are of a part of the runs only.

use super::error::Problem;
use super::evaluation::{Evaluation, Pins};
use super::expression::{Expression, Node, Selector};
use super::typing::select;
use super::{Axes, Table};

/// `web.delay.p99 is of 2 of 5 runs at flows=10`: of each metric that some runs do not have, where the fewest do.
pub(super) fn parts(root: &Node, table: &Table<'_>) -> Result<Vec<String>, Problem> {
    let mut said = Vec::new();
    let every_axis = (0..table.axes().len()).collect();
    for (name, selectors) in metrics(root) {
        let chosen = select(table.axes(), selectors)?;
        let places = Evaluation { table }.combinations(&every_axis, &chosen);
        let parts = places.into_iter().filter_map(|at| {
            let place: Vec<usize> = at.iter().copied().map(Option::unwrap_or_default).collect();
            table.part(name, &place).map(|(some, part)| (some, part, at))
        });
        if let Some((_, part, at)) = parts.min_by_key(|(some, ..)| *some) {
            let text = format!("{name} is of {part}{}", table.at(at.into_iter()));
            if !said.contains(&text) {
                said.push(text);
            }
        }
    }
    Ok(said)
}

/// Of each metric, the values of axes at which it is read; none where all are.
pub(super) fn read(root: &Node, axes: &Axes) -> Result<Vec<Pins>, Problem> {
    metrics(root).into_iter().map(|(_, selectors)| select(axes, selectors)).collect()
}

/// Every metric with its selectors.
fn metrics(node: &Node) -> Vec<(&str, &[Selector])> {
    match &node.expression {
        Expression::Number { .. } => Vec::new(),
        Expression::Metric { name, selectors } => vec![(name, selectors)],
        Expression::Binary(_, both) => both.iter().flat_map(metrics).collect(),
        Expression::Call(_, arguments) => arguments.iter().flat_map(metrics).collect(),
    }
}
