//! A point on this machine's kernel.

use std::time::Duration;

use trunkline_testbed::dumbbell::{DumbbellError, DumbbellReport, DumbbellSettings, measure};
use trunkline_testbed::traffic::Stop;
use trunkline_units::{Rate, Rng};

use super::outcome::{Outcome, Snapshot};
use super::points::Point;

/// Runs it.
pub(crate) fn run(point: &Point, seed: u64, stop: &Stop) -> Result<(Outcome, Snapshot), DumbbellError> {
    let seconds = Duration::from_secs_f64;
    let settings = DumbbellSettings {
        loss: point.loss_percent / 100.0,
        flows: point.flows,
        lead_in: seconds(point.lead_in_s),
        window: seconds(point.window_s),
        // Or the same packets would be lost at each point.
        seed: Rng::new(seed, &point.name()).next_u64(),
        sack: point.sack,
        timestamps: point.timestamps,
        ecn: point.ecn,
        super_packets: point.tso,
        buffer_bytes: point.buffer_bytes(),
        ..DumbbellSettings::new(
            Rate::from_mbit(point.rate_mbit),
            seconds(point.round_trip_ms / 1e3),
            point.queue(),
            &point.congestion_control,
        )
    };
    measure(&settings, stop)
        .map(|report| (outcome(&report, settings.lead_in), snapshot(&report, settings.lead_in)))
}

fn snapshot(report: &DumbbellReport, lead_in: Duration) -> Snapshot {
    let from = report.begin + lead_in;
    let millis = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64() * 1e3;
    let samples = report.flows.iter().flat_map(|flow| &flow.samples).filter(|sample| sample.at >= from);
    let all: Vec<Snapshot> = samples
        .map(|sample| Snapshot {
            srtt_ms: millis(sample.srtt),
            min_rtt_ms: millis(sample.min_rtt),
            window: f64::from(sample.cwnd) * f64::from(sample.mss),
            delivery_mbit: sample.delivery_rate.map_or(0.0, Rate::as_mbit),
            unacknowledged: sample.unacknowledged as f64,
        })
        .collect();
    Snapshot::mean(&all)
}

fn outcome(report: &DumbbellReport, lead_in: Duration) -> Outcome {
    let from = report.begin + lead_in;
    let samples: Vec<_> =
        report.flows.iter().flat_map(|flow| &flow.samples).filter(|sample| sample.at >= from).collect();
    let mean = |value: &dyn Fn(usize) -> f64| {
        (0..samples.len()).map(value).sum::<f64>() / samples.len().max(1) as f64
    };
    let sum = |value: &dyn Fn(usize) -> u64| (0..report.flows.len()).map(value).sum();
    let flows = &report.flows;
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let link = &report.bottleneck;
    Outcome {
        bytes: sum(&|flow| flows[flow].whole.bytes),
        window_bytes: sum(&|flow| flows[flow].window.bytes),
        retransmissions: sum(&|flow| flows[flow].whole.retransmissions.into()),
        window_retransmissions: sum(&|flow| flows[flow].window.retransmissions.into()),
        timeouts: sum(&|flow| flows[flow].whole.timeouts.into()),
        refused: link.dropped.queue,
        marks: link.marked,
        lost: link.dropped.loss,
        srtt_ms: mean(&|sample| millis(samples[sample].srtt.unwrap_or_default())),
        cwnd: mean(&|sample| f64::from(samples[sample].cwnd)),
        idle_round_trip_ms: millis(report.idle_round_trip),
        late_ms: (
            millis(link.late_peak.max(report.back.late_peak)),
            millis(link.late_total) / link.packets_out.max(1) as f64,
        ),
    }
}
