//! The effects of a trunk on real kernels: shares by weight, short delays, few timeouts, no TCP meltdown. The tests run
//! experiments of `experiments/bench/` on the testbed, with fewer points and shorter times. Their bounds hold on a busy machine and
//! fail if a part does not work. A machine that stalls for a second during a measurement looks like a broken trunk, so an
//! experiment may run three times; a broken part fails all of them. How much of the WAN a trunk uses is only bounded far below
//! what a quiet machine gives: edge pacing takes a machine that serves a lane late for a queue in the WAN.

use std::fs;
use std::process::Command;

use crate::common::site::{Directory, PROGRAM};
use serde_json::Value;
use trunkline_testbed::machine;

/// The exit code of "this machine lacks something".
const LACKING: i32 = 4;

/// The maximum number of runs of an experiment.
const ATTEMPTS: usize = 3;

const MBIT: f64 = 1e6;
const MS: f64 = 1e-3;

/// What a quantity must lie between.
struct Bound {
    what: String,
    value: f64,
    low: f64,
    high: f64,
}

fn bound(what: &str, value: f64, low: f64, high: f64) -> Bound {
    Bound { what: what.to_owned(), value, low, high }
}

impl Bound {
    /// What is wrong, if anything is.
    fn breach(&self) -> Option<String> {
        let Bound { what, value, low, high } = self;
        let holds = (*low..=*high).contains(value);
        (!holds).then(|| format!("{what} is {value}, not {low} to {high}"))
    }
}

/// Runs an experiment of the program's, with these values set, until its results are within bounds, up to the maximum number of
/// runs.
#[track_caller]
fn assert_run(test: &str, id: &str, sets: &[&str], bounds: impl Fn(&Results) -> Vec<Bound>) {
    for attempt in 1..=ATTEMPTS {
        let Some(results) = run(test, id, sets) else { return };
        let broken: Vec<String> = bounds(&results).iter().filter_map(Bound::breach).collect();
        if broken.is_empty() {
            return;
        }
        println!("{test}, attempt {attempt}: {}", broken.join("; "));
        assert!(attempt < ATTEMPTS, "{test}: {}", broken.join("; "));
    }
}

/// The results of an experiment, run alone. `None`, with a message, if the machine lacks a requirement.
fn run(test: &str, id: &str, sets: &[&str]) -> Option<Results> {
    machine::hold().ok();
    let directory = Directory::new();
    let mut command = Command::new(PROGRAM);
    command
        .current_dir(&directory.0)
        .args(["lab", "run", id, "--engine", "testbed", "--runs", "1", "--json"])
        // A run that was disturbed is judged, and made again if it is out of bounds.
        .args(["--attempts", "1"]);
    command.args(sets.iter().flat_map(|set| ["--set", set]));
    let output = command.output().expect("start");
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(LACKING) {
        println!("SKIPPED {test}: {said}");
        return None;
    }
    assert!(output.status.success(), "{}: {said}", output.status);
    let runs = fs::read_to_string(directory.0.join("results").join(id).join("runs.jsonl")).expect("the runs");
    Some(Results(runs.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()))
}

/// A run of each point.
struct Results(Vec<Value>);

impl Results {
    /// The run at the point that has these values.
    fn at(&self, point: &[&str]) -> &Value {
        let is_there = |run: &&Value| {
            let values = run["point"].as_object().expect("a point");
            point.iter().all(|value| values.values().any(|known| known == value))
        };
        self.0.iter().find(is_there).unwrap_or_else(|| panic!("no point {point:?}"))
    }

    fn metric(&self, point: &[&str], name: &str) -> f64 {
        let run = self.at(point);
        run["metrics"][name].as_f64().unwrap_or_else(|| panic!("{point:?}: no {name}: {}", run["metrics"]))
    }

    /// What was recorded in each window.
    fn series(&self, point: &[&str], name: &str) -> Vec<f64> {
        let column = self.at(point)["series"]["columns"][name].as_array().expect("a column");
        column.iter().map(|value| value.as_f64().expect("a number")).collect()
    }
}

/// Required: 3 points in every window. Without weights the shares of these flows are 20 to 40 points off. The WAN steps from
/// rate to rate; the windows of the first 8 s and those that begin with a step do not count.
#[test]
#[ignore = "judges time"]
fn classes_on_one_lane_keep_their_shares_while_the_capacity_steps() {
    const RATES: [f64; 3] = [100.0, 40.0, 80.0];
    const LEAD: usize = 8;
    const STEP: usize = 3;
    let test = "classes_on_one_lane_keep_their_shares_while_the_capacity_steps";
    let [first, second] = [LEAD + STEP, LEAD + 2 * STEP];
    let steps = format!(
        r#"sweep.rate.variants={{ steps = {{ "links.wan.changes" = [{{ at = "{first} s", rate = "40 Mbit/s" }}, {{ at = "{second} s", rate = "80 Mbit/s" }}] }} }}"#
    );
    let (group, weights) = ("10/30/60", [("a", 10.0), ("b", 30.0), ("c", 60.0)]);
    let sets = [
        "duration=17 s",
        "warm_up=8 s",
        "sweep.trunk.variants={ weights = {} }",
        &format!(r#"sweep.weights.variants={{ "{group}" = {{}} }}"#),
        &steps,
    ];
    assert_run(test, "bench-proportions", &sets, |results| {
        let goodput = weights.iter().map(|(class, _)| results.series(&[group], &format!("{class}.goodput")));
        let goodput: Vec<Vec<f64>> = goodput.collect();
        let windows = LEAD + RATES.len() * STEP;
        if goodput[0].len() < windows {
            // The machine stood still for longer than a window.
            return vec![bound("windows that were sampled", goodput[0].len() as f64, windows as f64, 99.0)];
        }
        let (mut deviations, mut used) = (Vec::new(), Vec::new());
        for window in (0..RATES.len() * STEP).filter(|window| *window < STEP || window % STEP != 0) {
            let got = goodput.iter().map(|class| class[LEAD + window]);
            let all: f64 = got.clone().sum();
            let share = |got: f64| if all > 0.0 { got / all * 100.0 } else { 0.0 };
            deviations.extend(weights.iter().zip(got).map(|((_, weight), got)| (share(got) - weight).abs()));
            used.push(all / (RATES[window / STEP] * MBIT));
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        vec![
            bound("the largest deviation", deviations.iter().copied().fold(0.0, f64::max), 0.0, 10.0),
            bound("the mean deviation", mean(&deviations), 0.0, 2.0),
            bound("goodput / capacity", mean(&used), 0.2, 1.0),
        ]
    });
}

/// Required: 10 ms with the default classes, 30 ms in one class. Tail drop adds 200 ms and more.
#[test]
#[ignore = "judges time"]
fn small_requests_wait_little_beside_bulk_flows() {
    let test = "small_requests_wait_little_beside_bulk_flows";
    let one_class = r#"{ "trunks.site.classes" = [{ name = "all", queue = { discipline = "fq-codel" } }] }"#;
    let loads = r#"sweep.load.variants={ alone = { "traffic.bulk.enabled" = false, duration = "3 s", warm_up = "1 s" }, beside = {} }"#;
    // In one class a request's flow may share one of the 1024 queues with a bulk flow, and its packets are dropped then.
    for (variant, set, p50, p99) in [("default", "{}", 10.0, 25.0), ("fq-codel", one_class, 20.0, 400.0)] {
        let sets = ["duration=7 s", loads, &format!("sweep.trunk.variants={{ {variant} = {set} }}")];
        assert_run(test, "bench-latency", &sets, |results| {
            let delay = |load: &str, p: &str| results.metric(&[load], &format!("requests.delay.{p}"));
            let added = |p: &str| delay("beside", p) - delay("alone", p);
            let completed = results.metric(&["beside"], "requests.transfers.completed");
            vec![
                bound("alone p50", delay("alone", "p50"), 30.0 * MS, 36.0 * MS),
                bound("added p50", added("p50"), -5.0 * MS, p50 * MS),
                bound("added p99", added("p99"), -20.0 * MS, p99 * MS),
                // 40 connections in 3 s, each with a request in 430 ms and longer: one that gets no response has no delay.
                bound("requests completed", completed, 150.0, 320.0),
                bound("bulk", results.metric(&["beside"], "bulk.goodput"), 10.0 * MBIT, 50.0 * MBIT),
            ]
        });
    }
}

/// Required over 20 s: Jain's index 0.9, use of the WAN 95 %.
#[test]
#[ignore = "judges time"]
fn fifty_flows_share_a_slow_trunk_without_timeouts() {
    let test = "fifty_flows_share_a_slow_trunk_without_timeouts";
    let sets = ["duration=14 s", "sweep.tcp.variants={ cubic = {} }", "sweep.queue.variants={ trunk = {} }"];
    assert_run(test, "bench-drops", &sets, |results| {
        let metric = |name| results.metric(&["cubic", "trunk"], name);
        vec![
            bound("timeouts", metric("flows.timeouts"), 0.0, 25.0),
            bound("Jain's index", metric("flows.fairness"), 0.8, 1.0),
            bound("utilisation of the WAN", metric("wan.utilisation"), 0.4, 1.01),
            bound("drops at the edge", metric("site.drops"), 20.0, 10_000.0),
            bound("drops of the WAN", metric("wan.drops"), 0.0, 200.0),
        ]
    });
}

/// Of the segments with data, those that the trunk carried again though it had lost none: it needs to carry again only what
/// the edge dropped.
fn spurious(results: &Results, point: &[&str]) -> f64 {
    let metric = |name| results.metric(point, name);
    let carried = metric("user.retransmitted.packets") - metric("site.filtered") - metric("site.drops");
    carried.max(0.0) / metric("user.segments.data")
}

/// Required over 10 s: at least direct routing's goodput, and 1 % of spurious retransmissions carried. Eight seconds at 1 Mbit/s see
/// some twenty losses, so the goodput is only known to a third.
#[test]
#[ignore = "judges time"]
fn a_lossy_wan_causes_no_tcp_meltdown() {
    let test = "a_lossy_wan_causes_no_tcp_meltdown";
    let sets = [
        "duration=11 s",
        "sweep.user.variants={ cubic = {} }",
        r#"sweep.wan.variants={ loss = { "links.wan.loss" = "3 %" } }"#,
        r#"sweep.trunk.variants={ direct = { "trunks.site.enabled" = false }, filter = {} }"#,
    ];
    assert_run(test, "bench-meltdown", &sets, |results| {
        let goodput = |trunk| results.metric(&[trunk], "user.goodput");
        vec![
            bound("goodput, direct", goodput("direct"), 0.3 * MBIT, 10.0 * MBIT),
            bound("goodput, filter / direct", goodput("filter") / goodput("direct"), 0.5, 50.0),
            bound("spurious retransmissions", spurious(results, &["filter"]), 0.0, 0.01),
        ]
    });
}

/// Each of four cuts makes the user's timer run out while the lane's does. In two of them the filter dropped 1, 1, 1, 0 and 1
/// retransmissions in five runs.
#[test]
#[ignore = "judges time"]
fn an_interrupted_wan_causes_no_tcp_meltdown() {
    let test = "an_interrupted_wan_causes_no_tcp_meltdown";
    let cuts = r#"{ "links.wan.changes" = [{ at = "3 s", loss = "100 %" }, { at = "3.7 s", loss = "0 %" }], "links.wan.repeat" = "4 s" }"#;
    let sets = [
        "duration=19 s",
        "sweep.user.variants={ cubic = {} }",
        &format!("sweep.wan.variants={{ cuts = {cuts} }}"),
        "sweep.trunk.variants={ filter = {} }",
    ];
    assert_run(test, "bench-meltdown", &sets, |results| {
        let metric = |name| results.metric(&["cuts", "filter"], name);
        vec![
            bound("goodput", metric("user.goodput"), 12.0 * MBIT, 50.0 * MBIT),
            bound("timeouts", metric("user.timeouts"), 1.0, 24.0),
            bound("filtered", metric("site.filtered"), 1.0, 1000.0),
            bound("spurious retransmissions", spurious(results, &["cuts", "filter"]), 0.0, 0.01),
        ]
    });
}
