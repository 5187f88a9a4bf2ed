use schemars::JsonSchema;
use serde::Deserialize;
use trunkline_queue::Settings;
use trunkline_trunk::compress::Compression;
use trunkline_trunk::{CongestionControl, Over, Protocol};

use super::*;
use crate::{Format, Mistakes, Preset, Source};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Trunk {
    #[serde(default)]
    lanes: LanesSpec,
    #[serde(default)]
    classes: Classes,
}

impl Format for Trunk {}

fn plan(text: &str) -> Result<TrunkPlan, Mistakes> {
    let source = Source::parse("trunk", text)?;
    let trunk: Trunk = source.read()?;
    let findings = source.findings::<Trunk>();
    let prefix = |at: &At<'_>, text: &str| {
        let prefix = text.parse().ok();
        if prefix.is_none() {
            at.refuse("a prefix");
        }
        prefix
    };
    let resolver = Resolver {
        prefix: &prefix,
        congestion_control: CongestionControl::ByPath,
        retransmission_filter: true,
        max_lanes: 8,
        either_transport: true,
        paths: true,
    };
    let plan = resolver.plan(&findings.root(), &trunk.lanes, &trunk.classes);
    let (found, misplaced) = findings.into_found();
    let all: Vec<_> = found.into_iter().chain(misplaced).map(|one| (one, None)).collect();
    if all.is_empty() { Ok(plan) } else { Err(source.mistakes(source.tree(), all)) }
}

fn ok(text: &str) -> TrunkPlan {
    plan(text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// What is wrong, without the name of the file.
fn wrong(text: &str) -> Vec<String> {
    let mistakes = plan(text).expect_err(text);
    mistakes.0.iter().map(|one| one.to_string().trim_start_matches("trunk:").to_owned()).collect()
}

fn word(settings: &Settings) -> &'static str {
    settings.description().word
}

#[test]
fn a_trunk_that_says_nothing_is_the_shipped_default() {
    let plan = ok("");
    let classes: Vec<_> =
        plan.classes.iter().map(|class| (&*class.name, class.rules.len(), word(&class.queue))).collect();
    assert_eq!(classes, [("interactive", 5, "fq-codel"), ("tcp", 1, "trunk"), ("other", 0, "codel")]);
    assert!(plan.edge_pacing && plan.classes.iter().all(|class| class.filters_retransmissions));
    for (place, group) in plan.groups.iter().enumerate() {
        let lanes = [(2, true), (4, true), (1, false)];
        assert_eq!((group.lanes, group.adaptive), lanes[place]);
        assert_eq!(plan.classes[place].replicates, place == 0);
        assert_eq!((group.dscp, group.compression), (0, Compression::On));
        assert_eq!(group.congestion_control, CongestionControl::ByPath);
        assert_eq!((plan.classes[place].group, &plan.classes[place].name), (place, &group.name));
    }
    assert_eq!(
        plan,
        ok("classes = \"interactive\"\n[lanes]\ncongestion_control = \"auto\"\nedge_pacing = true\n")
    );
}

#[test]
fn what_is_written_of_classes_can_be_read_again() {
    for preset in [Preset::Interactive, Preset::Split, Preset::Single] {
        let list = Classes::List(preset.classes());
        let text = toml::to_string(&toml::Table::from_iter([(
            "classes".to_owned(),
            toml::Value::try_from(&list).unwrap(),
        )]));
        let word = toml::Value::try_from(preset).unwrap();
        assert_eq!(ok(&text.unwrap()), ok(&format!("classes = {word}\n")), "{preset:?}");
    }
}

#[test]
fn lanes_are_shared_by_name_and_those_who_speak_of_them_agree() {
    let plan = ok(r#"
        lanes.edge_pacing = false
        [[classes]]
        name = "a"
        match = [{ protocol = "icmp" }, { dscp = ["ef", 8], port = [53, "1000-2000"], length = "40-200" }]
        lane_group = "both"
        lanes = 4
        dscp = "af11"
        [[classes]]
        name = "b"
        lane_group = "both"
        congestion_control = "bbr"
        header_compression = false
        weight = 3
        flows = { limit = 9, over = "a" }
    "#);
    let [group] = &plan.groups[..] else { panic!("{plan:?}") };
    assert_eq!((&*group.name, group.lanes, group.dscp, group.compression), ("both", 4, 10, Compression::Off));
    assert_eq!(group.congestion_control, CongestionControl::Named("bbr".into()));
    assert!(!plan.edge_pacing);
    let [icmp, other] = &plan.classes[0].rules[..] else { panic!("{plan:?}") };
    assert_eq!(icmp.protocol, Some(Protocol::AnyIcmp));
    assert_eq!((&other.either_ports[..], &other.lengths[..]), (&[53..=53, 1000..=2000][..], &[40..=200][..]));
    assert_eq!(plan.classes[1].admission.map(|admission| admission.over), Some(Over::Class(ClassId(0))));
    assert_eq!(plan.classes[1].share.weight, 3);
    assert_eq!(
        wrong(
            "[[classes]]\nname = \"a\"\nmatch = [{ dscp = 1 }]\nlane_group = \"b\"\nlanes = 2\n[[classes]]\nname = \"b\"\nlanes = 3\n"
        ),
        [
            "8:1: classes.b.lanes: is 3, but class \"a\" on the same lanes has 2; allowed: the same in all classes of a lane \
             group, or in one of them only"
        ]
    );
}

#[test]
fn keys_that_changed_name_the_new_ones() {
    let last = "name = \"a\"\n";
    for (text, expected) in [
        ("lane = \"b\"", "lane: unknown key; it is called lane_group now"),
        ("repeat_filter = false", "repeat_filter: unknown key; it is called retransmission_filter now"),
        ("queue.kind = \"red\"", "queue.kind: unknown key; it is called discipline now"),
        ("queue.sized = false", "queue.sized: unknown key; it is called auto_size now"),
        ("queue.early = false", "queue.early: unknown key; it is called early_drop now"),
        ("queue.spares = false", "queue.spares: unknown key; it is called drop_holdoff now"),
        ("queue.spare = 0.5", "queue.spare: unknown key; it is called holdoff now"),
        (
            "queue.unit = \"packets\"",
            "queue.unit: unknown key; a bare number is packets now, a size with its unit is bytes: min = 20, or min = \"20 KB\"",
        ),
        (
            "queue.bytes = 262144",
            "queue.bytes: 262144 is no size: write \"262144 B\"; allowed: a number with B, kB, MB, GB, KiB, MiB or GiB, such as \
             \"520 KB\"",
        ),
    ] {
        let told = wrong(&format!("[[classes]]\n{last}{text}\n"));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].ends_with(&format!("classes.a.{expected}")), "{told:?}");
    }
    let told = wrong("[classes.a]\nweight = 4\n");
    assert!(
        told[0].contains("classes: is a table; allowed: [[classes]] with a name in each, or \"interactive\""),
        "{told:?}"
    );
    let told = wrong("[lanes]\nall = 4\n");
    assert!(told[0].contains("lanes.all: unknown key; how many lanes a class has is `lanes`"), "{told:?}");
    let told = wrong("[[classes]]\nname = \"a\"\nmatch = [{ interactive = true }]\n");
    assert!(told[0].contains("interactive: unknown key; write behaviour = \"interactive\" now"), "{told:?}");
}

#[test]
fn a_queue_is_checked_in_the_words_of_its_discipline() {
    for (queue, expected) in [
        (
            "discipline = \"blue\"",
            "queue.discipline: is \"blue\"; allowed: \"tail-drop\", \"fair-tail-drop\"",
        ),
        (
            "auto_size = true",
            "queue.auto_size: \"fq-codel\" has no such parameter; allowed: with discipline \"trunk\"",
        ),
        ("target = \"5 ns\"", "queue.target: is \"5 ns\"; allowed: a time, 10µs to 60s"),
        ("target = \"100 ms\"", "queue: target 100ms is not below interval 100ms"),
        ("discipline = \"red\", min = 5", "queue.max: is missing; allowed: min and max where one of them"),
        ("discipline = \"red\", min = 5, max = \"1 MB\"", "queue.min: is in another unit than max"),
        ("discipline = \"red\", min = 5, max = 1001", "queue: max 1001 is more than the queue holds, 1000"),
        (
            "discipline = \"fred\", min = \"5 KB\"",
            "queue.min: is \"5 KB\"; allowed: a whole number, 1 to 1000000",
        ),
        ("discipline = \"fred\", max_p = 0", "queue.max_p: is 0; allowed: above 0, at most 1"),
        ("packets = 0", "queue.packets: is 0; allowed: 1 to 1000000"),
        ("bytes = \"63 KiB\"", "queue.bytes: is \"63 KiB\"; allowed: 64 KiB to 1 GiB"),
        ("quantum = \"255 B\"", "queue.quantum: is \"255 B\"; allowed: a size, 256 B to 1048576 B"),
        ("tarket = \"5 ms\"", "queue.tarket: unknown key, did you mean target?"),
    ] {
        let told = wrong(&format!("[[classes]]\nname = \"a\"\nqueue = {{ {queue} }}\n"));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(&format!("classes.a.{expected}")), "{queue}: {told:?}");
    }
}

#[test]
fn classes_are_consistent() {
    let udp = "[[classes]]\nname = \"a\"\nmatch = [{ protocol = \"udp\" }]\n";
    let rest = "[[classes]]\nname = \"b\"\n";
    for (text, expected) in [
        ("classes = []".to_owned(), "classes: is an empty list"),
        (udp.to_owned(), "classes.a: is the last class but does not take every packet"),
        (format!("{rest}{udp}"), "classes.b: takes every packet, so that later classes never get one"),
        (format!("{udp}{udp}{rest}"), "\"a\" is the name of two classes"),
        (format!("{udp}weight = 0\n{rest}"), "classes.a.weight: is 0; allowed: 1 to 1000"),
        (format!("{udp}lanes = 9\n{rest}"), "classes.a.lanes: is 9; allowed: 1 to 8"),
        (format!("{udp}guarantee = \"1 bit/s\"\n{rest}"), "classes.a.guarantee: 1 bit/s is out of range"),
        (
            format!("{udp}guarantee = \"2 Mbit/s\"\nceiling = \"1 Mbit/s\"\n{rest}"),
            "classes.a: guarantee 2 Mbit/s is above ceiling 1 Mbit/s",
        ),
        (format!("{udp}flows.limit = 0\n{rest}"), "classes.a.flows.limit: is 0"),
        (
            format!("{udp}flows = {{ limit = 1, over = \"c\" }}\n{rest}"),
            "classes.a.flows.over: there is no class \"c\"",
        ),
        (
            format!("{udp}flows = {{ limit = 1, over = \"a\" }}\n{rest}"),
            "classes.a.flows.over: is the class itself",
        ),
        (
            format!(
                "{udp}flows = {{ limit = 1, over = \"b\" }}\n{rest}flows = {{ limit = 1, over = \"a\" }}\n"
            ),
            "classes.a.flows.over: class \"b\" passes flows on itself, to \"a\"",
        ),
        (format!("{udp}[[classes]]\nname = \"refuse\"\n"), "classes.refuse.name: is the word for refusing"),
        (
            format!("{udp}[[classes]]\nname = \"B\"\n"),
            "classes.B.name: \"B\" is no name; allowed: 1 to 32 of",
        ),
        (
            "classes = \"spilt\"".to_owned(),
            "classes: is \"spilt\"; allowed: \"interactive\", \"split\", \"single\"",
        ),
    ] {
        let told = wrong(&text);
        assert!(told.iter().any(|one| one.contains(expected)), "{text}: {told:?}");
    }
    // Those behind it take the flows that it has no place for.
    ok("[[classes]]\nname = \"a\"\nflows = { limit = 5, over = \"b\" }\n[[classes]]\nname = \"b\"\n");
    let sixteen = (0..15).fold(String::new(), |text, n| {
        text + &format!("[[classes]]\nname = \"c{n}\"\nmatch = [{{ dscp = {n} }}]\nlanes = 3\n")
    });
    let told = wrong(&format!("{sixteen}{rest}"));
    assert!(told[0].contains("classes.c10: makes 33 lanes to each peer in each shard"), "{told:?}");
    let told = wrong(&format!("{}{udp}{rest}", sixteen.replace("lanes = 3", "lanes = 1")));
    assert!(told[0].contains("classes.b: is one class too many; allowed: at most 16 classes"), "{told:?}");
}

#[test]
fn rules_hold_for_packets_that_there_are() {
    for (rule, expected) in [
        ("{}", "match[0]: is an empty rule"),
        ("{ dscp = [] }", "match[0].dscp: is an empty list"),
        ("{ dscp = \"cs8\" }", "match[0].dscp: unknown code point \"cs8\"; allowed: 0 to 63"),
        ("{ dscp = [8, 64] }", "match[0].dscp[1]: is 64; allowed: 0 to 63"),
        ("{ protocol = \"icmp\", port = 5 }", "match[0]: names ports of a protocol that has none"),
        ("{ protocol = 132, behaviour = \"interactive\" }", "match[0]: asks how flows of a protocol behave"),
        ("{ protocol = 256 }", "match[0].protocol: 256 is no protocol"),
        ("{ port = \"2-1\" }", "match[0].port: 2-1 ends before it begins; allowed: a port, or a range"),
        ("{ length = 19 }", "match[0].length: is 19; allowed: 20 to 65535"),
        ("{ source = \"here\" }", "match[0].source: is \"here\"; allowed: a prefix"),
        (
            "{ source = \"10.0.0.0/8\", destination = \"::/0\" }",
            "match[0]: source and destination are of different IP versions",
        ),
    ] {
        let told =
            wrong(&format!("[[classes]]\nname = \"a\"\nmatch = [{rule}]\n[[classes]]\nname = \"b\"\n"));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(&format!("classes.a.{expected}")), "{told:?}");
    }
    let told = wrong("[[classes]]\nname = \"a\"\nmatch = []\n[[classes]]\nname = \"b\"\n");
    assert!(told[0].contains("classes.a.match: is an empty list, which takes no packet"), "{told:?}");
}
