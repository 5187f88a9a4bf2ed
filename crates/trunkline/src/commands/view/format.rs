//! Numbers as short text, with three significant digits.

use std::time::Duration;

/// `-` for a missing value.
pub(in crate::commands) fn or_dash<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), text)
}

/// About three digits: `0`, `0.52`, `9.87`, `45.1`, `945`, `12.3k`, `4.5M`.
pub(in crate::commands) fn number(value: f64) -> String {
    match value.abs() {
        v if v < 0.005 => "0".to_owned(),
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        v if v < 99_999.5 => format!("{value:.0}"),
        v if v < 999_950.0 => format!("{:.0}k", value / 1e3),
        _ => format!("{:.1}M", value / 1e6),
    }
}

/// A rate in bit/s as Mbit/s.
pub(in crate::commands) fn mbit(rate: f64) -> String {
    number(rate / 1e6)
}

/// µs as ms.
pub(in crate::commands) fn millis(micros: u64) -> String {
    number(micros as f64 / 1e3)
}

/// A bar of `cells` characters, and the share in percent.
pub(in crate::commands) fn bar(share: f64, cells: usize) -> String {
    let full = ((share.clamp(0.0, 1.0) * cells as f64).round() as usize).min(cells);
    format!("{}{} {:>3.0}%", "#".repeat(full), ".".repeat(cells - full), (share * 100.0).min(999.0))
}

/// `12 s`, `4:05`, `3:04:05`, `2 d 03:04`.
pub(in crate::commands) fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes}:{:02}", seconds % 60),
        3600..86_400 => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
        _ => format!("{days} d {hours:02}:{minutes:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_fit_six_columns() {
        let texts =
            [0.0, 0.004, 0.52, 9.994, 9.996, 45.14, 945.2, 12_345.0, 99_999.7, 999_949.0, 4_510_000.0];
        let texts = texts.map(number);
        let expected = ["0", "0", "0.52", "9.99", "10.0", "45.1", "945", "12345", "100k", "1000k", "4.5M"];
        assert_eq!(texts, expected);
        assert!(texts.iter().all(|text| text.len() <= 6));
    }

    #[test]
    fn a_bar_is_full_at_its_capacity_and_stays_in_its_columns_beyond() {
        assert_eq!(bar(0.0, 5), ".....   0%");
        assert_eq!(bar(0.5, 5), "###..  50%");
        assert_eq!(bar(1.0, 5), "##### 100%");
        assert_eq!(bar(37.5, 5), "##### 999%");
    }

    #[test]
    fn ages_are_read_at_a_glance() {
        let texts = [0, 59, 60, 3599, 3600, 86_399, 86_400].map(|s| age(Duration::from_secs(s)));
        assert_eq!(texts, ["0 s", "59 s", "1:00", "59:59", "1:00:00", "23:59:59", "1 d 00:00"]);
    }
}
