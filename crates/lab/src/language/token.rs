//! Words of a condition.

use std::ops::Range;

use super::dimension::{Dimension, of_unit};
use super::error::Problem;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Number {
        value: f64,
        dimension: Dimension,
    },
    /// A name, a function or a word of the language.
    Name(String),
    /// A metric's name, or a value, in quotes.
    Quoted(String),
    Symbol(&'static str),
    End,
}

/// Longest first.
const SYMBOLS: [&str; 15] = ["<=", ">=", "==", "<", ">", "=", ",", "+", "-", "*", "/", "(", ")", "[", "]"];

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_-.".contains(character)
}

/// The token from `from` on and where it is.
pub(super) fn token(text: &str, from: usize) -> Result<(Token, Range<usize>), Problem> {
    let start = from + (text[from..].len() - text[from..].trim_start().len());
    let rest = &text[start..];
    let Some(first) = rest.chars().next() else { return Ok((Token::End, start..start)) };
    if let Some(quoted) = rest.strip_prefix('"') {
        let Some(end) = quoted.find('"') else {
            return Err(Problem::new(&(start..text.len()), "the quotation has no end"));
        };
        return Ok((Token::Quoted(quoted[..end].to_owned()), start..start + end + 2));
    }
    if first.is_ascii_digit() {
        return number(text, start);
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let len = rest.find(|character| !is_name(character)).unwrap_or(rest.len());
        // A dot or a hyphen is within a name, not behind it.
        let name = rest[..len].trim_end_matches(['.', '-']);
        return Ok((Token::Name(name.to_owned()), start..start + name.len()));
    }
    match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
        Some(symbol) => Ok((Token::Symbol(symbol), start..start + symbol.len())),
        None => Err(Problem::new(
            &(start..start + first.len_utf8()),
            format!(
                "{first:?} means nothing here; allowed: metrics, numbers with units, + - * / < <= > >= == and or ( )"
            ),
        )),
    }
}

/// A number and, behind it, a unit.
fn number(text: &str, start: usize) -> Result<(Token, Range<usize>), Problem> {
    let rest = &text[start..];
    let mut len = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    // `1e-3`, but not the unit of `1 eV`.
    if let Some(exponent) = rest[len..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let digits = exponent[sign..].find(|c: char| !c.is_ascii_digit()).unwrap_or(exponent.len() - sign);
        if digits > 0 {
            len += 1 + sign + digits;
        }
    }
    let Ok(value) = rest[..len].parse::<f64>() else {
        return Err(Problem::new(&(start..start + len), format!("{:?} is no number", &rest[..len])));
    };
    let behind = rest[len..].trim_start();
    let gap = rest[len..].len() - behind.len();
    let letters =
        behind.find(|c: char| !(c.is_alphanumeric() || c == '/' || c == '%')).unwrap_or(behind.len());
    // `5 s/2` is 5 s over 2, `5 min(` no unit at all.
    let unit = (1..=letters)
        .rev()
        .filter(|&len| behind.is_char_boundary(len) && !behind[len..].starts_with(char::is_alphanumeric))
        .find_map(|len| of_unit(&behind[..len]).map(|unit| (len, unit)));
    let (end, dimension, factor) = match unit {
        Some((unit, (dimension, factor))) if !behind[..unit].starts_with(|c: char| c.is_ascii_digit()) => {
            (start + len + gap + unit, dimension, factor)
        }
        _ => (start + len, Dimension::NONE, 1.0),
    };
    let dimension = if value == 0.0 { Dimension::Any } else { dimension };
    Ok((Token::Number { value: value * factor, dimension }, start..end))
}
