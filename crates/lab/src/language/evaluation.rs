//! What the parts of a condition amount to.
//!
//! Parts are evaluated at *pins*: axes that are held at one value, so that an explanation can speak of one point. An axis that a
//! function reduces is not held within it.

use super::Table;
use super::error::Problem;
use super::expression::{Arithmetic, Call, Expression, Function, Node, Reduces, Selector};
use super::typing::{reduced, select};
use super::value::{Interval, Shape, Values, combinations};

/// By axis, the value at which it is held.
pub(super) type Pins = Vec<Option<usize>>;

/// What `same` calls the same, and its share.
const SAME: f64 = 0.05;

/// The truth of a condition that has been checked.
pub(super) fn truth(root: &Node, table: &Table<'_>) -> Result<bool, Problem> {
    let values = Evaluation { table }.truths(root, &vec![None; table.axes().len()])?;
    Ok(values.cells.iter().all(|cell| *cell))
}

pub(super) struct Evaluation<'a> {
    pub(super) table: &'a Table<'a>,
}

/// How values go, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// None is below the greatest before it, and the last is above the first.
    Rises,
    /// The second of these places is below the first, the greatest before it.
    Falls(usize, usize),
    /// The last is not above the first.
    Stays,
}

/// Whether values rise. Any may be below the greatest before it by `slack`, a share of that.
pub(super) fn course(values: &[f64], slack: f64) -> Course {
    let mut greatest = 0;
    for (place, value) in values.iter().enumerate() {
        let most = values[greatest];
        if *value < most - slack * most.abs() {
            return Course::Falls(greatest, place);
        }
        if *value > most {
            greatest = place;
        }
    }
    let rises = values.first().zip(values.last()).is_some_and(|(first, last)| last > first);
    if rises { Course::Rises } else { Course::Stays }
}

/// What goes up where `function` holds: the means, or less them.
pub(super) fn upward(function: Function, line: &[Interval]) -> Vec<f64> {
    let sign = if function == Function::Decreasing { -1.0 } else { 1.0 };
    line.iter().map(|value| sign * value.mean).collect()
}

/// Whether the two cannot be told apart, or are near enough to each other.
pub(super) fn same(a: Interval, b: Interval, slack: f64) -> bool {
    let overlap = a.low <= b.high && b.low <= a.high;
    overlap || (a.mean - b.mean).abs() <= slack * a.mean.abs().max(b.mean.abs())
}

/// The number that is written as `increasing`'s or `same`'s slack.
pub(super) fn slack(call: &Call) -> f64 {
    let (place, default) = if call.function == Function::Same { (2, SAME) } else { (1, 0.0) };
    match call.arguments.get(place).map(|node| &node.expression) {
        Some(Expression::Number { value, .. }) => *value,
        _ => default,
    }
}

impl Evaluation<'_> {
    /// The pins that hold within a function that reduces `axis`, or all axes.
    pub(super) fn within(pins: &Pins, axis: Option<usize>) -> Pins {
        match axis {
            Some(axis) => pins.iter().enumerate().map(|(other, pin)| pin.filter(|_| other != axis)).collect(),
            None => vec![None; pins.len()],
        }
    }

    /// The axis that a call reduces, and its first argument's shape there.
    pub(super) fn axis(&self, node: &Node, call: &Call) -> Result<Option<usize>, Problem> {
        let open = self.shape(&call.arguments[0])?;
        reduced(self.table.axes(), &open, call, node)
    }

    /// The axes that a part leaves open when none is held.
    pub(super) fn shape(&self, node: &Node) -> Result<Shape, Problem> {
        let either = |both: &[Node; 2]| -> Result<Shape, Problem> {
            let left = self.shape(&both[0])?;
            if left.is_empty() { self.shape(&both[1]) } else { Ok(left) }
        };
        match &node.expression {
            Expression::Number { .. } => Ok(Shape::new()),
            Expression::Metric { selectors, .. } => {
                let chosen = select(self.table.axes(), selectors)?.into_iter().enumerate();
                Ok(chosen.filter(|(_, (_, open))| *open).map(|(axis, (values, _))| (axis, values)).collect())
            }
            Expression::Negative(inner) | Expression::Not(inner) => self.shape(inner),
            Expression::Arithmetic(_, both)
            | Expression::Comparison(_, both)
            | Expression::And(both)
            | Expression::Or(both) => either(both),
            Expression::Call(call) => {
                let open = self.shape(&call.arguments[0])?;
                match call.reduces() {
                    Reduces::Nothing => {
                        let mut shape = open;
                        for argument in &call.arguments[1..] {
                            if shape.is_empty() {
                                shape = self.shape(argument)?;
                            }
                        }
                        Ok(shape)
                    }
                    _ => Ok(match reduced(self.table.axes(), &open, call, node)? {
                        Some(axis) => open.into_iter().filter(|(other, _)| *other != axis).collect(),
                        None => Shape::new(),
                    }),
                }
            }
        }
    }

    pub(super) fn numbers(&self, node: &Node, pins: &Pins) -> Result<Values<Interval>, Problem> {
        match &node.expression {
            Expression::Number { value, .. } => Ok(Values::one(Interval::exactly(*value))),
            Expression::Metric { name, selectors } => self.metric(node, name, selectors, pins),
            Expression::Negative(inner) => {
                let Values { shape, cells } = self.numbers(inner, pins)?;
                Ok(Values { shape, cells: cells.into_iter().map(Interval::negative).collect() })
            }
            Expression::Arithmetic(arithmetic, both) => {
                let [left, right] = [self.numbers(&both[0], pins)?, self.numbers(&both[1], pins)?];
                let joined = left.pair(&right, |a, b| match arithmetic {
                    Arithmetic::Plus => Some(a.plus(b)),
                    Arithmetic::Minus => Some(a.plus(b.negative())),
                    Arithmetic::Times => Some(a.times(b)),
                    Arithmetic::Over => a.over(b),
                });
                joined.ok_or_else(|| nothing_by_nothing(node))
            }
            Expression::Call(call) => self.number_of_call(node, call, pins),
            _ => Err(Problem::new(&node.at, "this is no number")),
        }
    }

    fn metric(
        &self,
        node: &Node,
        name: &str,
        selectors: &[Selector],
        pins: &Pins,
    ) -> Result<Values<Interval>, Problem> {
        let chosen = select(self.table.axes(), selectors)?;
        let mut place: Vec<usize> = chosen.iter().map(|(values, _)| values[0]).collect();
        let mut shape = Shape::new();
        for (axis, (values, open)) in chosen.into_iter().enumerate() {
            match pins[axis] {
                Some(pin) if open => place[axis] = pin,
                _ if open => shape.push((axis, values)),
                _ => {}
            }
        }
        let mut cells = Vec::new();
        for combination in combinations(&shape) {
            for (axis, value) in combination {
                place[axis] = value;
            }
            let estimate =
                self.table.value(name, &place).map_err(|message| Problem::new(&node.at, message))?;
            cells.push(Interval::around(estimate.mean, estimate.ci95));
        }
        Ok(Values { shape, cells })
    }

    fn number_of_call(&self, node: &Node, call: &Call, pins: &Pins) -> Result<Values<Interval>, Problem> {
        let first = &call.arguments[0];
        match call.function {
            Function::Abs => {
                let Values { shape, cells } = self.numbers(first, pins)?;
                return Ok(Values { shape, cells: cells.into_iter().map(Interval::absolute).collect() });
            }
            Function::Ratio => {
                let [a, b] = [self.numbers(first, pins)?, self.numbers(&call.arguments[1], pins)?];
                return a.pair(&b, Interval::over).ok_or_else(|| nothing_by_nothing(node));
            }
            _ if call.reduces() == Reduces::Nothing => return self.of_several(node, call, pins),
            _ => {}
        }
        let axis = self.axis(node, call)?;
        let inner = Self::within(pins, axis);
        if call.function == Function::Count {
            let count = |truths: &[bool]| truths.iter().filter(|truth| **truth).count() as f64;
            return Ok(self.truths(first, &inner)?.reduce(axis, |truths| Interval::exactly(count(truths))));
        }
        let values = self.numbers(first, &inner)?;
        Ok(values.reduce(axis, |line| one_of(call.function, line)))
    }

    /// `min`, `max` and `mean` of several arguments, value by value.
    fn of_several(&self, node: &Node, call: &Call, pins: &Pins) -> Result<Values<Interval>, Problem> {
        let arguments: Result<Vec<_>, _> =
            call.arguments.iter().map(|argument| self.numbers(argument, pins)).collect();
        let arguments = arguments?;
        let widest = arguments.iter().max_by_key(|values| values.cells.len());
        let Some(widest) = widest else { return Err(Problem::new(&node.at, "nothing to choose from")) };
        let cell = |place: usize| {
            let of = |values: &Values<Interval>| {
                values.cells.get(if values.shape.is_empty() { 0 } else { place }).copied()
            };
            one_of(call.function, &arguments.iter().filter_map(of).collect::<Vec<_>>())
        };
        Ok(Values { shape: widest.shape.clone(), cells: (0..widest.cells.len()).map(cell).collect() })
    }

    pub(super) fn truths(&self, node: &Node, pins: &Pins) -> Result<Values<bool>, Problem> {
        let both = |both: &[Node; 2], with: fn(bool, bool) -> bool| -> Result<Values<bool>, Problem> {
            let [left, right] = [self.truths(&both[0], pins)?, self.truths(&both[1], pins)?];
            left.pair(&right, |a, b| Some(with(a, b)))
                .ok_or_else(|| Problem::new(&node.at, "nothing to pair"))
        };
        match &node.expression {
            Expression::Not(inner) => {
                let Values { shape, cells } = self.truths(inner, pins)?;
                Ok(Values { shape, cells: cells.into_iter().map(|truth| !truth).collect() })
            }
            Expression::And(sides) => both(sides, |a, b| a && b),
            Expression::Or(sides) => both(sides, |a, b| a || b),
            Expression::Comparison(comparison, sides) => {
                let [left, right] = [self.numbers(&sides[0], pins)?, self.numbers(&sides[1], pins)?];
                left.pair(&right, |a, b| Some(comparison.holds(a.mean, b.mean)))
                    .ok_or_else(|| Problem::new(&node.at, "nothing to pair"))
            }
            Expression::Call(call) => self.truth_of_call(node, call, pins),
            _ => Err(Problem::new(&node.at, "this is neither true nor false")),
        }
    }

    fn truth_of_call(&self, node: &Node, call: &Call, pins: &Pins) -> Result<Values<bool>, Problem> {
        let first = &call.arguments[0];
        let slack = slack(call);
        if let Function::Above | Function::Same = call.function {
            let [a, b] = [self.numbers(first, pins)?, self.numbers(&call.arguments[1], pins)?];
            if !a.cells.iter().chain(&b.cells).all(|value| value.known) {
                let what = call.function.name();
                let why = "there is none of a single run, nor of runs that are all the same";
                return Err(Problem::new(&node.at, format!("{what} compares intervals, and {why}")));
            }
            let truths = a.pair(&b, |a, b| {
                Some(if call.function == Function::Above { a.low > b.high } else { same(a, b, slack) })
            });
            return truths.ok_or_else(|| Problem::new(&node.at, "nothing to pair"));
        }
        let axis = self.axis(node, call)?;
        let inner = Self::within(pins, axis);
        if let Function::All | Function::Any = call.function {
            let truths = self.truths(first, &inner)?;
            return Ok(truths.reduce(axis, |line| {
                if call.function == Function::All {
                    line.iter().all(|truth| *truth)
                } else {
                    line.iter().any(|truth| *truth)
                }
            }));
        }
        let single = |axis: &usize| {
            let shape = self.shape(first).unwrap_or_default();
            shape.iter().any(|(other, values)| other == axis && values.len() < 2)
        };
        if let Some((name, _)) = axis.filter(single).and_then(|axis| self.table.axes().get_index(axis)) {
            return Err(Problem::new(&node.at, format!("there is one value along {name} only")));
        }
        let rises = |line: &[Interval]| course(&upward(call.function, line), slack) == Course::Rises;
        Ok(self.numbers(first, &inner)?.reduce(axis, rises))
    }
}

/// The value that a function makes of some.
fn one_of(function: Function, values: &[Interval]) -> Interval {
    let by_mean = |a: &&Interval, b: &&Interval| a.mean.total_cmp(&b.mean);
    let chosen = match function {
        Function::Min => values.iter().min_by(by_mean),
        Function::Max => values.iter().max_by(by_mean),
        Function::First => values.first(),
        Function::Last => values.last(),
        _ => None,
    };
    chosen.copied().unwrap_or_else(|| {
        let share = Interval::exactly(1.0 / values.len() as f64);
        values.iter().copied().fold(Interval::exactly(0.0), Interval::plus).times(share)
    })
}

fn nothing_by_nothing(node: &Node) -> Problem {
    Problem::new(&node.at, "this divides nothing by nothing")
}
