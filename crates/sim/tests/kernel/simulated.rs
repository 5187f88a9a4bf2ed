//! A point in the simulator, with the presets for today's Linux.

use std::time::Duration;

use trunkline_link::{LinkSettings, Loss};
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_sim::{Network, SourceId, TcpTraffic, both};
use trunkline_tcp::{CongestionAlgorithm, Endpoint, Preset, Recovery, Settings};
use trunkline_units::Rate;
use trunkline_workload::{Distribution, Pattern};

use super::outcome::{Outcome, Snapshot};
use super::points::Point;

/// As often as a kernel's connections are asked.
const SAMPLE: Duration = Duration::from_millis(20);

/// What the testbed's receivers offer of a buffer of 6 MiB, of which the kernel sets a part aside for its own: at first, and once
/// they know how large segments are.
const FIRST_WINDOW: u64 = 3_144_960;
const RECEIVE_BUFFER: u64 = 3_930_752;

fn packets(segments: u32) -> QueueSettings {
    QueueSettings::TailDrop(Limits { segments, bytes: u64::MAX })
}

/// The network of a point, its flows and its bottleneck.
fn network(point: &Point, seed: u64) -> (Network, SourceId, trunkline_sim::LinkId) {
    let delay = Duration::from_secs_f64(point.round_trip_ms / 2e3);
    let loss = if point.loss_percent > 0.0 { Loss::Uniform(point.loss_percent / 100.0) } else { Loss::None };
    let there = LinkSettings::new(Rate::from_mbit(point.rate_mbit), delay).queue(point.queue()).loss(loss);
    let back = LinkSettings::new(Rate::from_mbit(10_000.0), delay).queue(packets(u32::MAX));
    let mut network = Network::new(seed);
    let (client, server) = (network.host("sender"), network.host("receiver"));
    let [bottleneck, _] = network.connect(client, server, &there, &back);
    let preset = match point.congestion_control.as_str() {
        "reno" => Preset::Linux6Reno.settings(),
        "bbr" => Preset::Linux6.settings().with_congestion_control(CongestionAlgorithm::Bbr),
        _ => Preset::Linux6.settings(),
    };
    let preset = if point.sack { preset } else { preset.with_recovery(Recovery::NewReno) };
    let part = |of_six_mebibytes: u64| of_six_mebibytes * (point.buffer_bytes() >> 20) / 6;
    let tcp = Settings {
        initial_receive_window: Some(part(FIRST_WINDOW)),
        receive_buffer: part(RECEIVE_BUFFER),
        initial_receive_buffer: None,
        send_buffer: part(preset.send_buffer),
        timestamps: point.timestamps,
        ecn: point.ecn,
        tso: point.tso,
        ..preset
    };
    let flows = network.tcp(TcpTraffic {
        client,
        server,
        port: 5001,
        dscp: 0,
        tcp: both(tcp),
        start: Duration::ZERO,
        stop: None,
        pattern: Pattern::Bulk { flows: point.flows, bytes: None, stagger: Distribution::Fixed(0.1) },
    });
    (network, flows, bottleneck)
}

/// Runs it, and shows each sample to `look`: the time, the flow and its sender.
pub(crate) fn run(point: &Point, seed: u64, mut look: impl FnMut(Duration, u32, &Endpoint)) -> Outcome {
    let (mut network, source, bottleneck) = network(point, seed);
    let lead_in = Duration::from_secs_f64(point.lead_in_s);
    let end = lead_in + Duration::from_secs_f64(point.window_s);
    let (mut time, mut samples) = (Duration::ZERO, 0_u64);
    let (mut before, mut outcome) = (Outcome::default(), Outcome::default());
    while time < end {
        network.run_for(SAMPLE);
        time += SAMPLE;
        outcome = Outcome { srtt_ms: outcome.srtt_ms, cwnd: outcome.cwnd, ..Outcome::default() };
        for flow in 0..point.flows {
            let Some([sender, receiver]) = network.endpoints(source, flow) else { continue };
            look(time, flow, sender);
            outcome.bytes += receiver.received();
            outcome.retransmissions += sender.stats().retransmitted_segments;
            outcome.timeouts += sender.stats().timeouts;
            if time > lead_in {
                samples += 1;
                outcome.srtt_ms += sender.srtt().unwrap_or_default().as_secs_f64() * 1e3;
                outcome.cwnd += f64::from(sender.cwnd()) / f64::from(sender.mss());
            }
        }
        if time == lead_in {
            before = outcome;
        }
    }
    let link = network.link_state(bottleneck);
    Outcome {
        window_bytes: outcome.bytes - before.bytes,
        window_retransmissions: outcome.retransmissions - before.retransmissions,
        refused: link.queue().dropped_total(),
        marks: link.queue().marked_total(),
        lost: link.stats().lost,
        srtt_ms: outcome.srtt_ms / samples.max(1) as f64,
        cwnd: outcome.cwnd / samples.max(1) as f64,
        ..outcome
    }
}

/// The contents of a lane snapshot, read as often as a kernel was asked.
pub(crate) fn snapshot(point: &Point, seed: u64) -> Snapshot {
    let millis = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64() * 1e3;
    let mut all = Vec::new();
    run(point, seed, |time, _, sender| {
        if time.as_secs_f64() > point.lead_in_s {
            all.push(Snapshot {
                srtt_ms: millis(sender.srtt()),
                min_rtt_ms: millis(sender.min_rtt()),
                window: f64::from(sender.cwnd()),
                delivery_mbit: sender.delivery_rate().map_or(0.0, |(rate, _)| rate.as_mbit()),
                unacknowledged: sender.unacknowledged() as f64,
            });
        }
    });
    Snapshot::mean(&all)
}
