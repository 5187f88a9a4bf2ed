use std::time::Duration;

use super::*;
use crate::commands::demo::measurement::{EdgeBacklog, Request, RequestState, Summary};

fn outcome(edge: Option<EdgeBacklog>) -> Outcome {
    let sample = |k: u32| Sample {
        at_s: f64::from(k) / 2.0 - 3.0,
        tcp_mbit: 4.0,
        udp_mbit: 5.0,
        request: RequestState::Answered(80.0),
        core_ms: 50.0,
        edge_ms: edge,
        ..Sample::default()
    };
    let request = |k: u32| Request {
        at_s: f64::from(k),
        took: Duration::from_millis(100 * u64::from(k)),
        answered: !k.is_multiple_of(3),
    };
    Outcome {
        samples: (0..50).map(sample).collect(),
        requests: (0..25).map(request).collect(),
        summary: Summary { tcp_mbit: 4.0, ..Summary::default() },
    }
}

fn page() -> String {
    let arguments = crate::cli::DemoArguments {
        seconds: 25,
        rate: trunkline_units::Rate::from_mbit(10.0),
        html: None,
        json: false,
    };
    let origin = Origin {
        command: "trunkline demo --html 'a<b>&\"c\".html'".to_owned(),
        kernel: "6.1 x86_64".to_owned(),
        version: "0.0.0",
    };
    Page {
        parameters: &Parameters::new(&arguments).expect("parameters"),
        before: &outcome(None),
        after: &outcome(Some(EdgeBacklog { tcp: 10.0, udp: 100.0 })),
        origin: &origin,
    }
    .render()
}

/// The tags of a page, without those in the style: name, and whether it opens, closes or does both.
fn tags(page: &str) -> Vec<&str> {
    let (head, rest) = page.split_once("<style>").expect("a style");
    let (_, body) = rest.split_once("</style>").expect("its end");
    [head, body]
        .into_iter()
        .flat_map(|part| part.split('<').skip(1))
        .map(|tag| {
            let (inside, after) = tag.split_once('>').expect("a tag ends");
            assert!(!after.contains('>'), "a bare > after {inside:?}");
            inside
        })
        .collect()
}

#[test]
fn every_element_is_closed_in_order_and_every_attribute_quoted() {
    let page = page();
    let mut open = Vec::new();
    for tag in tags(&page) {
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else if !tag.starts_with('!') && !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().expect("a name"));
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn entities_are_escaped() {
    let page = page();
    assert!(page.contains("a&lt;b&gt;&amp;&quot;c&quot;.html"));
    for (at, _) in page.match_indices('&') {
        assert!(["&amp;", "&lt;", "&gt;", "&quot;"].iter().any(|entity| page[at..].starts_with(entity)));
    }
}

#[test]
fn the_page_loads_nothing() {
    let page = page();
    for reference in [
        "http:", "https:", "//", "url(", "@import", "src=", "href=", "<script", "<link", "<iframe", "<object",
    ] {
        assert!(!page.contains(reference), "{reference}");
    }
}

#[test]
fn no_number_is_missing() {
    let page = page();
    assert_eq!(page.matches("<svg").count(), 6);
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
}
