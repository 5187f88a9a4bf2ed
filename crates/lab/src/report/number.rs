//! Numbers as people read them: three significant digits, whole numbers in full, an interval to the digits of what it belongs to.

/// Between groups of three digits: a space that does not break.
const GROUP: char = '\u{202f}';

/// Decimals that give so many significant digits.
pub(super) fn decimals(value: f64, significant: i32) -> usize {
    let mut magnitude = value.abs();
    if magnitude == 0.0 || !magnitude.is_finite() {
        return 0;
    }
    let mut before = 0_i32;
    while magnitude >= 10.0 {
        magnitude /= 10.0;
        before += 1;
    }
    while magnitude < 1.0 {
        magnitude *= 10.0;
        before -= 1;
    }
    // 9.996 has one digit more in front when it is rounded.
    let shift = f64::from(10_u32.pow(significant.clamp(1, 9) as u32 - 1));
    if (magnitude * shift).round() >= 10.0 * shift {
        before += 1;
    }
    (significant - 1 - before).max(0) as usize
}

/// The number with so many decimals, its digits in groups, a real minus.
pub(super) fn fixed(value: f64, decimals: usize) -> String {
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

fn extreme(value: f64) -> bool {
    value != 0.0 && (value.abs() < 1e-4 || value.abs() >= 1e12)
}

fn raised(character: char) -> Option<char> {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    match character {
        '-' => Some('⁻'),
        digit => DIGITS.get(digit.to_digit(10)? as usize).copied(),
    }
}

fn scientific(value: f64) -> String {
    let text = format!("{value:.2e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let raised: String = exponent.chars().filter_map(raised).collect();
    format!("{} × 10{raised}", digits.replace('-', "−"))
}

/// Three significant digits; 12345.6 is 12 346.
pub(super) fn rounded(value: f64) -> String {
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
pub(super) fn with_interval(mean: f64, half: Option<f64>) -> (String, Option<String>) {
    let Some(half) = half.filter(|half| half.is_finite() && mean.is_finite()) else {
        return (rounded(mean), None);
    };
    if extreme(mean) {
        return (scientific(mean), (half != 0.0).then(|| scientific(half)));
    }
    let exact = half == 0.0 && mean.fract() == 0.0;
    let places = match mean {
        _ if exact => 0,
        0.0 => decimals(half, 2).min(6),
        _ => decimals(mean, 3),
    };
    let last = 1.0 / shift(places);
    let interval = if half < last / 2.0 { format!("<{}", fixed(last, places)) } else { fixed(half, places) };
    (fixed(mean, places), (half != 0.0).then_some(interval))
}

/// A number as somebody else published it: all of its digits, six at most.
pub(super) fn as_published(value: f64) -> String {
    if !value.is_finite() || extreme(value) {
        return rounded(value);
    }
    let max = decimals(value, 6);
    let mut places = 0;
    while places < max && (value - round_to(value, places)).abs() > value.abs() * 1e-7 {
        places += 1;
    }
    fixed(value, places)
}

fn shift(places: usize) -> f64 {
    (0..places).fold(1.0, |shift, _| shift * 10.0)
}

fn round_to(value: f64, places: usize) -> f64 {
    (value * shift(places)).round() / shift(places)
}

/// Ours over theirs.
pub(super) fn ratio(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "–".into(),
        _ if value == 0.0 => "×0".into(),
        _ if value.abs() < 0.001 => "×<0.001".into(),
        _ if value.abs() > 9999.0 => "×>9999".into(),
        _ => format!("×{}", fixed(value, decimals(value, 3))),
    }
}

/// Six significant digits: as many as a plot or a list can show, and no more bytes than that takes.
pub(super) fn brief(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn an_interval_has_the_digits_of_its_mean() {
        let shown = |mean, half| {
            let (mean, half) = with_interval(mean, half);
            half.map_or(mean.clone(), |half| format!("{mean} ± {half}"))
        };
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
