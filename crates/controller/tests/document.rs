//! What a document may say, and what is said of one that may not.

use trunkline_controller::Document;

const SITES: &str = r#"
[sites.a.uplinks.dsl]
up = "10 Mbit/s"
down = "100 Mbit/s"
[sites.b.uplinks.fibre]
up = "100 Mbit/s"
down = "100 Mbit/s"
"#;

fn mistakes(text: &str) -> Vec<String> {
    let error = Document::parse("n.toml", text).map(|_| ()).expect_err("mistakes");
    error.0.iter().map(ToString::to_string).collect()
}

#[test]
fn sites_are_those_of_the_file() {
    let document = Document::parse("n.toml", SITES).expect("a document");
    assert_eq!(document.sites(), ["a", "b"]);
}

#[test]
fn each_mistake_is_said_with_its_place_and_what_is_allowed() {
    let trunk = |keys: &str| format!("{SITES}[trunks.t]\n{keys}");
    let sound = "sites = [\"a\", \"b\"]\nguarantee = \"1 Mbit/s\"\n";
    for (text, parts) in [
        (
            trunk("sites = [\"a\", \"c\"]\nguarantee = \"1 Mbit/s\""),
            &["trunks.t.sites[1]", "there is no site \"c\"", "[sites]"][..],
        ),
        (trunk("sites = [\"a\", \"a\"]\nguarantee = \"1 Mbit/s\""), &["trunks.t.sites", "are the same site"]),
        (trunk("sites = [\"a\"]\nguarantee = \"1 Mbit/s\""), &["trunks.t.sites"]),
        (trunk("sites = [\"a\", \"b\"]\nguarantee = \"1 Mbit\""), &["trunks.t.guarantee", "Mbit/s"]),
        (trunk("sites = [\"a\", \"b\"]"), &["trunks.t", "guarantee"]),
        (trunk(&format!("{sound}setup = 8")), &["trunks.t.setup", "7"]),
        (
            trunk(&format!("{sound}setup = 3\nhold = 5")),
            &["trunks.t.hold", "after setup, 3", "no more than setup"],
        ),
        (trunk(&format!("{sound}lanes = 0")), &["trunks.t.lanes", "1"]),
        (
            trunk(&format!("{sound}avoid = [\"a/dls\"]")),
            &["trunks.t.avoid[0]", "there is no link \"a/dls\"", "a/dsl"],
        ),
        (trunk(&format!("{sound}garantee = \"1 Mbit/s\"")), &["trunks.t.garantee", "guarantee"]),
        (format!("{SITES}[sites.c]\nuplinks = {{}}"), &["sites.c.uplinks", "at least one uplink"]),
        (
            format!("{SITES}[sites.\"c/d\".uplinks.x]\nup = \"1 Mbit/s\"\ndown = \"1 Mbit/s\""),
            &["\"c/d\" is no name", "A-Z"],
        ),
        (
            format!("{SITES}[links.l]\nends = [\"core\", \"core\"]\nrate = \"1 Mbit/s\""),
            &["links.l.ends", "the same node"],
        ),
        (
            format!("{SITES}[links.l]\nends = [\"core\", \"a\"]\nrate = \"1 Mbit/s\""),
            &["links.l.ends[1]", "\"a\" is a site"],
        ),
        (
            format!("{SITES}[links.l]\nends = [\"core\", \"x\"]\nrate = \"1 Mbit/s\"\ncost = 0"),
            &["links.l.cost", "1"],
        ),
        (
            format!("{SITES}[links.l]\nends = [\"core\", \"x\"]\nrate = \"1 Mbit/s\"\nreservable = 1.5"),
            &["links.l.reservable"],
        ),
        (
            trunk("sites = [\"a\", \"b\"]\nguarantee = \"11000 Gbit/s\""),
            &["trunks.t.guarantee", "is no rate"],
        ),
        (trunk(&format!("{sound}back = \"11000 Gbit/s\"")), &["trunks.t.back", "is no rate"]),
        ("sites = 3".to_owned(), &["sites"]),
        (String::new(), &["sites"]),
    ] {
        let all = mistakes(&text);
        let said = all.join("\n");
        assert!(parts.iter().all(|part| said.contains(part)), "{text}\n{said}\nlacks one of {parts:?}");
        assert!(said.starts_with("n.toml"), "{said}");
    }
}

#[test]
fn all_mistakes_are_said_at_once() {
    let text = format!("{SITES}[trunks.t]\nsites = [\"c\", \"d\"]\nguarantee = \"1 Mbit/s\"\nhold = 7\n");
    assert_eq!(mistakes(&text).len(), 3);
}
