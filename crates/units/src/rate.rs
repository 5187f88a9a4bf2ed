use std::fmt;
use std::time::Duration;

/// A rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rate(u64);

/// Bits of a byte times nanoseconds of a second.
const NANOBITS: u64 = 8_000_000_000;

impl Rate {
    /// Nothing.
    pub const ZERO: Rate = Rate(0);
    /// The largest: nothing takes any time.
    pub const MAX: Rate = Rate(u64::MAX);

    /// A rate of so many bits per second.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Rate(bits)
    }

    /// A rate of so many megabits (10^6 bits) per second.
    pub fn from_mbit(mbit: f64) -> Self {
        Rate((mbit * 1e6) as u64)
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Megabits per second.
    pub fn as_mbit(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The time that `bytes` take at this rate, rounded down to a nanosecond. `carry` takes up what was
    /// rounded off (in units of a nanosecond divided by the rate), so that a sum over many packets is exact.
    /// A rate of zero takes for ever.
    pub fn time_for(self, bytes: u64, carry: &mut u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        // What a packet takes fits into 64 bits, whose division is several times as fast as that of 128.
        let narrow = bytes.checked_mul(NANOBITS).and_then(|numerator| numerator.checked_add(*carry));
        if let Some(numerator) = narrow {
            *carry = numerator % self.0;
            return Duration::from_nanos(numerator / self.0);
        }
        let numerator = u128::from(bytes) * u128::from(NANOBITS) + u128::from(*carry);
        *carry = (numerator % u128::from(self.0)) as u64;
        Duration::from_nanos(u64::try_from(numerator / u128::from(self.0)).unwrap_or(u64::MAX))
    }

    /// The bytes that pass in `time` at this rate, rounded down.
    pub fn bytes_in(self, time: Duration) -> u64 {
        u64::try_from(u128::from(self.0) * time.as_nanos() / u128::from(NANOBITS)).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bits if bits >= 1_000_000_000 => write!(f, "{} Gbit/s", bits as f64 / 1e9),
            bits if bits >= 1_000_000 => write!(f, "{} Mbit/s", bits as f64 / 1e6),
            bits if bits >= 1_000 => write!(f, "{} kbit/s", bits as f64 / 1e3),
            bits => write!(f, "{bits} bit/s"),
        }
    }
}

/// The rate that somebody means who writes `10 Mbps`, `10Mb/s` or `10 MB/s`, in the spelling that is read everywhere: `10 Mbit/s`.
/// `None` where it cannot be told.
pub(crate) fn meant_rate(text: &str) -> Option<String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    let unit: String = unit.chars().filter(|c| !c.is_whitespace()).collect();
    let lower = unit.to_ascii_lowercase();
    let a_second = ["/second", "/sec", "/s", "ps"].into_iter().find(|end| lower.ends_with(end))?;
    let unit = &unit[..unit.len() - a_second.len()];
    let (prefix, of) = match unit.chars().next()? {
        'k' | 'K' => ("k", &unit[1..]),
        'm' | 'M' => ("M", &unit[1..]),
        'g' | 'G' => ("G", &unit[1..]),
        _ => ("", unit),
    };
    // One letter is a bit if it is small and a byte if it is large, as everybody but some has it.
    let bits = match of {
        "b" => 1.0,
        "B" => 8.0,
        _ => match of.to_ascii_lowercase().as_str() {
            "bit" | "bits" => 1.0,
            "byte" | "bytes" => 8.0,
            _ => return None,
        },
    };
    Some(format!("{} {prefix}bit/s", number * bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_are_carried_so_that_the_sum_is_exact() {
        let rate = Rate::from_bits_per_second(7);
        let mut carry = 0;
        let total: Duration = (0..7).map(|_| rate.time_for(1, &mut carry)).sum();
        assert_eq!(total, Duration::from_secs(8));
        assert_eq!(carry, 0);
    }

    #[test]
    fn times_beyond_64_bits_are_as_exact() {
        let (rate, bytes) = (Rate::from_bits_per_second(3_000_000_001), u64::MAX / 3);
        let mut carry = 5;
        let time = rate.time_for(bytes, &mut carry);
        let numerator = u128::from(bytes) * 8_000_000_000 + 5;
        assert_eq!(time.as_nanos(), numerator / 3_000_000_001);
        assert_eq!(u128::from(carry), numerator % 3_000_000_001);
        let (rate, bytes) = (Rate::from_bits_per_second(40_000_000_000), 4_000_000_000);
        let mut carry = 0;
        assert_eq!(rate.time_for(bytes, &mut carry), Duration::from_millis(800));
        assert_eq!(carry, 0);
    }

    #[test]
    fn who_writes_another_spelling_is_told_the_right_one() {
        for (text, right) in [
            ("10Mbps", "10 Mbit/s"),
            ("2.5 Mb/s", "2.5 Mbit/s"),
            ("800kbps", "800 kbit/s"),
            ("800 Kb/s", "800 kbit/s"),
            ("1gbps", "1 Gbit/s"),
            ("1 GBit/sec", "1 Gbit/s"),
            ("10 Mbits/s", "10 Mbit/s"),
            ("64bps", "64 bit/s"),
            ("10MB/s", "80 Mbit/s"),
            ("1.5 MBps", "12 Mbit/s"),
        ] {
            assert_eq!(meant_rate(text).as_deref(), Some(right), "{text}");
            assert!(right.parse::<Rate>().is_ok(), "{right}");
        }
        for text in ["", "fast", "10", "10 parsec", "10 parsecs/s", "Mbps", "1.2.3Mbps", "10 Mß/s"] {
            assert_eq!(meant_rate(text), None, "{text}");
        }
    }

    #[test]
    fn bytes_in_is_the_inverse_of_time_for() {
        let rate = Rate::from_mbit(12.0);
        assert_eq!(rate.bytes_in(rate.time_for(1500, &mut 0)), 1500);
    }
}
