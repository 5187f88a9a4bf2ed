//! Which metrics of a condition are of a part of the runs only.

use super::Table;
use super::error::Problem;
use super::expression::{Expression, Node, Selector};
use super::typing::select;
use super::value::{Shape, combinations};

/// `web.delay.p99 is of 2 of 5 runs at flows=10`: of each metric that some runs do not have, where the fewest do.
pub(super) fn parts(root: &Node, table: &Table<'_>) -> Result<Vec<String>, Problem> {
    let mut said = Vec::new();
    for (name, selectors) in metrics(root) {
        let chosen = select(table.axes(), selectors)?.into_iter().enumerate();
        let shape: Shape = chosen
            .map(|(axis, (values, open))| {
                (axis, if open { values } else { values.into_iter().take(1).collect() })
            })
            .collect();
        let places = combinations(&shape)
            .into_iter()
            .map(|combination| combination.into_iter().map(|(_, value)| value).collect::<Vec<_>>());
        let parts =
            places.filter_map(|place| table.part(name, &place).map(|(some, part)| (some, part, place)));
        if let Some((_, part, place)) = parts.min_by_key(|(some, ..)| *some) {
            let text = format!("{name} is of {part}{}", table.at(place.into_iter().map(Some)));
            if !said.contains(&text) {
                said.push(text);
            }
        }
    }
    Ok(said)
}

/// Every metric with its selectors.
fn metrics(node: &Node) -> Vec<(&str, &[Selector])> {
    match &node.expression {
        Expression::Number { .. } => Vec::new(),
        Expression::Metric { name, selectors } => vec![(name, selectors)],
        Expression::Negative(inner) | Expression::Not(inner) => metrics(inner),
        Expression::Arithmetic(_, both)
        | Expression::Comparison(_, both)
        | Expression::And(both)
        | Expression::Or(both) => both.iter().flat_map(metrics).collect(),
        Expression::Call(call) => call.arguments.iter().flat_map(metrics).collect(),
    }
}
