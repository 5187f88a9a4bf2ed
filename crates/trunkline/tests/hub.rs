//! A hub with two more sites, as in examples/hub: the sites reach each other through it.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Checker, send};
use trunkline_testbed::namespace::{Host, Process, veth};
use trunkline_testbed::privilege;

const PROGRAM: &str = env!("CARGO_BIN_EXE_trunkline");

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes the key of a site; its public half.
fn key(directory: &Path, site: &str) -> String {
    let run = |verb: &str, input: Stdio| {
        let output = Command::new(PROGRAM).arg(verb).stdin(input).output().expect("it runs");
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    };
    let file = directory.join(format!("{site}.key"));
    fs::write(&file, run("genkey", Stdio::null())).expect("a key");
    run("pubkey", fs::File::open(&file).expect("the key").into())
}

fn start(host: &Host, directory: &Path, site: &str, text: &str) -> Process {
    let file = directory.join(format!("{site}.toml"));
    let socket = directory.join(format!("{site}.sock"));
    let head = format!("name = \"{site}\"\nprivate_key_file = \"{site}.key\"\n");
    fs::write(&file, format!("{head}{text}\n[control]\nsocket = \"{}\"\n", socket.display()))
        .expect("a file");
    let mut command = Command::new(PROGRAM);
    command.arg("up").arg(&file).stderr(Stdio::null());
    host.command(command).expect("it starts")
}

#[test]
fn two_sites_reach_each_other_through_a_hub() {
    if !privilege::available("two_sites_reach_each_other_through_a_hub") {
        return;
    }
    let directory = Directory(std::env::temp_dir().join(format!("trunkline-hub-{}", std::process::id())));
    fs::create_dir_all(&directory.0).expect("a directory");
    let [hub, b, c] = ["hub", "b", "c"].map(|name| Host::new(name).expect("a host"));
    hub.forwarding().expect("it forwards");
    for (site, number) in [(&b, 2), (&c, 3)] {
        let wan = format!("wan{number}");
        veth(&hub, &wan, site, "wan").expect("a line");
        let net = |last: u8| format!("198.18.{number}.{last}/24").parse().expect("a prefix");
        hub.address(&wan, net(1), None).expect("an address");
        site.address("wan", net(2), None).expect("an address");
    }
    let keys = ["hub", "b", "c"].map(|site| key(&directory.0, site));
    let peer = |name: &str, key: &str, rest: &str| {
        format!("\n[[peers]]\nname = \"{name}\"\npublic_key = \"{key}\"\n{rest}\n")
    };
    let hub_text = "listen = [\"0.0.0.0:4600\"]\n[tun]\naddress = [\"198.19.1.1/32\"]\n".to_owned()
        + &peer("b", &keys[1], "routes = [\"198.19.2.1/32\"]")
        + &peer("c", &keys[2], "routes = [\"198.19.3.1/32\"]");
    let spoke = |number: u8, other: u8| {
        let routes = format!("routes = [\"198.19.1.1/32\", \"198.19.{other}.1/32\"]");
        let endpoint = format!("endpoint = \"198.18.{number}.1:4600\"\n{routes}");
        format!("[tun]\naddress = [\"198.19.{number}.1/32\"]\n") + &peer("hub", &keys[0], &endpoint)
    };
    let _running = [
        start(&hub, &directory.0, "hub", &hub_text),
        start(&b, &directory.0, "b", &spoke(2, 3)),
        start(&c, &directory.0, "c", &spoke(3, 2)),
    ];
    let up = |site: &str| {
        let socket = directory.0.join(format!("{site}.sock"));
        let output = Command::new(PROGRAM).args(["status", "--json"]).arg(socket).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).matches("\"state\": \"up\"").count()
    };
    let since = Instant::now();
    while up("hub") < 6 {
        assert!(since.elapsed() < Duration::from_secs(20), "{} of the hub's 6 lanes are up", up("hub"));
        std::thread::sleep(Duration::from_millis(100));
    }
    let [b_ip, c_ip] = ["198.19.2.1", "198.19.3.1"].map(|ip| ip.parse().expect("an address"));
    for (from, to, to_ip) in [(&b, &c, c_ip), (&c, &b, b_ip)] {
        let checker = Checker::start(to, to_ip);
        send(from, checker.address, 10_000_000, None).join().expect("it is sent");
        assert_eq!(checker.finish(), 10_000_000);
    }
}
