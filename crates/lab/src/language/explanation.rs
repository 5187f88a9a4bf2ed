//! What is the case, with numbers. Each sentence is true, whether the condition is or not: what is not smaller is said to be equal
//! or greater.

use super::Table;
use super::dimension::Dimension;
use super::error::Problem;
use super::evaluation::{Course, Evaluation, Pins, course, same, slack, upward};
use super::expression::{Arithmetic, Call, Comparison, Expression, Function, Node};
use super::show::{digits, show};
use super::value::{Interval, combinations};

/// More values than these along an axis are not spelt out.
const MOST_SPELT: usize = 8;

/// Why a condition that has been checked is true, or is not.
pub(super) fn explain(root: &Node, table: &Table<'_>) -> Result<String, Problem> {
    let explanation = Explanation { evaluation: Evaluation { table }, table };
    explanation.of(root, &vec![None; table.axes().len()])
}

struct Explanation<'a> {
    evaluation: Evaluation<'a>,
    table: &'a Table<'a>,
}

impl Explanation<'_> {
    /// Of something that is true or false at `pins`.
    fn of(&self, node: &Node, pins: &Pins) -> Result<String, Problem> {
        match &node.expression {
            Expression::And(both) => self.sides(both, pins, /* decided by */ false),
            Expression::Or(both) => self.sides(both, pins, true),
            Expression::Not(inner) => self.of(inner, pins),
            Expression::Comparison(comparison, both) => {
                let [left, right] = [self.number(&both[0], pins)?, self.number(&both[1], pins)?];
                let fact =
                    if comparison.holds(left.mean, right.mean) { *comparison } else { comparison.opposite() };
                let equals = |text: String, value: Interval, node: &Node| {
                    let computed = matches!(node.expression, Expression::Arithmetic(..))
                        || matches!(&node.expression, Expression::Call(call) if call.function == Function::Ratio);
                    if computed { format!("{text} = {}", self.quantity(value.mean, node)) } else { text }
                };
                let shown = [self.show(&both[0], pins, 0)?, self.show(&both[1], pins, 0)?];
                let [left_text, right_text] = shown;
                let left = equals(left_text, left, &both[0]);
                Ok(format!("{left} {} {}", fact.symbol(), equals(right_text, right, &both[1])))
            }
            Expression::Call(call) => match call.function {
                Function::All | Function::Any => self.quantified(node, call, pins),
                Function::Increasing | Function::Decreasing => self.course(node, call, pins),
                _ => self.compared(call, pins),
            },
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
        let texts: Result<Vec<_>, _> = deciding.into_iter().map(|side| self.of(side, pins)).collect();
        let mut texts = texts?;
        texts.dedup();
        Ok(texts.join("; "))
    }

    /// Of `all` and `any`: the point that decides, or comes nearest to it.
    fn quantified(&self, node: &Node, call: &Call, pins: &Pins) -> Result<String, Problem> {
        let inner = &call.arguments[0];
        let axis = self.evaluation.axis(node, call)?;
        let within = Evaluation::within(pins, axis);
        let shape: Vec<_> =
            self.evaluation.shape(inner)?.into_iter().filter(|(axis, _)| within[*axis].is_none()).collect();
        let combinations = combinations(&shape);
        let mut chosen: Option<(f64, Pins)> = None;
        let mut true_ones = 0;
        for combination in &combinations {
            let mut at = within.clone();
            for (axis, value) in combination {
                at[*axis] = Some(*value);
            }
            let truth = self.truth(inner, &at)?;
            true_ones += usize::from(truth);
            let margin = self.margin(inner, &at)?;
            // True before false, then by how far.
            let rank = if truth { 1e9 + margin } else { margin - 1e9 };
            let better = match &chosen {
                Some((best, _)) if call.function == Function::All => rank < *best,
                Some((best, _)) => rank > *best,
                None => true,
            };
            if better {
                chosen = Some((rank, at));
            }
        }
        let Some((_, at)) = chosen else { return Ok(String::new()) };
        let text = self.of(inner, &at)?;
        if combinations.len() < 2 {
            return Ok(text);
        }
        let count = combinations.len();
        let open = at.iter().zip(&within).map(|(pin, outer)| if outer.is_none() { *pin } else { None });
        let place = self.table.at(open);
        let how_many = match (call.function, true_ones) {
            (Function::All, all) if all == count => format!("the closest of {count}"),
            (Function::Any, 0) => format!("the closest of {count}"),
            _ => format!("true at {true_ones} of {count}"),
        };
        Ok(format!("{text}{place} ({how_many})"))
    }

    /// Of `increasing` and `decreasing`: the values, or where they go the other way.
    fn course(&self, node: &Node, call: &Call, pins: &Pins) -> Result<String, Problem> {
        let (inner, slack) = (&call.arguments[0], slack(call));
        let axis = self.evaluation.axis(node, call)?;
        let within = Evaluation::within(pins, axis);
        let values = self.evaluation.numbers(inner, &within)?.cells;
        let names = axis.and_then(|axis| self.table.axes().get_index(axis));
        let Some((name, names)) = names else { return Ok(String::new()) };
        let shape = self.evaluation.shape(inner)?;
        let places = shape.iter().find(|(other, _)| Some(*other) == axis).map(|(_, places)| places.clone());
        let at = |step: usize| {
            let place = places.as_ref().and_then(|places| places.get(step));
            place.and_then(|place| names.get(*place)).map_or("", String::as_str)
        };
        let up = call.function == Function::Increasing;
        let shown = |value: &Interval| self.quantity(value.mean, inner);
        let from_to = |verb: &str, [from, to]: [usize; 2]| {
            let [low, high] =
                [from, to].map(|step| format!("{} ({name}={})", shown(&values[step]), at(step)));
            format!("{verb} from {low} to {high}")
        };
        match course(&upward(call.function, &values), slack) {
            Course::Rises => {}
            Course::Falls(from, to) => {
                return Ok(from_to(if up { "falls" } else { "rises" }, [from, to]));
            }
            Course::Stays => {
                let verb = if up { "does not rise" } else { "does not fall" };
                return Ok(from_to(verb, [0, values.len().saturating_sub(1)]));
            }
        }
        let spelt: Vec<String> = if values.len() <= MOST_SPELT {
            values.iter().map(shown).collect()
        } else {
            [values.first(), values.last()].into_iter().flatten().map(shown).collect()
        };
        let between = if values.len() <= MOST_SPELT { ", " } else { " … " };
        Ok(format!("{} along {name}", spelt.join(between)))
    }

    /// Of `above` and `same`.
    fn compared(&self, call: &Call, pins: &Pins) -> Result<String, Problem> {
        let [left, right] = [&call.arguments[0], &call.arguments[1]];
        let [a, b] = [self.number(left, pins)?, self.number(right, pins)?];
        let shown = |value: Interval, node: &Node| {
            let mean = self.quantity(value.mean, node);
            let half = value.half();
            if half > 0.0 { format!("{mean} ± {}", self.quantity(half, node)) } else { mean }
        };
        let fact = match call.function {
            Function::Above if a.low > b.high => "lies above",
            Function::Above => "does not lie above",
            _ if same(a, b, slack(call)) => "is the same as",
            _ => "is not the same as",
        };
        Ok(format!("{} {fact} {}", shown(a, left), shown(b, right)))
    }

    fn truth(&self, node: &Node, pins: &Pins) -> Result<bool, Problem> {
        Ok(self.evaluation.truths(node, pins)?.cells.iter().all(|truth| *truth))
    }

    /// A number at pins that leave no axis open.
    fn number(&self, node: &Node, pins: &Pins) -> Result<Interval, Problem> {
        let values = self.evaluation.numbers(node, pins)?;
        values.cells.first().copied().ok_or_else(|| Problem::new(&node.at, "this has no value"))
    }

    /// How far something is from turning false, or true: relative, and less than 0 where it is false.
    fn margin(&self, node: &Node, pins: &Pins) -> Result<f64, Problem> {
        let relative = |above: f64, below: f64| {
            let scale = above.abs().max(below.abs());
            let margin = (above - below) / scale;
            if margin.is_nan() { 0.0 } else { margin }
        };
        Ok(match &node.expression {
            Expression::And(both) => self.margin(&both[0], pins)?.min(self.margin(&both[1], pins)?),
            Expression::Or(both) => self.margin(&both[0], pins)?.max(self.margin(&both[1], pins)?),
            Expression::Not(inner) => -self.margin(inner, pins)?,
            Expression::Comparison(comparison, both) => {
                let [left, right] = [self.number(&both[0], pins)?.mean, self.number(&both[1], pins)?.mean];
                if let Comparison::Equal | Comparison::NotEqual = comparison {
                    let apart = relative(left, right).abs();
                    return Ok(if *comparison == Comparison::Equal { -apart } else { apart });
                }
                if comparison.holds(1.0, 0.0) { relative(left, right) } else { relative(right, left) }
            }
            Expression::Call(Call { function: Function::Above, arguments, .. }) => {
                relative(self.number(&arguments[0], pins)?.low, self.number(&arguments[1], pins)?.high)
            }
            Expression::Call(Call { function: Function::Same, arguments, .. }) => {
                let [a, b] = [self.number(&arguments[0], pins)?.mean, self.number(&arguments[1], pins)?.mean];
                -relative(a, b).abs()
            }
            _ => 0.0,
        })
    }

    /// A value of `node`'s unit.
    fn quantity(&self, value: f64, node: &Node) -> String {
        match self.unit(node) {
            Some(unit) => show(value, unit),
            None => digits(value),
        }
    }

    /// A number at pins, as it came to be.
    fn show(&self, node: &Node, pins: &Pins, binds: u8) -> Result<String, Problem> {
        Ok(match &node.expression {
            Expression::Number { text, .. } => text.split_whitespace().collect::<Vec<_>>().join(" "),
            Expression::Negative(inner) => format!("−{}", self.show(inner, pins, 3)?),
            Expression::Arithmetic(arithmetic, both) => {
                let own = arithmetic.binds();
                let left = self.show(&both[0], pins, own)?;
                let right = self.show(&both[1], pins, own + 1)?;
                let text = format!("{left} {} {right}", arithmetic.symbol());
                if own < binds { format!("({text})") } else { text }
            }
            Expression::Call(call) if call.function == Function::Ratio => {
                let [left, right] = [&call.arguments[0], &call.arguments[1]];
                let text = format!("{} / {}", self.show(left, pins, 2)?, self.show(right, pins, 3)?);
                if binds > 2 { format!("({text})") } else { text }
            }
            Expression::Call(call) => {
                let value = self.quantity(self.number(node, pins)?.mean, node);
                match call.function {
                    Function::Count => {
                        let axis = self.evaluation.axis(node, call)?;
                        let inner = Evaluation::within(pins, axis);
                        let of = self.evaluation.truths(&call.arguments[0], &inner)?.cells.len();
                        format!("{value} (of {of})")
                    }
                    Function::Min => format!("least {value}"),
                    Function::Max => format!("greatest {value}"),
                    Function::Mean => format!("mean {value}"),
                    _ => value,
                }
            }
            _ => self.quantity(self.number(node, pins)?.mean, node),
        })
    }

    /// The unit in which a number is shown: shares of packets and time in %.
    fn unit(&self, node: &Node) -> Option<&'static str> {
        match &node.expression {
            Expression::Metric { name, .. } => {
                let last = name.rsplit('.').next().unwrap_or_default();
                let share = matches!(last, "percent" | "share" | "utilisation");
                if share { Some("%") } else { self.table.unit(name) }
            }
            Expression::Number { dimension, .. } => dimension.unit(),
            Expression::Negative(inner) => self.unit(inner),
            Expression::Arithmetic(Arithmetic::Plus | Arithmetic::Minus, both) => {
                self.unit(&both[0]).filter(|unit| *unit != "1").or_else(|| self.unit(&both[1]))
            }
            Expression::Arithmetic(arithmetic, both) => {
                let [left, right] = [self.unit(&both[0]), self.unit(&both[1])];
                // A share of a share, and a part of one.
                if left == Some("%") && matches!(both[1].expression, Expression::Number { .. }) {
                    return left;
                }
                if right == Some("%")
                    && *arithmetic == Arithmetic::Times
                    && matches!(both[0].expression, Expression::Number { .. })
                {
                    return right;
                }
                let plain = |unit| if unit == Some("%") { Some("1") } else { unit };
                let [left, right] = [Dimension::of(plain(left)), Dimension::of(plain(right))];
                let joined =
                    if *arithmetic == Arithmetic::Times { left.times(right) } else { left.over(right) };
                joined.unit()
            }
            Expression::Call(call) => match call.function {
                Function::Count | Function::Ratio => Some("1"),
                _ => self.unit(&call.arguments[0]),
            },
            _ => None,
        }
    }
}
