//! Quantities as people write them: `10 Mbit/s`, `520 KB`, `211 ms`, `1 %`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use trunkline_units::{self as units, Bytes, QuantityError};

/// Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Size(pub u64);

/// A time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(pub Duration);

/// A rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub units::Rate);

/// A part of a whole, or a probability: 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Share(pub f64);

/// How much waits: packets, as a bare number, or bytes, with a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Packets.
    Packets(u64),
    /// Bytes.
    Bytes(u64),
}

impl FromStr for Size {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        text.parse().map(|Bytes(bytes)| Size(bytes))
    }
}

impl FromStr for Time {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        text.parse().map(|units::Time(time)| Time(time))
    }
}

impl FromStr for Rate {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        text.parse().map(Rate)
    }
}

const SHARE: &str = "0 to 1, or \"0 %\" to \"100 %\"";

impl FromStr for Share {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (number, factor) = match text.trim().strip_suffix('%') {
            Some(number) => (number.trim_end(), 0.01),
            None => (text.trim(), 1.0),
        };
        let is_plain = number.chars().all(|c| c.is_ascii_digit() || c == '.');
        let value = number.parse::<f64>().ok().filter(|_| is_plain).map(|number| number * factor);
        value.filter(|value| *value <= 1.0).map(Share).ok_or_else(|| no_share(format!("{text:?}")))
    }
}

fn no_share(given: String) -> QuantityError {
    QuantityError { given, kind: "share", meant: None, allowed: SHARE }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0;
        // What is whole in a binary unit and not in a decimal one was written so.
        for (unit, name) in [(1_u64 << 30, "GiB"), (1 << 20, "MiB")] {
            if bytes >= unit && bytes.is_multiple_of(unit) && !bytes.is_multiple_of(1000) {
                return write!(f, "{} {name}", bytes / unit);
            }
        }
        for (unit, name) in [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")] {
            if bytes >= unit && bytes.is_multiple_of(unit / 1000) {
                return write!(f, "{} {name}", bytes as f64 / unit as f64);
            }
        }
        write!(f, "{bytes} B")
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        units::Time(self.0).fmt(f)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Reads a text by `FromStr`; `number`, if it is given, is what a bare number means.
struct Reader<T> {
    expecting: &'static str,
    number: Option<fn(f64) -> Result<T, QuantityError>>,
}

impl<T: FromStr<Err = QuantityError>> Visitor<'_> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        match self.number {
            Some(read) => read(number).map_err(E::custom),
            None => Err(unitless::<T, E>(&number.to_string())),
        }
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        match self.number {
            Some(read) => read(number as f64).map_err(E::custom),
            None => Err(unitless::<T, E>(&number.to_string())),
        }
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// What is wrong with a bare number where a unit belongs.
fn unitless<T: FromStr<Err = QuantityError>, E: de::Error>(number: &str) -> E {
    match number.parse::<T>() {
        Err(error) => E::custom(QuantityError { given: number.to_owned(), ..error }),
        Ok(_) => E::custom("has no unit"),
    }
}

macro_rules! quantity {
    ($type:ident, $name:literal, $allowed:expr, $pattern:expr) => {
        impl $type {
            /// How one is written.
            pub const ALLOWED: &'static str = $allowed;
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(Reader { expecting: $allowed, number: None })
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern, "description": $allowed })
            }
        }
    };
}

quantity!(Size, "size", Bytes::ALLOWED, r"^\s*[0-9]+(\.[0-9]+)?\s*([kKMG]?B|[KMG]iB)$");
quantity!(Time, "time", units::Time::ALLOWED, r"^\s*[0-9]+(\.[0-9]+)?\s*(ns|us|µs|ms|s|min|h)$");
quantity!(
    Rate,
    "rate",
    units::Rate::ALLOWED,
    r"^\s*[0-9]+(\.[0-9]+)?\s*([kMGmg]?bit(/s)?|([kKMG]?B|[KMG]iB)/s)$"
);

impl Share {
    /// How one is written.
    pub const ALLOWED: &'static str = SHARE;
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = |number: f64| {
            if (0.0..=1.0).contains(&number) { Ok(Share(number)) } else { Err(no_share(number.to_string())) }
        };
        from.deserialize_any(Reader { expecting: SHARE, number: Some(number) })
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.0)
    }
}

impl JsonSchema for Share {
    fn schema_name() -> Cow<'static, str> {
        "share".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "type": "number", "minimum": 0, "maximum": 1 },
                { "type": "string", "pattern": r"^\s*[0-9.]+\s*%$" }
            ],
            "description": SHARE
        })
    }
}

const AMOUNT: &str = "a whole number of packets, or a size such as \"520 KB\"";

impl Amount {
    /// How one is written.
    pub const ALLOWED: &'static str = AMOUNT;
}

impl FromStr for Amount {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        text.parse().map(|Size(bytes)| Amount::Bytes(bytes))
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = |number: f64| {
            if number >= 0.0 && number.fract() == 0.0 {
                Ok(Amount::Packets(number as u64))
            } else {
                Err(QuantityError { given: number.to_string(), kind: "amount", meant: None, allowed: AMOUNT })
            }
        };
        from.deserialize_any(Reader { expecting: AMOUNT, number: Some(number) })
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Amount::Packets(packets) => to.serialize_u64(*packets),
            Amount::Bytes(bytes) => Size(*bytes).serialize(to),
        }
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "amount".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [{ "type": "integer", "minimum": 0 }, generator.subschema_for::<Size>()],
            "description": AMOUNT
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_people_write_them_and_printed_so_that_they_can_be_read() {
        for (text, bytes) in [("520 KB", 520_000), ("1.5MB", 1_500_000), ("64KiB", 65_536), ("40 B", 40)] {
            let size: Size = text.parse().unwrap();
            assert_eq!(size, Size(bytes));
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for (text, nanos) in
            [("211 ms", 211_000_000), ("5.06 us", 5060), ("5 min", 300_000_000_000), ("0 s", 0)]
        {
            let time: Time = text.parse().unwrap();
            assert_eq!(time, Time(Duration::from_nanos(nanos)));
            assert_eq!(time.to_string().parse(), Ok(time));
        }
        for (text, bits) in [("10 Mbit/s", 10_000_000), ("1100 KB/s", 8_800_000), ("9.6 kbit/s", 9600)] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate.0.bits_per_second(), bits);
            assert_eq!(rate.to_string().parse(), Ok(rate));
        }
        assert_eq!("2.5 %".parse(), Ok(Share(0.025)));
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_what_is_allowed() {
        for text in ["", "MB", "5", "5 parsec", "-3 KB", "1e99 GB", "5 kb"] {
            let error = text.parse::<Size>().unwrap_err().to_string();
            assert!(error.contains("is no size") && error.contains("; allowed: a number with B"), "{error}");
        }
        assert!("100".parse::<Time>().is_err() && "3 Mbit".parse::<Rate>().is_err());
        assert!("120 %".parse::<Share>().is_err());
        for (text, right) in [("10 Mbps", "10 Mbit/s"), ("800Kb/s", "800 kbit/s"), ("3 MBit", "3 Mbit/s")] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains(&format!("is no rate: write {right:?}; allowed: ")), "{error}");
            assert!(right.parse::<Rate>().is_ok());
        }
    }
}
