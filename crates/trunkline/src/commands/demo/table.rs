//! The result: the two phases side by side, and what that means in one sentence.

use std::fmt::Write as _;

use super::measurement::Summary;
use super::parameters::Parameters;

/// A measure, before and after.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) before: String,
    pub(super) after: String,
}

/// Both phases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Comparison {
    pub(super) before: Summary,
    pub(super) after: Summary,
}

impl Comparison {
    pub(super) fn rows(&self) -> Vec<Row> {
        let row = |name, unit, of: &dyn Fn(&Summary) -> String| Row {
            name,
            unit,
            before: of(&self.before),
            after: of(&self.after),
        };
        vec![
            row("TCP goodput", "Mbit/s", &|s| format!("{:.2}", s.tcp_mbit)),
            row("UDP goodput", "Mbit/s", &|s| format!("{:.2}", s.udp_mbit)),
            row("Transfers completed", "", &|s| s.transfers_completed.to_string()),
            row("Request latency, median", "ms", &|s| format!("{:.0}", s.request_p50_ms)),
            row("Request latency, 99th percentile", "ms", &|s| format!("{:.0}", s.request_p99_ms)),
            row("Dropped in the core", "%", &|s| format!("{:.2}", s.core_drop_percent)),
            row("Dropped at the edge", "%", &|s| format!("{:.2}", s.edge_drop_percent)),
            row("Dropped at the edge, of TCP", "%", &|s| format!("{:.2}", s.edge_tcp_drop_percent)),
            row("Dropped at the edge, of UDP", "%", &|s| format!("{:.2}", s.edge_udp_drop_percent)),
        ]
    }

    /// What the numbers say, whatever that is.
    pub(super) fn reading(&self, parameters: &Parameters) -> String {
        let Self { before, after } = self;
        let share = |summary: &Summary| summary.tcp_mbit * 100.0 / parameters.rate_mbit;
        let drops = |percent: f64| {
            if percent < 0.05 { "none".to_owned() } else { format!("{percent:.1} %") }
        };
        let verb = if share(after) > share(before) { "raise" } else { "do not raise" };
        format!(
            "Under a UDP flood of twice the WAN's rate, trunks {verb} TCP's share of the WAN from {:.0} % to {:.0} %, \
             {} files arrive instead of {}, a request takes {} instead of {} at the median, and the WAN's own \
             queue drops {} of its packets instead of {}.",
            share(before),
            share(after),
            after.transfers_completed,
            before.transfers_completed,
            time(after.request_p50_ms),
            time(before.request_p50_ms),
            drops(after.core_drop_percent),
            drops(before.core_drop_percent),
        )
    }

    /// The table for a terminal.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{:<34}{:>16}{:>16}\n", "", "without trunks", "with trunks");
        for row in self.rows() {
            let name =
                if row.unit.is_empty() { row.name.to_owned() } else { format!("{}, {}", row.name, row.unit) };
            let _ = writeln!(text, "{name:<38}{:>12}{:>16}", row.before, row.after);
        }
        text
    }
}

pub(super) fn time(ms: f64) -> String {
    if ms < 1000.0 { format!("{ms:.0} ms") } else { format!("{:.1} s", ms / 1e3) }
}

/// The sentence in lines of at most `width` characters.
pub(super) fn wrap(text: &str, width: usize) -> String {
    let mut lines = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push('\n');
            used = 0;
        } else if used > 0 {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += length;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_measure() {
        let comparison =
            Comparison { before: Summary::default(), after: Summary { tcp_mbit: 4.5, ..Summary::default() } };
        let text = comparison.text();
        assert_eq!(text.lines().count(), 10);
        assert!(
            text.lines().any(|line| line.starts_with("TCP goodput, Mbit/s") && line.ends_with("4.50")),
            "{text}"
        );
    }

    #[test]
    fn lines_are_wrapped_at_words() {
        assert_eq!(wrap("one two  three", 7), "one two\nthree");
        assert_eq!(wrap("longer than that", 3), "longer\nthan\nthat");
    }
}
