//! Quantities as people write them: `10 Mbit/s`, `520 KB`, `211 ms`, `1 %`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

/// A text that is no quantity of its kind.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{given} is no {kind}{meant}; allowed: {allowed}")]
pub struct QuantityError {
    /// The text.
    pub given: String,
    /// What it was to be.
    pub kind: &'static str,
    /// What to write, if it can be told what was meant.
    pub meant: String,
    /// How such a thing is written.
    pub allowed: &'static str,
}

/// Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Size(pub u64);

/// A time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(pub Duration);

/// A rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub trunkline_units::Rate);

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

/// A number and what is behind it.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// A kind of quantity: its unit factors and its bounds.
struct Kind {
    name: &'static str,
    allowed: &'static str,
    factor: fn(&str) -> Option<f64>,
    /// The right spelling of a wrong one.
    meant: fn(&str) -> Option<String>,
    most: f64,
}

impl Kind {
    fn read(&self, text: &str) -> Result<f64, QuantityError> {
        split(text)
            .and_then(|(number, unit)| Some(number * (self.factor)(unit)?))
            .filter(|value| value.is_finite() && *value <= self.most)
            .ok_or_else(|| QuantityError {
                given: format!("{text:?}"),
                kind: self.name,
                meant: (self.meant)(text).map(|meant| format!(": write {meant:?}")).unwrap_or_default(),
                allowed: self.allowed,
            })
    }
}

/// Bytes of a unit of size.
pub fn bytes_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => return None,
    })
}

const SIZE: Kind = Kind {
    name: "size",
    allowed: "a number with B, kB, MB, GB, KiB, MiB or GiB, such as \"520 KB\"",
    factor: bytes_of,
    meant: |_| None,
    most: 1e15,
};

const TIME: Kind = Kind {
    name: "time",
    allowed: "a number with ns, us, ms, s, min or h, such as \"211 ms\"",
    factor: |unit| {
        Some(match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "min" => 60e9,
            "h" => 3600e9,
            _ => return None,
        })
    },
    meant: |_| None,
    most: 1e18,
};

/// The rate that somebody means, `3 Mbit` too, which the gateway's file takes.
pub fn meant_rate(text: &str) -> Option<String> {
    trunkline_units::meant_rate(text).or_else(|| trunkline_units::meant_rate(&format!("{text}/s")))
}

const RATE: Kind = Kind {
    name: "rate",
    allowed: "a number with bit/s, kbit/s, Mbit/s, Gbit/s, or B/s, kB/s, MB/s, such as \"10 Mbit/s\"",
    factor: |unit| {
        Some(match unit {
            "bit/s" | "bit" => 1.0,
            "kbit/s" | "kbit" => 1e3,
            "Mbit/s" | "mbit" | "mbit/s" => 1e6,
            "Gbit/s" | "gbit" | "gbit/s" => 1e9,
            _ => 8.0 * bytes_of(unit.strip_suffix("/s")?)?,
        })
    },
    // "3 Mbit" as well, which the gateway's file takes.
    meant: meant_rate,
    most: 1e13,
};

const SHARE: Kind = Kind {
    name: "share",
    allowed: "0 to 1, or \"0 %\" to \"100 %\"",
    factor: |unit| match unit {
        "" => Some(1.0),
        "%" => Some(0.01),
        _ => None,
    },
    meant: |_| None,
    most: 1.0,
};

impl FromStr for Size {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        SIZE.read(text).map(|value| Size(value.round() as u64))
    }
}

impl FromStr for Time {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        TIME.read(text).map(|value| Time(Duration::from_nanos(value.round() as u64)))
    }
}

impl FromStr for Rate {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        RATE.read(text).map(|value| Rate(trunkline_units::Rate::from_bits_per_second(value.round() as u64)))
    }
}

impl FromStr for Share {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        SHARE.read(text).map(Share)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0;
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
        let nanos = self.0.as_nanos();
        for (unit, name) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")] {
            if nanos >= unit || nanos == 0 {
                return write!(f, "{} {name}", nanos as f64 / unit as f64);
            }
        }
        write!(f, "{nanos} ns")
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
            None => Err(E::invalid_type(de::Unexpected::Float(number), &self)),
        }
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        match self.number {
            Some(read) => read(number as f64).map_err(E::custom),
            None => Err(E::invalid_type(de::Unexpected::Signed(number), &self)),
        }
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

macro_rules! quantity {
    ($type:ident, $kind:ident, $pattern:expr) => {
        impl $type {
            /// How one is written.
            pub const ALLOWED: &'static str = $kind.allowed;
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(Reader { expecting: $kind.allowed, number: None })
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $kind.name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern, "description": $kind.allowed })
            }
        }
    };
}

quantity!(Size, SIZE, r"^\s*[0-9.]+\s*([kKMG]?B|[KMG]iB)$");
quantity!(Time, TIME, r"^\s*[0-9.]+\s*(ns|us|µs|ms|s|min|h)$");
quantity!(Rate, RATE, r"^\s*[0-9.]+\s*([kMGmg]?bit(/s)?|([kKMG]?B|[KMG]iB)/s)$");

impl Share {
    /// How one is written.
    pub const ALLOWED: &'static str = SHARE.allowed;
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = |number: f64| {
            if (0.0..=1.0).contains(&number) {
                Ok(Share(number))
            } else {
                Err(QuantityError {
                    given: number.to_string(),
                    kind: SHARE.name,
                    meant: String::new(),
                    allowed: SHARE.allowed,
                })
            }
        };
        from.deserialize_any(Reader { expecting: SHARE.allowed, number: Some(number) })
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.0)
    }
}

impl JsonSchema for Share {
    fn schema_name() -> Cow<'static, str> {
        SHARE.name.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "type": "number", "minimum": 0, "maximum": 1 },
                { "type": "string", "pattern": r"^\s*[0-9.]+\s*%$" }
            ],
            "description": SHARE.allowed
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
                Err(QuantityError {
                    given: number.to_string(),
                    kind: "amount",
                    meant: String::new(),
                    allowed: AMOUNT,
                })
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
            assert!(error.contains("is no size; allowed: a number with B"), "{error}");
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
