//! Numbers as people read them: three significant digits, whole numbers in full, an interval to the digits of what it belongs to.

use crate::results::Estimate;

/// Between groups of three digits: a space that does not break.
const GROUP: char = '\u{202f}';

/// The unit in which a value in a base unit (s, B, bit/s, 1, or % of a ratio) has few digits, and what one of it is in the base unit.
pub(crate) fn suited(value: f64, base: &str) -> (&'static str, f64) {
    let steps: &[(&str, f64)] = match base {
        "s" => &[("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)],
        "B" => &[("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)],
        "bit/s" => &[("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1.0)],
        "%" => &[("%", 0.01)],
        _ => &[("", 1.0)],
    };
    let suits = |(_, factor): &&(&str, f64)| value.abs() >= *factor || (value == 0.0 && *factor <= 1.0);
    steps.iter().find(suits).unwrap_or(&steps[steps.len() - 1]).to_owned()
}

/// A number in a base unit with three significant digits, in the unit that suits it: `0.0413` s is `41.3 ms`.
pub fn show(value: f64, base: &str) -> String {
    let (unit, factor) = suited(value, base);
    let number = digits(value / factor);
    if unit.is_empty() { number } else { format!("{number} {unit}") }
}

/// A mean and half of its interval, if it has one: `41.3 ms ± 2.5 ms`.
pub fn spread(estimate: &Estimate, base: &str) -> String {
    let half = estimate.ci95.map(|half| format!(" ± {}", show(half, base))).unwrap_or_default();
    format!("{}{half}", show(estimate.mean, base))
}

/// So many of a kind: `1 point`, `3 points`.
pub fn count(number: usize, kind: &str) -> String {
    if number == 1 { format!("1 {kind}") } else { format!("{number} {kind}s") }
}

/// Three significant digits without zeros behind them, more before the point.
pub(crate) fn digits(value: f64) -> String {
    // A zero has no sign.
    let value = value + 0.0;
    if value.is_infinite() {
        return if value > 0.0 { "∞" } else { "−∞" }.to_owned();
    }
    if value != 0.0 && value.abs() < SMALL {
        return scientific(value);
    }
    let text = format!("{value:.*}", decimals(value, 3));
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.replace('-', "−")
}

/// Decimals that give so many significant digits.
fn decimals(value: f64, significant: i32) -> usize {
    let text = format!("{value:.*e}", significant as usize - 1);
    let exponent: Option<i32> = text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok());
    let decimals = exponent.filter(|_| value != 0.0).map(|exponent| significant - 1 - exponent);
    decimals.unwrap_or(0).max(0) as usize
}

/// The number with so many decimals, its digits in groups, a real minus.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.find('.').map_or((text.as_str(), ""), |dot| text.split_at(dot));
    let negative = value < 0.0 && text.bytes().any(|digit| matches!(digit, b'1'..=b'9'));
    let mut result = String::from(if negative { "−" } else { "" });
    for (place, digit) in whole.chars().enumerate() {
        let left = whole.len() - place;
        if place > 0 && left.is_multiple_of(3) && whole.len() > 4 {
            result.push(GROUP);
        }
        result.push(digit);
    }
    result + rest
}

/// The same with a plus before what is more than nothing.
pub(crate) fn signed(value: f64, decimals: usize) -> String {
    let text = fixed(value, decimals);
    let positive = value > 0.0 && text.bytes().any(|digit| matches!(digit, b'1'..=b'9'));
    if positive { format!("+{text}") } else { text }
}

/// What is less than this has too many zeros to be read.
const SMALL: f64 = 1e-4;

fn extreme(value: f64) -> bool {
    value != 0.0 && (value.abs() < SMALL || value.abs() >= 1e12)
}

fn scientific(value: f64) -> String {
    let text = format!("{value:.2e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let raised = exponent.chars().map(|character| match character.to_digit(10) {
        Some(digit) => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit as usize],
        None => '⁻',
    });
    format!("{} × 10{}", digits.replace('-', "−"), raised.collect::<String>())
}

/// Three significant digits; 12345.6 is 12 346.
pub(crate) fn rounded(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    if extreme(value) {
        return scientific(value);
    }
    let decimals = if value.fract() == 0.0 { 0 } else { decimals(value, 3) };
    fixed(value, decimals)
}

/// A mean and half of its interval, to the same digits; one that would vanish is said to be less than the last digit, and one that is
/// nothing, since all values are the same, is not said.
pub(crate) fn with_interval(mean: f64, half: Option<f64>) -> String {
    let Some(half) = half.filter(|half| half.is_finite() && *half != 0.0 && mean.is_finite()) else {
        return rounded(mean);
    };
    if extreme(mean) {
        return format!("{} ± {}", scientific(mean), scientific(half));
    }
    let places = if mean == 0.0 { decimals(half, 2).min(6) } else { decimals(mean, 3) };
    let last = 10_f64.powf(-(places as f64));
    let interval = if half < last / 2.0 { format!("<{}", fixed(last, places)) } else { fixed(half, places) };
    format!("{} ± {interval}", fixed(mean, places))
}

/// A number as somebody else published it: all of its digits, six at most.
pub(crate) fn as_published(value: f64) -> String {
    if !value.is_finite() || extreme(value) {
        return rounded(value);
    }
    let text = brief(value).to_string();
    fixed(value, text.split_once('.').map_or(0, |(_, decimals)| decimals.len()))
}

/// Ours over theirs.
pub(crate) fn ratio(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "–".into(),
        _ if value == 0.0 => "×0".into(),
        _ if value.abs() < 0.001 => "×<0.001".into(),
        _ if value.abs() > 9999.0 => "×>9999".into(),
        _ => format!("×{}", fixed(value, decimals(value, 3))),
    }
}

/// Six significant digits: as many as a plot or a list can show, and no more bytes than that takes.
pub(crate) fn brief(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value) + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_the_unit_that_suits_them() {
        for (value, unit, text) in [
            (0.0, "s", "0 s"),
            (0.041_36, "s", "41.4 ms"),
            (-0.000_004_2, "s", "−4.2 µs"),
            (0.000_000_5, "s", "0.5 µs"),
            (0.0, "bit/s", "0 bit/s"),
            (170.4, "s", "170 s"),
            (1180.0, "bit/s", "1.18 kbit/s"),
            (520_000.0, "B", "520 kB"),
            (0.1216, "%", "12.2 %"),
            (0.0015, "%", "0.15 %"),
            (1234.0, "1", "1234"),
            (0.98, "1", "0.98"),
            (0.000_012_3, "1", "1.23 × 10⁻⁵"),
            (f64::INFINITY, "1", "∞"),
        ] {
            assert_eq!(show(value, unit), text);
        }
    }

    #[test]
    fn three_significant_digits_are_shown_and_whole_numbers_in_full() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (2.0 / 3.0, "0.667"),
            (9.996, "10.0"),
            (0.099_96, "0.100"),
            (15.822, "15.8"),
            (345.678, "346"),
            (1234.5, "1234"),
            (12_345.6, "12\u{202f}346"),
            (57_773.0, "57\u{202f}773"),
            (1_234_567.0, "1\u{202f}234\u{202f}567"),
            (-0.5, "−0.500"),
            (0.000_012_3, "1.23 × 10⁻⁵"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(rounded(value), text, "{value}");
        }
    }

    #[test]
    fn a_zero_has_no_sign() {
        for text in [
            show(-0.0, "s"),
            show(-0.0, "1"),
            rounded(-0.0),
            with_interval(-0.0, None),
            with_interval(-0.0, Some(0.5)),
            as_published(-0.0),
            ratio(-0.0),
            fixed(-0.004, 2),
            signed(-0.004, 2),
            signed(0.004, 2),
            brief(-0.0).to_string(),
        ] {
            assert!(!text.contains(['-', '−', '+']), "{text}");
        }
        assert_eq!([0.126, -0.126].map(|value| signed(value, 2)), ["+0.13", "−0.13"]);
    }

    #[test]
    fn an_interval_has_the_digits_of_its_mean() {
        let shown = with_interval;
        assert_eq!(shown(15.822, Some(0.1234)), "15.8 ± 0.1");
        assert_eq!(shown(1.2345, Some(0.5)), "1.23 ± 0.50");
        assert_eq!(shown(1.2345, Some(0.001)), "1.23 ± <0.01");
        assert_eq!(shown(12_345.6, Some(78.9)), "12\u{202f}346 ± 79");
        assert_eq!(shown(100.0, Some(0.0)), "100");
        assert_eq!(shown(0.0, Some(0.0)), "0");
        assert_eq!(shown(0.0, Some(0.034)), "0.000 ± 0.034");
        assert_eq!(shown(-2.5, Some(3.0)), "−2.50 ± 3.00");
        assert_eq!(shown(7.25, None), "7.25");
    }

    #[test]
    fn what_was_published_keeps_its_digits() {
        for (value, text) in [
            (28.1, "28.1"),
            (0.15, "0.15"),
            (7.4, "7.4"),
            (385_784.0, "385\u{202f}784"),
            (0.0, "0"),
            (19.41, "19.41"),
        ] {
            assert_eq!(as_published(value), text);
        }
        // Conversions of units leave traces in the last bits.
        assert_eq!(as_published(0.281 * 100.0), "28.1");
        assert_eq!(as_published(4133.0 / 1000.0), "4.133");
    }

    #[test]
    fn a_ratio_has_three_digits() {
        for (value, text) in [
            (1.0, "×1.00"),
            (0.98, "×0.980"),
            (12.345, "×12.3"),
            (0.0, "×0"),
            (2e-8, "×<0.001"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(ratio(value), text);
        }
    }

    #[test]
    fn numbers_for_plots_are_short_and_close() {
        assert_eq!(brief(1.0 / 3.0).to_string(), "0.333333");
        assert_eq!(brief(12_345_678.0).to_string(), "12345700");
        assert_eq!(brief(0.0).to_string(), "0");
    }
}
