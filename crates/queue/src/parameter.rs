//! Parameters of disciplines, as files name them: key, range, meaning, and how a value is read and set.

use std::fmt;
use std::time::Duration;

use crate::{DropReason, Limits, Settings, Unit};

/// The description of a discipline.
#[derive(Debug)]
pub struct Description {
    /// Its name in files.
    pub word: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// Its own parameters, beside its limits.
    pub parameters: &'static [Parameter],
    /// The reasons for which it drops packets.
    pub reasons: &'static [DropReason],
    pub(crate) default: fn() -> Settings,
}

impl Description {
    /// Its default settings.
    pub fn default_settings(&self) -> Settings {
        (self.default)()
    }

    /// Its parameter of this name.
    pub fn parameter(&self, key: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|parameter| parameter.key == key)
    }
}

/// A parameter of a discipline.
#[derive(Debug)]
pub struct Parameter {
    /// Its name in files.
    pub key: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// The values it takes.
    pub range: Range,
    pub(crate) field: fn(&mut Settings) -> Option<Field<'_>>,
}

/// The values that a parameter takes, first and last included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// On or off.
    Switch,
    /// Whole numbers.
    Count(u32, u32),
    /// Sizes, bytes.
    Bytes(u32, u32),
    /// So many packets, or a size of so many bytes at most.
    Amount(u64, u64),
    /// Times.
    Time(Duration, Duration),
    /// Above 0, to 1.
    Probability,
    /// From 0, below 1.
    Fraction,
    /// Numbers.
    Factor(f64, f64),
}

/// A value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// On or off.
    Switch(bool),
    /// A whole number; of an amount, packets.
    Count(u64),
    /// A size.
    Bytes(u64),
    /// A time.
    Time(Duration),
    /// A probability, a part of a whole, or a factor.
    Number(f64),
}

/// Where a parameter is in settings.
pub(crate) enum Field<'s> {
    Switch(&'s mut bool),
    Count(&'s mut u32),
    Bytes(&'s mut u32),
    Amount(&'s mut u64, &'s mut Unit),
    Time(&'s mut Duration),
    Number(&'s mut f64),
}

/// Values that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The first parameter concerned.
    pub key: &'static str,
    /// What is wrong.
    pub problem: String,
    /// The values that are allowed.
    pub allowed: &'static str,
}

/// The description of one discipline and its settings.
pub(crate) trait Describe {
    /// Its parameters.
    type Settings;
    /// Its description.
    const DESCRIPTION: &'static Description;

    /// The limits among its settings.
    fn limits_mut(settings: &mut Self::Settings) -> &mut Limits;

    /// Values that contradict each other.
    fn conflict(_: &Self::Settings) -> Option<Conflict> {
        None
    }
}

/// The parameters of a discipline, in a line each: `key, range, field of its settings, meaning`.
macro_rules! parameters {
    ($name:ident: $($key:literal, $range:expr, |$own:ident| $field:expr, $meaning:literal;)*) => {
        &[$($crate::parameter::Parameter {
            key: $key,
            meaning: $meaning,
            range: $range,
            field: |settings| match settings {
                $crate::Settings::$name($own) => Some($field),
                _ => None,
            },
        }),*]
    };
}
pub(crate) use parameters;

impl Parameter {
    /// Its value; `None` if the settings are another discipline's.
    pub fn get(&self, settings: &Settings) -> Option<Value> {
        let mut settings = *settings;
        Some(match (self.field)(&mut settings)? {
            Field::Switch(on) => Value::Switch(*on),
            Field::Count(count) => Value::Count((*count).into()),
            Field::Bytes(bytes) => Value::Bytes((*bytes).into()),
            Field::Amount(amount, Unit::Segments) => Value::Count(*amount),
            Field::Amount(amount, Unit::Bytes) => Value::Bytes(*amount),
            Field::Time(time) => Value::Time(*time),
            Field::Number(number) => Value::Number(*number),
        })
    }

    /// Sets it to a value that it takes; `false` if it does not take it.
    pub fn set(&self, settings: &mut Settings, value: Value) -> bool {
        if !self.range.takes(value) {
            return false;
        }
        match ((self.field)(settings), value) {
            (Some(Field::Switch(on)), Value::Switch(value)) => *on = value,
            (Some(Field::Count(count)), Value::Count(value)) => *count = value as u32,
            (Some(Field::Bytes(bytes)), Value::Bytes(value)) => *bytes = value as u32,
            (Some(Field::Amount(amount, unit)), Value::Count(value)) => {
                (*amount, *unit) = (value, Unit::Segments);
            }
            (Some(Field::Amount(amount, unit)), Value::Bytes(value)) => {
                (*amount, *unit) = (value, Unit::Bytes);
            }
            (Some(Field::Time(time)), Value::Time(value)) => *time = value,
            (Some(Field::Number(number)), Value::Number(value)) => *number = value,
            _ => return false,
        }
        true
    }
}

impl Range {
    /// Whether a value is in it.
    pub fn takes(self, value: Value) -> bool {
        match (self, value) {
            (Range::Switch, Value::Switch(_)) => true,
            (Range::Count(min, max), Value::Count(value)) | (Range::Bytes(min, max), Value::Bytes(value)) => {
                (u64::from(min)..=u64::from(max)).contains(&value)
            }
            (Range::Amount(max, _), Value::Count(value)) | (Range::Amount(_, max), Value::Bytes(value)) => {
                (1..=max).contains(&value)
            }
            (Range::Time(min, max), Value::Time(value)) => (min..=max).contains(&value),
            (Range::Probability, Value::Number(value)) => value > 0.0 && value <= 1.0,
            (Range::Fraction, Value::Number(value)) => (0.0..1.0).contains(&value),
            (Range::Factor(min, max), Value::Number(value)) => (min..=max).contains(&value),
            _ => false,
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Range::Switch => f.write_str("true or false"),
            Range::Count(min, max) => write!(f, "a whole number, {min} to {max}"),
            Range::Bytes(min, max) => write!(f, "a size, {min} B to {max} B"),
            Range::Amount(packets, bytes) => {
                write!(f, "a whole number of packets, 1 to {packets}, or a size, 1 B to {bytes} B")
            }
            Range::Time(min, max) => write!(f, "a time, {min:?} to {max:?}"),
            Range::Probability => f.write_str("above 0, at most 1"),
            Range::Fraction => f.write_str("from 0, below 1"),
            Range::Factor(min, max) => write!(f, "a number, {min} to {max}"),
        }
    }
}

/// The longest thresholds.
pub(crate) const MAX_PACKETS: u32 = 1_000_000;
pub(crate) const MAX_BYTES: u64 = 1 << 30;
/// Times of control laws.
pub(crate) const CONTROL_TIME: Range = Range::Time(MIN_TIME, MAX_TIME);
pub(crate) const MIN_TIME: Duration = Duration::from_micros(10);
pub(crate) const MAX_TIME: Duration = Duration::from_secs(60);

/// `min` < `max` ≤ what the queue holds, without which the discipline never acts.
pub(crate) fn thresholds(min: u64, max: u64, holds: u64) -> Option<Conflict> {
    if min >= max {
        let problem = format!("min {min} is not below max {max}");
        Some(Conflict { key: "min", problem, allowed: "a min below max" })
    } else if max > holds {
        let problem = format!("max {max} is more than the queue holds, {holds}");
        Some(Conflict { key: "max", problem, allowed: "a max within packets and bytes" })
    } else {
        None
    }
}

/// `target` < `interval`.
pub(crate) fn control_law(target: Duration, interval: Duration) -> Option<Conflict> {
    (target >= interval).then(|| Conflict {
        key: "interval",
        problem: format!("target {target:?} is not below interval {interval:?}"),
        allowed: "an interval of about a round trip and a target of 5 to 10 % of it",
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Another value that the range takes, and one that it does not take.
    fn others(range: Range) -> (Value, Value) {
        match range {
            Range::Switch => (Value::Switch(true), Value::Count(1)),
            Range::Count(min, max) => (Value::Count(min.into()), Value::Count(u64::from(max) + 1)),
            Range::Bytes(min, max) => (Value::Bytes(max.into()), Value::Bytes(u64::from(min) - 1)),
            Range::Amount(packets, bytes) => (Value::Count(packets), Value::Bytes(bytes + 1)),
            Range::Time(min, max) => (Value::Time(min), Value::Time(max + Duration::from_nanos(1))),
            Range::Probability => (Value::Number(1.0), Value::Number(0.0)),
            Range::Fraction => (Value::Number(0.0), Value::Number(1.0)),
            Range::Factor(min, max) => (Value::Number(max), Value::Number(min - 0.1)),
        }
    }

    #[test]
    fn every_parameter_is_read_as_it_was_set_and_takes_nothing_out_of_its_range() {
        let mut words = BTreeSet::new();
        for description in Settings::DISCIPLINES {
            assert!(words.insert(description.word), "{} is there twice", description.word);
            let default = description.default_settings();
            assert_eq!(default.description().word, description.word);
            assert_eq!((default.limits(), default.conflict()), (Limits::default(), None));
            let mut keys = BTreeSet::new();
            for parameter in description.parameters {
                assert!(keys.insert(parameter.key), "{} has {} twice", description.word, parameter.key);
                let value = parameter.get(&default).expect("its own settings");
                assert!(parameter.range.takes(value), "{} {value:?}", parameter.key);
                let (right, wrong) = others(parameter.range);
                let mut settings = default;
                assert!(!parameter.set(&mut settings, wrong) && settings == default, "{}", parameter.key);
                assert!(parameter.set(&mut settings, right), "{} {right:?}", parameter.key);
                assert_eq!(parameter.get(&settings), Some(right), "{}", parameter.key);
            }
        }
        assert_eq!(words.len(), 8);
    }

    #[test]
    fn a_parameter_is_none_of_another_disciplines() {
        let trunk = Settings::Trunk(crate::TrunkSettings::default());
        for description in Settings::DISCIPLINES.iter().filter(|of| of.word != "trunk") {
            for parameter in description.parameters {
                let value = parameter.get(&description.default_settings()).expect("its own");
                let mut settings = trunk;
                assert!(!parameter.set(&mut settings, value) && settings == trunk, "{}", parameter.key);
                assert_eq!(parameter.get(&trunk), None);
            }
        }
    }

    #[test]
    fn values_that_do_not_go_together_are_told() {
        let key = |settings: Settings| settings.conflict().map(|conflict| conflict.key);
        let red = crate::RedSettings::default();
        assert_eq!(key(Settings::Red(crate::RedSettings { min: red.max, ..red })), Some("min"));
        assert_eq!(key(Settings::Red(crate::RedSettings { max: (4 << 20) + 1, ..red })), Some("max"));
        let packets = crate::RedSettings { unit: Unit::Segments, min: 1, max: 1001, ..red };
        assert_eq!(key(Settings::Red(packets)), Some("max"));
        assert_eq!(key(Settings::Red(crate::RedSettings { max: 1000, ..packets })), None);
        let fred = crate::FredSettings { max: 1001, ..crate::FredSettings::default() };
        assert_eq!(key(Settings::Fred(fred)), Some("max"));
        let codel =
            crate::CoDelSettings { interval: Duration::from_millis(5), ..crate::CoDelSettings::default() };
        assert_eq!(key(Settings::CoDel(codel)), Some("interval"));
        let fq = crate::FqCoDelSettings { codel, ..crate::FqCoDelSettings::default() };
        assert_eq!(key(Settings::FqCoDel(fq)), Some("interval"));
    }
}
