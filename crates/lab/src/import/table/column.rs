//! What the columns of a table are, by their names.

use super::super::MAX_BITS_PER_SECOND;

/// A day has fewer seconds than this, and a recording of a link is not longer than a few days.
pub(super) const MAX_SECONDS: f64 = 1e6;
const MAX_DELAY_SECONDS: f64 = 100.0;

/// Units of time, and how many seconds they have.
const TIMES: [(&str, f64); 18] = [
    ("s", 1.0),
    ("sec", 1.0),
    ("secs", 1.0),
    ("second", 1.0),
    ("seconds", 1.0),
    ("ms", 1e-3),
    ("msec", 1e-3),
    ("millis", 1e-3),
    ("millisecond", 1e-3),
    ("milliseconds", 1e-3),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("usec", 1e-6),
    ("micros", 1e-6),
    ("microseconds", 1e-6),
    ("ns", 1e-9),
    ("nanoseconds", 1e-9),
    ("min", 60.0),
];
/// What a column of times is called, without its unit.
const MOMENTS: [&str; 17] = [
    "",
    "date",
    "time",
    "timestamp",
    "ts",
    "t",
    "elapsed",
    "elapsed time",
    "relative time",
    "epoch",
    "unix time",
    "datetime",
    "date time",
    "start",
    "start time",
    "utc",
    "local time",
];
const DELAYS: [&str; 5] = ["delay", "owd", "one way delay", "path delay", "link delay"];
const LOSSES: [&str; 6] = ["loss", "packet loss", "loss ratio", "loss rate", "packet loss rate", "plr"];
/// What may be in bits without a time: `throughput (Mbit)`.
const RATES: [&str; 8] = ["rate", "throughput", "bandwidth", "bw", "bitrate", "goodput", "speed", "capacity"];
/// The names that docs/laboratory.md has. Where others have the same meaning, these are meant.
const CANONICAL: [&str; 6] = ["time_s", "rate_mbps", "rate_kbps", "rate_bps", "delay_ms", "loss"];

/// What a column says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// When.
    Time,
    /// bit/s.
    Rate,
    /// One way.
    Delay,
    /// A part of packets.
    Loss,
}

/// What a column says and in what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Meaning {
    pub(super) quantity: Quantity,
    /// How much of the base unit one of its unit is; none if its name does not say.
    pub(super) factor: Option<f64>,
}

impl Meaning {
    /// In the column's unit.
    pub(super) fn most(self) -> f64 {
        let most = match self.quantity {
            Quantity::Time => MAX_SECONDS,
            Quantity::Rate => MAX_BITS_PER_SECOND,
            Quantity::Delay => MAX_DELAY_SECONDS,
            Quantity::Loss => 1.0,
        };
        most / self.factor.unwrap_or(1.0)
    }

    /// Of a column with this name; none if it says nothing of a link, or not in which unit.
    pub(super) fn of(name: &str) -> Option<Self> {
        let words = words(name);
        if let Some(factor) = rate(&words) {
            return Some(Meaning { quantity: Quantity::Rate, factor: Some(factor) });
        }
        let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        if let Some(factor) = loss(&words) {
            return Some(Meaning { quantity: Quantity::Loss, factor: Some(factor) });
        }
        let unit = words.last().and_then(|last| TIMES.iter().find(|(name, _)| name == last));
        let rest = &words[..words.len() - usize::from(unit.is_some())];
        let (called, factor) = (rest.join(" "), unit.map(|(_, factor)| *factor));
        if DELAYS.contains(&called.as_str()) {
            return factor.map(|factor| Meaning { quantity: Quantity::Delay, factor: Some(factor) });
        }
        MOMENTS.contains(&called.as_str()).then_some(Meaning { quantity: Quantity::Time, factor })
    }
}

/// Whether a name is one that docs/laboratory.md has.
pub(super) fn is_canonical(name: &str) -> bool {
    CANONICAL.contains(&name.to_lowercase().as_str())
}

/// `Downlink [Mbit/s]` is `Downlink`, `Mbit`, `s`.
fn words(name: &str) -> Vec<String> {
    let parts = name.split(|letter: char| !letter.is_alphanumeric() && letter != '%');
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Of a rate, by its unit: `mbps`, `Mbit/s`, `bits_per_second`, `MB/s`.
fn rate(words: &[String]) -> Option<f64> {
    let ends = |word: &String, ends: &[&str]| ends.contains(&word.to_lowercase().as_str());
    match words {
        [.., unit, per, second] if ends(per, &["per", "p"]) && ends(second, &["s", "sec", "second"]) => {
            data(unit)
        }
        [.., unit, second] if ends(second, &["s", "sec", "second"]) => data(unit),
        [.., unit] => {
            let per_second = unit
                .len()
                .checked_sub(2)
                .filter(|start| unit.get(*start..).is_some_and(|end| end.eq_ignore_ascii_case("ps")));
            match per_second {
                // In MBPS the B is as large as all else.
                Some(start) if unit.ends_with("PS") => data(&unit[..start].to_lowercase()),
                Some(start) => data(&unit[..start]),
                None => data(unit).filter(|_| words.iter().any(|word| ends(word, &RATES))),
            }
        }
        [] => None,
    }
}

/// How many bits a unit of data has.
fn data(unit: &str) -> Option<f64> {
    let lower = unit.to_lowercase();
    let bits = ["bits", "bit"].iter().find_map(|end| lower.strip_suffix(end)).map(|prefix| (prefix, 1.0));
    let bytes = ["bytes", "byte"].iter().find_map(|end| lower.strip_suffix(end)).map(|prefix| (prefix, 8.0));
    let letter = lower.strip_suffix('b').map(|prefix| (prefix, if unit.ends_with('B') { 8.0 } else { 1.0 }));
    let (prefix, bits) = bits.or(bytes).or(letter)?;
    let prefix = match prefix {
        "" => 1.0,
        "k" | "kilo" => 1e3,
        "m" | "mega" => 1e6,
        "g" | "giga" => 1e9,
        _ => return None,
    };
    Some(prefix * bits)
}

/// Of a loss: a part, unless it is in percent.
fn loss(words: &[String]) -> Option<f64> {
    let (called, factor) = match words {
        [rest @ .., last] if ["percent", "pct", "%"].contains(&last.as_str()) => (rest, 0.01),
        all => (all, 1.0),
    };
    LOSSES.contains(&called.join(" ").as_str()).then_some(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_people_give_say_what_a_column_is_and_in_which_unit() {
        use Quantity::{Delay, Loss, Rate, Time};
        for (names, quantity, factor) in [
            (&["time_s", "Time (s)", "seconds", "elapsed_s", "t [sec]"][..], Time, Some(1.0)),
            (&["timestamp_ms", "Time[ms]", "ms"], Time, Some(1e-3)),
            (&["time", "timestamp", "Date Time", "ts", "UTC"], Time, None),
            (
                &[
                    "rate_mbps",
                    "throughput_mbps",
                    "Mbit/s",
                    "DL [Mbit/s]",
                    "RATE_MBPS",
                    "mbits_per_second",
                    "speed Mb/s",
                    "bandwidth (Mbit)",
                ],
                Rate,
                Some(1e6),
            ),
            (&["rate_kbps", "bitrate kbit/s", "Kbits/sec"], Rate, Some(1e3)),
            (&["bits_per_second", "bps", "rate_bps"], Rate, Some(1.0)),
            (&["throughput_MBps", "MB/s", "mbytes/s"], Rate, Some(8e6)),
            (&["delay_ms", "owd (ms)", "one-way delay [ms]"], Delay, Some(1e-3)),
            (&["loss", "packet_loss", "loss ratio"], Loss, Some(1.0)),
            (&["loss_percent", "loss (%)", "Packet loss %"], Loss, Some(0.01)),
        ] {
            for name in names {
                assert_eq!(Meaning::of(name), Some(Meaning { quantity, factor }), "{name}");
            }
        }
    }

    #[test]
    fn what_is_no_value_of_a_link_or_has_no_unit_is_not_guessed() {
        for name in [
            "speed",
            "rate",
            "retrans",
            "cwnd_kb",
            "rtt_ms",
            "latency_ms",
            "delay",
            "MBytes",
            "snr_db",
            "ips",
            "gps",
            "steps",
        ] {
            assert_eq!(Meaning::of(name), None, "{name}");
        }
    }
}
