//! The kernel's settings, as its files have them.

use trunkline_trunk::{CongestionControl, Transport};

use super::Level::{Fault, Warning};
use super::files::Files;
use super::{Examination, Level};
use crate::config::Config;

/// Less than this of buffer, bytes, bounds a connection on an ordinary path: 1 MiB is 84 Mbit/s over 100 ms.
const MIN_TCP_BUFFER: u64 = 1 << 20;
/// What a socket of lanes over QUIC should be able to hold, bytes: the kernel's own default.
const MIN_UDP_BUFFER: u64 = 212_992;
/// Local ports below which many connections at once run out of them.
const MIN_PORTS: u64 = 4096;

pub(super) fn examine(files: &Files, site: Option<&Config>, examination: &mut Examination) {
    forwarding(files, site, examination);
    tcp(files, examination);
    congestion_control(files, site, examination);
    ports(files, examination);
    connection_tracking(files, examination);
    if site.is_none_or(Config::may_use_quic) {
        udp(files, examination);
    }
}

/// Sets `value` for a setting of the kernel, as a command.
fn set(name: &str, value: &str) -> String {
    format!("sysctl -w {name}='{value}'")
}

/// Whether packets of both families are forwarded, as far as the site has networks of these.
fn forwarding(files: &Files, site: Option<&Config>, examination: &mut Examination) {
    let routes = |four: bool| {
        site.is_none_or(|site| {
            site.peers.iter().flat_map(|peer| &peer.routes).any(|route| route.addr().is_ipv4() == four)
        })
    };
    let off = |path: &str, name: &str| {
        let problem = format!(
            "{name} is 0: this machine forwards nothing between its networks and the trunk; only its own packets pass"
        );
        (files.number(path) == Some(0)).then(|| (Warning, problem, set(name, "1")))
    };
    if routes(true) {
        examination.look("forwarding", off("proc/sys/net/ipv4/ip_forward", "net.ipv4.ip_forward"));
    }
    let Some(site) = site.filter(|_| routes(false)) else { return };
    examination
        .look("forwarding", off("proc/sys/net/ipv6/conf/all/forwarding", "net.ipv6.conf.all.forwarding"));
    let disabled = files.number("proc/sys/net/ipv6/conf/default/disable_ipv6") == Some(1);
    examination.look(
        "ipv6",
        disabled.then(|| {
            let problem = format!("{} has routes of IPv6, and IPv6 is off on new devices", site.name);
            (Fault, problem, set("net.ipv6.conf.default.disable_ipv6", "0"))
        }),
    );
}

/// Settings of TCP that bound what a lane carries.
fn tcp(files: &Files, examination: &mut Examination) {
    for (subject, setting, cost) in [
        (
            "tcp-window-scaling",
            "tcp_window_scaling",
            "a lane over TCP has at most 64 KiB on the way: 5 Mbit/s over 100 ms",
        ),
        ("tcp-sack", "tcp_sack", "a lane over TCP repairs one loss in a round trip"),
        (
            "tcp-timestamps",
            "tcp_timestamps",
            "lanes over TCP measure round trips badly, and trust an old segment on fast paths",
        ),
    ] {
        let is_off = files.number(&format!("proc/sys/net/ipv4/{setting}")) == Some(0);
        let name = format!("net.ipv4.{setting}");
        let found = is_off.then(|| (Warning, format!("{name} is 0: {cost}"), set(&name, "1")));
        examination.look(subject, found);
    }
    for setting in ["tcp_rmem", "tcp_wmem"] {
        let values = files.numbers(&format!("proc/sys/net/ipv4/{setting}"));
        let small = values.get(2).filter(|largest| **largest < MIN_TCP_BUFFER).map(|largest| {
            let name = format!("net.ipv4.{setting}");
            let rate = *largest as f64 * 8.0 / 0.1 / 1e6;
            let problem = format!(
                "{name} ends at {largest} bytes: a lane over TCP carries at most {rate:.1} Mbit/s over 100 ms"
            );
            (Warning, problem, set(&name, &format!("{} {} 6291456", values[0], values[1])))
        });
        examination.look("tcp-buffers", small);
    }
}

/// Whether the congestion control is there to which lanes change on a path that loses packets.
fn congestion_control(files: &Files, site: Option<&Config>, examination: &mut Examination) {
    let by_path = site.is_none_or(|site| {
        site.trunk.groups.iter().any(|group| {
            group.congestion_control == CongestionControl::ByPath && group.transport != Transport::Quic
        })
    });
    let Some(offered) = files.text("proc/sys/net/ipv4/tcp_available_congestion_control").filter(|_| by_path)
    else {
        return;
    };
    let is_there = offered.split_whitespace().any(|name| name == "bbr");
    examination.look(
        "congestion-control",
        (!is_there).then(|| {
            let problem = format!(
                "this kernel offers {offered} and not bbr: on a path that loses packets lanes over TCP stay slow"
            );
            (Warning, problem, "modprobe tcp_bbr".to_owned())
        }),
    );
}

fn ports(files: &Files, examination: &mut Examination) {
    let range = files.numbers("proc/sys/net/ipv4/ip_local_port_range");
    let [first, last] = range[..] else { return };
    let few = (last.saturating_sub(first) < MIN_PORTS).then(|| {
        let problem = format!("local ports are {first} to {last}: many connections at once run out of them");
        (Warning, problem, set("net.ipv4.ip_local_port_range", "32768 60999"))
    });
    examination.look("local-ports", few);
}

/// The table of connections of the kernel's firewall, which drops what begins while it is full.
fn connection_tracking(files: &Files, examination: &mut Examination) {
    let read = |name: &str| files.number(&format!("proc/sys/net/netfilter/{name}"));
    let (Some(count), Some(max)) = (read("nf_conntrack_count"), read("nf_conntrack_max")) else { return };
    let full: Option<(Level, String, String)> = (max > 0 && count * 10 >= max * 9).then(|| {
        let problem =
            format!("the firewall tracks {count} connections of at most {max}: new ones are dropped");
        (Warning, problem, set("net.netfilter.nf_conntrack_max", &(max * 4).to_string()))
    });
    examination.look("connection-tracking", full);
}

fn udp(files: &Files, examination: &mut Examination) {
    for setting in ["rmem_max", "wmem_max"] {
        let size = files.number(&format!("proc/sys/net/core/{setting}"));
        let small = size.filter(|size| *size < MIN_UDP_BUFFER).map(|size| {
            let name = format!("net.core.{setting}");
            let problem = format!("{name} is {size} bytes: lanes over QUIC lose packets in bursts");
            (Warning, problem, set(&name, "4194304"))
        });
        examination.look("udp-buffers", small);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::doctor::Finding;

    /// What is found where one file says something else than on a machine on which all is well.
    fn found(name: &str, file: &str, text: &str) -> Vec<Finding> {
        let root = std::env::temp_dir().join(format!("trunkline-doctor-{}-{name}", std::process::id()));
        let good = [
            ("net/ipv4/ip_forward", "1"),
            ("net/ipv4/tcp_window_scaling", "1"),
            ("net/ipv4/tcp_sack", "1"),
            ("net/ipv4/tcp_timestamps", "1"),
            ("net/ipv4/tcp_rmem", "4096\t131072\t6291456"),
            ("net/ipv4/tcp_wmem", "4096\t16384\t4194304"),
            ("net/ipv4/tcp_available_congestion_control", "reno cubic bbr"),
            ("net/ipv4/ip_local_port_range", "32768\t60999"),
            ("net/netfilter/nf_conntrack_count", "100"),
            ("net/netfilter/nf_conntrack_max", "65536"),
            ("net/core/rmem_max", "212992"),
            ("net/core/wmem_max", "212992"),
        ];
        for (path, value) in good.into_iter().chain([(file, text)]) {
            let path = root.join("proc/sys").join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("it is made");
            fs::write(path, format!("{value}\n")).expect("it is written");
        }
        let mut examination = Examination::default();
        examine(&Files::below(&root), None, &mut examination);
        fs::remove_dir_all(root).expect("it is removed");
        examination.findings
    }

    #[test]
    fn each_setting_is_found_alone() {
        assert_eq!(found("good", "net/ipv4/ip_forward", "1"), []);
        for (number, (subject, file, text, part)) in [
            ("forwarding", "net/ipv4/ip_forward", "0", "net.ipv4.ip_forward='1'"),
            ("tcp-buffers", "net/ipv4/tcp_rmem", "4096 65536 65536", "'4096 65536 6291456'"),
            (
                "congestion-control",
                "net/ipv4/tcp_available_congestion_control",
                "reno cubic",
                "modprobe tcp_bbr",
            ),
            ("connection-tracking", "net/netfilter/nf_conntrack_count", "60000", "nf_conntrack_max='262144'"),
            ("udp-buffers", "net/core/rmem_max", "65536", "net.core.rmem_max"),
            ("udp-buffers", "net/core/wmem_max", "65536", "net.core.wmem_max"),
            ("local-ports", "net/ipv4/ip_local_port_range", "60000 60999", "ip_local_port_range"),
        ]
        .into_iter()
        .enumerate()
        {
            let findings = found(&number.to_string(), file, text);
            assert_eq!(findings.len(), 1, "{file}: {findings:?}");
            assert_eq!((findings[0].subject, findings[0].level), (subject, Warning));
            assert!(findings[0].remedy.contains(part), "{findings:?}");
        }
    }

    #[test]
    fn what_is_not_there_is_no_finding() {
        let mut examination = Examination::default();
        examine(&Files::below(std::path::Path::new("/nonexistent")), None, &mut examination);
        assert_eq!(examination.findings, []);
    }
}
