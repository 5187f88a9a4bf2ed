//! `[[peers.paths]]` and the `paths` of classes.

use super::*;

/// A peer with an endpoint and these paths.
fn with(paths: &str) -> String {
    format!("{}{paths}", peer("b", KEY_B, "[\"10.2.0.0/16\"]"))
}

const TWO: &str = "[[peers.paths]]\nname = \"dsl\"\ninterface = \"eth0\"\n\
                   [[peers.paths]]\nname = \"lte\"\ninterface = \"wwan0\"\naddress = \"192.0.2.7\"\nfwmark = 7\n\
                   endpoint = \"192.0.2.1:4601\"\ncost = 2\nquota = { bytes = \"20 GB\", from = 5 }\n";

#[test]
fn a_peer_without_paths_has_one_without_a_name() {
    let config = ok(&with(""));
    let peer = &config.peers[0];
    assert!(peer.paths.is_empty());
    assert_eq!((peer.endpoint_on(0), peer.is_dialled()), (peer.endpoint.as_ref(), true));
    assert_eq!(config.trunk.classes[0].paths, PathPolicy::Spread);
}

#[test]
fn each_path_has_an_endpoint_what_it_is_bound_to_and_what_it_costs() {
    let config = ok(&with(TWO));
    let [dsl, lte] = &config.peers[0].paths[..] else { panic!("{config:?}") };
    let via = |interface: &str| Via { interface: Some(interface.to_owned()), ..Via::default() };
    assert_eq!((&*dsl.name, &dsl.via, dsl.cost, dsl.quota), ("dsl", &via("eth0"), 0, None));
    let bound = Via { address: Some("192.0.2.7".parse().unwrap()), fwmark: Some(7), ..via("wwan0") };
    assert_eq!((&*lte.name, &lte.via, lte.cost), ("lte", &bound, 2));
    let period = Period { each: Each::Month, from: 5 };
    assert_eq!(lte.quota, Some(QuotaConfig { bytes: 20_000_000_000, period, then: OverQuota::LastResort }));
    assert_eq!(bound.to_string(), "wwan0, 192.0.2.7, mark 7");
    let endpoints = [0, 1].map(|path| config.peers[0].endpoint_on(path).map(ToString::to_string));
    assert_eq!(endpoints, [Some("b:4600".to_owned()), Some("192.0.2.1:4601".to_owned())]);
}

#[test]
fn a_site_that_is_dialled_may_name_the_paths_and_nothing_else() {
    let head = format!(
        "listen = [\"0.0.0.0:4600\"]\n[[peers]]\nname = \"b\"\npublic_key = \"{KEY_B}\"\nroutes = [\"10.2.0.0/16\"]\n"
    );
    let names = "[[peers.paths]]\nname = \"a\"\n[[peers.paths]]\nname = \"b\"\ncost = 1\n";
    let config = ok(&format!("{head}{names}"));
    assert!(config.peers[0].paths[1].cost == 1 && !config.peers[0].is_dialled());
    let bound = error(&format!("{head}[[peers.paths]]\nname = \"a\"\ninterface = \"eth0\"\n"));
    assert!(bound.contains("no endpoint to dial"), "{bound}");
    let counted = error(&format!("{head}[[peers.paths]]\nname = \"a\"\nquota = {{ bytes = \"1 GB\" }}\n"));
    assert!(counted.contains("paths.a.quota") && counted.contains("the site that dials"), "{counted}");
    let dialled = ok(&format!("{head}[[peers.paths]]\nname = \"a\"\nendpoint = \"c:1\"\n"));
    assert!(dialled.peers[0].is_dialled());
}

#[test]
fn a_guarantee_has_an_effect_where_there_are_several_paths() {
    let class = "[[classes]]\nname = \"a\"\nguarantee = \"4mbit\"\n";
    let beside = "[[classes]]\nname = \"a\"\npriority = true\nceiling = \"9mbit\"\nguarantee = \"4mbit\"\nmatch = [{ dscp = \"ef\" }]\n\
                  [[classes]]\nname = \"b\"\nlane_group = \"a\"\n";
    for classes in [class, beside] {
        let warns = |paths: &str| ok(&format!("{}{classes}", with(paths))).warnings();
        assert!(warns("").iter().any(|line| line.contains("a.guarantee: has no effect")), "{:?}", warns(""));
        assert!(!warns(TWO).iter().any(|line| line.contains("guarantee")), "{:?}", warns(TWO));
    }
}

#[test]
fn mistakes_in_paths_are_told_with_their_place() {
    let path = |keys: &str| format!("[[peers.paths]]\n{keys}\n");
    let dsl = path("name = \"dsl\"");
    for (text, place, problem) in [
        (path("name = \"spread\""), "peers.b.paths.spread.name", "word for the paths of classes"),
        (path("name = \"A b\""), ".name", "1 to 32 of a-z 0-9 _ -"),
        (path("name = \"a\"\ncost = 7"), "paths.a.cost", "0 to 6"),
        (path("name = \"a\"\ncost = -1"), "paths.a.cost", "0 to 6"),
        (path("name = \"a\"\nquota = \"1 GB\""), "paths.a.quota", "table"),
        (path("name = \"a\"\nquota = { }"), "paths.a.quota", "bytes"),
        (path("name = \"a\"\nquota = { bytes = \"0 B\" }"), "quota.bytes", "more than 0"),
        (path("name = \"a\"\nquota = { bytes = \"1 GB\", each = \"year\" }"), "quota.each", "month"),
        (path("name = \"a\"\nquota = { bytes = \"1 GB\", from = 29 }"), "quota.from", "1 to 28"),
        (
            path("name = \"a\"\nquota = { bytes = \"1 GB\", each = \"week\", from = 8 }"),
            "quota.from",
            "1 (Monday) to 7",
        ),
        (
            path("name = \"a\"\nquota = { bytes = \"1 GB\", each = \"day\", from = 2 }"),
            "quota.from",
            "no day but 1",
        ),
        (path("name = \"a\"\nquota = { bytes = \"1 GB\", then = \"stop\" }"), "quota.then", "last-resort"),
        (path("name = \"a\"\nfwmark = 0"), "fwmark", "1"),
        (path("name = \"a\"\naddress = \"0.0.0.0\""), "address", "cannot be the source"),
        (path("name = \"a\"\naddress = \"fe80::1\""), "address", "belongs to an interface"),
        (path("name = \"a\"\nbackup = true"), "backup", "unknown key"),
        (format!("{dsl}{}", path("name = \"lte\"")), "paths.lte", "leads the same way as path dsl"),
        (format!("{dsl}{}", path("name = \"dsl\"\ninterface = \"eth1\"")), "name", "the name of two paths"),
        (
            path("name = \"a\"\nendpoint = \"[2001:db8::1]:1\"\naddress = \"192.0.2.7\""),
            "paths.a.address",
            "is of IPv4 and the endpoint of IPv6",
        ),
    ] {
        let mistake = error(&with(&text));
        assert!(mistake.contains(place) && mistake.contains(problem), "{mistake}\n{text}");
    }
    let many: String = (0..5).map(|n| path(&format!("name = \"p{n}\"\ninterface = \"eth{n}\""))).collect();
    let mistake = error(&with(&many));
    assert!(mistake.contains("one path too many") && mistake.contains("at most 4"), "{mistake}");
    let lanes = format!("[[classes]]\nname = \"all\"\nlanes = 17\n{}", with(TWO));
    let mistake = error(&lanes);
    assert!(mistake.contains("make 34 lanes") && mistake.contains("at most 32"), "{mistake}");
}

#[test]
fn classes_choose_paths_by_a_word_or_by_names() {
    let class = |paths: &str| format!("[[classes]]\nname = \"all\"\npaths = {paths}\n{}", with(TWO));
    let policy = |paths: &str| ok(&class(paths)).trunk.classes[0].paths.clone();
    let named = |names: &[&str]| PathPolicy::Named(names.iter().map(|name| (*name).into()).collect());
    for (text, expected) in [
        ("\"spread\"", PathPolicy::Spread),
        ("\"bonded\"", PathPolicy::Bonded),
        ("\"duplicate\"", PathPolicy::Duplicate),
        ("\"lowest-delay\"", PathPolicy::LowestDelay),
        ("\"most-capacity\"", PathPolicy::MostCapacity),
        ("\"lte\"", named(&["lte"])),
        ("[\"lte\", \"dsl\"]", named(&["lte", "dsl"])),
    ] {
        assert_eq!(policy(text), expected, "{text}");
        assert!(matches!(expected, PathPolicy::Named(_)) || text == format!("\"{expected}\""), "{expected}");
    }
    for (text, problem) in [
        ("[]", "is an empty list"),
        ("[\"dsl\", \"spread\"]", "\"spread\" stands alone"),
        ("[\"dsl\", \"dsl\"]", "\"dsl\" is there twice"),
        ("\"bonded\"\ntransport = \"quic\"", "is \"bonded\", and the class's lanes are not all over TCP"),
        (
            "\"duplicate\"\ntransport = \"auto\"",
            "is \"duplicate\", and the class's lanes are not all over TCP",
        ),
        ("\"bonded\"\nreplicate = true", "is true, and the class's paths are \"bonded\""),
        ("\"fibre\"", "a path \"fibre\" that no peer has; allowed: dsl, lte"),
    ] {
        let mistake = error(&class(text));
        assert!(mistake.contains(problem) && mistake.contains("paths"), "{mistake}");
    }
}

#[test]
fn classes_that_say_nothing_of_paths_take_those_of_all_lanes() {
    use PathPolicy::{Bonded, LowestDelay, Spread};
    let policies = |text: &str| -> Vec<PathPolicy> {
        ok(&format!("{text}\n{}", with(TWO))).trunk.classes.iter().map(|class| class.paths.clone()).collect()
    };
    let bonded = "[lanes]\npaths = \"bonded\"";
    // The first of the default ones sends its packets twice.
    assert_eq!(policies(bonded), [LowestDelay, Bonded, Bonded]);
    let classes = "[[classes]]\nname = \"a\"\npaths = \"spread\"\nmatch = [{ protocol = \"udp\" }]\n[[classes]]\nname = \"b\"";
    assert_eq!(policies(&format!("{bonded}\n{classes}")), [Spread, Bonded]);
    let mistake = error(&format!("[lanes]\npaths = [\"bonded\", \"dsl\"]\n{}", with(TWO)));
    assert!(mistake.contains("lanes.paths") && mistake.contains("\"bonded\" stands alone"), "{mistake}");
}
