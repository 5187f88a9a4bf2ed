//! Every example in the project's `examples` directory is a configuration this gateway takes, and examples of
//! one set fit each other.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use trunkline_gateway::config::{Config, Encryption};
use trunkline_trunk::{ClassId, Over};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// The sites of each set, by the names of both.
fn sets() -> BTreeMap<String, BTreeMap<String, Config>> {
    let mut sets = BTreeMap::<String, BTreeMap<String, Config>>::new();
    for set in fs::read_dir(examples()).unwrap().map(|entry| entry.unwrap().path()) {
        if !set.is_dir() {
            continue;
        }
        for file in fs::read_dir(&set).unwrap().map(|entry| entry.unwrap().path()) {
            if file.extension().is_some_and(|extension| extension == "toml") {
                let config = Config::load(&file).unwrap_or_else(|error| panic!("{error}"));
                let set = set.file_name().unwrap().to_string_lossy().into_owned();
                assert!(sets.entry(set).or_default().insert(config.name.clone(), config).is_none());
            }
        }
    }
    sets
}

#[test]
fn all_are_there_and_load() {
    let sets = sets();
    for (set, sites) in [
        ("two-sites", &["a", "b"][..]),
        ("hub", &["b", "c", "hub"]),
        ("papers", &["a", "b"]),
        ("shared-line", &["a", "b"]),
        ("slow-line", &["a", "b"]),
    ] {
        let have: Vec<_> = sets[set].keys().map(String::as_str).collect();
        assert_eq!(have, sites, "{set}");
    }
}

#[test]
fn peers_of_a_set_fit_each_other() {
    for (set, sites) in sets() {
        for site in sites.values() {
            for peer in &site.peers {
                let other = &sites[&peer.name];
                let back = other.peers.iter().find(|back| back.name == site.name);
                let back = back.unwrap_or_else(|| panic!("{set}: {} does not know {}", peer.name, site.name));
                assert_eq!(peer.encryption, back.encryption, "{set}");
                assert!(peer.endpoint.is_some() != back.endpoint.is_some(), "{set}: one of the two dials");
                let listener = if peer.endpoint.is_some() { other } else { site };
                assert!(!listener.listen.is_empty(), "{set}: {} listens", listener.name);
                assert_eq!(site.tun.queues, other.tun.queues, "{set}");
                assert_eq!(site.trunk.groups, other.trunk.groups, "{set}");
            }
        }
    }
}

#[test]
fn nobody_is_warned_of_an_example() {
    for (set, sites) in sets() {
        for site in sites.values() {
            assert_eq!(site.warnings(), [""; 0], "{set}");
        }
    }
}

#[test]
fn the_paper_has_a_trunk_for_each_protocol_and_queues_of_1000_packets() {
    for site in sets()["papers"].values() {
        let classes: Vec<_> = site
            .trunk
            .classes
            .iter()
            .map(|class| (&*class.name, class.queue.description().word, class.queue.limits().segments))
            .collect();
        assert_eq!(classes, [("udp", "tail-drop", 1000), ("tcp", "tail-drop", 1000)]);
        assert_eq!(site.encryption, Encryption::None);
        let lanes: Vec<_> = site
            .trunk
            .groups
            .iter()
            .map(|group| (&*group.name, group.congestion_control.initial()))
            .collect();
        assert_eq!(lanes, [("udp", "reno"), ("tcp", "reno")]);
    }
}

#[test]
fn a_shared_line_is_one_lane_divided_30_to_70() {
    for site in sets()["shared-line"].values() {
        assert_eq!(site.trunk.groups.len(), 1);
        let weights: Vec<_> = site
            .trunk
            .classes
            .iter()
            .map(|class| (&*class.name, class.share.priority, class.share.weight))
            .collect();
        assert_eq!(weights, [("control", true, 1), ("office", false, 30), ("laboratory", false, 70)]);
    }
}

#[test]
fn calls_on_a_slow_line_go_first_and_are_counted() {
    for site in sets()["slow-line"].values() {
        assert_eq!(site.trunk.groups.len(), 1);
        let calls = &site.trunk.classes[0];
        assert!(calls.share.priority && calls.share.ceiling.is_some());
        let admission = calls.admission.unwrap();
        assert_eq!((admission.limit, admission.over), (10, Over::Class(ClassId(3))));
        assert_eq!(&*site.trunk.classes[3].name, "rest");
    }
}
