//! A dumbbell on this kernel: nothing decides what comes of it but what its settings say.

use std::time::Duration;

use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_testbed::dumbbell::{DumbbellReport, DumbbellSettings, measure};
use trunkline_testbed::lateness::{Lateness, judges_time};
use trunkline_testbed::privilege;
use trunkline_testbed::traffic::Stop;
use trunkline_units::Rate;

const SECOND: Duration = Duration::from_secs(1);

fn run(settings: &DumbbellSettings) -> DumbbellReport {
    let report = measure(settings, &Stop::new()).expect("a dumbbell");
    println!("{:?}, idle {:?}", report.bottleneck, report.idle_round_trip);
    for flow in &report.flows {
        println!("{:?} {:?} {:?}", flow.whole, flow.window, flow.samples.last());
        let last = flow.samples.last().expect("samples");
        // A receiver that waits for a processor reads late.
        let held_back = last.window_limited + last.buffer_limited;
        assert!(held_back < SECOND / 10 || !judges_time(), "an end held it back: {last:?}");
    }
    report
}

fn tail_drop(segments: u32) -> QueueSettings {
    QueueSettings::TailDrop(Limits { segments, bytes: u64::MAX })
}

#[test]
fn one_flow_fills_its_bottleneck_and_repeats_what_the_queue_refused() {
    if !privilege::available("one_flow_fills_its_bottleneck_and_repeats_what_the_queue_refused") {
        return;
    }
    let path = (Rate::from_mbit(10.0), Duration::from_millis(20));
    let settings = DumbbellSettings {
        lead_in: SECOND,
        window: 3 * SECOND,
        ..DumbbellSettings::new(path.0, path.1, tail_drop(17), "reno")
    };
    let lateness = Lateness::watch();
    let report = run(&settings);
    let (flow, link) = (&report.flows[0], report.bottleneck);
    // 92 bytes take 74 µs; the rest is how late a thread is that two CPUs wait for: the link's twice, the echo's, the receiver's.
    let exact = Duration::from_micros(20_074);
    let longest = exact + lateness.tolerance(4);
    assert!(
        (exact..longest).contains(&report.idle_round_trip),
        "{:?}, up to {longest:?}",
        report.idle_round_trip
    );
    // 1448 of 1500 bytes are data.
    let share = flow.window.bytes as f64 * 8.0 / 3.0 / 10e6;
    let low = if judges_time() { 0.90 } else { 0.4 };
    assert!((low..=0.966).contains(&share), "{share}");
    // No packet is of more than one segment, or the queue's 17 would be less.
    assert!(link.backlog_peak_bytes <= 17 * 1500 && link.backlog_peak_bytes > 16 * 1500, "{link:?}");
    assert!(link.bytes_in / link.packets_in > 1400, "{link:?}");
    // Tail loss probes and a last loss not yet repaired are the difference.
    let repeated = u64::from(flow.whole.retransmissions);
    assert!(repeated > 0 && repeated.abs_diff(link.dropped.queue) <= 3, "{repeated} {link:?}");
    assert!(flow.window.retransmissions <= flow.whole.retransmissions);
    assert_eq!(link.dropped.total(), link.dropped.queue);
    let samples = &flow.samples;
    assert!(samples.is_sorted_by_key(|sample| sample.at) && samples.len() <= 202);
    assert!(samples.len() >= if judges_time() { 150 } else { 20 }, "{}", samples.len());
}

#[test]
fn flows_begin_one_after_the_other_and_lose_what_the_wire_loses() {
    if !privilege::available("flows_begin_one_after_the_other_and_lose_what_the_wire_loses") {
        return;
    }
    let settings = DumbbellSettings {
        loss: 0.02,
        flows: 3,
        stagger: SECOND / 2,
        lead_in: SECOND,
        window: 2 * SECOND,
        ..DumbbellSettings::new(Rate::from_mbit(20.0), Duration::from_millis(10), tail_drop(1000), "cubic")
    };
    let lateness = Lateness::watch();
    let report = run(&settings);
    let link = report.bottleneck;
    let first = |flow: usize| report.flows[flow].samples[0].at - report.begin;
    for flow in 0..3 {
        let due = settings.stagger * flow as u32;
        // A connection takes a round trip, or a second more if its SYN is lost.
        assert!(first(flow) >= due, "{:?}", first(flow));
        lateness.assert_within("the first sample", first(flow), due + 2 * SECOND);
    }
    let share = link.dropped.loss as f64 / link.packets_in as f64;
    assert!(link.dropped.queue == 0 && (0.01..0.03).contains(&share), "{link:?}");
}
