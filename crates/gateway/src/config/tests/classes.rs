//! `classes`: presets, rules, lanes that are shared, scheduling, admission.

use std::sync::Arc;

use trunkline_trunk::Delivery;

use super::*;

/// Two classes: `a` for UDP with these lines, and `b` for the rest with these.
fn two(first: &str, second: &str) -> String {
    format!(
        "[[classes]]\nname = \"a\"\nmatch = [{{ protocol = \"udp\" }}]\n{first}\n\
         [[classes]]\nname = \"b\"\n{second}\n"
    )
}

/// Name, rules and discipline of each class.
fn shape(config: &Config) -> Vec<(&str, usize, &str)> {
    let shape = |class: &'_ ClassSettings| (class.rules.len(), class.queue.description().word);
    config
        .trunk
        .classes
        .iter()
        .map(|class| {
            let (rules, discipline) = shape(class);
            (&*class.name, rules, discipline)
        })
        .collect()
}

#[test]
fn presets_are_classes_by_one_word() {
    let interactive = ok("classes = \"interactive\"");
    assert_eq!(
        shape(&interactive),
        [("interactive", 5, "fq-codel"), ("tcp", 1, "trunk"), ("other", 0, "codel")]
    );
    let [icmp, urgent, tcp, udp, small] = interactive.trunk.classes[0].rules.as_slice() else { panic!() };
    assert_eq!(icmp.protocol, Some(Protocol::AnyIcmp));
    assert_eq!(urgent.dscp, Some([46, 44, 32, 40, 48, 56, 34, 36, 38].into_iter().collect()));
    for (rule, protocol) in [(tcp, 6), (udp, 17)] {
        assert_eq!(rule.protocol, Some(Protocol::Number(protocol)));
        assert_eq!(rule.either_ports, [22..=22, 53..=53, 123..=123]);
    }
    assert_eq!(*small, Rule { interactive: true, ..Rule::default() });
    assert_eq!(shape(&ok("classes = \"split\"")), [("tcp", 1, "trunk"), ("udp", 0, "codel")]);
    assert_eq!(shape(&ok("classes = \"single\"")), [("all", 0, "fq-codel")]);
    assert_eq!(
        error("classes = \"spilt\""),
        "/etc/trunkline/site.toml:2:1: classes: is \"spilt\"; allowed: \"interactive\", \"split\", \"single\", \
         or a list, each a table with name, match, queue, lane_group, lanes, transport, delivery, congestion_control, dscp, paths, reorder_wait, weight, guarantee, \
         ceiling, priority, max_wait, flows, retransmission_filter, replicate, header_compression"
    );
}

#[test]
fn classes_of_a_preset_have_a_lane_each_and_no_bounds() {
    let config = ok("classes = \"split\"\n[lanes]\ncongestion_control = \"bbr\"\n");
    for (index, (class, group)) in config.trunk.classes.iter().zip(&config.trunk.groups).enumerate() {
        assert_eq!(class.group, index);
        assert_eq!(class.share, Share::default());
        assert_eq!(class.admission, None);
        assert!(class.filters_retransmissions);
        let expected = LaneGroup {
            name: Arc::clone(&class.name),
            lanes: 1,
            adaptive: false,
            congestion_control: CongestionControl::Named("bbr".into()),
            dscp: 0,
            compression: Compression::On,
            transport: trunkline_trunk::Transport::Tcp,
            delivery: Delivery::Datagram,
        };
        assert_eq!(*group, expected);
    }
    assert_eq!(config.trunk.groups.len(), 2);
    assert!(config.warnings().is_empty());
}

#[test]
fn tcp_of_a_preset_has_lanes_by_its_path_where_these_learn_what_it_loses() {
    let lanes = |text: &str| {
        let groups = ok(text).trunk.groups;
        groups.iter().map(|group| (group.lanes, group.adaptive)).collect::<Vec<_>>()
    };
    assert_eq!(lanes("classes = \"interactive\"\n"), [(2, true), (4, true), (1, false)]);
    assert_eq!(lanes("classes = \"split\"\n"), [(4, true), (1, false)]);
    let named = "classes = \"split\"\n[lanes]\ncongestion_control = \"cubic\"\n";
    assert_eq!(lanes(named), [(1, false), (1, false)]);
    assert_eq!(lanes(&two("lanes = \"auto\"", "")), [(4, true), (1, false)]);
    let error = error(&two("lanes = \"many\"", ""));
    assert!(error.contains("\"many\" is no number of lanes; allowed: 1 to 32, or \"auto\""), "{error}");
}

#[test]
fn packets_are_sent_twice_over_two_lanes_of_tcp_and_no_others() {
    let first = |text: &str| {
        let trunk = ok(&two(text, "")).trunk;
        (trunk.groups[0].lanes, trunk.groups[0].adaptive, trunk.classes[0].replicates)
    };
    assert_eq!(first("replicate = true"), (2, true, true));
    assert_eq!(first("replicate = true\nlanes = 3"), (3, false, true));
    assert_eq!(
        first("replicate = true\ncongestion_control = \"cubic\""),
        (1, false, false),
        "nothing is known of the path"
    );
    assert_eq!(first("replicate = false"), (1, false, false));
    let error = |text: &str| error(&two(&format!("replicate = true\n{text}"), ""));
    let one = error("lanes = 1");
    assert!(
        one.contains(
            "replicate: is true, and the class has one lane; allowed: at least 2 lanes, or no lanes"
        ),
        "{one}"
    );
    let quic = error("transport = \"quic\"");
    assert!(quic.contains("replicate: is true, and the class's lanes are not all over TCP"), "{quic}");
}

#[test]
fn a_queue_that_nobody_asks_for_fits_what_its_class_takes() {
    for (rules, discipline) in [
        ("[{ protocol = \"tcp\" }]", "trunk"),
        ("[{ protocol = 6, port = 80 }, { protocol = \"tcp\", dscp = 8 }]", "trunk"),
        ("[{ protocol = \"udp\" }]", "codel"),
        ("[{ protocol = \"icmp\" }, { protocol = 132 }]", "codel"),
        ("[{ protocol = \"tcp\" }, { protocol = \"udp\" }]", "fq-codel"),
        ("[{ dscp = \"ef\" }]", "fq-codel"),
        ("[{ protocol = \"udp\" }, { behaviour = \"interactive\" }]", "fq-codel"),
    ] {
        let config = ok(&format!("[[classes]]\nname = \"a\"\nmatch = {rules}\n[[classes]]\nname = \"b\"\n"));
        assert_eq!(config.trunk.classes[0].queue.description().word, discipline, "{rules}");
        assert_eq!(config.trunk.classes[1].queue.description().word, "fq-codel");
    }
    let asked = ok(&two("queue = { packets = 9 }", "queue = { discipline = \"tail-drop\" }"));
    assert_eq!(shape(&asked), [("a", 1, "codel"), ("b", 0, "tail-drop")]);
    assert_eq!(asked.trunk.classes[0].queue.limits().segments, 9);
}

#[test]
fn the_last_class_and_no_other_takes_everything() {
    let early = error("[[classes]]\nname = \"a\"\n[[classes]]\nname = \"b\"\n");
    assert!(early.contains(":2:1: classes.a: takes every packet"), "{early}");
    let never = error("[[classes]]\nname = \"a\"\nmatch = [{ protocol = \"udp\" }]\n");
    assert!(never.contains("classes.a: is the last class but does not take every packet"), "{never}");
    assert!(error("classes = []\n").contains("classes: is an empty list; allowed: at least one class"));
}

#[test]
fn class_names_are_unique_and_travel_in_a_hello() {
    assert!(error("[[classes]]\nname = \"A\"\n").contains("classes.A.name: \"A\" is no name"));
    assert!(error("[[classes]]\n").contains("classes[0].name: is missing"));
    let twice = "[[classes]]\nname = \"a\"\nmatch = [{ protocol = 1 }]\n[[classes]]\nname = \"a\"\n";
    assert!(error(twice).contains("\"a\" is the name of two classes"));
}

#[test]
fn there_are_at_most_sixteen_classes() {
    let classes = |count: usize| {
        (1..count).fold(String::new(), |text, number| {
            text + &format!("[[classes]]\nname = \"c{number}\"\nmatch = [{{ dscp = {number} }}]\n")
        }) + "[[classes]]\nname = \"rest\"\n"
    };
    assert_eq!(ok(&classes(16)).trunk.classes.len(), 16);
    assert!(error(&classes(17)).contains("classes.rest: is one class too many"));
}

#[test]
fn rules_that_hold_for_no_packet_or_say_nothing_are_mistakes() {
    for (rules, expected) in [
        ("[]", "is an empty list"),
        ("[{}]", "is an empty rule"),
        ("[{ dscp = [] }]", "match[0].dscp: is an empty list"),
        ("[{ port = [] }]", "match[0].port: is an empty list"),
        ("[{ protocol = \"icmp\", port = 1 }]", "names ports of a protocol that has none"),
        ("[{ protocol = 89, source_port = 1 }]", "names ports of a protocol that has none"),
        ("[{ source = \"10.0.0.0/8\", destination = \"fd00::/8\" }]", "of different IP versions"),
        ("[{ protocol = \"tpc\" }]", "match[0].protocol: unknown protocol \"tpc\"; allowed: \"tcp\""),
        ("[{ protocol = 256 }]", "match[0].protocol: 256 is no protocol"),
        ("[{ dscp = 64 }]", "match[0].dscp: is 64; allowed: 0 to 63"),
        ("[{ dscp = \"af44\" }]", "unknown code point \"af44\""),
        ("[{ port = \"2-1\" }]", "match[0].port: 2-1 ends before it begins"),
        ("[{ port = 65536 }]", "match[0].port: is 65536; allowed: a port"),
        ("[{ source = \"10.0.0.1/8\" }]", "10.0.0.0/8 is meant"),
    ] {
        let text = format!("[[classes]]\nname = \"a\"\nmatch = {rules}\n[[classes]]\nname = \"b\"\n");
        let error = error(&text);
        assert!(error.contains(expected), "{rules}: {error}");
    }
}

#[test]
fn lengths_and_behaviour_of_flows_make_a_rule() {
    for (rule, expected) in [
        ("length = []", "match[0].length: is an empty list; allowed: 20 to 65535 (bytes)"),
        ("length = 19", "match[0].length: is 19; allowed: 20 to 65535"),
        (
            "length = \"0-19\"",
            "match[0].length: holds for no packet; allowed: 20 to 65535 (bytes), or a range",
        ),
        (
            "length = \"200-40\"",
            "match[0].length: 200-40 ends before it begins; allowed: 20 to 65535 (bytes)",
        ),
        ("length = \"small\"", "match[0].length: \"small\" is no length or range of lengths; allowed: 20 to"),
        ("length = 1.5", "match[0].length: 1.5 is no lengths; allowed: 20 to 65535 (bytes)"),
        ("behaviour = \"bulk\"", "match[0].behaviour: is \"bulk\"; allowed: \"interactive\""),
        (
            "behaviour = \"interactive\", protocol = \"icmp\"",
            "match[0]: asks how flows of a protocol behave that are not watched; allowed: behaviour with \"tcp\"",
        ),
    ] {
        let text = format!("[[classes]]\nname = \"a\"\nmatch = [{{ {rule} }}]\n[[classes]]\nname = \"b\"\n");
        let error = error(&text);
        assert!(error.contains(expected), "{rule}: {error}");
    }
    let rule = "[[classes]]\nname = \"a\"\nmatch = [{ length = \"0-100\", behaviour = \"interactive\", \
                protocol = \"udp\" }]\n[[classes]]\nname = \"b\"\n";
    assert_eq!(ok(rule).trunk.classes[0].rules[0].lengths, [0..=100]);
}

#[test]
fn classes_that_name_the_same_lane_share_it() {
    let apart = ok(&two("", ""));
    assert_eq!(apart.trunk.classes.iter().map(|class| class.group).collect::<Vec<_>>(), [0, 1]);
    let named = ok(&two(
        "lane_group = \"site\"\nweight = 30\ndscp = \"af21\"",
        "lane_group = \"site\"\nweight = 70\nlanes = 2",
    ));
    assert_eq!(
        named.trunk.classes.iter().map(|c| (c.group, c.share.weight)).collect::<Vec<_>>(),
        [(0, 30), (0, 70)]
    );
    assert_eq!(
        named.trunk.groups,
        [LaneGroup {
            name: "site".into(),
            lanes: 2,
            adaptive: false,
            congestion_control: CongestionControl::ByPath,
            dscp: 18,
            compression: Compression::On,
            transport: trunkline_trunk::Transport::Tcp,
            delivery: Delivery::Datagram,
        }]
    );
    assert!(named.warnings().is_empty());
    // A class rides on the lane of its own name, which another may name.
    let joined = ok(&two("lane_group = \"b\"", "congestion_control = \"reno\""));
    assert_eq!((joined.trunk.groups.len(), joined.trunk.groups[0].congestion_control.initial()), (1, "reno"));
    assert!(
        error(&two("lane_group = \"A b\"", ""))
            .contains("classes.a.lane_group: \"A b\" is no name; allowed: 1 to 32 of a-z 0-9 _ -")
    );
}

#[test]
fn classes_on_one_lane_agree_on_what_belongs_to_it() {
    for (key, first, second) in
        [("lanes", "2", "3"), ("congestion_control", "\"bbr\"", "\"reno\""), ("dscp", "\"ef\"", "0")]
    {
        let both = |first: &str, second: &str| {
            two(
                &format!("lane_group = \"x\"\n{key} = {first}"),
                &format!("lane_group = \"x\"\n{key} = {second}"),
            )
        };
        let shown = |value: &str| value.trim_matches('"').replace("ef", "46");
        let expected = format!(
            "classes.b.{key}: is {}, but class \"a\" on the same lanes has {}; allowed: the same in all classes of a \
             lane group, or in one of them only",
            shown(second),
            shown(first)
        );
        let error = error(&both(first, second));
        assert!(error.contains(&expected) && error.contains(":10:"), "{error}");
        assert_eq!(ok(&both(first, first)).trunk.groups.len(), 1);
    }
}

#[test]
fn there_are_at_most_32_lanes_to_a_peer_in_a_shard() {
    assert_eq!(ok(&two("lanes = 31", "lanes = 1")).trunk.groups[0].lanes, 31);
    for wrong in [0, 33] {
        let error = error(&two(&format!("lanes = {wrong}"), ""));
        assert!(error.contains(&format!("classes.a.lanes: is {wrong}; allowed: 1 to 32, or \"auto\"")));
    }
    let classes = |last: u8| {
        (1..=4).fold(String::new(), |text, number| {
            text + &format!("[[classes]]\nname = \"c{number}\"\nmatch = [{{ dscp = {number} }}]\nlanes = 7\n")
        }) + &format!("[[classes]]\nname = \"rest\"\nlanes = {last}\n")
    };
    assert_eq!(ok(&classes(4)).trunk.groups.iter().map(|group| group.lanes).sum::<u8>(), 32);
    let error = error(&classes(5));
    assert!(
        error.contains(
            "classes.rest: makes 33 lanes to each peer in each shard; allowed: at most 32 in all classes together"
        ),
        "{error}"
    );
}

#[test]
fn lanes_have_one_code_point() {
    for (text, value) in [("\"cs1\"", 8), ("63", 63), ("\"be\"", 0)] {
        assert_eq!(ok(&two(&format!("dscp = {text}"), "")).trunk.groups[0].dscp, value);
    }
    assert!(error(&two("dscp = 64", "")).contains("classes.a.dscp: is 64; allowed: 0 to 63, "));
    assert!(
        error(&two("dscp = \"x\"", ""))
            .contains("classes.a.dscp: unknown code point \"x\"; allowed: 0 to 63, ")
    );
    assert!(
        error(&two("dscp = [1]", ""))
            .contains("classes.a.dscp: a list is no code-point; allowed: 0 to 63, \"be\"")
    );
}

#[test]
fn weights_and_rates_have_limits() {
    for (line, expected) in [
        ("weight = 0", "classes.a.weight: is 0; allowed: a whole number, 1 to 1000"),
        ("weight = 1001", "classes.a.weight: is 1001; allowed: a whole number, 1 to 1000"),
        ("weight = 0.3", "classes.a.weight: is 0.3; allowed: a whole number, 1 to 1000"),
        (
            "guarantee = \"fast\"",
            "classes.a.guarantee: \"fast\" is no rate; allowed: a number with bit/s, kbit/s, Mbit/s",
        ),
        (
            "guarantee = 10",
            "classes.a.guarantee: 10 is no rate: write \"10 bit/s\"; allowed: a number with bit/s, kbit/s, Mbit/s",
        ),
        ("ceiling = \"10\"", "classes.a.ceiling: \"10\" is no rate: write \"10 bit/s\"; allowed: a number"),
        (
            "ceiling = \"10 bit/s\"",
            "classes.a.ceiling: 10 bit/s is out of range; allowed: 8 kbit/s to 1000 Gbit/s",
        ),
        (
            "ceiling = \"1001gbit\"",
            "classes.a.ceiling: 1001 Gbit/s is out of range; allowed: 8 kbit/s to 1000 Gbit/s",
        ),
        (
            "guarantee = \"11mbit\"\nceiling = \"10mbit\"",
            "classes.a: guarantee 11 Mbit/s is above ceiling 10 Mbit/s; allowed: a guarantee of at most the ceiling",
        ),
        ("max_wait = \"0.5 ms\"", "classes.a.max_wait: 500µs is out of range; allowed: 1 ms to 1 min"),
        (
            "paths = \"bonded\"\nreorder_wait = \"401 ms\"",
            "classes.a.reorder_wait: 401ms is out of range; allowed: 1 ms to 400 ms",
        ),
        (
            "reorder_wait = \"20 ms\"",
            "classes.a.reorder_wait: is given, and the class's paths are \"spread\"; allowed: paths = \"bonded\" too, or none here",
        ),
        ("max_wait = 20", "classes.a.max_wait: 20 is no time; allowed: "),
        ("priority = 1", "classes.a.priority: is 1; allowed: true or false"),
        (
            "retransmission_filter = \"no\"",
            "classes.a.retransmission_filter: is \"no\"; allowed: true or false",
        ),
        ("header_compression = 0", "classes.a.header_compression: is 0; allowed: true or false"),
    ] {
        let error = error(&two(line, ""));
        assert!(error.contains(expected), "{line}: {error}");
    }
    let bounds =
        ok(&two("weight = 1000\nguarantee = \"8kbit\"\nceiling = \"8kbit\"", "ceiling = \"1000gbit\""));
    assert_eq!(bounds.trunk.classes[0].share.guarantee, bounds.trunk.classes[0].share.ceiling);
}

#[test]
fn what_decides_among_classes_is_doubted_in_a_class_alone() {
    let mut config = ok(&two("weight = 2\nguarantee = \"1mbit\"\npriority = true\nceiling = \"2mbit\"", ""));
    let keys = |warnings: &[String]| -> Vec<String> {
        warnings.iter().map(|warning| warning.split(": ").next().unwrap().to_owned()).collect()
    };
    // Path control divides among lane groups by all three.
    assert_eq!(keys(&config.warnings()), Vec::<String>::new());
    config.trunk.edge_pacing = false;
    let warnings = config.warnings();
    assert_eq!(keys(&warnings), ["classes.a.weight", "classes.a.guarantee", "classes.a.priority"]);
    assert!(
        warnings[0].ends_with(
            "has no effect, since it decides among classes that share a lane group and this class shares none; give another \
             class lane_group = \"a\""
        ),
        "{}",
        warnings[0]
    );
    assert!(ok(&two("ceiling = \"1mbit\"", "")).warnings().is_empty());
}

#[test]
fn priority_without_a_ceiling_is_doubted() {
    let shared =
        |more: &str| ok(&two(&format!("lane_group = \"b\"\npriority = true\n{more}"), "")).warnings();
    assert_eq!(
        shared(""),
        [
            "classes.a.priority: without a ceiling it can take all of lane group \"b\" from the classes it shares it with"
        ]
    );
    assert!(shared("ceiling = \"1mbit\"").is_empty());
    let more = shared("ceiling = \"1mbit\"\nguarantee = \"1mbit\"\nweight = 2");
    assert_eq!(
        more,
        ["weight", "guarantee"].map(|key| format!(
            "classes.a.{key}: has no effect, since the class has priority over the others"
        ))
    );
}

#[test]
fn flows_beyond_the_limit_are_refused_or_go_to_a_class_that_keeps_them() {
    let admission = |first: &str, second: &str| ok(&two(first, second)).trunk.classes[0].admission;
    assert_eq!(
        admission("flows = { limit = 5 }", ""),
        Some(AdmissionSettings { limit: 5, over: Over::Refuse })
    );
    assert_eq!(
        admission("flows = { limit = 5, over = \"refuse\" }", ""),
        Some(AdmissionSettings { limit: 5, over: Over::Refuse })
    );
    // The class may refuse in its turn.
    assert_eq!(
        admission("flows = { limit = 5, over = \"b\" }", "flows = { limit = 6, over = \"refuse\" }"),
        Some(AdmissionSettings { limit: 5, over: Over::Class(ClassId(1)) })
    );
    for (first, second, expected) in [
        (
            "flows = { over = \"b\" }",
            "",
            "classes.a.flows.limit: is missing; allowed: a whole number, 1 to 1000000",
        ),
        ("flows = { limit = 0 }", "", "classes.a.flows.limit: is 0; allowed: a whole number, 1 to 1000000"),
        (
            "flows = { limit = 1, over = \"c\" }",
            "",
            "classes.a.flows.over: there is no class \"c\"; allowed: \"refuse\" or the name of another class",
        ),
        (
            "flows = { limit = 1, over = \"a\" }",
            "",
            "classes.a.flows.over: is the class itself; allowed: \"refuse\" or the name of another class",
        ),
        ("flows = { limit = 1, over = 1 }", "", "classes.a.flows.over: 1 is no name; allowed: 1 to 32 of"),
        ("flows = 5", "", "classes.a.flows: is 5; allowed: a table with limit, over"),
    ] {
        let error = error(&two(first, second));
        assert!(error.contains(expected), "{first}: {error}");
    }
    let chain = "/etc/trunkline/site.toml:5:22: classes.a.flows.over: class \"b\" passes flows on itself, to \"c\"; \
                 allowed: \"refuse\" or a class whose own flows are unlimited or refused";
    let three = two(
        "flows = { limit = 1, over = \"b\" }",
        "match = [{ dscp = 1 }]\nflows = { limit = 1, over = \"c\" }",
    );
    assert_eq!(error(&format!("{three}[[classes]]\nname = \"c\"\n")), chain);
    let circle = two("flows = { limit = 1, over = \"b\" }", "flows = { limit = 1, over = \"a\" }");
    assert_eq!(errors(&format!("private_key_file = \"k\"\n{circle}")).len(), 2);
}

#[test]
fn the_word_for_refusing_names_no_class() {
    let error = error("[[classes]]\nname = \"refuse\"\n");
    assert!(
        error.contains("classes.refuse.name: is the word for refusing in flows.over; allowed: another name"),
        "{error}"
    );
}

#[test]
fn lanes_over_quic_have_neither_compression_nor_filter_and_take_no_others() {
    let config = ok(&two("transport = \"quic\"", ""));
    let [quic, tcp] = &config.trunk.groups[..] else { panic!("{:?}", config.trunk.groups) };
    assert_eq!((quic.transport, quic.compression), (trunkline_trunk::Transport::Quic, Compression::Off));
    assert_eq!((tcp.transport, tcp.compression), (trunkline_trunk::Transport::Tcp, Compression::On));
    assert!(
        !config.trunk.classes[0].filters_retransmissions && config.trunk.classes[1].filters_retransmissions
    );
    for key in ["header_compression", "retransmission_filter"] {
        for transport in ["quic", "auto"] {
            let error = error(&two(&format!("transport = \"{transport}\"\n{key} = true"), ""));
            let reason = match key {
                "header_compression" => "compress no headers",
                _ => "may be datagrams",
            };
            assert!(error.contains(key) && error.contains(reason), "{error}");
        }
    }
    let config = ok(&two("transport = \"auto\"", ""));
    let group = &config.trunk.groups[0];
    assert_eq!((group.transport, group.compression), (trunkline_trunk::Transport::Auto, Compression::Off));
    assert!(!config.trunk.classes[0].filters_retransmissions);
    let error = error(&two("transport = \"quic\"", "lane_group = \"a\"\ntransport = \"tcp\""));
    assert!(error.contains("is tcp, but class \"a\" on the same lanes has quic"), "{error}");
}

#[test]
fn lanes_of_streams_filter_retransmissions_and_only_lanes_over_quic_deliver_in_one_way_or_another() {
    for transport in ["quic", "auto"] {
        let config = ok(&two(&format!("transport = \"{transport}\"\ndelivery = \"reliable\""), ""));
        let group = &config.trunk.groups[0];
        assert_eq!((group.delivery, group.compression), (Delivery::Reliable, Compression::Off));
        assert!(config.trunk.classes[0].filters_retransmissions);
        let text =
            format!("transport = \"{transport}\"\ndelivery = \"reliable\"\nretransmission_filter = false");
        assert!(!ok(&two(&text, "")).trunk.classes[0].filters_retransmissions);
        let config = ok(&two(&format!("transport = \"{transport}\"\ndelivery = \"datagram\""), ""));
        assert_eq!(config.trunk.groups[0].delivery, Delivery::Datagram);
        assert!(!config.trunk.classes[0].filters_retransmissions);
    }
    for transport in ["", "transport = \"tcp\"\n"] {
        let error = error(&two(&format!("{transport}delivery = \"reliable\""), ""));
        assert!(
            error.contains("delivery") && error.contains("over TCP, which delivers everything"),
            "{error}"
        );
    }
    let error = error(&two("transport = \"quic\"\ndelivery = \"sometimes\"", ""));
    assert!(error.contains("datagram") && error.contains("reliable"), "{error}");
    let (first, second) =
        ("transport = \"quic\"\ndelivery = \"reliable\"", "lane_group = \"a\"\ndelivery = \"datagram\"");
    let error = super::error(&two(first, second));
    assert!(error.contains("is datagram, but class \"a\" on the same lanes has reliable"), "{error}");
}
