//! What the parts of a condition amount to.
//!
//! Parts are evaluated at *pins*: axes that are held at one value, so that an explanation can speak of one point. Within a function
//! that reduces its values no axis is held.

use super::Table;
use super::error::Problem;
use super::expression::{Expression, Function, Node};
use super::typing::{Shape, Type, Typing, select};

/// By axis, the value at which it is held.
pub(super) type Pins = Vec<Option<usize>>;

pub(super) struct Evaluation<'a> {
    pub(super) table: &'a Table<'a>,
}

/// How values go, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// None is below the maximum before it, and the last is above the first.
    Rises,
    /// The second of these places is below the first, the maximum before it.
    Falls(usize, usize),
    /// The last is not above the first.
    Stays,
}

/// Whether values rise. Any may be below the maximum before it by `slack`, a ratio of that.
pub(super) fn course(values: &[f64], slack: f64) -> Course {
    let mut max = 0;
    for (place, value) in values.iter().enumerate() {
        let so_far = values[max];
        if *value < so_far - slack * so_far.abs() {
            return Course::Falls(max, place);
        }
        if *value > so_far {
            max = place;
        }
    }
    let rises = values.first().zip(values.last()).is_some_and(|(first, last)| last > first);
    if rises { Course::Rises } else { Course::Stays }
}

/// What goes up where `function` holds: the values, or the negative ones.
pub(super) fn upward(function: Function, values: &[f64]) -> Vec<f64> {
    let sign = if function == Function::Decreasing { -1.0 } else { 1.0 };
    values.iter().map(|value| sign * value).collect()
}

/// The number that is written as the slack of `increasing`.
pub(super) fn slack(arguments: &[Node]) -> f64 {
    match arguments.get(1).map(|node| &node.expression) {
        Some(Expression::Number { value, .. }) => *value,
        _ => 0.0,
    }
}

/// Pairs values; a side with one value goes with every value of the other.
fn pair<T: Copy, R>(left: &[T], right: &[T], with: impl Fn(T, T) -> R) -> Vec<R> {
    let at = |side: &[T], place: usize| side[if side.len() == 1 { 0 } else { place }];
    (0..left.len().max(right.len())).map(|place| with(at(left, place), at(right, place))).collect()
}

impl Evaluation<'_> {
    pub(super) fn type_of(&self, node: &Node) -> Result<Type, Problem> {
        Typing { axes: self.table.axes(), metrics: &|metric| Ok(self.table.unit(metric)) }.of(node)
    }

    /// Every combination of the values of open axes, in the order of the sweep.
    pub(super) fn combinations(&self, shape: &Shape, pins: &Pins) -> Vec<Pins> {
        let mut all = vec![pins.clone()];
        for &axis in shape.iter().filter(|axis| pins[**axis].is_none()) {
            let values = self.table.axes().get_index(axis).map_or(0, |(_, values)| values.len());
            let with = |at: Pins| {
                (0..values).map(move |value| {
                    let mut at = at.clone();
                    at[axis] = Some(value);
                    at
                })
            };
            all = all.into_iter().flat_map(with).collect();
        }
        all
    }

    pub(super) fn none(&self) -> Pins {
        vec![None; self.table.axes().len()]
    }

    /// The values of a node, the last axis varying fastest; 1 is true and 0 is false.
    pub(super) fn numbers(&self, node: &Node, pins: &Pins) -> Result<Vec<f64>, Problem> {
        match &node.expression {
            Expression::Number { value, .. } => Ok(vec![*value]),
            Expression::Metric { name, selectors } => {
                let chosen = select(self.table.axes(), selectors)?;
                let shape: Shape = (0..chosen.len()).filter(|axis| chosen[*axis].is_none()).collect();
                let pins = chosen.iter().zip(pins).map(|(chosen, pin)| chosen.or(*pin)).collect();
                let value = |at: Pins| {
                    let place: Vec<usize> = at.into_iter().map(Option::unwrap_or_default).collect();
                    self.table.value(name, &place).map_err(|message| Problem::new(&node.at, message))
                };
                self.combinations(&shape, &pins).into_iter().map(value).collect()
            }
            Expression::Binary(operator, both) => {
                let [left, right] = [self.numbers(&both[0], pins)?, self.numbers(&both[1], pins)?];
                let values = pair(&left, &right, |a, b| operator.of(a, b));
                if values.iter().any(|value| value.is_nan()) {
                    return Err(Problem::new(&node.at, "this divides nothing by nothing"));
                }
                Ok(values)
            }
            Expression::Call(Function::Abs, arguments) => {
                Ok(self.numbers(&arguments[0], pins)?.into_iter().map(f64::abs).collect())
            }
            Expression::Call(function @ (Function::Increasing | Function::Decreasing), arguments) => {
                let values = self.numbers(&arguments[0], &self.none())?;
                if let [_] = values.as_slice() {
                    let axis = self.type_of(&arguments[0])?.shape.first().copied().unwrap_or_default();
                    let name = self.table.axes().get_index(axis).map_or("", |(name, _)| name);
                    return Err(Problem::new(&node.at, format!("there is one value along {name} only")));
                }
                Ok(vec![f64::from(course(&upward(*function, &values), slack(arguments)) == Course::Rises)])
            }
            Expression::Call(function, arguments) if function.reduces(arguments) => {
                Ok(vec![one_of(*function, &self.numbers(&arguments[0], &self.none())?)])
            }
            Expression::Call(function, arguments) => {
                let values: Vec<_> = arguments
                    .iter()
                    .map(|argument| self.numbers(argument, pins))
                    .collect::<Result<_, _>>()?;
                let count = values.iter().map(Vec::len).max().unwrap_or(0);
                let at = |place: usize| -> Vec<f64> {
                    values.iter().map(|values| values[if values.len() == 1 { 0 } else { place }]).collect()
                };
                Ok((0..count).map(|place| one_of(*function, &at(place))).collect())
            }
        }
    }

    /// Whether something is true at pins that leave no axis open.
    pub(super) fn truth(&self, node: &Node, pins: &Pins) -> Result<bool, Problem> {
        Ok(self.numbers(node, pins)?.into_iter().all(|truth| truth != 0.0))
    }

    /// A number at pins that leave no axis open.
    pub(super) fn number(&self, node: &Node, pins: &Pins) -> Result<f64, Problem> {
        let values = self.numbers(node, pins)?;
        values.first().copied().ok_or_else(|| Problem::new(&node.at, "this has no value"))
    }
}

/// The value that a function makes of some.
fn one_of(function: Function, values: &[f64]) -> f64 {
    let chosen = match function {
        Function::Min | Function::All => values.iter().copied().min_by(f64::total_cmp),
        Function::Max | Function::Any => values.iter().copied().max_by(f64::total_cmp),
        Function::First => values.first().copied(),
        Function::Last => values.last().copied(),
        _ => None,
    };
    chosen.unwrap_or_else(|| values.iter().sum::<f64>() * (1.0 / values.len() as f64))
}
