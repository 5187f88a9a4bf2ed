//! Path tail emulation: the pace of acknowledgements, what is dropped, what is held, and who acknowledges a close.

use std::time::Duration;

use trunkline_packet::{Headers, TcpFlags, TcpView, pcap};

use trunkline_link::{LinkChange, LinkSettings};
use trunkline_sim::{CapturePoint, Cell, NodeId, ProxyMode, SourceId, both};
use trunkline_tcp::{Settings, State};
use trunkline_trunk::path_tail::{CellLink, Estimate};
use trunkline_units::Rate;
use trunkline_workload::TransferState;

use super::scene::*;
use crate::shared::Shared;

/// Times and numbers of the acknowledgements on a link, and where their windows end.
fn acknowledgements(file: &[u8]) -> Vec<(Duration, u32, u32)> {
    let mut all = Vec::new();
    for record in pcap::Reader::new(file).expect("a capture") {
        let record = record.expect("a whole record");
        let headers = Headers::parse(record.bytes, record.packet_len as usize).expect("an IP packet");
        let tcp = TcpView::new(&record.bytes[20..]).expect("a TCP header");
        if headers.protocol == 6 && !tcp.flags().intersects(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST) {
            all.push((Duration::from_nanos(record.time_nanos), tcp.ack(), u32::from(tcp.window())));
        }
    }
    all
}

#[test]
fn with_path_tail_emulation_a_close_is_acknowledged_by_the_mobile_node_alone() {
    // The mobile link is five times slower than its operator says.
    let mut scene = Scene::new(1, &link(10.0, 10), &[link(0.2, 10)], path_tail);
    let source = scene.transfer(0, linux(), Some(300_000));
    scene.network.run_until(seconds(4));
    let [sender, mobile] = scene.network.endpoints(source, 0).expect("it goes on");
    assert_eq!(sender.acknowledged(), 300_000, "data is acknowledged at the operator's rate");
    assert!(mobile.received() < 100_000, "{}", mobile.received());
    // FIN is sent and retransmitted, and not acknowledged.
    while let Some([sender, mobile]) = scene.network.endpoints(source, 0)
        && sender.state() == State::FinWait1
        && scene.network.now() < seconds(60)
    {
        assert!(sender.unacknowledged() == 0 && mobile.received() <= 300_000);
        scene.network.run_for(Duration::from_millis(1));
    }
    assert_eq!(scene.only(source).bytes, 300_000, "everything had arrived before the FIN was acknowledged");
    let closed = scene.network.now();
    assert!(closed > seconds(12) && closed < seconds(16), "{closed:?}");
    scene.network.run_for(Duration::from_secs(10));
    assert_eq!(scene.only(source).state, TransferState::Completed);
}

#[test]
fn path_tail_emulation_acknowledges_at_the_operators_rate_whatever_the_radio_does() {
    // A radio link that stands still every other second and is otherwise twice as fast.
    let changes = vec![
        (Duration::ZERO, LinkChange::Rate(Rate::from_mbit(2.0))),
        (Duration::from_secs(1), LinkChange::Rate(Rate::ZERO)),
    ];
    let mobile = LinkSettings { changes, repeat: Some(Duration::from_secs(2)), ..link(1.0, 1) };
    let mut scene = Scene::new(3, &link(10.0, 20), &[mobile], path_tail);
    let file = Shared::default();
    scene.network.capture(scene.internet[1], CapturePoint::Sent, Box::new(file.clone())).expect("memory");
    let source = scene.transfer(0, plain(), None);
    scene.network.run_until(seconds(60));
    scene.network.finish_captures().expect("memory");
    let all = acknowledgements(&file.bytes());
    let serialisation = Duration::from_millis(12);
    let mut exact = 0;
    for two in all.windows(2).skip(2) {
        let gap = two[1].0.checked_sub(two[0].0).unwrap();
        // Some segments are shorter; none is shorter than its headers.
        assert!(gap >= Duration::from_micros(320), "{two:?}: {gap:?}");
        exact += usize::from(gap <= serialisation + Duration::from_nanos(1));
        // 1460 bytes at once, or a duplicate, or all that a gap had held back.
        let advance = two[1].1.wrapping_sub(two[0].1);
        assert!(advance < 1 << 17, "no acknowledgement goes back: {two:?}");
    }
    assert!(exact * 10 > all.len() * 9, "{exact} of {}", all.len());
    let transfer = scene.only(source);
    assert!(transfer.sender.timeouts <= 1, "where slow start ends: {:?}", transfer.sender);
    let [sender, _] = scene.network.endpoints(source, 0).expect("it goes on");
    let goodput = sender.acknowledged() as f64 * 8.0 / 60.0;
    assert!((0.9e6..0.975e6).contains(&goodput), "{goodput}");
    let stats = scene.network.proxy_stats(scene.proxy);
    // What does not fit is dropped in silence, and that alone is retransmitted, but for the window before a time-out.
    assert!(stats.dropped > 0 && stats.overflowed == 0, "{stats:?}");
    let max = stats.dropped + 80 * transfer.sender.timeouts + 2;
    assert!(transfer.sender.retransmitted_segments <= max, "{stats:?} {:?}", transfer.sender);
    assert_eq!(scene.network.link_state(scene.internet[0]).queue().dropped_total(), 0);
}

#[test]
fn what_the_proxy_holds_is_bounded_by_the_emulated_link_and_by_its_buffer() {
    let peak = |mode: &dyn Fn(&[NodeId]) -> ProxyMode, mobile: f64| {
        let mut scene = Scene::new(3, &link(10.0, 20), &[link(mobile, 1)], mode);
        scene.transfer(0, plain(), None);
        scene.network.run_until(seconds(60));
        *scene.network.proxy_stats(scene.proxy)
    };
    let plain = peak(&split, 1.0);
    assert!(plain.peak_buffered > 4_000_000, "both buffers are full: {plain:?}");
    let emulated = peak(&path_tail, 1.1);
    assert!(emulated.peak_buffered < 200_000 && emulated.peak_buffered > 20_000, "{emulated:?}");
    // The operator promised four times too much.
    let bounded = |nodes: &[NodeId]| {
        let cell = Cell { buffer: 200_000, ..cell(nodes, 50) };
        ProxyMode::PathTail(emulating(), vec![cell])
    };
    let slow = peak(&bounded, 0.25);
    assert!(slow.peak_buffered <= 200_000 && slow.peak_buffered > 190_000, "{slow:?}");
    assert!(slow.overflowed > 10, "{slow:?}");
}

#[test]
fn connections_share_a_cell_and_not_two_and_a_profile_keeps_its_rate() {
    // The radio links could carry more: it is the operator's rate that counts.
    let run = |flows: &[usize], mode: &dyn Fn(&[NodeId]) -> ProxyMode| {
        let fast = [link(20.0, 1), link(20.0, 1), link(20.0, 1)];
        let mut scene = Scene::new(4, &link(100.0, 20), &fast, mode);
        let sources: Vec<SourceId> = flows.iter().map(|to| scene.transfer(*to, plain(), None)).collect();
        scene.network.run_until(seconds(120));
        let rate = |source: &SourceId| scene.only(*source).throughput(scene.network.now()) / 1e6;
        sources.iter().map(rate).collect::<Vec<_>>()
    };
    let near = |rate: f64, wanted: f64, tolerance: f64| (rate / (wanted * 0.973) - 1.0).abs() < tolerance;
    let one = |nodes: &[NodeId]| ProxyMode::PathTail(emulating(), vec![cell(nodes, 40)]);
    let shared = run(&[0, 1], &one);
    assert!(near(shared[0] + shared[1], 1.0, 0.03), "{shared:?}");
    assert!(shared.iter().all(|rate| near(*rate, 0.5, 0.25)), "{shared:?}");
    let two = |nodes: &[NodeId]| {
        ProxyMode::PathTail(emulating(), vec![cell(&nodes[..1], 40), cell(&nodes[1..], 40)])
    };
    let apart = run(&[0, 1, 2], &two);
    assert!(near(apart[0], 1.0, 0.03), "alone in its cell: {apart:?}");
    assert!(near(apart[1] + apart[2], 1.0, 0.03), "two in the other: {apart:?}");
    let profile = |nodes: &[NodeId]| {
        let alone = Cell { link: given(0.2, 20), each_alone: true, ..cell(&nodes[..1], 20) };
        ProxyMode::PathTail(emulating(), vec![alone, cell(&nodes[1..], 40)])
    };
    let kept = run(&[0, 0, 1], &profile);
    assert!(near(kept[0], 0.2, 0.05) && near(kept[1], 0.2, 0.05), "each has a rate of its own: {kept:?}");
    assert!(near(kept[2], 1.0, 0.03), "{kept:?}");
}

#[test]
fn a_new_estimate_is_the_new_pace() {
    let mut scene = Scene::new(4, &link(100.0, 20), &[link(20.0, 1)], path_tail);
    let source = scene.transfer(0, plain(), None);
    let mut had = 0;
    for (mbit, wanted) in [(1.0, 1.0), (3.0, 3.0), (0.3, 0.3)] {
        let estimate = Estimate { rate: Rate::from_mbit(mbit), recovery: Duration::ZERO };
        scene.network.set_estimate(scene.proxy, 0, estimate);
        scene.network.run_for(Duration::from_secs(40));
        let bytes = scene.only(source).bytes;
        let rate = (bytes - had) as f64 * 8.0 / 40e6;
        assert!((rate / (wanted * 0.973) - 1.0).abs() < 0.12, "{rate}, not {wanted}");
        had = bytes;
    }
}

#[test]
fn a_measured_rate_follows_the_radio_link_and_holds_little() {
    const PHASE: Duration = Duration::from_secs(20);
    let rates = [4.0, 1.0, 4.0];
    let changes =
        rates.iter().zip(0..).map(|(mbit, n)| (PHASE * n, LinkChange::Rate(Rate::from_mbit(*mbit))));
    let radio = LinkSettings { changes: changes.collect(), ..link(4.0, 1) };
    let measured = |nodes: &[NodeId]| {
        let link = CellLink { estimate: None, queue: None, packets: None };
        let tcp = both(Settings { receive_buffer: 1_000_000, send_buffer: 1_000_000, ..linux() });
        ProxyMode::PathTail(tcp, vec![Cell { link, ..cell(nodes, 0) }])
    };
    let mut scene = Scene::new(4, &link(100.0, 20), &[radio], measured);
    let source = scene.transfer(0, linux(), None);
    for mbit in rates {
        // What was held at the rate before leaves first.
        scene.network.run_for(PHASE.mul_f64(0.4));
        scene.network.reset_peaks();
        let before = scene.only(source).bytes;
        scene.network.run_for(PHASE.mul_f64(0.6));
        let rate = (scene.only(source).bytes - before) as f64 * 8.0 / PHASE.mul_f64(0.6).as_secs_f64() / 1e6;
        assert!((rate / (mbit * 0.96) - 1.0).abs() < 0.05, "{rate} of {mbit} Mbit/s");
        // What the emulated link holds, half a second or 64 kB, and what is on its way.
        let held = scene.network.proxy_stats(scene.proxy).peak_buffered;
        assert!(held < (mbit * 1e6 / 8.0 * 0.5) as u64 + 50_000, "{held} bytes at {mbit} Mbit/s");
    }
}

#[test]
fn a_node_that_cannot_take_its_data_takes_nothing_from_the_others_of_a_measured_cell() {
    let gone = vec![(Duration::from_secs(10), LinkChange::Rate(Rate::ZERO))];
    let small = Settings { receive_buffer: 12_000, ..linux() };
    let cases = [
        ("out of reach", LinkSettings { changes: gone, ..link(4.0, 20) }, linux()),
        ("a window of 12 kB and 200 ms", link(4.0, 100), small),
    ];
    for (what, radio, tcp) in cases {
        let measured = |nodes: &[NodeId]| {
            let link = CellLink { estimate: None, queue: None, packets: None };
            let tcp = both(Settings { receive_buffer: 2_000_000, send_buffer: 2_000_000, ..linux() });
            ProxyMode::PathTail(tcp, vec![Cell { link, ..cell(nodes, 0) }])
        };
        let mut scene = Scene::new(4, &link(100.0, 20), &[radio, link(4.0, 20)], measured);
        scene.transfer(0, tcp, None);
        let other = scene.transfer(1, linux(), None);
        scene.network.run_until(seconds(15));
        for _ in 0..6 {
            let before = scene.only(other).bytes;
            scene.network.run_for(Duration::from_secs(5));
            let rate = (scene.only(other).bytes - before) as f64 * 8.0 / 5e6;
            println!("{what}: {rate} Mbit/s");
            assert!((3.0..4.0).contains(&rate), "{what}: the other has {rate} Mbit/s of 4");
        }
    }
}
