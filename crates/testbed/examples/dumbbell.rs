//! Measures one dumbbell on this machine's kernel and prints how its connections went: a line a sample, then totals.
//!
//!     cargo run --release -p trunkline-testbed --example dumbbell -- cubic 10 40 33 0.1 1 10
//!
//! congestion control, Mbit/s, round trip in ms, packets of queue, loss in per cent, flows, seconds. Needs root, or a
//! user namespace.

use std::time::Duration;

use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_testbed::dumbbell::{DumbbellSettings, measure};
use trunkline_testbed::{interrupt, privilege};
use trunkline_units::Rate;

const USAGE: &str =
    "usage: dumbbell <reno|cubic|bbr> <Mbit/s> <ms> <packets> <loss %> <flows> <seconds> [no-sack|tso]";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    privilege::acquire()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (arguments, sack, super_packets) = match arguments.as_slice() {
        [rest @ .., last] if last == "no-sack" => (rest, false, false),
        [rest @ .., last] if last == "tso" => (rest, true, true),
        all => (all, true, false),
    };
    let [congestion_control, numbers @ ..] = arguments else { return Err(USAGE.into()) };
    let numbers = numbers.iter().map(|text| text.parse()).collect::<Result<Vec<f64>, _>>()?;
    let [mbit, millis, packets, loss, flows, seconds] = numbers[..] else { return Err(USAGE.into()) };
    let queue = QueueSettings::TailDrop(Limits { segments: packets as u32, bytes: u64::MAX });
    let settings = DumbbellSettings {
        loss: loss / 100.0,
        sack,
        super_packets,
        flows: flows as u32,
        lead_in: Duration::ZERO,
        window: Duration::from_secs_f64(seconds),
        ..DumbbellSettings::new(
            Rate::from_mbit(mbit),
            Duration::from_secs_f64(millis / 1e3),
            queue,
            congestion_control,
        )
    };
    let report = measure(&settings, &interrupt::watch()?)?;
    println!("flow    time   cwnd ssthresh srtt_ms  min_ms  unacked  rate_mbit retrans timeouts");
    for (number, flow) in report.flows.iter().enumerate() {
        for sample in &flow.samples {
            println!(
                "{number:4} {:7.3} {:6} {:8} {:7.2} {:7.2} {:8} {:10.2} {:7} {:8}",
                (sample.at - report.begin).as_secs_f64(),
                sample.cwnd,
                if sample.ssthresh > 1 << 30 { "-".to_owned() } else { sample.ssthresh.to_string() },
                sample.srtt.unwrap_or_default().as_secs_f64() * 1e3,
                sample.min_rtt.unwrap_or_default().as_secs_f64() * 1e3,
                sample.unacknowledged,
                sample.delivery_rate.map_or(0.0, Rate::as_mbit),
                sample.retransmissions,
                sample.timeouts,
            );
        }
    }
    for flow in &report.flows {
        let limited = flow.samples.last().map(|last| (last.window_limited, last.buffer_limited));
        println!("{:?}, limited by window and buffer {limited:?}", flow.whole);
    }
    println!("idle round trip {:?}", report.idle_round_trip);
    println!("{:?}", report.bottleneck);
    println!("back: {:?}", report.back);
    Ok(())
}
