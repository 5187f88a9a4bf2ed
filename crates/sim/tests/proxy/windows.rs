//! Proxies that look into packets: clamping, freezing, regulating.

use std::time::Duration;

use trunkline_link::{LinkChange, LinkSettings};
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_tcp::{Preset, Settings};
use trunkline_units::Rate;

use super::scene::*;

#[test]
fn a_clamped_window_bounds_what_is_in_flight_from_the_first_round_trip_on() {
    for scaling in [true, false] {
        let tcp = Settings { window_scaling: scaling, initial_window: 40, ..linux() };
        let mut scene = Scene::new(2, &link(10.0, 50), &[link(2.0, 10)], clamp);
        let source = scene.transfer(0, tcp, None);
        let mut max = 0;
        while scene.network.now() < seconds(30) {
            scene.network.run_for(Duration::from_millis(5));
            let [sender, _] = scene.network.endpoints(source, 0).expect("it goes on");
            max = max.max(sender.unacknowledged());
        }
        assert!((18_000..=20_000).contains(&max), "{max}");
        // A window in each round trip of 120 ms and the serialisation of its segments.
        let rate = scene.only(source).throughput(scene.network.now());
        assert!((0.9e6..1.33e6).contains(&rate), "{rate}");
    }
}

/// The queue before the mobile link has 20 places. What is offered is what is free there now: the sender never overfills it, and
/// the path, whose round trip wants more than the queue, is not full.
#[test]
fn a_window_that_follows_the_room_never_overfills_it() {
    let mobile = || {
        let limits = Limits { segments: 20, bytes: u64::MAX };
        link(2.0, 10).queue(QueueSettings::TailDrop(limits))
    };
    let run = |mode: Mode| {
        let mut scene = Scene::new(2, &link(10.0, 100), &[mobile()], mode);
        let tcp = Settings { initial_window: 4, ..linux() };
        let source = scene.transfer(0, tcp, None);
        scene.network.run_until(seconds(30));
        let dropped = scene.network.link_state(scene.links[0]).queue().dropped_total();
        (dropped, scene.only(source).throughput(scene.network.now()), *scene.network.proxy_stats(scene.proxy))
    };
    let (dropped, rate, stats) = run(clamp_to_room);
    assert!(dropped == 0 && stats.clamped > 1000, "{dropped} drops, {stats:?}");
    assert!((0.5e6..1.5e6).contains(&rate), "{rate}");
    let (dropped, _, stats) = run(idle);
    assert!(dropped > 0 && stats.clamped == 0, "{dropped} drops without it");
}

#[test]
fn a_frozen_sender_keeps_its_window_and_goes_on_at_once() {
    let run = |mode: Mode| {
        let off = vec![
            (Duration::from_secs(10), LinkChange::Rate(Rate::ZERO)),
            (Duration::from_secs(25), LinkChange::Rate(Rate::from_mbit(2.0))),
        ];
        let limits = Limits { segments: 60, bytes: u64::MAX };
        let mobile = LinkSettings { changes: off, ..link(2.0, 10).queue(QueueSettings::TailDrop(limits)) };
        let mut scene = Scene::new(2, &link(10.0, 50), &[mobile], mode);
        // Its window fits before the link.
        let tcp = Settings { receive_buffer: 60_000, ..Preset::Linux6Reno.settings() };
        let source = scene.transfer(0, tcp, None);
        scene.network.run_until(seconds(10));
        let cwnd = scene.network.endpoints(source, 0).expect("it goes on")[0].cwnd();
        scene.network.run_until(seconds(25));
        let [sender, mobile] = scene.network.endpoints(source, 0).expect("it goes on");
        let (frozen, had) = (sender.cwnd(), mobile.received());
        scene.network.run_until(seconds(26));
        let transfer = scene.only(source);
        (cwnd, frozen, transfer.bytes - had, transfer.sender, *scene.network.proxy_stats(scene.proxy))
    };
    let (before, kept, resumed, sender, stats) = run(freeze);
    assert_eq!((sender.timeouts, stats.frozen), (0, 1), "{sender:?}");
    assert!(kept == before && sender.window_probes >= 2, "{before} {kept} {sender:?}");
    assert!(resumed > 220_000, "a second at 2 Mbit/s: {resumed}");
    assert!(sender.retransmitted_segments <= 1, "{sender:?}");
    let (before, kept, _, sender, _) = run(idle);
    assert!(sender.timeouts >= 3 && kept < before / 4, "without it: {kept} of {before}");
}

#[test]
fn regulated_acknowledgements_spare_the_queue_before_the_mobile_link() {
    let run = |mode: Mode| {
        let limits = Limits { segments: 50, bytes: u64::MAX };
        let mobile = link(1.0, 10).queue(QueueSettings::TailDrop(limits));
        let mut scene = Scene::new(2, &link(10.0, 50), &[mobile], mode);
        let source = scene.transfer(0, Preset::Linux22.settings(), None);
        let large = Settings { send_buffer: 1 << 20, receive_buffer: 1 << 20, ..Preset::Linux22.settings() };
        let other = scene.transfer(0, large, None);
        scene.network.run_until(seconds(60));
        let drops = scene.network.link_state(scene.links[0]).queue().dropped_total();
        let both = [source, other].map(|source| scene.only(source));
        let rate = both.iter().map(|one| one.throughput(scene.network.now())).sum::<f64>();
        let timeouts: u64 = both.iter().map(|one| one.sender.timeouts).sum();
        (drops, rate, timeouts, *scene.network.proxy_stats(scene.proxy))
    };
    let (plain, idle_rate, ..) = run(idle);
    let (drops, rate, timeouts, stats) = run(regulate);
    assert!(plain > 20, "{plain} {drops}");
    assert!(drops * 4 < plain && stats.held > 100, "{drops} of {plain}: {stats:?}");
    assert!(rate > 0.93e6 && rate > 0.98 * idle_rate && timeouts == 0, "{rate} {idle_rate} {timeouts}");
}
