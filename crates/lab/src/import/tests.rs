//! Recordings in the forms in which people have them.

use std::fmt::Write as _;

use chrono::DateTime;
use serde_json::json;
use trunkline_units::Rng;

use super::*;
use crate::document::Document;

fn read(text: &str) -> Result<(Recording, Vec<String>), ImportError> {
    Recording::read(text.as_bytes())
}

fn recording(text: &str) -> Recording {
    read(text).unwrap_or_else(|error| panic!("{error}\n{text}")).0
}

fn notes(text: &str) -> Vec<String> {
    read(text).unwrap_or_else(|error| panic!("{error}\n{text}")).1
}

fn rates(recording: &Recording) -> Vec<u64> {
    recording.steps.iter().filter_map(|step| Some(step.rate?.bits_per_second())).collect()
}

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
fn moments_of_mahimahi_are_those_at_which_the_link_sends() {
    // 100 packets in the first 100 ms, none in the second, 50 in the third.
    let times: Vec<u32> = (0..100).chain((0..50).map(|packet| 202 + 2 * packet)).collect();
    let text = times.iter().map(u32::to_string).collect::<Vec<_>>().join("\n");
    let recording = recording(&text);
    assert_eq!(recording.length(), Duration::from_millis(300));
    assert_eq!(recording.mean_rate().expect("a rate").bits_per_second(), 6_016_000);
    let text = experiment(&recording, None, &around());
    let document = Document::parse("recorded.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let points = document.plan().unwrap_or_else(|mistakes| panic!("{mistakes}"));
    for way in &points[0].scenario.links[2].ways {
        assert_eq!(way.deliveries.as_ref().map(Deliveries::moments), Some(&times[..]));
        assert_eq!((way.rate.bits_per_second(), way.delay), (6_016_000, Duration::from_millis(20)));
    }
}

#[test]
fn rows_of_a_table_last_until_the_next_one() {
    let recording = recording("time_s, rate_mbps, delay_ms, loss\n10, 5, 40, 0\n12.5, 2, 40, 0.5\n");
    assert_eq!(recording.length(), Duration::from_secs(5));
    assert_eq!(recording.mean_rate().expect("a rate").bits_per_second(), 3_500_000);
    assert_eq!(recording.steps[1].loss, Some(0.5));
}

#[test]
fn what_comes_of_a_recording_is_an_experiment() {
    let there = recording("time_s,rate_kbps\n0,800\n1,200\n2,0\n3,800\n");
    let back = recording("time_s,delay_ms\n0,10\n4,30\n");
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
fn tables_as_they_are_published_are_read_and_a_note_says_what_is_not() {
    let rates = |text: &str| rates(&recording(text));
    let extra = "time_s,rate_mbps,retrans,cwnd\n0,16.5,0,a\n0.5,61.9,3,b\n1,20,0,c\n";
    assert_eq!(rates(extra), [16_500_000, 61_900_000, 20_000_000]);
    assert_eq!(notes(extra), ["not read: retrans, cwnd"]);
    let iso = "time,throughput_mbps\n2030-01-02T10:00:00.320867,16.5\n2030-01-02T10:00:00.820707,61.9\n2030-01-02T10:00:01.320776,0.0\n";
    assert_eq!((rates(iso), notes(iso).len()), (vec![16_500_000, 61_900_000, 0], 0));
    assert_eq!(recording(iso).steps[1].at, Duration::from_micros(499_840));
    for text in
        ["0,12.5\n0.1,14.25\n0.2,3\n", "0.0\t12.5\n0.1\t14.25\n0.2\t3\n", "0 12,5\n0,1 14,25\n0,2 3\n"]
    {
        assert_eq!(rates(text), [12_500_000, 14_250_000, 3_000_000]);
        assert_eq!(notes(text), ["no header: read as time in s and rate in Mbit/s"]);
    }
    let date = "Date;Time;Downlink [Mbit/s]\n2030-01-02;23:59:59,5;1,5\n2030-01-03;00:00:00,5;2\n";
    assert_eq!((rates(date), recording(date).length()), (vec![1_500_000, 2_000_000], Duration::from_secs(2)));
    let missing = "time_s,rate_mbps\n0,1\n1,NaN\n2,\n3,4\n";
    assert_eq!(
        (rates(missing), recording(missing).length()),
        (vec![1_000_000, 4_000_000], Duration::from_secs(6))
    );
    assert_eq!(notes(missing), ["rows without a value: 2, the first in line 3; what held before holds on"]);
    assert_eq!(
        rates("time_s,rate_mbps,download_mbps\n0,1,7\n1,2,7\n"),
        [1_000_000, 2_000_000],
        "the documented name"
    );
    let percent = recording("seconds,loss (%),delay (s)\n0,50,0.01\n1,100,0.02\n");
    assert_eq!((percent.steps[0].loss, percent.steps[1].delay), (Some(0.5), Some(Duration::from_millis(20))));
}

#[test]
fn what_is_no_recording_is_told_with_its_line_and_in_the_units_of_the_file() {
    for (text, told) in [
        ("1\n2\nthree\n", "line 3: \"three\" is no time; allowed: a whole number of milliseconds"),
        ("5\n4\n", "line 2: 4 is before the line above; allowed: in order of time"),
        ("0\n\n0\n", "line 3: no time is later than 0; allowed: at least one"),
        ("\n \n", "the file is empty; allowed: a recording of a link"),
        ("time_s,rate_mbps\n0,1\n", "fewer than two rows with values; allowed: two and more"),
        (
            "time_s,rate_mbps\n0,1\n\n0,2\n",
            "line 4: time_s 0 is not after the row above; allowed: in order of time, one row for each",
        ),
        ("time_s,loss\n0,0\n1,2\n", "line 3: loss is 2; allowed: 0 to 1"),
        ("\n\ntime_s,rate_mbps\n0,1\n1,2000000\n", "line 5: rate_mbps is 2000000; allowed: 0 to 1000000"),
        ("time_s,delay_ms\n0,1\n1,-5\n", "line 3: delay_ms is -5; allowed: 0 to 100000"),
        ("time_s;rate_mbps\n0;1\n1;1,2,3\n", "line 3: rate_mbps is \"1,2,3\"; allowed: a number"),
        (
            "time_s,rate_mbps\n0,1\nnoon,2\n",
            "line 3: time_s is \"noon\"; allowed: a number, or a time such as 2030-01-02T10:00:00.5",
        ),
        (
            "time_s,rate_mbps,rate_bps\n0,1,1\n1,1,1\n",
            "line 1: has both rate_mbps and rate_bps; allowed: one of them, or one that is called rate_mbps, rate_kbps or rate_bps",
        ),
    ] {
        assert_eq!(read(text).map_err(|error| error.to_string()).expect_err(told), told);
    }
    for (text, line, told) in [
        ("time_s,speed\n0,1\n1,1\n", 1, "speed; allowed: a time (time_s) and a rate with its unit"),
        ("a,rate_mbps\n0,1\n1,1\n", 1, "no column is a time: a, rate_mbps"),
        ("t,up_mbps,down_mbps\n0,1,2\n1,1,2\n", 1, "both up_mbps and down_mbps"),
        ("0,1,2\n1,2,3\n", 1, "3 columns without names; allowed: two (seconds, Mbit/s), or a line above"),
        ("0.5\n0.75\n", 1, "one column"),
        (
            "time_s,rate_mbps\n0,16,5\n0,5,61,9\n",
            2,
            "3 fields, and line 1 2; allowed: the same number, and a decimal comma",
        ),
    ] {
        let error = read(text).expect_err(told);
        assert_eq!(error.line, Some(line), "{error}");
        assert!(error.problem.contains(told), "{error}");
    }
}

/// A recording whose values every form can say: rates of three digits, times of 100 ms.
fn random(rng: &mut Rng, gaps: u64) -> Recording {
    let mut at = Duration::ZERO;
    let count = 2 + rng.below(30);
    let gap = |rng: &mut Rng| Duration::from_millis(100) * (1 + rng.below(gaps)) as u32;
    let mut last = gap(rng);
    let mut steps = Vec::new();
    for number in 0..count {
        let bits = rng.below(1000) * 10_u64.pow(3 + rng.below(4) as u32);
        steps.push(Step { at, rate: Some(Rate::from_bits_per_second(bits)), delay: None, loss: None });
        if number + 2 < count {
            last = gap(rng);
        }
        at += last;
    }
    Recording::of_steps(steps, at)
}

fn any<'t>(rng: &mut Rng, of: &[&'t str]) -> &'t str {
    of[rng.below(of.len() as u64) as usize]
}

/// A table in one of the many forms that there are.
fn as_table(recording: &mut Recording, rng: &mut Rng) -> String {
    let separator = any(rng, &[",", ";", "\t", " ", "  ", " | ", ", "]);
    let (headed, comma, extra) = (rng.chance(0.8), rng.chance(0.3), rng.chance(0.5));
    let (time, factor) = match rng.below(4) {
        0 => (any(rng, &["time_ms", "timestamp_ms", "ms"]), 1e3),
        _ => (any(rng, &["time_s", "time", "seconds", "ts", "elapsed_s"]), 1.0),
    };
    let iso = rng.below(4);
    let (rate, unit) = match rng.below(5) {
        0 => (any(rng, &["rate_kbps", "throughput_kbps", "kbit/s"]), 1e3),
        1 => (any(rng, &["rate_bps", "bits_per_second"]), 1.0),
        2 => (any(rng, &["rate_MBps", "MB/s"]), 8e6),
        _ => (any(rng, &["rate_mbps", "throughput_mbps", "Mbit/s", "RATE_MBPS"]), 1e6),
    };
    // Without names there is one form.
    let (factor, unit, extra) = if headed { (factor, unit, extra) } else { (1.0, 1e6, false) };
    if extra {
        for step in &mut recording.steps {
            step.delay = Some(Duration::from_millis(rng.below(500)));
            step.loss = rng.chance(0.5).then(|| rng.below(1000) as f64 / 1000.0);
        }
    }
    let cell = |value: f64| {
        let text = value.to_string();
        match (comma, separator.starts_with(',')) {
            (true, true) => format!("\"{}\"", text.replace('.', ",")),
            (true, false) => text.replace('.', ","),
            (false, _) => text,
        }
    };
    let mut lines: Vec<Vec<String>> = Vec::new();
    if headed {
        let more: &[&str] = if extra { &["delay_ms", "cell", "loss"] } else { &[] };
        lines.push([time, rate].iter().chain(more).map(|&name| name.to_owned()).collect());
    }
    let begin = DateTime::from_timestamp(1_893_578_400, 0).expect("a time");
    for step in &recording.steps {
        let seconds = step.at.as_secs_f64();
        let at = begin + step.at;
        let when = match iso {
            0 if factor < 2.0 => at.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
            1 if factor < 2.0 => at.format("%Y-%m-%d %H:%M:%S%.3f").to_string(),
            2 => cell((1_893_578_400.0 + seconds) * factor),
            _ => cell(seconds * factor),
        };
        let mut line = vec![when, cell(step.rate.expect("a rate").bits_per_second() as f64 / unit)];
        if let Some(delay) = step.delay {
            let loss = step.loss.map_or_else(|| "NaN".to_owned(), cell);
            line.extend([cell(delay.as_millis() as f64), "c1".to_owned(), loss]);
        }
        lines.push(line);
    }
    let end = any(rng, &["\n", "\r\n", "\n\n", "\r"]);
    let begin = any(rng, &["", "\u{feff}", "\n", "# written by a test\n"]);
    begin.to_owned() + &lines.iter().map(|line| line.join(separator) + end).collect::<String>()
}

fn ends(recording: &Recording) -> Vec<f64> {
    let ends = recording.steps.iter().skip(1).map(|step| step.at).chain([recording.length]);
    ends.map(|end| end.as_secs_f64()).collect()
}

fn as_json(recording: &Recording, rng: &mut Rng) -> String {
    let interval = |(step, end): (&Step, f64)| {
        let (start, bits) = (step.at.as_secs_f64(), step.rate.expect("a rate").bits_per_second());
        let sum = json!({ "start": start, "end": end, "seconds": end - start, "bytes": 1, "bits_per_second": bits as f64, "retransmits": 0, "omitted": false, "sender": true });
        json!({ "streams": [{ "socket": 5, "start": start, "end": end, "bits_per_second": 1.0 }], "sum": sum })
    };
    let intervals: Vec<_> = recording.steps.iter().zip(ends(recording)).map(interval).collect();
    if rng.chance(0.3) {
        let event = |data: &serde_json::Value| format!("{}\n", json!({ "event": "interval", "data": data }));
        let start = json!({ "event": "start", "data": { "version": "iperf 3.17" } });
        return format!("{start}\n{}", intervals.iter().map(event).collect::<String>());
    }
    let whole = json!({ "start": { "version": "iperf 3.16" }, "intervals": intervals, "end": { "sum_sent": { "bits_per_second": 7.0 } } });
    if rng.chance(0.5) { format!("{whole:#}\n") } else { whole.to_string() }
}

fn as_log(recording: &Recording, rng: &mut Rng) -> String {
    let (unit, size) = match rng.below(3) {
        0 => ("Kbits/sec", 1e3),
        1 => ("Gbits/sec", 1e9),
        _ => ("Mbits/sec", 1e6),
    };
    let prefix = any(rng, &["", "Wed Jan  2 10:00:00 2030 "]);
    let streams = 1 + rng.below(3);
    let mut text = "Connecting to host 192.0.2.1, port 5201\n[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n".to_owned();
    for (step, end) in recording.steps.iter().zip(ends(recording)) {
        let (start, rate) =
            (step.at.as_secs_f64(), step.rate.expect("a rate").bits_per_second() as f64 / size);
        for stream in 0..streams {
            let (name, rate) = if stream + 1 < streams {
                ("  5", 0.5 * rate)
            } else if streams > 1 {
                ("SUM", rate)
            } else {
                ("  5", rate)
            };
            let _ = writeln!(
                text,
                "{prefix}[{name}]   {start:.2}-{end:.2}   sec  1.00 MBytes  {rate} {unit}    0    406 KBytes       "
            );
        }
    }
    let length = recording.length.as_secs_f64();
    let name = if streams > 1 { "SUM" } else { "  5" };
    let _ = write!(
        text,
        "- - - - - - - - -\n{prefix}[{name}]   0.00-{length:.2}   sec  9 MBytes  9.0 {unit}    0             sender\niperf Done.\n"
    );
    text
}

fn trace(rng: &mut Rng) -> Recording {
    let mut at = rng.below(5) as u32;
    let mut moments = vec![at];
    for _ in 0..=rng.below(300) {
        at += rng.below(9) as u32;
        moments.push(at);
    }
    moments.push(at + 1);
    Recording::of_deliveries(Deliveries::new(moments).expect("they are in order"))
}

fn as_trace(recording: &Recording) -> String {
    let deliveries = recording.deliveries.as_ref().expect("a trace");
    deliveries.moments().iter().map(u32::to_string).collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn a_recording_that_is_written_in_any_form_is_read_back_the_same() {
    for seed in 0..2000 {
        let mut rng = Rng::new(seed, "recordings");
        let mut recording = random(&mut rng, 20);
        let text = match rng.below(6) {
            0 => as_json(&recording, &mut rng),
            1 => as_log(&recording, &mut rng),
            2 => {
                recording = trace(&mut rng);
                as_trace(&recording)
            }
            _ => as_table(&mut recording, &mut rng),
        };
        assert_eq!(self::recording(&text), recording, "seed {seed}\n{text}");
    }
}

#[test]
fn damaged_recordings_are_read_or_told_and_lines_are_those_of_the_file() {
    let bits = [
        "",
        "-1",
        "1e999",
        "NaN",
        ",",
        ";",
        "\t",
        "\"",
        "-",
        "[",
        "{",
        " sec ",
        "\n",
        "\u{fffd}",
        "9999-99-99T99:99:99",
        "#",
    ];
    for seed in 0..2000 {
        let mut rng = Rng::new(seed, "damage");
        let mut recording = random(&mut rng, 5);
        let mut text: Vec<char> = match rng.below(3) {
            0 => as_json(&recording, &mut rng),
            1 => as_log(&recording, &mut rng),
            _ => as_table(&mut recording, &mut rng),
        }
        .chars()
        .collect();
        for _ in 0..=rng.below(3) {
            let from = rng.below(text.len() as u64) as usize;
            let to = (from + rng.below(4) as usize).min(text.len());
            text.splice(from..to, any(&mut rng, &bits).chars());
        }
        let text: String = text.into_iter().collect();
        match read(&text) {
            Ok((recording, _)) => {
                assert!(
                    recording.steps.windows(2).all(|pair| pair[0].at < pair[1].at),
                    "seed {seed}\n{text}"
                );
                assert!(
                    recording.steps.last().is_some_and(|last| last.at < recording.length),
                    "seed {seed}\n{text}"
                );
            }
            Err(error) => {
                let lines = text.replace("\r\n", "\n").replace('\r', "\n").lines().count() as u64;
                assert!(
                    error.line.is_none_or(|line| (1..=lines.max(1)).contains(&line)),
                    "seed {seed}: {error}\n{text}"
                );
            }
        }
    }
}
