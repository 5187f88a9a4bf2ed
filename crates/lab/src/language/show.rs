//! Numbers as people read them.

use crate::results::Estimate;

/// A number in a base unit (s, B, bit/s, 1) with three significant digits, in the unit that suits it: `0.0413` s is `41.3 ms`.
pub fn show(value: f64, unit: &str) -> String {
    const STEPS: [(f64, &str); 4] = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
    let (factor, unit) = match unit {
        "s" => [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")]
            .into_iter()
            .find(|(factor, _)| value.abs() >= *factor)
            .map_or((1.0, "s".to_owned()), |(factor, unit)| (factor, unit.to_owned())),
        "B" | "bit/s" => STEPS
            .into_iter()
            .find(|(factor, _)| value.abs() >= *factor)
            .map_or((1.0, unit.to_owned()), |(factor, prefix)| (factor, format!("{prefix}{unit}"))),
        "%" => (0.01, "%".to_owned()),
        "1" => (1.0, String::new()),
        other => (1.0, other.to_owned()),
    };
    let number = digits(value / factor);
    if unit.is_empty() { number } else { format!("{number} {unit}") }
}

/// A mean and half of its interval, if it has one: `41.3 ms ± 2.5 ms`.
pub fn spread(estimate: &Estimate, unit: &str) -> String {
    let half = estimate.ci95.map(|half| format!(" ± {}", show(half, unit))).unwrap_or_default();
    format!("{}{half}", show(estimate.mean, unit))
}

/// Three significant digits, more before the point.
pub(super) fn digits(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "∞".to_owned() } else { "−∞".to_owned() };
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && magnitude < 1e-4 {
        let text = format!("{value:.2e}");
        let (number, power) = text.split_once('e').unwrap_or((&text, "0"));
        let raised = power.chars().map(|character| match character.to_digit(10) {
            Some(digit) => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit as usize],
            None => '⁻',
        });
        return format!("{} × 10{}", number.replace('-', "−"), raised.collect::<String>());
    }
    let mut places = 2;
    for bound in [10.0, 100.0] {
        places -= i32::from(magnitude >= bound);
    }
    for bound in [1.0, 0.1, 0.01, 0.001] {
        places += i32::from(magnitude < bound && magnitude != 0.0);
    }
    let text = format!("{value:.*}", places.max(0) as usize);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.replace('-', "−")
}
