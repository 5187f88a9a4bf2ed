//! bosau2004, figure 3.

use std::time::Duration;

use trunkline_link::LinkSettings;
use trunkline_link::mobile::{Mobile, Pareto};
use trunkline_sim::{Cell, ProxyMode, Transfer, both};
use trunkline_tcp::{Preset, Settings};
use trunkline_trunk::path_tail::{CellLink, Estimate};
use trunkline_units::Rate;
use trunkline_workload::TransferState;

use super::scene::*;

/// bosau2004 §4: "Internet" 100 kbit/s and 50 ms, mobile link 1 Mbit/s and 1 ms with repairs of half a second on average (Pareto) for
/// each packet, 1000 packets before it and in the proxy, 2 MB. Seconds until the mobile node has all of it, and time-outs.
fn figure_3(seed: u64, radio: Pareto, tcp: &Settings, paced: bool) -> (f64, Transfer) {
    let recovery = radio.mean.mul_f64(radio.share);
    let mobile = LinkSettings { mobile: Some(Mobile::Pareto(radio)), ..link(1.0, 1) };
    let mut scene = Scene::new(seed, &link(0.1, 50), &[mobile], |nodes| {
        if !paced {
            return idle(nodes);
        }
        let estimate = Estimate { rate: Rate::from_mbit(1.0), recovery };
        let link = CellLink { estimate: Some(estimate), queue: Some(u64::MAX), packets: Some(1000) };
        let cell = Cell { link, ..cell(nodes, 0) };
        let facing = Settings { receive_buffer: 1 << 20, send_buffer: 1 << 20, ..tcp.clone() };
        ProxyMode::PathTail(both(facing), vec![cell])
    });
    let source = scene.transfer(0, tcp.clone(), Some(2_000_000));
    scene.network.run_until(seconds(20_000));
    let transfer = scene.only(source);
    assert_eq!((transfer.state, transfer.bytes), (TransferState::Completed, 2_000_000));
    (transfer.duration(scene.network.now()).as_secs_f64(), transfer)
}

/// The middle of nine runs.
fn median(radio: Pareto, paced: bool) -> (f64, u64) {
    let tcp = Preset::Ns2Reno.settings();
    let runs = (0..9).map(|seed| figure_3(seed, radio, &tcp, paced));
    let (mut times, mut timeouts): (Vec<f64>, Vec<u64>) =
        runs.map(|(time, transfer)| (time, transfer.sender.timeouts)).unzip();
    times.sort_by(f64::total_cmp);
    timeouts.sort_unstable();
    (times[4], timeouts[4])
}

#[test]
fn path_tail_emulation_shortens_a_transfer_over_a_link_that_is_at_times_very_slow() {
    // One packet in seven needs repairs: then the mobile link carries 96 kbit/s, which is near what the Internet does.
    for shape in [1.2, 1.5] {
        let radio = Pareto { mean: Duration::from_millis(500), shape, share: 0.15 };
        let ((plain, timeouts), (paced, fewer)) = (median(radio, false), median(radio, true));
        assert!(paced < 0.9 * plain && fewer < timeouts, "{paced} {plain} {fewer} {timeouts}");
        // The paper's figures are 230 s and 170 s. No transfer is shorter than 2000 packets of 1040 bytes at 100 kbit/s.
        assert!((190.0..240.0).contains(&plain) && (166.0..185.0).contains(&paced), "{paced} {plain}");
    }
}

#[test]
fn half_a_second_for_every_packet_takes_a_thousand_seconds_with_a_proxy_or_without() {
    let radio = Pareto::of_mean(Duration::from_millis(500));
    let ((plain, _), (paced, _)) = (median(radio, false), median(radio, true));
    // 2000 packets of 8.3 ms and 0.5 s.
    assert!((1016.0..1080.0).contains(&paced) && (950.0..1100.0).contains(&plain), "{paced} {plain}");
}
