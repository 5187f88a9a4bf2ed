//! The result as a table.

use std::fmt;

use super::figure::{Carrier, Figure, Results};

/// The rows: figure, title and decimals.
const ROWS: [(Figure, &str, usize); 12] = [
    (Figure::Tcp1, "TCP, 1 flow        Mbit/s", 0),
    (Figure::Tcp10, "TCP, 10 flows      Mbit/s", 0),
    (Figure::Pps64, "64-byte datagrams  per s", 0),
    (Figure::Udp1400, "1400-byte datagrams Mbit/s", 0),
    (Figure::IdleP50, "round trip, idle   p50 µs", 0),
    (Figure::IdleP99, "                   p99 µs", 0),
    (Figure::LoadP50, "  beside a flow    p50 µs", 0),
    (Figure::LoadP99, "                   p99 µs", 0),
    (Figure::CpuPerGb, "gateways' CPU      s/GB", 2),
    (Figure::CpuPerGb10, "  with 10 flows    s/GB", 2),
    (Figure::RssIdle, "gateways' memory   MB", 1),
    (Figure::Rss, "  after load       MB", 1),
];

/// A table of the medians, with ratios to direct in parentheses.
pub(super) struct Table<'r>(pub(super) &'r Results);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<27}", "")?;
        for carrier in Carrier::ALL {
            write!(f, "{:>10}{:8}", carrier.name(), "")?;
        }
        for (figure, title, decimals) in ROWS {
            write!(f, "\n{title:<27}")?;
            for carrier in Carrier::ALL {
                let has_it = carrier != Carrier::Direct || self.0.ratio(carrier, figure).is_some();
                let value = self.0.value(carrier, figure);
                let text = if has_it { format!("{value:.decimals$}") } else { "-".to_owned() };
                let ratio = self.0.ratio(carrier, figure).filter(|_| carrier != Carrier::Direct);
                let ratio = ratio.map_or(String::new(), |ratio| format!(" ({ratio:.2})"));
                write!(f, "{text:>10}{ratio:<8}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::figure::Run;
    use super::*;

    #[test]
    fn every_figure_has_a_row_and_trunks_have_ratios() {
        let mut run = Run::new();
        run.insert((Carrier::Direct, Figure::Tcp1), 20_000.0);
        run.insert((Carrier::Plain, Figure::Tcp1), 5000.0);
        run.insert((Carrier::Plain, Figure::Rss), 12.34);
        let mut results = Results::default();
        results.add(run);
        let text = Table(&results).to_string();
        assert_eq!(text.lines().count(), 1 + Figure::ALL.len());
        let row = |title: &str| text.lines().find(|line| line.contains(title)).expect("row").to_owned();
        assert!(row("1 flow ").contains("20000 ") && row("1 flow ").contains("5000 (0.25)"), "{text}");
        assert!(row("after load").contains('-') && row("after load").contains("12.3 "), "{text}");
    }
}
