//! Units that people read: a metric is in s, B, bit/s or 1, and shown in ms, kB, kbit/s or %.

use crate::{catalogue, language};

/// What a metric is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    Seconds,
    Octets,
    BitsPerSecond,
    /// A part of a whole; shown in %.
    Share,
    One,
}

/// What a number is shown in.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unit {
    /// Behind a number; empty for a count.
    pub(super) name: String,
    /// How much of the base unit one of it is.
    factor: f64,
}

/// Quantities that are a part of a whole, by the end of their names.
const SHARES: [&str; 3] = ["share", "percent", "utilisation"];

impl Base {
    /// Of a metric or a series, by its name; see docs/metrics.md.
    pub(super) fn of(metric: &str) -> Self {
        match catalogue::unit(metric) {
            Some("s") => Self::Seconds,
            Some("B") => Self::Octets,
            Some("bit/s") => Self::BitsPerSecond,
            _ if metric.rsplit('.').next().is_some_and(|end| SHARES.contains(&end)) => Self::Share,
            _ => Self::One,
        }
    }

    /// What a unit of this kind is in the base unit.
    fn factor(self, name: &str) -> Option<f64> {
        let base = match self {
            Self::Seconds => "s",
            Self::Octets => "B",
            Self::BitsPerSecond => "bit/s",
            Self::Share if name == "‰" => return Some(0.001),
            Self::Share | Self::One => "1",
        };
        language::base(name).filter(|(of, _)| *of == base && !name.is_empty()).map(|(_, factor)| factor)
    }

    /// By its name. A count is in whatever it is said to be a count of.
    pub(super) fn unit(self, name: &str) -> Option<Unit> {
        match self.factor(name) {
            Some(_) if name == "1" => Some(Unit::none()),
            Some(factor) => Some(Unit { name: name.to_owned(), factor }),
            None if self == Self::One => Some(Unit { name: name.to_owned(), factor: 1.0 }),
            None => None,
        }
    }

    fn known(self, name: &str) -> Option<Unit> {
        (name != "1").then(|| self.factor(name))?.map(|factor| Unit { name: name.to_owned(), factor })
    }

    /// The one that a label names: `RTT (ms)`, `goodput in Mbit/s`, `loss, %`.
    pub(super) fn named_in(self, label: &str) -> Option<Unit> {
        let words = label.trim().trim_end_matches([')', ']']);
        let last = words.rsplit([' ', '(', '[', ',']).next()?;
        self.known(last)
    }

    /// The unit in which values like these have few digits.
    pub(super) fn fitting(self, values: impl IntoIterator<Item = f64>) -> Unit {
        let largest = values.into_iter().filter(|value| value.is_finite()).map(f64::abs).fold(0.0, f64::max);
        let name = match self {
            Self::Share => "%",
            Self::One => "1",
            Self::Seconds if largest >= 1.0 || largest == 0.0 => "s",
            Self::Seconds if largest >= 1e-3 => "ms",
            Self::Seconds => "µs",
            Self::Octets if largest >= 1e9 => "GB",
            Self::Octets if largest >= 1e6 => "MB",
            Self::Octets if largest >= 1e3 => "kB",
            Self::Octets => "B",
            Self::BitsPerSecond if largest >= 1e9 => "Gbit/s",
            Self::BitsPerSecond if largest >= 1e6 => "Mbit/s",
            Self::BitsPerSecond if largest >= 1e3 => "kbit/s",
            Self::BitsPerSecond => "bit/s",
        };
        self.unit(name).unwrap_or_else(Unit::none)
    }
}

impl Unit {
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
            ("tcp.goodput", Base::BitsPerSecond),
            ("tcp.flow.goodput.std", Base::BitsPerSecond),
            ("core.back.delivered", Base::BitsPerSecond),
            ("core.delivered.packets", Base::One),
            ("t.lane0.delivery_rate", Base::BitsPerSecond),
            ("web.delay.p99", Base::Seconds),
            ("web.rtt.least", Base::Seconds),
            ("web.rtt.samples", Base::One),
            ("core.sojourn.p95", Base::Seconds),
            ("run.time", Base::Seconds),
            ("tcp.retransmitted.bytes", Base::Octets),
            ("tcp.retransmitted.share", Base::Share),
            ("core.drops.percent", Base::Share),
            ("core.drops", Base::One),
            ("core.drops.bytes", Base::Octets),
            ("core.queue.packets.high95", Base::One),
            ("core.queue.bytes.mean", Base::Octets),
            ("proxy.buffered.max", Base::Octets),
            ("core.utilisation", Base::Share),
            ("all.fairness.groups", Base::One),
            ("bulk.0.cwnd", Base::Octets),
            ("t.lane.overhead", Base::One),
        ] {
            assert_eq!(Base::of(metric), base, "{metric}");
        }
    }

    #[test]
    fn bases_are_those_of_the_catalogue() {
        use crate::catalogue::{DISTRIBUTIONS, QUANTITIES, SERIES};
        for quantity in QUANTITIES.iter().chain(SERIES).chain(DISTRIBUTIONS) {
            let unit = match Base::of(&format!("subject.{}", quantity.name)) {
                Base::Seconds => "s",
                Base::Octets => "B",
                Base::BitsPerSecond => "bit/s",
                Base::Share | Base::One => "1",
            };
            assert_eq!(unit, quantity.unit, "{}", quantity.name);
        }
    }

    #[test]
    fn values_are_converted() {
        for (base, unit, value, shown) in [
            (Base::Seconds, "ms", 4.133, 4133.0),
            (Base::Seconds, "µs", 5e-6, 5.0),
            (Base::Seconds, "min", 90.0, 1.5),
            (Base::Octets, "kB", 512_000.0, 512.0),
            (Base::Octets, "KiB", 2048.0, 2.0),
            (Base::BitsPerSecond, "kbit/s", 1180.0, 1.18),
            (Base::BitsPerSecond, "Mbit/s", 7_400_000.0, 7.4),
            (Base::BitsPerSecond, "KB/s", 2_512_000.0, 314.0),
            (Base::Share, "%", 0.281, 28.1),
            (Base::Share, "1", 0.281, 0.281),
            (Base::One, "packets", 267.0, 267.0),
        ] {
            let unit = base.unit(unit).unwrap();
            assert!((unit.show(value) - shown).abs() < 1e-9 * shown, "{unit:?}");
        }
        assert_eq!(Base::Seconds.unit("kbit/s"), None);
    }

    #[test]
    fn a_label_may_name_the_unit() {
        let named = |base: Base, label| base.named_in(label).map(|unit| unit.name);
        assert_eq!(named(Base::Seconds, "RTT (ms)"), Some("ms".into()));
        assert_eq!(named(Base::BitsPerSecond, "Goodput [Mbit/s]"), Some("Mbit/s".into()));
        assert_eq!(named(Base::Share, "drops in %"), Some("%".into()));
        assert_eq!(named(Base::Octets, "KB"), Some("KB".into()));
        assert_eq!(named(Base::Seconds, "Delay of requests"), None);
        assert_eq!(named(Base::One, "Queue (packets)"), None);
    }

    #[test]
    fn a_fitting_unit_leaves_the_largest_value_between_one_and_a_thousand() {
        let fitting = |base: Base, largest: f64| base.fitting([f64::NAN, 0.0, -largest]).name;
        assert_eq!(fitting(Base::Seconds, 15.8), "s");
        assert_eq!(fitting(Base::Seconds, 0.041), "ms");
        assert_eq!(fitting(Base::Seconds, 0.000_02), "µs");
        assert_eq!(fitting(Base::BitsPerSecond, 1180.0), "kbit/s");
        assert_eq!(fitting(Base::BitsPerSecond, 7.4e6), "Mbit/s");
        assert_eq!(fitting(Base::Octets, 385_784.0), "kB");
        assert_eq!(fitting(Base::Share, 0.3), "%");
        assert_eq!(fitting(Base::One, 5e6), "");
        assert_eq!(Base::Seconds.fitting([]).name, "s");
    }
}
