//! Results as experiments have them, made up: every kind of plot and table, and what is awkward.

use crate::experiment::Experiment;
use crate::report::{Material, TcpInUse};
use crate::results::{ClaimOutcome, Estimate, Outcome, Point, PointResult, Run, SeriesOutcome, Verdict};
use crate::verdict::{Comparison, Judgement};

pub(super) struct Sample {
    pub(super) document: String,
    pub(super) experiment: Experiment,
    pub(super) results: Vec<PointResult>,
    pub(super) runs: Vec<Run>,
    pub(super) judgement: Judgement,
    pub(super) tcps: Vec<TcpInUse>,
    pub(super) files: Vec<String>,
}

impl Sample {
    pub(super) fn new(document: &str) -> Self {
        let document = format!("{document}{NETWORK}");
        Self {
            experiment: toml::from_str(&document).unwrap(),
            document,
            results: Vec::new(),
            runs: Vec::new(),
            judgement: Judgement::default(),
            tcps: Vec::new(),
            files: ["experiment.toml", "results.jsonl", "runs.jsonl"].map(String::from).to_vec(),
        }
    }

    pub(super) fn material(&self) -> Material<'_> {
        Material {
            experiment: &self.experiment,
            document: &self.document,
            results: &self.results,
            runs: &self.runs,
            planned: self.runs.len(),
            judgement: &self.judgement,
            tcps: &self.tcps,
            files: &self.files,
            machine: None,
            took: None,
        }
    }

    pub(super) fn point(&mut self, point: &[(&str, &str)], runs: u32, metrics: &[(&str, f64, f64)]) -> Point {
        let point: Point = point.iter().map(|(axis, value)| ((*axis).into(), (*value).into())).collect();
        let estimate = |mean: f64, half: f64| Estimate {
            ci95: (runs > 1).then_some(half),
            min: mean - half / 2.0,
            max: mean + half / 2.0,
            ..Estimate::alone(mean)
        };
        self.results.push(PointResult {
            experiment: self.experiment.id.clone(),
            engine: "sim".into(),
            point: point.clone(),
            runs,
            metrics: metrics
                .iter()
                .map(|(name, mean, half)| ((*name).into(), estimate(*mean, *half)))
                .collect(),
            claims: Vec::new(),
            digest: "0123456789abcdef".into(),
            version: "0.1.0".into(),
        });
        point
    }

    pub(super) fn run(&mut self, point: &Point, seed: u64, outcome: Outcome) {
        self.runs.push(Run {
            experiment: self.experiment.id.clone(),
            engine: "sim".into(),
            point: point.clone(),
            seed,
            outcome,
            version: "0.1.0".into(),
        });
    }

    pub(super) fn published(
        &mut self,
        metric: &str,
        point: &Point,
        unit: Option<&str>,
        paper: f64,
        why: Option<&str>,
    ) {
        let ours = self
            .results
            .iter()
            .find(|result| result.point == *point)
            .and_then(|result| result.metrics.get(metric));
        let ratio = ours.map(|ours| ours.mean / paper);
        let verdict = match ratio {
            Some(ratio) if (0.8..=1.25).contains(&ratio) => Verdict::Holds,
            Some(ratio) if (0.64..=1.5625).contains(&ratio) => Verdict::Differs,
            _ => Verdict::Fails,
        };
        self.judgement.comparisons.push(Comparison {
            metric: metric.into(),
            point: point.clone(),
            unit: unit.map(str::to_owned),
            paper,
            ours: ours.copied(),
            ratio,
            verdict,
            calibrated: false,
            why: why.map(str::to_owned),
        });
    }
}

const NETWORK: &str = r#"
[nodes]
a = "host"
b = "host"
[links.core]
ends = ["a", "b"]
rate = "1 Mbit/s"
[traffic.tcp]
kind = "bulk"
from = "a"
to = "b"
[traffic.udp]
kind = "udp"
from = "a"
to = "b"
rate = "10 Mbit/s"
"#;

/// A number between 0 and 1 that looks random and is always the same.
pub(super) fn noise(n: u32) -> f64 {
    f64::from(n.wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519) >> 8)
        / f64::from(1 << 24)
}

/// Name, mean, half of the interval.
type Metric = (&'static str, f64, f64);

/// A comparison with a paper's table, a histogram, series, claims of all verdicts.
pub(super) fn compared() -> Sample {
    let mut sample = Sample::new(
        r#"
id = "lee2002-table1"
title = "TCP flows against a UDP flood, without trunks and with a trunk for each class"
paper = "lee2002"
source = "§2.1, table 1, figure 4"
description = """
100 TCP flows of 512 KB share a bottleneck of 1 Mbit/s with a UDP flow that sends **ten times** what it can carry. The queue is RED.
With trunks, UDP is in one trunk and TCP in another, each behind a queue of its own (1000 packets).
"""
notes = """
### What the paper left open

- The order in which the flows begin. Ours begin within a second; beginning all at once changes throughput by less than 3 %.
- `RED`'s weight: 0.002, as its era had it.

| weight | throughput |
| --- | --- |
| 0.002 | 1.2 kbit/s |
| 0.02 | 1.3 kbit/s |
"""
duration = "2000 s"
[sweep.trunks]
label = "Trunks"
variants = { without = {}, with = {} }
[[claims]]
text = "With trunks, each TCP flow gets more than twice the throughput."
holds = "tcp.transfer.throughput.mean[trunks=with] > 2 * tcp.transfer.throughput.mean[trunks=without]"
[[claims]]
text = "The packets that are sent again fall to a quarter."
holds = "tcp.transfer.retransmitted.packets[trunks=with] < 0.25 * tcp.transfer.retransmitted.packets[trunks=without]"
differs = "tcp.transfer.retransmitted.packets[trunks=with] < tcp.transfer.retransmitted.packets[trunks=without]"
why = "The repetition timer of our era's TCP has a floor of 200 ms."
[[claims]]
text = "Every flow has a longer round trip."
holds = "tcp.rtt.min[trunks=with] > tcp.rtt.min[trunks=without]"
[[claims]]
kind = "ours"
text = "A modern TCP gains less."
holds = "true"
[[tables]]
title = "Means per flow"
columns = "trunks"
metrics = [
  { metric = "tcp.rtt.mean", label = "RTT, average" },
  { metric = "tcp.rtt.max", label = "RTT, largest" },
  { metric = "tcp.transfer.retransmitted.bytes", label = "Bytes retransmitted" },
  { metric = "tcp.retransmitted.ratio", label = "Segments sent again" },
  { metric = "tcp.transfer.throughput.mean", label = "Throughput" },
  { metric = "tcp.fairness", label = "Jain's index" },
  { metric = "tcp.transfers.failed", label = "Transfers that failed" },
]
[[figures]]
title = "Throughput of the 100 flows"
kind = "histogram"
metrics = [{ metric = "tcp.transfer.throughput", label = "throughput of a flow" }]
caption = "The paper: with trunks the flows' throughputs lie higher and spread more."
[[figures]]
title = "The core's queue"
kind = "series"
metrics = [{ metric = "core.queue.packets", label = "packets in the queue" }]
y_label = "packets"
[[figures]]
title = "Retransmissions"
kind = "bar"
x = "trunks"
metrics = [
  { metric = "tcp.transfer.retransmitted.packets", label = "packets sent again per flow" },
  { metric = "tcp.timeouts", label = "time-outs" },
]
caption = "The paper: 267 without, 40 with."
"#,
    );
    let cells: [(&str, [Metric; 8]); 2] = [
        (
            "without",
            [
                ("tcp.rtt.mean", 4.0512, 0.11),
                ("tcp.rtt.max", 4.9, 0.2),
                ("tcp.transfer.retransmitted.bytes", 290_784.2, 9000.0),
                ("tcp.retransmitted.ratio", 0.281, 0.004),
                ("tcp.transfer.throughput.mean", 1312.3, 22.0),
                ("tcp.fairness", 0.93, 0.01),
                ("tcp.transfer.retransmitted.packets", 259.0, 8.0),
                ("tcp.timeouts", 88.4, 12.0),
            ],
        ),
        (
            "with",
            [
                ("tcp.rtt.mean", 14.9, 0.9),
                ("tcp.rtt.max", 17.2, 0.0),
                ("tcp.transfer.retransmitted.bytes", 97_773.0, 4000.0),
                ("tcp.retransmitted.ratio", 0.0612, 0.0),
                ("tcp.transfer.throughput.mean", 2723.0, 220.0),
                ("tcp.fairness", 0.71, 0.06),
                ("tcp.transfer.retransmitted.packets", 72.0, 8.0),
                ("tcp.timeouts", 12.4, 9.0),
            ],
        ),
    ];
    let published = [
        ("tcp.rtt.mean", Some("ms"), [4.133, 15.822]),
        ("tcp.rtt.max", Some("ms"), [4.563, 17.103]),
        ("tcp.transfer.retransmitted.bytes", None, [385_784.0, 57_773.0]),
        ("tcp.retransmitted.ratio", Some("%"), [0.281, 0.061]),
        ("tcp.transfer.throughput.mean", Some("kbit/s"), [1180.0, 2850.0]),
        ("tcp.transfer.retransmitted.packets", None, [267.0, 40.0]),
    ];
    for (place, (trunks, metrics)) in cells.iter().enumerate() {
        let mut metrics = metrics.to_vec();
        metrics.extend([
            ("tcp.transfers.failed", 0.0, 0.0),
            ("core.drops.ratio", 0.12, 0.001),
            ("run.time", 812.0, 3.0),
        ]);
        let point = sample.point(&[("trunks", trunks)], 5, &metrics);
        for (metric, unit, values) in published {
            sample.published(
                metric,
                &point,
                unit,
                values[place],
                Some("Linux 2.2 repeated more, because it counted bytes and not segments."),
            );
        }
        for seed in 1..=5 {
            let mut outcome = Outcome::default();
            let spread = |n: u32| 0.5 * (noise(n + 1000 * seed as u32) + noise(n + 7));
            let values = (0..100).map(|n| {
                if place == 0 {
                    900.0 + 800.0 * spread(n)
                } else {
                    700.0 + 6000.0 * spread(n) * spread(n + 3)
                }
            });
            outcome.distributions.insert("tcp.transfer.throughput".into(), values.collect());
            let times: Vec<f64> = (0..4000).map(|n| f64::from(n) / 5.0).collect();
            let queue =
                (0..4000).map(|n| Some((if place == 0 { 340.0 } else { 60.0 } + 40.0 * noise(n)).round()));
            let series = SeriesOutcome {
                times,
                columns: [("core.queue.packets".to_owned(), queue.collect())].into_iter().collect(),
            };
            outcome.series = (seed == 1).then_some(series);
            sample.run(&point, seed, outcome);
        }
    }
    let verdicts = [Verdict::Holds, Verdict::Differs, Verdict::Fails, Verdict::Holds];
    for (claim, verdict) in sample.experiment.claims.iter().zip(verdicts) {
        sample.judgement.claims.push(ClaimOutcome {
            text: claim.text.clone(),
            verdict,
            why: "2.72 kbit/s > 2 × 1.31 kbit/s".into(),
        });
    }
    let settings = |growth: &str| {
        vec![
            ("preset".into(), "linux-2.2".into()),
            ("growth".into(), growth.into()),
            ("mss".into(), "1460 B".into()),
        ]
    };
    sample.tcps = vec![
        TcpInUse { users: vec!["traffic tcp".into()], settings: settings("reno") },
        TcpInUse { users: vec!["trunk t".into(), "trunk u".into()], settings: settings("cubic") },
    ];
    sample
}

/// Sweeps over delays and numbers of flows, with log axes, bands, long names, values that are missing, zero and negative.
pub(super) fn swept() -> Sample {
    let mut sample = Sample::new(
        r#"
id = "honda2005-fig2"
title = "Goodput over the delay of the backbone"
paper = "honda2005"
source = "figures 2 and 3"
duration = "180 s"
[sweep.backbone]
label = "Delay of the backbone"
values = ["5.06 us", "50 ms", "100 ms", "200 ms"]
[sweep.access]
label = "Delay of the access link"
values = ["5.06 us", "50 ms", "100 ms", "200 ms"]
[sweep.tunnel]
variants = { without = {}, "with a tunnel whose buffers are large" = {} }
[[tables]]
title = "Goodput"
columns = "tunnel"
metrics = [{ metric = "tcp.goodput", label = "Goodput" }]
[[tables]]
title = "Round trip over both delays"
columns = "backbone"
at = { tunnel = "without" }
metrics = [{ metric = "tcp.rtt.mean", label = "RTT" }, { metric = "tcp.odd", label = "Something odd" }]
[[figures]]
title = "Goodput"
kind = "line"
x = "backbone"
metrics = [{ metric = "tcp.goodput", label = "goodput" }]
caption = "The paper: with the tunnel goodput is slightly lower, but about 1.5 times higher where both delays are large."
[[figures]]
title = "RTT on logarithmic axes"
kind = "line"
x = "backbone"
x_scale = "log"
y_scale = "log"
y_label = "RTT (ms)"
at = { tunnel = "without" }
metrics = [{ metric = "tcp.rtt.mean" }]
[[figures]]
title = "Goodput as bars, all lines"
kind = "bar"
x = "tunnel"
metrics = [{ metric = "tcp.goodput", label = "goodput" }]
[[figures]]
title = "Values below zero and missing ones"
kind = "line"
x = "backbone"
at = { tunnel = "without" }
metrics = [{ metric = "tcp.odd", label = "something odd" }]
[[figures]]
title = "What nobody recorded"
kind = "series"
metrics = [{ metric = "core.queue.packets" }]
"#,
    );
    let delays = [("5.06 us", 5.06e-6), ("50 ms", 0.05), ("100 ms", 0.1), ("200 ms", 0.2)];
    for (place, (backbone, b)) in delays.into_iter().enumerate() {
        for (access, a) in delays {
            for (tunnel, factor) in [("without", 1.0), ("with a tunnel whose buffers are large", 1.2)] {
                let rtt = 2.0 * (a + b) * factor;
                let goodput = 7e6 / (1.0 + 8.0 * rtt * rtt / factor);
                let mut metrics = vec![
                    ("tcp.goodput", goodput, goodput * 0.06),
                    ("tcp.rtt.mean", rtt + 0.001, rtt * 0.02),
                    ("udp.goodput", 3e6, 1e4),
                ];
                if access != "50 ms" || place != 1 {
                    metrics.push(("tcp.odd", f64::from(place as u32 * 7 % 5) - 2.0, 0.3));
                }
                let point = sample.point(
                    &[("backbone", backbone), ("access", access), ("tunnel", tunnel)],
                    5,
                    &metrics,
                );
                if access == "5.06 us" && tunnel == "without" {
                    sample.published("tcp.goodput", &point, Some("Mbit/s"), goodput * 1.1, None);
                }
            }
        }
    }
    sample
}

/// One axis of 100 values, a single run, no paper, nothing asked: and all texts are hostile.
pub(super) fn hostile() -> Sample {
    let mut sample = Sample::new(
        r#"
id = "hostile"
title = "<script>alert('title')</script> & </script>"
source = "<b>mine</b>"
description = "<script>alert('description')</script> and [a link](javascript:alert(1)) ![p](https://example.org/p.png)"
notes = "</section><iframe src='https://example.org'></iframe>"
duration = "10 s"
[sweep.flows]
label = "</script><script>alert('axis')</script>"
range = { from = 1.0, to = 100.0, count = 100 }
[[claims]]
text = "<img src=x onerror=alert(1)>"
holds = "1 < 2"
kind = "ours"
[[figures]]
title = "</title><script>alert('figure')</script>"
kind = "line"
x = "flows"
metrics = [{ metric = "tcp.goodput", label = "</script><script>alert('label')</script>" }, { metric = "core.drops.ratio", label = "drops" }]
caption = "</script><script>alert('caption')</script>"
[[figures]]
title = "A hundred bars"
kind = "bar"
x = "flows"
metrics = [{ metric = "core.drops.ratio", label = "drops", unit = "%" }]
[[figures]]
title = "A hundred values on a logarithmic axis"
kind = "line"
x = "flows"
x_scale = "log"
metrics = [{ metric = "core.drops.ratio", label = "drops", unit = "%" }]
"#,
    );
    for n in 1..=100_u32 {
        let drops = 0.2 * (1.0 - 1.0 / f64::from(n)) + 0.02 * noise(n);
        let flows = n.to_string();
        let metrics = [
            ("tcp.goodput", 1e6 - 1e3 * f64::from(n), 0.0),
            ("core.drops.ratio", drops, 0.0),
            ("</script>", 1.0, 0.0),
        ];
        let point = sample.point(&[("flows", &flows)], 1, &metrics);
        sample.run(&point, 1, Outcome::default());
    }
    sample.judgement.claims.push(ClaimOutcome {
        text: "<img src=x onerror=alert(1)>".into(),
        verdict: Verdict::Holds,
        why: "1 < 2 </script>".into(),
    });
    sample
}

/// Many lines over time, a band, a single point.
pub(super) fn crowded() -> Sample {
    let metrics: Vec<String> = (0..14)
        .map(|flow| format!("{{ metric = \"tcp.{flow}.cwnd\", label = \"window of flow {flow}\" }}"))
        .collect();
    let metrics = metrics.join(", ");
    let mut sample = Sample::new(&format!(
        r#"
id = "crowded"
title = "Windows of fourteen flows"
duration = "60 s"
[sweep.flows]
label = "TCP flows"
values = [1]
[[figures]]
title = "Windows"
kind = "series"
metrics = [{metrics}]
[[figures]]
title = "Delays, on a logarithmic axis of time"
kind = "histogram"
x_scale = "log"
metrics = [{{ metric = "tcp.transfer.delay", label = "delay" }}]
[[figures]]
title = "A single point"
kind = "line"
metrics = [{{ metric = "tcp.goodput", label = "goodput" }}]
"#
    ));
    let point = sample.point(&[("flows", "1")], 1, &[("tcp.goodput", 987_654.0, 0.0)]);
    let mut outcome = Outcome::default();
    let times: Vec<f64> = (0..600).map(|n| f64::from(n) / 10.0).collect();
    let columns = (0..14_u32).map(|flow| {
        let window = (0..600_u32)
            .map(|n| (n > 20 * flow).then(|| 1460.0 * (4.0 + f64::from((n * (flow + 3)) % 200) / 4.0)));
        (format!("tcp.{flow}.cwnd"), window.collect())
    });
    outcome.series = Some(SeriesOutcome { times, columns: columns.collect() });
    outcome
        .distributions
        .insert("tcp.transfer.delay".into(), (0..500).map(|n| 0.05 / (noise(n) + 0.004)).collect());
    sample.run(&point, 1, outcome);
    sample
}
