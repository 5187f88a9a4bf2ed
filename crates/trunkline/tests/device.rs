//! Changes of the device, its routes and the machine's addresses by other programs: the gateway restores its part, and no
//! packet takes another route while the gateway does not run.

use std::net::IpAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{LANES, check_stream, edit, lane, lanes_up, plans, setup, sites, wait_for};
use ipnet::IpNet;
use trunkline_netlink::{Existing, Family, Handle, NetlinkError, Route, RouteFilter, RouteKind};
use trunkline_testbed::machine;
use trunkline_testbed::namespace::Host;
use trunkline_testbed::scene::{Encryption, Gateway, Gateways, Plan, Scene, TUN_DEVICE, WAN_DEVICE, Wan};

/// The gateway restores a change within a second, and this machine may be slow.
const SOON: Duration = Duration::from_secs(10);
/// `EHOSTUNREACH`.
const UNREACHABLE: Option<i32> = Some(113);
/// The protocol number of the gateway's routes and rules.
const OURS: u8 = 116;

fn start(test: &str) -> Option<(Scene, Gateways)> {
    sites(test, Wan::Veth, &setup(Encryption::Tls))
}

fn net(text: &str) -> IpNet {
    text.parse().expect("a prefix")
}

/// Works on the device of a host as an administrator would.
fn on_device<T: Send>(
    host: &Host,
    name: &str,
    work: impl FnOnce(&mut Handle, u32) -> Result<T, NetlinkError> + Send,
) -> T {
    host.netlink(|handle| handle.link_index(name).and_then(|index| work(handle, index))).expect("netlink")
}

/// The name of the link that a packet of the host would leave by, or the error number.
fn way(host: &Host, to: IpAddr) -> Result<String, Option<i32>> {
    host.run(|| {
        let mut handle = Handle::open().expect("netlink");
        let route = handle.route_to(to).map_err(|error| error.errno())?;
        let link = handle.link(route.device.expect("a link")).expect("it is there");
        Ok(link.name)
    })
}

/// Whether the host leads packets to the second site into the trunk, in every version of IP.
fn is_routed(scene: &Scene) -> bool {
    plans(scene).iter().all(|plan| way(&scene.t1, plan.x).as_deref() == Ok(TUN_DEVICE))
}

/// The first gateway's host would send everything by the WAN, as one with a default route does.
fn default_by_the_wan(scene: &Scene) {
    for plan in plans(scene) {
        let route = Route { metric: Some(100), ..Route::to(plan.any()).via(plan.t2_wan) };
        scene.t1.netlink(|handle| handle.add_route(&route, Existing::Keep)).expect("a route");
    }
}

fn tunnel_addresses(gateways: &Gateways) {
    for (gateway, host) in [(Gateway::T1, 1), (Gateway::T2, 2)] {
        let line = format!("name = \"{TUN_DEVICE}\"");
        let more = format!("{line}\naddress = [\"198.19.0.{host}/30\", \"fd00:255::{host}/126\"]");
        edit(gateways, gateway, |text| text.replace(&line, &more));
        gateways.reload(gateway).expect("a reload");
    }
}

fn unblock(scene: &Scene, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trunkline"));
    command.arg("unblock").args(arguments);
    let output = scene.t1.run(|| command.output()).expect("it runs");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.success(), said.concat())
}

#[test]
fn path_mtu_discovery_works_through_a_far_gateway_with_a_smaller_lan() {
    machine::share();
    let test = "path_mtu_discovery_works_through_a_far_gateway_with_a_smaller_lan";
    let Some((scene, gateways)) = start(test) else { return };
    tunnel_addresses(&gateways);
    // Hosts believe in 1500; only the far gateway knows better, and must say so.
    on_device(&scene.t2, "lan", |handle, lan| handle.set_mtu(lan, 1300));
    for plan in plans(&scene) {
        check_stream(&scene.a, &scene.x, plan.x, 300_000);
        let sender = match plan.x {
            IpAddr::V4(_) => "198.19.0.2",
            IpAddr::V6(_) => "fd00:255::2",
        };
        // Not only errors: the far gateway can be asked by its tunnel address, too.
        check_stream(&scene.t1, &scene.t2, sender.parse().expect("an address"), 10_000);
    }
    let status = gateways.status(Gateway::T1).expect("a status");
    assert_eq!(status.peers[0].received.refused_forged_source, 0, "{status:?}");
}

#[test]
fn routes_and_addresses_come_back_after_the_device_was_down() {
    machine::share();
    let Some((scene, gateways)) = start("routes_and_addresses_come_back_after_the_device_was_down") else {
        return;
    };
    tunnel_addresses(&gateways);
    on_device(&scene.t1, TUN_DEVICE, Handle::set_down);
    assert!(!is_routed(&scene));
    wait_for("a warning", SOON, &gateways, || {
        gateways.log(Gateway::T1).contains("another program took the device down")
    });
    on_device(&scene.t1, TUN_DEVICE, Handle::set_up);
    wait_for("the routes are back", SOON, &gateways, || is_routed(&scene));
    let addresses = on_device(&scene.t1, TUN_DEVICE, Handle::addresses);
    let there = |text: &str| addresses.iter().any(|address| address.address == net(text));
    assert!(there("198.19.0.1/30") && (there("fd00:255::1/126") || !scene.has_ipv6()), "{addresses:?}");
    for plan in plans(&scene) {
        check_stream(&scene.a, &scene.x, plan.x, 100_000);
    }
}

#[test]
fn a_removed_route_is_restored_and_does_not_prevent_a_reload() {
    machine::share();
    let test = "a_removed_route_is_restored_and_does_not_prevent_a_reload";
    let Some((scene, gateways)) = start(test) else { return };
    for plan in plans(&scene) {
        on_device(&scene.t1, TUN_DEVICE, |handle, index| {
            handle.delete_route(&Route { protocol: 0, ..Route::to(plan.second_site()).device(index) })
        });
    }
    wait_for("the routes are back", SOON, &gateways, || is_routed(&scene));
    assert!(gateways.log(Gateway::T1).contains("restored what another program removed: route "));

    // At the same time as the file gives it up.
    let site = Plan::IPV4.second_site();
    on_device(&scene.t1, TUN_DEVICE, |handle, index| {
        handle.delete_route(&Route { protocol: 0, ..Route::to(site).device(index) })
    });
    edit(&gateways, Gateway::T1, |text| text.replace(&format!("\"{site}\""), "\"198.18.7.0/24\""));
    gateways.reload(Gateway::T1).expect("a route that is gone keeps no reload away");
    assert_eq!(way(&scene.t1, "198.18.7.1".parse().expect("an address")).as_deref(), Ok(TUN_DEVICE));
    assert!(way(&scene.t1, Plan::IPV4.x).is_err(), "neither route nor block of it is left");
    assert_eq!(blocks(&scene.t1).len(), plans(&scene).len());
}

#[test]
fn a_removed_device_is_created_again() {
    machine::share();
    let mut setup = setup(Encryption::Tls);
    setup.tun = Some("queues = 2".to_owned());
    let test = "a_removed_device_is_created_again";
    let Some((scene, mut gateways)) = sites(test, Wan::Veth, &setup) else { return };
    tunnel_addresses(&gateways);
    for round in 1..=2 {
        on_device(&scene.t1, TUN_DEVICE, Handle::delete_link);
        wait_for("it is said", SOON, &gateways, || {
            gateways.log(Gateway::T1).matches("another program removed the device").count() == round
        });
        wait_for("the routes are back", SOON, &gateways, || is_routed(&scene));
        gateways.check_alive(Gateway::T1).expect("it lives on");
        for plan in plans(&scene) {
            check_stream(&scene.a, &scene.x, plan.x, 1_000_000);
            check_stream(&scene.x, &scene.a, plan.a, 1_000_000);
        }
    }
    assert_eq!(lanes_up(&gateways, Gateway::T1), 2 * LANES, "lanes notice nothing of it");
}

/// What a host blocks.
fn blocks(host: &Host) -> Vec<String> {
    let filter = RouteFilter { protocol: Some(OURS), ..RouteFilter::default() };
    let routes = host.netlink(|handle| handle.routes_where(filter)).expect("netlink");
    let blocks = routes.iter().filter(|route| route.kind == RouteKind::Unreachable);
    blocks.map(ToString::to_string).collect()
}

#[test]
fn no_packet_leaves_in_clear_while_the_gateway_does_not_run() {
    machine::share();
    let Some((scene, mut gateways)) = start("no_packet_leaves_in_clear_while_the_gateway_does_not_run")
    else {
        return;
    };
    default_by_the_wan(&scene);
    let blocked = |scene: &Scene| plans(scene).iter().all(|plan| way(&scene.t1, plan.x) == Err(UNREACHABLE));
    assert!(is_routed(&scene));
    gateways.kill9(Gateway::T1);
    wait_for("the device is gone", SOON, &gateways, || blocked(&scene));
    gateways.restart(Gateway::T1).expect("it starts again");
    wait_for("the routes are back", SOON, &gateways, || is_routed(&scene));
    gateways.wait_until_up(SOON).expect("lanes");
    assert_eq!(blocks(&scene.t1).len(), plans(&scene).len(), "each once");

    let file = gateways.configuration_file(Gateway::T1).to_str().expect("a path").to_owned();
    let (done, said) = unblock(&scene, &[&file]);
    assert!(!done && said.contains("runs"), "{said}");
    gateways.stop().expect("in order");
    assert!(blocked(&scene));
    assert!(gateways.log(Gateway::T1).contains("`trunkline unblock t1`"), "{}", gateways.log(Gateway::T1));

    assert_eq!(unblock(&scene, &["other"]), (true, "no prefix was blocked by other\n".to_owned()));
    assert!(blocked(&scene), "another site's name undoes nothing of this one");
    let (done, said) = unblock(&scene, &[&file]);
    assert!(done && said.starts_with(&format!("{} ", plans(&scene).len())), "{said}");
    for plan in plans(&scene) {
        assert_eq!(way(&scene.t1, plan.x).as_deref(), Ok(WAN_DEVICE));
    }
}

#[test]
fn packets_pass_on_exit_if_configured() {
    machine::share();
    let Some((scene, mut gateways)) = start("packets_pass_on_exit_if_configured") else { return };
    default_by_the_wan(&scene);
    let name = format!("name = \"{TUN_DEVICE}\"");
    edit(&gateways, Gateway::T1, |text| text.replace(&name, &format!("{name}\non_exit = \"pass\"")));
    gateways.reload(Gateway::T1).expect("a reload");
    assert!(is_routed(&scene));
    assert_eq!(blocks(&scene.t1), [""; 0]);
    gateways.kill9(Gateway::T1);
    wait_for("the other way is taken", SOON, &gateways, || {
        plans(&scene).iter().all(|plan| way(&scene.t1, plan.x).as_deref() == Ok(WAN_DEVICE))
    });
}

/// A place that the first gateway reaches by its default route alone, where the second listens.
const FAR: &str = "198.18.9.1";

/// Moves the second gateway to where only the first one's default route leads.
fn move_far_away(scene: &Scene, gateways: &mut Gateways) {
    gateways.stop().expect("in order");
    assert!(unblock(scene, &["--all"]).0);
    default_by_the_wan(scene);
    scene.t2.address(WAN_DEVICE, net(&format!("{FAR}/32")), None).expect("an address");
    edit(gateways, Gateway::T1, |text| {
        text.replace("endpoint = \"198.18.2.2", &format!("endpoint = \"{FAR}"))
    });
    edit(gateways, Gateway::T2, |text| text.replace("listen = [\"198.18.2.2", "listen = [\"0.0.0.0"));
    gateways.restart(Gateway::T2).expect("it starts");
}

/// Has the first gateway's file send everything through the trunk, with `tun` among its keys.
fn everything_through_the_trunk(scene: &Scene, gateways: &Gateways, tun: &str) {
    let routes: Vec<String> = plans(scene).iter().map(|plan| format!("\"{}\"", plan.any())).collect();
    edit(gateways, Gateway::T1, |mut text| {
        let start = text.find("routes = [").expect("routes");
        let end = start + text[start..].find(']').expect("their end");
        text.replace_range(start..end, &format!("routes = [{}", routes.join(", ")));
        let name = format!("name = \"{TUN_DEVICE}\"");
        text.replace(&name, &format!("{name}\n{tun}"))
    });
}

fn rules(scene: &Scene) -> usize {
    let count = |handle: &mut Handle, family| {
        handle.rules(family).map(|rules| rules.iter().filter(|rule| rule.protocol == OURS).count())
    };
    let counts = scene.t1.netlink(|handle| Ok(count(handle, Family::V4)? + count(handle, Family::V6)?));
    counts.expect("rules")
}

#[test]
fn everything_goes_through_the_trunk_but_the_trunk_itself() {
    machine::share();
    let test = "everything_goes_through_the_trunk_but_the_trunk_itself";
    let Some((scene, mut gateways)) = start(test) else { return };
    move_far_away(&scene, &mut gateways);
    everything_through_the_trunk(&scene, &gateways, "");
    gateways.restart(Gateway::T1).expect("it starts");
    gateways.wait_until_up(Duration::from_secs(20)).expect("the lanes find their way around the trunk");
    assert!(is_routed(&scene));
    assert_eq!(way(&scene.t1, FAR.parse().expect("an address")).as_deref(), Ok(TUN_DEVICE), "but for lanes");
    assert_eq!(way(&scene.t1, Plan::IPV4.a).as_deref(), Ok("lan"), "what is near stays near");
    for plan in plans(&scene) {
        check_stream(&scene.a, &scene.x, plan.x, 1_000_000);
    }
    assert_eq!(rules(&scene), 2 * plans(&scene).len());

    // A rule that another program removed is restored.
    let one = scene.t1.netlink(|handle| handle.rules(Family::V4)).expect("rules");
    let one = one.into_iter().find(|rule| rule.protocol == OURS).expect("a rule of ours");
    scene.t1.netlink(|handle| handle.delete_rule(&one)).expect("removed");
    wait_for("it is back", SOON, &gateways, || rules(&scene) == 2 * plans(&scene).len());

    gateways.kill9(Gateway::T1);
    wait_for("nothing leaves in clear", SOON, &gateways, || {
        plans(&scene).iter().all(|plan| way(&scene.t1, plan.x) == Err(UNREACHABLE))
    });
    gateways.restart(Gateway::T1).expect("it starts again");
    gateways.wait_until_up(Duration::from_secs(20)).expect("what blocks does not block lanes");
    gateways.stop().expect("in order");
    assert!(unblock(&scene, &["--all"]).0);
    assert_eq!(rules(&scene), 0);
    for plan in plans(&scene) {
        assert_eq!(way(&scene.t1, plan.x).as_deref(), Ok(WAN_DEVICE));
    }
}

#[test]
fn lanes_survive_a_reload_that_routes_everything_through_them() {
    machine::share();
    let test = "lanes_survive_a_reload_that_routes_everything_through_them";
    let Some((scene, mut gateways)) = start(test) else { return };
    move_far_away(&scene, &mut gateways);
    gateways.restart(Gateway::T1).expect("it starts");
    gateways.wait_until_up(Duration::from_secs(20)).expect("lanes");
    everything_through_the_trunk(&scene, &gateways, "");
    gateways.reload(Gateway::T1).expect("a reload");
    assert_eq!(way(&scene.t1, FAR.parse().expect("an address")).as_deref(), Ok(TUN_DEVICE));
    for plan in plans(&scene) {
        check_stream(&scene.a, &scene.x, plan.x, 1_000_000);
    }
    assert_eq!(lane(&gateways, Gateway::T1, "tcp").established, 1);
}

#[test]
fn a_default_route_in_the_main_table_is_not_shadowed() {
    machine::share();
    let Some((scene, mut gateways)) = start("a_default_route_in_the_main_table_is_not_shadowed") else {
        return;
    };
    move_far_away(&scene, &mut gateways);
    everything_through_the_trunk(&scene, &gateways, "table = \"main\"");
    gateways.restart(Gateway::T1).expect("it starts");
    let began = Instant::now();
    let ended = loop {
        match gateways.check_alive(Gateway::T1) {
            Err(ended) => break ended.to_string(),
            Ok(()) if began.elapsed() > SOON => panic!("it runs: {}", gateways.log(Gateway::T1)),
            Ok(()) => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    assert!(ended.contains("has a route to it already") && ended.contains("tun.table"), "{ended}");
    assert_eq!(way(&scene.t1, Plan::IPV4.x).as_deref(), Ok(WAN_DEVICE), "nothing of it is left");
}

#[test]
fn lanes_of_an_address_that_is_gone_end_at_once_and_a_new_one_is_used_at_once() {
    machine::share();
    let test = "lanes_of_an_address_that_is_gone_end_at_once_and_a_new_one_is_used_at_once";
    let Some((scene, gateways)) = start(test) else { return };
    let first_ended = |count| {
        wait_for("the lanes are back", SOON, &gateways, || {
            lanes_up(&gateways, Gateway::T1) == LANES && lanes_up(&gateways, Gateway::T2) == LANES
        });
        let log = gateways.log(Gateway::T1);
        assert_eq!(log.matches("this machine no longer has the address").count(), count, "{log}");
    };
    for (round, (old, new)) in
        [("198.18.2.1/24", "198.18.2.9/24"), ("198.18.2.9/24", "198.18.2.1/24")].into_iter().enumerate()
    {
        on_device(&scene.t1, WAN_DEVICE, |handle, wan| handle.delete_address(wan, net(old)));
        let gone = Instant::now();
        wait_for("the lanes have ended", SOON, &gateways, || lanes_up(&gateways, Gateway::T1) == 0);
        // Without the event, an idle lane sends its first keepalive probe after 4 s.
        assert!(gone.elapsed() < Duration::from_secs(3), "{:?}", gone.elapsed());
        std::thread::sleep(Duration::from_secs(3));
        on_device(&scene.t1, WAN_DEVICE, |handle, wan| handle.add_address(wan, net(new), None));
        first_ended(LANES * (round + 1));
    }
    check_stream(&scene.a, &scene.x, Plan::IPV4.x, 100_000);
}

#[test]
fn a_link_local_endpoint_is_dialled_on_its_interface() {
    machine::share();
    let test = "a_link_local_endpoint_is_dialled_on_its_interface";
    let Some((scene, mut gateways)) = start(test) else { return };
    if !scene.has_ipv6() {
        println!("SKIPPED {test}: the kernel has no IPv6");
        return;
    }
    let addresses = on_device(&scene.t2, WAN_DEVICE, Handle::addresses);
    let is_link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(six) if six.is_unicast_link_local());
    let far = addresses.iter().map(|address| address.address.addr()).find(is_link_local).expect("an address");
    edit(&gateways, Gateway::T2, |text| text.replace("listen = [\"198.18.2.2", "listen = [\"[::]"));
    let index = on_device(&scene.t1, WAN_DEVICE, |_, index| Ok(index));
    for zone in [index.to_string(), WAN_DEVICE.to_owned()] {
        gateways.stop().expect("in order");
        edit(&gateways, Gateway::T1, |text| {
            let line =
                text.lines().find(|line| line.starts_with("endpoint")).expect("an endpoint").to_owned();
            text.replace(&line, &format!("endpoint = \"[{far}%{zone}]:4600\""))
        });
        gateways.restart(Gateway::T2).expect("it starts");
        gateways.restart(Gateway::T1).expect("it starts");
        gateways.wait_until_up(Duration::from_secs(20)).expect("lanes");
    }
}
