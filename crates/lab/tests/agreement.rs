//! The simulator beside a kernel: each point of `experiments/own/agreement.toml`, whose values on a kernel were recorded
//! (docs/testbed.md says how). The simulator gives the same numbers on every machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use trunkline_engine::Engine;
use trunkline_lab::document::Document;

/// Of the simulator at each point; the kernel had one.
const RUNS: u64 = 10;

/// What is compared: the least value that is more than chance (as in `lab agree`), and the largest factor between the
/// engines, of the median point and of the worst. At the worst point the kernel's runs may be unusual: three of them at
/// one point with requests beside BBR have medians of 44, 44 and 273 ms.
const BOUNDS: [(&str, f64, f64, f64); 5] = [
    ("bulk.goodput", 1e3, 1.02, 1.15),
    ("requests.delay.p50", 1e-3, 1.03, 5.5),
    ("core.queue.packets.mean", 1.0, 1.08, 2.0),
    ("bulk.retransmitted.packets", 20.0, 1.15, 2.5),
    ("core.drops", 20.0, 1.2, 3.3),
];

/// Path, TCP and bottleneck of each point, and its metrics.
const RECORDED: &str = include_str!("data/agreement-linux-6.18.csv");

type Metrics = BTreeMap<String, f64>;

/// By the values of the sweep.
fn recorded() -> BTreeMap<Vec<String>, Metrics> {
    let mut reader = csv::Reader::from_reader(RECORDED.as_bytes());
    let names: Vec<String> = reader.headers().expect("a heading").iter().map(str::to_owned).collect();
    let rows = reader.records().map(|row| {
        let cells: Vec<String> = row.expect("a row").iter().map(str::to_owned).collect();
        let (point, values) = cells.split_at(3);
        let values = values.iter().map(|value| value.parse().expect("a number"));
        (point.to_vec(), names[3..].iter().cloned().zip(values).collect())
    });
    rows.collect()
}

/// How many times the mean of the simulator's runs is what the kernel had, at each point where there is enough of it.
fn ratios() -> BTreeMap<String, Vec<f64>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/own/agreement.toml");
    let planned = Document::read(&file).and_then(|document| document.plan()).expect("it can be planned");
    let recorded = recorded();
    assert_eq!(planned.len(), recorded.len());
    let mut ratios: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for point in &planned {
        let at: Vec<String> = point.point.values().cloned().collect();
        let runs = (1..=RUNS).map(|seed| {
            trunkline_engine::run(&Engine::Sim, &point.scenario, seed, &AtomicBool::new(false))
                .expect("it can be run")
        });
        let runs: Vec<_> = runs.collect();
        for (metric, kernel) in &recorded[&at] {
            let mean = runs.iter().map(|run| run.metrics[metric.as_str()]).sum::<f64>() / RUNS as f64;
            let (_, least, ..) = BOUNDS.iter().find(|bound| bound.0 == metric).expect("it is compared");
            if kernel.min(mean) >= *least {
                ratios.entry(metric.clone()).or_default().push(mean / kernel);
            }
        }
    }
    ratios
}

/// Of 0.8 and of 1.25 it is 1.25.
fn factor(ratio: f64) -> f64 {
    ratio.max(1.0 / ratio)
}

#[test]
fn the_simulator_agrees_with_a_kernel_at_sixty_points() {
    let ratios = ratios();
    let mut broken = Vec::new();
    for (metric, _, median, worst) in BOUNDS {
        let mut factors: Vec<f64> = ratios[metric].iter().copied().map(factor).collect();
        factors.sort_by(f64::total_cmp);
        let (middle, last) = (factors[factors.len() / 2], factors[factors.len() - 1]);
        let said = format!("{metric}: {} points, median {middle:.3}, worst {last:.2}", factors.len());
        println!("{said}");
        if factors.len() < 40 || middle > median || last > worst {
            broken.push(format!("{said}; allowed: {median} and {worst}"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
