//! Values of a sweep: their names in points, and what `10 Mbit/s` or `5 ms` is as a number in the base unit of its kind.

use toml::Value;
use trunkline_engine::catalogue::Unit;

use crate::quantity::{Rate, Share, Size, Time};

/// What a value of a file is called in a point: what is written, without quotes.
pub fn name(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether a point's value of this name is a value of a file, however a number is written.
pub fn is(name: &str, value: &Value) -> bool {
    let wanted = self::name(value);
    name == wanted || number(name).is_some_and(|ours| number(&wanted) == Some(ours))
}

/// Reads the name that a value has in points: a number and its unit. None if it is no number.
pub fn number(text: &str) -> Option<(Unit, f64)> {
    let plain = text.trim().parse().ok().filter(|value: &f64| value.is_finite());
    let time = || text.parse().ok().map(|Time(time)| (Unit::Second, time.as_secs_f64()));
    let rate = || text.parse().ok().map(|Rate(rate)| (Unit::BitPerSecond, rate.bits_per_second() as f64));
    let size = || text.parse().ok().map(|Size(bytes)| (Unit::Byte, bytes as f64));
    let share = || text.parse().ok().map(|Share(share)| (Unit::Ratio, share));
    let plain = plain.map(|value| (Unit::Count, value));
    plain.or_else(time).or_else(rate).or_else(size).or_else(|| share().filter(|_| text.contains('%')))
}

/// All values of an axis, if they are numbers in one unit.
pub fn numbers<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<(Unit, Vec<f64>)> {
    let numbers: Vec<(Unit, f64)> = values.into_iter().map(number).collect::<Option<_>>()?;
    let (unit, _) = *numbers.first()?;
    let alike = numbers.iter().all(|(other, _)| *other == unit);
    alike.then(|| (unit, numbers.into_iter().map(|(_, value)| value).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_the_base_unit_of_their_kind() {
        for (text, value, unit) in [
            ("80", 80.0, Unit::Count),
            ("0.5", 0.5, Unit::Count),
            ("5 ms", 0.005, Unit::Second),
            ("2 Mbit/s", 2e6, Unit::BitPerSecond),
            ("1500 B", 1500.0, Unit::Byte),
            ("2.5 %", 0.025, Unit::Ratio),
        ] {
            assert_eq!(number(text), Some((unit, value)), "{text}");
        }
        for text in ["with", "true", "", "nan", "inf"] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn a_value_is_found_however_it_is_written() {
        assert!(is("50 ms", &Value::String("0.05 s".into())));
        assert!(is("60", &Value::Integer(60)) && is("60", &Value::Float(60.0)));
        assert!(!is("60", &Value::String("60 ms".into())));
        assert!(!is("b", &Value::Array(vec!["a".into(), "b".into()])));
    }

    #[test]
    fn an_axis_is_numeric_if_all_of_its_values_are_of_one_kind() {
        assert_eq!(numbers(["5 ms", "1 s"]), Some((Unit::Second, vec![0.005, 1.0])));
        assert_eq!(numbers(["5 ms", "none"]), None);
        assert_eq!(numbers(["1", "2 ms"]), None);
        assert_eq!(numbers([]), None);
    }
}
