//! Which metrics there are: of what, in which unit, and which of them a scenario gives.
//!
//! A metric's name is a subject's, a dot, and a quantity's. Quantities are listed here once; docs/metrics.md has the same tables, and a
//! test holds one against the other. Which subjects there are depends on the experiment: [`known`] says so before anything runs.

mod known;
mod list;

pub use known::{Known, UnknownName, known};
pub use list::{DISTRIBUTIONS, QUANTITIES, SERIES};

/// What a quantity is of. In parentheses, how its name begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Sources of traffic that are counted together, of whatever kind (`<group>`, `all`).
    Group,
    /// All groups (`all`).
    All,
    /// Groups with sources of TCP.
    Tcp,
    /// Groups with sources of datagrams.
    Udp,
    /// Groups of nothing but datagrams.
    UdpAlone,
    /// One way of a link (`<link>`, `<link>.back`).
    Link,
    /// A queue: of one way of a link, or of a class at the edge (`<link>`, `<trunk>.<class>`).
    Queue,
    /// A class at the edge of a trunk (`<trunk>.<class>`).
    Class,
    /// One way of a trunk (`<trunk>`, `<trunk>.back`).
    Trunk,
    /// A proxy (`<node>`).
    Proxy,
    /// A node of any kind (`<node>`).
    Node,
    /// The run (`run`).
    Run,
    /// Series: a user of a source (`<traffic>.<n>`).
    SeriesUser,
    /// Series: a lane of one way of a trunk (`<trunk>.lane<n>`).
    SeriesLane,
}

/// When a quantity has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Present {
    /// In every run.
    Always,
    /// If there was anything that it could be of, such as a transfer that was completed.
    Sometimes,
}

/// Something that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity {
    /// Of what.
    pub of: Subject,
    /// Its name, behind that of the subject.
    pub name: &'static str,
    /// `bit/s`, `B`, `s`, or `1`.
    pub unit: &'static str,
    /// When it is there.
    pub present: Present,
    /// What it is.
    pub is: &'static str,
}

/// The unit of a metric, series or distribution by its name: `s`, `B`, `bit/s`, or `1`. None of what is no such name.
pub fn unit(metric: &str) -> Option<&'static str> {
    let all = QUANTITIES.iter().chain(SERIES).chain(DISTRIBUTIONS);
    // The longest that fits: `transfer.rtt.samples` ends as `rtt.samples` does.
    all.filter(|quantity| metric.strip_suffix(quantity.name).is_some_and(|subject| subject.ends_with('.')))
        .max_by_key(|quantity| quantity.name.len())
        .map(|quantity| quantity.unit)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn a_units_quantity_is_the_longest_that_ends_the_name() {
        for (name, expected) in [
            ("tcp.goodput", Some("bit/s")),
            ("a.b.delay.p99", Some("s")),
            ("core.back.queue.bytes.max", Some("B")),
            ("tcp.transfer.rtt.samples", Some("1")),
            ("edge.lane0.srtt", Some("s")),
            ("run.time", Some("s")),
            ("goodput", None),
            ("core.goodputs", None),
        ] {
            assert_eq!(unit(name), expected, "{name}");
        }
    }

    #[test]
    fn what_ends_alike_has_one_unit() {
        for quantity in QUANTITIES.iter().chain(SERIES).chain(DISTRIBUTIONS) {
            assert!(["bit/s", "B", "s", "1"].contains(&quantity.unit), "{quantity:?}");
            assert_eq!(unit(&format!("x.{}", quantity.name)), Some(quantity.unit), "{quantity:?}");
        }
    }

    /// As docs/metrics.md has it.
    fn table(of: Subject, from: &[Quantity]) -> String {
        let mut table = String::from("| quantity | unit | is |\n| --- | --- | --- |\n");
        for quantity in from.iter().filter(|quantity| quantity.of == of) {
            let Quantity { name, unit, present, is, .. } = quantity;
            let mark = if *present == Present::Sometimes { " \\*" } else { "" };
            writeln!(table, "| `{name}`{mark} | {unit} | {is} |").unwrap();
        }
        table
    }

    #[test]
    fn the_page_has_every_quantity_and_no_other() {
        use Subject::{
            All, Class, Group, Link, Node, Proxy, Queue, Run, SeriesLane, SeriesUser, Tcp, Trunk, Udp,
            UdpAlone,
        };
        let page = include_str!("../../../../docs/metrics.md");
        let mut rows = 0;
        let metrics = [Group, All, Tcp, Udp, UdpAlone, Link, Queue, Class, Trunk, Proxy, Node, Run];
        let tables = metrics.map(|of| table(of, QUANTITIES)).into_iter();
        let series = [Group, SeriesUser, Link, Class, SeriesLane].map(|of| table(of, SERIES));
        for table in tables.chain(series).chain([table(Tcp, DISTRIBUTIONS)]) {
            assert!(page.contains(&table), "docs/metrics.md is to have\n\n{table}");
            rows += table.lines().count() - 2;
        }
        let on_page = page.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(on_page, rows, "rows of docs/metrics.md");
    }
}
