//! `trunkline doctor` on real kernels: it finds nothing where nothing is wrong, and each fault that a test makes, alone.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::site::{Directory, PROGRAM};
use serde_json::Value;
use trunkline_testbed::namespace::{Host, Process, veth};
use trunkline_testbed::privilege;

/// The near site's file, of which a test changes parts.
const LISTEN: &str = "listen = [\"198.18.1.1:4600\"]\n";
const ROUTES: &str = "routes = [\"198.19.2.0/24\", \"fd00:2::/64\"]\n";
const ENDPOINT: &str = "endpoint = \"198.18.1.2:4600\"\n";

/// The endpoint, and a class whose lanes are over this transport.
fn class_over(transport: &str) -> String {
    format!("{ENDPOINT}[[classes]]\nname = \"all\"\ntransport = \"{transport}\"\n")
}

/// A site that is examined, and a peer whose gateway runs.
struct Examined {
    directory: Directory,
    near: Host,
    far: Host,
    keys: [String; 2],
}

impl Examined {
    fn new() -> Self {
        let directory = Directory::new();
        let [near, far] = ["near", "far"].map(|name| Host::new(name).expect("a host"));
        veth(&near, "wan", &far, "wan").expect("a line");
        for (host, last) in [(&near, 1), (&far, 2)] {
            let address = format!("198.18.1.{last}/24").parse().expect("a prefix");
            host.address("wan", address, None).expect("an address");
        }
        for (path, value) in [("net/ipv4/ip_forward", "1"), ("net/ipv6/conf/all/forwarding", "1")] {
            near.sysctl(path, value).expect("a setting");
        }
        let keys = ["a", "b"].map(|site| directory.key(site));
        directory.file(
            "b",
            &format!(
                "listen = [\"198.18.1.2:4600\"]\n[tun]\naddress = [\"198.19.2.1/32\", \"fd00:2::1/128\"]\n[[peers]]\nname = \"a\"\npublic_key = \"{}\"\nroutes = [\"198.19.1.1/32\", \"fd00:1::1/128\"]\n",
                keys[0]
            ),
        );
        let examined = Examined { directory, near, far, keys };
        examined.write(&[]);
        examined
    }

    /// Writes the near site's file, with these texts replaced by others.
    fn write(&self, changes: &[(&str, &str)]) {
        let mut text = format!(
            "{LISTEN}[tun]\naddress = [\"198.19.1.1/32\", \"fd00:1::1/128\"]\n[[peers]]\nname = \"b\"\npublic_key = \"{}\"\n{ROUTES}{ENDPOINT}",
            self.keys[1]
        );
        for (old, new) in changes {
            assert!(text.contains(old), "{old}");
            text = text.replace(old, new);
        }
        self.directory.file("a", &text);
    }

    fn far_gateway(&self) -> Process {
        self.directory.start(&self.far, "b", Stdio::null())
    }

    /// What the doctor says of the near site, started by a shell after `before`: its exit code, the subjects of its findings, all.
    fn doctor(&self, before: &str) -> (Option<i32>, BTreeSet<String>, Value) {
        let file = self.directory.0.join("a.toml");
        let script = format!("{before} exec {PROGRAM} doctor --json {}", file.display());
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdout(Stdio::piped());
        let mut process = self.near.command(command).expect("it starts");
        let mut text = String::new();
        process.stdout().expect("its output").read_to_string(&mut text).expect("text");
        let code = process.wait(Duration::from_secs(60)).expect("its state").expect("it ends").code();
        let report: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
        let findings = report["findings"].as_array().expect("findings");
        let subjects = findings.iter().map(|one| one["subject"].as_str().expect("a subject").to_owned());
        (code, subjects.collect(), report)
    }

    /// The doctor must find this, and nothing else.
    fn expect(&self, subject: &str, level: &str, what: &str) {
        self.expect_after("", subject, level, what);
    }

    fn expect_after(&self, before: &str, subject: &str, level: &str, what: &str) {
        let (code, subjects, report) = self.doctor(before);
        assert_eq!(subjects, BTreeSet::from([subject.to_owned()]), "{what}: {report}");
        assert_eq!(code, Some(if level == "fault" { 1 } else { 5 }), "{what}");
        for finding in report["findings"].as_array().expect("findings") {
            assert_eq!(finding["level"], level, "{what}: {finding}");
            for text in ["problem", "remedy"] {
                assert!(finding[text].as_str().is_some_and(|text| text.len() > 10), "{what}: {finding}");
            }
        }
    }

    /// The doctor must find nothing.
    fn expect_nothing(&self, when: &str) -> Value {
        let (code, subjects, report) = self.doctor("");
        assert_eq!((code, subjects), (Some(0), BTreeSet::new()), "{when}: {report}");
        report
    }
}

#[test]
fn settings_of_the_kernel() {
    if !privilege::available("settings_of_the_kernel") {
        return;
    }
    let examined = Examined::new();
    let _far = examined.far_gateway();
    let report = examined.expect_nothing("before");
    let examined_subjects = report["examined"].as_array().expect("subjects");
    assert!(examined_subjects.len() >= 15, "{report}");
    let page = include_str!("../../../docs/troubleshooting.md");
    let (_, page) = page.split_once("## trunkline doctor").expect("its section");
    for subject in examined_subjects {
        let subject = format!("`{}`", subject.as_str().expect("a subject"));
        assert!(page.contains(&subject), "docs/troubleshooting.md: {subject}");
    }
    let measured = report["measured"][0].as_str().expect("what was measured");
    assert!(measured.starts_with("b: 198.18.1.2:4600 answers over TCP after "), "{measured}");
    for (subject, path, value, good) in [
        ("forwarding", "net/ipv4/ip_forward", "0", "1"),
        ("forwarding", "net/ipv6/conf/all/forwarding", "0", "1"),
        ("tcp-window-scaling", "net/ipv4/tcp_window_scaling", "0", "1"),
        ("tcp-sack", "net/ipv4/tcp_sack", "0", "1"),
        ("tcp-timestamps", "net/ipv4/tcp_timestamps", "0", "1"),
        ("tcp-buffers", "net/ipv4/tcp_rmem", "4096 65536 65536", "4096 131072 6291456"),
        ("tcp-buffers", "net/ipv4/tcp_wmem", "4096 16384 65536", "4096 16384 4194304"),
        ("local-ports", "net/ipv4/ip_local_port_range", "60000 60500", "32768 60999"),
    ] {
        examined.near.sysctl(path, value).expect("a setting");
        examined.expect(subject, "warning", path);
        examined.near.sysctl(path, good).expect("a setting");
    }
    examined.near.sysctl("net/ipv6/conf/default/disable_ipv6", "1").expect("a setting");
    examined.expect("ipv6", "fault", "no IPv6");
    examined.near.sysctl("net/ipv6/conf/default/disable_ipv6", "0").expect("a setting");
    examined.expect_after("ulimit -n 256;", "descriptors", "warning", "few descriptors");
    examined.expect_nothing("after");
}

#[test]
fn device_addresses_and_routes() {
    if !privilege::available("device_addresses_and_routes") {
        return;
    }
    let examined = Examined::new();
    let _far = examined.far_gateway();
    examined.expect_nothing("before");

    let taken = examined.near.run(|| TcpListener::bind("198.18.1.1:4600")).expect("it listens");
    examined.expect("listen", "fault", "a port that is taken");
    drop(taken);
    examined.write(&[("198.18.1.1:4600", "192.0.2.77:4600")]);
    examined.expect("listen", "fault", "an address of another machine");
    examined.write(&[]);

    let end = Host::new("end").expect("a host");
    veth(&examined.near, "trunk0", &end, "end").expect("a device");
    examined.expect("device", "fault", "a device of that name");
    // With its other end's namespace it would go too, at some later time.
    let removed = examined.near.netlink(|handle| {
        let device = handle.link_index("trunk0")?;
        handle.delete_link(device)
    });
    removed.expect("it is removed");

    let inside = "198.19.2.77/32".parse().expect("a prefix");
    examined.near.address("wan", inside, None).expect("an address");
    examined.expect("routes", "warning", "an address of the peer's network");
    let removed = examined.near.netlink(|handle| {
        let wan = handle.link_index("wan")?;
        handle.delete_address(wan, inside)
    });
    removed.expect("it is removed");

    let mut own = examined.directory.start(&examined.near, "a", Stdio::null());
    examined.expect_nothing("while the gateway runs");
    own.terminate(Duration::from_secs(10)).expect("it ends");
    examined.expect("blocked", "warning", "a gateway that has ended");
    let mut command = Command::new(PROGRAM);
    command.args(["unblock", "a"]).stdout(Stdio::null());
    let mut unblock = examined.near.command(command).expect("it starts");
    unblock.wait(Duration::from_secs(20)).expect("its state");
    examined.expect_nothing("after");

    // The device node is hidden from this process alone.
    let file = examined.directory.0.join("a.toml");
    let before = format!(
        "exec unshare --mount --propagation private sh -c 'mount -t tmpfs none /dev/net && exec {PROGRAM} doctor --json {}';",
        file.display()
    );
    examined.expect_after(&before, "tun", "fault", "no device node");
}

#[test]
fn peers_that_cannot_be_reached() {
    if !privilege::available("peers_that_cannot_be_reached") {
        return;
    }
    let examined = Examined::new();
    let _far = examined.far_gateway();
    for (subject, level, changes) in [
        ("tcp", "fault", &[("198.18.1.2:4600", "198.18.1.2:4601")][..]),
        ("tcp", "fault", &[("198.18.1.2:4600", "198.18.1.99:4600")]),
        ("route", "fault", &[("198.18.1.2:4600", "203.0.113.9:4600")]),
        ("name", "fault", &[("198.18.1.2:4600", "nowhere.invalid:4600")]),
        ("endpoint", "warning", &[("198.19.2.0/24", "198.18.1.2/32")]),
        ("quic", "warning", &[(ENDPOINT, &class_over("auto"))]),
        ("quic", "fault", &[(ENDPOINT, &class_over("quic"))]),
    ] {
        examined.write(changes);
        examined.expect(subject, level, &format!("{changes:?}"));
    }
    examined.write(&[]);

    examined.near.sysctl("net/ipv4/conf/wan/rp_filter", "1").expect("a setting");
    examined.expect_nothing("one path");
    let paths = "[[peers.paths]]\nname = \"one\"\n[[peers.paths]]\nname = \"two\"\nfwmark = 7\n";
    examined.write(&[(ENDPOINT, &format!("{ENDPOINT}{paths}"))]);
    examined.expect("rp-filter", "warning", "several paths");
    examined.near.sysctl("net/ipv4/conf/wan/rp_filter", "2").expect("a setting");
    examined.write(&[]);

    let set = |mtu| {
        let set = examined.near.netlink(|handle| {
            let wan = handle.link_index("wan")?;
            handle.set_mtu(wan, mtu)
        });
        set.expect("an MTU");
    };
    set(1000);
    examined.expect("mtu", "warning", "a small MTU");
    set(1500);

    // A gateway with lanes over QUIC answers.
    drop(examined);
    let examined = Examined::new();
    let file = examined.directory.0.join("b.toml");
    let text = std::fs::read_to_string(&file).expect("the file");
    let own = "[[classes]]\nname = \"all\"\ntransport = \"auto\"\n[control]";
    std::fs::write(&file, text.replace("[control]", own)).expect("it is written");
    let _far = examined.far_gateway();
    examined.write(&[(ENDPOINT, &class_over("auto"))]);
    let report = examined.expect_nothing("both have QUIC");
    assert_eq!(report["measured"].as_array().map(Vec::len), Some(2), "{report}");
}
