//! Files that are right become what they say.

use std::time::Duration;

use trunkline_engine::scenario::{Family, Load, ProxyMode, Scenario};
use trunkline_lab::document::Document;
use trunkline_link::{LinkChange, Loss};
use trunkline_queue::{Limits, Settings, Unit};
use trunkline_workload::{Assignment, Distribution, Pattern, Timing};

const EVERYTHING: &str = include_str!("good/everything.toml");

/// A network in which traffic goes over one link, and what a test adds.
fn small(more: &str) -> String {
    format!(
        r#"
        id = "small"
        title = "small"
        duration = "10 s"
        nodes = {{ a = "host", r = "router", b = "host" }}
        [links.near]
        ends = ["a", "r"]
        rate = "100 Mbit/s"
        [links.core]
        ends = ["r", "b"]
        rate = "10 Mbit/s"
        delay = "20 ms"
        [traffic.bulk]
        kind = "bulk"
        from = "a"
        to = "b"
        {more}"#
    )
}

fn document(text: &str) -> Document {
    Document::parse("test.toml", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn scenarios(document: &Document) -> Vec<Scenario> {
    let planned = document.plan().unwrap_or_else(|mistakes| panic!("{mistakes}"));
    planned.into_iter().map(|planned| planned.scenario).collect()
}

#[test]
fn traffic_and_lanes_have_the_version_of_ip_that_they_say_or_that_of_the_experiment() {
    let network = |family: &str, more: &str| {
        let text = small(more).replace("nodes =", &format!("{family} nodes ="));
        let scenario = scenarios(&document(&text)).remove(0);
        let sizes = scenario.traffic.iter().map(|traffic| match traffic.load {
            Load::Udp { data, .. } => data,
            Load::Tcp { .. } => 0,
        });
        let sizes = sizes.collect::<Vec<_>>();
        (scenario.traffic.iter().map(|traffic| traffic.family).collect::<Vec<_>>(), sizes)
    };
    let (six, four) = (Family::Ipv6, Family::Ipv4);
    let udp = |more: &str| {
        format!("[traffic.udp]\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1 Mbit/s\"\n{more}")
    };
    assert_eq!(network("", &udp("")), (vec![four, four], vec![0, 1472]));
    assert_eq!(network("family = \"ipv6\"\n", &udp("")), (vec![six, six], vec![0, 1452]));
    let other = udp("family = \"ipv6\"\npacket = \"48 B\"");
    assert_eq!(network("", &other), (vec![four, six], vec![0, 0]));
    let swept = "[sweep.family]\npaths = [\"family\"]\nvalues = [\"ipv4\", \"ipv6\"]";
    let families: Vec<Family> =
        scenarios(&document(&small(swept))).iter().map(|scenario| scenario.traffic[0].family).collect();
    assert_eq!(families, [four, six]);
}

#[test]
fn everything_that_can_be_said_is_understood() {
    let document = document(EVERYTHING);
    let planned = document.plan().unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(planned.len(), 2 * 3 * 2 * 2);
    let names: Vec<_> =
        planned.iter().map(|p| p.point.values().cloned().collect::<Vec<_>>().join("|")).collect();
    assert_eq!(names[0], "1|1 Mbit/s|16 KB|with");
    assert_eq!(names[1], "1|1 Mbit/s|16 KB|without", "the last axis varies fastest");
    assert_eq!(names[5], "1|10 Mbit/s|16 KB|without");
    assert_eq!(names[23], "10|100 Mbit/s|32 KB|without");
    assert_eq!(planned[0].point.keys().collect::<Vec<_>>(), ["flows", "rate", "window", "trunks"]);

    let scenario = &planned[0].scenario;
    assert_eq!((scenario.duration, scenario.warm_up), (Duration::from_secs(20), Duration::from_secs(2)));
    assert_eq!(scenario.trunks.len(), 1);
    assert_eq!(planned[1].scenario.trunks.len(), 0);
    assert_eq!(planned[1].scenario.disabled, [scenario.trunks[0].name.clone()]);

    let Load::Tcp { tcp, pattern: Pattern::Bulk { flows, bytes, stagger } } = &scenario.traffic[0].load
    else {
        panic!("{:?}", scenario.traffic[0]);
    };
    assert_eq!((*flows, *bytes, stagger), (1, Some(2_000_000), &Distribution::Uniform(0.0, 1.0)));
    let [old, older] = tcp;
    assert_eq!((old.name, old.send_buffer, old.receive_buffer), ("linux-2.2", 64_000, 16_000));
    assert!(old.delayed_ack.is_none() && old.sack);
    assert_eq!(
        (older.mss, older.receive_buffer, older.send_buffer),
        (536, 16_000, 16_000),
        "what it builds on"
    );
    assert!(older.delayed_ack.is_none() && !older.sack);

    let surge = &scenario.traffic[1].load;
    assert!(matches!(surge, Load::Tcp { pattern, .. } if *pattern == Pattern::surge(4)), "{surge:?}");
    let Load::Udp { data: 172, timing: Timing::OnOff { on, off, .. } } = &scenario.traffic[4].load else {
        panic!("{:?}", scenario.traffic[4]);
    };
    assert_eq!((on, off), (&Distribution::Exponential { mean: 1.0 }, &Distribution::Fixed(1.35)));
    assert_eq!(scenario.traffic[5].group, "cbr");
    let Load::Tcp {
        pattern: Pattern::Arrivals { connections: 20, assignment, request: 200, response, interval },
        ..
    } = &scenario.traffic[6].load
    else {
        panic!("{:?}", scenario.traffic[6]);
    };
    assert_eq!(*assignment, Assignment::Random);
    assert_eq!(*assignment, Assignment::Random);
    assert_eq!(*response, Distribution::Cdf([(0.0, 0.0), (10_000.0, 0.9), (1_000_000.0, 1.0)].into()));
    // 55 000 bytes on average, at a quarter of 1 Mbit/s.
    assert!((interval.mean() - 55_000.0 * 8.0 / 250_000.0).abs() < 1e-9, "{interval:?}");

    let trunk = &scenario.trunks[0];
    assert_eq!(trunk.sites, [vec![0, 1], vec![5, 7]]);
    assert_eq!(trunk.plan.lane_count(), 3);
    assert_eq!(trunk.plan.classes[1].group, trunk.plan.classes[2].group);
    assert_eq!(trunk.hosts[0], [[None, None], [Some(0), Some(5)]]);

    let proxy = scenario.nodes[6].proxy.as_ref().expect("it is a proxy");
    assert!(matches!(&proxy.mode, ProxyMode::PathTail(_, cells) if cells[0].hosts == [7]), "{proxy:?}");
}

#[test]
fn a_source_that_is_not_enabled_keeps_its_place() {
    let document = document(&small(
        r#"enabled = false
        [traffic.more]
        kind = "bulk"
        from = "b"
        to = "a""#,
    ));
    let scenario = &scenarios(&document)[0];
    assert_eq!(scenario.traffic.len(), 1);
    assert_eq!((&*scenario.traffic[0].name, scenario.traffic[0].place), ("more", 1));
}

#[test]
fn a_link_has_what_it_says_then_what_the_way_back_or_the_one_it_is_like_says() {
    let document = document(EVERYTHING);
    let scenario = &scenarios(&document)[0];
    let link = |name: &str| scenario.links.iter().find(|link| link.name == name).expect("it is there");
    let [there, back] = &link("far").ways;
    assert!(matches!(there.queue, Settings::FqCoDel(fq) if fq.queues == 64), "its own");
    assert_eq!(there.delay, Duration::from_millis(10), "near's");
    assert!(matches!(back.queue, Settings::Fred(fred) if fred.min_flow == 2), "near's way back");
    assert_eq!(back.delay, Duration::from_millis(15), "its own way back");
    assert_eq!(back.rate.bits_per_second(), 1_000_000, "near's way back");
    assert_eq!(back.mtu, 1500);
    let [a, b] = &link("to-a2").ways;
    assert_eq!(a, b);
    assert_eq!(a.queue, Settings::TailDrop(Limits { segments: 1000, bytes: u64::MAX }));
}

#[test]
fn changes_of_loss_keep_the_other_impairments() {
    let document = document(EVERYTHING);
    let near = scenarios(&document)[0].links[2].ways[0].clone();
    let kinds: Vec<_> = near.changes.iter().map(|(at, change)| (at.as_secs(), change)).collect();
    assert!(matches!(kinds[0], (5, LinkChange::Rate(_))) && matches!(kinds[1], (6, LinkChange::Delay(_))));
    let (6, LinkChange::Impairments(impairments)) = kinds[2] else { panic!("{kinds:?}") };
    assert!(matches!(impairments.loss, Loss::Bursts { .. }));
    assert_eq!((impairments.corruption, impairments.jitter), (0.001, near.impairments.jitter));
}

#[test]
fn red_counts_in_what_its_thresholds_are_in_and_marks_only_if_asked() {
    for (red, unit) in [
        ("min = 5\nmax = 15", Unit::Segments),
        ("min = \"5 kB\"\nmax = \"15 kB\"", Unit::Bytes),
        ("", Unit::Bytes),
    ] {
        let document = document(&small(&format!("[links.core.queue]\ndiscipline = \"red\"\n{red}")));
        let Settings::Red(settings) = scenarios(&document)[0].links[1].ways[0].queue else {
            panic!("no RED")
        };
        assert_eq!((settings.unit, settings.ecn), (unit, false), "{red}");
    }
}

#[test]
fn a_load_is_a_rate_or_a_share_of_a_link() {
    for (load, interval) in [(r#""2 Mbit/s""#, 0.04), (r#"{ share = 0.5, link = "core" }"#, 0.016)] {
        let more = format!(
            "\n[traffic.more]\nkind = \"arrivals\"\nfrom = \"b\"\nto = \"a\"\nresponse = \"10 kB\"\nload = {load}"
        );
        let document = document(&small(&more));
        let Load::Tcp { pattern: Pattern::Arrivals { connections: 200, interval: of, .. }, .. } =
            &scenarios(&document)[0].traffic[1].load
        else {
            panic!("no arrivals")
        };
        assert_eq!(*of, Distribution::Exponential { mean: interval }, "{load}");
    }
}

#[test]
fn fair_queueing_with_a_deep_buffer_is_fq_codel_with_a_target_that_nothing_reaches() {
    let queue = r#"discipline = "fq-codel", target = "50 s", interval = "60 s", bytes = "1800 kB""#;
    let document = document(&small(&format!(
        "\n[links.far]\nends = [\"r\", \"b\"]\nrate = \"1 Mbit/s\"\nqueue = {{ {queue} }}"
    )));
    let Settings::FqCoDel(settings) = scenarios(&document)[0].links[2].ways[0].queue else {
        panic!("no FQ-CoDel")
    };
    assert_eq!(settings.codel.limits, Limits { segments: u32::MAX, bytes: 1_800_000 });
}

#[test]
fn hosts_nearer_to_a_gateway_are_behind_it() {
    let text = r#"
        id = "sites"
        title = "sites"
        duration = "1 s"
        nodes = { a = "host", g = "gateway", h = "gateway", b = "host", c = "host", alone = "host" }
        [links]
        l = { ends = ["a", "g"], rate = "1 Mbit/s" }
        m = { like = "l", ends = ["g", "h"] }
        n = { like = "m", ends = ["h", "b"] }
        o = { like = "n", ends = ["h", "c"] }
        [traffic]
        x = { kind = "bulk", from = "a", to = "b" }
        [trunks]
        t = { gateways = ["g", "h"], classes = "single" }
    "#;
    let scenario = &scenarios(&document(text))[0];
    assert_eq!(scenario.trunks[0].sites, [vec![0], vec![3, 4]]);
    let plan = &scenario.trunks[0].plan;
    assert_eq!((plan.classes.len(), &*plan.classes[0].name, plan.lane_count()), (1, "all", 1));
}

#[test]
fn values_of_a_range_have_six_digits_and_are_whole_where_they_can_be() {
    let names = |range: &str, path: &str| -> Vec<String> {
        let sweep = format!("[sweep.x]\npaths = [\"{path}\"]\nrange = {range}");
        let planned = document(&small(&sweep)).plan().unwrap_or_else(|mistakes| panic!("{mistakes}"));
        planned.iter().map(|planned| planned.point["x"].clone()).collect()
    };
    assert_eq!(names("{ from = 1, to = 9, count = 3 }", "traffic.bulk.flows"), ["1", "5", "9"]);
    assert_eq!(
        names("{ from = 1, to = 2, count = 4, unit = \"ms\" }", "links.core.delay"),
        ["1 ms", "1.33333 ms", "1.66667 ms", "2 ms"]
    );
    assert_eq!(
        names("{ from = 1, to = 1000, count = 4, unit = \"kbit/s\", spacing = \"log\" }", "links.*.rate"),
        ["1 kbit/s", "10 kbit/s", "100 kbit/s", "1000 kbit/s"]
    );
    assert_eq!(
        names("{ from = 0.5, to = 0, count = 3 }", "links.core.loss"),
        ["0.5", "0.25", "0"],
        "a range may fall"
    );
}

#[test]
fn a_path_with_a_star_sets_all_and_one_can_set_what_the_file_does_not_say() {
    let mut document = document(&small(""));
    document.set("links.*.delay", "7 ms").unwrap_or_else(|mistakes| panic!("{mistakes}"));
    document.set("links.core.queue.discipline", "codel").unwrap_or_else(|mistakes| panic!("{mistakes}"));
    document.set("traffic.bulk.flows", "12").unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let scenario = &scenarios(&document)[0];
    assert!(scenario.links.iter().all(|link| link.ways[1].delay == Duration::from_millis(7)));
    assert!(matches!(scenario.links[1].ways[0].queue, Settings::CoDel(_)));
    assert!(matches!(&scenario.traffic[0].load, Load::Tcp { pattern, .. } if pattern.users() == 12));
}

#[test]
fn what_was_set_is_in_the_file_that_is_kept_and_reads_the_same() {
    let mut document = document(EVERYTHING);
    assert_eq!(document.to_toml().as_deref(), Ok(EVERYTHING));
    document.set("runs", "4").unwrap_or_else(|mistakes| panic!("{mistakes}"));
    document.set("links.near.delay", "30 ms").unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let again = Document::parse("again.toml", &document.to_toml().expect("TOML"))
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(again.experiment(), document.experiment());
    assert_eq!(scenarios(&again), scenarios(&document));
}

#[test]
fn a_quick_run_leaves_out_points_that_claims_are_about() {
    let mut document = document(EVERYTHING);
    document.quicken().unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(document.experiment().runs, 1);
    assert_eq!(document.experiment().duration.0, Duration::from_secs(10));
    assert_eq!(scenarios(&document).len(), 12);
    let again = Document::parse("again.toml", &document.to_toml().expect("TOML"))
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(again.experiment(), document.experiment());
    assert_eq!(
        again.points(),
        document.points(),
        "what is kept beside results asks for what was left out, which is no matter"
    );
    assert!(again.plan().is_err());
}
