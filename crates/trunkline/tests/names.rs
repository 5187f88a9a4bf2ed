//! Peers with a name as endpoint, while the files that resolve it are created and replaced.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::site::{Directory, PROGRAM, status, until};
use trunkline_testbed::namespace::{Host, veth};
use trunkline_testbed::privilege;

/// Whether a thread may read files as an ordinary user: not where the user namespace has a single one.
fn has_ordinary_users() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace()
        .nth(2)
        .and_then(|count| count.parse().ok())
        .is_some_and(|count: u64| count > 4_000_000_000)
}

#[test]
fn a_hosts_file_that_is_created_or_replaced_after_the_start_has_effect() {
    let test = "a_hosts_file_that_is_created_or_replaced_after_the_start_has_effect";
    if !privilege::available(test) {
        return;
    }
    if !has_ordinary_users() || Command::new("unshare").arg("--version").output().is_err() {
        eprintln!("{test}: skipped: it takes unshare, and a user namespace with ordinary users");
        return;
    }
    for at_start in ["true", "echo 127.0.0.1 localhost > /etc/hosts"] {
        let directory = Directory::new();
        let [near, far] = ["near", "far"].map(|name| Host::new(name).expect("a host"));
        veth(&near, "wan", &far, "wan").expect("a line");
        for (host, last) in [(&near, 1), (&far, 2)] {
            let address = format!("198.18.1.{last}/24").parse().expect("a prefix");
            host.address("wan", address, None).expect("an address");
        }
        let keys = ["a", "b"].map(|site| directory.key(site));
        let text = |own: &str, tun: u8, key: &str, other: u8, endpoint: &str| {
            format!(
                "{own}[tun]\naddress = [\"198.19.{tun}.1/32\"]\n[[peers]]\nname = \"peer\"\npublic_key = \"{key}\"\nroutes = [\"198.19.{other}.1/32\"]\n{endpoint}\n"
            )
        };
        directory.file("b", &text("listen = [\"198.18.1.2:4600\"]\n", 2, &keys[0], 1, ""));
        let file = directory.file("a", &text("", 1, &keys[1], 2, "endpoint = \"far.example:4600\""));
        let _b = directory.start(&far, "b", Stdio::null());
        // An /etc of its own, in a mount namespace.
        let script = format!(
            "mount -t tmpfs none /etc && echo 'hosts: files' > /etc/nsswitch.conf && {at_start} && exec {PROGRAM} up {}",
            file.display()
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]).stderr(Stdio::null());
        let gateway = near.command(command).expect("it starts");
        let socket = directory.socket("a");
        let lanes = || status(&socket)["peers"][0]["lanes"].as_array().cloned().unwrap_or_default();
        until("the look-up of the name failed", || {
            let error =
                |lane: &serde_json::Value| lane["last_error"].as_str().unwrap_or("").contains("far.example");
            socket.exists() && lanes().iter().any(error)
        });
        let etc = PathBuf::from(format!("/proc/{}/root/etc", gateway.pid()));
        fs::write(etc.join("hosts.new"), "198.18.1.2 far.example\n").expect("a new file");
        fs::rename(etc.join("hosts.new"), etc.join("hosts")).expect("it is put in its place");
        let replaced = Instant::now();
        until("all lanes are up", || lanes().iter().filter(|lane| lane["state"] == "up").count() == 3);
        assert!(replaced.elapsed() < Duration::from_secs(25), "{:?}", replaced.elapsed());
    }
}
