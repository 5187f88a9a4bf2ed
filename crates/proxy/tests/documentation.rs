//! docs/proxy.md says of keys and metrics what the code does.

use std::collections::BTreeSet;

use trunkline_proxy::write_metrics;
use trunkline_schema::{ProxyFile, Source};
use trunkline_service::Page;
use trunkline_status::{ProxiesStatus, ProxyStatus};

const PAGE: &str = include_str!("../../../docs/proxy.md");

/// The keys that the reader knows in the table around `___`.
fn known(text: &str) -> BTreeSet<String> {
    let read = Source::parse("proxy.toml", text).and_then(|source| ProxyFile::of(&source));
    let mistakes = read.expect_err("___ is no key").to_string();
    let line = mistakes.lines().find(|line| line.contains("___: unknown key")).expect("it is reported");
    line.split_once("allowed: ").expect("what is allowed").1.split(", ").map(str::to_owned).collect()
}

#[test]
fn every_key_is_documented_and_no_other() {
    let mut keys = BTreeSet::new();
    for (table, text) in [
        ("control", "[control]\n___ = 1\n"),
        ("metrics", "[metrics]\nlisten = \"127.0.0.1:1\"\n___ = 1\n"),
        ("proxy", "[proxy]\n___ = 1\n"),
        ("proxies", "[[proxies]]\nname = \"a\"\nbehind = [\"10.0.0.0/8\"]\nmode = \"split\"\n___ = 1\n"),
    ] {
        keys.extend(known(text).into_iter().map(|key| format!("{table}.{key}")));
    }
    let section = PAGE.split_once("\n## The file\n").expect("the heading").1;
    let section = section.split("\n## ").next().unwrap_or_default();
    let documented: BTreeSet<String> = section
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned()))
        .collect();
    assert_eq!(documented, keys);
}

#[test]
fn the_file_on_the_page_is_one() {
    let blocks = PAGE.split("```toml\n").skip(1).filter_map(|rest| rest.split_once("\n```"));
    let mut read = 0;
    for (text, _) in blocks {
        let file = Source::parse("proxy.toml", text).and_then(|source| ProxyFile::of(&source));
        assert!(file.is_ok(), "{text}\n{}", file.unwrap_err());
        read += 1;
    }
    assert!(read >= 1, "{read} files");
}

#[test]
fn every_metric_is_documented_with_its_type_and_labels_and_no_other() {
    let mut page = Page::default();
    let status = ProxiesStatus { proxies: vec![ProxyStatus::default()], ..ProxiesStatus::default() };
    write_metrics(&mut page, &status);
    let mut served = BTreeSet::new();
    for line in page.0.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|head| head.split_once(' ')) {
            let sample = page
                .0
                .lines()
                .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
            let labels = sample.and_then(|sample| sample.split_once('{')).map_or("", |(_, rest)| rest);
            let labels = labels.split_once('}').map_or("", |(labels, _)| labels);
            let names: Vec<&str> =
                labels.split(',').filter_map(|label| label.split_once('=')).map(|(name, _)| name).collect();
            served.insert((name.to_owned(), kind.to_owned(), names.join(", ")));
        }
    }
    let row = |line: &str| {
        let name = line.strip_prefix("| `trunkline_proxy_")?;
        let mut cells = name.split('|').map(str::trim);
        let name = cells.next()?.trim_end_matches('`');
        let (kind, labels) = (cells.next()?, cells.next()?);
        Some((format!("trunkline_proxy_{name}"), kind.to_owned(), labels.to_owned()))
    };
    assert_eq!(PAGE.lines().filter_map(row).collect::<BTreeSet<_>>(), served);
}
