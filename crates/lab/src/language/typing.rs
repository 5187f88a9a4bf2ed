//! What a condition means for an experiment, before there are results: which axes each part leaves open, and in what unit it is.

use super::dimension::Dimension;
use super::error::Problem;
use super::expression::{Arithmetic, Call, Expression, Function, Node, Reduces, Selector};
use super::value::Shape;
use super::{Axes, Metrics};

/// A number or a truth over points.
#[derive(Debug, Clone, PartialEq)]
struct Type {
    /// Of a number; none of a truth.
    number: Option<Dimension>,
    shape: Shape,
}

pub(super) fn check(root: &Node, axes: &Axes, metrics: &Metrics<'_>) -> Result<(), Problem> {
    let typing = Typing { axes, metrics };
    let found = typing.truth(root)?;
    if found.is_empty() {
        return Ok(());
    }
    let message = format!(
        "this is a value for each of {}: a condition is one; put all(…) or any(…) round it, or select a point with [axis=value]",
        names(axes, &found)
    );
    Err(Problem::new(&root.at, message))
}

/// The axes of a shape, in words.
fn names(axes: &Axes, shape: &Shape) -> String {
    let name = |(axis, values): &(usize, Vec<usize>)| {
        axes.get_index(*axis).map(|(name, _)| format!("{name} ({} values)", values.len()))
    };
    shape.iter().filter_map(name).collect::<Vec<_>>().join(" × ")
}

/// The values that selectors leave, by axis: one is chosen, or several stay open.
pub(super) fn select(
    axes: &Axes,
    selectors: &[Selector],
) -> Result<Vec<(Vec<usize>, /* open */ bool)>, Problem> {
    let mut chosen: Vec<_> = axes.values().map(|values| ((0..values.len()).collect(), true)).collect();
    let mut seen = Vec::new();
    for selector in selectors {
        let Some((axis, _, values)) = axes.get_full(&selector.axis) else {
            let allowed = axes.keys().cloned().collect::<Vec<_>>().join(", ");
            let message = if allowed.is_empty() {
                format!("there is no axis {}: nothing is swept", selector.axis)
            } else {
                format!("there is no axis {}; allowed: {allowed}", selector.axis)
            };
            return Err(Problem::new(&selector.at, message));
        };
        if seen.contains(&axis) {
            return Err(Problem::new(&selector.at, format!("{} is selected twice", selector.axis)));
        }
        seen.push(axis);
        let mut places = Vec::new();
        for (at, value) in &selector.values {
            let Some(place) = values.iter().position(|other| alike(other, value)) else {
                let message = format!("{} is never {value:?}; allowed: {}", selector.axis, values.join(", "));
                return Err(Problem::new(at, message));
            };
            places.push(place);
        }
        // In the axis' order, whatever that of the selector.
        places.sort_unstable();
        places.dedup();
        let open = selector.values.len() > 1;
        chosen[axis] = (places, open);
    }
    Ok(chosen)
}

/// The same but for spaces: `50ms` and `50 ms`.
fn alike(one: &str, other: &str) -> bool {
    let solid = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    one == other || solid(one) == solid(other)
}

/// The axis that a function reduces: one, or all of them.
pub(super) fn reduced(
    axes: &Axes,
    shape: &Shape,
    call: &Call,
    node: &Node,
) -> Result<Option<usize>, Problem> {
    let name = call.function.name();
    if let Some((at, axis)) = &call.along {
        if call.reduces() == Reduces::Nothing {
            return Err(Problem::new(at, format!("{name} does not go along an axis")));
        }
        let place = axes.get_index_of(axis).filter(|place| shape.iter().any(|(open, _)| open == place));
        let open = if shape.is_empty() { "none".to_owned() } else { names(axes, shape) };
        return match place {
            Some(place) => Ok(Some(place)),
            None => Err(Problem::new(at, format!("{axis} is not open here; open are: {open}"))),
        };
    }
    match (call.reduces(), shape.as_slice()) {
        (Reduces::One, []) => {
            Err(Problem::new(&node.at, format!("{name} needs values along an axis; this is one value")))
        }
        (Reduces::One, [(axis, _)]) => Ok(Some(*axis)),
        (Reduces::One, _) => {
            let message = format!(
                "{name} goes along one axis, and {} are open: say which, {name}(… along {})",
                names(axes, shape),
                shape.last().and_then(|(axis, _)| axes.get_index(*axis)).map_or("", |(name, _)| name)
            );
            Err(Problem::new(&node.at, message))
        }
        _ => Ok(None),
    }
}

struct Typing<'a> {
    axes: &'a Axes,
    metrics: &'a Metrics<'a>,
}

impl Typing<'_> {
    fn truth(&self, node: &Node) -> Result<Shape, Problem> {
        match self.of(node)? {
            Type { number: None, shape } => Ok(shape),
            _ => Err(Problem::new(
                &node.at,
                "this is a number where something true or false was expected, such as a comparison",
            )),
        }
    }

    fn number(&self, node: &Node) -> Result<(Dimension, Shape), Problem> {
        match self.of(node)? {
            Type { number: Some(dimension), shape } => Ok((dimension, shape)),
            _ => Err(Problem::new(&node.at, "this is true or false where a number was expected")),
        }
    }

    fn of(&self, node: &Node) -> Result<Type, Problem> {
        Ok(match &node.expression {
            Expression::Number { dimension, .. } => Type { number: Some(*dimension), shape: Shape::new() },
            Expression::Metric { name, selectors } => {
                let unit = (self.metrics)(name).map_err(|why| Problem::new(&node.at, why))?;
                let chosen = select(self.axes, selectors)?.into_iter().enumerate();
                let open = chosen.filter(|(_, (_, open))| *open).map(|(axis, (values, _))| (axis, values));
                Type { number: Some(Dimension::of(unit)), shape: open.collect() }
            }
            Expression::Negative(inner) => {
                let (dimension, shape) = self.number(inner)?;
                Type { number: Some(dimension), shape }
            }
            Expression::Not(inner) => Type { number: None, shape: self.truth(inner)? },
            Expression::And(both) | Expression::Or(both) => {
                let [left, right] = [self.truth(&both[0])?, self.truth(&both[1])?];
                Type { number: None, shape: self.paired(node, left, right)? }
            }
            Expression::Comparison(_, both) => {
                let (_, shape) = self.alike(node, both)?;
                Type { number: None, shape }
            }
            Expression::Arithmetic(arithmetic, both) => {
                if matches!(arithmetic, Arithmetic::Plus | Arithmetic::Minus) {
                    let (dimension, shape) = self.alike(node, both)?;
                    return Ok(Type { number: Some(dimension), shape });
                }
                let [(left, left_shape), (right, right_shape)] =
                    [self.number(&both[0])?, self.number(&both[1])?];
                let dimension =
                    if *arithmetic == Arithmetic::Times { left.times(right) } else { left.over(right) };
                Type { number: Some(dimension), shape: self.paired(node, left_shape, right_shape)? }
            }
            Expression::Call(call) => self.call(node, call)?,
        })
    }

    fn call(&self, node: &Node, call: &Call) -> Result<Type, Problem> {
        let first = &call.arguments[0];
        let (number, open) = match call.function {
            Function::All | Function::Any | Function::Count => (None, self.truth(first)?),
            _ => {
                let (dimension, shape) = self.number(first)?;
                (Some(dimension), shape)
            }
        };
        let axis = reduced(self.axes, &open, call, node)?;
        if let (Function::Min | Function::Max | Function::Mean, Reduces::Nothing) =
            (call.function, call.reduces())
        {
            let (mut number, mut shape) = (number, open);
            for argument in &call.arguments[1..] {
                let (dimension, other) = self.pair(node, first, argument)?;
                number = Some(dimension);
                shape = self.paired(node, shape, other)?;
            }
            return Ok(Type { number, shape });
        }
        let left = match axis {
            Some(axis) => open.iter().filter(|(other, _)| *other != axis).cloned().collect(),
            None => Shape::new(),
        };
        Ok(match call.function {
            Function::All | Function::Any => Type { number: None, shape: left },
            Function::Count => Type { number: Some(Dimension::NONE), shape: left },
            Function::Min | Function::Max | Function::Mean | Function::First | Function::Last => {
                Type { number, shape: left }
            }
            Function::Abs => Type { number, shape: open },
            Function::Increasing | Function::Decreasing => {
                slack(call.arguments.get(1))?;
                Type { number: None, shape: left }
            }
            Function::Ratio => {
                let (_, shape) = self.pair(node, first, &call.arguments[1])?;
                Type { number: Some(Dimension::NONE), shape }
            }
            Function::Above | Function::Same => {
                slack(call.arguments.get(2))?;
                let (_, shape) = self.pair(node, first, &call.arguments[1])?;
                Type { number: None, shape }
            }
        })
    }

    fn alike(&self, node: &Node, both: &[Node; 2]) -> Result<(Dimension, Shape), Problem> {
        self.pair(node, &both[0], &both[1])
    }

    /// Two numbers in the same unit.
    fn pair(&self, node: &Node, left: &Node, right: &Node) -> Result<(Dimension, Shape), Problem> {
        let [(one, left_shape), (other, right_shape)] = [self.number(left)?, self.number(right)?];
        let Some(dimension) = one.with(other) else {
            let message = format!("the left side has {one} and the right side {other}");
            return Err(Problem::new(&node.at, message));
        };
        Ok((dimension, self.paired(node, left_shape, right_shape)?))
    }

    fn paired(&self, node: &Node, left: Shape, right: Shape) -> Result<Shape, Problem> {
        if right.is_empty() || left == right {
            return Ok(left);
        }
        if left.is_empty() {
            return Ok(right);
        }
        let message = format!(
            "the left side has a value for each of {}, the right side for each of {}: these cannot be paired",
            names(self.axes, &left),
            names(self.axes, &right)
        );
        Err(Problem::new(&node.at, message))
    }
}

/// A number that is written, and no less than 0.
fn slack(slack: Option<&Node>) -> Result<(), Problem> {
    let Some(node) = slack else { return Ok(()) };
    match &node.expression {
        Expression::Number { dimension: Dimension::Any | Dimension::NONE, .. } => Ok(()),
        _ => Err(Problem::new(&node.at, "slack is a share, such as 0.05 or 5 %")),
    }
}
