//! Values of a sweep as numbers: what `10 Mbit/s` or `5 ms` is in the base unit of its kind.

use crate::quantity::{Rate, Share, Size, Time};

/// What kind of number a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number without a unit.
    Plain,
    /// In s.
    Time,
    /// In bit/s.
    Rate,
    /// In B.
    Size,
    /// A part of a whole, 0 to 1; written in %.
    Share,
}

impl Kind {
    /// The base unit: `s`, `bit/s`, `B`, or `1`.
    pub const fn unit(self) -> &'static str {
        match self {
            Kind::Plain | Kind::Share => "1",
            Kind::Time => "s",
            Kind::Rate => "bit/s",
            Kind::Size => "B",
        }
    }
}

/// A value of an axis that is a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number {
    /// In the base unit of its kind.
    pub value: f64,
    /// What kind of number.
    pub kind: Kind,
}

impl Number {
    /// Reads the name that a value has in points; none if it is no number.
    pub fn read(text: &str) -> Option<Self> {
        let number = |value, kind| Some(Self { value, kind });
        if let Some(value) = text.trim().parse().ok().filter(|value: &f64| value.is_finite()) {
            return number(value, Kind::Plain);
        }
        if let Ok(Time(time)) = text.parse() {
            return number(time.as_secs_f64(), Kind::Time);
        }
        if let Ok(Rate(rate)) = text.parse() {
            return number(rate.bits_per_second() as f64, Kind::Rate);
        }
        if let Ok(Size(bytes)) = text.parse() {
            return number(bytes as f64, Kind::Size);
        }
        let share = text.contains('%').then(|| text.parse().ok()).flatten();
        share.and_then(|Share(share)| number(share, Kind::Share))
    }
}

/// All values of an axis, if they are numbers of one kind.
pub fn numbers<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<(Kind, Vec<f64>)> {
    let numbers: Vec<Number> = values.into_iter().map(Number::read).collect::<Option<_>>()?;
    let kind = numbers.first()?.kind;
    let alike = numbers.iter().all(|number| number.kind == kind);
    alike.then(|| (kind, numbers.iter().map(|number| number.value).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_the_base_unit_of_their_kind() {
        for (text, value, kind) in [
            ("80", 80.0, Kind::Plain),
            ("0.5", 0.5, Kind::Plain),
            ("5 ms", 0.005, Kind::Time),
            ("2 Mbit/s", 2e6, Kind::Rate),
            ("1500 B", 1500.0, Kind::Size),
            ("2.5 %", 0.025, Kind::Share),
        ] {
            assert_eq!(Number::read(text), Some(Number { value, kind }), "{text}");
        }
        for text in ["with", "true", "", "nan", "inf"] {
            assert_eq!(Number::read(text), None, "{text}");
        }
    }

    #[test]
    fn an_axis_is_numeric_if_all_of_its_values_are_of_one_kind() {
        assert_eq!(numbers(["5 ms", "1 s"]), Some((Kind::Time, vec![0.005, 1.0])));
        assert_eq!(numbers(["5 ms", "none"]), None);
        assert_eq!(numbers(["1", "2 ms"]), None);
        assert_eq!(numbers([]), None);
    }
}
