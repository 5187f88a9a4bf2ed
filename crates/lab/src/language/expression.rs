//! What a condition is made of.

use std::ops::Range;

use super::dimension::Dimension;

/// An expression and where it stands in the text.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) at: Range<usize>,
    pub(super) expression: Expression,
}

#[derive(Debug, Clone)]
pub(super) enum Expression {
    /// A number, in base units, and as it was written.
    Number {
        value: f64,
        dimension: Dimension,
        text: String,
    },
    Metric {
        name: String,
        selectors: Vec<Selector>,
    },
    Arithmetic(Arithmetic, Box<[Node; 2]>),
    Comparison(Comparison, Box<[Node; 2]>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Call(Function, Vec<Node>),
}

/// `[axis=value]`.
#[derive(Debug, Clone)]
pub(super) struct Selector {
    pub(super) at: Range<usize>,
    pub(super) axis: String,
    pub(super) value: String,
    pub(super) value_at: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Plus,
    Minus,
    Times,
    Over,
}

impl Arithmetic {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Arithmetic::Plus => "+",
            Arithmetic::Minus => "−",
            Arithmetic::Times => "×",
            Arithmetic::Over => "/",
        }
    }

    pub(super) fn binds(self) -> u8 {
        match self {
            Arithmetic::Plus | Arithmetic::Minus => 1,
            Arithmetic::Times | Arithmetic::Over => 2,
        }
    }

    pub(super) fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Arithmetic::Plus => a + b,
            Arithmetic::Minus => a - b,
            Arithmetic::Times => a * b,
            Arithmetic::Over => a / b,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
}

impl Comparison {
    /// How it is written where it is true, and where it is false.
    pub(super) fn symbol(self, holds: bool) -> &'static str {
        match (self, holds) {
            (Comparison::Less, true) | (Comparison::GreaterOrEqual, false) => "<",
            (Comparison::LessOrEqual, true) | (Comparison::Greater, false) => "≤",
            (Comparison::Greater, true) | (Comparison::LessOrEqual, false) => ">",
            (Comparison::GreaterOrEqual, true) | (Comparison::Less, false) => "≥",
            (Comparison::Equal, true) => "=",
            (Comparison::Equal, false) => "≠",
        }
    }

    #[allow(clippy::float_cmp, reason = "who writes == means it: of counts")]
    pub(super) fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Comparison::Less => a < b,
            Comparison::LessOrEqual => a <= b,
            Comparison::Greater => a > b,
            Comparison::GreaterOrEqual => a >= b,
            Comparison::Equal => a == b,
        }
    }
}

/// What can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    All,
    Any,
    Min,
    Max,
    Mean,
    First,
    Last,
    Abs,
    Increasing,
    Decreasing,
}

impl Function {
    const EVERY: [(&'static str, Function); 10] = [
        ("all", Function::All),
        ("any", Function::Any),
        ("min", Function::Min),
        ("max", Function::Max),
        ("mean", Function::Mean),
        ("first", Function::First),
        ("last", Function::Last),
        ("abs", Function::Abs),
        ("increasing", Function::Increasing),
        ("decreasing", Function::Decreasing),
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::EVERY.iter().find(|(other, _)| *other == name).map(|(_, function)| *function)
    }

    pub(super) fn name(self) -> &'static str {
        Self::EVERY.iter().find(|(_, other)| *other == self).map_or("", |(name, _)| name)
    }

    pub(super) fn names() -> String {
        Self::EVERY.map(|(name, _)| name).join(", ")
    }

    /// How many arguments it takes, at least and at most.
    pub(super) fn arity(self) -> (usize, usize) {
        match self {
            Function::All | Function::Any | Function::First | Function::Last | Function::Abs => (1, 1),
            Function::Min | Function::Max | Function::Mean => (1, 32),
            Function::Increasing | Function::Decreasing => (1, 2),
        }
    }

    /// Whether it makes one value of all, or works value by value.
    pub(super) fn reduces(self, arguments: &[Node]) -> bool {
        match self {
            Function::Abs => false,
            Function::Min | Function::Max | Function::Mean => arguments.len() == 1,
            _ => true,
        }
    }

    /// Whether its values must lie along exactly one axis.
    pub(super) fn is_along_one_axis(self) -> bool {
        matches!(self, Function::First | Function::Last | Function::Increasing | Function::Decreasing)
    }
}
