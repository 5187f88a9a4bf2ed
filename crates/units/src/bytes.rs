use std::fmt;
use std::str::FromStr;

/// A number of bytes, read from and printed for people.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 10_000_000_000 => write!(f, "{:.1} GB", bytes as f64 / 1e9),
            bytes if bytes >= 10_000_000 => write!(f, "{:.1} MB", bytes as f64 / 1e6),
            bytes if bytes >= 10_000 => write!(f, "{:.1} kB", bytes as f64 / 1e3),
            bytes => write!(f, "{bytes} B"),
        }
    }
}

/// A text that is no number of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseBytesError(String);

impl fmt::Display for ParseBytesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no size; allowed: a whole number, alone or with B, kB, MB, GB, KiB, MiB or GiB",
            self.0
        )
    }
}

impl std::error::Error for ParseBytesError {}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseBytesError(text.to_owned());
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let factor: u64 = match unit.trim() {
            "" | "B" => 1,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return Err(error()),
        };
        let number = number.parse::<u64>().map_err(|_| error())?;
        number.checked_mul(factor).map(Bytes).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_decimal_and_binary_units() {
        assert_eq!("4096".parse(), Ok(Bytes(4096)));
        assert_eq!("4 MB".parse(), Ok(Bytes(4_000_000)));
        assert_eq!("256KiB".parse(), Ok(Bytes(262_144)));
        for bad in ["", "MB", "1.5MB", "4 parsecs", "99999999999GB"] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad}");
        }
    }
}
