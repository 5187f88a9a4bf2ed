//! The machine on which runs in real time are made.

use std::fs;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::results::{Machine, Refusal};
use trunkline_engine::Engine;

/// This machine and this day, if the engine's results depend on them.
pub(super) fn this(engine: &Engine, refused: &[Refusal]) -> Option<Machine> {
    if *engine == Engine::Sim {
        return None;
    }
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(Machine {
        engine: engine.name().to_owned(),
        kernel: kernel.trim().to_owned(),
        cpus: available_parallelism().map_or(1, usize::from),
        date: date(since.as_secs() / 86_400),
        refused: refused.to_vec(),
    })
}

/// The day that is so many days after the first of 1970, as `2026-11-23`.
fn date(days: u64) -> String {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if left < days {
            break;
        }
        left -= days;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_counted_from_1970_with_leap_years() {
        let days = [(0, "1970-01-01"), (365, "1971-01-01"), (789, "1972-02-29"), (790, "1972-03-01")];
        for (days, text) in days.into_iter().chain([(11_016, "2000-02-29"), (20_780, "2026-11-23")]) {
            assert_eq!(date(days), text);
        }
        assert_eq!(date(20_818), "2026-12-31");
    }
}
