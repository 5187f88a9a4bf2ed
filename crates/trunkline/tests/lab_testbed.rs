//! `trunkline lab … --engine testbed` as a user runs it, with gateways.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::site::{Directory, PROGRAM};
use serde_json::Value;
use trunkline_testbed::privilege;

const FILE: &str = r#"
id = "edge"
title = "Bulk flows and a flood over a trunk"
duration = "4 s"
warm_up = "1 s"
runs = 1

[nodes]
office = "host"
left = "gateway"
right = "gateway"
far = "host"

[links.near]
ends = ["office", "left"]
rate = "1 Gbit/s"
[links.wan]
ends = ["left", "right"]
rate = "10 Mbit/s"
delay = "10 ms"
queue = { discipline = "tail-drop", packets = 60 }
[links.far]
ends = ["right", "far"]
like = "near"

[traffic.bulk]
kind = "bulk"
from = "office"
to = "far"
flows = 2
tcp = "linux-6"
[traffic.flood]
kind = "udp"
from = "office"
to = "far"
rate = "15 Mbit/s"

[trunks.site]
gateways = ["left", "right"]
[[trunks.site.classes]]
name = "tcp"
match = [{ protocol = "tcp" }]
[[trunks.site.classes]]
name = "rest"
match = [{ source = "office" }, { destination = "office" }]
queue = { discipline = "tail-drop", packets = 100 }
[[trunks.site.classes]]
name = "other"

[series]
every = "500 ms"
of = ["bulk.goodput", "wan.queue.packets", "site.rest.queue.packets", "site.lane0.srtt"]

[[claims]]
text = "The edge drops the flood, and the core drops next to nothing."
kind = "ours"
holds = "site.drops > 20 * wan.drops"
"#;

/// Runs `trunkline lab` beside the experiment's file.
fn lab(directory: &Directory, arguments: &[&str]) -> Output {
    fs::write(directory.0.join("edge.toml"), FILE).expect("a file");
    let mut command = Command::new(PROGRAM);
    command.current_dir(&directory.0).arg("lab").args(arguments).output().expect("it starts")
}

/// Directories of gateways whose maker is gone.
fn directories() -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    let is_left = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let maker = name.strip_prefix("trunkline-scene-").and_then(|rest| rest.split_once('-'));
        maker.is_some_and(|(maker, _)| !Path::new("/proc").join(maker).exists())
    };
    entries.map(|entry| entry.path()).filter(is_left).collect()
}

#[test]
fn a_trunk_of_an_experiment_is_two_gateways_that_run() {
    if !privilege::available("a_trunk_of_an_experiment_is_two_gateways_that_run") {
        return;
    }
    let before = directories();
    let directory = Directory::new();
    let output = lab(&directory, &["run", "edge.toml", "--engine", "testbed", "--json", "--out", "out"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let line: Value = serde_json::from_slice(&output.stdout).expect("a line of JSON");
    assert_eq!(line["engine"], "testbed");
    let metric = |name: &str| {
        line["metrics"][name]["mean"].as_f64().unwrap_or_else(|| panic!("{name}: {}", line["metrics"]))
    };
    // 15 Mbit/s do not fit into a share of 10: the edge drops what the core would have dropped.
    assert!(metric("site.rest.drops") > 100.0);
    assert!(metric("site.delivered") > 1e6 && metric("site.delivered") < 10e6);
    assert!(metric("bulk.goodput") > 0.5e6);
    assert!(metric("site.rest.queue.packets.mean") > 10.0);
    // Frames and records make it more, header compression less.
    let overhead = metric("site.lane.overhead");
    assert!((0.9..1.2).contains(&overhead), "{overhead}");
    assert!(line["metrics"]["site.lane.timeouts"].is_null(), "a gateway does not count them");
    let report = fs::read_to_string(directory.0.join("out/edge/report.md")).expect("a report");
    assert!(report.contains("engine `testbed`"), "{report}");
    assert!(directories().is_subset(&before), "a directory is left");
}

/// Packets of hosts that a rule names go into its class whatever their version of IP, by both engines, and lanes of either version carry
/// them.
#[test]
fn a_trunk_of_an_experiment_carries_ipv6_over_either_version() {
    let name = "a_trunk_of_an_experiment_carries_ipv6_over_either_version";
    let has_testbed = privilege::available(name);
    for (engine, lanes) in [("sim", "ipv4"), ("sim", "ipv6"), ("testbed", "ipv4"), ("testbed", "ipv6")] {
        if engine == "testbed" && !has_testbed {
            continue;
        }
        let directory = Directory::new();
        let lanes = format!("trunks.site.family={lanes}");
        let arguments =
            ["--engine", engine, "--set", "family=ipv6", "--set", &lanes, "--json", "--out", "out"];
        let output = lab(&directory, &[&["run", "edge.toml"], &arguments[..]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{engine}, {lanes}: {said}");
        let line: Value = serde_json::from_slice(&output.stdout).expect("a line of JSON");
        let metric = |name: &str| line["metrics"][name]["mean"].as_f64().expect(name);
        assert!(metric("site.rest.drops") > 100.0, "{engine}, {lanes}: the flood is in its class");
        assert!(metric("bulk.goodput") > 0.5e6 && metric("flood.received.packets") > 500.0);
        assert!(metric("wan.fragmented") < 1.0, "{engine}, {lanes}");
    }
}

/// A trunk over a line between its gateways and another over a router, with transfers both ways.
const LINES: &str = r#"
id = "lines"
title = "Two lines"
duration = "7 s"
warm_up = "3 s"
runs = 1

[nodes]
office = "host"
left = "gateway"
middle = "router"
right = "gateway"
far = "host"

[links.near]
ends = ["office", "left"]
rate = "1 Gbit/s"
[links.one]
ends = ["left", "right"]
rate = "6 Mbit/s"
delay = "5 ms"
queue = { discipline = "tail-drop", bytes = "60 kB" }
[links.two]
ends = ["left", "middle"]
like = "one"
[links.three]
ends = ["right", "middle"]
like = "near"
[links.far]
ends = ["right", "far"]
like = "near"

[traffic.there]
kind = "bulk"
from = "office"
to = "far"
flows = 4
[traffic.back]
kind = "bulk"
from = "far"
to = "office"
flows = 4

[trunks.site]
gateways = ["left", "right"]
lanes = { paths = "spread" }
paths = [{ name = "direct", links = ["one"] }, { name = "around", links = ["two", "three"] }]
"#;

#[test]
fn a_trunk_over_two_lines_uses_both_in_both_directions_on_either_engine() {
    let name = "a_trunk_over_two_lines_uses_both_in_both_directions_on_either_engine";
    let has_testbed = privilege::available(name);
    for (engine, lanes) in [("sim", "ipv4"), ("testbed", "ipv4"), ("testbed", "ipv6")] {
        if engine == "testbed" && !has_testbed {
            continue;
        }
        let directory = Directory::new();
        fs::write(directory.0.join("lines.toml"), LINES).expect("a file");
        let lanes = format!("trunks.site.family={lanes}");
        let output = lab(
            &directory,
            &["run", "lines.toml", "--engine", engine, "--set", &lanes, "--json", "--out", "out"],
        );
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{engine}, {lanes}: {said}");
        let line: Value = serde_json::from_slice(&output.stdout).expect("a line of JSON");
        let metric = |name: &str| line["metrics"][name]["mean"].as_f64().expect(name);
        for way in ["one", "one.back", "two", "two.back"] {
            let used = metric(&format!("{way}.utilisation"));
            assert!(used > 0.3, "{engine}, {lanes}: {way} {used}");
        }
        for way in ["there.goodput", "back.goodput"] {
            assert!(metric(way) > 5e6, "{engine}, {lanes}: {way} {}", metric(way));
        }
    }
}

#[test]
fn both_engines_are_compared_on_one_page() {
    if !privilege::available("both_engines_are_compared_on_one_page") {
        return;
    }
    let directory = Directory::new();
    let output =
        lab(&directory, &["agree", "edge.toml", "--set", "trunks.site.enabled=false", "--out", "out"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("median factor") && text.contains("goodput"), "{text}");
    let page = fs::read_to_string(directory.0.join("out/agree.md")).expect("a page");
    assert!(page.contains("| `wan.utilisation` |") || page.contains("`wan.utilisation`"), "{page}");
    let json = fs::read_to_string(directory.0.join("out/agree.json")).expect("JSON");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[0]["engines"], serde_json::json!(["sim", "testbed"]));
    assert_eq!(json[0]["points"], 1);
}

/// Of a WAN whose delay nobody knows, what the trunk gives and direct routing.
const SURVEY: &str = r#"
[sweep.trunk.variants]
direct = { "trunks.site.enabled" = false }
trunk = {}
[unknown.delay]
paths = ["links.wan.delay"]
range = { from = 1, to = 30, unit = "ms" }
why = "A test."
[unknown.outages]
changes = { link = "wan", count = [1, 1], at = ["1 s", "2 s"], lasting = ["50 ms", "50 ms"], rate = [0, 0] }
why = "A test."
[survey]
axis = "trunk"
baseline = "direct"
measures = { goodput = { metric = "bulk.goodput", better = "more" } }
"#;

#[test]
fn samples_of_a_survey_are_run_on_this_kernel() {
    if !privilege::available("samples_of_a_survey_are_run_on_this_kernel") {
        return;
    }
    let directory = Directory::new();
    let network = FILE.split("[series]").next().expect("a network");
    fs::write(directory.0.join("paths.toml"), format!("{network}{SURVEY}")).expect("a file");
    let output = lab(
        &directory,
        &["survey", "paths.toml", "--samples", "2", "--engine", "testbed", "--json", "--out", "out"],
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((lines.len(), &lines[2]["complete"], &lines[2]["engine"]), (3, &2.into(), &"testbed".into()));
    for sample in &lines[..2] {
        // The flood takes all that it is not denied: directly nothing may be left, and the ratio is infinite.
        let goodput = |variant: &str| sample["values"]["goodput"][variant].as_f64().expect("a goodput");
        assert!(goodput("trunk") > 1.5 * goodput("direct"), "{sample}");
    }
}

/// The same network without classes, and with lanes of datagrams, or with the tunnel of another program. The flood's packets fit into
/// any: a queue that drops one of two fragments loses all.
fn instead(of_trunk: &str) -> String {
    let (network, rest) = FILE.split_once("[trunks.site]").expect("a trunk");
    let (_, rest) = rest.split_once("[series]").expect("series");
    let (_, claims) = rest.split_once("[[claims]]").expect("claims");
    assert!(claims.contains("site.drops"));
    let network = network.replace("rate = \"15 Mbit/s\"", "rate = \"15 Mbit/s\"\npacket = \"1000 B\"");
    format!("{network}[trunks.site]\ngateways = [\"left\", \"right\"]\n{of_trunk}\n")
}

/// The metrics of one run of a network by the testbed.
fn measured(directory: &Directory, text: &str) -> Value {
    fs::write(directory.0.join("instead.toml"), text).expect("a file");
    let output = lab(directory, &["run", "instead.toml", "--engine", "testbed", "--json", "--out", "out"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let line: Value = serde_json::from_slice(&output.stdout).expect("a line of JSON");
    line["metrics"].clone()
}

#[test]
fn lanes_of_datagrams_are_those_of_a_gateway_over_quic() {
    if !privilege::available("lanes_of_datagrams_are_those_of_a_gateway_over_quic") {
        return;
    }
    let directory = Directory::new();
    let class = "[[trunks.site.classes]]\nname = \"all\"\ntransport = \"quic\"\n";
    let metrics = measured(&directory, &instead(class));
    let metric = |name: &str| metrics[name]["mean"].as_f64().unwrap_or_else(|| panic!("{name}: {metrics}"));
    assert!(metric("site.delivered") > 1e6 && metric("site.delivered") < 10e6);
    assert!(metric("flood.goodput") > 1e6);
}

#[test]
fn another_programs_tunnel_carries_the_traffic_in_a_trunks_place() {
    let test = "another_programs_tunnel_carries_the_traffic_in_a_trunks_place";
    if !privilege::available(test) {
        return;
    }
    let before = directories();
    let directory = Directory::new();
    for program in ["openvpn-udp", "openvpn-tcp", "wireguard-go"] {
        let adapter = trunkline_testbed::tunnel::Adapter::named(program).expect("known");
        let missing = adapter.missing();
        if !missing.is_empty() {
            eprintln!("SKIPPED {test}, {program}: {} not installed", missing.join(", "));
            continue;
        }
        let metrics = measured(&directory, &instead(&format!("program = \"{program}\"")));
        let metric =
            |name: &str| metrics[name]["mean"].as_f64().unwrap_or_else(|| panic!("{name}: {metrics}"));
        // What it adds to each packet makes what arrives less than what the WAN carries.
        let (inside, outside) =
            (metric("flood.throughput") + metric("bulk.throughput"), metric("wan.delivered"));
        assert!(inside > 2e6 && inside < 0.99 * outside, "{program}: {inside} of {outside} bit/s");
        assert!(metric("site.drops") < 0.5, "{program} has no edge queue of ours");
        fs::remove_dir_all(directory.0.join("out")).expect("results");
    }
    assert!(directories().is_subset(&before), "a directory is left");
}
