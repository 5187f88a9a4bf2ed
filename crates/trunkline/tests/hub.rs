//! A hub with two more sites, as in examples/hub: the sites reach each other through it.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::site::{Directory, status};
use crate::common::{Checker, send};
use ipnet::IpNet;
use trunkline_status::{Peer, Status};
use trunkline_testbed::namespace::{Host, Process, veth};
use trunkline_testbed::privilege;

fn start(host: &Host, directory: &Directory, site: &str, text: &str) -> Process {
    directory.file(site, text);
    directory.start(host, site, Stdio::null())
}

/// A hub and two sites that know only the hub; their lanes are up.
struct Star {
    hub: Host,
    b: Host,
    c: Host,
    _running: [Process; 3],
    directory: Directory,
}

impl Star {
    /// `None`, with a message, if the machine lacks a requirement. `b_routes`: b's routes in the hub's file.
    fn new(test: &str, b_routes: &str) -> Option<Self> {
        if !privilege::available(test) {
            return None;
        }
        let directory = Directory::new();
        let [hub, b, c] = ["hub", "b", "c"].map(|name| Host::new(name).expect("a host"));
        hub.forwarding().expect("it forwards");
        for (site, number) in [(&b, 2), (&c, 3)] {
            let wan = format!("wan{number}");
            veth(&hub, &wan, site, "wan").expect("a line");
            let net = |last: u8| format!("198.18.{number}.{last}/24").parse().expect("a prefix");
            hub.address(&wan, net(1), None).expect("an address");
            site.address("wan", net(2), None).expect("an address");
        }
        let keys = ["hub", "b", "c"].map(|site| directory.key(site));
        let peer = |name: &str, key: &str, rest: &str| {
            format!("\n[[peers]]\nname = \"{name}\"\npublic_key = \"{key}\"\n{rest}\n")
        };
        let hub_text = "listen = [\"0.0.0.0:4600\"]\n[tun]\naddress = [\"198.19.1.1/32\"]\n".to_owned()
            + &peer("b", &keys[1], &format!("routes = [{b_routes:?}]"))
            + &peer("c", &keys[2], "routes = [\"198.19.3.1/32\"]");
        let spoke = |number: u8, other: u8| {
            let routes = format!("routes = [\"198.19.1.1/32\", \"198.19.{other}.1/32\"]");
            let endpoint = format!("endpoint = \"198.18.{number}.1:4600\"\n{routes}");
            format!("[tun]\naddress = [\"198.19.{number}.1/32\"]\n") + &peer("hub", &keys[0], &endpoint)
        };
        let running = [
            start(&hub, &directory, "hub", &hub_text),
            start(&b, &directory, "b", &spoke(2, 3)),
            start(&c, &directory, "c", &spoke(3, 2)),
        ];
        let star = Star { hub, b, c, _running: running, directory };
        let since = Instant::now();
        while star.up() < 6 {
            let up = star.up();
            assert!(since.elapsed() < Duration::from_secs(30), "{up} of the hub's 6 lanes are up");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(star)
    }

    /// What the hub says of itself.
    fn status(&self) -> Status {
        status(&self.directory.socket("hub"))
    }

    /// The hub's lanes that are up.
    fn up(&self) -> usize {
        self.status().peers.iter().map(Peer::lanes_up).sum()
    }

    /// Packets of a peer that the hub refused for their source.
    fn forged(&self, peer: &str) -> u64 {
        let status = self.status();
        let mut named = status.peers.iter().filter(|known| known.name == peer);
        let peer = named.next().unwrap_or_else(|| panic!("no peer {peer}: {status:?}"));
        peer.received.refused_forged_source
    }
}

#[test]
fn two_sites_reach_each_other_through_a_hub() {
    let test = "two_sites_reach_each_other_through_a_hub";
    let Some(star) = Star::new(test, "198.19.2.1/32") else { return };
    let [b_ip, c_ip] = ["198.19.2.1", "198.19.3.1"].map(|ip| ip.parse().expect("an address"));
    for (from, to, to_ip) in [(&star.b, &star.c, c_ip), (&star.c, &star.b, b_ip)] {
        let checker = Checker::start(to, to_ip);
        send(from, checker.address, 10_000_000, None).join().expect("it is sent");
        assert_eq!(checker.finish(), 10_000_000);
    }
}

/// The hub takes a prefix for b's that holds c's address: b sends as c all the same.
#[test]
fn a_site_with_a_short_prefix_cannot_send_as_the_site_inside_it() {
    let test = "a_site_with_a_short_prefix_cannot_send_as_the_site_inside_it";
    let Some(star) = Star::new(test, "198.19.0.0/16") else { return };
    let [own, forged] = [[198, 19, 2, 66], [198, 19, 3, 1]].map(Ipv4Addr::from);
    for address in [own, forged] {
        star.b.address("lo", IpNet::from(IpAddr::V4(address)), None).expect("an address");
    }
    let sink = star.hub.run(|| UdpSocket::bind("198.19.1.1:7777")).expect("a socket");
    sink.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    let send_as = |address: Ipv4Addr| {
        let source = star.b.run(|| UdpSocket::bind((address, 0))).expect("a socket");
        assert_eq!(source.send_to(&address.octets(), "198.19.1.1:7777").expect("sent"), 4);
    };
    (0..5).for_each(|_| send_as(forged));
    let since = Instant::now();
    while star.forged("b") < 5 && since.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
    }
    send_as(own);
    let mut buffer = [0; 100];
    let (len, from) = sink.recv_from(&mut buffer).expect("the honest packet arrives");
    assert_eq!((&buffer[..len], from.ip()), (&own.octets()[..], IpAddr::V4(own)));
    assert_eq!((star.forged("b"), star.forged("c")), (5, 0));
}
