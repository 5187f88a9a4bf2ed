//! `queue`: every discipline with its parameters, and what no queue can have.

use std::time::Duration;

use trunkline_queue::{
    CoDelSettings, FqCoDelSettings, FredSettings, PieSettings, RedSettings, TrunkSettings, Unit,
};

use super::*;

fn queue(keys: &str) -> Settings {
    ok(&format!("[[classes]]\nname = \"a\"\nqueue = {{ {keys} }}\n")).trunk.classes[0].queue
}

fn wrong(keys: &str) -> String {
    error(&format!("[[classes]]\nname = \"a\"\nqueue = {{ {keys} }}\n"))
}

const LIMITS: Limits = Limits { segments: 50, bytes: 256 << 10 };

#[test]
fn a_discipline_alone_has_its_defaults() {
    for (word, settings) in [
        ("tail-drop", Settings::TailDrop(Limits::default())),
        ("fair-tail-drop", Settings::FairTailDrop(Limits::default())),
        ("red", Settings::Red(RedSettings::default())),
        ("fred", Settings::Fred(FredSettings::default())),
        ("codel", Settings::CoDel(CoDelSettings::default())),
        ("fq-codel", Settings::FqCoDel(FqCoDelSettings::default())),
        ("pie", Settings::Pie(PieSettings::default())),
        ("trunk", Settings::Trunk(TrunkSettings::default())),
    ] {
        let config = ok(&format!("[[classes]]\nname = \"a\"\nqueue = {{ discipline = {word:?} }}\n"));
        assert_eq!(
            (config.trunk.classes[0].queue, config.trunk.classes[0].queue.description().word),
            (settings, word)
        );
    }
    assert_eq!(queue(""), Settings::FqCoDel(FqCoDelSettings::default()));
}

#[test]
fn every_parameter_arrives() {
    let with = |keys: &str| queue(&format!("packets = 50, bytes = \"256KiB\", {keys}"));
    assert_eq!(with("discipline = \"tail-drop\""), Settings::TailDrop(LIMITS));
    assert_eq!(with("discipline = \"fair-tail-drop\""), Settings::FairTailDrop(LIMITS));
    assert_eq!(
        with(
            "discipline = \"red\", min = \"10kB\", max = \"50000 B\", max_p = 0.1, weight = 1, gentle = true, ecn = false, harddrop = false"
        ),
        Settings::Red(RedSettings {
            limits: LIMITS,
            unit: Unit::Bytes,
            min: 10_000,
            max: 50_000,
            max_p: 0.1,
            weight: 1.0,
            gentle: true,
            ecn: false,
            harddrop: false,
        })
    );
    assert_eq!(
        with("discipline = \"red\", min = 5, max = 50"),
        Settings::Red(RedSettings {
            limits: LIMITS,
            unit: Unit::Segments,
            min: 5,
            max: 50,
            ..RedSettings::default()
        })
    );
    assert_eq!(
        with(
            "discipline = \"fred\", min = 5, max = 20, max_p = 0.5, weight = 1e-3, min_flow = 2, ecn = false"
        ),
        Settings::Fred(FredSettings {
            limits: LIMITS,
            min: 5,
            max: 20,
            max_p: 0.5,
            weight: 0.001,
            min_flow: 2,
            ecn: false,
        })
    );
    let codel = CoDelSettings {
        limits: LIMITS,
        target: Duration::from_micros(500),
        interval: Duration::from_millis(20),
        ecn: false,
    };
    let keys = "target = \"500us\", interval = \"20ms\", ecn = false";
    assert_eq!(with(&format!("discipline = \"codel\", {keys}")), Settings::CoDel(codel));
    assert_eq!(
        with(&format!("{keys}, queues = 8, quantum = \"300 B\"")),
        Settings::FqCoDel(FqCoDelSettings { codel, queues: 8, quantum: 300 })
    );
    assert_eq!(
        with("discipline = \"pie\", target = \"20ms\", update = \"30ms\", burst = \"0ms\", ecn = false"),
        Settings::Pie(PieSettings {
            limits: LIMITS,
            target: Duration::from_millis(20),
            update: Duration::from_millis(30),
            burst: Duration::ZERO,
            ecn: false,
        })
    );
    assert_eq!(
        with(
            "discipline = \"trunk\", auto_size = false, early_drop = false, drop_holdoff = false, threshold = 0, max_p = 1, ecn = false"
        ),
        Settings::Trunk(TrunkSettings {
            limits: LIMITS,
            auto_size: false,
            early_drop: false,
            drop_holdoff: false,
            threshold: 0.0,
            max_p: 1.0,
            holdoff: 0.5,
            ecn: false,
        })
    );
}

#[test]
fn a_queue_holds_a_super_packet_at_least() {
    for (keys, right) in [
        ("packets = 1", true),
        ("packets = 0", false),
        ("packets = 1000000", true),
        ("packets = 1000001", false),
        ("bytes = \"64KiB\"", true),
        ("bytes = \"65535 B\"", false),
        ("bytes = 65536", false),
        ("bytes = \"63KiB\"", false),
        ("bytes = \"1GiB\"", true),
        ("bytes = \"2GB\"", false),
        ("bytes = \"lots\"", false),
    ] {
        let result =
            parse(&format!("private_key_file = \"k\"\n[[classes]]\nname = \"a\"\nqueue = {{ {keys} }}\n"));
        assert_eq!(result.is_ok(), right, "{keys}: {result:?}");
    }
    assert!(wrong("bytes = \"2GB\"").contains("classes.a.queue.bytes: is \"2GB\"; allowed: 64 KiB to 1 GiB"));
}

#[test]
fn a_parameter_of_another_discipline_names_those_that_have_it() {
    for (keys, expected) in [
        (
            "discipline = \"tail-drop\", ecn = true",
            "queue.ecn: \"tail-drop\" has no such parameter; allowed: with discipline \"red\", \"fred\", \"codel\", \
             \"fq-codel\", \"pie\", \"trunk\"",
        ),
        (
            "discipline = \"trunk\", min = 5",
            "queue.min: \"trunk\" has no such parameter; allowed: with discipline \"red\", \"fred\"",
        ),
        (
            "discipline = \"codel\", queues = 5",
            "queue.queues: \"codel\" has no such parameter; allowed: with discipline \"fq-codel\"",
        ),
        // Nobody named the discipline: it is that of a class for everything.
        (
            "auto_size = false",
            "queue.auto_size: \"fq-codel\" has no such parameter; allowed: with discipline \"trunk\"",
        ),
    ] {
        let error = wrong(keys);
        assert!(error.contains(expected), "{keys}: {error}");
    }
    let all = wrong("discipline = \"blue\", min = 5, auto_size = true");
    assert!(
        all.contains(
            "queue.discipline: is \"blue\"; allowed: \"tail-drop\", \"fair-tail-drop\", \"red\", \
             \"fred\", \"codel\", \"fq-codel\", \"pie\", \"trunk\""
        ),
        "{all}"
    );
}

#[test]
fn every_parameter_belongs_to_a_discipline_and_has_a_key() {
    let text = "private_key_file = \"k\"\n[[classes]]\nname = \"a\"\nqueue = { ___ = 1 }\n";
    let keys = errors(text)[0].split_once("allowed: discipline, packets, bytes, ").unwrap().1.to_owned();
    for key in keys.split(", ") {
        let says = format!("queue.{key}: \"tail-drop\" has no such parameter");
        let values = ["true", "5", "0.1", "\"20ms\"", "\"300 B\""];
        let mut tried =
            values.iter().map(|value| wrong(&format!("discipline = \"tail-drop\", {key} = {value}")));
        let error = tried.find(|error| error.contains(&says)).unwrap_or_else(|| panic!("{key} of tail-drop"));
        let owner = error.split('"').nth(3).unwrap();
        let error = wrong(&format!("discipline = {owner:?}, {key} = []"));
        let says = [format!("queue.{key}: a list is no "), format!("queue.{key}: is a list; allowed: ")];
        assert!(says.iter().any(|says| error.contains(says)), "{error}");
    }
}

#[test]
fn parameters_have_ranges() {
    for (keys, expected) in [
        ("discipline = \"red\", max_p = 0", "queue.max_p: is 0; allowed: above 0, at most 1"),
        ("discipline = \"red\", max_p = 1.01", "queue.max_p: 1.01 is no share; allowed: 0 to 1, or "),
        ("discipline = \"red\", max_p = nan", "queue.max_p: NaN is no share; allowed: 0 to 1, or "),
        ("discipline = \"red\", max_p = inf", "queue.max_p: inf is no share; allowed: 0 to 1, or "),
        ("discipline = \"red\", max_p = \"0%\"", "queue.max_p: is \"0%\"; allowed: above 0, at most 1"),
        ("discipline = \"fred\", weight = -0.1", "queue.weight: -0.1 is no share; allowed: 0 to 1, or "),
        ("discipline = \"trunk\", threshold = 1", "queue.threshold: is 1; allowed: from 0, below 1"),
        (
            "discipline = \"red\", unit = \"packets\"",
            "queue.unit: unknown key; a bare number is packets now, a size",
        ),
        (
            "discipline = \"red\", min = \"20kB\", max = 50",
            "queue.min: is in another unit than max; allowed: both in packets, or both in bytes",
        ),
        (
            "discipline = \"red\", max = 50",
            "queue.min: is missing; allowed: min and max where one of them is in packets",
        ),
        (
            "discipline = \"red\", min = 0, max = 50",
            "queue.min: is 0; allowed: a whole number of packets, 1 to 1000000",
        ),
        (
            "discipline = \"red\", min = \"0kB\"",
            "queue.min: is \"0kB\"; allowed: a whole number of packets, 1 to",
        ),
        (
            "discipline = \"red\", min = \"520kB\"",
            "queue: min 520000 is not below max 520000; allowed: a min below max",
        ),
        (
            "discipline = \"red\", bytes = \"64KiB\"",
            "queue: max 520000 is more than the queue holds, 65536; allowed: a max within packets and bytes",
        ),
        (
            "discipline = \"red\", min = 5, max = 1001",
            "queue: max 1001 is more than the queue holds, 1000; allowed",
        ),
        ("discipline = \"fred\", min = 100", "queue: min 100 is not below max 100; allowed"),
        ("discipline = \"fred\", packets = 99", "queue: max 100 is more than the queue holds, 99; allowed"),
        ("target = 5", "queue.target: 5 is no time; allowed: a number with ns, us, ms, s, min or h"),
        ("target = \"5\"", "queue.target: \"5\" is no time; allowed: a number with ns, us, ms, s, min or h"),
        ("target = \"0.5ns\"", "queue.target: \"0.5ns\" is no time; allowed: a number with ns, us, ms"),
        ("target = \"9us\"", "queue.target: is \"9us\"; allowed: a time, 10µs to 60s"),
        ("interval = \"61s\"", "queue.interval: is \"61s\"; allowed: a time, 10µs to 60s"),
        (
            "target = \"100ms\"",
            "queue: target 100ms is not below interval 100ms; allowed: an interval of about a round trip",
        ),
        ("queues = 65537", "queue.queues: is 65537; allowed: a whole number, 1 to 65536"),
        ("quantum = 1514", "queue.quantum: 1514 is no size: write \"1514 B\"; allowed: "),
        ("bytes = 262144", "queue.bytes: 262144 is no size: write \"262144 B\"; allowed: "),
        ("quantum = \"255 B\"", "queue.quantum: is \"255 B\"; allowed: a size, 256 B to 1048576 B"),
        (
            "discipline = \"pie\", update = \"0.9ms\"",
            "queue.update: is \"0.9ms\"; allowed: a time, 1ms to 60s",
        ),
    ] {
        let error = wrong(keys);
        assert!(error.contains(expected), "{keys}: {error}");
    }
}
