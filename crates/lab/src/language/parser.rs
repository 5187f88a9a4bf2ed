//! From text to expression, by precedence climbing (Pratt 1973).

use std::ops::Range;

use super::error::Problem;
use super::expression::{Arithmetic, Call, Comparison, Expression, Function, Node, Selector};
use super::token::{Token, token};

/// Parentheses, functions and signs within each other.
const MOST_NESTED: u32 = 64;
/// Octets of a condition.
const LONGEST: usize = 10_000;

pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    if text.len() > LONGEST {
        return Err(Problem::new(
            &(0..0),
            format!("a condition has {LONGEST} octets at the most, not {}", text.len()),
        ));
    }
    let mut parser = Parser { text, token: Token::End, at: 0..0, end: 0, nested: 0 };
    parser.advance()?;
    let node = parser.expression(0)?;
    match parser.token {
        Token::End => Ok(node),
        _ => Err(parser.unexpected("an operator, or the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    /// What comes next, and where it is.
    token: Token,
    at: Range<usize>,
    /// Where the token before it ended.
    end: usize,
    nested: u32,
}

/// An operator between two operands.
#[derive(Clone, Copy)]
enum Operator {
    Or,
    And,
    Comparison(Comparison),
    Arithmetic(Arithmetic),
}

impl Operator {
    /// How strongly it binds. `not` binds with 3, a sign with 7.
    fn binds(self) -> u8 {
        match self {
            Operator::Or => 1,
            Operator::And => 2,
            Operator::Comparison(_) => 4,
            Operator::Arithmetic(arithmetic) => 4 + arithmetic.binds(),
        }
    }

    fn of(token: &Token) -> Option<Self> {
        Some(match token {
            Token::Name(name) if name == "or" => Operator::Or,
            Token::Name(name) if name == "and" => Operator::And,
            Token::Symbol("<") => Operator::Comparison(Comparison::Less),
            Token::Symbol("<=") => Operator::Comparison(Comparison::LessOrEqual),
            Token::Symbol(">") => Operator::Comparison(Comparison::Greater),
            Token::Symbol(">=") => Operator::Comparison(Comparison::GreaterOrEqual),
            Token::Symbol("==") => Operator::Comparison(Comparison::Equal),
            Token::Symbol("!=") => Operator::Comparison(Comparison::NotEqual),
            Token::Symbol("+") => Operator::Arithmetic(Arithmetic::Plus),
            Token::Symbol("-") => Operator::Arithmetic(Arithmetic::Minus),
            Token::Symbol("*") => Operator::Arithmetic(Arithmetic::Times),
            Token::Symbol("/") => Operator::Arithmetic(Arithmetic::Over),
            _ => return None,
        })
    }

    fn join(self, left: Node, right: Node) -> Node {
        let at = left.at.start..right.at.end;
        let both = Box::new([left, right]);
        let expression = match self {
            Operator::Or => Expression::Or(both),
            Operator::And => Expression::And(both),
            Operator::Comparison(comparison) => Expression::Comparison(comparison, both),
            Operator::Arithmetic(arithmetic) => Expression::Arithmetic(arithmetic, both),
        };
        Node { at, expression }
    }
}

impl Parser<'_> {
    fn advance(&mut self) -> Result<(), Problem> {
        self.end = self.at.end;
        (self.token, self.at) = token(self.text, self.at.end)?;
        Ok(())
    }

    fn unexpected(&self, expected: &str) -> Problem {
        let found = match &self.token {
            Token::End => "the condition ends".to_owned(),
            _ => format!("{:?} stands", &self.text[self.at.clone()]),
        };
        let hint = match self.token {
            Token::Symbol("=") => " (to compare: ==, or same(a, b) for what cannot be told apart)",
            _ => "",
        };
        Problem::new(&self.at, format!("{found} where {expected} was expected{hint}"))
    }

    fn expect(&mut self, symbol: &'static str) -> Result<(), Problem> {
        if self.token == Token::Symbol(symbol) {
            return self.advance();
        }
        Err(self.unexpected(&format!("{symbol:?}")))
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(&self.token, Token::Name(other) if other == name)
    }

    /// What binds at least as strongly as `least`.
    fn expression(&mut self, least: u8) -> Result<Node, Problem> {
        self.nested += 1;
        if self.nested > MOST_NESTED {
            return Err(Problem::new(&self.at, format!("more than {MOST_NESTED} levels of nesting")));
        }
        let mut left = self.operand()?;
        while let Some(operator) = Operator::of(&self.token).filter(|operator| operator.binds() >= least) {
            self.advance()?;
            let right = self.expression(operator.binds() + 1)?;
            left = match operator {
                Operator::Comparison(_) => self.chain(operator, left, right)?,
                _ => operator.join(left, right),
            };
        }
        self.nested -= 1;
        Ok(left)
    }

    /// `1 < a < 2` is `1 < a and a < 2`.
    fn chain(&mut self, first: Operator, left: Node, right: Node) -> Result<Node, Problem> {
        let mut before = right.clone();
        let mut whole = first.join(left, right);
        while let Some(operator @ Operator::Comparison(_)) = Operator::of(&self.token) {
            self.advance()?;
            let next = self.expression(operator.binds() + 1)?;
            whole = Operator::And.join(whole, operator.join(before, next.clone()));
            before = next;
        }
        Ok(whole)
    }

    fn operand(&mut self) -> Result<Node, Problem> {
        let start = self.at.start;
        let expression = match self.token.clone() {
            Token::Number { value, dimension } => {
                let text = self.text[self.at.clone()].to_owned();
                self.advance()?;
                Expression::Number { value, dimension, text }
            }
            Token::Symbol("(") => {
                self.advance()?;
                let inner = self.expression(0)?;
                self.expect(")")?;
                inner.expression
            }
            Token::Symbol("-") => {
                self.advance()?;
                Expression::Negative(Box::new(self.expression(7)?))
            }
            Token::Name(name) if name == "not" => {
                self.advance()?;
                Expression::Not(Box::new(self.expression(3)?))
            }
            Token::Name(name) if matches!(name.as_str(), "and" | "or" | "along") => {
                return Err(self.unexpected("a metric or a number"));
            }
            Token::Name(name) => {
                let at = self.at.clone();
                self.advance()?;
                if self.token == Token::Symbol("(") { self.call(&name, &at)? } else { self.metric(name)? }
            }
            Token::Quoted(name) => {
                self.advance()?;
                self.metric(name)?
            }
            _ => return Err(self.unexpected("a metric, a number or a function")),
        };
        Ok(Node { at: start..self.end, expression })
    }

    /// Behind a function's name.
    fn call(&mut self, name: &str, at: &Range<usize>) -> Result<Expression, Problem> {
        let Some(function) = Function::named(name) else {
            let message = format!("there is no function {name}; allowed: {}", Function::names());
            return Err(Problem::new(at, message));
        };
        self.advance()?;
        let mut arguments = vec![self.expression(0)?];
        let mut along = None;
        if self.is_name("along") {
            self.advance()?;
            let (Token::Name(axis) | Token::Quoted(axis)) = self.token.clone() else {
                return Err(self.unexpected("the name of an axis"));
            };
            along = Some((self.at.clone(), axis));
            self.advance()?;
        }
        while self.token == Token::Symbol(",") {
            self.advance()?;
            arguments.push(self.expression(0)?);
        }
        self.expect(")")?;
        let (least, most) = function.arity();
        if !(least..=most).contains(&arguments.len()) {
            let allowed = match most - least {
                0 => format!("{least} argument(s)"),
                1 => format!("{least} or {most} arguments"),
                _ => format!("{least} to {most} arguments"),
            };
            let message = format!("{name} takes {allowed}, not {}", arguments.len());
            return Err(Problem::new(at, message));
        }
        Ok(Expression::Call(Call { function, arguments, along }))
    }

    /// Behind a metric's name.
    fn metric(&mut self, name: String) -> Result<Expression, Problem> {
        let mut selectors = Vec::new();
        if self.token == Token::Symbol("[") {
            // Values are not tokens: `[delay=50 ms]`.
            let mut at = self.at.end;
            loop {
                let (selector, end) = self.selector(at)?;
                selectors.push(selector);
                at = end + 1;
                if self.text[end..].starts_with(']') {
                    self.at = end..at;
                    break;
                }
            }
            self.advance()?;
        }
        Ok(Expression::Metric { name, selectors })
    }

    /// `axis=value|value` from `start` on, and where the comma or bracket behind it is.
    fn selector(&self, start: usize) -> Result<(Selector, usize), Problem> {
        let wrong = |at: Range<usize>| {
            Problem::new(
                &at,
                "a selector is [axis=value], with | between several values, and quotes if need be",
            )
        };
        let (axis, at) = match token(self.text, start)? {
            (Token::Name(axis) | Token::Quoted(axis), at) => (axis, at),
            // An axis may be called 5x.
            (_, at) => return Err(wrong(at)),
        };
        let (equals, equals_at) = token(self.text, at.end)?;
        if equals != Token::Symbol("=") {
            return Err(wrong(equals_at));
        }
        let (mut values, mut end) = (Vec::new(), equals_at.end);
        loop {
            let (value, value_at) = match token(self.text, end)? {
                (Token::Quoted(value), at) => (value, at),
                (_, at) => {
                    let rest = &self.text[at.start..];
                    let Some(len) = rest.find(['|', ',', ']']) else { return Err(wrong(at)) };
                    let value = rest[..len].trim();
                    (value.to_owned(), at.start..at.start + value.len())
                }
            };
            if value.is_empty() {
                return Err(wrong(value_at));
            }
            end = value_at.end;
            values.push((value_at, value));
            match token(self.text, end)? {
                (Token::Symbol("|"), at) => end = at.end,
                (Token::Symbol("," | "]"), next) => {
                    return Ok((Selector { at, axis, values }, next.start));
                }
                (_, at) => return Err(wrong(at)),
            }
        }
    }
}
