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
    Negative(Box<Node>),
    Not(Box<Node>),
    Arithmetic(Arithmetic, Box<[Node; 2]>),
    Comparison(Comparison, Box<[Node; 2]>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Call(Call),
}

/// `[axis=value|value]`.
#[derive(Debug, Clone)]
pub(super) struct Selector {
    pub(super) at: Range<usize>,
    pub(super) axis: String,
    pub(super) values: Vec<(Range<usize>, String)>,
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) function: Function,
    pub(super) arguments: Vec<Node>,
    /// The axis along which values are reduced.
    pub(super) along: Option<(Range<usize>, String)>,
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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Comparison {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Comparison::Less => "<",
            Comparison::LessOrEqual => "≤",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => "≥",
            Comparison::Equal => "=",
            Comparison::NotEqual => "≠",
        }
    }

    pub(super) fn opposite(self) -> Self {
        match self {
            Comparison::Less => Comparison::GreaterOrEqual,
            Comparison::LessOrEqual => Comparison::Greater,
            Comparison::Greater => Comparison::LessOrEqual,
            Comparison::GreaterOrEqual => Comparison::Less,
            Comparison::Equal => Comparison::NotEqual,
            Comparison::NotEqual => Comparison::Equal,
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
            Comparison::NotEqual => a != b,
        }
    }
}

/// What can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    All,
    Any,
    Count,
    Min,
    Max,
    Mean,
    First,
    Last,
    Abs,
    Ratio,
    Increasing,
    Decreasing,
    Above,
    Same,
}

/// What a call does to the axes of its first argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reduces {
    /// Nothing: it is of one point's values.
    Nothing,
    /// All of them, or the one that `along` names.
    Everything,
    /// One.
    One,
}

impl Function {
    const EVERY: [(&'static str, Function); 14] = [
        ("all", Function::All),
        ("any", Function::Any),
        ("count", Function::Count),
        ("min", Function::Min),
        ("max", Function::Max),
        ("mean", Function::Mean),
        ("first", Function::First),
        ("last", Function::Last),
        ("abs", Function::Abs),
        ("ratio", Function::Ratio),
        ("increasing", Function::Increasing),
        ("decreasing", Function::Decreasing),
        ("above", Function::Above),
        ("same", Function::Same),
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

    /// How many arguments it takes, least and most.
    pub(super) fn arity(self) -> (usize, usize) {
        match self {
            Function::All
            | Function::Any
            | Function::Count
            | Function::First
            | Function::Last
            | Function::Abs => (1, 1),
            Function::Min | Function::Max | Function::Mean => (1, 32),
            Function::Increasing | Function::Decreasing => (1, 2),
            Function::Ratio | Function::Above => (2, 2),
            Function::Same => (2, 3),
        }
    }
}

impl Call {
    pub(super) fn reduces(&self) -> Reduces {
        match self.function {
            Function::Abs | Function::Ratio | Function::Above | Function::Same => Reduces::Nothing,
            Function::Min | Function::Max | Function::Mean if self.arguments.len() > 1 => Reduces::Nothing,
            Function::First | Function::Last | Function::Increasing | Function::Decreasing => Reduces::One,
            _ => Reduces::Everything,
        }
    }
}
