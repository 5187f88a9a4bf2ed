//! The state of proxies as a table.

use std::fmt::Write as _;

use trunkline_proxy::{ProxyStatus, Status};

/// The state `now` of a process that runs proxies alone, with rates since `before`.
pub(super) fn table(before: &Status, now: &Status) -> String {
    let mut text = format!("{}: up for {:.0} s, version {}\n", now.name, now.uptime_s, now.version);
    let same = before.pid == now.pid && before.uptime_s < now.uptime_s;
    text += &rows(same.then_some(before), now);
    if same {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\nRates are of the last {:.1} s.", now.uptime_s - before.uptime_s);
    } else {
        text += "\nNo rates: the process restarted in between.\n";
    }
    text
}

/// What all proxies have done, and a line for each of them.
pub(super) fn rows(before: Option<&Status>, now: &Status) -> String {
    let totals = &now.totals;
    let mut text = format!(
        "connections: {} open, {} being opened, {} opened since the start\n",
        totals.open, totals.opening, totals.opened
    );
    let endings: Vec<String> = [
        ("refused", totals.refused),
        ("unreachable", totals.unreachable),
        ("timed out", totals.timed_out),
        ("led back here", totals.loops),
        ("without means", totals.without_means),
        ("passed: tables full", totals.passed),
        ("idle, closed for others", totals.evicted),
        ("reset", totals.reset),
    ]
    .iter()
    .filter(|(_, count)| *count > 0)
    .map(|(what, count)| format!("{count} {what}"))
    .collect();
    if !endings.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {}", endings.join(", "));
    }
    let _ = writeln!(
        text,
        "  {:<14} {:<12} {:>7} {:>8} {:>10} {:>9} {:>9} {:>10} {:>9} {:>8} {:>8}",
        "proxy",
        "mode",
        "open",
        "opened",
        "Mbit/s",
        "held kB",
        "max kB",
        "link Mb/s",
        "ACKs held",
        "dropped",
        "clamped"
    );
    for proxy in &now.proxies {
        let earlier = before.and_then(|status| status.proxies.iter().find(|old| old.name == proxy.name));
        let seconds = before.map_or(0.0, |before| now.uptime_s - before.uptime_s);
        row(&mut text, earlier, proxy, seconds);
    }
    text
}

fn row(text: &mut String, before: Option<&ProxyStatus>, now: &ProxyStatus, seconds: f64) {
    let counts = &now.counts;
    let delivered = before.filter(|_| seconds > 0.0).map_or_else(
        || "-".to_owned(),
        |old| {
            let bytes = counts.delivered.saturating_sub(old.counts.delivered);
            format!("{:.1}", bytes as f64 * 8.0 / 1e6 / seconds)
        },
    );
    let link = match (counts.rate, now.is_measured) {
        (0, true) => "unknown".to_owned(),
        (0, false) => "-".to_owned(),
        (rate, is_measured) => format!("{:.2}{}", rate as f64 / 1e6, if is_measured { "*" } else { "" }),
    };
    let kilobytes = |bytes: u64| format!("{:.0}", bytes as f64 / 1e3);
    let _ = writeln!(
        text,
        "  {:<14} {:<12} {:>7} {:>8} {delivered:>10} {:>9} {:>9} {link:>10} {:>9} {:>8} {:>8}",
        now.name,
        now.mode,
        counts.open,
        counts.opened,
        kilobytes(counts.held),
        kilobytes(counts.held_max),
        counts.tail_held,
        counts.tail_dropped,
        counts.clamped,
    );
}

#[cfg(test)]
mod tests {
    use trunkline_proxy::{ProxyCounts, Totals};

    use super::*;

    fn status(uptime_s: f64, delivered: u64) -> Status {
        let counts =
            ProxyCounts { open: 2, delivered, held: 64_000, rate: 7_900_000, ..ProxyCounts::default() };
        let cell =
            ProxyStatus { name: "cell".to_owned(), mode: "path-tail".to_owned(), is_measured: true, counts };
        let totals = Totals { open: 2, refused: 3, ..Totals::default() };
        Status { name: "lte".to_owned(), pid: 7, uptime_s, totals, proxies: vec![cell], ..Status::default() }
    }

    #[test]
    fn a_row_has_the_rate_of_the_interval_and_what_is_held() {
        let table = table(&status(10.0, 0), &status(12.0, 2_000_000));
        let row = table.lines().find(|line| line.contains("path-tail")).expect("a row");
        let columns: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            columns,
            ["cell", "path-tail", "2", "0", "8.0", "64", "0", "7.90*", "0", "0", "0"],
            "{table}"
        );
        assert!(table.contains("  3 refused\n") && table.ends_with("last 2.0 s.\n"), "{table}");
    }

    #[test]
    fn states_of_two_processes_give_no_rates() {
        let after = Status { pid: 8, ..status(12.0, 2_000_000) };
        let table = table(&status(10.0, 0), &after);
        assert!(table.contains("restarted in between") && !table.contains("8.0 "), "{table}");
    }
}
