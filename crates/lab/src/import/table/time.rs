//! Times as tables have them: numbers, dates and times of day (ISO 8601).

use chrono::{DateTime, NaiveDateTime, NaiveTime};

/// From here on a number without a unit is too large for what the one before is, as a time since 1970.
const EPOCHS: [(f64, f64); 3] = [(1e11, 1e-3), (1e14, 1e-6), (1e17, 1e-9)];

/// Seconds since some moment that all cells of a column share.
pub(super) fn read(cell: &str, factor: Option<f64>) -> Option<f64> {
    match super::number(cell) {
        Some(number) => Some(number * factor.unwrap_or_else(|| epoch(number))),
        None => iso(cell),
    }
}

/// In what a number is that has no unit.
fn epoch(number: f64) -> f64 {
    EPOCHS.iter().rev().find(|(from, _)| number >= *from).map_or(1.0, |(_, factor)| *factor)
}

fn iso(cell: &str) -> Option<f64> {
    // The fraction may stand behind a comma, and a space or an underscore before the time.
    let text = cell.replace(',', ".").replace('/', "-").replacen([' ', '_'], "T", 1);
    let zoned = ["%Y-%m-%dT%H:%M:%S%.f%#z", "%Y%m%dT%H%M%S%.f%#z", "%Y-%m-%dT%H:%M%#z"];
    let plain = ["%Y-%m-%dT%H:%M:%S%.f", "%Y%m%dT%H%M%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d-%H:%M:%S%.f"];
    let micros = (zoned.iter().find_map(|format| DateTime::parse_from_str(&text, format).ok()))
        .map(|time| time.timestamp_micros())
        .or_else(|| {
            let time = plain.iter().find_map(|format| NaiveDateTime::parse_from_str(&text, format).ok())?;
            Some(time.and_utc().timestamp_micros())
        })
        .or_else(|| {
            let time = NaiveTime::parse_from_str(&text, "%H:%M:%S%.f").ok()?;
            time.signed_duration_since(NaiveTime::MIN).num_microseconds()
        })?;
    Some(micros as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_one_moment_are_the_same_time() {
        let of = |cell: &str| read(cell, None).map(|seconds| (seconds * 1e3).round());
        let moment = of("2030-01-02T10:00:00.5Z");
        assert!(moment.is_some());
        for same in [
            "2030-01-02T10:00:00.500",
            "2030-01-02 10:00:00.5",
            "2030-01-02T10:00:00,500000",
            "2030/01/02 10:00:00.5",
            "2030-01-02T12:00:00.5+02:00",
            "2030-01-02T12:00:00.5+0200",
            "20300102T100000.5",
            "1893578400.5",
            "1893578400500",
            "1893578400500000",
        ] {
            assert_eq!(of(same), moment, "{same}");
        }
        assert_eq!((of("10:00:00.5"), of("1,5")), (Some(36_000_500.0), Some(1500.0)));
        assert_eq!(
            (read("1500", Some(1e-3)), read("noon", None), read("2030-13-01", None)),
            (Some(1.5), None, None)
        );
    }
}
