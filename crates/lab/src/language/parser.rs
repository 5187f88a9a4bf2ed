//! From text to expression, by precedence climbing (Pratt 1973).

use std::ops::Range;

use super::error::Problem;
use super::expression::{Expression, Function, Node, Operator, Selector};
use super::token::{Token, token};

/// Parentheses and functions within each other.
const MAX_NESTED: u32 = 64;
/// Bytes of a condition.
const MAX_BYTES: usize = 10_000;

pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    if text.len() > MAX_BYTES {
        return Err(Problem::new(
            &(0..0),
            format!("a condition has {MAX_BYTES} bytes at the most, not {}", text.len()),
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

/// The operator that a token is.
fn operator(token: &Token) -> Option<Operator> {
    match token {
        Token::Name(text) => Operator::written(text),
        Token::Symbol(text) => Operator::written(text),
        _ => None,
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
            Token::Symbol("=") => " (to compare: ==)",
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

    /// Operators that bind at least as strongly as `min`.
    fn expression(&mut self, min: u8) -> Result<Node, Problem> {
        self.nested += 1;
        if self.nested > MAX_NESTED {
            return Err(Problem::new(&self.at, format!("more than {MAX_NESTED} levels of nesting")));
        }
        let mut left = self.operand()?;
        while let Some(operator) = operator(&self.token).filter(|operator| operator.binds() >= min) {
            let compared = matches!(&left.expression, Expression::Binary(other, _) if other.compares());
            if operator.compares() && compared {
                let why = "a comparison has two sides: write a < b and b < c, not a < b < c";
                return Err(Problem::new(&self.at, why));
            }
            self.advance()?;
            let right = self.expression(operator.binds() + 1)?;
            let at = left.at.start..right.at.end;
            left = Node { at, expression: Expression::Binary(operator, Box::new([left, right])) };
        }
        self.nested -= 1;
        Ok(left)
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
            Token::Name(name) if matches!(name.as_str(), "and" | "or") => {
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
        while self.token == Token::Symbol(",") {
            self.advance()?;
            arguments.push(self.expression(0)?);
        }
        self.expect(")")?;
        let (min, max) = function.arity();
        if !(min..=max).contains(&arguments.len()) {
            let allowed = match max - min {
                0 => format!("{min} argument(s)"),
                1 => format!("{min} or {max} arguments"),
                _ => format!("{min} to {max} arguments"),
            };
            let message = format!("{name} takes {allowed}, not {}", arguments.len());
            return Err(Problem::new(at, message));
        }
        Ok(Expression::Call(function, arguments))
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

    /// `axis=value` from `start` on, and where the comma or bracket behind it is.
    fn selector(&self, start: usize) -> Result<(Selector, usize), Problem> {
        let wrong =
            |at: Range<usize>| Problem::new(&at, "a selector is [axis=value], with quotes if need be");
        let (Token::Name(axis) | Token::Quoted(axis), at) = token(self.text, start)? else {
            return Err(wrong(token(self.text, start)?.1));
        };
        let (equals, equals_at) = token(self.text, at.end)?;
        if equals != Token::Symbol("=") {
            return Err(wrong(equals_at));
        }
        let (value, value_at) = match token(self.text, equals_at.end)? {
            (Token::Quoted(value), at) => (value, at),
            (_, at) => {
                let rest = &self.text[at.start..];
                let Some(len) = rest.find([',', ']']) else { return Err(wrong(at)) };
                let value = rest[..len].trim();
                (value.to_owned(), at.start..at.start + value.len())
            }
        };
        match token(self.text, value_at.end)? {
            _ if value.is_empty() => Err(wrong(value_at)),
            (Token::Symbol("," | "]"), next) => Ok((Selector { at, axis, value, value_at }, next.start)),
            (_, at) => Err(wrong(at)),
        }
    }
}
