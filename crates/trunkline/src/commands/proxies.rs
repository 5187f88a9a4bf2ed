//! The state of proxies as a table.

use std::fmt::Write as _;

use trunkline_status::{ProxiesStatus, ProxyStatus, ProxyTotals};

use super::rates::Between;

/// The state `now` of a process that runs proxies alone, with rates since `before`.
pub(super) fn table(before: &ProxiesStatus, now: &ProxiesStatus) -> String {
    let mut text = format!("{}: up for {:.0} s, version {}\n", now.name, now.uptime_s, now.version);
    text += &rows(Some(before), now);
    if let Some(between) = Between::proxies(before, now) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\nRates are of the last {:.1} s.", between.seconds());
    } else {
        text += "\nNo rates: the process restarted in between.\n";
    }
    text
}

/// How connections were refused or ended for want of something, each with its count.
pub(super) fn endings(totals: &ProxyTotals) -> [(&'static str, u64); 11] {
    [
        ("refused", totals.refused),
        ("unreachable", totals.unreachable),
        ("timed out", totals.timed_out),
        ("never confirmed", totals.unconfirmed),
        ("gave way while being opened", totals.displaced),
        ("led back here", totals.loops),
        ("without means", totals.without_means),
        ("passed: no place", totals.passed),
        ("refused: no place", totals.full),
        ("idle, closed for others", totals.evicted),
        ("reset", totals.reset),
    ]
}

/// The rate of an emulated link in Mbit/s, with a star if it is measured; `-` if there is none.
pub(super) fn link_rate(proxy_rate: u64, is_measured: bool) -> String {
    match (proxy_rate, is_measured) {
        (0, true) => "unknown".to_owned(),
        (0, false) => "-".to_owned(),
        (rate, is_measured) => format!("{:.2}{}", rate as f64 / 1e6, if is_measured { "*" } else { "" }),
    }
}

/// What all proxies have done, and a line for each of them.
pub(super) fn rows(before: Option<&ProxiesStatus>, now: &ProxiesStatus) -> String {
    let totals = &now.totals;
    let mut text = format!(
        "connections: {} open, {} being opened, {} opened since the start\n",
        totals.open, totals.opening, totals.opened
    );
    if let Some(problem) = &now.problem {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  INCOMPLETE: {problem}");
    }
    let endings: Vec<String> = endings(totals)
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
    let last = before.and_then(|before| Some((before, Between::proxies(before, now)?)));
    for proxy in &now.proxies {
        let earlier = last.and_then(|(status, between)| Some((earlier(status, proxy)?, between)));
        row(&mut text, earlier, proxy);
    }
    text
}

/// The same proxy in an earlier state.
pub(super) fn earlier<'s>(status: &'s ProxiesStatus, now: &ProxyStatus) -> Option<&'s ProxyStatus> {
    status.proxies.iter().find(|old| old.name == now.name)
}

fn row(text: &mut String, last: Option<(&ProxyStatus, Between)>, now: &ProxyStatus) {
    let counts = &now.counts;
    let delivered = last.map_or_else(
        || "-".to_owned(),
        |(old, between)| format!("{:.1}", between.rate(old.counts.delivered, counts.delivered) * 8.0 / 1e6),
    );
    let link = link_rate(counts.rate, now.is_measured);
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
    use trunkline_status::{ProxyCounts, ProxyTotals};

    use super::*;

    fn status(uptime_s: f64, delivered: u64) -> ProxiesStatus {
        let counts =
            ProxyCounts { open: 2, delivered, held: 64_000, rate: 7_900_000, ..ProxyCounts::default() };
        let cell =
            ProxyStatus { name: "cell".to_owned(), mode: "path-tail".to_owned(), is_measured: true, counts };
        let totals = ProxyTotals { open: 2, refused: 3, ..ProxyTotals::default() };
        ProxiesStatus {
            name: "lte".to_owned(),
            pid: 7,
            uptime_s,
            totals,
            proxies: vec![cell],
            ..ProxiesStatus::default()
        }
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
        let after = ProxiesStatus { pid: 8, ..status(12.0, 2_000_000) };
        let table = table(&status(10.0, 0), &after);
        assert!(table.contains("restarted in between") && !table.contains("8.0 "), "{table}");
    }
}
