//! A part of all runs, for machines that share the work without knowing of each other.

use std::fmt;
use std::str::FromStr;

/// One of so many parts of the runs, as `3/16`. Neighbours in the sweep are in different parts, so that all parts have about the same work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunPart {
    /// From 1.
    number: u64,
    count: u64,
}

impl RunPart {
    /// Whether the run at this place, counted from 0, is in it.
    pub(super) const fn has(self, place: u64) -> bool {
        place % self.count == self.number - 1
    }
}

impl FromStr for RunPart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = || {
            let (number, count) = text.split_once('/')?;
            Some((number.parse().ok()?, count.parse().ok()?))
        };
        match numbers() {
            Some((number, count)) if (1..=count).contains(&number) && count <= 1_000_000 => {
                Ok(RunPart { number, count })
            }
            _ => Err(format!(
                "{text:?} is no part; allowed: N/M, such as 3/16, N from 1 to M, M up to 1000000"
            )),
        }
    }
}

impl fmt::Display for RunPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_is_in_one_part() {
        for count in [1, 2, 7] {
            let parts: Vec<RunPart> =
                (1..=count).map(|number| format!("{number}/{count}").parse().expect("a part")).collect();
            for place in 0..20 {
                assert_eq!(parts.iter().filter(|part| part.has(place)).count(), 1);
            }
            assert_eq!(parts[0].to_string(), format!("1/{count}"));
        }
        for wrong in ["", "3", "0/4", "5/4", "1/0", "-1/4", "1/1000001", "1/4/5", "a/b"] {
            assert!(wrong.parse::<RunPart>().is_err_and(|error| error.contains("N/M")), "{wrong:?}");
        }
    }
}
