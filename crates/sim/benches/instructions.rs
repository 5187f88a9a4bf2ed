//! Instructions a packet-hop, counted by callgrind: the same on a busy machine, and so a gate that a change which makes the
//! simulator slower does not pass. `cargo bench -p trunkline-sim --bench instructions`.
//!
//! Each case is run for a short and for a longer time under valgrind; the difference of the counts over that of the
//! packet-hops is free of what the start costs. The bounds are in this file. Where there is no valgrind it says so
//! and counts nothing.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark starts itself under valgrind"
)]

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use trunkline_link::LinkSettings;
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_sim::{AcrossTrunk, Dumbbell};
use trunkline_tcp::Preset;
use trunkline_units::{Instant, Rate};

/// A case, and the largest number of instructions that a packet-hop may take in it. Reports of arrivals, which path control takes a
/// hundred times a second from each lane, took the trunk from below 2600 to 2670. What the compiler inlines, which
/// changes anywhere can decide anew, makes 3 %.
const BOUNDS: [(&str, f64); 2] = [("dumbbell", 1820.0), ("trunk", 2720.0)];
/// A bound that is further than this above what is counted has become useless.
const SLACK: f64 = 1.15;
const MILLIS: [u64; 2] = [300, 1300];

fn run(case: &str, millis: u64) -> u64 {
    let queue = QueueSettings::TailDrop(Limits { segments: 167, bytes: u64::MAX });
    let link = LinkSettings::new(Rate::from_mbit(100.0), Duration::from_millis(10)).queue(queue);
    let tcp = Preset::Linux6.settings();
    let mut dumbbell = match case {
        "trunk" => Dumbbell::with_trunk(1, 10, &link, AcrossTrunk::single(queue, tcp.clone())),
        _ => Dumbbell::new(1, 10, &link),
    };
    let tcp = Arc::new(tcp);
    for pair in 0..10 {
        dumbbell.bulk(pair, 1, &tcp, (Duration::ZERO, Duration::ZERO));
    }
    dumbbell.network.run_until(Instant::from_millis(millis));
    dumbbell.network.packet_hops()
}

/// Packet-hops and instructions of one run in a process of its own.
fn count(case: &str, millis: u64) -> Option<(u64, u64)> {
    let me = std::env::current_exe().ok()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(me)
        .args(["--work", case, &millis.to_string()])
        .output()
        .ok()?;
    let hops = String::from_utf8_lossy(&output.stdout).trim().parse().ok()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let collected = stderr.lines().find_map(|line| line.split("Collected : ").nth(1))?;
    Some((hops, collected.trim().parse().ok()?))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--work") {
        let millis = arguments[at + 2].parse().unwrap_or(MILLIS[0]);
        println!("{}", run(&arguments[at + 1], millis));
        return ExitCode::SUCCESS;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("SKIPPED instructions: no valgrind on this machine, so nothing was counted");
        return ExitCode::SUCCESS;
    }
    let mut failed = false;
    for (case, bound) in BOUNDS {
        let (Some((few, short)), Some((many, long))) = (count(case, MILLIS[0]), count(case, MILLIS[1]))
        else {
            println!("{case}: valgrind did not say how many instructions it counted");
            failed = true;
            continue;
        };
        let each = (long - short) as f64 / (many - few) as f64;
        let result = match each {
            each if each > bound => {
                "FAILED: more than the bound; find out why, or move it and say why in the change"
            }
            each if each * SLACK < bound => "FAILED: far below the bound, which should be lowered",
            _ => "ok",
        };
        failed |= result != "ok";
        println!("{case:10} {each:7.0} instructions a packet-hop, bound {bound}: {result}");
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
