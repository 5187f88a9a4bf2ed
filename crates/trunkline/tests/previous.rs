//! A site whose program is of an earlier version: it and this one agree on a version of the wire format, whichever dials, and its file
//! is read by this program. `TRUNKLINE_PREVIOUS` is the path of the earlier program.

use std::net::IpAddr;
use std::process::{Command, Stdio};

use crate::common::site::{Directory, PROGRAM, ask, until};
use crate::common::{Checker, send};
use trunkline_status::{Answer, LaneState, Request};
use trunkline_testbed::namespace::{Host, Process, veth};
use trunkline_testbed::privilege;

/// What a stream carries each way.
const BYTES: u64 = 5_000_000;

/// Two sites on one line, `a` of which is dialled.
struct Pair {
    directory: Directory,
    hosts: [Host; 2],
}

const SITES: [&str; 2] = ["a", "b"];

impl Pair {
    fn new() -> Self {
        let directory = Directory::new();
        let hosts = SITES.map(|name| Host::new(name).expect("a host"));
        veth(&hosts[0], "wan", &hosts[1], "wan").expect("a line");
        let keys = SITES.map(|site| directory.key(site));
        for (me, host) in hosts.iter().enumerate() {
            let net = |site: usize| format!("198.18.0.{}/24", site + 1).parse().expect("a prefix");
            host.address("wan", net(me), None).expect("an address");
            let other = 1 - me;
            let how = [r#"endpoint = "198.18.0.1:4600""#, ""][other];
            let text = format!(
                "{}\n[tun]\naddress = [\"{}/32\"]\n[[peers]]\nname = \"{}\"\npublic_key = \"{}\"\nroutes = [\"{}/32\"]\n{how}\n",
                ["listen = [\"0.0.0.0:4600\"]", ""][me],
                address(me),
                SITES[other],
                keys[other],
                address(other),
            );
            directory.file(SITES[me], &text);
        }
        Pair { directory, hosts }
    }

    fn start(&self, site: usize, program: &str) -> Process {
        let mut command = Command::new(program);
        command
            .arg("up")
            .arg(self.directory.0.join(format!("{}.toml", SITES[site])))
            .stderr(Stdio::inherit());
        self.hosts[site].command(command).expect("it starts")
    }

    /// Waits until each class has a lane at the site that runs this program, and sends both ways. Another version may have more lanes or fewer.
    fn carries(&self, at: usize, what: &str) {
        let socket = self.directory.socket(SITES[at]);
        until(what, || {
            // What was killed has left its socket.
            let Ok(Answer::Status(status)) = ask(&socket, &Request::Status) else { return false };
            let peer = &status.peers[0];
            let carried = |class| peer.lanes_of(class).any(|lane| lane.state == LaneState::Up);
            !peer.classes.is_empty() && peer.classes.iter().all(carried)
        });
        for (from, to) in [(0, 1), (1, 0)] {
            let checker = Checker::start(&self.hosts[to], address(to));
            send(&self.hosts[from], checker.address, BYTES, None).join().expect("it is sent");
            assert_eq!(checker.finish(), BYTES, "{what}");
        }
    }
}

fn address(site: usize) -> IpAddr {
    format!("198.19.0.{}", site + 1).parse().expect("an address")
}

#[test]
fn an_earlier_version_and_this_one_carry_traffic_whichever_dials() {
    let test = "an_earlier_version_and_this_one_carry_traffic_whichever_dials";
    let Some(previous) = std::env::var("TRUNKLINE_PREVIOUS").ok() else {
        println!("SKIPPED {test}: TRUNKLINE_PREVIOUS names no earlier program");
        return;
    };
    if !privilege::available(test) {
        return;
    }
    for this in [0, 1] {
        let pair = Pair::new();
        let other = 1 - this;
        let earlier = pair.start(other, &previous);
        let _running = pair.start(this, PROGRAM);
        pair.carries(this, &format!("{} is of an earlier version", SITES[other]));
        // The upgrade, with the same file.
        drop(earlier);
        let _upgraded = pair.start(other, PROGRAM);
        pair.carries(other, &format!("{} was upgraded", SITES[other]));
    }
}
