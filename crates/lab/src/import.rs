//! An experiment out of a recording of a link: what it carried, moment by moment.
//!
//! Two formats are read. *mahimahi* (Netravali et al., USENIX ATC 2015) has a line for each moment at which the link could carry a packet of
//! 1504 bytes, in milliseconds, and begins anew at the last one. *CSV* has a header, a column `time_s`, and `rate_mbps`, `rate_kbps` or
//! `rate_bps`, `delay_ms`, `loss` (a part of packets), each from its row's time on.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;
use trunkline_units::Rate;

/// What mahimahi lets pass at each of its moments, bytes.
const MAHIMAHI_PACKET: u64 = 1504;
/// Longer recordings are no links but logs: their experiments could not be read any more.
const MAX_STEPS: usize = 100_000;
/// An experiment runs no longer, unless it is told to.
const MAX_DURATION: Duration = Duration::from_secs(60);
/// Numbers of rates.
const DIGITS: usize = 4;

/// The format of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Moments, in milliseconds.
    Mahimahi,
    /// Rows of values.
    Csv,
}

impl Format {
    /// The format that a file's name suggests.
    pub fn of(name: &str) -> Format {
        let is_csv = name.rsplit_once('.').is_some_and(|(_, end)| end.eq_ignore_ascii_case("csv"));
        if is_csv { Format::Csv } else { Format::Mahimahi }
    }
}

/// What is wrong with a recording.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct ImportError {
    /// Of the file, from 1.
    pub line: u64,
    /// What is wrong, and what is allowed.
    pub problem: String,
}

fn error(line: u64, problem: impl Into<String>) -> ImportError {
    ImportError { line, problem: problem.into() }
}

/// From one moment on.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    at: Duration,
    rate: Option<Rate>,
    delay: Option<Duration>,
    /// A part of packets.
    loss: Option<f64>,
}

/// A recording of one direction of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// In the order of their times; the first is at 0.
    steps: Vec<Step>,
    length: Duration,
}

impl Recording {
    /// Reads a recording. Of mahimahi's moments those in the same `interval` become one rate.
    ///
    /// # Errors
    /// With the line that cannot be read, or has no place where it is.
    pub fn read(text: &str, format: Format, interval: Duration) -> Result<Self, ImportError> {
        match format {
            Format::Mahimahi => mahimahi(text, interval),
            Format::Csv => table(text),
        }
    }

    /// How long it is. After that it begins anew.
    pub const fn length(&self) -> Duration {
        self.length
    }

    /// The mean rate, if it has rates.
    pub fn mean_rate(&self) -> Option<Rate> {
        let ends = self.steps.iter().skip(1).map(|step| step.at).chain([self.length]);
        let mut bits = 0.0;
        let mut rate = 0.0;
        let mut is_known = false;
        for (step, end) in self.steps.iter().zip(ends) {
            if let Some(known) = step.rate {
                (rate, is_known) = (known.bits_per_second() as f64, true);
            }
            bits += rate * end.saturating_sub(step.at).as_secs_f64();
        }
        is_known.then(|| Rate::from_bits_per_second((bits / self.length.as_secs_f64()) as u64))
    }
}

fn mahimahi(text: &str, interval: Duration) -> Result<Recording, ImportError> {
    let mut moments: Vec<u64> = Vec::new();
    for (line, words) in (1..).zip(text.lines()) {
        let moment = words.trim().parse().map_err(|_| {
            error(line, format!("{words:?} is no time; allowed: a whole number of milliseconds"))
        })?;
        if moments.last().is_some_and(|last| moment < *last) {
            return Err(error(line, format!("{moment} is before the line above; allowed: in order of time")));
        }
        moments.push(moment);
    }
    let lines = moments.len() as u64;
    let Some(last) = moments.last().copied().filter(|last| *last > 0) else {
        return Err(error(lines.max(1), "no time is later than 0; allowed: at least one"));
    };
    let (length, width) = (Duration::from_millis(last), interval.as_millis().max(1) as u64);
    let intervals = last.div_ceil(width);
    if intervals > MAX_STEPS as u64 {
        return Err(error(
            lines,
            format!("{intervals} intervals; allowed: {MAX_STEPS}, so a longer interval"),
        ));
    }
    let mut packets = vec![0_u64; intervals as usize];
    for moment in moments {
        // What passes at the end passes before the beginning.
        packets[(moment.min(last - 1) / width) as usize] += 1;
    }
    let steps = (0..).zip(packets).map(|(number, packets): (u64, u64)| {
        let from = number * width;
        let millis = width.min(last - from);
        let rate = Rate::from_bits_per_second(packets * MAHIMAHI_PACKET * 8 * 1000 / millis);
        Step { at: Duration::from_millis(from), rate: Some(rate), delay: None, loss: None }
    });
    Ok(Recording { steps: steps.collect(), length })
}

/// A row of a table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    time_s: f64,
    rate_mbps: Option<f64>,
    rate_kbps: Option<f64>,
    rate_bps: Option<f64>,
    delay_ms: Option<f64>,
    loss: Option<f64>,
}

impl Row {
    /// What it sets, given the time of the first row.
    fn step(&self, line: u64, first: f64) -> Result<Step, ImportError> {
        let number = |name: &str, value: f64, most: f64| {
            let is_right = value.is_finite() && (0.0..=most).contains(&value);
            is_right
                .then_some(value)
                .ok_or_else(|| error(line, format!("{name} is {value}; allowed: 0 to {most}")))
        };
        let rates = [
            ("rate_mbps", self.rate_mbps, 1e6),
            ("rate_kbps", self.rate_kbps, 1e3),
            ("rate_bps", self.rate_bps, 1.0),
        ];
        let rates: Vec<_> =
            rates.into_iter().filter_map(|(name, rate, unit)| Some((name, rate?, unit))).collect();
        if let [(one, ..), (other, ..), ..] = rates.as_slice() {
            return Err(error(line, format!("has both {one} and {other}; allowed: one of them")));
        }
        let rate = rates.first().map(|(name, rate, unit)| number(name, rate * unit, 1e12)).transpose()?;
        let delay = self.delay_ms.map(|delay| number("delay_ms", delay, 1e5)).transpose()?;
        let loss = self.loss.map(|loss| number("loss", loss, 1.0)).transpose()?;
        let since = number("time_s", self.time_s - first, 1e6)?;
        if rate.is_none() && delay.is_none() && loss.is_none() {
            return Err(error(line, "sets nothing; allowed: at least one of a rate, delay_ms and loss"));
        }
        Ok(Step {
            at: Duration::from_micros((since * 1e6).round() as u64),
            rate: rate.map(|rate| Rate::from_bits_per_second(rate as u64)),
            delay: delay.map(|delay| Duration::from_micros((delay * 1e3).round() as u64)),
            loss,
        })
    }
}

fn table(text: &str) -> Result<Recording, ImportError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let mut steps: Vec<Step> = Vec::new();
    let mut first = None;
    for (number, row) in (2_u64..).zip(reader.deserialize()) {
        let row: Row = row.map_err(|wrong| {
            let line = wrong.position().map_or(number, csv::Position::line);
            let problem = match wrong.kind() {
                csv::ErrorKind::Deserialize { err, .. } => err.to_string(),
                _ => wrong.to_string(),
            };
            error(line, problem)
        })?;
        let step = row.step(number, *first.get_or_insert(row.time_s))?;
        if steps.last().is_some_and(|last| step.at <= last.at) {
            return Err(error(
                number,
                format!("{} s is not after the row above; allowed: in order of time", row.time_s),
            ));
        }
        if steps.len() == MAX_STEPS {
            return Err(error(number, format!("more than {MAX_STEPS} rows")));
        }
        steps.push(step);
    }
    let [.., before, last] = steps.as_slice() else {
        return Err(error(1, "fewer than two rows; allowed: a header and at least two"));
    };
    // The last row lasts as long as the one before it.
    let length = last.at + last.at.saturating_sub(before.at);
    Ok(Recording { steps, length })
}

/// What is around a recording in its experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Surroundings<'t> {
    /// The experiment's id and the recording's name.
    pub id: &'t str,
    /// Of the recording's file, for its reader.
    pub source: &'t str,
    /// One way, where the recording has none.
    pub delay: Duration,
    /// The link's rate, where the recording has none.
    pub rate: Rate,
    /// How long the link's queue is at its mean rate.
    pub queue: Duration,
}

/// An experiment with the link in the middle of two sites: transfers and small requests, directly and through a trunk.
pub fn experiment(there: &Recording, back: Option<&Recording>, around: &Surroundings<'_>) -> String {
    let mean = there.mean_rate().unwrap_or(around.rate);
    let duration = there.length.min(MAX_DURATION).max(Duration::from_secs(10));
    let queue = mean.bytes_in(around.queue).max(10 * MAHIMAHI_PACKET);
    let mut text = format!(
        "id = {id:?}\n\
         title = {title:?}\n\
         description = \"Eight transfers and 20 users with small requests between two sites, over the recorded link: directly, and through a trunk.\"\n\
         notes = {notes:?}\n\
         duration = \"{seconds} s\"\nwarm_up = \"2 s\"\nruns = 3\n\n\
         [nodes]\na = \"host\"\nt1 = \"gateway\"\nt2 = \"gateway\"\nx = \"host\"\n\n\
         [links.lan-a]\nends = [\"a\", \"t1\"]\nrate = \"1 Gbit/s\"\nqueue = {{ discipline = \"tail-drop\", packets = 5000 }}\n\
         [links.lan-x]\nends = [\"t2\", \"x\"]\nlike = \"lan-a\"\n\
         [links.wan]\nends = [\"t1\", \"t2\"]\n",
        id = around.id,
        title = format!("The link of {}", around.source),
        notes = format!(
            "**The link** is that of {}: {} on average, over {} s. Its queue holds {} ms at this rate. What the recording does not say is ours.",
            around.source,
            mean,
            there.length.as_secs_f64(),
            around.queue.as_millis()
        ),
        seconds = duration.as_secs(),
    );
    let _ = writeln!(text, "queue = {{ discipline = \"tail-drop\", bytes = \"{queue} B\" }}");
    text += &way(there, around);
    if let Some(back) = back {
        let _ = writeln!(text, "[links.wan.back]");
        text += &way(back, around);
    }
    text += "\n[traffic.bulk]\nkind = \"bulk\"\nfrom = \"a\"\nto = \"x\"\nport = 5001\nflows = 8\nstagger = { shape = \"uniform\", from = \"0 ms\", to = \"20 ms\" }\n\
             [traffic.requests]\nkind = \"requests\"\nfrom = \"a\"\nto = \"x\"\nport = 7000\nflows = 20\nrequest = \"64 B\"\nresponse = \"64 B\"\nthink = { shape = \"exponential\", mean = \"400 ms\" }\n\n\
             [trunks.site]\ngateways = [\"t1\", \"t2\"]\n\n\
             [sweep.trunk]\nlabel = \"way between the sites\"\n[sweep.trunk.variants]\ndirect = { \"trunks.site.enabled\" = false }\ntrunk = {}\n\n\
             [series]\nevery = \"500 ms\"\nof = [\"bulk.goodput\", \"wan.queue.packets\"]\n\n\
             [[tables]]\ntitle = \"Transfers and requests\"\ncolumns = \"trunk\"\nmetrics = [\n\
             \x20   { metric = \"bulk.goodput\", label = \"goodput of the transfers\", unit = \"Mbit/s\" },\n\
             \x20   { metric = \"requests.delay.p50\", label = \"request, median\", unit = \"ms\" },\n\
             \x20   { metric = \"requests.delay.p99\", label = \"request, 99th percentile\", unit = \"ms\" },\n\
             \x20   { metric = \"wan.sojourn.mean\", label = \"delay in the link's queue\", unit = \"ms\" },\n]\n";
    text
}

/// The keys of one direction.
fn way(recording: &Recording, around: &Surroundings<'_>) -> String {
    let mut now = beginning(recording, around);
    let begins = settings(&now);
    let mut changes = String::new();
    for step in &recording.steps[1..] {
        let changed = Step {
            at: step.at,
            rate: step.rate.filter(|rate| now.rate != Some(*rate)),
            delay: step.delay.filter(|delay| now.delay != Some(*delay)),
            loss: step.loss.filter(|loss| now.loss != Some(*loss)),
        };
        let keys = settings(&changed);
        if keys.is_empty() {
            continue;
        }
        let _ = writeln!(changes, "    {{ at = \"{}\", {} }},", seconds(step.at), keys.join(", "));
        now = Step {
            at: step.at,
            rate: changed.rate.or(now.rate),
            delay: changed.delay.or(now.delay),
            loss: changed.loss.or(now.loss),
        };
    }
    // After its end it is as it was in the beginning.
    let (initial, again) = (begins.join("\n"), begins.join(", "));
    let end = seconds(recording.length);
    format!("{initial}\nchanges = [\n{changes}    {{ at = \"{end}\", {again} }},\n]\nrepeat = \"{end}\"\n")
}

/// What holds at the beginning, with what the recording lacks.
fn beginning(recording: &Recording, around: &Surroundings<'_>) -> Step {
    let first = recording.steps[0];
    Step {
        at: Duration::ZERO,
        rate: Some(first.rate.unwrap_or(around.rate)),
        delay: Some(first.delay.unwrap_or(around.delay)),
        loss: Some(first.loss.unwrap_or(0.0)),
    }
}

/// What a step sets, as keys of a link.
fn settings(step: &Step) -> Vec<String> {
    let rate = step.rate.map(|rate| format!("rate = \"{} bit/s\"", rounded(rate.bits_per_second())));
    let delay = step.delay.map(|delay| format!("delay = \"{} us\"", delay.as_micros()));
    let loss = step.loss.map(|loss| format!("loss = {loss}"));
    [rate, delay, loss].into_iter().flatten().collect()
}

/// With as many digits as a recording is worth.
fn rounded(value: u64) -> u64 {
    let places = value.checked_ilog10().map_or(0, |last| (last as usize + 1).saturating_sub(DIGITS)) as u32;
    let unit = 10_u64.pow(places);
    (value + unit / 2) / unit * unit
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    const INTERVAL: Duration = Duration::from_millis(100);

    fn around() -> Surroundings<'static> {
        Surroundings {
            id: "recorded",
            source: "up.trace",
            delay: Duration::from_millis(20),
            rate: Rate::from_bits_per_second(10_000_000),
            queue: Duration::from_millis(100),
        }
    }

    #[test]
    fn moments_of_mahimahi_become_rates_and_a_silence_a_rate_of_zero() {
        // 100 packets in the first 100 ms, none in the second, 50 in the third.
        let times = (0..100).chain((0..50).map(|packet| 202 + 2 * packet));
        let text = times.map(|time| time.to_string()).collect::<Vec<_>>().join("\n");
        let recording = Recording::read(&text, Format::Mahimahi, INTERVAL).expect("a recording");
        assert_eq!(recording.length(), Duration::from_millis(300));
        let rates: Vec<_> = recording.steps.iter().filter_map(|step| step.rate).collect();
        assert_eq!(
            rates.iter().map(|rate| rate.bits_per_second()).collect::<Vec<_>>(),
            [12_032_000, 0, 6_016_000]
        );
        assert_eq!(recording.mean_rate().expect("a rate").bits_per_second(), 6_016_000);
    }

    #[test]
    fn rows_of_a_table_last_until_the_next_one() {
        let text = "time_s, rate_mbps, delay_ms, loss\n10, 5, 40, 0\n12.5, 2, 40, 0.5\n";
        let recording = Recording::read(text, Format::Csv, INTERVAL).expect("a recording");
        assert_eq!(recording.length(), Duration::from_secs(5));
        assert_eq!(recording.mean_rate().expect("a rate").bits_per_second(), 3_500_000);
        assert_eq!(recording.steps[1].loss, Some(0.5));
    }

    #[test]
    fn what_comes_of_a_recording_is_an_experiment() {
        let there = Recording::read("time_s,rate_kbps\n0,800\n1,200\n2,0\n3,800\n", Format::Csv, INTERVAL);
        let back = Recording::read("time_s,delay_ms\n0,10\n4,30\n", Format::Csv, INTERVAL);
        let (there, back) = (there.expect("a recording"), back.expect("a recording"));
        let text = experiment(&there, Some(&back), &around());
        let document =
            Document::parse("recorded.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
        let points = document.plan().unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
        let [forth, reverse] = &points[0].scenario.links[2].ways;
        assert_eq!((forth.rate.bits_per_second(), reverse.rate.bits_per_second()), (800_000, 10_000_000));
        assert_eq!((forth.delay, reverse.delay), (Duration::from_millis(20), Duration::from_millis(10)));
        assert_eq!(forth.changes.len(), 6, "the rates of three rows, and what it begins with");
    }

    #[test]
    fn what_is_no_recording_is_told_with_its_line() {
        for (format, text, told) in [
            (
                Format::Mahimahi,
                "1\n2\nthree\n",
                "line 3: \"three\" is no time; allowed: a whole number of milliseconds",
            ),
            (Format::Mahimahi, "5\n4\n", "line 2: 4 is before the line above; allowed: in order of time"),
            (Format::Mahimahi, "", "line 1: no time is later than 0; allowed: at least one"),
            (
                Format::Csv,
                "time_s,rate_mbps\n0,1\n",
                "line 1: fewer than two rows; allowed: a header and at least two",
            ),
            (
                Format::Csv,
                "time_s,rate_mbps\n0,1\n0,2\n",
                "line 3: 0 s is not after the row above; allowed: in order of time",
            ),
            (Format::Csv, "time_s,loss\n0,0\n1,2\n", "line 3: loss is 2; allowed: 0 to 1"),
            (
                Format::Csv,
                "time_s,rate_mbps,rate_bps\n0,1,1\n1,1,1\n",
                "line 2: has both rate_mbps and rate_bps; allowed: one of them",
            ),
        ] {
            let outcome = Recording::read(text, format, INTERVAL);
            assert_eq!(outcome.map_err(|error| error.to_string()).expect_err(told), told);
        }
        let unknown =
            Recording::read("time_s,speed\n0,1\n1,1\n", Format::Csv, INTERVAL).expect_err("no such column");
        assert!(unknown.problem.contains("speed"), "{unknown}");
    }

    #[test]
    fn rates_have_four_digits() {
        assert_eq!([0, 7, 1234, 12_345, 98_765_432].map(rounded), [0, 7, 1234, 12_350, 98_770_000]);
    }
}
