//! Quantities as people write them: `10 Mbit/s`, `520 KB`, `211 ms`. A unit is always written, and what is read is exact.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::rate::meant_rate;
use crate::{Bytes, Rate};

/// A text that is no quantity of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuantityError {
    /// The text, as a message quotes it.
    pub given: String,
    /// What it was to be.
    pub kind: &'static str,
    /// What to write instead, if it can be told.
    pub meant: Option<String>,
    /// How such a quantity is written.
    pub allowed: &'static str,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is no {}", self.given, self.kind)?;
        if let Some(meant) = &self.meant {
            write!(f, ": write {meant:?}")?;
        }
        write!(f, "; allowed: {}", self.allowed)
    }
}

impl std::error::Error for QuantityError {}

/// The longest text that a message quotes, in characters.
const MAX_QUOTED: usize = 60;

/// A kind of quantity.
struct Dimension {
    name: &'static str,
    allowed: &'static str,
    /// The number of base units in a unit.
    factor: fn(&str) -> Option<u64>,
    /// What somebody means who writes this.
    meant: fn(&str) -> Option<String>,
    /// Whether a part of a base unit is rounded to the nearest, or a mistake.
    rounds: bool,
    max: u64,
}

impl Dimension {
    fn error(&self, text: &str) -> QuantityError {
        let mut given: String = text.chars().take(MAX_QUOTED).collect();
        if given.len() < text.len() {
            given.push('…');
        }
        QuantityError {
            given: format!("{given:?}"),
            kind: self.name,
            meant: (self.meant)(text)
                .filter(|meant| self.exact(meant).is_some_and(|value| value <= self.max)),
            allowed: self.allowed,
        }
    }

    fn read(&self, text: &str) -> Result<u64, QuantityError> {
        self.exact(text).filter(|value| *value <= self.max).ok_or_else(|| self.error(text))
    }

    fn exact(&self, text: &str) -> Option<u64> {
        let text = text.trim();
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let factor = u128::from((self.factor)(unit.trim_start())?);
        let (whole, fraction) = match number.split_once('.') {
            Some((whole, fraction)) if !fraction.is_empty() && fraction.len() <= 18 => (whole, fraction),
            Some(_) => return None,
            None => (number, ""),
        };
        let whole: u64 = whole.parse().ok()?;
        let scale = 10_u128.pow(fraction.len() as u32);
        let digits: u64 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        let part = factor * u128::from(digits);
        if !self.rounds && part % scale != 0 {
            return None;
        }
        let part = (part + scale / 2) / scale;
        u64::try_from(u128::from(whole).checked_mul(factor)?.checked_add(part)?).ok()
    }
}

/// The bytes of a unit of size: `B`, `kB`, `KiB`.
pub fn unit_bytes(unit: &str) -> Option<u64> {
    Some(match unit {
        "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    })
}

/// Whether a text is a number without a unit.
fn is_bare(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.') && text.parse::<f64>().is_ok()
}

const SIZE: Dimension = Dimension {
    name: "size",
    allowed: "a number with B, kB, MB, GB, KiB, MiB or GiB, such as \"520 KB\"",
    factor: unit_bytes,
    meant: |text| is_bare(text).then(|| format!("{} B", text.trim())),
    rounds: true,
    max: 1_000_000_000_000_000,
};

const TIME: Dimension = Dimension {
    name: "time",
    allowed: "a number with ns, us, ms, s, min or h, such as \"211 ms\"",
    factor: |unit| {
        Some(match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        })
    },
    meant: |_| None,
    rounds: false,
    max: 1_000_000_000_000_000_000,
};

const RATE: Dimension = Dimension {
    name: "rate",
    allowed: "a number with bit/s, kbit/s, Mbit/s, Gbit/s, or B/s, kB/s, MB/s, such as \"10 Mbit/s\"",
    factor: |unit| {
        Some(match unit {
            "bit/s" | "bit" => 1,
            "kbit/s" | "kbit" => 1_000,
            "Mbit/s" | "mbit" | "mbit/s" => 1_000_000,
            "Gbit/s" | "gbit" | "gbit/s" => 1_000_000_000,
            _ => 8 * unit_bytes(unit.strip_suffix("/s")?)?,
        })
    },
    meant: |text| {
        let bare = is_bare(text).then(|| format!("{} bit/s", text.trim()));
        bare.or_else(|| meant_rate(text)).or_else(|| meant_rate(&format!("{text}/s")))
    },
    rounds: true,
    max: 10_000_000_000_000,
};

/// A time, read from and printed for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(pub Duration);

impl Time {
    /// How one is written.
    pub const ALLOWED: &'static str = TIME.allowed;
}

impl Bytes {
    /// How a number of bytes is written.
    pub const ALLOWED: &'static str = SIZE.allowed;
}

impl Rate {
    /// How a rate is written.
    pub const ALLOWED: &'static str = RATE.allowed;
}

impl FromStr for Bytes {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        SIZE.read(text).map(Bytes)
    }
}

impl FromStr for Time {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        TIME.read(text).map(|nanos| Time(Duration::from_nanos(nanos)))
    }
}

impl FromStr for Rate {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        RATE.read(text).map(Rate::from_bits_per_second)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit_decimal_or_binary() {
        for (text, bytes) in [
            ("40 B", 40),
            ("4 MB", 4_000_000),
            ("520 KB", 520_000),
            ("1.5MB", 1_500_000),
            ("256KiB", 262_144),
            (" 4 MiB ", 4 << 20),
            ("0.1 KiB", 102),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for wrong in [
            "",
            "MB",
            "5",
            "-3 KB",
            "1e99 GB",
            "5 kb",
            "4mb",
            "1 TB",
            "4 parsecs",
            "99999999999GB",
            "1k",
            "٣MB",
            ".5 MB",
            "5. MB",
            "1.2.3 MB",
        ] {
            let error = wrong.parse::<Bytes>().unwrap_err().to_string();
            assert!(error.contains("is no size") && error.ends_with(SIZE.allowed), "{error}");
        }
        let error = "262144".parse::<Bytes>().unwrap_err().to_string();
        assert!(error.starts_with("\"262144\" is no size: write \"262144 B\"; allowed: "), "{error}");
    }

    #[test]
    fn times_have_a_unit_and_are_exact() {
        for (text, nanos) in [
            ("5ms", 5_000_000),
            ("200us", 200_000),
            ("200 µs", 200_000),
            ("1.5s", 1_500_000_000),
            ("0.1ms", 100_000),
            ("5.06 us", 5060),
            ("0 s", 0),
            ("5 min", 300_000_000_000),
            ("0.5 h", 1_800_000_000_000),
            ("0.000000001s", 1),
            ("9007199.254740993 s", 9_007_199_254_740_993),
        ] {
            assert_eq!(text.parse(), Ok(Time(Duration::from_nanos(nanos))), "{text}");
        }
        for wrong in [
            "",
            "5",
            "ms",
            "-5ms",
            "5m",
            "5 m s",
            ".5ms",
            "5.ms",
            "1.2.3s",
            "1e3ms",
            "0.0001us",
            "+5ms",
            "18446744073709551616us",
            "1000000001 s",
            "٣ms",
        ] {
            assert!(wrong.parse::<Time>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_have_a_unit() {
        for (text, bits) in [
            ("10mbit", 10_000_000),
            ("2.5 Mbit/s", 2_500_000),
            ("1gbit", 1_000_000_000),
            ("9.6 kbit/s", 9600),
            ("1100 KB/s", 8_800_000),
            ("1.2345 kbit/s", 1235),
            ("0 bit/s", 0),
        ] {
            assert_eq!(text.parse(), Ok(Rate::from_bits_per_second(bits)), "{text}");
        }
        for (text, right) in [
            ("1000000", "1000000 bit/s"),
            ("10 Mbps", "10 Mbit/s"),
            ("800Kb/s", "800 kbit/s"),
            ("3 MBit", "3 Mbit/s"),
            ("3 Mbit", "3 Mbit/s"),
        ] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains(&format!("is no rate: write {right:?}; allowed: ")), "{error}");
            assert!(right.parse::<Rate>().is_ok());
        }
        for wrong in ["", "fast", "10 parsec/s", "10001 Gbit/s", "-1 bit/s"] {
            assert_eq!(wrong.parse::<Rate>().unwrap_err().meant, None, "{wrong}");
        }
    }

    #[test]
    fn what_is_printed_can_be_read() {
        for text in ["211 ms", "1.5 s", "5.06 us", "7 ns", "0 s", "300 s"] {
            let time: Time = text.parse().unwrap();
            assert_eq!(time.to_string(), text);
        }
        let rate: Rate = "9.6 kbit/s".parse().unwrap();
        assert_eq!(rate.to_string().parse(), Ok(rate));
    }

    #[test]
    fn a_long_text_is_not_quoted_whole() {
        let error = "9".repeat(5000).parse::<Time>().unwrap_err();
        assert_eq!(error.given.chars().count(), MAX_QUOTED + 3);
    }
}
