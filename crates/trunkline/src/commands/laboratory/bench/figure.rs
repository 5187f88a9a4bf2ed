//! The measured quantities, and their medians over the runs.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The means that carry packets between the sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Carrier {
    /// Plain routing.
    Direct,
    /// A trunk in clear.
    Plain,
    /// A trunk over TLS.
    Encrypted,
    /// A trunk over QUIC, in datagrams.
    Quic,
    /// A trunk over QUIC that delivers everything.
    Streams,
}

impl Carrier {
    pub(super) const ALL: [Self; 5] = [Self::Direct, Self::Plain, Self::Encrypted, Self::Quic, Self::Streams];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Plain => "plain",
            Self::Encrypted => "encrypted",
            Self::Quic => "quic",
            Self::Streams => "streams",
        }
    }
}

/// A measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Figure {
    /// Goodput at the receiver of one TCP flow, Mbit/s.
    Tcp1,
    /// The same of ten flows together.
    Tcp10,
    /// Median round trip of a datagram when nothing else is sent, µs.
    IdleP50,
    /// Its 99th percentile.
    IdleP99,
    /// Median round trip of a datagram beside one bulk TCP flow, µs.
    LoadP50,
    /// Its 99th percentile.
    LoadP99,
    /// Datagrams with 64 bytes of payload received per second of an unpaced flood.
    Pps64,
    /// Payload received of an unpaced flood of datagrams with 1400 bytes of payload, Mbit/s.
    Udp1400,
    /// CPU seconds of both gateways per 10⁹ bytes of one flow's goodput.
    CpuPerGb,
    /// The same with ten flows.
    CpuPerGb10,
    /// Resident memory of both gateways before any load, MB (10⁶ bytes).
    RssIdle,
    /// The same after the TCP tests.
    Rss,
}

impl Figure {
    pub(super) const ALL: [Self; 12] = [
        Self::Tcp1,
        Self::Tcp10,
        Self::IdleP50,
        Self::IdleP99,
        Self::LoadP50,
        Self::LoadP99,
        Self::Pps64,
        Self::Udp1400,
        Self::CpuPerGb,
        Self::CpuPerGb10,
        Self::RssIdle,
        Self::Rss,
    ];

    /// Its name in JSON.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Tcp1 => "tcp1_mbit",
            Self::Tcp10 => "tcp10_mbit",
            Self::IdleP50 => "idle_p50_us",
            Self::IdleP99 => "idle_p99_us",
            Self::LoadP50 => "load_p50_us",
            Self::LoadP99 => "load_p99_us",
            Self::Pps64 => "pps64",
            Self::Udp1400 => "udp1400_mbit",
            Self::CpuPerGb => "cpu_s_per_gb",
            Self::CpuPerGb10 => "cpu_s_per_gb_10",
            Self::RssIdle => "rss_idle_mb",
            Self::Rss => "rss_mb",
        }
    }

    /// The JSON name of its ratio to direct routing, if the result has that.
    const fn ratio_key(self) -> Option<&'static str> {
        match self {
            Self::Tcp1 => Some("ratio_tcp1"),
            Self::Tcp10 => Some("ratio_tcp10"),
            Self::Pps64 => Some("ratio_pps64"),
            Self::Udp1400 => Some("ratio_udp1400"),
            _ => None,
        }
    }
}

/// The figures of one run.
pub(super) type Run = BTreeMap<(Carrier, Figure), f64>;

/// Every run's figures.
#[derive(Debug, Default)]
pub(super) struct Results {
    runs: Vec<Run>,
}

impl Results {
    pub(super) fn add(&mut self, run: Run) {
        self.runs.push(run);
    }

    /// The median over the runs. Direct routing has no gateways, so their cost is zero.
    pub(super) fn value(&self, carrier: Carrier, figure: Figure) -> f64 {
        median(self.runs.iter().filter_map(|run| run.get(&(carrier, figure)).copied()).collect())
    }

    /// The median over the runs of the ratio to direct in the same run, if direct has the figure.
    pub(super) fn ratio(&self, carrier: Carrier, figure: Figure) -> Option<f64> {
        let ratios: Vec<f64> = self
            .runs
            .iter()
            .filter_map(|run| {
                let direct = run.get(&(Carrier::Direct, figure)).filter(|direct| **direct > 0.0)?;
                Some(run.get(&(carrier, figure))? / direct)
            })
            .collect();
        (!ratios.is_empty()).then(|| median(ratios))
    }

    /// One object per carrier.
    pub(super) fn to_json(&self) -> Map<String, Value> {
        let object = |carrier| {
            let mut object = Map::new();
            for figure in Figure::ALL {
                object.insert(figure.key().to_owned(), rounded(self.value(carrier, figure)));
            }
            for figure in Figure::ALL {
                if let Some(key) = figure.ratio_key() {
                    object.insert(key.to_owned(), rounded(self.ratio(carrier, figure).unwrap_or(0.0)));
                }
            }
            Value::Object(object)
        };
        Carrier::ALL.into_iter().map(|carrier| (carrier.name().to_owned(), object(carrier))).collect()
    }
}

/// Rounds to a thousandth, which is finer than the precision of any measurement here.
fn rounded(value: f64) -> Value {
    Value::from((value * 1000.0).round() / 1000.0)
}

/// The middle value, or the mean of the two middle values; zero without values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match (values.get(values.len().wrapping_sub(1) / 2), values.get(values.len() / 2)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_is_the_mean_of_the_middle() {
        let results = |values: &[f64]| median(values.to_vec()).to_bits();
        assert_eq!(results(&[3.0, 1.0, 2.0]), 2.0_f64.to_bits());
        assert_eq!(results(&[4.0, 1.0, 2.0, 3.0]), 2.5_f64.to_bits());
        assert_eq!(results(&[]), 0.0_f64.to_bits());
    }

    fn run(direct: f64, plain: f64) -> Run {
        Run::from([((Carrier::Direct, Figure::Tcp1), direct), ((Carrier::Plain, Figure::Tcp1), plain)])
    }

    #[test]
    fn a_ratio_is_taken_within_a_run_before_the_median() {
        let mut results = Results::default();
        // The machine was half as fast in the second run: the ratio of the medians would hide it.
        for (direct, plain) in [(100.0, 50.0), (50.0, 30.0), (100.0, 70.0)] {
            results.add(run(direct, plain));
        }
        let ratio = results.ratio(Carrier::Plain, Figure::Tcp1).expect("ratio");
        assert!((ratio - 0.6).abs() < 1e-9, "{ratio}");
        assert!((results.value(Carrier::Plain, Figure::Tcp1) - 50.0).abs() < 1e-9);
        assert_eq!(results.ratio(Carrier::Plain, Figure::Rss), None);
    }

    #[test]
    fn direct_is_one_times_itself_and_has_no_gateways() {
        let mut results = Results::default();
        results.add(run(100.0, 50.0));
        let json = results.to_json();
        assert_eq!(json["direct"]["ratio_tcp1"], 1.0);
        assert_eq!(json["direct"]["rss_mb"], 0.0);
        assert_eq!(json["plain"]["ratio_tcp1"], 0.5);
    }
}
