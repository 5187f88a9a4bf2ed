//! `queue`: every discipline with its parameters, and what no queue can have.

use std::time::Duration;

use trunkline_queue::{
    CoDelSettings, FqCoDelSettings, FredSettings, PieSettings, RedSettings, TrunkSettings, Unit,
};

use super::*;

fn queue(keys: &str) -> Settings {
    ok(&format!("[[classes]]\nname = \"a\"\nqueue = {{ {keys} }}\n")).classes[0].queue
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
        assert_eq!((config.classes[0].queue, config.classes[0].discipline()), (settings, word));
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
            "discipline = \"red\", min = \"10kB\", max = 50000, max_p = 0.1, weight = 1, gentle = true, ecn = false"
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
        })
    );
    assert_eq!(
        with("discipline = \"red\", unit = \"packets\", min = 5, max = 50"),
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
        with(&format!("{keys}, queues = 8, quantum = 300")),
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
            "discipline = \"trunk\", sized = false, early = false, spares = false, threshold = 0, max_p = 1, ecn = false"
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
        ("bytes = 65535", false),
        ("bytes = \"63KiB\"", false),
        ("bytes = \"1GiB\"", true),
        ("bytes = \"2GB\"", false),
        ("bytes = \"lots\"", false),
    ] {
        let result =
            parse(&format!("private_key_file = \"k\"\n[[classes]]\nname = \"a\"\nqueue = {{ {keys} }}\n"));
        assert_eq!(result.is_ok(), right, "{keys}: {result:?}");
    }
    assert!(
        wrong("bytes = \"2GB\"")
            .contains("classes.a.queue.bytes: 2000000000 octets are out of range; allowed: 64KiB to 1GiB")
    );
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
            "sized = false",
            "queue.sized: \"fq-codel\" has no such parameter; allowed: with discipline \"trunk\"",
        ),
    ] {
        let error = wrong(keys);
        assert!(error.contains(expected), "{keys}: {error}");
    }
    let all = wrong("discipline = \"blue\", min = 5, sized = 3");
    assert!(
        all.contains(
            "queue.discipline: unknown value \"blue\"; allowed: \"tail-drop\", \"fair-tail-drop\", \"red\", \
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
        let error = wrong(&format!("discipline = \"tail-drop\", {key} = []"));
        assert!(error.contains(&format!("queue.{key}: \"tail-drop\" has no such parameter")), "{error}");
        let owner = error.split('"').nth(3).unwrap();
        let error = wrong(&format!("discipline = {owner:?}, {key} = []"));
        assert!(error.contains(&format!("queue.{key}: is an array; allowed: ")), "{error}");
    }
}

#[test]
fn parameters_have_ranges() {
    let share = "allowed: a number above 0, at most 1";
    for (keys, expected) in [
        ("discipline = \"red\", max_p = 0", format!("queue.max_p: 0 is out of range; {share}")),
        ("discipline = \"red\", max_p = 1.01", format!("queue.max_p: 1.01 is out of range; {share}")),
        ("discipline = \"red\", max_p = nan", format!("queue.max_p: nan is out of range; {share}")),
        ("discipline = \"red\", max_p = inf", format!("queue.max_p: inf is out of range; {share}")),
        ("discipline = \"red\", max_p = \"2%\"", format!("queue.max_p: is a string; {share}")),
        ("discipline = \"fred\", weight = -0.1", format!("queue.weight: -0.1 is out of range; {share}")),
        (
            "discipline = \"trunk\", threshold = 1",
            "queue.threshold: 1 is out of range; allowed: a number from 0, below 1".to_owned(),
        ),
        (
            "discipline = \"red\", unit = \"octets\"",
            "queue.unit: unknown value \"octets\"; allowed: \"bytes\", \"packets\"".to_owned(),
        ),
        (
            "discipline = \"red\", unit = \"packets\", min = \"20kB\", max = 50",
            "queue.min: is a string; allowed: a whole number, 1 to 1000000".to_owned(),
        ),
        (
            "discipline = \"red\", unit = \"packets\", max = 50",
            "queue: min is missing; allowed: min and max where the unit is \"packets\"".to_owned(),
        ),
        (
            "discipline = \"red\", min = 0",
            "queue.min: 0 is out of range; allowed: a whole number, 1 to".to_owned(),
        ),
        (
            "discipline = \"red\", min = \"0kB\"",
            "queue.min: 0 octets are out of range; allowed: 1 to 1GiB".to_owned(),
        ),
        (
            "discipline = \"red\", min = \"520kB\"",
            "queue: min 520000 is not below max 520000; allowed: a min below max".to_owned(),
        ),
        (
            "discipline = \"red\", bytes = \"64KiB\"",
            "queue: max 520000 is more than the queue holds, 65536; allowed: a max within packets and bytes"
                .to_owned(),
        ),
        (
            "discipline = \"red\", unit = \"packets\", min = 5, max = 1001",
            "queue: max 1001 is more than the queue holds, 1000; allowed".to_owned(),
        ),
        ("discipline = \"fred\", min = 100", "queue: min 100 is not below max 100; allowed".to_owned()),
        (
            "discipline = \"fred\", packets = 99",
            "queue: max 100 is more than the queue holds, 99; allowed".to_owned(),
        ),
        (
            "target = 5",
            "queue.target: is an integer; allowed: 10µs to 60s, a number with us, ms or s, such as \"5ms\""
                .to_owned(),
        ),
        (
            "target = \"5\"",
            "queue.target: \"5\" is no time; allowed: 10µs to 60s, a number with us, ms or s, such as"
                .to_owned(),
        ),
        ("target = \"9us\"", "queue.target: 9us is out of range; allowed: 10µs to 60s".to_owned()),
        ("interval = \"61s\"", "queue.interval: 61s is out of range; allowed: 10µs to 60s".to_owned()),
        (
            "target = \"100ms\"",
            "queue: target 100ms is not below interval 100ms; allowed: an interval of about a round trip"
                .to_owned(),
        ),
        (
            "queues = 65537",
            "queue.queues: 65537 is out of range; allowed: a whole number, 1 to 65536".to_owned(),
        ),
        (
            "quantum = 255",
            "queue.quantum: 255 is out of range; allowed: a whole number, 256 to 1048576".to_owned(),
        ),
        (
            "discipline = \"pie\", update = \"0.9ms\"",
            "queue.update: 0.9ms is out of range; allowed: 1ms to 60s".to_owned(),
        ),
    ] {
        let error = wrong(keys);
        assert!(error.contains(&expected), "{keys}: {error}");
    }
}
