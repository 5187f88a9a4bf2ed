//! The metrics: of each, its name, unit, meaning and how it is read from what an engine measured.
//!
//! A metric's name is a subject's, a dot, and a quantity's. Each quantity stands once, in `table.rs`; docs/metrics.md has the same tables,
//! and a test compares them. The subjects depend on the experiment: [`known`] lists its names before anything runs.

mod known;
pub(crate) mod measured;
mod recorded;
mod table;

use indexmap::IndexMap;

pub use known::{Known, UnknownName, known};
pub(crate) use recorded::{Recorded, recorded};
pub(crate) use table::{
    ALL, CLASS, CLASS_SERIES, GROUP, GROUP_SERIES, LANE_SERIES, LINK, LINK_SERIES, NODE, PROXY, QUEUE, RUN,
    TCP, TRUNK, UDP, UDP_ALONE, USER_SERIES,
};
pub use table::{DISTRIBUTIONS, METRICS, SERIES};

/// The unit of a quantity's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// bit/s.
    BitPerSecond,
    /// B.
    Byte,
    /// s.
    Second,
    /// 1.
    Count,
    /// A part of a whole, 0 to 1; reports show it in %.
    Ratio,
}

impl Unit {
    /// `bit/s`, `B`, `s`, or `1`.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::BitPerSecond => "bit/s",
            Unit::Byte => "B",
            Unit::Second => "s",
            Unit::Count | Unit::Ratio => "1",
        }
    }
}

/// When a quantity has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Present {
    /// In every run.
    Always,
    /// If there was anything to measure, such as a completed transfer.
    Sometimes,
}

/// Something that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity {
    /// Its name, behind that of the subject.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// When it is there.
    pub present: Present,
    /// What it is.
    pub meaning: &'static str,
}

/// The quantities of a kind of subject, and how each is read from the measurement `T`.
#[derive(Debug)]
pub struct Table<T: 'static, V: 'static = Option<f64>> {
    /// What they are.
    pub quantities: &'static [Quantity],
    read: &'static [fn(&T) -> V],
}

impl<T> Table<T> {
    /// Reads every metric of a subject that has a value.
    pub(crate) fn write(&self, subject: &str, measured: &T, metrics: &mut IndexMap<String, f64>) {
        for (quantity, read) in self.quantities.iter().zip(self.read) {
            if let Some(value) = read(measured).filter(|value| value.is_finite()) {
                metrics.insert(format!("{subject}.{}", quantity.name), value);
            }
        }
    }
}

impl<T, V> Table<T, V> {
    /// How the quantity of this name is read.
    pub(crate) fn reader(&self, name: &str) -> Option<fn(&T) -> V> {
        self.quantities.iter().position(|quantity| quantity.name == name).map(|place| self.read[place])
    }
}

/// Metrics that had another name, and the one they have.
const RENAMED: [(&str, &str); 15] = [
    ("drops.percent", "drops.ratio"),
    ("transfers.share", "transfers.completed.ratio"),
    ("retransmitted.share", "retransmitted.ratio"),
    ("lost.share", "lost.ratio"),
    ("rtt.least", "rtt.min_of_all"),
    ("rtt.most", "rtt.max_of_all"),
    ("queue.packets.low95", "queue.packets.p2_5"),
    ("queue.packets.high95", "queue.packets.p97_5"),
    ("spared", "drop_holdoffs"),
    ("hops_exceeded", "ttl_expired"),
    ("unclaimed", "no_listener"),
    ("fragments_given_up", "fragments_expired"),
    ("repeats", "retransmissions"),
    ("drops.flow_share", "drops.dynamic_threshold"),
    ("ceiling", "max_pacing_rate"),
];

/// What a metric of this name is called now.
fn renamed(name: &str) -> Option<String> {
    RENAMED.iter().find_map(|(old, new)| {
        let subject = name.strip_suffix(old).filter(|subject| subject.ends_with('.'))?;
        Some(format!("{subject}{new}"))
    })
}

/// Metrics of a trunk that is not enabled: they are 0.
pub(crate) const DISABLED: [&str; 3] = ["drops", "filtered", "refused"];

/// The name of one way of a link or trunk: there, or back.
pub(crate) fn way(name: &str, side: usize) -> String {
    if side == 0 { name.to_owned() } else { format!("{name}.back") }
}

/// The quantity of a metric, series or distribution by its name. `None` if nothing has such a name.
pub fn quantity(metric: &str) -> Option<&'static Quantity> {
    let all = METRICS.iter().chain(&SERIES).chain(&DISTRIBUTIONS).flat_map(|table| table.iter());
    // The longest that fits: `transfer.rtt.samples` ends as `rtt.samples` does.
    all.filter(|quantity| metric.strip_suffix(quantity.name).is_some_and(|subject| subject.ends_with('.')))
        .max_by_key(|quantity| quantity.name.len())
}

/// The unit of a metric, series or distribution by its name. `None` if nothing has such a name.
pub fn unit(metric: &str) -> Option<Unit> {
    quantity(metric).map(|quantity| quantity.unit)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    fn all() -> impl Iterator<Item = &'static Quantity> {
        METRICS.iter().chain(&SERIES).chain(&DISTRIBUTIONS).flat_map(|table| table.iter())
    }

    #[test]
    fn a_units_quantity_is_the_longest_that_ends_the_name() {
        for (name, expected) in [
            ("tcp.goodput", Some(Unit::BitPerSecond)),
            ("a.b.delay.p99", Some(Unit::Second)),
            ("core.back.queue.bytes.max", Some(Unit::Byte)),
            ("tcp.transfer.rtt.samples", Some(Unit::Count)),
            ("edge.lane0.srtt", Some(Unit::Second)),
            ("run.time", Some(Unit::Second)),
            ("core.drops", Some(Unit::Count)),
            ("core.drops.ratio", Some(Unit::Ratio)),
            ("goodput", None),
            ("core.goodputs", None),
        ] {
            assert_eq!(unit(name), expected, "{name}");
        }
    }

    #[test]
    fn what_ends_alike_has_one_unit() {
        for quantity in all() {
            assert_eq!(unit(&format!("x.{}", quantity.name)), Some(quantity.unit), "{quantity:?}");
        }
    }

    #[test]
    fn a_name_that_changed_leads_to_one_that_there_is() {
        for (old, new) in RENAMED {
            assert_eq!(renamed(&format!("core.back.{old}")), Some(format!("core.back.{new}")));
            assert!(all().any(|quantity| quantity.name == new), "{new}");
            assert!(all().all(|quantity| quantity.name != old), "{old}");
        }
        assert_eq!(renamed("core.drops"), None);
    }

    /// As docs/metrics.md has it.
    fn table(quantities: &[Quantity]) -> String {
        let mut table = String::from("| quantity | unit | meaning |\n| --- | --- | --- |\n");
        for Quantity { name, unit, present, meaning } in quantities {
            let mark = if *present == Present::Sometimes { " \\*" } else { "" };
            writeln!(table, "| `{name}`{mark} | {} | {meaning} |", unit.name()).unwrap();
        }
        table
    }

    #[test]
    fn the_page_has_every_quantity_and_no_other() {
        let page = include_str!("../../../../docs/metrics.md");
        let mut rows = 0;
        for table in METRICS.iter().chain(&SERIES).chain(&DISTRIBUTIONS).map(|quantities| table(quantities)) {
            assert!(page.contains(&table), "docs/metrics.md is to have\n\n{table}");
            rows += table.lines().count() - 2;
        }
        let on_page = page.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(on_page, rows, "rows of docs/metrics.md");
    }
}
