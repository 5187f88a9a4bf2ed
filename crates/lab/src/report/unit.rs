//! Units that people read: a metric is in s, B, bit/s or 1, and shown in ms, kB, kbit/s or %.

use trunkline_engine::catalogue::{self, Unit};

use crate::{language, number};

/// What a number is shown in.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DisplayUnit {
    /// Behind a number; empty for a count.
    pub(super) name: String,
    /// How much of the base unit one of it is.
    factor: f64,
}

/// The base unit of a metric or a series, by its name; see docs/metrics.md.
pub(super) fn base_unit(metric: &str) -> Unit {
    catalogue::unit(metric).unwrap_or(Unit::Count)
}

impl DisplayUnit {
    /// A unit of this kind, by its name.
    pub(super) fn named(base: Unit, name: &str) -> Option<Self> {
        let (of, factor) = language::base(name).filter(|_| !name.is_empty())?;
        let shown = if name == "1" { "" } else { name };
        (of == base.name()).then(|| DisplayUnit { name: shown.to_owned(), factor })
    }

    /// The one of this kind that a label names: `RTT (ms)`, `goodput in Mbit/s`, `loss, %`.
    pub(super) fn named_in(base: Unit, label: &str) -> Option<Self> {
        let words = label.trim().trim_end_matches([')', ']']);
        let last = words.rsplit([' ', '(', '[', ',']).next()?;
        Self::named(base, last).filter(|unit| !unit.name.is_empty())
    }

    /// The unit of this kind in which such values have few digits.
    pub(super) fn fitting(base: Unit, values: impl IntoIterator<Item = f64>) -> Self {
        let largest = values.into_iter().filter(|value| value.is_finite()).map(f64::abs).fold(0.0, f64::max);
        let (name, factor) = number::suited(largest, if base == Unit::Ratio { "%" } else { base.name() });
        DisplayUnit { name: name.to_owned(), factor }
    }

    /// Numbers as they are.
    pub(super) fn none() -> Self {
        Self { name: String::new(), factor: 1.0 }
    }

    /// From the base unit.
    pub(super) fn show(&self, value: f64) -> f64 {
        value / self.factor
    }

    /// Behind the name of what is in it: ` (ms)`, or nothing.
    pub(super) fn behind(&self) -> String {
        if self.name.is_empty() { String::new() } else { format!(" ({})", self.name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quantity_has_its_base() {
        for (metric, base) in [
            ("tcp.goodput", Unit::BitPerSecond),
            ("tcp.flow.goodput.std", Unit::BitPerSecond),
            ("core.back.delivered", Unit::BitPerSecond),
            ("core.delivered.packets", Unit::Count),
            ("t.lane0.delivery_rate", Unit::BitPerSecond),
            ("web.delay.p99", Unit::Second),
            ("web.rtt.min_of_all", Unit::Second),
            ("web.rtt.samples", Unit::Count),
            ("core.sojourn.p95", Unit::Second),
            ("run.time", Unit::Second),
            ("tcp.retransmitted.bytes", Unit::Byte),
            ("tcp.retransmitted.ratio", Unit::Ratio),
            ("core.drops.ratio", Unit::Ratio),
            ("core.drops", Unit::Count),
            ("core.drops.bytes", Unit::Byte),
            ("core.queue.packets.p97_5", Unit::Count),
            ("core.queue.bytes.mean", Unit::Byte),
            ("proxy.buffered.max", Unit::Byte),
            ("core.utilisation", Unit::Ratio),
            ("all.fairness.groups", Unit::Count),
            ("bulk.0.cwnd", Unit::Byte),
            ("t.lane.overhead", Unit::Count),
        ] {
            assert_eq!(base_unit(metric), base, "{metric}");
        }
    }

    #[test]
    fn values_are_converted() {
        for (base, unit, value, shown) in [
            (Unit::Second, "ms", 4.133, 4133.0),
            (Unit::Second, "µs", 5e-6, 5.0),
            (Unit::Second, "min", 90.0, 1.5),
            (Unit::Byte, "kB", 512_000.0, 512.0),
            (Unit::Byte, "KiB", 2048.0, 2.0),
            (Unit::BitPerSecond, "kbit/s", 1180.0, 1.18),
            (Unit::BitPerSecond, "Mbit/s", 7_400_000.0, 7.4),
            (Unit::BitPerSecond, "KB/s", 2_512_000.0, 314.0),
            (Unit::Ratio, "%", 0.281, 28.1),
            (Unit::Ratio, "1", 0.281, 0.281),
        ] {
            let unit = DisplayUnit::named(base, unit).unwrap();
            assert!((unit.show(value) - shown).abs() < 1e-9 * shown, "{unit:?}");
        }
        assert_eq!(DisplayUnit::named(Unit::Second, "kbit/s"), None);
        assert_eq!(DisplayUnit::named(Unit::Count, "packets"), None);
    }

    #[test]
    fn a_label_may_name_the_unit() {
        let named = |base: Unit, label| DisplayUnit::named_in(base, label).map(|unit| unit.name);
        assert_eq!(named(Unit::Second, "RTT (ms)"), Some("ms".into()));
        assert_eq!(named(Unit::BitPerSecond, "Goodput [Mbit/s]"), Some("Mbit/s".into()));
        assert_eq!(named(Unit::Ratio, "drops in %"), Some("%".into()));
        assert_eq!(named(Unit::Byte, "KB"), Some("KB".into()));
        assert_eq!(named(Unit::Second, "Delay of requests"), None);
        assert_eq!(named(Unit::Count, "Queue (packets)"), None);
    }

    #[test]
    fn a_fitting_unit_leaves_the_largest_value_between_one_and_a_thousand() {
        let fitting = |base: Unit, largest: f64| DisplayUnit::fitting(base, [f64::NAN, 0.0, -largest]).name;
        assert_eq!(fitting(Unit::Second, 15.8), "s");
        assert_eq!(fitting(Unit::Second, 0.041), "ms");
        assert_eq!(fitting(Unit::Second, 0.000_02), "µs");
        assert_eq!(fitting(Unit::BitPerSecond, 1180.0), "kbit/s");
        assert_eq!(fitting(Unit::BitPerSecond, 7.4e6), "Mbit/s");
        assert_eq!(fitting(Unit::Byte, 385_784.0), "kB");
        assert_eq!(fitting(Unit::Ratio, 0.3), "%");
        assert_eq!(fitting(Unit::Count, 5e6), "");
        assert_eq!(DisplayUnit::fitting(Unit::Second, []).name, "s");
    }
}
