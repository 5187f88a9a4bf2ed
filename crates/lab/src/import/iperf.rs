//! Logs of iperf3, as JSON and as text; the text of iperf 2 has the same form.
//!
//! A line of text is `[  5]   1.00-2.00   sec  11.2 MBytes  94.1 Mbits/sec    0   406 KBytes`, with `[SUM]` where streams are added up, and with
//! a summary at the end. In bits the prefixes are powers of 1000, in bytes of 1024 (iperf3's `units.c`).

use serde::Deserialize;

use super::{ImportError, MAX_BITS_PER_SECOND, MAX_STEPS, Recording, Step, micros, of_all, rate_of};

/// Where text is looked at to see whether it is a log: servers say something before.
const LOOKED_AT: usize = 200;

/// What was carried in an interval.
#[derive(Debug, Clone, PartialEq)]
struct Interval {
    /// Of the file, if it is known.
    line: Option<u64>,
    begin: f64,
    end: f64,
    bits_per_second: f64,
}

/// Whether text has lines of iperf.
pub(super) fn is_log(text: &str) -> bool {
    text.lines().take(LOOKED_AT).any(|line| Line::parse(line).is_some())
}

/// A line of an interval.
#[derive(Debug, PartialEq)]
struct Line<'a> {
    /// The number of the stream, or `SUM`.
    stream: &'a str,
    /// Of a test in both directions.
    role: Option<&'a str>,
    begin: f64,
    end: f64,
    bits_per_second: f64,
    is_summary: bool,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, values) = line.split_once(" sec ")?;
        let (_, bracket) = before.split_once('[')?;
        let (stream, rest) = bracket.split_once(']')?;
        let (role, times) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((role, times)) => (Some(role), times),
            None => (None, rest),
        };
        let (begin, end) = times.split_once('-')?;
        let words: Vec<&str> = values.split_whitespace().collect();
        let unit = words.iter().position(|word| word.ends_with("/sec"))?;
        let rate: f64 = words.get(unit.checked_sub(1)?)?.parse().ok()?;
        Some(Self {
            stream: stream.trim(),
            role,
            begin: begin.trim().parse().ok().filter(|begin: &f64| begin.is_finite())?,
            end: end.trim().parse().ok().filter(|end: &f64| end.is_finite())?,
            bits_per_second: rate * factor(words[unit])?,
            is_summary: words.iter().any(|word| ["sender", "receiver", "(omitted)"].contains(word)),
        })
    }
}

/// Of a unit such as `Mbits/sec` or `KBytes/sec`.
fn factor(unit: &str) -> Option<f64> {
    let (prefix, base, unit) = match (unit.strip_suffix("bits/sec"), unit.strip_suffix("Bytes/sec")) {
        (Some(prefix), _) => (prefix, 1000_f64, 1.0),
        (_, Some(prefix)) => (prefix, 1024.0, 8.0),
        _ => return None,
    };
    let power = (0..).zip(["", "K", "M", "G", "T"]).find(|(_, known)| *known == prefix)?.0;
    Some(unit * base.powi(power))
}

/// Reads the text of a test.
pub(super) fn log(text: &str) -> Result<(Recording, Vec<String>), ImportError> {
    let lines = (1_u64..).zip(text.lines()).filter_map(|(number, line)| Some((number, Line::parse(line)?)));
    let mut lines: Vec<(u64, Line)> = lines.filter(|(_, line)| !line.is_summary).collect();
    let mut notes = Vec::new();
    if let Some(first) = lines.iter().find_map(|(_, line)| line.role) {
        let all = lines.len();
        lines.retain(|(_, line)| line.role == Some(first));
        if lines.len() < all {
            notes.push(format!("a test in both directions: the one that iperf3 calls {first} is read"));
        }
    }
    if lines.iter().any(|(_, line)| line.stream == "SUM") {
        lines.retain(|(_, line)| line.stream == "SUM");
    }
    // iperf 2 has no word for its summary: it begins where the test began.
    if let [(_, first), .., (_, last)] = lines.as_slice()
        && lines.len() > 2
        && first.begin.total_cmp(&last.begin).is_eq()
        && last.end > first.end
    {
        lines.pop();
    }
    let mut intervals: Vec<Interval> = Vec::new();
    for (number, line) in lines {
        match intervals.last_mut() {
            // The next stream's part of the same interval.
            Some(same) if same.begin.total_cmp(&line.begin).is_eq() => {
                same.bits_per_second += line.bits_per_second;
            }
            _ => intervals.push(Interval {
                line: Some(number),
                begin: line.begin,
                end: line.end,
                bits_per_second: line.bits_per_second,
            }),
        }
    }
    Ok((recording(&intervals)?, notes))
}

#[derive(Debug, Deserialize)]
struct Test {
    error: Option<String>,
    intervals: Option<Vec<Measured>>,
}

/// What `--json-stream` prints on a line.
#[derive(Debug, Deserialize)]
struct Streamed {
    event: String,
    data: serde_json::Value,
}

#[derive(Debug, Deserialize)]
struct Measured {
    sum: Sum,
    sum_bidir_reverse: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Sum {
    start: f64,
    end: f64,
    bits_per_second: f64,
    #[serde(default)]
    omitted: bool,
}

/// Reads the JSON of a test, whole or a line for each event.
pub(super) fn json(text: &str) -> Result<(Recording, Vec<String>), ImportError> {
    let lines = (1_u64..).zip(text.lines()).map_while(|(number, line)| {
        let streamed: Streamed = serde_json::from_str(line).ok()?;
        Some((Some(number), streamed))
    });
    let streamed: Vec<(Option<u64>, Streamed)> = lines.collect();
    let wrong = |line: Option<u64>, wrong: &serde_json::Error| ImportError {
        line: line.or((wrong.line() > 0).then_some(wrong.line() as u64)),
        problem: format!("{wrong}; allowed: what iperf3 --json prints, or a table"),
    };
    let measured: Vec<(Option<u64>, Measured)> = if streamed.is_empty() {
        let test: Test = serde_json::from_str(text).map_err(|error| wrong(None, &error))?;
        if let (Some(said), true) = (test.error, test.intervals.as_ref().is_none_or(Vec::is_empty)) {
            return Err(of_all(format!("iperf3 has measured nothing: {said}")));
        }
        let Some(intervals) = test.intervals else {
            return Err(of_all("JSON without intervals; allowed: what iperf3 --json prints, or a table"));
        };
        intervals.into_iter().map(|measured| (None, measured)).collect()
    } else {
        let intervals = streamed.into_iter().filter(|(_, streamed)| streamed.event == "interval");
        let measured = intervals.map(|(line, streamed)| {
            Ok((line, serde_json::from_value(streamed.data).map_err(|error| wrong(line, &error))?))
        });
        measured.collect::<Result<_, ImportError>>()?
    };
    let mut notes = Vec::new();
    if measured.iter().any(|(_, measured)| measured.sum_bidir_reverse.is_some()) {
        notes.push("a test in both directions: that from the client is read".to_owned());
    }
    let intervals = measured.into_iter().filter(|(_, measured)| !measured.sum.omitted);
    let intervals: Vec<Interval> = intervals
        .map(|(line, Measured { sum, .. })| Interval {
            line,
            begin: sum.start,
            end: sum.end,
            bits_per_second: sum.bits_per_second,
        })
        .collect();
    Ok((recording(&intervals)?, notes))
}

fn recording(intervals: &[Interval]) -> Result<Recording, ImportError> {
    let [first, _, ..] = intervals else {
        return Err(of_all(
            "fewer than two intervals; allowed: two and more, such as of iperf3 --interval 0.5 --time 60",
        ));
    };
    if intervals.len() > MAX_STEPS {
        return Err(of_all(format!("{} intervals; allowed: {MAX_STEPS}", intervals.len())));
    }
    let mut steps: Vec<Step> = Vec::new();
    let mut end = first.begin;
    for interval in intervals {
        let wrong = |problem: String| ImportError { line: interval.line, problem };
        let Interval { begin, bits_per_second, .. } = *interval;
        if !bits_per_second.is_finite() || !(0.0..=MAX_BITS_PER_SECOND).contains(&bits_per_second) {
            return Err(wrong(format!(
                "the interval from {begin} s on has {bits_per_second} bit/s; allowed: 0 to {MAX_BITS_PER_SECOND}"
            )));
        }
        let at = micros(begin - first.begin);
        if steps.last().is_some_and(|last| at <= last.at) || interval.end <= begin {
            return Err(wrong(format!(
                "the interval from {begin} s on is not after the one before; allowed: one test in a file"
            )));
        }
        steps.push(Step { at, rate: Some(rate_of(bits_per_second)), delay: None, loss: None });
        end = interval.end;
    }
    Ok(Recording::of_steps(steps, micros(end - first.begin)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(read: &(Recording, Vec<String>)) -> Vec<u64> {
        read.0.steps.iter().filter_map(|step| Some(step.rate?.bits_per_second())).collect()
    }

    #[test]
    fn streams_are_added_up_and_summaries_and_omitted_intervals_left_out() {
        let sums = "Connecting to host 192.0.2.1, port 5201\n\
            [ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n\
            [  5]   0.00-1.00   sec  1.00 MBytes  8.39 Mbits/sec    0    406 KBytes       (omitted)\n\
            [  5]   0.00-1.00   sec  11.2 MBytes  94.1 Mbits/sec    0    406 KBytes\n\
            [  7]   0.00-1.00   sec  11.2 MBytes  5.9 Mbits/sec    0    406 KBytes\n\
            [SUM]   0.00-1.00   sec  22.4 MBytes  100 Mbits/sec    0\n\
            - - - - - - - - - - - - - - - - - - - - - - - - -\n\
            [SUM]   1.00-2.00   sec  0.00 Bytes  0.00 bits/sec    3\n\
            [SUM]   0.00-2.00   sec  22.4 MBytes  50 Mbits/sec    3             sender\n\
            iperf Done.\n";
        let read = log(sums).expect("a log");
        assert_eq!((rates(&read), read.0.length.as_secs()), (vec![100_000_000, 0], 2));
        let without: String = sums.split_inclusive('\n').filter(|line| !line.contains("SUM")).collect();
        let twice = without
            + "[  5]   1.00-2.00   sec  1 MBytes  1.5 MBytes/sec\n[  7]   1.00-2.00   sec  1 MBytes  1 KBytes/sec\n";
        assert_eq!(rates(&log(&twice).expect("a log")), [100_000_000, 12_582_912 + 8192]);
    }

    #[test]
    fn iperf_2_has_spaces_in_its_times_and_a_summary_without_a_word() {
        let text = "[  3]  0.0- 1.0 sec  1.12 MBytes  9.44 Mbits/sec\n\
                    [  3]  1.0- 2.0 sec  1.12 MBytes  4.5 Mbits/sec\n\
                    [  3]  0.0- 2.0 sec  2.24 MBytes  6.97 Mbits/sec\n";
        assert_eq!(rates(&log(text).expect("a log")), [9_440_000, 4_500_000]);
    }

    #[test]
    fn of_both_directions_one_is_read_and_a_note_says_which() {
        let text = "[  5][TX-C]   0.00-1.00   sec  1 MBytes  8 Mbits/sec\n\
                    [  7][RX-C]   0.00-1.00   sec  1 MBytes  4 Mbits/sec\n\
                    [  5][TX-C]   1.00-2.00   sec  1 MBytes  9 Mbits/sec\n\
                    [  7][RX-C]   1.00-2.00   sec  1 MBytes  5 Mbits/sec\n";
        let read = log(text).expect("a log");
        assert_eq!(rates(&read), [8_000_000, 9_000_000]);
        assert!(read.1.len() == 1 && read.1[0].contains("TX-C"), "{:?}", read.1);
    }

    #[test]
    fn what_is_wrong_with_a_log_is_told_with_its_line_or_what_to_do() {
        let second = "[  5]   0.00-1.00   sec  1 MBytes  8 Mbits/sec\n\
                      [  5]   1.00-2.00   sec  1 MBytes  8 Mbits/sec\n\
                      Server listening on 5201 (test #2)\n\
                      [  5]   0.00-1.00   sec  1 MBytes  8 Mbits/sec\n\
                      [  5]   1.00-2.00   sec  1 MBytes  8 Mbits/sec\n";
        let told = |read: Result<_, ImportError>| {
            read.map(|_: (Recording, Vec<String>)| ()).expect_err("wrong").to_string()
        };
        assert!(told(log(second)).starts_with("line 4: "), "{}", told(log(second)));
        assert!(told(log(&second[..47])).contains("--interval"));
        assert!(told(json("{\n \"a\": \n}")).starts_with("line 3: "));
        assert!(
            told(json("{\"intervals\": [], \"error\": \"unable to connect\"}")).contains("unable to connect")
        );
        assert!(told(json("{\"results\": []}")).contains("iperf3 --json"));
    }
}
