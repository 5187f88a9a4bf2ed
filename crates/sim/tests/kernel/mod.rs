//! The simulator's `linux-6` against real Linux: what was recorded of it, and a few points measured now.
//!
//! `data/kernel.json`, `data/without-sack.json`, `data/ecn.json`, `data/tso.json`, `data/fast-tso.json` and `data/seam.json` are of Linux 6.18, 250 Hz, November 2026, by `examples/kernel.rs`, which says how to
//! make them anew. The grid is in `points.rs`.

mod comparison;
mod measured;
mod outcome;
mod points;
mod simulated;

use comparison::Summary;
use outcome::{Measured, Outcome, Recording, Snapshot};
use trunkline_testbed::privilege;
use trunkline_testbed::traffic::Stop;

/// Runs of each point in the simulator.
const RUNS: u64 = 12;

/// Each point of a recording beside so many runs in the simulator, printed.
fn compared(recording: &Recording<Outcome>, runs: u64) -> Summary {
    let comparisons: Vec<_> =
        recording.points.iter().map(|measured| comparison::of(measured, runs)).collect();
    println!("{}\n{}", recording.machine, comparison::HEADER);
    for comparison in &comparisons {
        println!("{comparison}");
    }
    let summary = Summary::of(&comparisons);
    println!("{summary}");
    summary
}

#[test]
fn linux_6_does_what_a_kernel_was_recorded_to_do() {
    let recording: Recording<Outcome> =
        serde_json::from_str(include_str!("../data/kernel.json")).expect("the recording");
    assert_eq!(recording.points.len(), points::grid().len());
    let summary = compared(&recording, RUNS);
    assert!(summary.median_error <= 0.05 && summary.worst_error <= 0.15, "{summary}");
    assert!(summary.median_factor <= 1.1 && summary.worst_factor <= 1.3, "{summary}");
}

#[test]
fn newreno_does_what_a_kernel_without_sack_was_recorded_to_do() {
    let recording: Recording<Outcome> =
        serde_json::from_str(include_str!("../data/without-sack.json")).expect("the recording");
    let measured: Vec<_> = recording.points.iter().map(|measured| measured.point.clone()).collect();
    assert_eq!(measured, points::without_sack());
    // Nothing in these points is random.
    let summary = compared(&recording, 1);
    assert!(summary.median_error <= 0.01 && summary.worst_error <= 0.03, "{summary}");
    assert!(summary.median_factor <= 1.05 && summary.worst_factor <= 1.15, "{summary}");
}

#[test]
fn marks_do_what_a_kernel_was_recorded_to_make_of_them() {
    let recording: Recording<Outcome> =
        serde_json::from_str(include_str!("../data/ecn.json")).expect("the recording");
    let measured: Vec<_> = recording.points.iter().map(|measured| measured.point.clone()).collect();
    assert_eq!(measured, points::ecn());
    let summary = compared(&recording, RUNS);
    assert!(summary.median_error <= 0.01 && summary.worst_error <= 0.05, "{summary}");
    assert!(summary.median_factor <= 1.1 && summary.worst_factor <= 1.4, "{summary}");
    assert!(summary.worst_mark_factor <= 1.25, "{summary}");
}

#[test]
fn super_packets_do_what_a_kernel_was_recorded_to_do_with_them() {
    let recordings = [
        (include_str!("../data/tso.json"), points::tso(), (0.03, 1.6)),
        // In one of three runs the machine looked away.
        (include_str!("../data/fast-tso.json"), points::fast_tso(), (0.07, 1.2)),
    ];
    for (text, points, (worst_error, worst_factor)) in recordings {
        let recording: Recording<Outcome> = serde_json::from_str(text).expect("the recording");
        let measured: Vec<_> = recording.points.iter().map(|measured| measured.point.clone()).collect();
        assert_eq!(measured, points);
        // Nothing in these points is random.
        let summary = compared(&recording, 1);
        assert!(summary.median_error <= 0.01 && summary.worst_error <= worst_error, "{summary}");
        assert!(summary.median_factor <= 1.2 && summary.worst_factor <= worst_factor, "{summary}");
    }
}

#[test]
fn a_lane_says_of_itself_what_a_kernel_says() {
    let recording: Recording<Snapshot> =
        serde_json::from_str(include_str!("../data/seam.json")).expect("the recording");
    assert!(recording.points.len() >= 6);
    for Measured { point, runs } in &recording.points {
        let (kernel, model) = (Snapshot::mean(runs), simulated::snapshot(point, 1));
        println!("{}\n  kernel {kernel:?}\n  model  {model:?}", point.name());
        let near = |what: &str, kernel: f64, model: f64, bound: f64| {
            assert!((model / kernel - 1.0).abs() <= bound, "{}: {what} {kernel} {model}", point.name());
        };
        near("srtt", kernel.srtt_ms, model.srtt_ms, 0.03);
        // The emulator is a few tenths of a millisecond late.
        near("min_rtt", kernel.min_rtt_ms, model.min_rtt_ms, 0.06);
        near("window", kernel.window, model.window, 0.03);
        near("delivery rate", kernel.delivery_mbit, model.delivery_mbit, 0.03);
        near("unacknowledged", kernel.unacknowledged, model.unacknowledged, 0.03);
    }
}

/// Six points of ten seconds, two at a time: wider bounds, for the machine has other things to do.
#[test]
#[ignore = "judges time"]
fn linux_6_does_what_this_kernel_does() {
    if !privilege::available("linux_6_does_what_this_kernel_does") {
        return;
    }
    let points: Vec<_> = points::few()
        .into_iter()
        .map(|point| points::Point { lead_in_s: 2.0, window_s: 8.0, ..point })
        .collect();
    let measure = |point: &points::Point| {
        let (outcome, _) = measured::run(point, 1, &Stop::new()).expect("a dumbbell");
        Measured { point: point.clone(), runs: vec![outcome] }
    };
    let measured: Vec<_> = points
        .chunks(3)
        .flat_map(|some| {
            std::thread::scope(|scope| {
                let runs: Vec<_> = some.iter().map(|point| scope.spawn(|| measure(point))).collect();
                runs.into_iter().map(|run| run.join().expect("no panic")).collect::<Vec<_>>()
            })
        })
        .collect();
    let comparisons: Vec<_> = measured.iter().map(|measured| comparison::of(measured, 1)).collect();
    println!("{}", comparison::HEADER);
    for comparison in &comparisons {
        println!("{comparison}");
    }
    let summary = Summary::of(&comparisons);
    println!("{summary}");
    assert!(summary.median_error <= 0.03 && summary.worst_error <= 0.15, "{summary}");
    assert!(summary.median_factor <= 1.5, "{summary}");
}
