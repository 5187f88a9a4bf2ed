//! An experiment's trunk that says nothing is the trunk of a site's file that says nothing.

use std::path::Path;

use trunkline_gateway::config::{Config, Encryption};
use trunkline_lab::document::Document;

/// A site's file with what it cannot do without.
const SITE: &str = "private_key_file = \"a.key\"\n";

/// An experiment whose trunk has only its gateways.
const EXPERIMENT: &str = r#"
    id = "default"
    title = "A trunk that says nothing"
    duration = "1 s"
    nodes = { a = "host", g = "gateway", h = "gateway", b = "host" }
    [links]
    near = { ends = ["a", "g"], rate = "1 Mbit/s" }
    core = { like = "near", ends = ["g", "h"] }
    far = { like = "near", ends = ["h", "b"] }
    [traffic]
    x = { kind = "bulk", from = "a", to = "b" }
    [trunks]
    t = { gateways = ["g", "h"] }
"#;

#[test]
fn an_empty_trunk_of_an_experiment_is_an_empty_sites() {
    let site = Config::parse(SITE, Path::new("/etc/trunkline/site.toml"))
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let planned = Document::parse("default.toml", EXPERIMENT).and_then(|document| document.plan());
    let planned = planned.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let trunk = &planned[0].scenario.trunks[0];
    assert_eq!(trunk.plan, site.trunk);
    assert_eq!((trunk.sealed, site.encryption), (true, Encryption::Tls));
}
