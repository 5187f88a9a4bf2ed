//! Plans: what is carried, what a change moves, and what is said of what is refused.

use trunkline_controller::{Both, Change, Document, Plan, PlanError, Resource, plan};

/// Sites a and b with two uplinks each, to two nodes, and c with one.
const NETWORK: &str = r#"
[sites.a.uplinks]
dsl = { up = "10 Mbit/s", down = "50 Mbit/s", to = "east", reservable = 1 }
lte = { up = "20 Mbit/s", down = "50 Mbit/s", to = "west", reservable = 1, cost = 5 }
[sites.b.uplinks]
fibre = { up = "100 Mbit/s", down = "100 Mbit/s", to = "east", reservable = 1 }
cable = { up = "100 Mbit/s", down = "100 Mbit/s", to = "west", reservable = 1 }
[sites.c.uplinks]
fibre = { up = "100 Mbit/s", down = "100 Mbit/s", to = "east", reservable = 1 }

[links.between]
ends = ["east", "west"]
rate = "1 Gbit/s"
"#;

fn document(trunks: &str) -> Document {
    Document::parse("n.toml", &format!("{NETWORK}\n{trunks}")).expect("a document")
}

fn trunk(name: &str, sites: [&str; 2], keys: &str) -> String {
    format!("[trunks.{name}]\nsites = [\"{}\", \"{}\"]\n{keys}\n", sites[0], sites[1])
}

fn planned(trunks: &str, before: Option<&Plan>) -> Plan {
    plan(&document(trunks), before)
}

fn changes(plan: &Plan) -> Vec<(&str, Change)> {
    plan.trunks.iter().map(|trunk| (trunk.name.as_str(), trunk.change)).collect()
}

#[test]
fn ways_are_named_by_their_links_from_the_first_site_on() {
    let plan = planned(&trunk("t", ["b", "a"], "guarantee = \"8 Mbit/s\"\nback = \"4 Mbit/s\""), None);
    assert_eq!(plan.trunks[0].way, ["b/fibre", "a/dsl"]);
    let reserved = |name: &str| plan.links.iter().find(|link| link.name == name).map(|link| link.reserved);
    // Forth along an uplink is from the site.
    assert_eq!(reserved("b/fibre"), Some(Both { forth: 8_000_000, back: 4_000_000 }));
    assert_eq!(reserved("a/dsl"), Some(Both { forth: 4_000_000, back: 8_000_000 }));
    assert_eq!(reserved("between"), Some(Both { forth: 0, back: 0 }));
}

#[test]
fn a_refusal_names_the_link_its_direction_and_what_is_missing() {
    let trunks = trunk("t", ["b", "a"], "guarantee = \"5 Mbit/s\"\nback = \"30 Mbit/s\"");
    let plan = planned(&trunks, None);
    let refused = plan.trunks[0].refused.as_ref().expect("30 of 20 Mbit/s");
    assert_eq!(refused.fits, Some(Both { forth: 3_333_333, back: 20_000_000 }));
    let [short] = &refused.short[..] else { panic!("{refused:?}") };
    assert_eq!((short.link.as_str(), short.from.as_str(), short.to.as_str()), ("a/lte", "a", "west"));
    assert_eq!((short.resource, short.left, short.missing), (Resource::Rate, 20_000_000, 10_000_000));
    let text = plan.to_string();
    assert!(text.contains("a/lte, from a to west: 20 Mbit/s left, 10 Mbit/s missing"), "{text}");
    assert!(text.contains("0 trunks carried, 1 refused"), "{text}");
    let both =
        planned(&trunk("t", ["b", "a"], "guarantee = \"30 Mbit/s\"\navoid = [\"a/dsl\"]"), None).to_string();
    assert!(both.contains("a/lte, from a to west: 20 Mbit/s left, 10 Mbit/s missing\n\n"), "{both}");
    let both = planned(&trunk("t", ["b", "c"], "guarantee = \"101 Mbit/s\""), None).to_string();
    assert!(
        both.contains("\n  b/fibre, both ways: 100 Mbit/s left, 1 Mbit/s missing\n  c/fibre, both ways: "),
        "{both}"
    );
}

#[test]
fn a_plan_is_read_as_it_was_written() {
    let trunks = trunk("one", ["a", "b"], "guarantee = \"5 Mbit/s\"\nbackup = true")
        + &trunk("two", ["a", "b"], "guarantee = \"50 Mbit/s\"");
    let plan = planned(&trunks, None);
    assert_eq!(Plan::parse(&plan.to_json()).expect("a plan"), plan);
    assert!(matches!(Plan::parse("{\"version\": 2}"), Err(PlanError::Version(2))));
    for text in ["", "{}", "[1]", "{\"version\": 1}", "{\"version\": 1, \"trunks\": [{}], \"links\": []}"] {
        assert!(matches!(Plan::parse(text), Err(PlanError::Form(_))), "{text}");
    }
}

#[test]
fn what_a_plan_carries_stays_where_it_is() {
    let first = trunk("first", ["a", "b"], "guarantee = \"8 Mbit/s\"");
    let before = planned(&first, None);
    assert_eq!(before.trunks[0].way, ["a/dsl", "b/fibre"]);
    // Before it in the file, on the same cheap way: it takes the other one.
    let second = trunk("second", ["a", "b"], "guarantee = \"8 Mbit/s\"");
    let after = planned(&format!("{second}{first}"), Some(&before));
    assert_eq!(changes(&after), [("second", Change::New), ("first", Change::Kept)]);
    assert_eq!(after.trunks[1].way, before.trunks[0].way);
    assert_eq!(after.trunks[0].way[0], "a/lte");
    // Without the plan the order of the file decides.
    assert_eq!(planned(&format!("{second}{first}"), None).trunks[0].way[0], "a/dsl");
    // One that goes leaves its room, and nobody moves into it.
    let last = planned(&second, Some(&after));
    assert_eq!(
        (changes(&last), last.removed.as_slice()),
        (vec![("second", Change::Kept)], &["first".to_owned()][..])
    );
}

#[test]
fn who_gives_way_is_lost_or_moved() {
    let weak = trunk("weak", ["a", "b"], "guarantee = \"8 Mbit/s\"\nsetup = 6");
    let before = planned(&weak, None);
    let strong = |rate: u32| {
        trunk("strong", ["a", "b"], &format!("guarantee = \"{rate} Mbit/s\"\nsetup = 0\nbackup = true"))
    };
    let after = planned(&format!("{weak}{}", strong(10)), Some(&before));
    assert_eq!(changes(&after), [("weak", Change::Moved), ("strong", Change::New)]);
    let after = planned(
        &format!("{weak}{}", strong(10).replace("backup = true", "avoid = [\"a/lte\"]")),
        Some(&before),
    );
    assert_eq!(changes(&after), [("weak", Change::Moved), ("strong", Change::New)]);
    let avoiding = weak.clone() + "avoid = [\"a/lte\"]\n";
    let after = planned(&format!("{avoiding}{}", strong(10)), Some(&before));
    assert_eq!(changes(&after), [("weak", Change::Lost), ("strong", Change::New)]);
    let refused = after.trunks[0].refused.as_ref().expect("it gave way");
    assert_eq!(refused.gave_way_to.as_deref(), Some("strong"));
}

#[test]
fn a_plan_of_another_network_is_of_use_where_it_fits() {
    let trunks = trunk("t", ["a", "b"], "guarantee = \"5 Mbit/s\"");
    let before = planned(&trunks, None);
    let renamed = format!("{NETWORK}\n{trunks}").replace("dsl = ", "adsl = ");
    let after = plan(&Document::parse("n.toml", &renamed).expect("a document"), Some(&before));
    assert_eq!((changes(&after), after.trunks[0].way[0].as_str()), (vec![("t", Change::Moved)], "a/adsl"));
    // Of other sites: the way joins others.
    let after = planned(&trunk("t", ["c", "b"], "guarantee = \"5 Mbit/s\""), Some(&before));
    assert_eq!(changes(&after), [("t", Change::Moved)]);
}

#[test]
fn a_trunk_whose_lanes_have_no_windows_of_five_packets_is_refused() {
    let slow = |lanes: &str| trunk("t", ["a", "c"], &format!("guarantee = \"3 Mbit/s\"\n{lanes}"));
    let with = |lanes: &str| {
        let text = format!("round_trip = \"30 ms\"\n{NETWORK}\n{}", slow(lanes));
        plan(&Document::parse("n.toml", &text).expect("a document"), None)
    };
    // 3 Mbit/s for 30 ms are seven and a half packets.
    assert_eq!(changes(&with("")), [("t", Change::New)]);
    let refused = with("lanes = 2").trunks[0].refused.clone().expect("two lanes");
    assert_eq!(
        (refused.short[0].resource, refused.short[0].left, refused.short[0].missing),
        (Resource::Window, 3_000_000, 1_000_000)
    );
    assert!(with("lanes = 2").to_string().contains("both ways: windows of five packets need 4 Mbit/s"));
    let unknown = format!("{NETWORK}\n{}", slow("lanes = 2"));
    let unknown = plan(&Document::parse("n.toml", &unknown).expect("a document"), None);
    assert_eq!(changes(&unknown), [("t", Change::New)], "no round trip is known");
}

/// Whatever a plan says of ways: it is used where it is one, and no link is promised twice.
#[test]
fn a_plan_that_lies_promises_nothing_twice() {
    let trunks: String =
        (0..4).map(|n| trunk(&format!("t{n}"), ["a", "b"], "guarantee = \"8 Mbit/s\"")).collect();
    let honest = planned(&trunks, None);
    assert_eq!(honest.refused().count(), 1, "{honest}");
    for way in [
        &["a/dsl", "b/fibre"][..],
        &["a/dsl", "a/dsl", "a/dsl", "b/fibre"],
        &["b/fibre", "a/dsl"],
        &["a/dsl", "between", "between", "b/fibre"],
        &["a/dsl", "nowhere"],
        &["a/dsl"],
        &[],
    ] {
        let mut lie = honest.clone();
        for trunk in &mut lie.trunks {
            trunk.way = way.iter().map(|link| (*link).to_owned()).collect();
            trunk.refused = None;
            trunk.guarantee = Both { forth: u64::MAX, back: 0 };
        }
        let plan = planned(&trunks, Some(&lie));
        assert_eq!(plan.refused().count(), 1, "{way:?}: {plan}");
        for link in &plan.links {
            let Both { forth, back } = link.reserved;
            assert!(forth <= link.reservable.forth && back <= link.reservable.back, "{way:?}: {plan}");
        }
    }
}
