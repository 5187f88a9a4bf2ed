//! What is the case, with numbers. Each sentence is true, whether the condition is or not: what is not smaller is said to be equal
//! or greater.

use super::Table;
use super::error::Problem;
use super::evaluation::{Course, Evaluation, Pins, course, slack, upward};
use super::expression::{Expression, Function, Node, Operator};
use crate::number::{digits, show};

/// More values than these along an axis are not spelt out.
const MAX_SPELT: usize = 8;

/// Why a condition that has been checked is true, or is not.
pub(super) fn explain(root: &Node, table: &Table<'_>) -> Result<String, Problem> {
    let evaluation = Evaluation { table };
    evaluation.explain(root, &evaluation.none())
}

impl Evaluation<'_> {
    /// Of something that is true or false at `pins`.
    fn explain(&self, node: &Node, pins: &Pins) -> Result<String, Problem> {
        match &node.expression {
            Expression::Binary(Operator::And, both) => self.sides(both, pins, /* decided by */ false),
            Expression::Binary(Operator::Or, both) => self.sides(both, pins, true),
            Expression::Binary(operator, both) => {
                let [left, right] = [self.number(&both[0], pins)?, self.number(&both[1], pins)?];
                let side = |value, node: &Node| {
                    let text = self.show(node, pins, 0)?;
                    let computed = matches!(node.expression, Expression::Binary(..));
                    Ok(if computed { format!("{text} = {}", self.quantity(value, node)?) } else { text })
                };
                let symbol = operator.symbol(operator.of(left, right) != 0.0);
                Ok(format!("{} {symbol} {}", side(left, &both[0])?, side(right, &both[1])?))
            }
            Expression::Call(function @ (Function::All | Function::Any), arguments) => {
                self.quantified(*function, &arguments[0])
            }
            Expression::Call(function, arguments) => self.course(*function, arguments),
            _ => Ok(String::new()),
        }
    }

    /// Of `and` and `or`: the sides that decide, or both.
    fn sides(&self, both: &[Node; 2], pins: &Pins, decides: bool) -> Result<String, Problem> {
        let mut deciding = Vec::new();
        for side in both {
            if self.truth(side, pins)? == decides {
                deciding.push(side);
            }
        }
        if deciding.is_empty() {
            deciding.extend(both);
        }
        let texts: Result<Vec<_>, _> = deciding.into_iter().map(|side| self.explain(side, pins)).collect();
        let mut texts = texts?;
        texts.dedup();
        Ok(texts.join("; "))
    }

    /// Of `all` and `any`: the point that decides, or comes nearest to it.
    fn quantified(&self, function: Function, inner: &Node) -> Result<String, Problem> {
        let shape = self.type_of(inner)?.shape;
        let points = self.combinations(&shape, &self.none());
        let count = points.len();
        let mut chosen: Option<(f64, Pins)> = None;
        let mut true_ones = 0;
        for at in points {
            let truth = self.truth(inner, &at)?;
            true_ones += usize::from(truth);
            let margin = self.margin(inner, &at)?;
            // True before false, then by how far.
            let rank = if truth { 1e9 + margin } else { margin - 1e9 };
            let better = match &chosen {
                Some((best, _)) if function == Function::All => rank < *best,
                Some((best, _)) => rank > *best,
                None => true,
            };
            if better {
                chosen = Some((rank, at));
            }
        }
        let Some((_, at)) = chosen else { return Ok(String::new()) };
        let text = self.explain(inner, &at)?;
        if count < 2 {
            return Ok(text);
        }
        let how_many = match (function, true_ones) {
            (Function::All, all) if all == count => format!("the closest of {count}"),
            (Function::Any, 0) => format!("the closest of {count}"),
            _ => format!("true at {true_ones} of {count}"),
        };
        Ok(format!("{text}{} ({how_many})", self.table.at(at.into_iter())))
    }

    /// Of `increasing` and `decreasing`: the values, or where they go the other way.
    fn course(&self, function: Function, arguments: &[Node]) -> Result<String, Problem> {
        let inner = &arguments[0];
        let values = self.numbers(inner, &self.none())?;
        let axis = self.type_of(inner)?.shape.first().copied();
        let Some((name, names)) = axis.and_then(|axis| self.table.axes().get_index(axis)) else {
            return Ok(String::new());
        };
        let shown: Vec<String> =
            values.iter().map(|value| self.quantity(*value, inner)).collect::<Result<_, _>>()?;
        let from_to = |verb: &str, [from, to]: [usize; 2]| {
            let [low, high] = [from, to].map(|step| format!("{} ({name}={})", shown[step], names[step]));
            Ok(format!("{verb} from {low} to {high}"))
        };
        let up = function == Function::Increasing;
        match course(&upward(function, &values), slack(arguments)) {
            Course::Rises if shown.len() <= MAX_SPELT => Ok(format!("{} along {name}", shown.join(", "))),
            Course::Rises => Ok(format!("{} … {} along {name}", shown[0], shown[shown.len() - 1])),
            Course::Falls(from, to) => from_to(if up { "falls" } else { "rises" }, [from, to]),
            Course::Stays => {
                let verb = if up { "does not rise" } else { "does not fall" };
                from_to(verb, [0, values.len().saturating_sub(1)])
            }
        }
    }

    /// How far something is from turning false, or true: relative, and less than 0 where it is false.
    fn margin(&self, node: &Node, pins: &Pins) -> Result<f64, Problem> {
        Ok(match &node.expression {
            Expression::Binary(operator @ (Operator::And | Operator::Or), both) => {
                operator.of(self.margin(&both[0], pins)?, self.margin(&both[1], pins)?)
            }
            Expression::Binary(operator, both) => {
                let [left, right] = [self.number(&both[0], pins)?, self.number(&both[1], pins)?];
                let margin = (left - right) / left.abs().max(right.abs());
                let margin = if margin.is_nan() { 0.0 } else { margin };
                match operator {
                    Operator::Equal => -margin.abs(),
                    Operator::Greater | Operator::GreaterOrEqual => margin,
                    _ => -margin,
                }
            }
            _ => 0.0,
        })
    }

    /// A value of `node`'s unit.
    fn quantity(&self, value: f64, node: &Node) -> Result<String, Problem> {
        let unit = self.type_of(node)?.unit();
        Ok(unit.map_or_else(|| digits(value), |unit| show(value, unit)))
    }

    /// A number at pins, as it came to be.
    fn show(&self, node: &Node, pins: &Pins, binds: u8) -> Result<String, Problem> {
        Ok(match &node.expression {
            Expression::Number { text, .. } => text.split_whitespace().collect::<Vec<_>>().join(" "),
            Expression::Binary(operator, both) => {
                let own = operator.binds();
                let left = self.show(&both[0], pins, own)?;
                let right = self.show(&both[1], pins, own + 1)?;
                let text = format!("{left} {} {right}", operator.symbol(true));
                if own < binds { format!("({text})") } else { text }
            }
            Expression::Call(function @ (Function::Min | Function::Max | Function::Mean), _) => {
                format!("{} {}", function.name(), self.quantity(self.number(node, pins)?, node)?)
            }
            _ => self.quantity(self.number(node, pins)?, node)?,
        })
    }
}
