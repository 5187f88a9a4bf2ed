//! The page on many sites: its network gives the plan that it shows.

use trunkline_controller::{Document, plan};

const PAGE: &str = include_str!("../../../docs/many-sites.md");

/// The blocks of this kind, in order.
fn blocks(kind: &str) -> Vec<&str> {
    let open = format!("```{kind}\n");
    PAGE.split(open.as_str()).skip(1).filter_map(|rest| rest.split("\n```").next()).collect()
}

#[test]
fn the_network_of_the_page_gives_its_plan() {
    let (network, shown) = (blocks("toml")[0], blocks("text")[0]);
    let document = Document::parse("network.toml", network).expect("a document");
    let text = plan(&document, None).to_string();
    assert_eq!(text.trim_end(), shown.trim_end(), "\n{text}");
}
