//! The same dumbbells on this machine's kernel and in the simulator.
//!
//!     cargo run --release -p trunkline-sim --example kernel -- measure 4 8 > kernel.json
//!     cargo run --release -p trunkline-sim --example kernel -- without-sack 2 5 > without-sack.json
//!     cargo run --release -p trunkline-sim --example kernel -- ecn 3 8 > ecn.json
//!     cargo run --release -p trunkline-sim --example kernel -- tso 3 4 > tso.json
//!     cargo run --release -p trunkline-sim --example kernel -- fast-tso 1 1 > fast-tso.json
//!     cargo run --release -p trunkline-sim --example kernel -- seam 3 6 > seam.json
//!     cargo run --release -p trunkline-sim --example kernel -- compare kernel.json
//!     cargo run --release -p trunkline-sim --example kernel -- trace cubic 10 40 33 0.1 1 30
//!
//! `measure` runs each point of the grid so many times, so many points at once, on the kernel; it needs root or a user
//! namespace. `without-sack` does the same with `net.ipv4.tcp_sack = 0`, `ecn` with `net.ipv4.tcp_ecn = 1` and queues that mark, `tso` and `fast-tso` with super-packets and without. `seam` does the same with a few of them, and prints what a lane's owner would be reported. `compare` runs what a file of measurements has in the simulator, as often, and prints both. `trace`
//! prints how a connection goes in the simulator, in the form of testbed's example `dumbbell`, with the same arguments.

#![allow(clippy::disallowed_methods, reason = "an example has arguments and files; the simulator has not")]

#[path = "../tests/kernel/comparison.rs"]
mod comparison;
#[path = "../tests/kernel/measured.rs"]
mod measured;
#[path = "../tests/kernel/outcome.rs"]
mod outcome;
#[path = "../tests/kernel/points.rs"]
mod points;
#[path = "../tests/kernel/simulated.rs"]
#[allow(dead_code, reason = "the test uses all of it")]
mod simulated;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use outcome::{Measured, Outcome, Recording, Snapshot};
use points::Point;
use trunkline_testbed::dumbbell::DumbbellError;
use trunkline_testbed::traffic::Stop;
use trunkline_testbed::{interrupt, kernel, privilege};
use trunkline_units::Rate;

const USAGE: &str = "usage: kernel measure|without-sack|ecn|tso|fast-tso|seam <runs> <at a time> | compare <file> | \
                     trace <reno|cubic|bbr> <Mbit/s> <ms> <packets> <loss %> <flows> <seconds> [no-sack] [ecn] [tso] [<discipline>]";

/// Of each point in the simulator: it costs little, and chance less.
const RUNS: u64 = 12;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [grid @ ("measure" | "without-sack" | "ecn" | "tso" | "fast-tso"), runs, at_a_time] => {
            privilege::acquire()?;
            let (runs, at_a_time) = (runs.parse()?, at_a_time.parse()?);
            let points = match grid {
                "measure" => points::grid(),
                "ecn" => points::ecn(),
                "tso" => points::tso(),
                "fast-tso" => points::fast_tso(),
                _ => points::without_sack(),
            };
            print(&measure(points, (runs, at_a_time), &interrupt::watch()?, |run| run.0)?)
        }
        ["seam", runs, at_a_time] => {
            privilege::acquire()?;
            let (runs, at_a_time) = (runs.parse()?, at_a_time.parse()?);
            print(&measure(points::few(), (runs, at_a_time), &interrupt::watch()?, |run| run.1)?)
        }
        ["compare", file] => {
            compare(&serde_json::from_str(&std::fs::read_to_string(file)?)?);
            Ok(())
        }
        ["trace", congestion_control, ref rest @ ..] => {
            let words = rest.iter().position(|word| word.parse::<f64>().is_err()).unwrap_or(rest.len());
            trace(congestion_control, &rest[..words], &rest[words..])
        }
        _ => Err(USAGE.into()),
    }
}

fn print<T: serde::Serialize>(recording: &Recording<T>) -> Result<(), Box<dyn std::error::Error>> {
    println!("{{\"machine\": {}, \"points\": [", serde_json::to_string(&recording.machine)?);
    for (number, point) in recording.points.iter().enumerate() {
        let comma = if number + 1 < recording.points.len() { "," } else { "" };
        println!("{}{comma}", serde_json::to_string(point)?);
    }
    println!("]}}");
    Ok(())
}

fn measure<T: Copy>(
    points: Vec<Point>,
    (runs, at_a_time): (u64, usize),
    stop: &Stop,
    of: fn((Outcome, Snapshot)) -> T,
) -> Result<Recording<T>, Box<dyn std::error::Error>> {
    let jobs: VecDeque<(usize, u64)> =
        (1..=runs).flat_map(|seed| (0..points.len()).map(move |point| (point, seed))).collect();
    let jobs = Mutex::new(jobs);
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || {
        let mut done = Vec::new();
        while let Some((point, seed)) = next() {
            let run = measured::run(&points[point], seed, stop)?;
            eprintln!("{} run {seed}: {:?}", points[point].name(), run.0);
            done.push((point, seed, run));
        }
        Ok(done)
    };
    let outcomes: Result<Vec<_>, DumbbellError> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_a_time).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("it does not panic")).collect()
    });
    let mut outcomes = outcomes?.concat();
    outcomes.sort_by_key(|(point, seed, _)| (*point, *seed));
    let points = points.into_iter().enumerate().map(|(number, point)| Measured {
        point,
        runs: outcomes.iter().filter(|(at, ..)| *at == number).map(|(.., run)| of(*run)).collect(),
    });
    let cpus = std::thread::available_parallelism()?;
    Ok(Recording {
        machine: format!("Linux {}, {cpus} CPUs, {at_a_time} dumbbells at a time", kernel::release()),
        points: points.collect(),
    })
}

fn compare(recording: &Recording<Outcome>) {
    println!("kernel: {}\n", recording.machine);
    let comparisons: Vec<_> =
        recording.points.iter().map(|measured| comparison::of(measured, RUNS)).collect();
    println!("{}", comparison::HEADER);
    for comparison in &comparisons {
        println!("{comparison}");
    }
    println!("\n{}", comparison::Summary::of(&comparisons));
}

fn trace(
    congestion_control: &str,
    numbers: &[&str],
    words: &[&str],
) -> Result<(), Box<dyn std::error::Error>> {
    let numbers = numbers.iter().map(|text| text.parse()).collect::<Result<Vec<f64>, _>>()?;
    let [rate_mbit, round_trip_ms, packets, loss_percent, flows, window_s] = numbers[..] else {
        return Err(USAGE.into());
    };
    let mut point = Point {
        congestion_control: congestion_control.to_owned(),
        rate_mbit,
        round_trip_ms,
        queue_packets: packets as u32,
        loss_percent,
        flows: flows as u32,
        lead_in_s: 0.0,
        window_s,
        sack: true,
        timestamps: true,
        discipline: points::Discipline::TailDrop,
        ecn: false,
        tso: false,
    };
    for word in words {
        match *word {
            "no-sack" => point.sack = false,
            "ecn" => point.ecn = true,
            "tso" => point.tso = true,
            discipline => point.discipline = serde_json::from_value(discipline.into())?,
        }
    }
    println!("flow    time   cwnd ssthresh srtt_ms  min_ms  unacked  rate_mbit retrans timeouts");
    let outcome = simulated::run(&point, 1, |time, flow, sender| {
        let mss = sender.mss();
        let stats = sender.stats();
        println!(
            "{flow:4} {:7.3} {:6} {:8} {:7.2} {:7.2} {:8} {:10.2} {:7} {:8}",
            time.as_secs_f64(),
            sender.cwnd() / mss,
            if sender.ssthresh() == u32::MAX {
                "-".to_owned()
            } else {
                (sender.ssthresh() / mss).to_string()
            },
            sender.srtt().unwrap_or_default().as_secs_f64() * 1e3,
            sender.min_rtt().unwrap_or_default().as_secs_f64() * 1e3,
            sender.unacknowledged(),
            sender.delivery_rate().map_or(0.0, |(rate, _)| Rate::as_mbit(rate)),
            stats.retransmitted_segments,
            stats.timeouts,
        );
    });
    println!("{outcome:?}");
    Ok(())
}
