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
    Binary(Operator, Box<[Node; 2]>),
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

/// An operator between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    Plus,
    Minus,
    Times,
    Over,
}

impl Operator {
    /// How each is written, and how strongly it binds.
    const EVERY: [(&'static str, Operator, u8); 11] = [
        ("or", Operator::Or, 1),
        ("and", Operator::And, 2),
        ("<", Operator::Less, 3),
        ("<=", Operator::LessOrEqual, 3),
        (">", Operator::Greater, 3),
        (">=", Operator::GreaterOrEqual, 3),
        ("==", Operator::Equal, 3),
        ("+", Operator::Plus, 4),
        ("-", Operator::Minus, 4),
        ("*", Operator::Times, 5),
        ("/", Operator::Over, 5),
    ];

    pub(super) fn written(text: &str) -> Option<Self> {
        Self::EVERY.iter().find(|(written, ..)| *written == text).map(|(_, operator, _)| *operator)
    }

    pub(super) fn binds(self) -> u8 {
        Self::EVERY.iter().find(|(_, operator, _)| *operator == self).map_or(0, |(.., binds)| *binds)
    }

    /// Whether it compares two numbers.
    pub(super) fn compares(self) -> bool {
        self.binds() == Operator::Less.binds()
    }

    /// How it is shown where a comparison is true, and where it is false.
    pub(super) fn symbol(self, holds: bool) -> &'static str {
        match (self, holds) {
            (Operator::Less, true) | (Operator::GreaterOrEqual, false) => "<",
            (Operator::LessOrEqual, true) | (Operator::Greater, false) => "≤",
            (Operator::Greater, true) | (Operator::LessOrEqual, false) => ">",
            (Operator::GreaterOrEqual, true) | (Operator::Less, false) => "≥",
            (Operator::Equal, true) => "=",
            (Operator::Equal, false) => "≠",
            (Operator::Plus, _) => "+",
            (Operator::Minus, _) => "−",
            (Operator::Times, _) => "×",
            (Operator::Over, _) => "/",
            (Operator::Or, _) => "or",
            (Operator::And, _) => "and",
        }
    }

    /// What it makes of two values; 1 is true and 0 is false.
    #[allow(clippy::float_cmp, reason = "who writes == means it: of counts")]
    pub(super) fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Operator::Or => a.max(b),
            Operator::And => a.min(b),
            Operator::Less => f64::from(a < b),
            Operator::LessOrEqual => f64::from(a <= b),
            Operator::Greater => f64::from(a > b),
            Operator::GreaterOrEqual => f64::from(a >= b),
            Operator::Equal => f64::from(a == b),
            Operator::Plus => a + b,
            Operator::Minus => a - b,
            Operator::Times => a * b,
            Operator::Over => a / b,
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
