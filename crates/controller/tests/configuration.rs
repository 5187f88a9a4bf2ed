//! What gateways get of a plan.

use std::collections::BTreeMap;

use trunkline_controller::{Document, configurations, plan};

const NETWORK: &str = r#"
[sites.a]
networks = ["10.1.0.0/16"]
[sites.a.uplinks]
dsl = { up = "10 Mbit/s", down = "50 Mbit/s", interface = "ppp0" }
lte = { up = "20 Mbit/s", down = "50 Mbit/s", endpoint = "lte.a.example:4600", cost = 5 }
[sites.b]
networks = ["10.2.0.0/16", "2001:db8:2::/48"]
[sites.b.uplinks]
fibre = { up = "100 Mbit/s", down = "100 Mbit/s", endpoint = "b.example:4600" }
[sites.c.uplinks]
fibre = { up = "100 Mbit/s", down = "100 Mbit/s" }
"#;

fn of(trunks: &str, keys: &[&str]) -> trunkline_controller::Configurations {
    let document = Document::parse("n.toml", &format!("{NETWORK}\n{trunks}")).expect("a document");
    let keys: BTreeMap<String, String> =
        keys.iter().map(|site| ((*site).to_owned(), format!("key of {site}"))).collect();
    configurations(&document, &plan(&document, None), &keys)
}

fn trunk(name: &str, sites: [&str; 2], keys: &str) -> String {
    format!("[trunks.{name}]\nsites = [\"{}\", \"{}\"]\n{keys}\n", sites[0], sites[1])
}

#[test]
fn each_site_gets_the_other_with_the_rate_towards_it() {
    let all = of(&trunk("t", ["a", "b"], "guarantee = \"8 Mbit/s\"\nback = \"4 Mbit/s\""), &["a", "b"]);
    assert!(all.problems.is_empty(), "{:?}", all.problems);
    let (at_a, at_b) = (&all.peers["a"][0], &all.peers["b"][0]);
    assert_eq!((at_a.name.as_str(), at_a.public_key.as_str(), at_a.reserved), ("b", "key of b", 8_000_000));
    assert_eq!((at_b.name.as_str(), at_b.reserved), ("a", 4_000_000));
    // The way begins at an uplink without an endpoint: a dials over its interface, and b is dialled.
    assert_eq!((at_a.endpoint.as_deref(), at_a.interface.as_deref()), (Some("b.example:4600"), Some("ppp0")));
    assert_eq!((at_a.uplink.as_deref(), &at_b.endpoint, &at_b.interface), (Some("dsl"), &None, &None));
    assert_eq!(at_a.routes.len(), 2);
    assert!(all.peers["c"].is_empty());
}

#[test]
fn the_uplink_of_the_plan_is_the_one_that_is_dialled() {
    let all = of(&trunk("t", ["a", "b"], "guarantee = \"15 Mbit/s\""), &["a", "b"]);
    let (at_a, at_b) = (&all.peers["a"][0], &all.peers["b"][0]);
    assert_eq!(at_b.endpoint.as_deref(), Some("lte.a.example:4600"));
    assert_eq!((at_a.uplink.as_deref(), &at_a.interface), (Some("lte"), &None));
}

#[test]
fn a_trunk_that_is_refused_joins_its_sites_without_a_rate() {
    let all = of(&trunk("t", ["a", "b"], "guarantee = \"80 Mbit/s\""), &["a", "b"]);
    let (at_a, at_b) = (&all.peers["a"][0], &all.peers["b"][0]);
    assert_eq!((at_a.reserved, at_b.reserved), (0, 0));
    assert_eq!(at_b.endpoint.as_deref(), Some("lte.a.example:4600"), "on any uplink");
}

#[test]
fn what_keeps_a_trunk_from_coming_up_is_told() {
    let trunks = [
        trunk("t", ["a", "b"], "guarantee = \"1 Mbit/s\""),
        trunk("again", ["b", "a"], "guarantee = \"1 Mbit/s\""),
        trunk("u", ["a", "c"], "guarantee = \"1 Mbit/s\""),
    ];
    let all = of(&trunks.concat(), &["a"]);
    assert_eq!(all.problems["t"], "b has not enrolled");
    assert_eq!(all.problems["again"], "a and b have a trunk already; gateways have one");
    assert_eq!(all.problems["u"], "c has not enrolled");
    assert!(all.peers["a"].is_empty(), "a peer is one with a key");
    assert_eq!(all.peers["b"].len(), 1);
    let all = of(&trunks[2], &["a", "c"]);
    assert_eq!(all.problems["u"], "neither site has an endpoint on the trunk's way");
}

#[test]
fn networks_endpoints_and_interfaces_that_are_none_are_told_with_their_place() {
    for (was, is, told) in [
        ("\"10.1.0.0/16\"", "\"10.1.0.1/16\"", "sites.a.networks[0]: \"10.1.0.1/16\" is no network"),
        ("\"10.1.0.0/16\"", "\"x\"", "sites.a.networks[0]: \"x\" is no network"),
        ("\"10.1.0.0/16\"", "\"10.2.0.0/16\"", "sites.b.networks[0]: 10.2.0.0/16 is behind site a already"),
        (
            "\"b.example:4600\"",
            "\"b.example\"",
            "sites.b.uplinks.fibre.endpoint: \"b.example\" is no endpoint",
        ),
        ("\"b.example:4600\"", "\"b:0\"", "sites.b.uplinks.fibre.endpoint: \"b:0\" is no endpoint"),
        ("\"ppp0\"", "\"a/b\"", "sites.a.uplinks.dsl.interface: \"a/b\" is no interface"),
    ] {
        let said = Document::parse("n.toml", &NETWORK.replace(was, is)).expect_err(is).to_string();
        assert!(said.contains(told) && said.contains("allowed: "), "{said}");
    }
}
