//! Units: what a number in one may be compared with, and what it is in the base units.

use std::fmt;

use trunkline_engine::catalogue::Unit;
use trunkline_units::unit_bytes;

/// Powers of second, byte and bit; or anything, for 0 and for what has a unit that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dimension {
    Any,
    Of { second: i8, byte: i8, bit: i8 },
}

impl Dimension {
    pub(super) const NONE: Dimension = Dimension::Of { second: 0, byte: 0, bit: 0 };
    const SECOND: Dimension = Dimension::Of { second: 1, byte: 0, bit: 0 };
    const BYTE: Dimension = Dimension::Of { second: 0, byte: 1, bit: 0 };
    const RATE: Dimension = Dimension::Of { second: -1, byte: 0, bit: 1 };

    /// Of a metric's unit.
    pub(super) fn of(unit: Option<Unit>) -> Self {
        match unit {
            None => Dimension::Any,
            Some(Unit::Count | Unit::Ratio) => Dimension::NONE,
            Some(Unit::Second) => Dimension::SECOND,
            Some(Unit::Byte) => Dimension::BYTE,
            Some(Unit::BitPerSecond) => Dimension::RATE,
        }
    }

    /// Of a sum, or of what may be compared; none if the two have nothing to do with each other.
    pub(super) fn with(self, other: Dimension) -> Option<Self> {
        match (self, other) {
            (Dimension::Any, known) | (known, Dimension::Any) => Some(known),
            (one, other) => (one == other).then_some(one),
        }
    }

    pub(super) fn times(self, other: Dimension) -> Self {
        self.combine(other, i8::saturating_add)
    }

    pub(super) fn over(self, other: Dimension) -> Self {
        self.combine(other, i8::saturating_sub)
    }

    fn combine(self, other: Dimension, with: fn(i8, i8) -> i8) -> Self {
        match (self, other) {
            (
                Dimension::Of { second, byte, bit },
                Dimension::Of { second: second2, byte: byte2, bit: bit2 },
            ) => {
                Dimension::Of { second: with(second, second2), byte: with(byte, byte2), bit: with(bit, bit2) }
            }
            _ => Dimension::Any,
        }
    }

    /// The base unit; none if there is no such unit.
    pub(super) fn unit(self) -> Option<&'static str> {
        match self {
            Dimension::NONE => Some("1"),
            Dimension::SECOND => Some("s"),
            Dimension::BYTE => Some("B"),
            Dimension::RATE => Some("bit/s"),
            _ => None,
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.unit()) {
            (_, Some("1")) => f.write_str("no unit"),
            (_, Some(unit)) => write!(f, "the unit {unit}"),
            (Dimension::Any, _) => f.write_str("any unit"),
            (Dimension::Of { second, byte, bit }, None) => {
                let powers = [(bit, "bit"), (byte, "B"), (second, "s")];
                let powers = powers.iter().filter(|(power, _)| **power != 0);
                let powers: Vec<_> = powers.map(|(power, unit)| format!("{unit}^{power}")).collect();
                write!(f, "the unit {}", powers.join("·"))
            }
        }
    }
}

/// What a number in `unit` is multiplied by to have it in the base unit (s, B, bit/s or 1); none if there is no such unit.
pub fn factor(unit: &str) -> Option<f64> {
    of_unit(unit).map(|(_, factor)| factor)
}

/// The base unit of a unit, and what one of it is in that.
pub(crate) fn base(unit: &str) -> Option<(&'static str, f64)> {
    let (dimension, factor) = of_unit(unit)?;
    Some((dimension.unit()?, factor))
}

pub(super) fn of_unit(unit: &str) -> Option<(Dimension, f64)> {
    let time = |factor| (Dimension::SECOND, factor);
    let rate = |factor| (Dimension::RATE, factor);
    Some(match unit {
        "" | "1" => (Dimension::NONE, 1.0),
        "%" => (Dimension::NONE, 0.01),
        "ns" => time(1e-9),
        "us" | "µs" => time(1e-6),
        "ms" => time(1e-3),
        "s" => time(1.0),
        "min" => time(60.0),
        "h" => time(3600.0),
        "bit/s" => rate(1.0),
        "kbit/s" => rate(1e3),
        "Mbit/s" => rate(1e6),
        "Gbit/s" => rate(1e9),
        _ => match unit.strip_suffix("/s") {
            Some(bytes) => rate(8.0 * unit_bytes(bytes)? as f64),
            None => (Dimension::BYTE, unit_bytes(unit)? as f64),
        },
    })
}
