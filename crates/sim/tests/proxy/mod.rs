//! Proxies before a mobile network: what passes through them, and what they do to who sends.

mod figure_3;
mod path_tail;
mod scene;
mod windows;

use std::time::Duration;

use trunkline_link::{LinkChange, LinkSettings, Loss};
use trunkline_sim::{ProxyMode, SourceId, both};
use trunkline_tcp::{Preset, Settings, State, Timers};
use trunkline_units::Rate;
use trunkline_workload::{Distribution, Pattern, TransferState};

use scene::*;

#[test]
fn every_byte_arrives_in_both_directions_with_loss_on_both_sides() {
    for (name, mode) in MODES {
        for preset in Preset::ALL {
            let [internet, mobile] =
                [link(5.0, 30), link(2.0, 10)].map(|link| link.loss(Loss::Uniform(0.02)));
            let mut scene = Scene::new(7, &internet, &[mobile], mode);
            let tcp = forgets(&preset.settings());
            let down = scene.transfer(0, tcp.clone(), Some(400_000));
            let (sender, mobile) = (scene.sender, scene.mobiles[0]);
            let stagger = Distribution::Fixed(0.0);
            let bulk = Pattern::Bulk { flows: 2, bytes: Some(150_000), stagger };
            let up = scene.source([mobile, sender], tcp.clone(), bulk, None);
            let pages = Pattern::Web {
                users: 2,
                request: 300,
                response: Distribution::Fixed(20_000.0),
                objects: Distribution::Fixed(1.0),
                gap: Distribution::Fixed(1.0),
                think: Distribution::Fixed(1.0),
            };
            let users = scene.source([mobile, sender], tcp, pages, Some(Duration::from_secs(300)));
            scene.network.run_until(seconds(600));
            let what = format!("{name} {}", preset.name());
            for (source, bytes) in [(down, 400_000), (up, 150_000), (users, 20_000)] {
                let transfers = scene.network.transfers(source);
                let running = transfers.iter().filter(|one| one.state == TransferState::Running).count();
                assert_eq!(running, 0, "{what}");
                for one in &transfers {
                    assert_eq!((one.state, one.bytes), (TransferState::Completed, bytes), "{what}");
                }
            }
            let pages = scene.network.transfers(users).len();
            assert!(pages > 50, "{what}: {pages}");
            let stats = scene.network.proxy_stats(scene.proxy);
            assert!(stats.flows as usize >= pages + 3, "{what}: {stats:?}");
            assert_eq!(
                (scene.network.live_endpoints(), stats.buffered),
                (0, 0),
                "{what}: all is closed and forgotten"
            );
        }
    }
}

#[test]
fn a_split_connection_acknowledges_what_the_mobile_node_does_not_have() {
    let mut scene = Scene::new(1, &link(10.0, 10), &[link(0.2, 10)], split);
    let source = scene.transfer(0, linux(), Some(1_000_000));
    scene.network.run_until(seconds(5));
    let [sender, mobile] = scene.network.endpoints(source, 0).expect("it goes on");
    assert_eq!(sender.acknowledged(), 1_000_000);
    assert!(mobile.received() < 130_000, "{}", mobile.received());
    let stats = scene.network.proxy_stats(scene.proxy);
    assert_eq!(stats.buffered, 1_000_000 - mobile.received() + unacknowledged(&scene, source));
    assert_eq!(sender.state(), State::FinWait2, "and the close too");
    scene.network.run_until(seconds(60));
    assert_eq!(scene.only(source).state, TransferState::Completed);
}

/// What is on its way from the mobile node to the proxy: received there, and not acknowledged here yet.
fn unacknowledged(scene: &Scene, source: SourceId) -> u64 {
    let [_, mobile] = scene.network.endpoints(source, 0).expect("it goes on");
    let stats = scene.network.proxy_stats(scene.proxy);
    (stats.buffered + mobile.received()).saturating_sub(1_000_000)
}

#[test]
fn a_half_that_breaks_takes_the_other_with_it() {
    for paced in [false, true] {
        let down = vec![(Duration::from_secs(3), LinkChange::Rate(Rate::ZERO))];
        let mobile = LinkSettings { changes: down, ..link(0.5, 10) };
        let timers = Timers { max_retransmissions: 3, ..linux().timers };
        let tcp = both(Settings { timers, ..linux() });
        let mut scene = Scene::new(1, &link(10.0, 10), &[mobile], |nodes| {
            if paced {
                ProxyMode::PathTail(tcp.clone(), vec![cell(nodes, 50)])
            } else {
                ProxyMode::Split(tcp.clone())
            }
        });
        let source = scene.transfer(0, linux(), Some(800_000));
        scene.network.run_until(seconds(60));
        if paced {
            assert_eq!(scene.only(source).state, TransferState::Failed, "its close was never acknowledged");
        }
        assert_eq!(scene.network.proxy_stats(scene.proxy).buffered, 0);
    }
}
