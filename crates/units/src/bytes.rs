use std::fmt;

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
