//! What a condition means for an experiment, before there are results: which axes each part leaves open, and in what unit it is.

use trunkline_engine::catalogue::Unit;

use super::dimension::Dimension;
use super::error::Problem;
use super::expression::{Expression, Function, Node, Operator, Selector};
use super::{Axes, Metrics};

/// The axes that are open, by their place in the sweep.
pub(super) type Shape = Vec<usize>;

/// A number or a truth over points.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Type {
    /// Of a number; none of a truth.
    number: Option<Dimension>,
    /// Whether people read it in %.
    percent: bool,
    pub(super) shape: Shape,
}

impl Type {
    /// The unit in which a number is shown.
    pub(super) fn unit(&self) -> Option<&'static str> {
        if self.percent { Some("%") } else { self.number?.unit() }
    }
}

pub(super) fn check(root: &Node, axes: &Axes, metrics: &Metrics<'_>) -> Result<(), Problem> {
    let found = Typing { axes, metrics }.truth(root)?;
    if found.is_empty() {
        return Ok(());
    }
    let message = format!(
        "this is a value for each of {}: a condition is one; put all(…) or any(…) round it, or select a point with [axis=value]",
        names(axes, &found)
    );
    Err(Problem::new(&root.at, message))
}

/// Whether it is one number without a unit.
pub(super) fn check_ratio(root: &Node, axes: &Axes, metrics: &Metrics<'_>) -> Result<(), Problem> {
    let (dimension, found) = Typing { axes, metrics }.number(root)?;
    if dimension.with(Dimension::NONE).is_none() {
        return Err(Problem::new(&root.at, format!("this has {dimension} where a ratio was expected")));
    }
    if !found.shape.is_empty() {
        let message = format!(
            "this is a value for each of {}: a published ratio is one; put min(…), max(…) or mean(…) round it, or select a point with [axis=value]",
            names(axes, &found.shape)
        );
        return Err(Problem::new(&root.at, message));
    }
    Ok(())
}

/// The axes of a shape, in words.
fn names(axes: &Axes, shape: &Shape) -> String {
    let name = |axis: &usize| {
        axes.get_index(*axis).map(|(name, values)| format!("{name} ({} values)", values.len()))
    };
    shape.iter().filter_map(name).collect::<Vec<_>>().join(" × ")
}

/// For each axis, the place of the value that a selector chooses; none of an axis that stays open.
pub(super) fn select(axes: &Axes, selectors: &[Selector]) -> Result<Vec<Option<usize>>, Problem> {
    let mut chosen = vec![None; axes.len()];
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
        let Some(place) = values.iter().position(|other| alike(other, &selector.value)) else {
            let message =
                format!("{} is never {:?}; allowed: {}", selector.axis, selector.value, values.join(", "));
            return Err(Problem::new(&selector.value_at, message));
        };
        if chosen[axis].replace(place).is_some() {
            return Err(Problem::new(&selector.at, format!("{} is selected twice", selector.axis)));
        }
    }
    Ok(chosen)
}

/// The same but for spaces: `50ms` and `50 ms`.
fn alike(one: &str, other: &str) -> bool {
    let solid = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    one == other || solid(one) == solid(other)
}

pub(super) struct Typing<'a> {
    pub(super) axes: &'a Axes,
    pub(super) metrics: &'a Metrics<'a>,
}

impl Typing<'_> {
    fn truth(&self, node: &Node) -> Result<Shape, Problem> {
        match self.of(node)? {
            Type { number: None, shape, .. } => Ok(shape),
            _ => Err(Problem::new(
                &node.at,
                "this is a number where something true or false was expected, such as a comparison",
            )),
        }
    }

    fn number(&self, node: &Node) -> Result<(Dimension, Type), Problem> {
        let found = self.of(node)?;
        match found.number {
            Some(dimension) => Ok((dimension, found)),
            None => Err(Problem::new(&node.at, "this is true or false where a number was expected")),
        }
    }

    pub(super) fn of(&self, node: &Node) -> Result<Type, Problem> {
        let truth = |shape| Type { number: None, percent: false, shape };
        Ok(match &node.expression {
            Expression::Number { dimension, .. } => {
                Type { number: Some(*dimension), percent: false, shape: Shape::new() }
            }
            Expression::Metric { name, selectors } => {
                let unit = (self.metrics)(name).map_err(|why| Problem::new(&node.at, why))?;
                let chosen = select(self.axes, selectors)?;
                Type {
                    number: Some(Dimension::of(unit)),
                    percent: unit == Some(Unit::Ratio),
                    shape: (0..chosen.len()).filter(|axis| chosen[*axis].is_none()).collect(),
                }
            }
            Expression::Binary(Operator::And | Operator::Or, both) => {
                truth(self.paired(node, self.truth(&both[0])?, self.truth(&both[1])?)?)
            }
            Expression::Binary(operator, both) if operator.compares() => {
                truth(self.alike(node, &both[0], &both[1])?.shape)
            }
            Expression::Binary(Operator::Plus | Operator::Minus, both) => {
                self.alike(node, &both[0], &both[1])?
            }
            Expression::Binary(operator, both) => {
                let [(one, left), (other, right)] = [self.number(&both[0])?, self.number(&both[1])?];
                let times = *operator == Operator::Times;
                // A multiple of a ratio is shown as the ratio is, a ratio of ratios is not.
                let is_number = |node: &Node| matches!(node.expression, Expression::Number { .. });
                Type {
                    number: Some(if times { one.times(other) } else { one.over(other) }),
                    percent: left.percent && is_number(&both[1])
                        || times && right.percent && is_number(&both[0]),
                    shape: self.paired(node, left.shape, right.shape)?,
                }
            }
            Expression::Call(function, arguments) => self.call(node, *function, arguments)?,
        })
    }

    fn call(&self, node: &Node, function: Function, arguments: &[Node]) -> Result<Type, Problem> {
        let first = &arguments[0];
        if let Function::All | Function::Any = function {
            self.truth(first)?;
            return Ok(Type { number: None, percent: false, shape: Shape::new() });
        }
        let (_, mut found) = self.number(first)?;
        let name = function.name();
        match found.shape.as_slice() {
            [_] => {}
            _ if !function.is_along_one_axis() => {}
            [] => {
                return Err(Problem::new(
                    &node.at,
                    format!("{name} needs values along an axis; this is one value"),
                ));
            }
            open => {
                let message = format!(
                    "{name} goes along one axis, and {} are open: leave one open, and select values of the others with [axis=value]",
                    names(self.axes, &open.to_vec())
                );
                return Err(Problem::new(&node.at, message));
            }
        }
        if let Function::Increasing | Function::Decreasing = function {
            slack(arguments.get(1))?;
            found.number = None;
        } else {
            for argument in &arguments[1..] {
                let other = self.alike(node, first, argument)?;
                found = Type { shape: self.paired(node, found.shape, other.shape)?, ..other };
            }
        }
        if function.reduces(arguments) {
            found.shape = Shape::new();
        }
        Ok(found)
    }

    /// Two numbers in the same unit.
    fn alike(&self, node: &Node, left: &Node, right: &Node) -> Result<Type, Problem> {
        let [(one, left), (other, right)] = [self.number(left)?, self.number(right)?];
        let Some(dimension) = one.with(other) else {
            let message = format!("the left side has {one} and the right side {other}");
            return Err(Problem::new(&node.at, message));
        };
        Ok(Type {
            number: Some(dimension),
            percent: left.percent || right.percent,
            shape: self.paired(node, left.shape, right.shape)?,
        })
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
        _ => Err(Problem::new(&node.at, "slack is a ratio, such as 0.05 or 5 %")),
    }
}
